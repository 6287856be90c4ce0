/* Save and load a stream in the format of Detector.to_bytes and Detector.from_bytes. Part of mfbocd.
 *
 * The bytes are: MFBOCD_PREFIX (format, configuration and hazard as text), then little-endian doubles, then the
 * CRC-32 of everything before it. The prefix is compared, not parsed:
 * only the state of the same configuration loads. */
#ifndef MFBOCD_SAVE_H
#define MFBOCD_SAVE_H

#include "mfbocd_bytes.h"
#include "mfbocd_policy.h"

#if MFBOCD_FAMILY == MFBOCD_BERNOULLI && DBL_DIG < 15
#error "saving a Bernoulli detector needs a 64-bit double: compile with -mdouble=64"
#endif

enum {
    MFBOCD_OK = 0,
    MFBOCD_DAMAGED = -1,      /* truncated, or the checksum does not match */
    MFBOCD_OTHER_CONFIG = -2, /* the bytes of another configuration or format version */
    MFBOCD_IMPOSSIBLE = -3    /* no stream of this configuration can have this state */
};

#if MFBOCD_POLICY == MFBOCD_BUDGET && MFBOCD_CAP_TICKS > 1
#define MFBOCD_RECENTS (MFBOCD_CAP_TICKS - 1)
#elif MFBOCD_POLICY == MFBOCD_BUDGET
#define MFBOCD_RECENTS 0
#endif
#if MFBOCD_POLICY == MFBOCD_BUDGET
#define MFBOCD_NUMBERS (4 + MFBOCD_RECENTS) /* spent, log price, debt, ticks, recent costs */
#else
#define MFBOCD_NUMBERS 1
#endif

#define MFBOCD_HEAD_USED 16 /* the rest of the head is about alarms with options, which are not exported */
#define MFBOCD_ARMED 18     /* constant 1 without such an alarm */
#define MFBOCD_SLOPES 20  /* log of the slopes of maps, which mfbocd_t.log_evidence includes */
#define MFBOCD_COLUMNS (2 + MFBOCD_STATS + MFBOCD_CLOCKED) /* if a map depends on it, the tick is the last one */
#define MFBOCD_DROPPED 19   /* number of dropped hypotheses, which come before the others; kept for the gain "change" */

/* A buffer of this size is large enough for mfbocd_save. */
#define MFBOCD_SAVED_BYTES \
    (sizeof(MFBOCD_PREFIX) + 16 + 8 * (MFBOCD_NUMBERS + MFBOCD_HEAD + MFBOCD_COLUMNS * (uint32_t)(MFBOCD_K + MFBOCD_KEPT)) + 4)

/* --- the prefix ----------------------------------------------------------------------------------------------- */

#if MFBOCD_POLICY == MFBOCD_BUDGET
static inline uint32_t mfbocd_put_decimal(mfbocd_bytes_t *b, uint32_t value)
{
    uint32_t digits = 1, power = 1;
    for (; value / power >= 10; digits++)
        power *= 10;
    for (; b && power > 0; power /= 10)
        mfbocd_put_byte(b, (uint8_t)('0' + value / power % 10));
    return digits;
}
#endif

/* Write or compare the prefix. Its text contains how many recent costs follow, at two places. */
static inline void mfbocd_put_prefix(mfbocd_bytes_t *b, uint32_t recents)
{
    uint32_t i, length = MFBOCD_TEXT_BYTES;
#if MFBOCD_POLICY == MFBOCD_BUDGET
    length += mfbocd_put_decimal(0, recents) + mfbocd_put_decimal(0, 4 + recents);
#endif
    for (i = 0; i < 8; i++) /* magic and version */
        mfbocd_put_byte(b, MFBOCD_PREFIX[i]);
    mfbocd_put_u32(b, length);
    for (i = 8; i < sizeof(MFBOCD_PREFIX); i++) {
#if MFBOCD_POLICY == MFBOCD_BUDGET
        if (i == MFBOCD_RECENTS_AT)
            mfbocd_put_decimal(b, recents);
        if (i == MFBOCD_NUMBERS_AT)
            mfbocd_put_decimal(b, 4 + recents);
#endif
        mfbocd_put_byte(b, MFBOCD_PREFIX[i]);
    }
    (void)recents;
}

/* --- save ----------------------------------------------------------------------------------------------------- */

static inline mfbocd_real *mfbocd_stat(mfbocd_stats_t *s, int column)
{
#if MFBOCD_FAMILY == MFBOCD_GAUSSIAN
    return column == 0 ? &s->count : &s->mean;
#elif MFBOCD_FAMILY == MFBOCD_ROBUST_TREND
    return &s->v[column];
#elif MFBOCD_FAMILY == MFBOCD_GAUSSIAN_UNKNOWN
    return column == 0 ? &s->count : column == 1 ? &s->mean : column == 2 ? &s->shape : &s->scale;
#else
    return column == 0 ? &s->a : &s->b;
#endif
}

/* One statistic. As a float, the prior may round to less than it is, which Python would refuse: a statistic that is
 * still at the prior is written exactly. */
static inline void mfbocd_put_stat(mfbocd_bytes_t *b, mfbocd_stats_t s, int column)
{
    mfbocd_stats_t prior = mfbocd_prior();
#if MFBOCD_FAMILY == MFBOCD_BERNOULLI
    if (column == 2) {
        union { double value; uint64_t bits; } both;
        both.value = s.a == prior.a ? MFBOCD_ALPHA : (double)s.a;
        both.value = 1.0 / (both.value + (s.b == prior.b ? MFBOCD_BETA : (double)s.b));
        mfbocd_put_bits(b, both.bits);
        return;
    }
#endif
    if (*mfbocd_stat(&s, column) == *mfbocd_stat(&prior, column))
        mfbocd_put_bits(b, MFBOCD_PRIOR_BITS[column]);
#if MFBOCD_FAMILY == MFBOCD_ROBUST_TREND && !MFBOCD_DOUBLE
    else if (column == MFBOCD_SLOPED && s.v[MFBOCD_SLOPED] < 0) /* 1 - P(level), a whole number of 2^-53 */
        mfbocd_put_bits(b, mfbocd_bits_of_whole((INT64_C(1) << 53) + (int64_t)(s.v[MFBOCD_SLOPED] * 9007199254740992.0f)) -
                               (UINT64_C(53) << 52));
#endif
    else
        mfbocd_put_real(b, *mfbocd_stat(&s, column));
}

static inline uint16_t mfbocd_kept(const mfbocd_t *d)
{
#if MFBOCD_GAIN == MFBOCD_GAIN_CHANGE
    return d->kept;
#else
    (void)d;
    return 0;
#endif
}

/* The i-th hypothesis in the saved order. */
static inline const mfbocd_row_t *mfbocd_saved_row(const mfbocd_t *d, uint16_t i)
{
#if MFBOCD_GAIN == MFBOCD_GAIN_CHANGE
    if (i < d->kept)
        return &d->dropped[i];
#endif
    return &d->row[i - mfbocd_kept(d)];
}

/* Write the stream to a buffer of `room` bytes. Returns how many were written, 0 if there is not enough room. */
static inline uint32_t mfbocd_save(const mfbocd_t *d, uint8_t *out, uint32_t room)
{
    mfbocd_bytes_t b = mfbocd_bytes(out, 0, room);
    mfbocd_sum_t total = {0, 0};
    const int64_t tick = (int64_t)d->ticks - 1;
    int64_t birth, last;
    const uint16_t kept = mfbocd_kept(d);
    uint32_t recents = 0, check;
    uint16_t i;
    int column;
#if MFBOCD_POLICY == MFBOCD_BUDGET && MFBOCD_CAP_TICKS > 1
    recents = d->recents;
#endif
    mfbocd_put_prefix(&b, recents);
    mfbocd_put_real(&b, d->spent.value);
#if MFBOCD_POLICY == MFBOCD_BUDGET
    mfbocd_put_real(&b, MFBOCD_FIRST_LOG_PRICE + d->log_price.value);
    mfbocd_put_real(&b, d->debt.value);
    mfbocd_put_whole(&b, (int64_t)d->budget_ticks);
#if MFBOCD_CAP_TICKS > 1
    for (i = 0; i < d->recents; i++)
        mfbocd_put_real(&b, d->recent[i] < MFBOCD_FIDELITIES ? MFBOCD_COST[d->recent[i]] : 0);
#endif
#endif
    for (i = 0; i < d->rows; i++)
        mfbocd_add(&total, d->row[i].weight);
    mfbocd_put_whole(&b, d->rows);
    mfbocd_put_whole(&b, tick);
    mfbocd_put_real(&b, MFBOCD_DOUBLE ? d->total : total.value);
    mfbocd_put_real(&b, d->log_evidence.value);
    mfbocd_put_whole(&b, 0); /* the capacity is not part of the belief */
    mfbocd_put_whole(&b, d->limit);
    mfbocd_put_whole(&b, (int64_t)d->seed);
    mfbocd_put_whole(&b, d->best);
    mfbocd_put_whole(&b, d->since_alarm == MFBOCD_NEVER ? -1 : tick - (int64_t)d->since_alarm);
    mfbocd_put_real(&b, d->mean);
    mfbocd_put_whole(&b, d->row[d->best].age);
    mfbocd_put_real(&b, d->p_change);
    mfbocd_put_whole(&b, d->alarm);
    mfbocd_put_whole(&b, (int64_t)d->changed_at - 1);
    mfbocd_put_real(&b, d->confidence);
    mfbocd_put_whole(&b, MFBOCD_COLUMNS);
    for (i = MFBOCD_HEAD_USED; i < MFBOCD_HEAD; i++)
        mfbocd_put_whole(&b, i == MFBOCD_DROPPED ? kept : i == MFBOCD_ARMED);
    for (i = 0; i < kept + d->rows; i++)
        mfbocd_put_real(&b, i < kept ? 0 : d->row[i - kept].weight);
    for (i = 0, last = -1; i < kept + d->rows; i++, last = birth) {
        birth = tick - (int64_t)mfbocd_saved_row(d, i)->age;
        birth = birth > last ? birth : last + 1; /* ages that no longer grow would be equal */
        mfbocd_put_whole(&b, birth);
    }
    for (column = 0; column < MFBOCD_STATS; column++)
        for (i = 0; i < kept + d->rows; i++)
            mfbocd_put_stat(&b, mfbocd_saved_row(d, i)->stats, column);
    for (i = 0; MFBOCD_CLOCKED && i < kept + d->rows; i++)
        mfbocd_put_whole(&b, tick + 1);
    check = b.crc ^ 0xFFFFFFFFu;
    mfbocd_put_u32(&b, check);
    return b.failed ? 0 : b.at;
}

/* --- load ----------------------------------------------------------------------------------------------------- */

#if MFBOCD_POLICY == MFBOCD_BUDGET && MFBOCD_CAP_TICKS > 1
/* The fidelity with this cost, UINT8_MAX if nothing was asked; a cost that no single reading has fails. */
static inline uint8_t mfbocd_fidelity_of(mfbocd_bytes_t *b, mfbocd_real cost)
{
    uint8_t j;
    for (j = 0; j < MFBOCD_FIDELITIES; j++)
        if (mfbocd_abs(MFBOCD_COST[j] - cost) <= MFBOCD_R(1e-6) * cost)
            return j;
    if (cost != 0)
        b->failed = 1;
    return UINT8_MAX;
}
#endif

/* Whether statistics can belong to a hypothesis: what is positive in the prior only grows, the rest are means. */
static inline int mfbocd_sound(mfbocd_stats_t s)
{
#if MFBOCD_FAMILY == MFBOCD_ROBUST_TREND
    return mfbocd_sound_trend(&s);
#else
    mfbocd_stats_t prior = mfbocd_prior();
    int column;
    for (column = 0; column < (MFBOCD_FAMILY == MFBOCD_BERNOULLI ? 2 : MFBOCD_STATS); column++) {
        const mfbocd_real value = *mfbocd_stat(&s, column), least = *mfbocd_stat(&prior, column);
        if (!(mfbocd_abs(value) <= MFBOCD_HUGE_STAT) || (least > 0 && value < least * MFBOCD_R(1 - 1e-6)))
            return 0;
    }
#if MFBOCD_FAMILY == MFBOCD_POISSON
    /* Larger statistics would predict counts that no sum reaches. */
    return s.a - prior.a <= MFBOCD_R(1.001) * MFBOCD_LAST_COUNT * (s.b - prior.b) + MFBOCD_R(1e-6) * prior.a;
#elif MFBOCD_FAMILY == MFBOCD_BERNOULLI
    return 1;
#else
    return mfbocd_abs(s.mean) <= MFBOCD_R(1.001) * MFBOCD_FAR;
#endif
#endif
}

/* Read what mfbocd_put_stat writes. */
static inline mfbocd_real mfbocd_get_stat(mfbocd_bytes_t *b, int column)
{
#if MFBOCD_FAMILY == MFBOCD_ROBUST_TREND && !MFBOCD_DOUBLE
    if (column == MFBOCD_SLOPED) {
        const uint64_t bits = mfbocd_get_bits(b), half = UINT64_C(1022) << 52; /* of 1/2 */
        if (bits > half && bits - half < UINT64_C(1) << 52) /* between 1/2 and 1 */
            return -(float)(int64_t)((UINT64_C(1) << 52) - (bits - half)) / 9007199254740992.0f;
        b->at -= b->failed ? 0 : 8;
    }
#endif
    (void)column;
    return mfbocd_get_real(b, 0);
}

/* Where to read the i-th hypothesis to: one that was dropped is of no use for other gains than "change". */
static inline mfbocd_row_t *mfbocd_loaded_row(mfbocd_t *d, uint16_t i, uint16_t kept, mfbocd_row_t *unused)
{
    if (i >= kept)
        return &d->row[i - kept];
#if MFBOCD_GAIN == MFBOCD_GAIN_CHANGE
    (void)unused;
    return &d->dropped[i];
#else
    return unused;
#endif
}

static inline void mfbocd_read_state(mfbocd_t *d, mfbocd_bytes_t *b, uint32_t recents)
{
    int64_t rows, kept = 0, tick, limit, best, fired, run, alarm, changed_at, birth, last = -1;
    mfbocd_real total, sum = 0;
    mfbocd_row_t unused;
    uint16_t i;
    int column, shift = 0;
    d->spent.value = mfbocd_get_real(b, 0);
    b->failed |= d->spent.value < 0;
#if MFBOCD_POLICY == MFBOCD_BUDGET
    d->log_price.value = mfbocd_clamp(mfbocd_get_real(b, 0) - MFBOCD_FIRST_LOG_PRICE, -30, 30);
    d->debt.value = mfbocd_clamp(mfbocd_get_real(b, 0), -MFBOCD_WORST, MFBOCD_WORST);
    {
        const int64_t ticks = mfbocd_get_whole(b);
        b->failed |= ticks < 0;
        d->budget_ticks = ticks > (int64_t)UINT32_MAX ? UINT32_MAX : (uint32_t)ticks;
    }
#if MFBOCD_CAP_TICKS > 1
    for (d->recents = 0; d->recents < recents; d->recents++)
        d->recent[d->recents] = mfbocd_fidelity_of(b, mfbocd_get_real(b, 0));
#endif
#endif
    (void)recents;
    rows = mfbocd_get_whole(b);
    tick = mfbocd_get_whole(b);
    if (b->size - b->at >= 8)
        shift = (int)((b->in[b->at + 7] & 0x7Fu) << 4 | b->in[b->at + 6] >> 4) - 1023; /* exponent of the total */
    total = mfbocd_get_real(b, shift);
    d->log_evidence.value = mfbocd_get_real(b, 0);
    b->failed |= mfbocd_get_whole(b) != 0;
    limit = mfbocd_get_whole(b);
    d->seed = (uint64_t)mfbocd_get_whole(b);
    best = mfbocd_get_whole(b);
    fired = mfbocd_get_whole(b);
    d->mean = mfbocd_get_real(b, 0);
    run = mfbocd_get_whole(b);
    d->p_change = mfbocd_get_real(b, 0);
    alarm = mfbocd_get_whole(b);
    changed_at = mfbocd_get_whole(b);
    d->confidence = mfbocd_get_real(b, 0);
    b->failed |= mfbocd_get_whole(b) != MFBOCD_COLUMNS;
    for (i = MFBOCD_HEAD_USED; i < MFBOCD_HEAD; i++) {
        int64_t value;
        if (MFBOCD_MAPPED && i == MFBOCD_SLOPES) {
            mfbocd_add(&d->log_evidence, mfbocd_get_real(b, 0));
            continue;
        }
        value = mfbocd_get_whole(b);
        if (i == MFBOCD_DROPPED)
            kept = value;
        else
            b->failed |= value != (i == MFBOCD_ARMED);
    }
    b->failed |= kept < 0 || kept > MFBOCD_KEPT;
    b->failed |= rows < 0 || rows > MFBOCD_K || rows > tick + 1 - kept || (rows > 0) != (tick >= 0) || limit < 0;
    b->failed |= limit > MFBOCD_K || best < 0 || (best > 0 && best >= rows) || fired > tick || changed_at > tick;
    b->failed |= run < 0 || run > (tick > 0 ? tick : 0) || alarm < 0 || alarm > 1 || d->seed >> 53;
    b->failed |= !(d->p_change >= 0 && d->p_change <= 1 && d->confidence >= 0 && d->confidence <= 1);
    if (b->failed || b->size - b->at != 8 * MFBOCD_COLUMNS * (uint32_t)(rows + kept)) {
        b->failed = 1;
        return;
    }
    d->rows = (uint16_t)rows;
    d->limit = (uint16_t)limit;
    d->best = (uint16_t)best;
    d->ticks = (uint64_t)(tick + 1);
    d->alarm = (uint8_t)alarm;
    d->changed_at = (uint64_t)(changed_at + 1);
    if (fired >= 0)
        d->since_alarm = tick - fired < (int64_t)MFBOCD_NEVER ? (uint32_t)(tick - fired) : MFBOCD_NEVER;
#if MFBOCD_GAIN == MFBOCD_GAIN_CHANGE
    d->kept = (uint8_t)kept;
#endif
    for (i = 0; i < kept; i++)
        b->failed |= mfbocd_get_real(b, shift) != 0;
    for (i = 0; i < d->rows; i++) {
        d->row[i].weight = mfbocd_get_real(b, shift);
        b->failed |= d->row[i].weight < 0;
        sum += d->row[i].weight;
    }
    b->failed |= d->rows > 0 && !(total > MFBOCD_TINY && total < 1 / MFBOCD_TINY &&
                                  mfbocd_abs(sum - total) <= MFBOCD_R(1e-5) * total);
    d->total = MFBOCD_DOUBLE ? total : sum;
    for (i = 0; i < kept + rows; i++, last = birth) {
        mfbocd_row_t *row = mfbocd_loaded_row(d, i, (uint16_t)kept, &unused);
        birth = mfbocd_get_whole(b);
        b->failed |= birth <= last || birth > tick;
        row->age = tick - birth < (int64_t)UINT32_MAX ? (uint32_t)(tick - birth) : UINT32_MAX;
    }
    for (column = 0; column < MFBOCD_STATS; column++) {
        for (i = 0; i < kept + rows; i++) {
            mfbocd_row_t *row = mfbocd_loaded_row(d, i, (uint16_t)kept, &unused);
            const mfbocd_real value = mfbocd_get_stat(b, column);
            if (MFBOCD_FAMILY != MFBOCD_BERNOULLI || column < 2) /* 1 / (a + b) is computed when it is needed */
                *mfbocd_stat(&row->stats, column) = value;
        }
    }
    for (i = 0; MFBOCD_CLOCKED && i < kept + rows; i++)
        b->failed |= mfbocd_get_whole(b) != tick + 1;
#if MFBOCD_FAMILY == MFBOCD_ROBUST_TREND
    for (i = 0; i < d->rows; i++)
        mfbocd_tidy(&d->row[i].stats);
#if MFBOCD_GAIN == MFBOCD_GAIN_CHANGE
    for (i = 0; i < d->kept; i++)
        mfbocd_tidy(&d->dropped[i].stats);
#endif
#endif
    for (i = 0; i < mfbocd_kept(d) + d->rows; i++)
        b->failed |= !mfbocd_sound(mfbocd_saved_row(d, i)->stats);
}

/* Continue the stream that mfbocd_save or Detector.to_bytes wrote. Returns MFBOCD_OK, or what is wrong: then the
 * stream starts from the beginning, as after mfbocd_init. */
static inline int mfbocd_load(mfbocd_t *d, const uint8_t *data, uint32_t size)
{
    mfbocd_bytes_t b = mfbocd_bytes(0, data, size - 4);
    uint32_t i, recents, crc = 0xFFFFFFFFu, check = 0;
    mfbocd_init(d);
    if (size < 4)
        return MFBOCD_DAMAGED;
    for (i = 0; i < size - 4; i++)
        crc = mfbocd_crc_byte(crc, data[i]);
    for (i = 0; i < 4; i++)
        check |= (uint32_t)data[size - 4 + i] << (8 * i);
    if ((crc ^ 0xFFFFFFFFu) != check)
        return MFBOCD_DAMAGED;
#if MFBOCD_POLICY == MFBOCD_BUDGET
    for (recents = 0; recents <= MFBOCD_RECENTS; recents++) { /* the prefix says how many recent costs there are */
        b.at = 0;
        b.failed = 0;
        mfbocd_put_prefix(&b, recents);
        if (!b.failed)
            break;
    }
#else
    recents = 0;
    mfbocd_put_prefix(&b, recents);
#endif
    if (b.failed)
        return MFBOCD_OTHER_CONFIG;
    mfbocd_read_state(d, &b, recents);
    if (b.failed) {
        mfbocd_init(d);
        return MFBOCD_IMPOSSIBLE;
    }
    return MFBOCD_OK;
}

#endif
