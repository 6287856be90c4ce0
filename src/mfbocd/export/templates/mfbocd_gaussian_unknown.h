/* Normal readings with unknown mean and variance, Normal-inverse-gamma prior. Part of mfbocd.
 * Readings are standardized: y = (x - prior mean) / sqrt(prior scale). */
#ifndef MFBOCD_GAUSSIAN_UNKNOWN_H
#define MFBOCD_GAUSSIAN_UNKNOWN_H

#include "mfbocd_unknown_noise.h"

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

/* The information in nats about theta given the noise, and about the noise. */
static inline mfbocd_real mfbocd_parameter_gain(const mfbocd_stats_t *s, mfbocd_real zeta)
{
    return MFBOCD_R(0.5) * mfbocd_log1p(zeta / s->count) +
           mfbocd_scale_gain(s->shape, MFBOCD_R(0.5) * mfbocd_deviations(zeta));
}

#endif
