/* Numbers and elementary functions. Part of mfbocd; include "mfbocd.h", not this file.
 *
 * Only exp, log and sqrt of math.h are used. Do not compile with -ffast-math: mfbocd_log1p and mfbocd_add
 * recover rounding errors, which that option assumes to be zero. */
#ifndef MFBOCD_MATH_H
#define MFBOCD_MATH_H

#include <float.h>
#include <math.h>
#include <stdint.h>

#if MFBOCD_DOUBLE
typedef double mfbocd_real;
#define MFBOCD_TINY 1e-200     /* smaller weights become 0 */
#define MFBOCD_LIGHT 1e-12     /* hypotheses below this probability do not count in a gain in nats */
#define MFBOCD_SAFE_WEIGHT 1e-25 /* a weight above this times exp of a number above ... */
#define MFBOCD_SAFE_LOG -400.0   /* ... this is far above MFBOCD_TINY */
#define MFBOCD_LOWEST_LOG -700.0 /* exp of a smaller number would underflow */
#define MFBOCD_LARGEST_PRICE 700.0 /* log price beyond which the price would overflow */
#define mfbocd_exp exp
#define mfbocd_log log
#define mfbocd_sqrt sqrt
#else
typedef float mfbocd_real;
/* A float has a short range, so a surprising reading soon makes every weight small. The update then goes through
 * logarithms (mfbocd_tick), and hypotheses keep about 30 decades relative to the most probable one. */
#define MFBOCD_TINY 1e-35f
#define MFBOCD_LIGHT 1e-7f
#define MFBOCD_SAFE_WEIGHT 1e-3f
#define MFBOCD_SAFE_LOG -4.0f
#define MFBOCD_LOWEST_LOG -86.0f
#define MFBOCD_LARGEST_PRICE 60.0f
#define mfbocd_exp expf
#define mfbocd_log logf
#define mfbocd_sqrt sqrtf
#endif

#define MFBOCD_R(x) ((mfbocd_real)(x)) /* a literal in the chosen precision */

static inline mfbocd_real mfbocd_min(mfbocd_real a, mfbocd_real b) { return a < b ? a : b; }
static inline mfbocd_real mfbocd_max(mfbocd_real a, mfbocd_real b) { return a > b ? a : b; }
static inline mfbocd_real mfbocd_abs(mfbocd_real a) { return a < 0 ? -a : a; }

static inline mfbocd_real mfbocd_clamp(mfbocd_real x, mfbocd_real low, mfbocd_real high)
{
    return mfbocd_min(mfbocd_max(x, low), high);
}

/* Whether x is neither NaN nor infinite. */
static inline int mfbocd_finite(mfbocd_real x) { return x - x == 0; }

/* log(1 + t) for t >= 0, also for small t: the rounding error of 1 + t is added back. */
static inline mfbocd_real mfbocd_log1p(mfbocd_real t)
{
    const mfbocd_real u = 1 + t;
    return mfbocd_log(u) + (u < 2 ? t - (u - 1) : 0);
}

/* A sum over all ticks. In single precision it keeps what each addition rounds off (Kahan), so that it stays as
 * exact as a float can be over billions of terms; a double needs no help. */
typedef struct {
    mfbocd_real value;
    mfbocd_real lost;
} mfbocd_sum_t;

static inline void mfbocd_add(mfbocd_sum_t *sum, mfbocd_real term)
{
#if MFBOCD_DOUBLE
    sum->value += term;
#else
    const mfbocd_real y = term - sum->lost;
    const mfbocd_real t = sum->value + y;
    sum->lost = (t - sum->value) - y;
    sum->value = t;
#endif
}

/* Add, but stay within limits. */
static inline void mfbocd_add_within(mfbocd_sum_t *sum, mfbocd_real term, mfbocd_real low, mfbocd_real high)
{
    mfbocd_add(sum, term);
    if (sum->value < low || sum->value > high) {
        sum->value = mfbocd_clamp(sum->value, low, high);
        sum->lost = 0;
    }
}

/* A number in [0, 1) from three integers: splitmix64's finalizer, applied after each. It has no state, so a
 * replay draws the same numbers. */
static inline mfbocd_real mfbocd_uniform(uint64_t seed, uint64_t tick, uint64_t salt)
{
    const uint64_t parts[3] = {seed, tick, salt};
    uint64_t z = UINT64_C(0x9E3779B97F4A7C15);
    int i;
    for (i = 0; i < 3; i++) {
        z = (z ^ parts[i]) + UINT64_C(0x9E3779B97F4A7C15);
        z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
        z = z ^ (z >> 31);
    }
#if MFBOCD_DOUBLE
    return (double)(z >> 11) * (1.0 / 9007199254740992.0);
#else
    return (float)(uint32_t)(z >> 40) * (1.0f / 16777216.0f);
#endif
}

#endif
