/* Maps before the model: logarithms, square roots, logits, seasons, units and steps. Part of mfbocd.
 *
 * mfbocd_model.h chains them: mfbocd_inward maps a reading to what the model describes (NAN if it is impossible), and
 * adds the log of the slope; mfbocd_outward maps a mean back. */
#ifndef MFBOCD_MAPS_H
#define MFBOCD_MAPS_H

#include "mfbocd_math.h"

/* Means further out are mapped back as these: their exponential or square would overflow. */
#if MFBOCD_DOUBLE
#define MFBOCD_LARGEST_EXP 700.0
#define MFBOCD_LARGEST_ROOT 1e154
#else
#define MFBOCD_LARGEST_EXP 86.0f
#define MFBOCD_LARGEST_ROOT 1e18f
#endif

/* log(x + offset) */
static inline mfbocd_real mfbocd_to_log(mfbocd_real x, mfbocd_real offset, mfbocd_real *slope)
{
    const mfbocd_real u = x + offset;
    if (!(u > 0 && mfbocd_finite(u)))
        return MFBOCD_R(NAN);
    *slope -= mfbocd_log(u);
    return mfbocd_log(u);
}

static inline mfbocd_real mfbocd_from_log(mfbocd_real y, mfbocd_real offset)
{
    return mfbocd_exp(mfbocd_clamp(y, -MFBOCD_LARGEST_EXP, MFBOCD_LARGEST_EXP)) - offset;
}

/* 2 sqrt(x + offset) */
static inline mfbocd_real mfbocd_to_sqrt(mfbocd_real x, mfbocd_real offset, mfbocd_real *slope)
{
    const mfbocd_real u = x + offset;
    if (!(u > 0 && mfbocd_finite(u)))
        return MFBOCD_R(NAN);
    *slope -= MFBOCD_R(0.5) * mfbocd_log(u);
    return 2 * mfbocd_sqrt(u);
}

static inline mfbocd_real mfbocd_from_sqrt(mfbocd_real y, mfbocd_real offset)
{
    const mfbocd_real half = MFBOCD_R(0.5) * mfbocd_clamp(y, 0, MFBOCD_LARGEST_ROOT);
    return half * half - offset;
}

/* log((x + offset) / (1 - x - offset)) */
static inline mfbocd_real mfbocd_to_logit(mfbocd_real x, mfbocd_real offset, mfbocd_real *slope)
{
    const mfbocd_real u = x + offset;
    mfbocd_real a, b;
    if (!(u > 0 && u < 1))
        return MFBOCD_R(NAN);
    a = mfbocd_log(u);
    b = mfbocd_log(1 - u);
    *slope -= a + b;
    return a - b;
}

static inline mfbocd_real mfbocd_from_logit(mfbocd_real y, mfbocd_real offset)
{
    return 1 / (1 + mfbocd_exp(mfbocd_clamp(-y, -MFBOCD_LARGEST_EXP, MFBOCD_LARGEST_EXP))) - offset;
}

/* The fraction of a step that is added at a tick, from 0 to 1 (splitmix64). */
static inline mfbocd_real mfbocd_fraction(uint64_t tick)
{
    uint64_t z = (tick + 1) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    z = z ^ (z >> 31);
#if MFBOCD_DOUBLE
    return (double)(z >> 11) * (1.0 / 9007199254740992.0);
#else
    return (float)(uint32_t)(z >> 40) * (1.0f / 16777216.0f);
#endif
}

/* A phase is a fraction of the season times 2^64: it stays exact over billions of ticks, and its multiples wrap around
 * as angles do. */
typedef struct {
    uint64_t phase; /* at which the piece begins */
    mfbocd_real value, slope; /* there, and per season */
} mfbocd_piece_t;

typedef struct {
    uint64_t step, start; /* phase per tick, and at tick 0 */
    uint16_t harmonics, pieces;
    const mfbocd_real *cosine, *sine;
    const mfbocd_piece_t *piece;
} mfbocd_season_t;

/* A piece begins this much before its phase: phases are rounded, and a tick at its start belongs to it. */
#define MFBOCD_ROUNDED (UINT64_C(1) << 31)

/* The fraction of the season that a phase is. */
static inline mfbocd_real mfbocd_part(uint64_t phase)
{
#if MFBOCD_DOUBLE
    return (double)(phase >> 11) * (1.0 / 9007199254740992.0);
#else
    return (float)(uint32_t)(phase >> 40) * (1.0f / 16777216.0f);
#endif
}

/* sin(2 pi phase): Taylor's series of the sine or cosine of the angle to the nearest quarter. */
static inline mfbocd_real mfbocd_sine(uint64_t phase)
{
    const uint64_t shifted = phase + (UINT64_C(1) << 61);
    const int quarter = (int)(shifted >> 62);
    const uint64_t low = shifted & ((UINT64_C(1) << 62) - 1);
#if MFBOCD_DOUBLE
    const double a = (double)((int64_t)low - (INT64_C(1) << 61)) * (6.28318530717958647693 / 18446744073709551616.0);
#else
    const float a = (float)((int32_t)(low >> 32) - (INT32_C(1) << 29)) * (6.28318530717958647693f / 4294967296.0f);
#endif
    const mfbocd_real v = a * a;
    mfbocd_real sum = 1;
    int k = MFBOCD_DOUBLE ? 18 : 10;
    if (quarter % 2)
        k--;
    for (; k > 0; k -= 2)
        sum = 1 - v / (mfbocd_real)(k * (k + 1)) * sum;
    if (quarter % 2 == 0)
        sum *= a;
    return quarter < 2 ? sum : -sum;
}

/* The value of a season at a tick. */
static inline mfbocd_real mfbocd_season_at(const mfbocd_season_t *season, uint64_t tick)
{
    const uint64_t phase = tick * season->step + season->start;
    mfbocd_real curve = 0;
    uint16_t k, found;
    for (k = 0; k < season->harmonics; k++) {
        const uint64_t multiple = (uint64_t)(k + 1) * phase;
        curve += season->cosine[k] * mfbocd_sine(multiple + (UINT64_C(1) << 62)) + season->sine[k] * mfbocd_sine(multiple);
    }
    if (season->pieces > 0) {
        const uint64_t at = phase + MFBOCD_ROUNDED;
        found = (uint16_t)(season->pieces - 1); /* before the first piece: the last one, one season before */
        for (k = 0; k < season->pieces && season->piece[k].phase <= at; k++)
            found = k;
        curve += season->piece[found].value +
                 season->piece[found].slope * (mfbocd_part(at - season->piece[found].phase) - mfbocd_part(MFBOCD_ROUNDED));
    }
    return curve;
}

#endif
