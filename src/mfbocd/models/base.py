"""The interface of every likelihood family; the filter uses nothing else of a model."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from .cost import CostBound

LEVEL_WEIGHT = 1e4
"""Number of readings that a known level counts as."""

Array = NDArray[np.float64]
Predictive = Literal["normalized", "paper"]


class Model(ABC):
    """Base class of all models: a likelihood family with its prior.

    A hypothesis is a column of sufficient statistics: `stats` has shape (columns,) for one hypothesis and (columns,
    K) for K. An observation x at fidelity zeta adds `zeta * u(x)` to them, equation `mf_posterior`:

        chi' = chi + zeta u(x),  nu' = nu + zeta

    so an observation at zeta = 0 adds nothing.

    Attributes
    ----------
    columns : int
        Number of statistics of one hypothesis.
    dimension : int
        Length d of a reading; 1 is a float. Where d > 1, a reading is an array of length d, and means, variances and
        distribution functions have d rows in front of the axis of the hypotheses.
    partial : bool
        Whether some numbers of a reading may be missing (NaN) while others are present.
    ordered : bool
        Whether a reading at a higher zeta can be used as one at a lower zeta. False where zeta only names a
        likelihood.
    elementwise : bool
        Whether `update` also accepts one zeta per hypothesis, shape (K,).
    has_outliers : bool
        Whether the model allows for outliers, so that `last_outlier` says something.
    one_parameter : bool
        Whether the mean of a reading determines its distribution.
    observe : callable or None
        Compiled kernel for one tick of one stream; None makes the filter use the methods below.
    advance : callable or None
        Compiled kernel for many ticks of many streams.
    gains : callable or None
        Compiled kernel for the gains of many streams.
    operations : tuple of (float, float)
        Operations per hypothesis, about nanoseconds: of a tick, and of the gain of one fidelity (for `cost_bound`).

    Notes
    -----
    To add a family, subclass `Model`, set `columns` and implement the abstract methods. Every method accepts
    statistics of shape (columns,) and (columns, K). See `ExponentialFamily` and `Grid` for families defined by
    functions.

    Examples
    --------
    >>> from mfbocd import Gaussian
    >>> model = Gaussian(mean=0, var=9, noise_var=1)
    >>> stats = model.update(model.prior(), x=2.0, zeta=0.5)
    >>> mean, variance = model.predictive(stats)
    >>> round(float(mean), 3), round(float(variance), 3)
    (1.636, 2.636)
    """

    columns: int
    dimension: int = 1
    partial: bool = False
    ordered: bool = True
    elementwise: ClassVar[bool] = False
    one_parameter: ClassVar[bool] = False
    has_outliers: bool = False
    # Compiled kernels (`_kernels.template`): one tick of a stream, many ticks of many, gains of many. None makes the
    # filter call the methods below, which every model has and against which the tests compare the kernels.
    observe: ClassVar[Callable[..., Any] | None] = None
    advance: ClassVar[Callable[..., Any] | None] = None
    gains: ClassVar[Callable[..., Any] | None] = None
    operations: ClassVar[tuple[float, float]] = (500.0, 20_000.0)

    @abstractmethod
    def prior(self) -> Array:
        """Return the statistics of a regime without observations.

        Returns
        -------
        ndarray
            Shape (columns,).
        """

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

    @abstractmethod
    def check(self, x: Any) -> Any:
        """Return a reading if the family can produce it.

        Parameters
        ----------
        x : float or ndarray
            A finite reading; an array of length `dimension` where that is above 1.

        Returns
        -------
        float or ndarray
            The reading.

        Raises
        ------
        ValueError
            If `x` is outside the support.
        """

    def check_zetas(self, zetas: Sequence[float]) -> None:  # noqa: B027
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

    @abstractmethod
    def update(self, stats: Array, x: Any, zeta: float) -> Array:
        """Return the statistics after an observation, equation `mf_posterior`.

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
        ndarray
            Same shape as `stats`.
        """

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

    @abstractmethod
    def log_predictive(self, stats: Array, x: Any, zeta: float) -> Array:
        """Return log p(x | statistics, zeta), equation `mf_posterior_predictive`.

        Parameters
        ----------
        stats : ndarray
            Shape (columns,) or (columns, K).
        x : float or ndarray
            The reading.
        zeta : float
            Fidelity of the reading, in [0, 1]; the result is 0 at zeta = 0.

        Returns
        -------
        ndarray
            Log density or log probability, shape () or (K,).
        """

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

    @abstractmethod
    def parameter(self, stats: Array) -> tuple[Array, Array]:
        """Return the posterior mean and variance of the parameter theta.

        Parameters
        ----------
        stats : ndarray
            Shape (columns,) or (columns, K).

        Returns
        -------
        mean : ndarray
            Shape () or (K,); with one row per parameter in front if there are several.
        variance : ndarray
            Same shape; infinite where the variance does not exist.
        """

    @abstractmethod
    def predictive(self, stats: Array, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the mean and variance of the next reading.

        Parameters
        ----------
        stats : ndarray
            Shape (columns,) or (columns, K).
        zeta : float, default 1.0
            Fidelity of the next reading.

        Returns
        -------
        mean : ndarray
            Shape () or (K,); with `dimension` rows in front where that is above 1.
        variance : ndarray
            Same shape; infinite at zeta = 0 and where the variance does not exist.
        """

    @abstractmethod
    def predictive_cdf(self, stats: Array, x: Any, zeta: float = 1.0) -> Array:
        """Return the distribution function of the next reading.

        Parameters
        ----------
        stats : ndarray
            Shape (columns,) or (columns, K).
        x : float or ndarray
            Where to evaluate it.
        zeta : float, default 1.0
            Fidelity of the next reading.

        Returns
        -------
        ndarray
            P(next reading <= x), shape () or (K,); for each number on its own where `dimension` is above 1.
        """

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

    @abstractmethod
    def run_length_gain(self, weight: Array, stats: Array, zeta: float) -> float:
        """Return the information about the run length expected from a reading.

        It is the mutual information I(r; x), equations `mi_rx` and `mi_xr`.

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
            Mutual information in nats.
        """

    @abstractmethod
    def parameter_gain(self, stats: Array, zeta: float) -> Array:
        """Return the information about the parameter expected from a reading, given the run length.

        It is I(theta; x | r) = E_x KL(p(theta | x) || p(theta)) for each hypothesis.

        Parameters
        ----------
        stats : ndarray
            Shape (columns,) or (columns, K).
        zeta : float
            Fidelity of the reading.

        Returns
        -------
        ndarray
            Nats, shape () or (K,).
        """

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

    @abstractmethod
    def variance_gain(self, stats: Array, zeta: float) -> Array:
        """Return the reduction of the parameter's variance expected from a reading, given the run length.

        It is Var(theta | r) - E_x Var(theta | r, x) for each hypothesis.

        Parameters
        ----------
        stats : ndarray
            Shape (columns,) or (columns, K).
        zeta : float
            Fidelity of the reading.

        Returns
        -------
        ndarray
            Shape () or (K,).
        """

    def divergence(self, mean: Array, variance: Array, mean_0: Any, variance_0: Any) -> Array:
        """Return how far predictives of full readings lie from another one, from their moments.

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

    @property
    def units(self) -> tuple[float, float]:
        """Origin and unit of the statistics that the compiled kernels use: (x - origin) / unit; (0, 1) by default."""
        return 0.0, 1.0

    def known_level(self, level: float) -> Array:
        """Return the statistics of a regime whose mean is known.

        For a family with one parameter, those after a reading of that value which counts as ten thousand.

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
            If the family has several numbers per reading and no own sampler.
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

    def sound(self, stats: Array) -> bool:
        """Tell whether statistics can belong to this model.

        It is used to check loaded states, because the compiled kernels do not check what they read.

        Parameters
        ----------
        stats : ndarray
            Shape (columns, K).

        Returns
        -------
        bool
            False if any value is impossible.
        """
        if not np.isfinite(stats).all():
            return False
        if self.observe is not None:
            # Compiled families: what is positive in the prior only grows, the rest are means in the noise's units.
            prior = self.prior()[:, None]
            grown = (stats >= prior * (1.0 - 1e-9)) & (stats <= 1e300)
            return bool(np.where(prior > 0.0, grown, np.abs(stats) <= 1e141).all())
        with np.errstate(all="ignore"):
            moments = (self.parameter(stats), self.predictive(stats))
        return all(not np.isnan(mean).any() and bool((np.asarray(var) >= 0.0).all()) for mean, var in moments)

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

    def params(self) -> Array:
        """Return the numbers that the compiled kernels read of the model.

        Returns
        -------
        ndarray
            One-dimensional; empty for models without compiled kernels.
        """
        return np.empty(0)

    @classmethod
    def cost_bound(cls, arguments: Mapping[str, Any]) -> CostBound:
        """Return an upper bound of the memory and time per hypothesis, without building the model.

        Parameters
        ----------
        arguments : mapping
            The constructor's arguments as plain values, not yet checked. Wrong values may raise a LookupError,
            TypeError, ValueError, ArithmeticError or AttributeError.

        Returns
        -------
        CostBound
            Number of statistics, and operations per tick and per gain.
        """
        return CostBound(cls.columns, *cls.operations)

    def rescaled(self, offset: float, scale: float) -> Model:
        """Return the model of offset + scale * x, where this one is the model of x.

        Both have the same statistics, because these are standardized, so a state of one can continue in the other.

        Parameters
        ----------
        offset : float
            Added to a reading, after scaling.
        scale : float
            Factor of a reading, positive.

        Returns
        -------
        Model
            The model in the other units.

        Raises
        ------
        ValueError
            If the family is not a location-scale family.
        """
        raise ValueError(f"{type(self).__name__} has no offset and scale: its readings have no unit to change")

    def spec(self) -> dict[str, Any]:
        """Return the constructor's arguments as plain values, for saving.

        Returns
        -------
        dict
            Keyword arguments that build an equal model.

        Raises
        ------
        TypeError
            If the model contains functions, which cannot be saved.
        """
        raise TypeError(f"{type(self).__name__} contains functions, which cannot be saved: pass model= when loading")

    def outside(self, x: Any, support: str) -> ValueError:
        """Build the error for a reading that the family cannot produce.

        Parameters
        ----------
        x : float or ndarray
            The reading.
        support : str
            What the family can produce, in words.

        Returns
        -------
        ValueError
            To be raised by the caller.
        """
        return ValueError(f"x = {x!r} is outside the support of {type(self).__name__}: {support}")


def predictive_of(owner: str, predictive: str) -> Predictive:
    """Return which predictive a tempered likelihood is given, or raise an error that names both."""
    if predictive == "normalized":
        return "normalized"
    if predictive == "paper":
        return "paper"
    raise ValueError(f"{owner}.predictive must be 'normalized' or 'paper', not {predictive!r}")
