/* Normal readings with unknown mean and variance, Normal-inverse-gamma prior. Part of mfbocd.
 * Readings are standardized: y = (x - prior mean) / sqrt(prior scale). */
#ifndef MFBOCD_GAUSSIAN_UNKNOWN_H
#define MFBOCD_GAUSSIAN_UNKNOWN_H

#include "mfbocd_gamma.h"

/* Readings further out count as exactly this far: sums of squares of larger distances would overflow. */
#if MFBOCD_DOUBLE
#define MFBOCD_FAR 1e100
#else
#define MFBOCD_FAR 1e12f
#endif
#define MFBOCD_HUGE_STAT (MFBOCD_FAR * MFBOCD_FAR * MFBOCD_R(1e9)) /* no stream reaches larger statistics */
#define MFBOCD_STATS 4

typedef struct {
    mfbocd_real count; /* readings that the mean is worth */
    mfbocd_real mean;  /* posterior mean of theta, standardized */
    mfbocd_real shape; /* of the inverse gamma posterior of the noise variance */
    mfbocd_real scale; /* of the same, standardized */
} mfbocd_stats_t;

static inline mfbocd_stats_t mfbocd_prior(void)
{
    mfbocd_stats_t s;
    s.count = MFBOCD_PRIOR_COUNT;
    s.mean = 0;
    s.shape = MFBOCD_PRIOR_SHAPE;
    s.scale = 1;
    return s;
}

static inline int mfbocd_possible(mfbocd_real x) { return mfbocd_finite(x); }

static inline mfbocd_real mfbocd_standard(mfbocd_real x)
{
    return mfbocd_clamp((x - MFBOCD_OFFSET) / MFBOCD_UNIT, -MFBOCD_FAR, MFBOCD_FAR);
}

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

/* The predictive as *factor * exp(returned exponent): Student's t with 2 shape + deviations - 1 degrees of freedom, or
 * for the paper's predictive the integral of the likelihood to the power of zeta. */
static inline mfbocd_real mfbocd_predictive(const mfbocd_stats_t *s, mfbocd_real y, mfbocd_real zeta,
                                            mfbocd_real *factor)
{
    const mfbocd_real pull = zeta * s->count / (s->count + zeta);
    const mfbocd_real d = y - s->mean;
    const mfbocd_real lift = MFBOCD_R(0.5) * pull * d * d; /* what the reading adds to the scale */
    const mfbocd_real fall = (s->shape + MFBOCD_R(0.5) * mfbocd_deviations(zeta)) * mfbocd_log1p(lift / s->scale);
    mfbocd_real square, series;
#if MFBOCD_PAPER
    if (zeta < 1) {
        *factor = mfbocd_sqrt(pull / zeta);
        return mfbocd_log_gamma_ratio(s->shape, MFBOCD_R(0.5) * zeta) -
               MFBOCD_R(0.5) * zeta * (MFBOCD_R(1.8378770664093454836) + mfbocd_log(s->scale)) - fall;
    }
#endif
    series = mfbocd_half_gamma_ratio(s->shape + MFBOCD_R(0.5) * (mfbocd_deviations(zeta) - 1), &square);
    *factor = mfbocd_sqrt(square * pull / s->scale) * MFBOCD_R(0.39894228040143267794); /* 1 / sqrt(2 pi) */
    return series - fall;
}

static inline void mfbocd_absorb(mfbocd_stats_t *s, mfbocd_real y, mfbocd_real zeta)
{
    const mfbocd_real pull = zeta * s->count / (s->count + zeta);
    const mfbocd_real d = y - s->mean;
    s->mean += zeta / (s->count + zeta) * d;
    s->scale += MFBOCD_R(0.5) * pull * d * d;
    s->count += zeta;
    s->shape += MFBOCD_R(0.5) * mfbocd_deviations(zeta);
}

/* What the log density of a reading in its own unit has beyond that of y. */
static inline mfbocd_real mfbocd_log_unit(mfbocd_real zeta)
{
#if MFBOCD_PAPER
    return zeta * MFBOCD_LOG_UNIT;
#else
    (void)zeta;
    return MFBOCD_LOG_UNIT;
#endif
}

/* The mean of the next reading, standardized. */
static inline mfbocd_real mfbocd_level(const mfbocd_stats_t *s) { return s->mean; }

/* The reduction of Var(theta | noise) in units of the noise. */
static inline mfbocd_real mfbocd_variance_gain(const mfbocd_stats_t *s, mfbocd_real zeta)
{
    return zeta / (s->count * (s->count + zeta));
}

/* The variance of a full reading, standardized; mfbocd_level is its mean. */
static inline mfbocd_real mfbocd_full_variance(const mfbocd_stats_t *s)
{
    return s->shape > 1 ? s->scale * (s->count + 1) / (s->count * (s->shape - 1)) : MFBOCD_R(INFINITY);
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

/* The information in nats about theta given the noise, and about the noise. */
static inline mfbocd_real mfbocd_parameter_gain(const mfbocd_stats_t *s, mfbocd_real zeta)
{
    return MFBOCD_R(0.5) * mfbocd_log1p(zeta / s->count) +
           mfbocd_scale_gain(s->shape, MFBOCD_R(0.5) * mfbocd_deviations(zeta));
}

#endif
