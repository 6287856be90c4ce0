"""The models every general test runs over: a new model is one row here.

Each case carries its own truth: the log marginal likelihood of a segment in one closed form or one quadrature,
never as the product of sequential predictives the filter uses (except where the model is DEFINED by them).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import special, stats

import mfbocd as mf

from .engine import contaminated as c
from .engine import dependent as d
from .engine import mapped as mp
from .engine import robust as r
from .engine import robust_trend as rt
from .engine import vectors as v

Readings = Sequence[tuple[Any, float]]  # (x, zeta) pairs of one segment


def _same(mean: Any, tick: int) -> Any:
    return mean


@dataclass(frozen=True)
class Case:
    name: str
    model: Callable[[], Any]
    draw: Callable[[np.random.Generator], Any]
    log_marginal: Callable[..., float]
    """Log marginal likelihood of a segment, from an independent formula."""
    mean: Callable[..., Any]
    """E[next x | segment], from an independent formula."""
    tolerance: float = 1e-10
    remembers: bool = False
    """Whether a segment depends on the readings before it; `log_marginal` and `mean` then take those too."""
    additive: bool = True
    """Whether readings at zeta a and b equal one at a + b: not if time passes between them or zeta is no power."""
    given: int = 0
    """How many numbers at the end of a reading are covariates, which are not predicted."""

    center: Callable[..., Any] | None = None
    """The mean on the scale on which means are averaged over histories, if that is not `mean`; and back from it."""
    outer: Callable[[Any, int], Any] = _same

    def marginal_of(self, readings: Readings, before: Readings) -> float:
        return self.log_marginal(readings, before) if self.remembers else self.log_marginal(readings)

    def mean_of(self, readings: Readings, before: Readings) -> Any:
        of = self.center or self.mean
        return of(readings, before) if self.remembers else of(readings)


# --- Gaussian: the joint density of a segment is multivariate normal --------------------------------------------
MEAN, VAR, NOISE = 1.5, 4.0, 0.7


def gaussian_marginal(readings: Readings) -> float:
    x = np.array([x for x, zeta in readings if zeta > 0])
    zeta = np.array([zeta for _, zeta in readings if zeta > 0])
    if x.size == 0:
        return 0.0
    covariance = VAR + np.diag(NOISE / zeta)
    return float(stats.multivariate_normal(np.full(x.size, MEAN), covariance).logpdf(x))


def gaussian_mean(readings: Readings) -> float:
    precision = 1 / VAR + sum(zeta / NOISE for _, zeta in readings)
    return (MEAN / VAR + sum(zeta * x / NOISE for x, zeta in readings)) / precision


def gaussian_family(predictive: str) -> Any:
    return mf.ExponentialFamily(
        a2=lambda chi, nu: 0.5 * NOISE * chi**2 / nu + 0.5 * np.log(2 * np.pi * NOISE / nu),
        u=lambda x: x / NOISE,
        log_h1=lambda x: -0.5 * x**2 / NOISE - 0.5 * np.log(2 * np.pi * NOISE),
        chi=MEAN / VAR,
        nu=NOISE / VAR,
        predictive=predictive,
        x_moments=lambda chi, nu: (NOISE * chi / nu, NOISE * (1 + 1 / nu)),
    )


def gaussian_paper_marginal(readings: Readings) -> float:
    """int prod N(x | theta, noise)^zeta pi(theta); each factor is N(x | theta, noise / zeta) times a constant."""
    given = [zeta for _, zeta in readings if zeta > 0]
    constants = sum(0.5 * (1 - z) * math.log(2 * math.pi * NOISE) - 0.5 * math.log(z) for z in given)
    return gaussian_marginal(readings) + constants


# --- Bernoulli ------------------------------------------------------------------------------------------------
ALPHA, BETA = 0.6, 1.7


def beta_paper_marginal(readings: Readings) -> float:
    a = ALPHA + sum(zeta * x for x, zeta in readings)
    b = BETA + sum(zeta * (1 - x) for x, zeta in readings)
    return float(special.betaln(a, b) - special.betaln(ALPHA, BETA))


def beta_normalized_marginal(readings: Readings) -> float:
    """The model is defined by its sequential predictives: their product, with scipy's rising factorial."""
    a, b, total = ALPHA, BETA, 0.0
    for x, zeta in readings:
        if zeta > 0:
            rise = (special.poch(b, zeta), special.poch(a, zeta))
            total += math.log(rise[int(x)] / sum(rise))
        a, b = a + zeta * x, b + zeta * (1 - x)
    return total


def beta_mean(readings: Readings) -> float:
    a = ALPHA + sum(zeta * x for x, zeta in readings)
    b = BETA + sum(zeta * (1 - x) for x, zeta in readings)
    return a / (a + b)


def bernoulli_family(predictive: str) -> Any:
    return mf.ExponentialFamily(
        a2=lambda chi, nu: special.betaln(chi, nu - chi),
        u=lambda x: x,
        log_h1=lambda x: 0.0 * x,
        chi=ALPHA,
        nu=ALPHA + BETA,
        support=[0, 1],
        predictive=predictive,
    )


# --- Poisson, as a user-defined family ------------------------------------------------------------------------
SHAPE, RATE = 2.5, 0.8


def poisson_marginal(readings: Readings) -> float:
    a = SHAPE + sum(z * x for x, z in readings)
    b = RATE + sum(z for _, z in readings)
    base = sum(z * special.gammaln(x + 1) for x, z in readings)
    prior = special.gammaln(SHAPE) - SHAPE * math.log(RATE)
    return float(special.gammaln(a) - a * math.log(b) - prior - base)


def poisson_mean(readings: Readings) -> float:
    return (SHAPE + sum(z * x for x, z in readings)) / (RATE + sum(z for _, z in readings))


def poisson_family() -> Any:
    return mf.ExponentialFamily(
        a2=lambda chi, nu: special.gammaln(chi) - chi * np.log(nu),
        u=lambda x: x,
        log_h1=lambda x: -special.gammaln(np.asarray(x) + 1.0),
        chi=SHAPE,
        nu=RATE,
        support="counts",
    )


# --- Gaussian with unknown mean and variance --------------------------------------------------------------------
CENTRE, STRENGTH, FORM, SCALE = -0.5, 0.8, 2.2, 1.7


def normal_gamma(readings: Readings) -> tuple[float, float, float, float]:
    """(mean, count, shape, scale) of the posterior, from sums over the whole segment."""
    x = np.array([x for x, _ in readings])
    zeta = np.array([zeta for _, zeta in readings])
    count = STRENGTH + zeta.sum()
    mean = (STRENGTH * CENTRE + zeta @ x) / count
    square = STRENGTH * (CENTRE - mean) ** 2 + zeta @ (x - mean) ** 2
    return float(mean), float(count), float(FORM + 0.5 * zeta.sum()), float(SCALE + 0.5 * square)


def unknown_paper_marginal(readings: Readings) -> float:
    """The ratio of two Normal-inverse-gamma normalizers."""
    _, count, shape, scale = normal_gamma(readings)
    total = sum(zeta for _, zeta in readings)
    prior = special.gammaln(FORM) - FORM * math.log(SCALE) - 0.5 * math.log(STRENGTH)
    after = special.gammaln(shape) - shape * math.log(scale) - 0.5 * math.log(count)
    return float(after - prior - 0.5 * total * math.log(2 * math.pi))


def sequential(readings: Readings, log_predictive: Callable[[Readings, float, float], float]) -> float:
    """The model is DEFINED by its predictives: the sum of their logarithms."""
    given = [(x, zeta) for x, zeta in readings if zeta > 0]
    return sum(log_predictive(given[:i], x, zeta) for i, (x, zeta) in enumerate(given))


def unknown_marginal(readings: Readings) -> float:
    """Readings of variance s2 / zeta are jointly Student's t."""
    given = [(x, zeta) for x, zeta in readings if zeta > 0]
    if not given:
        return 0.0
    x, zeta = np.array(given).T
    shape = SCALE / FORM * (1 / STRENGTH + np.diag(1 / zeta))
    return float(stats.multivariate_t(np.full(x.size, CENTRE), shape, df=2 * FORM).logpdf(x))


def partial_predictive(past: Sequence[tuple[Any, ...]], x: float, zeta: float) -> float:
    """The next reading after (x, weight, deviations): the posterior's sums, and Student's t."""
    mean, count, _, scale = normal_gamma([entry[:2] for entry in past])
    shape = FORM + 0.5 * sum(deviations for _, _, deviations in past)
    return float(stats.t(2 * shape, mean, math.sqrt(scale / shape * (1 / zeta + 1 / count))).logpdf(x))


def unknown_predictive(past: Readings, x: float, zeta: float) -> float:
    mean, count, shape, scale = normal_gamma(past)
    df = 2 * shape + zeta - 1
    return float(stats.t(df, mean, math.sqrt(2 * scale * (count + zeta) / (zeta * count * df))).logpdf(x))


# --- exponential and Gamma readings, Gamma prior on the rate --------------------------------------------------------
KNOWN, FIRM, PACE = 2.6, 2.9, 1.4


def rate_posterior(readings: Readings, known: float) -> tuple[float, float]:
    return FIRM + known * sum(z for _, z in readings), PACE + sum(z * x for x, z in readings)


def rate_mean(readings: Readings, known: float) -> float:
    a, b = rate_posterior(readings, known)
    return known * b / (a - 1)


def rate_paper_marginal(readings: Readings, known: float) -> float:
    a, b = rate_posterior(readings, known)
    base = sum(z * ((known - 1) * math.log(x) - special.gammaln(known)) for x, z in readings)
    prior = special.gammaln(FIRM) - FIRM * math.log(PACE)
    return float(base + special.gammaln(a) - a * math.log(b) - prior)


def rate_marginal(readings: Readings, known: float) -> float:
    """The integral over theta of a product of Gamma(known zeta, zeta theta) densities."""
    given = [(x, z) for x, z in readings if z > 0]
    a, b = rate_posterior(given, known)
    base = sum(known * z * math.log(z) + (known * z - 1) * math.log(x) - special.gammaln(known * z) for x, z in given)
    prior = special.gammaln(FIRM) - FIRM * math.log(PACE)
    return float(base + special.gammaln(a) - a * math.log(b) - prior)


# --- counts -----------------------------------------------------------------------------------------------------
TRIALS = 9


def poisson_predictive(past: Readings, x: float, zeta: float) -> float:
    """The closed form divided by its sum over the first counts, which are all that matter here."""
    every = np.arange(600.0)
    a = SHAPE + sum(z * v for v, z in past)
    b = RATE + sum(z for _, z in past)
    logs = special.gammaln(a + zeta * every) - zeta * special.gammaln(every + 1) - zeta * every * math.log(b + zeta)
    return float(logs[int(x)] - special.logsumexp(logs))


def binomial_paper_marginal(readings: Readings) -> float:
    a = ALPHA + sum(zeta * x for x, zeta in readings)
    b = BETA + sum(zeta * (TRIALS - x) for x, zeta in readings)
    base = sum(zeta * math.log(special.comb(TRIALS, x)) for x, zeta in readings)
    return float(base + special.betaln(a, b) - special.betaln(ALPHA, BETA))


def binomial_predictive(past: Readings, x: float, zeta: float) -> float:
    every = np.arange(TRIALS + 1.0)
    a = ALPHA + sum(z * v for v, z in past)
    b = BETA + sum(z * (TRIALS - v) for v, z in past)
    logs = zeta * np.log(special.comb(TRIALS, every)) + special.betaln(a + zeta * every, b + zeta * (TRIALS - every))
    return float(logs[int(x)] - special.logsumexp(logs))


def binomial_mean(readings: Readings) -> float:
    a = ALPHA + sum(zeta * x for x, zeta in readings)
    return TRIALS * a / (ALPHA + BETA + TRIALS * sum(zeta for _, zeta in readings))


def _normal(rng: np.random.Generator) -> float:
    return float(rng.normal(MEAN, 3.0))


def _bit(rng: np.random.Generator) -> float:
    return float(rng.random() < 0.4)


def _count(rng: np.random.Generator) -> float:
    return float(rng.poisson(3.0))


def _wait(rng: np.random.Generator) -> float:
    return float(rng.exponential(1.3))


def _some(rng: np.random.Generator) -> float:
    return float(rng.binomial(TRIALS, rng.choice([0.2, 0.7])))


def _many(rng: np.random.Generator) -> float:
    return float(rng.poisson(rng.choice([3.0, 8.0])))


def trend(noise_var: float | None) -> Case:
    return Case(
        "trend" if noise_var is None else "trend-known",
        lambda: mf.Trend(d.LEVEL, d.SLOPE, d.COUNTS[:2], **d.known_noise(noise_var)),
        _normal,
        lambda r: d.trend_marginal(r, noise_var),
        lambda r: d.trend_mean(r, noise_var),
        additive=False,
    )


def season(noise_var: float | None) -> Case:
    """A fractional period; or a slope and the highest harmonic, whose sine vanishes."""
    make = d.plain_season if noise_var is None else d.sloping_season
    return Case(
        "season" if noise_var is None else "season-known",
        lambda: make(noise_var),
        _normal,
        lambda r: d.season_marginal(r, noise_var),
        lambda r: d.season_mean(r, noise_var),
        additive=False,
    )


def autoregressive(noise_var: float | None) -> Case:
    return Case(
        "autoregressive" if noise_var is None else "autoregressive-known",
        lambda: mf.Autoregressive(2, d.ABOUT, d.COUNTS, **d.known_noise(noise_var)),
        _normal,
        lambda r, before=(): d.lagged_marginal(r, before, noise_var),
        lambda r, before=(): d.lagged_mean(r, before, noise_var),
        remembers=True,
        additive=False,
    )


def process(noise_var: float | None, order: int) -> Case:
    return Case(
        "process" if noise_var is None else "process-known",
        lambda: mf.GaussianProcess(
            order, d.ABOUT, d.LENGTH, (d.FIRM, d.LOOSE), **d.known_noise(noise_var), reach=d.REACH
        ),
        _normal,
        lambda r, before=(): d.process_marginal(r, before, noise_var, order),
        lambda r, before=(): d.process_mean(r, before, noise_var, order),
        remembers=True,
        additive=False,
    )


def regression(noise_var: float | None) -> Case:
    return Case(
        "regression" if noise_var is None else "regression-known",
        lambda: mf.LinearRegression(2, d.LINE, d.COUNTS, **d.known_noise(noise_var)),
        d.covariates,
        lambda r, before=(): d.regression_marginal(r, noise_var),
        lambda r, before=(): d.regression_mean(r, before, noise_var),
        remembers=True,
        additive=False,
        given=2,
    )


# --- mixtures of families ------------------------------------------------------------------------------------------
ODDS = (1.0, 3.0)


class Both(NamedTuple):
    """Two rows of this table with prior odds 1 to 3: P(family) times its marginal likelihood of the segment."""

    one: Case
    two: Case

    def logs(self, readings: Readings) -> Any:
        known = [case.log_marginal(readings) for case in self]
        return np.array(known) + np.log(ODDS) - math.log(sum(ODDS))

    def marginal(self, readings: Readings) -> float:
        return float(special.logsumexp(self.logs(readings)))

    def mean(self, readings: Readings) -> Any:
        return special.softmax(self.logs(readings)) @ np.array([case.mean(readings) for case in self])

    def case(self, name: str, draw: Callable[[np.random.Generator], Any]) -> Case:
        def model() -> Any:
            return mf.Mixture(self.one.model(), self.two.model(), weights=ODDS)

        return Case(name, model, draw, self.marginal, self.mean, additive=False)


def binomial_if_possible(readings: Readings) -> float:
    """The family is excluded by a count above its number of trials."""
    able = all(x <= TRIALS for x, zeta in readings if zeta > 0)
    return sequential(readings, binomial_predictive) if able else -math.inf


def gaussian_predictive(past: Readings, x: float, zeta: float) -> float:
    precision = 1 / VAR + sum(z / NOISE for _, z in past)
    return float(stats.norm(gaussian_mean(past), math.sqrt(NOISE / zeta + 1 / precision)).logpdf(x))


def beta_predictive(past: Readings, x: float, zeta: float) -> float:
    a, b = ALPHA + sum(z * v for v, z in past), BETA + sum(z * (1 - v) for v, z in past)
    rise = (special.poch(b, zeta), special.poch(a, zeta))
    return math.log(rise[int(x)] / sum(rise))


def contaminated(
    name: str,
    model: Callable[[], Any],
    draw: Callable[[np.random.Generator], Any],
    predictive: Callable[[Readings, Any, float], float],
    mean: Callable[[Readings], Any],
    entry: c.Entry = c.weighed,
) -> Case:
    """A family with outliers, from the family's own predictive and mean."""
    wrapped = (c.marginal(predictive, entry), c.mean(predictive, mean, entry))
    return Case(f"outliers-{name}", lambda: mf.Outliers(model(), c.RATE), draw, *wrapped, additive=False)


CASES = [
    Case("gaussian", lambda: mf.Gaussian(MEAN, VAR, NOISE), _normal, gaussian_marginal, gaussian_mean),
    Case(
        "bernoulli-paper", lambda: mf.Bernoulli(ALPHA, BETA, predictive="paper"), _bit, beta_paper_marginal, beta_mean
    ),
    Case("bernoulli", lambda: mf.Bernoulli(ALPHA, BETA), _bit, beta_normalized_marginal, beta_mean),
    Case("family-gaussian", lambda: gaussian_family("normalized"), _normal, gaussian_marginal, gaussian_mean, 1e-9),
    Case("family-gaussian-paper", lambda: gaussian_family("paper"), _normal, gaussian_paper_marginal, gaussian_mean),
    Case("family-bernoulli-paper", lambda: bernoulli_family("paper"), _bit, beta_paper_marginal, beta_mean),
    Case("family-bernoulli", lambda: bernoulli_family("normalized"), _bit, beta_normalized_marginal, beta_mean),
    Case("family-poisson", poisson_family, _count, poisson_marginal, poisson_mean, 1e-9),
    Case(
        "categorical-paper",
        lambda: mf.Categorical(v.DIRICHLET, predictive="paper"),
        v.category,
        v.dirichlet_paper_marginal,
        v.dirichlet_mean,
    ),
    Case("categorical", lambda: mf.Categorical(v.DIRICHLET), v.category, v.dirichlet_marginal, v.dirichlet_mean),
    Case(
        "unknown-variance",
        lambda: mf.GaussianUnknown(CENTRE, STRENGTH, FORM, SCALE),
        _normal,
        unknown_marginal,
        lambda r: normal_gamma(r)[0],
        additive=False,
    ),
    Case(
        "unknown-variance-tempered",
        lambda: mf.GaussianUnknown(CENTRE, STRENGTH, FORM, SCALE, weighting="tempered"),
        _normal,
        lambda r: sequential(r, unknown_predictive),
        lambda r: normal_gamma(r)[0],
    ),
    Case(
        "unknown-variance-paper",
        lambda: mf.GaussianUnknown(CENTRE, STRENGTH, FORM, SCALE, "paper", "tempered"),
        _normal,
        unknown_paper_marginal,
        lambda r: normal_gamma(r)[0],
    ),
    Case(
        "exponential",
        lambda: mf.Exponential(FIRM, PACE),
        _wait,
        lambda r: rate_marginal(r, 1.0),
        lambda r: rate_mean(r, 1.0),
    ),
    Case(
        "exponential-paper",
        lambda: mf.Exponential(FIRM, PACE, predictive="paper"),
        _wait,
        lambda r: rate_paper_marginal(r, 1.0),
        lambda r: rate_mean(r, 1.0),
    ),
    Case(
        "gamma",
        lambda: mf.Gamma(KNOWN, FIRM, PACE),
        _wait,
        lambda r: rate_marginal(r, KNOWN),
        lambda r: rate_mean(r, KNOWN),
    ),
    Case(
        "gamma-paper",
        lambda: mf.Gamma(KNOWN, FIRM, PACE, predictive="paper"),
        _wait,
        lambda r: rate_paper_marginal(r, KNOWN),
        lambda r: rate_mean(r, KNOWN),
    ),
    Case(
        "poisson",
        lambda: mf.Poisson(SHAPE, RATE),
        _count,
        lambda r: sequential(r, poisson_predictive),
        poisson_mean,
    ),
    Case(
        "poisson-paper", lambda: mf.Poisson(SHAPE, RATE, predictive="paper"), _count, poisson_marginal, poisson_mean
    ),
    Case(
        "binomial",
        lambda: mf.Binomial(TRIALS, ALPHA, BETA),
        _some,
        lambda r: sequential(r, binomial_predictive),
        binomial_mean,
    ),
    Case(
        "binomial-paper",
        lambda: mf.Binomial(TRIALS, ALPHA, BETA, predictive="paper"),
        _some,
        binomial_paper_marginal,
        binomial_mean,
    ),
    trend(None),
    trend(d.NOISE),
    Case(
        "trend-tempered",
        lambda: mf.Trend(d.LEVEL, d.SLOPE, d.COUNTS[:2], d.SHAPE, d.SCALE, weighting="tempered"),
        _normal,
        d.tempered_trend,
        lambda r: d.trend_mean(r, None),
        additive=False,
    ),
    season(None),
    season(d.NOISE),
    autoregressive(None),
    autoregressive(d.NOISE),
    process(None, 1),
    process(d.NOISE, 2),
    Case(
        "student",
        lambda: mf.StudentT(r.MEAN, r.VAR, r.NOISE, r.DEGREES),
        _normal,
        r.student_marginal,
        r.student_mean,
        additive=False,
    ),
    Case(
        "student-unknown",
        lambda: mf.StudentTUnknown(r.LEVEL, r.WORTH, r.FORM, r.SIZE, r.TAILS),
        _normal,
        lambda readings: sequential(readings, r.scale_predictive),
        lambda readings: r.scale_state(readings)[0],
        tolerance=1e-8,
        additive=False,
    ),
    contaminated("gaussian", lambda: mf.Gaussian(MEAN, VAR, NOISE), _normal, gaussian_predictive, gaussian_mean),
    contaminated(
        "unknown",
        lambda: mf.GaussianUnknown(CENTRE, STRENGTH, FORM, SCALE),
        _normal,
        partial_predictive,
        lambda r: normal_gamma([entry[:2] for entry in r])[0],
        c.partial,
    ),
    contaminated("poisson", lambda: mf.Poisson(SHAPE, RATE), _count, poisson_predictive, poisson_mean),
    contaminated("bernoulli", lambda: mf.Bernoulli(ALPHA, BETA), _bit, beta_predictive, beta_mean),
    Case(
        "robust-trend",
        lambda: mf.RobustTrend(rt.LEVEL, rt.COUNT, rt.SHAPE, rt.SCALE, rt.LINE, rt.AR, rt.OUTLIERS, rt.FORGET),
        _normal,
        rt.marginal,
        rt.mean,
        additive=False,
    ),
    Case(
        "robust-trend-tempered",
        lambda: mf.RobustTrend(
            rt.LEVEL, rt.COUNT, rt.SHAPE, rt.SCALE, rt.LINE, rt.AR, rt.OUTLIERS, rt.FORGET, "tempered"
        ),
        _normal,
        rt.tempered_marginal,
        rt.tempered_mean,
        additive=False,
    ),
    Case(
        "robust-trend-plain",
        lambda: mf.RobustTrend(rt.LEVEL, rt.COUNT, rt.SHAPE, rt.SCALE, rt.LINE),
        _normal,
        rt.plain_marginal,
        rt.plain_mean,
        additive=False,
    ),
    Case(
        "grid-classifier",
        lambda: mf.Grid(r.RATES, r.classifier, [0, 1], r.BELIEF),
        _bit,
        r.classifier_marginal,
        r.classifier_mean,
        additive=False,
    ),
    Case(
        "grid-sensor",
        lambda: mf.Grid(r.POSITIONS, r.sensor, (r.LOW, r.CAP), atoms=[r.CAP]),
        r.saturated,
        r.sensor_marginal,
        r.sensor_mean,
        additive=False,
    ),
]
_ROW = {case.name: case for case in CASES}
CASES += [
    Both(_ROW["gaussian"], _ROW["unknown-variance"]).case("mixture-gaussian", _normal),
    Both(_ROW["trend"], _ROW["unknown-variance"]).case("mixture-trend", _normal),
    Both(_ROW["poisson"], replace(_ROW["binomial"], log_marginal=binomial_if_possible)).case("mixture-counts", _many),
]


def mapped(name: str, of: str, by: mp.Map, model: Callable[[Any], Any], draw: Any) -> Case:
    """A row of this table whose readings are mapped first."""
    row = _ROW[of]
    truth = mp.Truth(by, row.log_marginal, row.mean)
    return replace(
        row,
        name=name,
        model=lambda: model(row.model()),
        draw=draw,
        log_marginal=truth.marginal,
        mean=truth.mean,
        center=truth.center,
        outer=truth.outer,
        remembers=True,
        additive=False,
    )


def _positive(rng: np.random.Generator) -> float:
    return float(np.exp(_normal(rng)))


def _share(rng: np.random.Generator) -> float:
    return float(rng.beta(2.0, 3.0))


def _step(rng: np.random.Generator) -> float:
    return float(mp.STEP * np.round(rng.normal(MEAN, 1.0) / mp.STEP))


def _even(rng: np.random.Generator) -> float:
    return float(mp.STEP * rng.poisson(6.0))


def wave(model: Any) -> Any:
    period, a, b = mp.HARMONIC
    return mf.FixedSeason(model, period, [a], [b], start=mp.START)


def sawtooth(model: Any) -> Any:
    return mf.FixedSeason(model, mp.PIECES[0], pieces=mp.PIECES[1])


def structure(model: Any) -> Any:
    """What the automatic detector finds in counts with two seasons."""
    seasonal = sawtooth(wave(mf.Scaled(model, *mp.COUNTS)))
    return mf.Rounded(mf.Transformed(seasonal, "sqrt", mp.SHIFT), mp.STEP)


CASES += [
    mapped("log", "gaussian", mp.LOG, lambda m: mf.Transformed(m, "log"), _positive),
    mapped("logit", "trend-known", mp.LOGIT, lambda m: mf.Transformed(m, "logit"), _share),
    mapped("scaled", "unknown-variance", mp.SCALED, lambda m: mf.Scaled(m, mp.UNIT, mp.ORIGIN), _normal),
    mapped("rounded", "trend", mp.ROUNDED, lambda m: mf.Rounded(m, mp.STEP), _step),
    mapped("fixed-season", "gaussian", mp.WAVE, wave, _normal),
    mapped(
        "structure",
        "robust-trend",
        mp.SMALL.after(mp.WAVE).after(mp.SAWTOOTH).after(mp.ROOT).after(mp.ROUNDED),
        structure,
        _even,
    ),
]
COMPILED = [case for case in CASES if case.model().observe is not None]
INTEGRATED = {
    *("family-gaussian", "family-gaussian-paper", "product", "process", "student", "student-unknown"),
    *("mixture-gaussian", "mixture-trend", "mixture-counts"),
    *("robust-trend", "robust-trend-plain", "robust-trend-tempered"),
    "structure",
    *(f"outliers-{name}" for name in ("gaussian", "unknown", "poisson", "bernoulli")),
}
"""Models whose gains are integrals in numpy, 0.1 s per state and more: tested with fewer states."""
ZETAS = (0.0, 0.1, 0.5, 0.93, 1.0)


# --- vector readings ----------------------------------------------------------------------------------------------


def product_model() -> Any:
    return mf.Product(mf.Gaussian(MEAN, VAR, NOISE), mf.Categorical(v.DIRICHLET), multivariate())


def product_marginal(readings: Readings) -> float:
    one, two, three = (v.column(readings, cells) for cells in (0, 1, slice(2, 5)))
    return gaussian_marginal(one) + v.dirichlet_marginal(two) + v.multivariate_marginal(three)


def product_mean(readings: Readings) -> Any:
    one, two, three = (v.column(readings, cells) for cells in (0, 1, slice(2, 5)))
    return np.concatenate([[gaussian_mean(one), v.dirichlet_mean(two)], v.multivariate_mean(three)])


def multivariate() -> Any:
    return mf.MultivariateGaussian(v.CENTRE, v.PRIOR, v.KNOWN)


def wishart(predictive: str, weighting: str = "tempered") -> Any:
    return mf.MultivariateGaussianUnknown(v.PLACE, v.COUNT, v.DEGREES, v.SCALE, predictive, weighting)


VECTORS = [
    Case("multivariate", multivariate, v.three, v.multivariate_marginal, v.multivariate_mean),
    Case(
        "wishart",
        lambda: wishart("normalized", "precision"),
        v.two,
        v.wishart_marginal,
        v.wishart_mean,
        additive=False,
    ),
    Case(
        "wishart-tempered",
        lambda: wishart("normalized"),
        v.two,
        lambda r: v.wishart_marginal(r, tempered=True),
        v.wishart_mean,
    ),
    Case("wishart-paper", lambda: wishart("paper"), v.two, v.wishart_paper_marginal, v.wishart_mean),
    Case("product", product_model, v.mixed, product_marginal, product_mean),
    regression(None),
    regression(d.NOISE),
    Case(
        "vector-autoregressive",
        lambda: mf.VectorAutoregressive(1, d.CENTRE, d.COUNTS, d.DEGREES, d.SCATTER),
        d.pair,
        d.vectors_marginal,
        d.vectors_mean,
        remembers=True,
        additive=False,
    ),
]
ALL = [*CASES, *VECTORS]
