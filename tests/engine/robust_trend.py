"""A naive twin of `RobustTrend`: two separate dense regressions, predictors by Yule-Walker, densities by scipy."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import linalg, stats

Readings = Sequence[tuple[float, float]]

LEVEL, COUNT, SHAPE, SCALE, LINE = 1.5, (0.4, 3.0), 1.3, 0.7, 0.35
AR, OUTLIERS, FORGET = (0.5, -0.2), 0.08, 0.9


def autocovariance(ar: Sequence[float], lags: int) -> np.ndarray:
    """Of a stationary autoregression with innovations of variance 1, from its moving-average weights."""
    weights = [1.0]
    for t in range(1, 2000):
        weights.append(sum(a * weights[t - 1 - m] for m, a in enumerate(ar) if t - 1 - m >= 0))
    w = np.array(weights)
    return np.array([w[: w.size - k] @ w[k:] for k in range(lags + 1)])


class Twin:
    """One regime, reading by reading."""

    def __init__(
        self,
        ar: Sequence[float] = AR,
        outliers: float = OUTLIERS,
        forget: float = FORGET,
        tempered: bool = False,
    ) -> None:
        self.tempered = tempered
        self.ar, self.outliers, self.forget = tuple(ar), outliers, forget
        self.precision = [np.diag(COUNT[: j + 1]) for j in range(2)]
        self.moment = [np.zeros(j + 1) for j in range(2)]
        self.shape, self.scale = SHAPE, [SCALE, SCALE]
        self.weight = [1.0 - LINE, LINE]
        self.age = 0
        self.lags: list[float] = []  # newest first, relative to LEVEL
        self.doubts: list[float] = []  # their variances, in units of the noise variance

    def _coming(self) -> tuple[list[np.ndarray], float, float]:
        """The regressors of both regressions, what the lags predict, and the variance of the rest."""
        k = min(len(self.lags), len(self.ar))
        cov = autocovariance(self.ar, max(k, 1))
        a = linalg.solve_toeplitz(cov[:k], cov[1 : k + 1]) if k else np.zeros(0)
        variance = cov[0] - (a @ cov[1 : k + 1] if k else 0.0)
        variance += sum(a[m] ** 2 * self.doubts[m] for m in range(k))
        u = np.array([1.0, self.age], dtype=float)
        for m in range(k):
            u = u - a[m] * np.array([1.0, self.age - 1 - m])
        return [u[:1], u], float(a @ self.lags[:k]) if k else 0.0, float(variance)

    def _densities(self, x: float, zeta: float) -> tuple[list[float], float]:
        """Of level and line, and of an outlier."""
        u, lagged, variance = self._coming()
        found = []
        for j in range(2):
            inverse = np.linalg.inv(self.precision[j])
            q = 1.0 / zeta - 1.0 + variance + u[j] @ inverse @ u[j]
            df = 2.0 * self.shape + (zeta - 1.0 if self.tempered else 0.0)
            center = LEVEL + lagged + u[j] @ inverse @ self.moment[j]
            found.append(float(stats.t(df, center, math.sqrt(2.0 * self.scale[j] * q / df)).pdf(x)))
        first = 1.0 / zeta - 1.0 + autocovariance(self.ar, 0)[0] + 1.0 / COUNT[0]
        df = 2.0 * SHAPE + (zeta - 1.0 if self.tempered else 0.0)
        return found, float(stats.t(df, LEVEL, math.sqrt(2.0 * SCALE * first / df)).pdf(x))

    def observe(self, x: float, zeta: float) -> float:
        """Add a reading; returns its log density."""
        if zeta == 0.0:
            self.age += 1
            self.lags, self.doubts = [], []
            return 0.0
        densities, odd = self._densities(x, zeta)
        normal = [(1.0 - self.outliers) * w * f for w, f in zip(self.weight, densities, strict=True)]
        total = sum(normal) + self.outliers * odd
        rho = sum(normal) / total
        u, lagged, variance = self._coming()
        center, spread = 0.0, 0.0
        for j in range(2):
            inverse = np.linalg.inv(self.precision[j])
            forecast = float(u[j] @ inverse @ self.moment[j])
            center += self.weight[j] * forecast
            spread += self.weight[j] * float(u[j] @ inverse @ u[j])
            q = 1.0 / (zeta * rho) - 1.0 + variance
            d = x - LEVEL - lagged - forecast
            self.scale[j] += 0.5 * d * d / (q + float(u[j] @ inverse @ u[j]))
            self.precision[j] = self.precision[j] + np.outer(u[j], u[j]) / q
            self.moment[j] = self.moment[j] + u[j] * (x - LEVEL - lagged) / q
        self.weight = [(normal[j] + self.weight[j] * self.outliers * odd) / total for j in range(2)]
        self.shape += 0.5 * rho * (zeta if self.tempered else 1.0)
        factor = max(self.forget, min(SHAPE / self.shape, 1.0))
        self.shape *= factor
        self.scale = [factor * s for s in self.scale]
        noise = 0.0 if self.tempered else 1.0 / zeta - 1.0
        share = (variance + spread) / (variance + spread + noise)
        self.lags = [(lagged + center) + rho * share * (x - LEVEL - lagged - center), *self.lags]
        self.doubts = [rho * share * noise, *self.doubts]
        self.age += 1
        return math.log(total)

    def mean(self) -> float:
        u, lagged, _ = self._coming()
        forecast = sum(
            self.weight[j] * float(u[j] @ np.linalg.inv(self.precision[j]) @ self.moment[j]) for j in range(2)
        )
        return (1.0 - self.outliers) * (LEVEL + lagged + forecast) + self.outliers * LEVEL


def tempered_marginal(readings: Readings) -> float:
    twin = Twin(tempered=True)
    return sum(twin.observe(x, zeta) for x, zeta in readings)


def tempered_mean(readings: Readings) -> float:
    twin = Twin(tempered=True)
    for x, zeta in readings:
        twin.observe(x, zeta)
    return twin.mean()


def marginal(readings: Readings) -> float:
    twin = Twin()
    return sum(twin.observe(x, zeta) for x, zeta in readings)


def mean(readings: Readings) -> float:
    twin = Twin()
    for x, zeta in readings:
        twin.observe(x, zeta)
    return twin.mean()


def plain_marginal(readings: Readings) -> float:
    twin = Twin((), 0.0, 1.0)
    return sum(twin.observe(x, zeta) for x, zeta in readings)


def plain_mean(readings: Readings) -> float:
    twin = Twin((), 0.0, 1.0)
    for x, zeta in readings:
        twin.observe(x, zeta)
    return twin.mean()
