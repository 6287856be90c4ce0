/* Zeros and ones with a Beta prior on the probability of a one. Part of mfbocd. */
#ifndef MFBOCD_BERNOULLI_H
#define MFBOCD_BERNOULLI_H

#include "mfbocd_gamma.h"

#define MFBOCD_STATS 3 /* in saved bytes, where 1 / (a + b) is the third */
#define MFBOCD_HUGE_STAT MFBOCD_R(1e12) /* no stream reaches larger statistics */

typedef struct {
    mfbocd_real a; /* alpha + sum of zeta x */
    mfbocd_real b; /* beta + sum of zeta (1 - x) */
} mfbocd_stats_t;

static inline mfbocd_stats_t mfbocd_prior(void)
{
    mfbocd_stats_t s;
    s.a = MFBOCD_PRIOR_ALPHA;
    s.b = MFBOCD_PRIOR_BETA;
    return s;
}

static inline int mfbocd_possible(mfbocd_real x) { return x == 0 || x == 1; }
static inline mfbocd_real mfbocd_standard(mfbocd_real x) { return x; }

/* Gamma(u + zeta) Gamma(v) / (Gamma(u) Gamma(v + zeta)): both shifted up by ten, then the difference of the series
 * of log Gamma(z + zeta) - log Gamma(z) about the midpoint z + (zeta - 1) / 2. */
static inline mfbocd_real mfbocd_quotient(mfbocd_real u, mfbocd_real v, mfbocd_real zeta)
{
    const mfbocd_real w = zeta * zeta, b = zeta * (w - 1);
    const mfbocd_real c1 = b / 24, c2 = b * (3 * w - 7) / 960, c3 = b * ((3 * w - 18) * w + 31) / 8064;
    const mfbocd_real c4 = b * (((5 * w - 55) * w + 239) * w - 381) / 92160;
    const mfbocd_real c5 = b * (w - 5) * (((3 * w - 37) * w + 225) * w - 511) / 337920;
    const mfbocd_real p = (((105 * w - 2625) * w + 32410) * w - 233570) * w + 910573;
    const mfbocd_real c6 = b * (p * w - 1414477) / 67092480;
    const mfbocd_real yu = u + (MFBOCD_R(9.5) + MFBOCD_R(0.5) * zeta);
    const mfbocd_real yv = v + (MFBOCD_R(9.5) + MFBOCD_R(0.5) * zeta);
    const mfbocd_real su = 1 / (yu * yu), sv = 1 / (yv * yv);
    const mfbocd_real eu = su * (c1 + su * (c2 + su * (c3 + su * (c4 + su * (c5 + su * c6)))));
    const mfbocd_real ev = sv * (c1 + sv * (c2 + sv * (c3 + sv * (c4 + sv * (c5 + sv * c6)))));
    return mfbocd_exp(zeta * mfbocd_log(yu / yv) + ev - eu) * mfbocd_rising_ratio(u, u + zeta) *
           mfbocd_rising_ratio(v + zeta, v);
}

/* P(x = 1), normalized over both outcomes. */
static inline mfbocd_real mfbocd_p_one(const mfbocd_stats_t *s, mfbocd_real zeta)
{
    return zeta == 1 ? s->a / (s->a + s->b) : 1 / (1 + mfbocd_quotient(s->b, s->a, zeta));
}

/* The predictive as *factor * exp(returned exponent). */
static inline mfbocd_real mfbocd_predictive(const mfbocd_stats_t *s, mfbocd_real x, mfbocd_real zeta,
                                            mfbocd_real *factor)
{
    const mfbocd_real hit = x == 1 ? s->a : s->b, miss = x == 1 ? s->b : s->a;
    if (zeta == 1)
        *factor = hit / (hit + miss);
    else
#if MFBOCD_PAPER
        *factor = mfbocd_quotient(hit, hit + miss, zeta);
#else
        *factor = 1 / (1 + mfbocd_quotient(miss, hit, zeta));
#endif
    return 0;
}

static inline void mfbocd_absorb(mfbocd_stats_t *s, mfbocd_real x, mfbocd_real zeta)
{
    if (x == 1)
        s->a += zeta;
    else
        s->b += zeta;
}

static inline mfbocd_real mfbocd_log_unit(mfbocd_real zeta)
{
    (void)zeta;
    return 0;
}

/* The mean of the next reading. */
static inline mfbocd_real mfbocd_level(const mfbocd_stats_t *s) { return s->a / (s->a + s->b); }

/* The variance of a full reading; mfbocd_level is its mean. */
static inline mfbocd_real mfbocd_full_variance(const mfbocd_stats_t *s)
{
    return s->a / (s->a + s->b) * (s->b / (s->a + s->b));
}

/* Var(theta) - E Var(theta | x), with the leading terms cancelled by hand. */
static inline mfbocd_real mfbocd_variance_gain(const mfbocd_stats_t *s, mfbocd_real zeta)
{
    const mfbocd_real p1 = mfbocd_p_one(s, zeta), n = s->a + s->b, m = n + zeta;
    const mfbocd_real variance = s->a / n * (s->b / n) / (n + 1);
    return zeta * (variance * (m * m + m * n + n * n + m + n) - (p1 * s->b + (1 - p1) * s->a)) / (m * m * (m + 1));
}

/* zeta psi(z + zeta) - log(Gamma(z + zeta) / Gamma(z)), about zeta^2 / (2 z). */
static inline mfbocd_real mfbocd_gamma_excess(mfbocd_real z, mfbocd_real zeta)
{
    const mfbocd_real y = z + zeta;
    if (z < 10)
        return zeta * mfbocd_digamma(y) - mfbocd_log_gamma_ratio(z, zeta);
    /* Stirling's formula, in which terms of z log z cancel */
    return z * mfbocd_excess(zeta / z) + MFBOCD_R(0.5) * mfbocd_excess(-zeta / y) - zeta * mfbocd_digamma_remainder(y) +
           (mfbocd_stirling_tail(z) - mfbocd_stirling_tail(y));
}

/* I(theta; x) = E KL(theta after x || theta before) in nats, with P(x = 1) = p1. */
static inline mfbocd_real mfbocd_divergence(const mfbocd_stats_t *s, mfbocd_real zeta, mfbocd_real p1)
{
    return p1 * mfbocd_gamma_excess(s->a, zeta) + (1 - p1) * mfbocd_gamma_excess(s->b, zeta) -
           mfbocd_gamma_excess(s->a + s->b, zeta);
}

static inline mfbocd_real mfbocd_parameter_gain(const mfbocd_stats_t *s, mfbocd_real zeta)
{
    return mfbocd_divergence(s, zeta, mfbocd_p_one(s, zeta));
}

#endif
