"""The methods of a likelihood family that have a default, made of those that every family implements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bells import Bells, Table
from .family import Array, Family

LEVEL_WEIGHT = 1e4
"""Number of readings that a known level counts as."""
_LIGHT = 1e-12  # what lighter hypotheses learn about the parameter is left out


class OptionalMethods(Family):
    """What a family may override: where the default is wrong for it, or where it can do the same faster."""

    def new_regime(self, live: Array) -> Array:
        """Return the statistics of a regime that begins at the coming tick.

        This is the prior, except in models whose regimes depend on readings before them, such as `Autoregressive`.

        Parameters
        ----------
        live : ndarray
            Statistics of the current hypotheses, shape (columns, K); K may be 0.

        Returns
        -------
        ndarray
            Shape (columns,).
        """
        return self.prior()

    def skip(self, stats: Array) -> Array:
        """Return the statistics after a tick without a reading.

        They are unchanged, except in models that depend on time, such as `Trend`.

        Parameters
        ----------
        stats : ndarray
            Shape (columns,) or (columns, K).

        Returns
        -------
        ndarray
            Same shape as `stats`.
        """
        return stats

    def check_zetas(self, zetas: Sequence[float]) -> None:
        """Check that readings at these fidelities can be ranked by their information.

        Parameters
        ----------
        zetas : sequence of float
            The zeta of every fidelity of a detector.

        Raises
        ------
        ValueError
            If a reading at a lower zeta would be more informative than one at a higher zeta.
        """

    def possible(self, x: Array) -> NDArray[np.bool_]:
        """Tell which of many readings the family can produce.

        Parameters
        ----------
        x : ndarray
            N readings, shape (N,) or (N, dimension).

        Returns
        -------
        ndarray of bool
            Shape (N,); False for NaN.
        """
        known = np.asarray(np.isfinite(x))
        return known if known.ndim == 1 else np.asarray(known.all(axis=1))

    def nearest(self, x: Any) -> Any:
        """Return the possible reading nearest to a value.

        Parameters
        ----------
        x : float or ndarray
            Any value, such as a predictive mean.

        Returns
        -------
        float or ndarray
            `x` itself where readings are continuous.
        """
        return x

    def update_doubtful(self, stats: Array, x: Any, zeta: float, trust: Array) -> Array:
        """Return the statistics after an observation that may not belong to the regime.

        The exact posterior is the mixture trust p(theta | x) + (1 - trust) p(theta), which is no longer in the
        family. By default the observation counts as one of fidelity zeta * trust instead.

        Parameters
        ----------
        stats : ndarray
            Shape (columns,) or (columns, K).
        x : float or ndarray
            The reading.
        zeta : float
            Fidelity of the reading, in (0, 1].
        trust : ndarray
            Probability that the reading belongs to the regime, for each hypothesis; shape () or (K,).

        Returns
        -------
        ndarray
            Same shape as `stats`.
        """
        weight: Any = np.maximum(zeta * trust, 1e-300)  # 0 would be a tick without a reading
        if self.elementwise or stats.ndim == 1:
            return self.update(stats, x, weight)
        return np.stack([self.update(stats[:, k], x, float(weight[k])) for k in range(stats.shape[1])], axis=1)

    def last_outlier(self, stats: Array) -> Array:
        """Return the probability that the last reading was an outlier, given the run length.

        Parameters
        ----------
        stats : ndarray
            Shape (columns,) or (columns, K).

        Returns
        -------
        ndarray
            Shape () or (K,); 0 in models without outliers, and after a tick without a reading.
        """
        return np.zeros(stats.shape[1:])

    def assimilate(self, stats: Array, x: Any, zeta: float) -> tuple[Array, Array]:
        """Return `log_predictive` and `update` of the same reading; `skip` at zeta = 0.

        The filter calls this method, so that a model whose two methods share work can do that work once.

        Parameters
        ----------
        stats : ndarray
            Shape (columns,) or (columns, K).
        x : float or ndarray
            The reading.
        zeta : float
            Fidelity of the reading, in [0, 1].

        Returns
        -------
        log_predictive : ndarray
            Shape () or (K,).
        stats : ndarray
            The statistics after the tick, same shape as `stats`.
        """
        logs = self.log_predictive(stats, x, zeta)
        return logs, self.update(stats, x, zeta) if zeta > 0.0 else self.skip(stats)

    def log_predictives(self, stats: Array, x: Array, zeta: float) -> Array:
        """Return `log_predictive` of many readings.

        Parameters
        ----------
        stats : ndarray
            Shape (columns, K).
        x : ndarray
            N readings that the family can produce, shape (N,) or (N, dimension).
        zeta : float
            Fidelity of the readings, above 0.

        Returns
        -------
        ndarray
            Shape (N, K).
        """
        each = x.tolist() if self.dimension == 1 else x
        return np.array([self.log_predictive(stats, v, zeta) for v in each]).reshape(len(x), -1)

    def log_tails(self, stats: Array, x: Any, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the logs of both tail probabilities of the next reading.

        The default takes them from `predictive_cdf`, so an upper tail below 1e-16 is 0, with logarithm minus
        infinity. The families of this library override it, and are accurate where the probabilities themselves
        underflow.

        Parameters
        ----------
        stats : ndarray
            Shape (columns,) or (columns, K).
        x : float or ndarray
            Where to evaluate them.
        zeta : float, default 1.0
            Fidelity of the next reading.

        Returns
        -------
        lower : ndarray
            log P(next reading <= x), with the shape of `predictive_cdf`.
        upper : ndarray
            log P(next reading >= x). Where x has a positive probability, it is part of both tails.
        """
        with np.errstate(divide="ignore"):
            lower = np.log(self.predictive_cdf(stats, x, zeta))
            upper = np.log1p(-np.minimum(self.predictive_cdf(stats, np.nextafter(x, -np.inf), zeta), 1.0))
        return lower, upper

    def bells(self, stats: Array, zeta: float) -> Bells | None:
        """Return the next reading of each hypothesis as a mixture of bells, if it is one.

        The gains of `Outliers`, `Mixture` and `Product` are then integrated by compiled kernels.

        Parameters
        ----------
        stats : ndarray
            Shape (columns, K).
        zeta : float
            Fidelity of the reading, above 0.

        Returns
        -------
        Bells or None
            The mixture, of the normalized predictive; None, the default, if it has another form.
        """
        return None

    def tabulate(self, stats: Array, zeta: float) -> Table | None:
        """Return the density of the next reading at nodes, for each hypothesis.

        The default is from `bells`. A discrete family has its values as nodes, with share 1.

        Parameters
        ----------
        stats : ndarray
            Shape (columns, K).
        zeta : float
            Fidelity of the reading, above 0.

        Returns
        -------
        Table or None
            None if the family has no such table.
        """
        bells = self.bells(stats, zeta)
        return None if bells is None else bells.table()

    def joint_gain(self, weight: Array, stats: Array, zeta: float) -> float:
        """Return `run_length_gain` plus the average of `parameter_gain`: override it where the two share work.

        Parameters
        ----------
        weight : ndarray
            Probability of each hypothesis, shape (K,).
        stats : ndarray
            Shape (columns, K).
        zeta : float
            Fidelity of the reading.

        Returns
        -------
        float
            Nats.
        """
        kept = weight > _LIGHT
        learned = float(weight[kept] @ self.parameter_gain(stats[:, kept], zeta))
        return self.run_length_gain(weight, stats, zeta) + learned

    def quick_parameter_gain(self, stats: Array, zeta: float) -> Array:
        """Return `parameter_gain`, or an approximation to it where that is a long sum, for the gain "change".

        Parameters
        ----------
        stats : ndarray
            Shape (columns,) or (columns, K).
        zeta : float
            Fidelity of the reading.

        Returns
        -------
        ndarray
            Nats, shape () or (K,); it increases with zeta and is 0 at 0.
        """
        return self.parameter_gain(stats, zeta)

    def divergence(self, mean: Array, variance: Array, mean_0: Any, variance_0: Any) -> Array:
        """Return the divergence of predictives of full readings from another one, from their moments.

        By default KL of a normal from a normal, summed over the numbers of a reading.

        Parameters
        ----------
        mean, variance : ndarray
            Moments of each predictive, shape (K,) or (d, K).
        mean_0, variance_0 : float or ndarray
            Moments of the other one, shape () or (d,).

        Returns
        -------
        ndarray
            Nats, shape (K,); infinite where only one variance is.
        """
        mean_0, variance_0 = np.expand_dims(mean_0, -1), np.expand_dims(variance_0, -1)
        with np.errstate(all="ignore"):
            ratio = variance / variance_0
            apart = 0.5 * (ratio - 1.0 - np.log(ratio) + (mean - mean_0) ** 2 / variance_0)
        unusual = ~(np.isfinite(variance) & np.isfinite(variance_0) & (variance > 0.0) & (variance_0 > 0.0))
        equal = (variance == variance_0) & ((mean == mean_0) | np.isinf(variance_0))
        apart = np.maximum(np.where(equal, 0.0, np.where(unusual, np.inf, apart)), 0.0)
        return np.asarray(apart if self.dimension == 1 else apart.sum(axis=0))

    def log_ratio(self, x: float, zeta: float, before: float, after: float, variance: float) -> float:
        """Return log p(x | level after) - log p(x | level before), for an alarm with a smallest relevant change.

        By default the ratio of two normals.

        Parameters
        ----------
        x : float
            The reading.
        zeta : float
            Its fidelity.
        before, after : float
            Mean of a reading before and after the change.
        variance : float
            Variance of a full reading.

        Returns
        -------
        float
            Nats.
        """
        return zeta * (after - before) * (x - 0.5 * (before + after)) / variance

    def known_level(self, level: float) -> Array:
        """Return the statistics of a regime whose mean is known.

        For a family with one parameter, they are those after ten thousand readings of that value.

        Parameters
        ----------
        level : float
            Mean of a reading.

        Returns
        -------
        ndarray
            Shape (columns,).

        Raises
        ------
        ValueError
            If the family has several parameters, which a level alone does not determine.
        """
        if not self.one_parameter:
            raise ValueError(
                f"{type(self).__name__} is not determined by a level: give Alarm.before readings from before a change"
            )
        return self.update(self.prior(), level, LEVEL_WEIGHT)

    def sample(self, rng: np.random.Generator, ticks: int) -> Array:
        """Draw the readings of one regime at full fidelity.

        The default draws each reading from the predictive given those before, by bisection of the distribution
        function. That works for any family with one number per reading, but it is slow. Most families override it:
        they draw a parameter from the prior, then the readings.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of random numbers.
        ticks : int
            Number of readings.

        Returns
        -------
        ndarray
            Shape (ticks,), or (ticks, dimension).

        Raises
        ------
        TypeError
            If the family has several numbers per reading and no sampler of its own.
        """
        if self.dimension > 1:
            raise TypeError(f"{type(self).__name__} cannot be drawn from")
        stats, out = self.prior(), np.empty(ticks)
        for t in range(ticks):
            out[t] = x = self._drawn(stats, float(rng.random()))
            stats = self.update(stats, x, 1.0)
        return out

    def _drawn(self, stats: Array, level: float) -> float:
        mean, var = (float(v) for v in self.predictive(stats))
        step = math.sqrt(var) if math.isfinite(var) and var > 0.0 else max(1.0, abs(mean))
        low, high = mean - step, mean + step
        while float(self.predictive_cdf(stats, low)) > level:
            low, step = low - step, 2.0 * step
        while float(self.predictive_cdf(stats, high)) < level:
            high, step = high + step, 2.0 * step
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if float(self.predictive_cdf(stats, middle)) < level else (low, middle)
        return float(self.nearest(high))
