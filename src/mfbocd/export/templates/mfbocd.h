/* mfbocd: active multi-fidelity Bayesian online changepoint detection.
 *
 *     static mfbocd_t d;
 *     mfbocd_init(&d);
 *     for (;;) {
 *         int f = mfbocd_choose(&d);                           // which sensor to wake
 *         mfbocd_step_t s = mfbocd_update(&d, read_sensor(f), f);
 *         if (s.alarm)
 *             send(s.changed_at, s.confidence);
 *     }
 *
 * Header-only C99 without heap and without libc beyond math.h. Everything is static: include this file in one C
 * file. A second detector with another configuration goes into another C file with its own folder of headers.
 *
 * mfbocd_model.h has the configuration. Compile with -DMFBOCD_DOUBLE=1 or 0 to override its precision, and with
 * -DMFBOCD_SAVE=1 for mfbocd_save and mfbocd_load. The same detector in Python gives the same answers. */
#ifndef MFBOCD_H
#define MFBOCD_H

#include <float.h>
#include <math.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "mfbocd_model.h"

#include "mfbocd_filter.h"
#include "mfbocd_policy.h"

/* The record of one tick. */
typedef struct {
    uint64_t tick;          /* index of the tick, 0 for the first */
    uint32_t run_length;    /* most probable number of ticks since the first of the current regime */
    mfbocd_real mean;       /* E[x] of the next tick */
    mfbocd_real p_change;   /* P(a change within the last MFBOCD_WITHIN ticks) */
    uint8_t missing;        /* the reading was missing, or impossible in this model: nothing was learned */
    uint8_t alarm;          /* P(change) reached MFBOCD_THRESHOLD; once per change */
    uint64_t changed_at;    /* at an alarm: tick at which the new regime most probably began */
    mfbocd_real confidence; /* at an alarm: P(a regime began in the window, after the last alarm) */
} mfbocd_step_t;

/* Start a stream. For several streams that should draw different random numbers, set d->seed afterwards. */
static inline void mfbocd_init(mfbocd_t *d)
{
    const mfbocd_stats_t prior = mfbocd_prior();
    unsigned char *byte = (unsigned char *)d;
    unsigned int i;
    for (i = 0; i < sizeof *d; i++)
        byte[i] = 0;
    d->limit = MFBOCD_K;
    d->since_alarm = MFBOCD_NEVER;
    d->seed = MFBOCD_SEED;
    d->mean = mfbocd_outward(MFBOCD_OFFSET + MFBOCD_UNIT * mfbocd_level(&prior), 0);
}

/* The fidelity to read at the coming tick: an index, MFBOCD_FIDELITY_... Until the next update it stays the same. */
static inline int mfbocd_choose(const mfbocd_t *d) { return mfbocd_pick(d); }

/* Update the belief with a reading. NAN is a missing reading: the sensor was asked, its cost is paid, nothing is
 * learned. With fidelity -1 nothing was asked and nothing is paid: only time passes. */
static inline mfbocd_step_t mfbocd_update(mfbocd_t *d, mfbocd_real x, int fidelity)
{
    const int asked = fidelity >= 0 && fidelity < MFBOCD_FIDELITIES;
    const mfbocd_real cost = asked ? MFBOCD_COST[fidelity] : 0;
    mfbocd_step_t step;
#if MFBOCD_MAPPED
    mfbocd_real slope = 0; /* of the maps, as a logarithm */
#endif
#ifdef MFBOCD_CORRECTS
    if (asked)
        x = (x - MFBOCD_READING_OFFSET[fidelity]) / MFBOCD_READING_SCALE[fidelity];
#endif
#if MFBOCD_MAPPED
    if (asked)
        x = mfbocd_inward(x, d->ticks, &slope);
#endif
    step.missing = !(asked && mfbocd_possible(x));
#if MFBOCD_MAPPED
    if (!step.missing && MFBOCD_ZETA[fidelity] > 0)
        mfbocd_add(&d->log_evidence, slope);
#endif
    mfbocd_tick(d, step.missing ? 0 : x, step.missing ? 0 : MFBOCD_ZETA[fidelity]);
    mfbocd_add(&d->spent, cost);
#if MFBOCD_POLICY == MFBOCD_BUDGET
    mfbocd_record_cost(d, asked ? fidelity : UINT8_MAX, cost);
#endif
    step.tick = d->ticks - 1;
    step.run_length = d->row[d->best].age;
    step.mean = d->mean;
    step.p_change = d->p_change;
    step.alarm = d->alarm;
    step.changed_at = d->alarm ? d->changed_at - 1 : 0;
    step.confidence = d->alarm ? d->confidence : 0;
    return step;
}

/* Cost of all readings so far. */
static inline mfbocd_real mfbocd_spent(const mfbocd_t *d) { return d->spent.value; }

#if defined(MFBOCD_SAVE) && MFBOCD_SAVE
#include "mfbocd_save.h"
#endif

#ifdef __cplusplus
}
#endif

#endif
