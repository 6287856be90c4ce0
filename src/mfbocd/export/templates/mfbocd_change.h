/* What a reading is worth for detecting a change. Part of mfbocd.
 *
 * If hypothesis i, which began recently, is true, a reading at zeta moves the log odds of a change by about zeta D_i,
 * where D_i is the divergence of its predictive from that of the older hypotheses. So it saves zeta full readings, as
 * long as the change is large enough to be found:
 *
 *     Q = sum over recent i of w_i D_i / (D_i + 0.1),  gain = zeta Q + E_r I(theta; x | r)
 *
 * Recent hypotheses are those that count towards the next alarm: they began within its window, after the last. Those
 * of the window that the last alarm reported count as well, times the probability that there was no change. */
#ifndef MFBOCD_CHANGE_H
#define MFBOCD_CHANGE_H

#include "mfbocd_filter.h"

#define MFBOCD_SMALL MFBOCD_R(0.1) /* divergence in nats per full reading at which a change counts half */

/* KL of the predictive of a full reading under one hypothesis from one with mean m0 and variance v0. */
static inline mfbocd_real mfbocd_kl(const mfbocd_stats_t *s, mfbocd_real m0, mfbocd_real v0)
{
#if MFBOCD_FAMILY == MFBOCD_BERNOULLI
    const mfbocd_real p = mfbocd_level(s), q = 1 - p, least = MFBOCD_R(FLT_MIN);
    const mfbocd_real p0 = mfbocd_max(m0, least), q0 = mfbocd_max(1 - m0, MFBOCD_DOUBLE ? MFBOCD_R(1e-16) : least);
    (void)v0;
    return mfbocd_max(p * mfbocd_log(mfbocd_max(p, least) / p0) + q * mfbocd_log(mfbocd_max(q, least) / q0), 0);
#else
    const mfbocd_real v = mfbocd_full_variance(s), d = mfbocd_level(s) - m0, ratio = v / v0;
    if (!mfbocd_finite(v) && !mfbocd_finite(v0))
        return 0;
    if (!mfbocd_finite(v) || !mfbocd_finite(v0))
        return MFBOCD_R(INFINITY);
    return mfbocd_max(MFBOCD_R(0.5) * (ratio - 1 - mfbocd_log(ratio) + d * d / v0), 0);
#endif
}

/* Weight, mean and variance of a full reading under the oldest `count` hypotheses; 0 if they have no weight. */
static inline mfbocd_real mfbocd_moments_until(const mfbocd_t *d, uint16_t count, mfbocd_real *mean,
                                               mfbocd_real *variance)
{
    mfbocd_real total = 0, first = 0, second = 0;
    uint16_t i;
    for (i = 0; i < count; i++) {
        const mfbocd_row_t *row = &d->row[i];
        if (row->weight > 0) { /* a variance may be infinite */
            total += row->weight;
            first += row->weight * mfbocd_level(&row->stats);
            second += row->weight * mfbocd_full_variance(&row->stats);
        }
    }
    if (!(total > 0))
        return 0;
    *mean = first / total;
    for (i = 0; i < count; i++) {
        const mfbocd_real apart = mfbocd_level(&d->row[i].stats) - *mean;
        second += d->row[i].weight * apart * apart;
    }
    *variance = second / total;
    return total;
}

/* The number of hypotheses that did not begin within so many ticks; the start of the stream is no change. */
static inline uint16_t mfbocd_older(const mfbocd_t *d, uint32_t ticks)
{
    uint16_t old = d->rows;
    while (old > 0 && d->row[old - 1].age < ticks && d->row[old - 1].age + UINT64_C(1) < d->ticks)
        old--;
    return old;
}

/* Sum of w_i D_i / (D_i + 0.1) over the hypotheses from `start` to before `end`; d->rows is the next regime. */
static inline mfbocd_real mfbocd_shown(const mfbocd_t *d, uint16_t start, uint16_t end, mfbocd_real mean,
                                       mfbocd_real variance)
{
    const mfbocd_stats_t prior = mfbocd_prior();
    mfbocd_real sum = 0;
    uint16_t i;
    for (i = start; i < end; i++) {
        const mfbocd_real w = mfbocd_predicted(d, i);
        const mfbocd_real kl = mfbocd_kl(i < d->rows ? &d->row[i].stats : &prior, mean, variance);
        if (w > 0)
            sum += w * (mfbocd_finite(kl) ? kl / (kl + MFBOCD_SMALL) : 1);
    }
    return sum;
}

/* The statistics that stand for the oldest `old` hypotheses if these have no weight: of the newest of them, also of
 * those that pruning dropped. 0 before the first tick. */
static inline const mfbocd_stats_t *mfbocd_reference(const mfbocd_t *d, uint16_t old)
{
    uint8_t j = d->kept;
    if (d->rows == 0)
        return 0;
    if (old > 0)
        return &d->row[old - 1].stats;
    if (j == 0) /* a state from elsewhere, without the dropped hypotheses */
        return &d->row[0].stats;
    for (j--; j > 0 && !mfbocd_is_old(d, d->dropped[j].age, MFBOCD_WITHIN - 1);)
        j--;
    return &d->dropped[j].stats;
}

/* Q: the probability of a change that counts towards the next alarm, or of one that was reported and is in doubt,
 * weighed by how quickly readings would show it. */
static inline mfbocd_real mfbocd_change_weight(const mfbocd_t *d)
{
    const uint16_t old = mfbocd_older(d, d->since_alarm < MFBOCD_WITHIN - 1 ? d->since_alarm : MFBOCD_WITHIN - 1);
    const uint16_t start = mfbocd_older(d, MFBOCD_WITHIN - 1);
    mfbocd_real mean, variance, sum, before = 0;
    uint16_t i;
    if (!(mfbocd_moments_until(d, old, &mean, &variance) > 0)) {
        const mfbocd_stats_t *reference = mfbocd_reference(d, old);
        if (!reference)
            return 0;
        mean = mfbocd_level(reference);
        variance = mfbocd_full_variance(reference);
    }
    sum = mfbocd_shown(d, old, (uint16_t)(d->rows + 1), mean, variance);
    if (start < old && mfbocd_moments_until(d, start, &mean, &variance) > 0) {
        for (i = 0; i < start; i++)
            before += mfbocd_predicted(d, i);
        sum += before * mfbocd_shown(d, start, old, mean, variance);
    }
    return sum;
}

#endif
