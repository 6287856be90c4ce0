"""Truths of the regressions: the registry's formulas for series that are not i.i.d. within a regime.

From the normal equations of a whole segment, or its joint density, never by moving statistics reading by reading.
`before` contains the readings of the stream before the segment, for models that use them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

import mfbocd as mf

Readings = Sequence[tuple[Any, float]]

COUNTS = np.array([0.7, 2.5, 1.3])
SHAPE, SCALE, NOISE = 2.3, 1.8, 0.6


def posterior(u: np.ndarray, y: np.ndarray, zeta: np.ndarray, count: np.ndarray):  # type: ignore[no-untyped-def]
    """Mean of the coefficients, their covariance over s2, shape and scale (in units of the prior scale)."""
    precision = np.diag(count) + (u.T * zeta) @ u
    mean = np.linalg.solve(precision, (u.T * zeta) @ y)
    scale = 1.0 + 0.5 * (zeta @ (y - u @ mean) ** 2 + mean @ (count * mean))
    return mean, np.linalg.inv(precision), SHAPE + 0.5 * np.count_nonzero(zeta), scale


def known_marginal(u: np.ndarray, y: np.ndarray, zeta: np.ndarray, count: np.ndarray) -> float:
    """The joint density of a segment, multivariate normal, in units of the noise."""
    if y.size == 0:
        return 0.0
    covariance = (u / count) @ u.T + np.diag(1 / zeta)
    return float(stats.multivariate_normal(np.zeros(y.size), covariance).logpdf(y))


def unknown_marginal(u: np.ndarray, y: np.ndarray, zeta: np.ndarray, count: np.ndarray) -> float:
    """The joint density of a segment, Student's t, in units of the prior scale."""
    if y.size == 0:
        return 0.0
    covariance = (u / count) @ u.T + np.diag(1 / zeta)
    return float(stats.multivariate_t(np.zeros(y.size), covariance / SHAPE, df=2 * SHAPE).logpdf(y))


def tempered_marginal(u: np.ndarray, y: np.ndarray, zeta: np.ndarray, count: np.ndarray) -> float:
    """The tempered model is DEFINED by its normalized predictives: their sum, each from the normal equations."""
    total = 0.0
    for t in range(y.size):
        mean, covariance, _, scale = posterior(u[:t], y[:t], zeta[:t], count)
        df = 2 * SHAPE + zeta[:t].sum() + zeta[t] - 1
        q = 1 / zeta[t] + u[t] @ covariance @ u[t]
        total += float(stats.t(df, u[t] @ mean, math.sqrt(2 * scale * q / df)).logpdf(y[t]))
    return total


def marginal(u: np.ndarray, y: np.ndarray, zeta: np.ndarray, count: np.ndarray, noise_var: float | None) -> float:
    """Log marginal of readings in their own units; y is already divided by the unit."""
    kept = zeta > 0
    of = unknown_marginal if noise_var is None else known_marginal
    return of(u[kept], y[kept], zeta[kept], count) - kept.sum() * math.log(unit(noise_var))


def unit(noise_var: float | None) -> float:
    return math.sqrt(SCALE if noise_var is None else noise_var)


def known_noise(noise_var: float | None) -> dict[str, float]:
    """The argument that gives a model its known noise variance, if any."""
    return {"shape": SHAPE, "scale": SCALE} if noise_var is None else {"noise_var": noise_var}


# --- trend ------------------------------------------------------------------------------------------------------
LEVEL, SLOPE = 1.2, -0.4


def _trend(readings: Readings, noise_var: float | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    age = np.arange(float(len(readings)))
    u = np.stack([np.ones_like(age), age], axis=1)
    y = np.array([x for x, _ in readings]) - LEVEL - SLOPE * age
    return u, y / unit(noise_var), np.array([zeta for _, zeta in readings])


def trend_marginal(readings: Readings, noise_var: float | None) -> float:
    return marginal(*_trend(readings, noise_var), COUNTS[:2], noise_var) if readings else 0.0


def tempered_trend(readings: Readings) -> float:
    u, y, zeta = _trend(readings, None)
    kept = zeta > 0
    return tempered_marginal(u[kept], y[kept], zeta[kept], COUNTS[:2]) - kept.sum() * math.log(unit(None))


def trend_mean(readings: Readings, noise_var: float | None) -> float:
    age = len(readings)
    if age == 0:
        return LEVEL
    mean = posterior(*_trend(readings, noise_var), COUNTS[:2])[0]
    return LEVEL + SLOPE * age + unit(noise_var) * float(mean @ [1.0, age])


# --- season -------------------------------------------------------------------------------------------------------
PERIOD = 3.7
SLOPING_COUNTS = np.array([0.7, 2.5, 1.3, 1.3, 1.3])


def plain_season(noise_var: float | None) -> mf.Seasonal:
    return mf.Seasonal(PERIOD, 1, LEVEL, None, COUNTS, **known_noise(noise_var))


def sloping_season(noise_var: float | None) -> mf.Seasonal:
    return mf.Seasonal(4, 2, LEVEL, SLOPE, SLOPING_COUNTS[:3], **known_noise(noise_var))


def season_design(age: Any, noise_var: float | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Regressors and prior mean at each age, and the counts, of the two seasons of the registry."""
    age = np.asarray(age, dtype=float)
    if noise_var is None:
        angle = 2 * math.pi * age / PERIOD
        return np.stack([age**0, np.cos(angle), np.sin(angle)], axis=-1), LEVEL + 0 * age, COUNTS
    quarter = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])[age.astype(int) % 4]
    waves = [quarter[..., 0], quarter[..., 1], (-1.0) ** age]
    return np.stack([age**0, age, *waves], axis=-1), LEVEL + SLOPE * age, SLOPING_COUNTS


def _season(readings: Readings, noise_var: float | None):  # type: ignore[no-untyped-def]
    u, offset, count = season_design(np.arange(len(readings)), noise_var)
    y = (np.array([x for x, _ in readings]) - offset) / unit(noise_var)
    return u, y, np.array([zeta for _, zeta in readings]), count


def season_marginal(readings: Readings, noise_var: float | None) -> float:
    return marginal(*_season(readings, noise_var), noise_var) if readings else 0.0


def season_mean(readings: Readings, noise_var: float | None) -> float:
    u, offset, _ = season_design(len(readings), noise_var)
    mean = posterior(*_season(readings, noise_var))[0] if readings else np.zeros(u.size)
    return float(offset + unit(noise_var) * (u @ mean))


# --- autoregression of order 2 --------------------------------------------------------------------------------------
ABOUT = 0.8


class Lagged:
    """A regime, reading by reading, from the normal equations of all its readings.

    A lag has a mean and a variance: prediction and reading, weighted with their precisions.
    """

    def __init__(self, before: Readings, noise_var: float | None) -> None:
        self.noise_var = noise_var
        self.rows, self.values, self.weights = np.empty((0, 3)), np.empty(0), np.empty(0)
        s2 = 1 / SHAPE if noise_var is None else 1.0
        self.lags = [(0.0, 0.0), (0.0, 0.0)]
        for x, zeta in before:
            lag = ((x - ABOUT) / unit(noise_var), s2 * (1 / zeta - 1)) if zeta > 0 else (0.0, 0.0)
            self.lags = [lag, self.lags[0]]

    def observe(self, x: float, zeta: float) -> float:
        """Add a reading; returns its log density."""
        lags, doubt = np.array(self.lags).T
        row = np.append(1.0, lags)
        mean, covariance, shape, scale = posterior(self.rows, self.values, self.weights, COUNTS)
        s2 = scale / shape if self.noise_var is None else 1.0
        centre = float(mean @ row)
        if zeta == 0:
            self.lags = [(centre, 0.0), self.lags[0]]
            return 0.0
        y = (x - ABOUT) / unit(self.noise_var)
        lost = doubt @ (mean[1:] ** 2 / s2 + np.diag(covariance)[1:])
        spread = row @ covariance @ row
        width = math.sqrt(s2 * (1 / zeta + lost + spread))
        density = stats.t(2 * shape, centre, width) if self.noise_var is None else stats.norm(centre, width)
        precisions = np.array([1 / (s2 * (1 + lost + spread)), math.inf if zeta == 1 else 1 / (s2 * (1 / zeta - 1))])
        if zeta == 1:
            lag = (y, 0.0)
        else:
            lag = (float(precisions @ [centre, y] / precisions.sum()), float(1 / precisions.sum()))
        self.lags = [lag, self.lags[0]]
        self.rows, self.values = np.vstack([self.rows, row]), np.append(self.values, y)
        self.weights = np.append(self.weights, 1 / (1 / zeta + lost))
        return float(density.logpdf(y)) - math.log(unit(self.noise_var))

    def mean(self) -> float:
        coefficients = posterior(self.rows, self.values, self.weights, COUNTS)[0]
        return ABOUT + unit(self.noise_var) * float(coefficients @ np.append(1.0, [lag for lag, _ in self.lags]))


def lagged_marginal(readings: Readings, before: Readings, noise_var: float | None) -> float:
    segment = Lagged(before, noise_var)
    return sum(segment.observe(x, zeta) for x, zeta in readings)


def lagged_mean(readings: Readings, before: Readings, noise_var: float | None) -> float:
    segment = Lagged(before, noise_var)
    for x, zeta in readings:
        segment.observe(x, zeta)
    return segment.mean()


# --- Gaussian process of order 1 or 2 -------------------------------------------------------------------------------
LENGTH, REACH, FIRM, LOOSE = 1.7, 4.4, 0.7, 0.4
NOWHERE = 1e30  # the variance of an unknown lag


def waves(order: int, length: float, reach: float) -> tuple[np.ndarray, np.ndarray]:
    """Every wave of the documented grid, and its share of the kernel."""
    steps = np.arange(-50.0, 51.0) * 2 * math.pi / (reach + 4 * length)
    w = np.stack(np.meshgrid(*[steps] * order), axis=-1).reshape(-1, order)
    w = w[np.linalg.norm(w, axis=1) <= 4 / length]
    share = np.exp(-0.5 * length**2 * (w**2).sum(axis=1))
    return w, share / share.sum()


def _covariance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Covariance of a + f over s2 between two disjoint lists of inputs (n, mean and variance, order)."""
    w, share = waves(a.shape[2], LENGTH, REACH)
    phase = (a[:, None, 0] - b[None, :, 0]) @ w.T
    size = np.exp(-0.5 * (a[:, None, 1] + b[None, :, 1]) @ (w**2).T)
    return 1 / FIRM + (size * np.cos(phase)) @ share / LOOSE


class Process:
    """A segment, dense: one row and column per reading."""

    def __init__(self, order: int, before: Readings, noise_var: float | None) -> None:
        self.noise_var = noise_var
        self.places, self.y, self.zeta = np.empty((0, 2, order)), np.empty(0), np.empty(0)
        s2 = unit(noise_var) ** 2 * (1 / SHAPE if noise_var is None else 1.0)
        past = [(0.0, NOWHERE)] * order
        past += [(x - ABOUT, s2 * (1 / zeta - 1)) if zeta > 0 else (0.0, NOWHERE) for x, zeta in before]
        self.place = np.array(past[: -order - 1 : -1]).T[None]  # mean and variance by lag, newest first

    def covariance(self) -> np.ndarray:
        out = _covariance(self.places, self.places)
        np.fill_diagonal(out, 1 / FIRM + 1 / LOOSE + 1 / self.zeta)  # a reading's f has its whole variance
        return out

    def ahead(self) -> tuple[float, float, float, float]:
        """Mean of the next reading, variance of a + f there over s2, shape and scale, standardized."""
        across = _covariance(self.place, self.places)[0]
        solved = np.linalg.solve(self.covariance(), np.stack([self.y, across], axis=1))
        var = 1 / FIRM + 1 / LOOSE - across @ solved[:, 1]
        scale = 1 + 0.5 * self.y @ solved[:, 0]
        return float(across @ solved[:, 0]), float(var), SHAPE + 0.5 * self.zeta.size, float(scale)

    def read(self, x: float, zeta: float) -> None:
        mean, var, shape, scale = self.ahead()
        lag = (x - ABOUT, 0.0)
        if zeta > 0:
            if zeta < 1:  # prediction and reading, weighted with their precisions
                s2 = unit(self.noise_var) ** 2 * (scale / shape if self.noise_var is None else 1.0)
                precisions = np.array([1 / (s2 * (1 + var)), 1 / (s2 * (1 / zeta - 1))])
                total = precisions.sum()
                lag = (float(precisions @ [unit(self.noise_var) * mean, x - ABOUT] / total), float(1 / total))
            self.places = np.concatenate([self.places, self.place])
            self.y, self.zeta = np.append(self.y, (x - ABOUT) / unit(self.noise_var)), np.append(self.zeta, zeta)
        else:
            s2 = unit(self.noise_var) ** 2 * (scale / (shape - 1) if self.noise_var is None else 1.0)
            lag = (unit(self.noise_var) * mean, s2 * (1 + var))
        self.place = np.concatenate([np.reshape(lag, (1, 2, 1)), self.place[:, :, :-1]], axis=2)


def process_marginal(readings: Readings, before: Readings, noise_var: float | None, order: int) -> float:
    segment, total = Process(order, before, noise_var), 0.0
    for x, zeta in readings:
        if zeta > 0 and noise_var is None:  # DEFINED by its normalized predictives
            mean, var, shape, scale = segment.ahead()
            df = 2 * shape
            width = math.sqrt(2 * scale * (1 / zeta + var) / df) * unit(noise_var)
            total += float(stats.t(df, ABOUT + unit(noise_var) * mean, width).logpdf(x))
        segment.read(x, zeta)
    if noise_var is None or segment.y.size == 0:
        return total
    joint = stats.multivariate_normal(np.zeros(segment.y.size), segment.covariance())
    return float(joint.logpdf(segment.y)) - segment.y.size * math.log(unit(noise_var))


def process_mean(readings: Readings, before: Readings, noise_var: float | None, order: int) -> float:
    segment = Process(order, before, noise_var)
    for x, zeta in readings:
        segment.read(x, zeta)
    return ABOUT + unit(noise_var) * segment.ahead()[0]


# --- regression on two covariates -----------------------------------------------------------------------------------
LINE = np.array([0.5, -1.0, 2.0])


def _regression(readings: Readings, noise_var: float | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    given = [(np.asarray(x, dtype=float), zeta) for x, zeta in readings if zeta > 0]
    x = np.array([x for x, _ in given]).reshape(-1, 3)
    u = np.column_stack([np.ones(len(given)), x[:, 1:]])
    return u, (x[:, 0] - u @ LINE) / unit(noise_var), np.array([zeta for _, zeta in given])


def regression_marginal(readings: Readings, noise_var: float | None) -> float:
    return marginal(*_regression(readings, noise_var), COUNTS, noise_var)


def regression_mean(readings: Readings, before: Readings, noise_var: float | None) -> np.ndarray:
    seen = [np.asarray(x, dtype=float) for x, zeta in [*before, *readings] if zeta > 0]
    last = seen[-1][1:] if seen else np.zeros(2)
    u = np.append(1.0, last)
    mean = posterior(*_regression(readings, noise_var), COUNTS)[0]
    return np.append(u @ (LINE + unit(noise_var) * mean), last)


def covariates(rng: np.random.Generator) -> np.ndarray:
    u = rng.normal(size=2)
    return np.append(1.0 + u @ [2.0, -1.0] + rng.normal(), u)


# --- vector autoregression of order 1 ---------------------------------------------------------------------------
CENTRE, DEGREES = np.array([0.5, -1.0]), 4.6
SCATTER = np.array([[2.0, 0.6], [0.6, 0.9]])
ROOT = np.linalg.cholesky(SCATTER)


def _vectors(readings: Readings, before: Readings):  # type: ignore[no-untyped-def]
    """Regressors, readings and zetas of a segment and the regressors of the tick after it, in units of SCATTER."""

    def unit_of(x: Any) -> np.ndarray:
        return np.linalg.solve(ROOT, np.asarray(x, dtype=float) - CENTRE)

    last = unit_of(before[-1][0]) if before and before[-1][1] > 0 else np.zeros(2)
    rows, values, zetas = np.empty((0, 3)), np.empty((0, 2)), np.empty(0)
    for x, zeta in readings:
        row = np.append(1.0, last)
        b, covariance, _, _ = _coefficients(rows, values, zetas)
        last = b.T @ row
        if zeta > 0:
            y, spread = unit_of(x), row @ covariance @ row
            precisions = np.array([1 / (1 + spread), zeta / (1 - zeta)]) if zeta < 1 else np.array([0.0, 1.0])
            last = precisions @ np.stack([last, y]) / precisions.sum()
            rows, values, zetas = np.vstack([rows, row]), np.vstack([values, y]), np.append(zetas, zeta)
    return rows, values, zetas, np.append(1.0, last)


def _coefficients(u: np.ndarray, y: np.ndarray, zeta: np.ndarray):  # type: ignore[no-untyped-def]
    """B (3, 2), its row covariance, degrees and scale, from the normal equations."""
    precision = np.diag(COUNTS) + (u.T * zeta) @ u
    b = np.linalg.solve(precision, (u.T * zeta) @ y)
    scale = np.eye(2) + ((y - u @ b).T * zeta) @ (y - u @ b) + b.T @ np.diag(COUNTS) @ b
    return b, np.linalg.inv(precision), DEGREES + zeta.size, scale


def vectors_marginal(readings: Readings, before: Readings = ()) -> float:
    """The model is DEFINED by its normalized predictives: their sum, each from the normal equations."""
    u, y, zeta, _ = _vectors(readings, before)
    total = 0.0
    for t in range(zeta.size):
        b, covariance, degrees, scale = _coefficients(u[:t], y[:t], zeta[:t])
        df = degrees - 1
        q = 1 / zeta[t] + u[t] @ covariance @ u[t]
        centre = CENTRE + ROOT @ (b.T @ u[t])
        truth = stats.multivariate_t(centre, ROOT @ scale @ ROOT.T * q / df, df=df)
        total += float(truth.logpdf(CENTRE + ROOT @ y[t]))
    return total


def vectors_mean(readings: Readings, before: Readings = ()) -> np.ndarray:
    u, y, zeta, row = _vectors(readings, before)
    return CENTRE + ROOT @ (_coefficients(u, y, zeta)[0].T @ row)


def pair(rng: np.random.Generator) -> np.ndarray:
    return CENTRE + rng.normal(0.0, 2.0, 2)
