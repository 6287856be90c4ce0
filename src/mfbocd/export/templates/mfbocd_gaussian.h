/* Normal readings with known variance, normal prior on their mean: theta ~ N(mean, var), x ~ N(theta, noise / zeta).
 * Part of mfbocd. Readings are standardized: y = (x - prior mean) / sd of the noise. */
#ifndef MFBOCD_GAUSSIAN_H
#define MFBOCD_GAUSSIAN_H

#include "mfbocd_math.h"

/* Readings further out count as exactly this far: squares of larger distances would overflow. */
#if MFBOCD_DOUBLE
#define MFBOCD_FAR 1e140
#else
#define MFBOCD_FAR 1e18f
#endif
#define MFBOCD_HUGE_STAT (MFBOCD_FAR * MFBOCD_R(1e15)) /* no stream reaches larger statistics */
#define MFBOCD_STATS 2

typedef struct {
    mfbocd_real count; /* noise variance / variance of theta; each reading adds zeta */
    mfbocd_real mean;  /* posterior mean of theta, standardized */
} mfbocd_stats_t;

static inline mfbocd_stats_t mfbocd_prior(void)
{
    mfbocd_stats_t s;
    s.count = MFBOCD_PRIOR_COUNT;
    s.mean = 0;
    return s;
}

static inline int mfbocd_possible(mfbocd_real x) { return mfbocd_finite(x); }

static inline mfbocd_real mfbocd_standard(mfbocd_real x)
{
    return mfbocd_clamp((x - MFBOCD_OFFSET) / MFBOCD_UNIT, -MFBOCD_FAR, MFBOCD_FAR);
}

/* The predictive N(y | mean, 1/zeta + 1/count) as *factor * exp(returned exponent). */
static inline mfbocd_real mfbocd_predictive(const mfbocd_stats_t *s, mfbocd_real y, mfbocd_real zeta,
                                            mfbocd_real *factor)
{
    const mfbocd_real k = zeta * s->count / (s->count + zeta); /* 1 / variance */
    const mfbocd_real d = y - s->mean;
    *factor = mfbocd_sqrt(k) * MFBOCD_R(0.39894228040143267794); /* 1 / sqrt(2 pi) */
    return MFBOCD_R(-0.5) * k * d * d;
}

static inline void mfbocd_absorb(mfbocd_stats_t *s, mfbocd_real y, mfbocd_real zeta)
{
    s->mean += zeta / (s->count + zeta) * (y - s->mean);
    s->count += zeta;
}

/* What the log density of a reading in its own unit has beyond that of y. */
static inline mfbocd_real mfbocd_log_unit(mfbocd_real zeta)
{
    (void)zeta;
    return MFBOCD_LOG_UNIT;
}

/* The mean of the next reading, standardized. */
static inline mfbocd_real mfbocd_level(const mfbocd_stats_t *s) { return s->mean; }

/* Var(theta) - Var(theta | x), in units of the noise variance. */
static inline mfbocd_real mfbocd_variance_gain(const mfbocd_stats_t *s, mfbocd_real zeta)
{
    return zeta / (s->count * (s->count + zeta));
}

/* The variance of a full reading, standardized; mfbocd_level is its mean. */
static inline mfbocd_real mfbocd_full_variance(const mfbocd_stats_t *s) { return 1 + 1 / s->count; }

/* I(theta; x) in nats. */
static inline mfbocd_real mfbocd_parameter_gain(const mfbocd_stats_t *s, mfbocd_real zeta)
{
    return MFBOCD_R(0.5) * mfbocd_log1p(zeta / s->count);
}

#endif
