/* Which fidelity to read: the largest gain - price * cost. Part of mfbocd. */
#ifndef MFBOCD_POLICY_H
#define MFBOCD_POLICY_H

#include "mfbocd_filter.h"

#if MFBOCD_POLICY != MFBOCD_ALWAYS
#include "mfbocd_gains.h"

#define MFBOCD_NO_LIMIT MFBOCD_R(FLT_MAX)

/* The largest net gain among the fidelities that cost at most `extra` more than the cheapest, the first at a tie. */
static inline int mfbocd_largest_net(const mfbocd_real *gain, mfbocd_real price, mfbocd_real extra)
{
    mfbocd_real most = 0;
    int j, found = -1;
    for (j = 0; j < MFBOCD_FIDELITIES; j++) {
        const mfbocd_real net = gain[j] - price * MFBOCD_COST[j];
        if (MFBOCD_COST[j] - MFBOCD_COST[MFBOCD_CHEAPEST] <= extra && (found < 0 || net > most)) {
            most = net;
            found = j;
        }
    }
    return found;
}
#endif

#if MFBOCD_POLICY == MFBOCD_BUDGET
/* The price is learned so that the average cost per tick meets MFBOCD_TARGET. The controller counts in units: one
 * unit is the budget per tick minus the cost of the cheapest fidelity. After each tick
 *
 *     excess = (spent - target) / unit,  debt += excess,  log price += rate excess + rate^2 / 8 debt
 *
 * A reading that would exceed the limit of the debt is not bought. With savings of that size, the next reading is
 * bought at any price. */

/* The largest debt that a reading may leave, in units: lower for a young stream. */
static inline mfbocd_real mfbocd_debt_limit(const mfbocd_t *d)
{
    const mfbocd_real ticks = (mfbocd_real)d->budget_ticks;
    const mfbocd_real first = MFBOCD_FIRST_DEBT - MFBOCD_DEBT_SLOPE * ticks;
    const mfbocd_real most = mfbocd_max(first, MFBOCD_YOUNG * mfbocd_max(ticks, MFBOCD_YOUNG_TICKS));
    return MFBOCD_TICK_BUDGET * mfbocd_min(MFBOCD_HORIZON, most);
}

/* The debt above which the debt limit forbids a reading of the most expensive fidelity. */
static inline mfbocd_real mfbocd_ceiling(const mfbocd_t *d)
{
    return mfbocd_max(mfbocd_debt_limit(d) - MFBOCD_ROUND, 0);
}

/* The price that decides: the learned one, out of all proportion where the limit of the debt forbids a reading or the
 * savings demand one. */
static inline mfbocd_real mfbocd_effective_price(const mfbocd_t *d)
{
    const mfbocd_real ceiling = mfbocd_min(mfbocd_ceiling(d), MFBOCD_CEILING);
    const mfbocd_real bar = d->debt.value > ceiling ? 30 : d->debt.value < MFBOCD_FLOOR ? -30 : 0;
    const mfbocd_real most = MFBOCD_LARGEST_PRICE - MFBOCD_FIRST_LOG_PRICE;
    return MFBOCD_FIRST_PRICE * mfbocd_exp(mfbocd_min(d->log_price.value + bar, most));
}

/* While only the cheapest fidelity was read, all gains may be 0: then choose as if they were zeta. */
static inline void mfbocd_begin_reading(const mfbocd_t *d, mfbocd_real *gain)
{
    int j;
    if (d->debt.value > -(mfbocd_real)d->budget_ticks)
        return;
    for (j = 0; j < MFBOCD_FIDELITIES; j++)
        if (gain[j] != 0)
            return;
    for (j = 0; j < MFBOCD_FIDELITIES; j++)
        gain[j] = MFBOCD_ZETA[j];
}

#if MFBOCD_CAP_TICKS > 0
/* What the coming tick may cost so that neither this window nor a later one exceeds the cap. */
static inline mfbocd_real mfbocd_left(const mfbocd_t *d)
{
    mfbocd_real before = 0;
#if MFBOCD_CAP_TICKS > 1
    uint16_t i;
    for (i = 0; i < d->recents; i++) {
        const uint8_t f = d->recent[i];
        before += mfbocd_max(f < MFBOCD_FIDELITIES ? MFBOCD_COST[f] : 0, MFBOCD_SPARE);
    }
    return MFBOCD_CAP_AMOUNT - before - (mfbocd_real)(MFBOCD_CAP_TICKS - 1 - d->recents) * MFBOCD_SPARE;
#else
    (void)d;
    return MFBOCD_CAP_AMOUNT - before;
#endif
}
#endif

static inline void mfbocd_record_cost(mfbocd_t *d, int fidelity, mfbocd_real cost)
{
    const mfbocd_real excess = (cost - MFBOCD_TARGET) / MFBOCD_BUDGET_UNIT;
    const mfbocd_real rate = mfbocd_max(MFBOCD_RATE, MFBOCD_START / (MFBOCD_SETTLE + (mfbocd_real)d->budget_ticks));
    const int barred = d->debt.value > mfbocd_ceiling(d);
    const int demanded = d->debt.value < -MFBOCD_MOST_SAVED;
    mfbocd_real move;
    mfbocd_add_within(&d->debt, excess, -MFBOCD_WORST, MFBOCD_WORST);
    move = rate * excess + MFBOCD_RATE * MFBOCD_RATE / 8 * d->debt.value;
    /* Readings that the debt forbids or the savings demand say nothing about the price. */
    if (barred)
        move = mfbocd_max(move, 0);
    else if (demanded)
        move = mfbocd_min(move, 0);
    mfbocd_add_within(&d->log_price, move, -30, 30);
    if (d->budget_ticks < UINT32_MAX)
        d->budget_ticks++;
#if MFBOCD_CAP_TICKS > 1
    if (d->recents == MFBOCD_CAP_TICKS - 1) {
        uint16_t i;
        for (i = 1; i < d->recents; i++)
            d->recent[i - 1] = d->recent[i];
        d->recents--;
    }
    d->recent[d->recents++] = (uint8_t)fidelity;
#else
    (void)fidelity;
#endif
}
#endif

static inline int mfbocd_pick(const mfbocd_t *d)
{
#if MFBOCD_POLICY == MFBOCD_ALWAYS
    (void)d;
    return MFBOCD_ALWAYS_INDEX;
#else
    mfbocd_real gain[MFBOCD_FIDELITIES];
#if MFBOCD_POLICY == MFBOCD_BUDGET
    const mfbocd_real price = mfbocd_effective_price(d);
#else
    const mfbocd_real price = MFBOCD_PRICE;
#endif
    int best;
    mfbocd_gains(d, gain);
#if MFBOCD_POLICY == MFBOCD_BUDGET
    mfbocd_begin_reading(d, gain);
#endif
    best = mfbocd_largest_net(gain, price, MFBOCD_NO_LIMIT);
#if MFBOCD_POLICY == MFBOCD_BUDGET && MFBOCD_CAP_TICKS > 0
    {
        const mfbocd_real left = mfbocd_left(d);
        if (MFBOCD_COST[best] > left) /* the best that still fits; the cheapest is taken even if it does not */
            best = mfbocd_largest_net(gain, price, mfbocd_max(left - MFBOCD_COST[MFBOCD_CHEAPEST], 0));
    }
#endif
    return best;
#endif
}

#endif
