/* The entropy of a mixture of normals, for the joint gain of Gaussian readings. Part of mfbocd.
 *
 * Neighbouring components that hardly differ are merged by their moments. The rest are sorted by width and added
 * class by class, widest first: with g the density so far and p the density including the next class,
 * p log p - g log g vanishes away from the class and is smooth on its scale, so the trapezoidal rule with a step of
 * the class converges fast. */
#ifndef MFBOCD_MIXTURE_H
#define MFBOCD_MIXTURE_H

#include "mfbocd_filter.h"

#define MFBOCD_COMPONENTS (MFBOCD_K + 1) /* the hypotheses and a regime that begins at the coming tick */
#define MFBOCD_NEAR MFBOCD_R(0.015)      /* standard deviations between components that are always merged */
#define MFBOCD_SLIGHT MFBOCD_R(0.01)     /* lighter pairs may be further apart */
#define MFBOCD_REACH MFBOCD_R(7.0)       /* standard deviations integrated on either side */
#define MFBOCD_STEP MFBOCD_R(0.4)        /* of the narrowest standard deviation in the class */
#if MFBOCD_DOUBLE
#define MFBOCD_ALMOST_ZERO 1e-300
#else
#define MFBOCD_ALMOST_ZERO 1e-36f
#endif

typedef struct {
    mfbocd_real weight;
    mfbocd_real mean;
    mfbocd_real spread; /* variance, or standard deviation once sorted */
} mfbocd_component_t;

/* Whether two components may be merged: the error is of third order in their distance and of second order in the
 * difference of their variances, times pair = w1 w2 / (w1 + w2). */
static inline int mfbocd_alike(mfbocd_real pair, mfbocd_real distance, mfbocd_real difference)
{
    const mfbocd_real near2 = MFBOCD_NEAR * MFBOCD_NEAR;
    const int near = distance < near2 || (distance < 1 && pair * pair * distance * distance * distance <
                                                             MFBOCD_SLIGHT * MFBOCD_SLIGHT * near2 * near2 * near2);
    const int same = difference < MFBOCD_NEAR ||
                     (difference < MFBOCD_R(0.5) && pair * difference * difference < MFBOCD_SLIGHT * near2);
    return near && same;
}

/* Merge neighbours in place, dropping light components; returns the number left. */
static inline uint16_t mfbocd_merge(mfbocd_component_t *c, uint16_t n)
{
    mfbocd_real inverse = 0; /* 1 / variance of the last component when it was added */
    uint16_t i, m = 0;
    for (i = 0; i < n; i++) {
        if (c[i].weight < MFBOCD_LIGHT)
            continue;
        if (m > 0) {
            mfbocd_component_t *last = &c[m - 1];
            const mfbocd_real d = c[i].mean - last->mean, more = c[i].spread - last->spread;
            const mfbocd_real total = last->weight + c[i].weight, share = c[i].weight / total;
            if (mfbocd_alike(last->weight * share, d * d * inverse, mfbocd_abs(more) * inverse)) {
                last->mean += share * d;
                last->spread += share * more + share * (1 - share) * d * d;
                last->weight = total;
                continue;
            }
        }
        c[m] = c[i];
        inverse = 1 / c[i].spread;
        m++;
    }
    return m;
}

/* Sort by width, widest first, or by position; insertion sort, since there are few. */
static inline void mfbocd_sort(mfbocd_component_t *c, uint16_t low, uint16_t high, int by_width)
{
    uint16_t i, j;
    for (i = (uint16_t)(low + 1); i < high; i++) {
        const mfbocd_component_t moved = c[i];
        for (j = i; j > low; j--) {
            if (by_width ? c[j - 1].spread >= moved.spread : c[j - 1].mean <= moved.mean)
                break;
            c[j] = c[j - 1];
        }
        c[j] = moved;
    }
}

/* The integral of f(p) - f(g), f(p) = p log p, from left to right: g has the first `old` components, p `many`. */
static inline mfbocd_real mfbocd_stretch(const mfbocd_component_t *c, uint16_t old, uint16_t many, mfbocd_real left,
                                         mfbocd_real right)
{
    mfbocd_real narrowest = c[old].spread, step, total = 0;
    uint32_t points, j;
    uint16_t i;
    for (i = old; i < many; i++)
        narrowest = mfbocd_min(narrowest, c[i].spread);
    points = (uint32_t)((right - left) / (MFBOCD_STEP * narrowest)) + 2;
    step = (right - left) / (mfbocd_real)(points - 1);
    for (j = 0; j < points; j++) {
        const mfbocd_real x = left + step * (mfbocd_real)j;
        mfbocd_real g = MFBOCD_ALMOST_ZERO, p = 0;
        for (i = 0; i < many; i++) {
            const mfbocd_real z = (x - c[i].mean) / c[i].spread, e = MFBOCD_R(-0.5) * z * z;
            mfbocd_real density;
            if (e < MFBOCD_LOWEST_LOG)
                continue;
            density = c[i].weight / c[i].spread * MFBOCD_R(0.39894228040143267794) * mfbocd_exp(e);
            if (i < old)
                g += density;
            else
                p += density;
        }
        p += g;
        total += p * mfbocd_log(p) - g * mfbocd_log(g);
    }
    return step * total;
}

/* -int p log p of the mixture; overwrites the components. */
static inline mfbocd_real mfbocd_entropy(mfbocd_component_t *c, uint16_t n)
{
    const uint16_t m = mfbocd_merge(c, n);
    mfbocd_real total = 0, left, right;
    uint16_t i, j, old, many;
    for (i = 0; i < m; i++)
        c[i].spread = mfbocd_sqrt(c[i].spread);
    mfbocd_sort(c, 0, m, 1);
    for (old = 0; old < m; old = many) {
        for (many = (uint16_t)(old + 1); many < m && c[many].spread > MFBOCD_R(0.5) * c[old].spread; many++)
            ;
        mfbocd_sort(c, old, many, 0);
        for (i = old; i < many; i = j) { /* overlapping ranges join into one interval */
            left = c[i].mean - MFBOCD_REACH * c[i].spread;
            right = c[i].mean + MFBOCD_REACH * c[i].spread;
            for (j = (uint16_t)(i + 1); j < many && c[j].mean - MFBOCD_REACH * c[j].spread < right; j++) {
                left = mfbocd_min(left, c[j].mean - MFBOCD_REACH * c[j].spread);
                right = mfbocd_max(right, c[j].mean + MFBOCD_REACH * c[j].spread);
            }
            total += mfbocd_stretch(c, old, many, left, right);
        }
    }
    return -total;
}

/* I(r, theta; x) = h(x) - h(x | theta) in nats, for each fidelity. Components that cannot be distinguished at the
 * highest zeta cannot be at any: they are merged once. */
static inline void mfbocd_joint_gains(const mfbocd_t *d, mfbocd_real *gain)
{
    mfbocd_component_t all[MFBOCD_COMPONENTS], some[MFBOCD_COMPONENTS];
    const mfbocd_stats_t prior = mfbocd_prior();
    mfbocd_real best = 0, kept = 0;
    uint16_t i, j, m;
    for (j = 0; j < MFBOCD_FIDELITIES; j++)
        best = mfbocd_max(best, MFBOCD_ZETA[j]);
    if (best == 0)
        return;
    for (i = 0; i <= d->rows; i++) {
        const mfbocd_stats_t *s = i < d->rows ? &d->row[i].stats : &prior;
        all[i].weight = mfbocd_predicted(d, i);
        all[i].mean = s->mean;
        all[i].spread = 1 / best + 1 / s->count;
        kept += all[i].weight >= MFBOCD_LIGHT ? all[i].weight : 0;
    }
    m = mfbocd_merge(all, (uint16_t)(d->rows + 1));
    for (j = 0; j < MFBOCD_FIDELITIES; j++) {
        const mfbocd_real zeta = MFBOCD_ZETA[j];
        if (zeta == 0)
            continue;
        for (i = 0; i < m; i++) {
            some[i] = all[i];
            some[i].spread += 1 / zeta - 1 / best;
        }
        /* the entropy of the noise is log(2 pi e / zeta) / 2 */
        gain[j] = mfbocd_max(mfbocd_entropy(some, m) / kept + mfbocd_log(kept) -
                                 MFBOCD_R(0.5) * (MFBOCD_R(2.8378770664093454836) - mfbocd_log(zeta)), 0);
    }
}

#endif
