/* What a reading is worth for detecting a change. Part of mfbocd.
 *
 * If hypothesis i, which began recently, is true, a reading at zeta moves the log odds of a change by about zeta D_i,
 * where D_i is the divergence of its predictive from that of the older hypotheses. So it saves zeta full readings, as
 * long as the change is large enough to be found:
 *
 *     Q = sum over recent i of w_i D_i / (D_i + 0.1),  gain = zeta Q + E_r I(theta; x | r)
 *
 * Recent hypotheses are those that count towards the next alarm: they began within its window, after the last. */
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

/* Q: the probability of a change that counts towards the next alarm, weighed by how quickly readings would show it. */
static inline mfbocd_real mfbocd_change_weight(const mfbocd_t *d)
{
    const mfbocd_stats_t prior = mfbocd_prior();
    const uint32_t window = d->since_alarm < MFBOCD_WITHIN - 1 ? d->since_alarm : MFBOCD_WITHIN - 1;
    mfbocd_real total = 0, mean = 0, variance = 0, sum = 0;
    uint16_t i, old = d->rows;
    while (old > 0 && d->row[old - 1].age < window && d->row[old - 1].age + UINT64_C(1) < d->ticks)
        old--;
    for (i = 0; i < old; i++) {
        const mfbocd_row_t *row = &d->row[i];
        if (row->weight > 0) { /* a variance may be infinite */
            total += row->weight;
            mean += row->weight * mfbocd_level(&row->stats);
            variance += row->weight * mfbocd_full_variance(&row->stats);
        }
    }
    if (!(total > 0))
        return 0;
    mean /= total;
    for (i = 0; i < old; i++) {
        const mfbocd_real apart = mfbocd_level(&d->row[i].stats) - mean;
        variance += d->row[i].weight * apart * apart;
    }
    variance /= total;
    for (i = old; i <= d->rows; i++) {
        const mfbocd_real w = mfbocd_predicted(d, i);
        const mfbocd_real kl = mfbocd_kl(i < d->rows ? &d->row[i].stats : &prior, mean, variance);
        if (w > 0)
            sum += w * (mfbocd_finite(kl) ? kl / (kl + MFBOCD_SMALL) : 1);
    }
    return sum;
}

#endif
