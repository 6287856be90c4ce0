/* A level or a line in every regime, with autocorrelated noise, outliers and a noise variance that may drift. Part of
 * mfbocd. Readings are standardized: y = (x - prior level) / sqrt(prior scale).
 *
 * Level and line are nested regressions, which share the Cholesky factor of their coefficients' precision. A reading is
 * Student's t about the forecast of each, or an outlier, which has the density of the first reading of a regime. */
#ifndef MFBOCD_ROBUST_TREND_H
#define MFBOCD_ROBUST_TREND_H

#include "mfbocd_unknown_noise.h"

/* Readings further out count as exactly this far, and so do forecasts and lags beyond MFBOCD_FARTHEST: products of
 * larger distances would overflow. The other limits keep quotients representable; no ordinary stream meets them. */
#if MFBOCD_DOUBLE
#define MFBOCD_FAR 1e50
#define MFBOCD_FARTHEST 1e60
#define MFBOCD_HUGE_STAT 1e200
#define MFBOCD_WIDEST 1e150     /* spread of a forecast in units of the noise variance */
#define MFBOCD_NARROWEST 1e-290 /* scale of the noise variance */
#define MFBOCD_LARGEST 1e300
#else
#define MFBOCD_FAR 1e12f
#define MFBOCD_FARTHEST 1e16f
#define MFBOCD_HUGE_STAT 1e33f
#define MFBOCD_WIDEST 1e30f
#define MFBOCD_NARROWEST 1e-20f
#define MFBOCD_LARGEST 1e37f
#endif
#define MFBOCD_LEAST MFBOCD_R(1e-12) /* least probability of the level and of the line, so that either can return */

/* The statistics: the Cholesky factor and, rotated with it, the readings; the shape of the noise; its scale given a
 * level and given a line; P(line); ticks; number of lags; P(the last reading was an outlier); lags; and, unless
 * tempered, the variances of the lags in units of the noise variance. */
enum {
    MFBOCD_L00,
    MFBOCD_L10,
    MFBOCD_L11,
    MFBOCD_Z0,
    MFBOCD_Z1,
    MFBOCD_SHAPE,
    MFBOCD_LEVEL,
    MFBOCD_LINE,
    MFBOCD_SLOPED,
    MFBOCD_AGE,
    MFBOCD_SEEN,
    MFBOCD_OUTLIER,
    MFBOCD_LAG,
    MFBOCD_LAG_NOISE = MFBOCD_LAG + MFBOCD_AR
};
#define MFBOCD_STATS (12 + MFBOCD_AR * (MFBOCD_TEMPERED ? 1 : 2))

typedef struct {
    mfbocd_real v[MFBOCD_STATS];
} mfbocd_stats_t;

/* What one hypothesis expects of the coming reading. */
typedef struct {
    mfbocd_real level, slope; /* regressors, after the autoregression */
    mfbocd_real lagged;       /* the part of the reading that its lags predict */
    mfbocd_real variance;     /* of the rest, in units of the noise variance */
    mfbocd_real flat, line;   /* center of the rest, if the regime is a level, and if it is a line */
    mfbocd_real flat_spread, line_spread; /* their variances, in units of the noise variance */
} mfbocd_forecast_t;

/* P(line) as it is stored. A float cannot be close to 1, so the smaller probability is: that of the level with a minus. */
static inline mfbocd_real mfbocd_stored(mfbocd_real line, mfbocd_real level)
{
#if MFBOCD_DOUBLE
    (void)level;
    return mfbocd_clamp(line, MFBOCD_LEAST, 1 - MFBOCD_LEAST);
#else
    return line <= level ? mfbocd_max(line, MFBOCD_LEAST) : -mfbocd_max(level, MFBOCD_LEAST);
#endif
}

static inline mfbocd_real mfbocd_p_line(const mfbocd_stats_t *s)
{
    const mfbocd_real p = s->v[MFBOCD_SLOPED];
    return p < 0 ? 1 + p : p;
}

static inline mfbocd_real mfbocd_p_level(const mfbocd_stats_t *s)
{
    const mfbocd_real p = s->v[MFBOCD_SLOPED];
    return p < 0 ? -p : 1 - p;
}

static inline mfbocd_stats_t mfbocd_prior(void)
{
    mfbocd_stats_t s;
    int j;
    for (j = 0; j < MFBOCD_STATS; j++)
        s.v[j] = 0;
    s.v[MFBOCD_L00] = MFBOCD_PRIOR_L00;
    s.v[MFBOCD_L11] = MFBOCD_PRIOR_L11;
    s.v[MFBOCD_SHAPE] = MFBOCD_PRIOR_SHAPE;
    s.v[MFBOCD_LEVEL] = 1;
    s.v[MFBOCD_LINE] = 1;
    s.v[MFBOCD_SLOPED] = MFBOCD_DOUBLE || MFBOCD_PRIOR_SLOPED <= 1 - MFBOCD_PRIOR_SLOPED
                             ? MFBOCD_PRIOR_SLOPED
                             : MFBOCD_PRIOR_SLOPED - 1;
    return s;
}

static inline int mfbocd_possible(mfbocd_real x) { return mfbocd_finite(x); }

static inline mfbocd_real mfbocd_standard(mfbocd_real x)
{
    return mfbocd_clamp((x - MFBOCD_OFFSET) / MFBOCD_UNIT, -MFBOCD_FAR, MFBOCD_FAR);
}

static inline mfbocd_real mfbocd_near(mfbocd_real x) { return mfbocd_clamp(x, -MFBOCD_FARTHEST, MFBOCD_FARTHEST); }

static inline mfbocd_forecast_t mfbocd_forecast(const mfbocd_stats_t *s)
{
    mfbocd_forecast_t f;
    mfbocd_real u, v;
    int k = 0;
    f.level = 1;
    f.slope = s->v[MFBOCD_AGE];
    f.lagged = 0;
    f.variance = 0;
#if MFBOCD_AR > 0
    {
        int m;
        k = (int)s->v[MFBOCD_SEEN];
        for (m = 0; m < k; m++) {
            const mfbocd_real a = MFBOCD_PREDICTOR[k][m];
            f.level -= a;
            f.slope -= a * (s->v[MFBOCD_AGE] - 1 - (mfbocd_real)m);
            f.lagged += a * s->v[MFBOCD_LAG + m];
#if !MFBOCD_TEMPERED
            f.variance += a * a * s->v[MFBOCD_LAG_NOISE + m];
#endif
        }
        f.lagged = mfbocd_near(f.lagged);
    }
#endif
    f.slope = mfbocd_clamp(f.slope, -MFBOCD_FAR, MFBOCD_FAR);
    f.variance = mfbocd_min(MFBOCD_PREDICTOR_VARIANCE[k] + f.variance, MFBOCD_WIDEST);
    u = f.level / s->v[MFBOCD_L00];
    v = mfbocd_near((f.slope - s->v[MFBOCD_L10] * u) / s->v[MFBOCD_L11]);
    f.flat = mfbocd_near(s->v[MFBOCD_Z0] * u);
    f.line = mfbocd_near(f.flat + s->v[MFBOCD_Z1] * v);
    f.flat_spread = mfbocd_min(u * u, MFBOCD_WIDEST);
    f.line_spread = mfbocd_min(u * u + v * v, MFBOCD_WIDEST);
    return f;
}

/* log density of Student's t of the residual d, with variance q times that of the noise. */
static inline mfbocd_real mfbocd_student(mfbocd_real d, mfbocd_real q, mfbocd_real shape, mfbocd_real scale,
                                         mfbocd_real deviations)
{
    const mfbocd_real spread = mfbocd_min(q * scale, MFBOCD_LARGEST);
    const mfbocd_real lift = mfbocd_min(MFBOCD_R(0.5) * d * d / spread, MFBOCD_LARGEST);
    mfbocd_real square;
    const mfbocd_real series = mfbocd_half_gamma_ratio(shape + MFBOCD_R(0.5) * (deviations - 1), &square);
    return MFBOCD_R(0.5) * (mfbocd_log(square / spread) - MFBOCD_R(1.8378770664093454836)) + series -
           (shape + MFBOCD_R(0.5) * deviations) * mfbocd_log1p(lift);
}

/* The log density of an outlier: that of the first reading of a regime. */
static inline mfbocd_real mfbocd_outlier(mfbocd_real y, mfbocd_real zeta)
{
    const mfbocd_real u = 1 / MFBOCD_PRIOR_L00;
    return mfbocd_student(y, 1 / zeta - 1 + MFBOCD_PREDICTOR_VARIANCE[0] + u * u, MFBOCD_PRIOR_SHAPE, 1,
                          mfbocd_deviations(zeta));
}

/* The log predictive of y. Sets P(y is no outlier) and P(line) after it, as it is stored; `outlier` is an outlier's log density. */
static inline mfbocd_real mfbocd_weigh(const mfbocd_stats_t *s, const mfbocd_forecast_t *f, mfbocd_real y,
                                       mfbocd_real zeta, mfbocd_real outlier, mfbocd_real *trust, mfbocd_real *sloped)
{
    const mfbocd_real q = 1 / zeta - 1 + f->variance, rest = y - f->lagged, deviations = mfbocd_deviations(zeta);
    const mfbocd_real shape = s->v[MFBOCD_SHAPE], p = mfbocd_p_line(s), p_level = mfbocd_p_level(s);
    const mfbocd_real level = mfbocd_student(rest - f->flat, q + f->flat_spread, shape, s->v[MFBOCD_LEVEL], deviations);
    const mfbocd_real line = mfbocd_student(rest - f->line, q + f->line_spread, shape, s->v[MFBOCD_LINE], deviations);
    mfbocd_real most = mfbocd_max(level, line), odd = 0, f0, f1, total;
    if (MFBOCD_OUTLIERS > 0) {
        most = mfbocd_max(most, outlier);
        odd = MFBOCD_OUTLIERS * mfbocd_exp(outlier - most);
    }
    f0 = (1 - MFBOCD_OUTLIERS) * p_level * mfbocd_exp(level - most);
    f1 = (1 - MFBOCD_OUTLIERS) * p * mfbocd_exp(line - most);
    total = f0 + f1 + odd;
    *trust = (f0 + f1) / total;
    *sloped = mfbocd_stored((f1 + p * odd) / total, (f0 + p_level * odd) / total);
    return most + mfbocd_log(total);
}

/* Add the row (level, slope, rest) of precision 1 / q to the factor, by two rotations. */
static inline void mfbocd_rotate(mfbocd_stats_t *s, const mfbocd_forecast_t *f, mfbocd_real rest, mfbocd_real q)
{
    const mfbocd_real root = 1 / mfbocd_sqrt(q), u = f->level * root;
    mfbocd_real v = f->slope * root, z = rest * root, a = s->v[MFBOCD_L00], b;
    mfbocd_real r = mfbocd_sqrt(a * a + u * u), cosine = a / r, sine = u / r;
    s->v[MFBOCD_L00] = r;
    b = s->v[MFBOCD_L10];
    s->v[MFBOCD_L10] = cosine * b + sine * v;
    v = cosine * v - sine * b;
    b = s->v[MFBOCD_Z0];
    s->v[MFBOCD_Z0] = cosine * b + sine * z;
    z = cosine * z - sine * b;
    a = s->v[MFBOCD_L11];
    r = mfbocd_sqrt(a * a + v * v);
    s->v[MFBOCD_L11] = r;
    s->v[MFBOCD_Z1] = a / r * s->v[MFBOCD_Z1] + v / r * z;
}

/* Add a reading with weight zeta * trust. */
static inline void mfbocd_add_reading(mfbocd_stats_t *s, const mfbocd_forecast_t *f, mfbocd_real y, mfbocd_real zeta,
                                      mfbocd_real trust)
{
    const mfbocd_real weight = zeta * trust, rest = y - f->lagged, deviations = mfbocd_deviations(zeta);
    if (weight > 0) {
        const mfbocd_real q = 1 / weight - 1 + f->variance;
        mfbocd_real *level = &s->v[MFBOCD_LEVEL], *line = &s->v[MFBOCD_LINE];
        *level += MFBOCD_R(0.5) * (rest - f->flat) * (rest - f->flat) / (q + f->flat_spread);
        *line += MFBOCD_R(0.5) * (rest - f->line) * (rest - f->line) / (q + f->line_spread);
        *level = mfbocd_min(*level, MFBOCD_HUGE_STAT);
        *line = mfbocd_min(*line, MFBOCD_HUGE_STAT);
        s->v[MFBOCD_SHAPE] += MFBOCD_R(0.5) * deviations * trust;
        mfbocd_rotate(s, f, rest, q);
    }
#if MFBOCD_AR > 0
    {
        /* Where later readings are predicted from it, a noisy reading is replaced by what forecast and reading give
         * together, and an outlier by its forecast. */
        const mfbocd_real noise = MFBOCD_TEMPERED ? 0 : mfbocd_max(deviations / zeta - 1, 0), p = mfbocd_p_line(s);
        const mfbocd_real off = rest - f->flat - p * (f->line - f->flat);
        const mfbocd_real expected = f->variance + f->flat_spread + p * (f->line_spread - f->flat_spread);
        const mfbocd_real gain = expected / (expected + noise);
        int m;
        for (m = MFBOCD_AR - 1; m > 0; m--)
            s->v[MFBOCD_LAG + m] = s->v[MFBOCD_LAG + m - 1];
        s->v[MFBOCD_LAG] = mfbocd_near(y - (1 - trust * gain) * off);
#if !MFBOCD_TEMPERED
        for (m = MFBOCD_AR - 1; m > 0; m--)
            s->v[MFBOCD_LAG_NOISE + m] = s->v[MFBOCD_LAG_NOISE + m - 1];
        s->v[MFBOCD_LAG_NOISE] = trust * gain * noise;
#endif
    }
#endif
    s->v[MFBOCD_SEEN] = mfbocd_min(s->v[MFBOCD_SEEN] + 1, MFBOCD_AR);
    s->v[MFBOCD_OUTLIER] = 1 - trust;
    s->v[MFBOCD_AGE] += 1;
}

/* Discount the evidence about the noise variance, down to the prior's shape. */
static inline void mfbocd_discount(mfbocd_stats_t *s)
{
    if (MFBOCD_FORGET < 1) {
        const mfbocd_real most = mfbocd_min(MFBOCD_PRIOR_SHAPE / s->v[MFBOCD_SHAPE], 1);
        const mfbocd_real factor = mfbocd_max(MFBOCD_FORGET, most);
        s->v[MFBOCD_SHAPE] *= factor;
        s->v[MFBOCD_LEVEL] = mfbocd_max(s->v[MFBOCD_LEVEL] * factor, MFBOCD_NARROWEST);
        s->v[MFBOCD_LINE] = mfbocd_max(s->v[MFBOCD_LINE] * factor, MFBOCD_NARROWEST);
    }
}

/* Add a reading, and return its log predictive; `outlier` is an outlier's log density. */
static inline mfbocd_real mfbocd_learn(mfbocd_stats_t *s, mfbocd_real y, mfbocd_real zeta, mfbocd_real outlier)
{
    const mfbocd_forecast_t f = mfbocd_forecast(s);
    mfbocd_real trust, sloped;
    const mfbocd_real found = mfbocd_weigh(s, &f, y, zeta, outlier, &trust, &sloped);
    mfbocd_add_reading(s, &f, y, zeta, trust);
    s->v[MFBOCD_SLOPED] = sloped;
    mfbocd_discount(s);
    return found;
}

static inline void mfbocd_absorb(mfbocd_stats_t *s, mfbocd_real y, mfbocd_real zeta)
{
    mfbocd_learn(s, y, zeta, mfbocd_outlier(y, zeta));
}

/* A tick without a reading: the lags before the gap are not used again. */
static inline void mfbocd_skip(mfbocd_stats_t *s)
{
    s->v[MFBOCD_AGE] += 1;
    s->v[MFBOCD_SEEN] = 0;
    s->v[MFBOCD_OUTLIER] = 0;
}

/* What the log density of a reading in its own unit has beyond that of y. */
static inline mfbocd_real mfbocd_log_unit(mfbocd_real zeta)
{
    (void)zeta;
    return MFBOCD_LOG_UNIT;
}

/* The mean of the next reading, standardized; that of an outlier is 0. */
static inline mfbocd_real mfbocd_level(const mfbocd_stats_t *s)
{
    const mfbocd_forecast_t f = mfbocd_forecast(s);
    return (1 - MFBOCD_OUTLIERS) * (f.lagged + f.flat + mfbocd_p_line(s) * (f.line - f.flat));
}

/* The variance of a full reading, standardized; mfbocd_level is its mean. */
static inline mfbocd_real mfbocd_full_variance(const mfbocd_stats_t *s)
{
    const mfbocd_forecast_t f = mfbocd_forecast(s);
    const mfbocd_real beyond = s->v[MFBOCD_SHAPE] - 1, p = mfbocd_p_line(s), u = 1 / MFBOCD_PRIOR_L00;
    const mfbocd_real flat = f.lagged + f.flat, line = f.lagged + f.line, mean = mfbocd_level(s);
    mfbocd_real sum;
    if (!(beyond > 0) || (MFBOCD_OUTLIERS > 0 && !(MFBOCD_PRIOR_SHAPE > 1)))
        return MFBOCD_R(INFINITY);
    sum = (1 - p) * (s->v[MFBOCD_LEVEL] * (f.variance + f.flat_spread) / beyond + (flat - mean) * (flat - mean)) +
          p * (s->v[MFBOCD_LINE] * (f.variance + f.line_spread) / beyond + (line - mean) * (line - mean));
    sum *= 1 - MFBOCD_OUTLIERS;
    if (MFBOCD_OUTLIERS > 0)
        sum += MFBOCD_OUTLIERS * ((MFBOCD_PREDICTOR_VARIANCE[0] + u * u) / (MFBOCD_PRIOR_SHAPE - 1) + mean * mean);
    return sum;
}

/* The reduction of the variance of the coming level, in units of the noise variance, unless the reading is an outlier. */
static inline mfbocd_real mfbocd_variance_gain(const mfbocd_stats_t *s, mfbocd_real zeta)
{
    const mfbocd_forecast_t f = mfbocd_forecast(s);
    const mfbocd_real q = 1 / zeta - 1 + f.variance, p = mfbocd_p_line(s);
    return (1 - MFBOCD_OUTLIERS) * ((1 - p) * f.flat_spread * (f.flat_spread / (q + f.flat_spread)) +
                                    p * f.line_spread * (f.line_spread / (q + f.line_spread)));
}

/* The information in nats about level or line and about the noise, unless the reading is an outlier. */
static inline mfbocd_real mfbocd_parameter_gain(const mfbocd_stats_t *s, mfbocd_real zeta)
{
    const mfbocd_forecast_t f = mfbocd_forecast(s);
    const mfbocd_real q = 1 / zeta - 1 + f.variance, p = mfbocd_p_line(s);
    const mfbocd_real known =
        MFBOCD_R(0.5) * ((1 - p) * mfbocd_log1p(f.flat_spread / q) + p * mfbocd_log1p(f.line_spread / q));
    return (1 - MFBOCD_OUTLIERS) *
           (known + mfbocd_scale_gain(s->v[MFBOCD_SHAPE], MFBOCD_R(0.5) * mfbocd_deviations(zeta)));
}

/* Keep loaded scales away from 0, which they may round to. */
static inline void mfbocd_tidy(mfbocd_stats_t *s)
{
    s->v[MFBOCD_LEVEL] = mfbocd_max(s->v[MFBOCD_LEVEL], MFBOCD_NARROWEST);
    s->v[MFBOCD_LINE] = mfbocd_max(s->v[MFBOCD_LINE], MFBOCD_NARROWEST);
}

static inline int mfbocd_between(mfbocd_real x, mfbocd_real low, mfbocd_real high) { return x >= low && x <= high; }

/* Whether x is a count of at most `most`. */
static inline int mfbocd_counts(mfbocd_real x, mfbocd_real most)
{
    return mfbocd_between(x, 0, most) && x == (mfbocd_real)(uint64_t)x;
}

/* Whether a hypothesis can have these statistics: factor and shape only grow. */
static inline int mfbocd_sound_trend(const mfbocd_stats_t *s)
{
    const mfbocd_real *v = s->v, least = MFBOCD_R(1 - 1e-6), most = MFBOCD_FAR * 1000;
    int m;
    for (m = MFBOCD_LAG; m < MFBOCD_STATS; m++)
        if (!mfbocd_between(v[m], m < MFBOCD_LAG_NOISE ? -2 * MFBOCD_FARTHEST : 0, 2 * MFBOCD_FARTHEST))
            return 0;
    return mfbocd_between(v[MFBOCD_L00], least * MFBOCD_PRIOR_L00, most) && mfbocd_between(v[MFBOCD_L10], -most, most) &&
           mfbocd_between(v[MFBOCD_L11], least * MFBOCD_PRIOR_L11, most) &&
           mfbocd_between(v[MFBOCD_Z0], -most * MFBOCD_FAR, most * MFBOCD_FAR) &&
           mfbocd_between(v[MFBOCD_Z1], -most * MFBOCD_FAR, most * MFBOCD_FAR) &&
           mfbocd_between(v[MFBOCD_SHAPE], least * MFBOCD_PRIOR_SHAPE, most) &&
           mfbocd_between(v[MFBOCD_LEVEL], 0, MFBOCD_HUGE_STAT) && mfbocd_between(v[MFBOCD_LINE], 0, MFBOCD_HUGE_STAT) &&
           v[MFBOCD_SLOPED] > (MFBOCD_DOUBLE ? 0 : -1) && v[MFBOCD_SLOPED] < 1 && v[MFBOCD_SLOPED] != 0 &&
           mfbocd_between(v[MFBOCD_OUTLIER], 0, 1) &&
           mfbocd_counts(v[MFBOCD_AGE], MFBOCD_R(9007199254740992.0)) && mfbocd_counts(v[MFBOCD_SEEN], MFBOCD_AR);
}

#endif
