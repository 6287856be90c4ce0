/* The expected gain of a reading at each fidelity. Part of mfbocd. */
#ifndef MFBOCD_GAINS_H
#define MFBOCD_GAINS_H

#include "mfbocd_filter.h"

/* P(r of the coming tick): of hypothesis i, or of a regime that begins then if i == d->rows. */
static inline mfbocd_real mfbocd_predicted(const mfbocd_t *d, uint16_t i)
{
    if (i < d->rows)
        return (1 - MFBOCD_HAZARD) / d->total * d->row[i].weight;
    return d->rows == 0 ? 1 : MFBOCD_HAZARD;
}

/* Hypotheses below this probability are not summed over counts, which is slow. */
#if MFBOCD_FAMILY != MFBOCD_POISSON || MFBOCD_GAIN == MFBOCD_GAIN_CHANGE
#define MFBOCD_NEGLIGIBLE 0
#elif MFBOCD_DOUBLE
#define MFBOCD_NEGLIGIBLE 1e-15
#else
#define MFBOCD_NEGLIGIBLE 1e-7f
#endif

#if MFBOCD_GAIN == MFBOCD_GAIN_VARIANCE || MFBOCD_GAIN == MFBOCD_GAIN_CHANGE
/* What a reading is worth if the hypothesis is known. */
static inline mfbocd_real mfbocd_gain_given(const mfbocd_stats_t *s, mfbocd_real zeta)
{
#if MFBOCD_GAIN == MFBOCD_GAIN_CHANGE
    return mfbocd_parameter_gain(s, zeta);
#else
    return mfbocd_variance_gain(s, zeta);
#endif
}

/* E_r of that: E_r [Var(theta | r) - E_x Var(theta | r, x)], or E_r I(theta; x | r). */
static inline mfbocd_real mfbocd_gain(const mfbocd_t *d, mfbocd_real zeta)
{
    const mfbocd_stats_t prior = mfbocd_prior();
    mfbocd_real sum = 0;
    uint16_t i;
    for (i = 0; i <= d->rows; i++) {
        const mfbocd_real w = mfbocd_predicted(d, i);
        if (w > MFBOCD_NEGLIGIBLE)
            sum += w * mfbocd_gain_given(i < d->rows ? &d->row[i].stats : &prior, zeta);
    }
    return mfbocd_max(sum, 0);
}
#endif

#if MFBOCD_GAIN == MFBOCD_GAIN_JOINT && MFBOCD_FAMILY == MFBOCD_BERNOULLI
static inline mfbocd_real mfbocd_surprise(mfbocd_real p) { return p > 0 ? -p * mfbocd_log(p) : 0; }

/* I(r, theta; x) = I(r; x) + E_r I(theta; x | r); I(r; x) is a sum over both outcomes. */
static inline mfbocd_real mfbocd_gain(const mfbocd_t *d, mfbocd_real zeta)
{
    const mfbocd_stats_t prior = mfbocd_prior();
    mfbocd_real one = 0, zero = 0, within = 0, inner = 0, gain;
    uint16_t i;
    for (i = 0; i <= d->rows; i++) {
        const mfbocd_stats_t *s = i < d->rows ? &d->row[i].stats : &prior;
        const mfbocd_real w = mfbocd_predicted(d, i);
        const mfbocd_real p1 = mfbocd_p_one(s, zeta);
#if MFBOCD_PAPER
        const mfbocd_real v1 = mfbocd_quotient(s->a, s->a + s->b, zeta), v0 = mfbocd_quotient(s->b, s->a + s->b, zeta);
#else
        const mfbocd_real v1 = p1, v0 = 1 - p1;
#endif
        one += w * v1;
        zero += w * v0;
        within += w * (mfbocd_surprise(v1) + mfbocd_surprise(v0));
        inner += w * mfbocd_divergence(s, zeta, p1);
    }
    gain = mfbocd_surprise(one) + mfbocd_surprise(zero) - within;
    return inner + (MFBOCD_PAPER ? gain : mfbocd_max(gain, 0));
}
#endif

#if MFBOCD_GAIN == MFBOCD_GAIN_JOINT && MFBOCD_FAMILY == MFBOCD_GAUSSIAN
#include "mfbocd_mixture.h"
#elif MFBOCD_GAIN == MFBOCD_GAIN_CHANGE
#include "mfbocd_change.h"
#endif

/* The gain of each fidelity. A reading can be used as one of a lower fidelity, so gains do not fall with zeta. */
static inline void mfbocd_gains(const mfbocd_t *d, mfbocd_real *gain)
{
    uint16_t j, k;
    for (j = 0; j < MFBOCD_FIDELITIES; j++)
        gain[j] = 0;
#if MFBOCD_GAIN == MFBOCD_GAIN_JOINT && MFBOCD_FAMILY == MFBOCD_GAUSSIAN
    mfbocd_joint_gains(d, gain);
#else
    for (j = 0; j < MFBOCD_FIDELITIES; j++)
        if (MFBOCD_ZETA[j] > 0)
            gain[j] = mfbocd_gain(d, MFBOCD_ZETA[j]);
#endif
#if MFBOCD_GAIN == MFBOCD_GAIN_CHANGE
    {
        const mfbocd_real weight = mfbocd_change_weight(d);
        for (j = 0; j < MFBOCD_FIDELITIES; j++)
            gain[j] += MFBOCD_ZETA[j] * weight;
    }
#endif
    for (j = 0; j < MFBOCD_FIDELITIES; j++)
        for (k = 0; k < MFBOCD_FIDELITIES; k++)
            if (MFBOCD_ZETA[k] <= MFBOCD_ZETA[j])
                gain[j] = mfbocd_max(gain[j], gain[k]);
}

#endif
