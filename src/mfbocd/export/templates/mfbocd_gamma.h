/* Gamma and digamma functions: shifted up, then Stirling's series. Part of mfbocd. */
#ifndef MFBOCD_GAMMA_H
#define MFBOCD_GAMMA_H

#include "mfbocd_math.h"

/* z (z + 1) ... (z + 9), in pairs from both ends. */
static inline mfbocd_real mfbocd_rising_ten(mfbocd_real z)
{
    const mfbocd_real t = z * (z + 9);
    return t * (t + 8) * (t + 14) * (t + 18) * (t + 20);
}

/* rising_ten(u) / rising_ten(v), factor by factor: the products themselves would overflow a float. */
static inline mfbocd_real mfbocd_rising_ratio(mfbocd_real u, mfbocd_real v)
{
#if MFBOCD_DOUBLE
    return mfbocd_rising_ten(u) / mfbocd_rising_ten(v);
#else
    const mfbocd_real s = u * (u + 9), t = v * (v + 9);
    return (s / t) * ((s + 8) / (t + 8)) * ((s + 14) / (t + 14)) * ((s + 18) / (t + 18)) * ((s + 20) / (t + 20));
#endif
}

/* log Gamma(y) - (y - 1/2) log(y) + y - log(2 pi) / 2 for y >= 10: the remainder of Stirling's formula. */
static inline mfbocd_real mfbocd_stirling_tail(mfbocd_real y)
{
    const mfbocd_real r = 1 / y, v = r * r;
    return r * (MFBOCD_R(1.0 / 12) -
                v * (MFBOCD_R(1.0 / 360) -
                     v * (MFBOCD_R(1.0 / 1260) -
                          v * (MFBOCD_R(1.0 / 1680) - v * (MFBOCD_R(1.0 / 1188) - v * MFBOCD_R(691.0 / 360360))))));
}

/* log(Gamma(s + d) / Gamma(s)) for s > 0 and d >= 0. */
static inline mfbocd_real mfbocd_log_gamma_ratio(mfbocd_real s, mfbocd_real d)
{
    const mfbocd_real y = s + 10;
    return (y - MFBOCD_R(0.5)) * mfbocd_log1p(d / y) + d * (mfbocd_log(y + d) - 1) +
           (mfbocd_stirling_tail(y + d) - mfbocd_stirling_tail(y)) + mfbocd_log(mfbocd_rising_ratio(s, s + d));
}

/* d/dz log Gamma(z) for z > 0. */
static inline mfbocd_real mfbocd_digamma(mfbocd_real z)
{
    const mfbocd_real y = z + 8, s = 1 / (y * y);
    mfbocd_real low = 0; /* sum of 1 / (z + j), j < 8 */
    int j;
    for (j = 0; j < 8; j++)
        low += 1 / (z + (mfbocd_real)j);
    return mfbocd_log(y) - MFBOCD_R(0.5) / y -
           s * (MFBOCD_R(1.0 / 12) -
                s * (MFBOCD_R(1.0 / 120) -
                     s * (MFBOCD_R(1.0 / 252) -
                          s * (MFBOCD_R(1.0 / 240) - s * (MFBOCD_R(1.0 / 132) - s * MFBOCD_R(691.0 / 32760)))))) -
           low;
}

/* t - log(1 + t) for t > -1, without cancellation. */
static inline mfbocd_real mfbocd_excess(mfbocd_real t)
{
    const mfbocd_real u = t / (2 + t), v = u * u;
    mfbocd_real p = MFBOCD_R(1.0 / 17);
    int j;
    if (mfbocd_abs(t) >= MFBOCD_R(0.25))
        return t - mfbocd_log(1 + t);
    for (j = 15; j >= 3; j -= 2) /* log(1 + t) = 2 (u + u^3 / 3 + u^5 / 5 + ..), and t - 2 u = t u */
        p = 1 / (mfbocd_real)j + v * p;
    return u * (t - 2 * v * p);
}

/* log(y) - 1 / (2 y) - psi(y) for y > 0. */
static inline mfbocd_real mfbocd_digamma_remainder(mfbocd_real y)
{
    const mfbocd_real s = 1 / (y * y);
    if (y < 10)
        return mfbocd_log(y) - MFBOCD_R(0.5) / y - mfbocd_digamma(y);
    return s * (MFBOCD_R(1.0 / 12) -
                s * (MFBOCD_R(1.0 / 120) -
                     s * (MFBOCD_R(1.0 / 252) -
                          s * (MFBOCD_R(1.0 / 240) - s * (MFBOCD_R(1.0 / 132) - s * MFBOCD_R(691.0 / 32760))))));
}

#endif
