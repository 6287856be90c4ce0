/* What the families with an unknown noise variance share. Part of mfbocd. */
#ifndef MFBOCD_UNKNOWN_NOISE_H
#define MFBOCD_UNKNOWN_NOISE_H

#include "mfbocd_gamma.h"

/* log(Gamma(s + 1/2) / Gamma(s)) = log(*square) / 2 + returned number, for s > 0. */
static inline mfbocd_real mfbocd_half_gamma_ratio(mfbocd_real s, mfbocd_real *square)
{
    const mfbocd_real y = s + MFBOCD_R(9.75), v = 1 / (y * y);
    const mfbocd_real q = mfbocd_rising_ratio(s, s + MFBOCD_R(0.5));
    *square = y * q * q;
    return v * (MFBOCD_R(1.0 / 64) -
                v * (MFBOCD_R(5.0 / 2048) -
                     v * (MFBOCD_R(61.0 / 49152) -
                          v * (MFBOCD_R(1385.0 / 1048576) -
                               v * (MFBOCD_R(50521.0 / 20971520) - v * MFBOCD_R(2702765.0 / 402653184))))));
}

/* As how many squared deviations a reading counts in what is learned about the noise: it has the noise variance over
 * zeta, or, tempered, it is a fraction zeta of a full reading. */
static inline mfbocd_real mfbocd_deviations(mfbocd_real zeta)
{
#if MFBOCD_TEMPERED
    return zeta;
#else
    return zeta > 0 ? MFBOCD_R(1.0) : MFBOCD_R(0.0);
#endif
}

/* psi(s + d) - psi(s) for s >= 10 and d >= 0, without cancellation. */
static inline mfbocd_real mfbocd_digamma_rise(mfbocd_real s, mfbocd_real d)
{
    const mfbocd_real z = s + d, u = 1 / (s * s), v = 1 / (z * z);
    const mfbocd_real su = u * (MFBOCD_R(1.0 / 12) -
                                u * (MFBOCD_R(1.0 / 120) -
                                     u * (MFBOCD_R(1.0 / 252) - u * (MFBOCD_R(1.0 / 240) - u * MFBOCD_R(1.0 / 132)))));
    const mfbocd_real sv = v * (MFBOCD_R(1.0 / 12) -
                                v * (MFBOCD_R(1.0 / 120) -
                                     v * (MFBOCD_R(1.0 / 252) - v * (MFBOCD_R(1.0 / 240) - v * MFBOCD_R(1.0 / 132)))));
    return mfbocd_log1p(d / s) + MFBOCD_R(0.5) * d / (s * z) + (su - sv);
}

/* log Gamma(y) + y - y psi(y) + log(y) / 2 less its limit, y >= 10. */
static inline mfbocd_real mfbocd_entropy_tail(mfbocd_real y)
{
    const mfbocd_real r = 1 / y, v = r * r;
    return r * (MFBOCD_R(1.0 / 6) -
                v * (MFBOCD_R(1.0 / 90) -
                     v * (MFBOCD_R(1.0 / 210) -
                          v * (MFBOCD_R(1.0 / 210) - v * (MFBOCD_R(5.0 / 594) - v * MFBOCD_R(691.0 / 30030))))));
}

/* The information in nats of a reading that adds d to the shape a: f(a) - f(a + d), with
 * f(s) = log Gamma(s) + s - s psi(s). */
static inline mfbocd_real mfbocd_scale_gain(mfbocd_real a, mfbocd_real d)
{
    const mfbocd_real y = a >= 10 ? a : a + 10;
    mfbocd_real gain = MFBOCD_R(0.5) * mfbocd_log1p(d / y) + (mfbocd_entropy_tail(y) - mfbocd_entropy_tail(y + d));
    int j;
    if (a < 10) {
        /* f(s) = f(s + 10) + 10 psi(s + 10) - sum_j j / (s + j) - log(s (s + 1) .. (s + 9)) */
        gain += mfbocd_log(mfbocd_rising_ratio(a + d, a)) - 10 * mfbocd_digamma_rise(y, d);
        for (j = 1; j < 10; j++)
            gain -= (mfbocd_real)j * d / ((a + (mfbocd_real)j) * (a + (mfbocd_real)j + d));
    }
    return mfbocd_max(gain, 0);
}

#endif
