/* The run-length posterior: a weight per hypothesis "the regime began so many ticks ago". Part of mfbocd. */
#ifndef MFBOCD_FILTER_H
#define MFBOCD_FILTER_H

#include "mfbocd_math.h"

#if MFBOCD_FAMILY == MFBOCD_GAUSSIAN
#include "mfbocd_gaussian.h"
#elif MFBOCD_FAMILY == MFBOCD_GAUSSIAN_UNKNOWN
#include "mfbocd_gaussian_unknown.h"
#elif MFBOCD_FAMILY == MFBOCD_BERNOULLI
#include "mfbocd_bernoulli.h"
#elif MFBOCD_FAMILY == MFBOCD_ROBUST_TREND
#include "mfbocd_robust_trend.h"
#else
#include "mfbocd_poisson.h"
#endif

#if !MFBOCD_MAPPED
#define mfbocd_outward(y, tick) (y)
#endif

#define MFBOCD_ROWS (MFBOCD_K + 1) /* a tick adds one hypothesis before it prunes */
#define MFBOCD_NEVER UINT32_MAX

typedef struct {
    mfbocd_real weight; /* not normalized: the sum is mfbocd_t.total */
    uint32_t age;       /* ticks since the regime began; stays at UINT32_MAX */
    mfbocd_stats_t stats;
} mfbocd_row_t;

/* One stream. The caller owns the memory; all fields are plain values, so a copy is a snapshot. */
typedef struct {
    mfbocd_row_t row[MFBOCD_ROWS]; /* oldest first */
#if MFBOCD_GAIN == MFBOCD_GAIN_CHANGE
    mfbocd_row_t dropped[MFBOCD_KEPT]; /* hypotheses that pruning dropped, for the level before a change */
    uint8_t kept;                      /* how many, oldest first; all are older than row[0] */
#endif
    uint16_t rows;                 /* hypotheses in use */
    uint16_t limit;                /* prune when there are more */
    uint16_t best;                 /* the most probable one */
    uint32_t since_alarm;          /* ticks since the last alarm, MFBOCD_NEVER if none */
    uint64_t ticks;                /* ticks so far */
    uint64_t seed;                 /* of the resampling; mfbocd_init sets the exported one */
    mfbocd_real total;             /* sum of the weights */
    mfbocd_sum_t log_evidence;     /* log p(x_1 .. x_t) */
    mfbocd_sum_t spent;            /* cost of all readings */
    mfbocd_real mean;              /* E[x] of the coming tick */
    mfbocd_real p_change;          /* P(a change within the alarm's window) */
    mfbocd_real confidence;        /* of the change that the last alarm reported */
    uint64_t changed_at;           /* tick of that change + 1; 0 if there was none */
    uint8_t alarm;                 /* whether the last tick raised an alarm */
#if MFBOCD_POLICY == MFBOCD_BUDGET
    mfbocd_sum_t log_price; /* relative to MFBOCD_FIRST_LOG_PRICE */
    mfbocd_sum_t debt;      /* what was spent above the budget, in units (mfbocd_policy.h) */
    uint32_t budget_ticks;
#if MFBOCD_CAP_TICKS > 1
    uint8_t recent[MFBOCD_CAP_TICKS - 1]; /* fidelities of the last ticks, oldest first */
    uint16_t recents;                     /* how many there are */
#endif
#endif
} mfbocd_t;

/* --- pruning -------------------------------------------------------------------------------------------------- */

#if MFBOCD_RESAMPLE
/* Stratified optimal resampling (Fearnhead and Liu 2007): about k hypotheses survive, E[new weight] = old weight.
 * c solves sum_i min(w_i / c, 1) = k. Weights of at least c stay; each lighter one survives with probability w_i / c
 * and then weighs c. One uniform number places the strata, which are c wide. */
static inline void mfbocd_select(mfbocd_t *d, uint16_t k)
{
    mfbocd_real total = 0, c, left;
    int32_t heavy = -1;
    uint16_t i, heaviest = 0, kept = 0;
    for (i = 0; i < d->rows; i++) {
        total += d->row[i].weight;
        if (d->row[i].weight > d->row[heaviest].weight)
            heaviest = i;
    }
    c = total / (mfbocd_real)k;
    for (;;) { /* each round moves weights of at least c out of the sum, so c falls to the solution */
        mfbocd_real rest = 0;
        int32_t above = 0;
        for (i = 0; i < d->rows; i++) {
            if (d->row[i].weight >= c)
                above++;
            else
                rest += d->row[i].weight;
        }
        if (above <= heavy || above >= (int32_t)k)
            break;
        heavy = above;
        c = rest / (mfbocd_real)((int32_t)k - above);
    }
    left = c * mfbocd_uniform(d->seed, d->ticks - 1, 1);
    for (i = 0; i < d->rows; i++) {
        mfbocd_real *weight = &d->row[i].weight;
        if (*weight < c) {
            left -= *weight;
            *weight = left < 0 ? c : 0;
            left += *weight;
        }
        kept = (uint16_t)(kept + (*weight > 0));
    }
    if (kept == 0) /* only by rounding */
        d->row[heaviest].weight = total;
}
#else
/* Keep the k heaviest hypotheses; among equal ones the youngest stay. */
static inline void mfbocd_select(mfbocd_t *d, uint16_t k)
{
    uint16_t i, alive = 0, lightest;
    for (i = 0; i < d->rows; i++)
        alive = (uint16_t)(alive + (d->row[i].weight > 0));
    while (alive > k) {
        lightest = d->rows;
        for (i = 0; i < d->rows; i++)
            if (d->row[i].weight > 0 && (lightest == d->rows || d->row[i].weight < d->row[lightest].weight))
                lightest = i;
        d->row[lightest].weight = 0;
        alive--;
    }
}
#endif

#if MFBOCD_GAIN == MFBOCD_GAIN_CHANGE
/* Whether a hypothesis of this age did not begin within so many ticks and after the last alarm. */
static inline int mfbocd_is_old(const mfbocd_t *d, uint32_t age, uint32_t ticks)
{
    return age >= ticks || age >= d->since_alarm || age + UINT64_C(1) >= d->ticks; /* the start of the stream is no change */
}

static inline uint64_t mfbocd_part_of_window(const mfbocd_t *d, uint32_t age)
{
    const uint32_t parts = MFBOCD_KEPT - 2;
    return (d->ticks - 1 - age) / (MFBOCD_WITHIN / parts + (MFBOCD_WITHIN % parts > 0));
}

/* Keep what the gain needs of the hypotheses before `first`, the oldest that survives pruning: the heaviest of the old
 * ones, and of those that will be old later the first in each part of the window that outweighs everything before it. They
 * have no weight and never return, but take in every reading. `weight` is from before the pruning. */
static inline void mfbocd_keep_dropped(mfbocd_t *d, const mfbocd_real *weight, uint16_t first)
{
    mfbocd_real heaviest = 0;
    uint16_t i, pick = first;
    uint8_t j, kept = d->kept, earlier;
    if (mfbocd_is_old(d, d->row[first].age, MFBOCD_WITHIN)) {
        d->kept = 0;
        return;
    }
    for (i = 0; i < first && mfbocd_is_old(d, d->row[i].age, MFBOCD_WITHIN); i++) {
        if (weight[i] >= heaviest) {
            heaviest = weight[i];
            pick = i;
        }
    }
    if (pick < first) {
        d->dropped[0] = d->row[pick];
        kept = 1;
    }
    while (kept > 1 && mfbocd_is_old(d, d->dropped[1].age, MFBOCD_WITHIN)) {
        for (j = 1; j < kept; j++)
            d->dropped[j - 1] = d->dropped[j];
        kept--;
    }
    earlier = kept;
    for (; i < first; i++) {
        const int same = kept > 0 && !mfbocd_is_old(d, d->dropped[kept - 1].age, MFBOCD_WITHIN) &&
                         mfbocd_part_of_window(d, d->dropped[kept - 1].age) == mfbocd_part_of_window(d, d->row[i].age);
        if (weight[i] < heaviest || (same && kept > earlier))
            continue;
        if (same) { /* what was dropped later says more */
            kept--;
            earlier--;
        }
        if (kept < MFBOCD_KEPT) {
            d->dropped[kept++] = d->row[i];
            heaviest = weight[i];
        }
    }
    d->kept = kept;
}
#endif

/* Drop hypotheses, close the gaps, and set the next limit. */
static inline void mfbocd_prune(mfbocd_t *d)
{
    const uint16_t k = MFBOCD_K - MFBOCD_SLACK;
    uint16_t i, kept = 0, alive = 0;
#if MFBOCD_GAIN == MFBOCD_GAIN_CHANGE
    mfbocd_real before[MFBOCD_ROWS];
    for (i = 0; i < d->rows; i++)
        before[i] = d->row[i].weight;
#endif
    for (i = 0; i < d->rows; i++)
        alive = (uint16_t)(alive + (d->row[i].weight > 0));
    if (alive > k)
        mfbocd_select(d, k);
#if MFBOCD_GAIN == MFBOCD_GAIN_CHANGE
    for (i = 0; i < d->rows && !(d->row[i].weight > 0); i++)
        continue;
    if (i > 0 && i < d->rows)
        mfbocd_keep_dropped(d, before, i);
#endif
    d->total = 0;
    d->best = 0;
    for (i = 0; i < d->rows; i++) {
        if (!(d->row[i].weight > 0))
            continue;
        d->row[kept] = d->row[i];
        if (d->row[kept].weight > d->row[d->best].weight)
            d->best = kept;
        d->total += d->row[kept].weight;
        kept++;
    }
    d->rows = kept;
    d->limit = kept + MFBOCD_SLACK < MFBOCD_K ? (uint16_t)(kept + MFBOCD_SLACK) : MFBOCD_K;
}

/* --- one tick ------------------------------------------------------------------------------------------------- */

/* Add the hypothesis that a regime begins now. Returns the factor that turns weights into P(r_t | past). */
static inline mfbocd_real mfbocd_begin(mfbocd_t *d)
{
    mfbocd_row_t *new_row = &d->row[d->rows];
    uint16_t i;
    for (i = 0; i < d->rows; i++)
        if (d->row[i].age < UINT32_MAX)
            d->row[i].age++;
    if (d->since_alarm < MFBOCD_NEVER - 1)
        d->since_alarm++;
#if MFBOCD_GAIN == MFBOCD_GAIN_CHANGE
    for (i = 0; i < d->kept; i++)
        if (d->dropped[i].age < UINT32_MAX)
            d->dropped[i].age++;
#endif
    new_row->age = 0;
    new_row->stats = mfbocd_prior();
    d->ticks++;
    d->rows++;
    if (d->rows == 1) {
        new_row->weight = 1;
        return 1;
    }
    new_row->weight = d->total * MFBOCD_HAZARD / (1 - MFBOCD_HAZARD);
    return (1 - MFBOCD_HAZARD) / d->total;
}

/* Multiply the predicted weights by the predictive of a reading, and update the statistics. */
static inline void mfbocd_reweigh(mfbocd_t *d, mfbocd_real scale, mfbocd_real y, mfbocd_real zeta)
{
    mfbocd_real exponent[MFBOCD_ROWS], shift = 0, total = 0;
    const uint16_t probes[2] = {(uint16_t)(d->rows - 1), d->best};
    int plain = 0;
    uint16_t i;
#if MFBOCD_FAMILY == MFBOCD_ROBUST_TREND
    const mfbocd_real outlier = mfbocd_outlier(y, zeta);
    for (i = 0; i < d->rows; i++) {
        exponent[i] = mfbocd_learn(&d->row[i].stats, y, zeta, outlier);
        d->row[i].weight *= scale;
    }
#else
    for (i = 0; i < d->rows; i++) {
        mfbocd_real factor;
        exponent[i] = mfbocd_predictive(&d->row[i].stats, y, zeta, &factor);
        d->row[i].weight *= scale * factor;
        mfbocd_absorb(&d->row[i].stats, y, zeta);
    }
#endif
    /* If one term of the sum is representable the sum is. Otherwise divide by the largest, found by logarithms. */
    for (i = 0; i < 2; i++)
        plain |= d->row[probes[i]].weight > MFBOCD_SAFE_WEIGHT && exponent[probes[i]] > MFBOCD_SAFE_LOG;
    if (!plain) {
        int found = 0;
        for (i = 0; i < d->rows; i++) {
            if (d->row[i].weight > 0) {
                exponent[i] += mfbocd_log(d->row[i].weight);
                d->row[i].weight = 1;
                shift = found ? mfbocd_max(shift, exponent[i]) : exponent[i];
                found = 1;
            }
        }
    }
    for (i = 0; i < d->rows; i++) {
        mfbocd_real *weight = &d->row[i].weight;
        const mfbocd_real e = exponent[i] - shift;
        if (e < MFBOCD_LOWEST_LOG)
            *weight = 0;
        else if (*weight > 0 && e != 0)
            *weight *= mfbocd_exp(e);
        if (!(*weight > MFBOCD_TINY))
            *weight = 0;
        total += *weight;
    }
    d->total = total;
    mfbocd_add(&d->log_evidence, shift);
    mfbocd_add(&d->log_evidence, mfbocd_log(total) - mfbocd_log_unit(zeta));
}

/* Find the most probable hypothesis. It rarely changes: ties go to the previous one, then to the oldest. */
static inline void mfbocd_find_best(mfbocd_t *d)
{
    uint16_t i, first = 0;
    for (i = 1; i < d->rows; i++)
        if (d->row[i].weight > d->row[first].weight)
            first = i;
    if (d->row[d->best].weight < d->row[first].weight)
        d->best = first;
}

/* Weight of the regimes that began less than `ticks` ago. The start of the stream is not a change. */
static inline mfbocd_real mfbocd_weight_within(const mfbocd_t *d, uint32_t ticks)
{
    mfbocd_real sum = 0;
    uint16_t i;
    for (i = d->rows; i > 0 && d->row[i - 1].age < ticks; i--)
        if (d->row[i - 1].age + UINT64_C(1) < d->ticks)
            sum += d->row[i - 1].weight;
    return sum;
}

/* One alarm per change: only regimes that began after the last alarm count towards the next. */
static inline void mfbocd_decide_alarm(mfbocd_t *d)
{
    const uint32_t window = d->since_alarm < MFBOCD_WITHIN ? d->since_alarm : MFBOCD_WITHIN;
    const mfbocd_real recent = mfbocd_weight_within(d, MFBOCD_WITHIN);
    const mfbocd_real counted = window == MFBOCD_WITHIN ? recent : mfbocd_weight_within(d, window);
    uint16_t i, best = (uint16_t)(d->rows - 1);
    d->p_change = mfbocd_min(recent / d->total, 1);
    d->alarm = counted >= MFBOCD_THRESHOLD * d->total;
    if (!d->alarm)
        return;
    for (i = d->rows; i > 0 && d->row[i - 1].age < window && d->row[i - 1].age + UINT64_C(1) < d->ticks; i--)
        if (d->row[i - 1].weight > d->row[best].weight)
            best = (uint16_t)(i - 1);
    d->since_alarm = 0;
    d->changed_at = d->ticks - d->row[best].age;
    d->confidence = mfbocd_min(counted / d->total, 1);
}

/* E over the run length of the coming tick of one number per hypothesis; a new regime has the prior's. */
static inline mfbocd_real mfbocd_expect(const mfbocd_t *d, mfbocd_real (*value)(const mfbocd_stats_t *))
{
    const mfbocd_stats_t prior = mfbocd_prior();
    mfbocd_real sum = 0;
    uint16_t i;
    for (i = 0; i < d->rows; i++)
        sum += d->row[i].weight * value(&d->row[i].stats);
    return (1 - MFBOCD_HAZARD) * sum / d->total + MFBOCD_HAZARD * value(&prior);
}

/* Advance by one tick; zeta = 0 means that nothing was read and only time passes. */
static inline void mfbocd_tick(mfbocd_t *d, mfbocd_real x, mfbocd_real zeta)
{
    mfbocd_real scale;
    uint16_t i;
#if MFBOCD_GAIN == MFBOCD_GAIN_CHANGE
    if (d->kept > 0 && mfbocd_is_old(d, d->row[0].age, MFBOCD_WITHIN - 1)) /* as after an alarm */
        d->kept = 0;
    for (i = 0; i < d->kept; i++) {
        if (zeta > 0)
            mfbocd_absorb(&d->dropped[i].stats, mfbocd_standard(x), zeta);
#if MFBOCD_FAMILY == MFBOCD_ROBUST_TREND
        else
            mfbocd_skip(&d->dropped[i].stats);
#endif
    }
#endif
    scale = mfbocd_begin(d);
    if (zeta > 0) {
        mfbocd_reweigh(d, scale, mfbocd_standard(x), zeta);
    } else {
        d->total = 0;
        for (i = 0; i < d->rows; i++) {
            d->row[i].weight *= scale;
            d->total += d->row[i].weight;
#if MFBOCD_FAMILY == MFBOCD_ROBUST_TREND
            mfbocd_skip(&d->row[i].stats);
#endif
        }
    }
    if (d->rows > d->limit)
        mfbocd_prune(d);
    else
        mfbocd_find_best(d);
    mfbocd_decide_alarm(d);
    d->mean = mfbocd_outward(MFBOCD_OFFSET + MFBOCD_UNIT * mfbocd_expect(d, mfbocd_level), d->ticks);
}

#endif
