/* Counts with a Gamma prior on their rate. Part of mfbocd.
 *
 * At zeta = 1 the predictive is the negative binomial. Below, the tempered predictive has no closed normalizer:
 * it is summed over the counts that matter, for every hypothesis, which takes far longer than the rest of a tick. */
#ifndef MFBOCD_POISSON_H
#define MFBOCD_POISSON_H

#include "mfbocd_gamma.h"

#if MFBOCD_DOUBLE
#define MFBOCD_LAST_COUNT 4503599627370496.0 /* 2^52, the largest reading */
#define MFBOCD_LARGE 1e5 /* beyond, terms of x log x are cancelled before rounding */
#define MFBOCD_LARGEST_TERM 600.0
#else
#define MFBOCD_LAST_COUNT 8388608.0f /* 2^23 */
#define MFBOCD_LARGE 10.0f
#define MFBOCD_LARGEST_TERM 80.0f
#endif
#define MFBOCD_END (2 * MFBOCD_LAST_COUNT - 1) /* sums end here; beyond, counts are not distinct numbers */
#define MFBOCD_HUGE_STAT MFBOCD_R(1e12)       /* no stream reaches larger statistics */
#define MFBOCD_STATS 2

typedef struct {
    mfbocd_real a; /* shape + sum of zeta x */
    mfbocd_real b; /* rate + sum of zeta */
} mfbocd_stats_t;

static inline mfbocd_stats_t mfbocd_prior(void)
{
    mfbocd_stats_t s;
    s.a = MFBOCD_PRIOR_SHAPE;
    s.b = MFBOCD_PRIOR_RATE;
    return s;
}

/* The largest whole number of at most x, for 0 <= x <= MFBOCD_END. */
static inline mfbocd_real mfbocd_whole(mfbocd_real x) { return (mfbocd_real)(uint64_t)x; }

static inline int mfbocd_possible(mfbocd_real x) { return x >= 0 && x <= MFBOCD_LAST_COUNT && x == mfbocd_whole(x); }
static inline mfbocd_real mfbocd_standard(mfbocd_real x) { return x; }

/* log Gamma(y) - (y - 1/2) log(y) + y - log(2 pi) / 2 for y > 0. */
static inline mfbocd_real mfbocd_stirling_remainder(mfbocd_real y)
{
    const mfbocd_real log_y = mfbocd_log(y);
    if (y >= 10)
        return mfbocd_stirling_tail(y);
    /* log Gamma(y) = log Gamma(y + 1) - log(y) */
    return mfbocd_log_gamma_ratio(1, y) - (y + MFBOCD_R(0.5)) * log_y + y - MFBOCD_R(0.91893853320467274178);
}

/* log of the tempered predictive, x!^-zeta Gamma(a + zeta x) / Gamma(a) b^a / (b + zeta)^(a + zeta x). */
static inline mfbocd_real mfbocd_tempered(const mfbocd_stats_t *s, mfbocd_real x, mfbocd_real zeta)
{
    const mfbocd_real a = s->a, b = s->b, step = zeta * x, later = a + step;
    mfbocd_real mean, apart, rest;
    if (later < MFBOCD_LARGE || x < 1)
        return mfbocd_log_gamma_ratio(a, step) - step * mfbocd_log(b + zeta) - a * mfbocd_log1p(zeta / b) -
               zeta * mfbocd_log_gamma_ratio(1, x);
    /* Terms of x log x cancel and leave the distances of the means before and after from the one between. */
    mean = a / b;
    apart = a * mfbocd_excess(zeta * (x - mean) / (b + zeta) / mean) +
            step * mfbocd_excess(-b * (x - mean) / (b + zeta) / x);
    rest = mfbocd_stirling_remainder(later) - mfbocd_stirling_remainder(a) - zeta * mfbocd_stirling_remainder(x);
    return rest - apart + MFBOCD_R(0.5) * mfbocd_log(a / later) -
           MFBOCD_R(0.5) * zeta * (mfbocd_log(x) + MFBOCD_R(1.8378770664093454836));
}

#if MFBOCD_SUMS
typedef struct {
    mfbocd_real log_norm; /* log of the sum of the tempered predictive over all counts */
    mfbocd_real mean;     /* of the normalized predictive */
} mfbocd_sums_t;

/* One term of the sums: count x with weight `share`; `top` is subtracted from the logs. */
static inline void mfbocd_add_count(const mfbocd_stats_t *s, mfbocd_real zeta, mfbocd_real centre, mfbocd_real top,
                                    mfbocd_real x, mfbocd_real share, mfbocd_sums_t *sums)
{
    const mfbocd_real v = mfbocd_tempered(s, x, zeta) - top;
    const mfbocd_real p = share * mfbocd_exp(mfbocd_clamp(v, MFBOCD_LOWEST_LOG, MFBOCD_LARGEST_TERM));
    sums->log_norm += p;
    sums->mean += p * (x - centre);
}

/* Sums over all counts. Blocks of 2^k counts are summed by a Gaussian quadrature of ten nodes (MFBOCD_NODE holds its
 * half, in units of the block); with `one_by_one`, ranges below 512 are summed count by count. */
static inline mfbocd_sums_t mfbocd_count_sums(const mfbocd_stats_t *s, mfbocd_real zeta, int one_by_one)
{
    const mfbocd_real centre = (s->a + MFBOCD_R(0.5) * (1 - zeta)) / s->b;
    const mfbocd_real sd = mfbocd_sqrt(centre * (1 / s->b + 1 / zeta));
    const mfbocd_real tail = 1 / (zeta * mfbocd_log1p(s->b / zeta));
    const mfbocd_real width = mfbocd_max(sd, tail);
    const mfbocd_real low = centre - 10 * sd - 12;
    const mfbocd_real high = mfbocd_min(centre + 10 * sd + 40 * tail + 13, MFBOCD_END);
    const mfbocd_real top = mfbocd_tempered(s, mfbocd_whole(mfbocd_min(centre, MFBOCD_END)), zeta);
    mfbocd_real at = low > 0 ? mfbocd_whole(low) : 0, end = mfbocd_whole(high), length, size, half;
    mfbocd_sums_t sums = {0, 0};
    int k, j;
    while (at <= end) {
        length = mfbocd_min(end - at + 1, MFBOCD_R(2.5) * width);
        length = mfbocd_min(length, mfbocd_min(at, (MFBOCD_END - at + 1) / 2)); /* poles at -1 and beyond the end */
        if (length < 32 || (one_by_one && high < 512)) {
            mfbocd_add_count(s, zeta, centre, top, at, 1, &sums);
            at += 1;
            continue;
        }
        for (k = 0, size = 32; 2 * size <= length; k++)
            size *= 2;
        if (k >= MFBOCD_NODE_SIZES)
            k = MFBOCD_NODE_SIZES - 1;
        half = MFBOCD_R(0.5) * (size - 1);
        for (j = 0; j < 5; j++) {
            const mfbocd_real d = size * MFBOCD_NODE[k][j], share = size * MFBOCD_NODE[k][5 + j];
            mfbocd_add_count(s, zeta, centre, top, at + half - d, share, &sums);
            mfbocd_add_count(s, zeta, centre, top, at + half + d, share, &sums);
        }
        at += size;
    }
    sums.mean = centre + sums.mean / sums.log_norm;
    sums.log_norm = top + mfbocd_log(sums.log_norm);
    return sums;
}
#endif

/* The predictive as *factor * exp(returned exponent). */
static inline mfbocd_real mfbocd_predictive(const mfbocd_stats_t *s, mfbocd_real x, mfbocd_real zeta,
                                            mfbocd_real *factor)
{
    *factor = 1;
#if MFBOCD_SUMS && !MFBOCD_PAPER
    if (zeta < 1)
        return mfbocd_tempered(s, x, zeta) - mfbocd_count_sums(s, zeta, 1).log_norm;
#endif
    return mfbocd_tempered(s, x, zeta);
}

static inline void mfbocd_absorb(mfbocd_stats_t *s, mfbocd_real x, mfbocd_real zeta)
{
    s->a += zeta * x;
    s->b += zeta;
}

static inline mfbocd_real mfbocd_log_unit(mfbocd_real zeta)
{
    (void)zeta;
    return 0;
}

/* The mean of the next reading. */
static inline mfbocd_real mfbocd_level(const mfbocd_stats_t *s) { return s->a / s->b; }

/* The variance of a full reading; mfbocd_level is its mean. */
static inline mfbocd_real mfbocd_full_variance(const mfbocd_stats_t *s) { return s->a / s->b * (1 + 1 / s->b); }

/* Var(theta) - E Var(theta | x). */
static inline mfbocd_real mfbocd_variance_gain(const mfbocd_stats_t *s, mfbocd_real zeta)
{
#if MFBOCD_SUMS
    if (zeta < 1) {
        /* a / b^2 - (a + zeta E x) / (b + zeta)^2 as one fraction, in which less cancels */
        const mfbocd_real b = s->b, later = b + zeta;
        return zeta * (s->a * (b + later) / (b * b) - mfbocd_count_sums(s, zeta, 0).mean) / (later * later);
    }
#else
    (void)zeta;
#endif
    return s->a / (s->b * s->b * (s->b + 1));
}

/* About I(theta; x) in nats: that of a normal reading with the same moments and zeta times the precision. */
static inline mfbocd_real mfbocd_parameter_gain(const mfbocd_stats_t *s, mfbocd_real zeta)
{
    return MFBOCD_R(0.5) * mfbocd_log1p(zeta / s->b);
}

#endif
