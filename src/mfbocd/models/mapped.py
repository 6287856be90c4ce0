"""Shared code of the models that map a reading, and pass the result to another model."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._kernels.layout import CAP, COLUMNS, HEAD, KEPT, MEAN, SLOPES, STATS, TICK
from .base import Array, Model
from .nested import model_of, named_spec
from .table import continuous

_KERNELS = ("observe", "advance", "gains")


class Mapped(Model):
    """Base class of the models of readings x whose image y = f(x) is described by another model.

        p(x | zeta) = p(f(x) | zeta) f'(x)

    f increases and is the same in every regime; it may depend on the tick of the stream. The derivative does not
    depend on zeta: f changes the unit of a density, not how much a reading is worth. Maps in maps are one chain
    before the innermost model, whose compiled kernels advance the stream.

    Attributes
    ----------
    model : Model
        The model of the images.
    base : Model
        The innermost model.

    Notes
    -----
    Statistics of a hypothesis: those of `base`, then the number of ticks of the stream so far, the same in all
    hypotheses, if a map depends on it.
    """

    model: Model
    base: Model
    uses_ticks: ClassVar[bool] = False
    """Whether the map depends on the tick."""
    is_season: ClassVar[bool] = False
    """Whether the map subtracts a season."""

    def _wrap(self, model: Model | Mapping[str, Any]) -> None:
        """Set the model of the images and what follows from it."""
        owner = type(self).__name__
        self.model = inner = model_of(f"{owner}.model", model)
        if inner.dimension != 1 or not continuous(inner):
            raise ValueError(f"{owner}.model must have continuous readings of one number, unlike {inner!r}")
        self._maps: tuple[Mapped, ...] = (self, *inner._maps) if isinstance(inner, Mapped) else (self,)
        self.base = base = inner.base if isinstance(inner, Mapped) else inner
        self._clocked = any(each.uses_ticks for each in self._maps)
        self.columns = base.columns + self._clocked
        self.ordered, self.has_outliers = base.ordered, base.has_outliers
        self.kind = getattr(base, "kind", "normalized")  # of a predictive: "paper" is no density
        self._bind()

    def _bind(self) -> None:
        """Use the kernels of the innermost model."""
        self.gains = self.base.gains
        if self.base.observe is not None:
            self.observe = self._observe
        if self.base.advance is not None:
            self.advance = self._advance

    def __getstate__(self) -> dict[str, Any]:
        # A copy finds the kernels in the class of its innermost model.
        return {name: value for name, value in self.__dict__.items() if name not in _KERNELS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._bind()

    # --- the map, for one reading or many ------------------------------------------------------------------------

    @abstractmethod
    def to_inner(self, x: Any, tick: Any) -> Any:
        """Return f(x) at these ticks; minus or plus infinity below or above the domain.

        Parameters
        ----------
        x : float or ndarray
            Readings.
        tick : float or ndarray
            Their ticks, from 0.

        Returns
        -------
        float or ndarray
            What `model` describes.
        """

    @abstractmethod
    def to_outer(self, y: Any, tick: Any) -> Any:
        """Return the inverse of f at these ticks, or the nearest possible reading if y is the image of none.

        Parameters
        ----------
        y : float or ndarray
            Values of `model`.
        tick : float or ndarray
            Their ticks.

        Returns
        -------
        float or ndarray
            In units of the readings.
        """

    def inverse(self, y: Any, tick: Any) -> Any:
        """Return the inverse of f at these ticks: `to_outer`, except where that has only its accuracy.

        Parameters
        ----------
        y : float or ndarray
            Values of `model`.
        tick : float or ndarray
            Their ticks.

        Returns
        -------
        float or ndarray
            Readings whose image is y.
        """
        return self.to_outer(y, tick)

    def clipped(self, x: Any) -> Any:
        """Return the possible readings nearest to numbers.

        Parameters
        ----------
        x : float or ndarray
            Any numbers.

        Returns
        -------
        float or ndarray
            Readings.
        """
        inner = self.model
        return self.to_outer(inner.clipped(self.to_inner(x, 0.0)), 0.0) if isinstance(inner, Mapped) else x

    def log_slope(self, x: Any) -> Any:
        """Return log f'(x), which is 0 by default and depends on no tick.

        Parameters
        ----------
        x : float or ndarray
            Readings in the domain.

        Returns
        -------
        float or ndarray
            The logarithms.
        """
        return 0.0 * x

    def _inward(self, x: Any, tick: Any) -> tuple[Any, Any]:
        """Return the images of readings under all maps, and the sum of the log slopes."""
        total: Any = 0.0
        for each in self._maps:
            total = total + each.log_slope(x)
            x = each.to_inner(x, tick)
        return x, total

    def inward(self, x: Any, tick: Any) -> Any:
        """Return the images of readings under all maps.

        Parameters
        ----------
        x : float or ndarray
            Readings.
        tick : float or ndarray
            Their ticks.

        Returns
        -------
        float or ndarray
            What `base` describes; infinite outside the domain.
        """
        with np.errstate(all="ignore"):
            for each in self._maps:
                x = each.to_inner(x, tick)
        return x

    def outward(self, y: Any, tick: Any) -> Any:
        """Return values of the innermost model in units of the readings.

        Parameters
        ----------
        y : float or ndarray
            Values of `base`.
        tick : float or ndarray
            Their ticks.

        Returns
        -------
        float or ndarray
            In units of the readings.
        """
        for each in reversed(self._maps):
            y = each.to_outer(y, tick)
        return y

    def without_seasons(self, x: Array, tick: NDArray[np.int64]) -> Array:
        """Return the readings whose images under the other maps are the same, where they are possible."""
        if not any(each.is_season for each in self._maps):
            return x
        with np.errstate(all="ignore"):
            y: Any = self.inward(x, tick)
            for each in reversed(self._maps):
                y = y if each.is_season else each.inverse(y, tick)
        return np.where(self.possible(x), y, x)

    # --- the core ------------------------------------------------------------------------------------------------

    @property
    def core(self) -> Model:
        """The innermost model."""
        return self.base

    def core_stats(self, stats: Array) -> Array:
        """Return the statistics without the tick."""
        return stats[: self.base.columns]

    def from_core(self, mean: Any, variance: Any, stats: Array) -> tuple[Any, Any]:
        """Return the image of the mean under the inverse map, and the variance by its derivative there."""
        center, spread = self._moments(mean, variance, self._clock(stats))
        return (center, spread) if center.ndim else (float(center), float(spread))

    def params(self) -> Array:
        """Return those of the innermost model."""
        return self.base.params()

    @property
    def units(self) -> tuple[float, float]:
        """Those of the innermost model."""
        return self.base.units

    def _observe(self, state: Array, setup: Array, x: float, zeta: float) -> Any:
        """Advance one stream by the kernel of the innermost model."""
        assert self.base.observe is not None
        tick = float(state[TICK]) + 1.0
        slope = 0.0
        if zeta > 0.0:
            x, slope = self._inward(x, tick)
        report = self.base.observe(state, setup, float(x), zeta)
        state[SLOPES] += slope
        if self._clocked:
            self._set_clock(state[None], 0, tick + 1.0)
        state[MEAN] = mean = float(self.outward(report[0], tick + 1.0))
        return (mean, *report[1:])

    def _advance(
        self, states: Array, setup: Array, rows: Any, x: Array, zeta: Array, report: Array, queue: Any
    ) -> None:
        def call(kernel: Callable[..., None], arguments: tuple[Any, ...]) -> None:
            kernel(*arguments, np.zeros_like(queue))

        self.advance_with(call, states, setup, rows, x, zeta, report)

    def advance_with(
        self,
        call: Callable[[Callable[..., None], tuple[Any, ...]], None],
        states: Array,
        setup: Array,
        rows: NDArray[np.int64],
        x: Array,
        zeta: Array,
        report: Array,
    ) -> None:
        """Map the readings, and call the kernel of the innermost model for them."""
        if len(x) == 0:
            return
        assert self.base.advance is not None
        tick = states[rows, TICK] + 1.0 + np.arange(len(x))[:, None]
        read = zeta > 0.0
        y, slope = np.zeros(x.shape), np.zeros(x.shape)
        y[read], slope[read] = self._inward(x[read], tick[read])
        call(self.base.advance, (states, setup, rows, y, zeta, report))
        # summed in order, so that the total has the same bits as tick by tick
        states[rows, SLOPES] = np.add.accumulate(np.vstack([states[rows, SLOPES], slope]))[-1]
        report[:, 0, :] = self.outward(report[:, 0, :], tick + 1.0)
        states[rows, MEAN] = report[-1, 0, :]
        if self._clocked:
            self._set_clock(states, rows, tick[-1, :, None] + 1.0)

    def _set_clock(self, states: Array, rows: Any, tick: Any) -> None:
        """Write the coming tick of streams to the statistics of their hypotheses, also of the dropped ones."""
        cap, column = int(states[0, CAP]), STATS + self.base.columns
        first = HEAD + column * cap
        states[rows, first : first + cap] = tick
        dropped = HEAD + int(states[0, COLUMNS]) * cap + HEAD + column * KEPT
        states[rows, dropped : dropped + KEPT] = tick

    # --- the methods of a model: those of the innermost one --------------------------------------------------------

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.spec().items() if name != "model")
        return f"{type(self).__name__}({self.model!r}, {arguments})"

    def _own(self, stats: Array) -> Array:
        return stats[: self.base.columns]

    def _clock(self, stats: Array) -> float:
        """Return the tick of statistics that all have the same, 0 if no map depends on it."""
        return float(np.ravel(stats[-1])[-1]) if self._clocked else 0.0

    def _at(self, stats: Array, value: Callable[..., Array], *each: Array) -> Array:
        """Return the value of statistics and their tick, with hypotheses along its last axis.

        `each` are further arguments of `value`, with one number per hypothesis.
        """
        if not self._clocked:
            return value(stats, 0.0, *each)
        own, clock = self._own(stats), stats[-1]
        if clock.ndim == 0 or clock.size == 0 or bool((clock == clock[0]).all()):
            return value(own, float(clock.flat[0]) if clock.size else 0.0, *each)
        groups = [clock == tick for tick in np.unique(clock)]  # only outside a filter
        parts = [value(own[:, some], float(clock[some][0]), *(v[some] for v in each)) for some in groups]
        out = np.empty((*parts[0].shape[:-1], clock.size))
        for some, part in zip(groups, parts, strict=True):
            out[..., some] = part
        return out

    def _later(self, stats: Array, own: Array) -> Array:
        """Return the statistics of the innermost model with the clock one tick on."""
        return np.concatenate([own, stats[-1:] + 1.0]) if self._clocked else own

    def prior(self) -> Array:
        """Return the prior of the innermost model, and no tick."""
        return np.append(self.base.prior(), 0.0) if self._clocked else self.base.prior()

    def new_regime(self, live: Array) -> Array:
        """Return the new regime of the innermost model, and the tick of the stream."""
        own = self.base.new_regime(self._own(live))
        if not self._clocked:
            return own
        return np.append(own, live[-1, -1] if live.shape[1] else 0.0)

    def skip(self, stats: Array) -> Array:
        """Skip the tick."""
        return self._later(stats, self.base.skip(self._own(stats)))

    def sound(self, stats: Array) -> bool:
        """Check the statistics of the innermost model, and that all hypotheses have the same tick."""
        if not self.base.sound(self._own(stats)):
            return False
        clock = stats[-1] if self._clocked else np.zeros(1)
        return clock.size == 0 or bool((clock == clock[0]).all() and clock[0] >= 0.0 and clock[0] == clock[0] // 1.0)

    def check(self, x: float) -> float:
        """Accept what the map and the innermost model accept."""
        if not self.possible(np.array([x]))[0]:
            raise self.outside(x, self._support())
        return x

    @abstractmethod
    def _support(self) -> str:
        """Return in words which readings are possible."""

    def possible(self, x: Array) -> NDArray[np.bool_]:
        """Tell which readings have a finite image that is possible."""
        with np.errstate(all="ignore"):
            y = self.to_inner(x, 0.0)
        return np.asarray(np.isfinite(x) & np.isfinite(y) & self.model.possible(y))

    def check_zetas(self, zetas: Sequence[float]) -> None:
        """Check the fidelities for the innermost model."""
        self.base.check_zetas(zetas)

    def update(self, stats: Array, x: Any, zeta: float) -> Array:
        """Update the innermost model with the image of the reading."""
        if np.ndim(zeta) == 0 and zeta == 0.0:
            return self.skip(stats)
        own = self._at(stats, lambda own, tick: self.base.update(own, self._inward(x, tick)[0], zeta))
        return self._later(stats, own)

    def update_doubtful(self, stats: Array, x: Any, zeta: float, trust: Array) -> Array:
        """Update the innermost model with the image of a reading that may not belong to the regime."""

        def value(own: Array, tick: float, trust: Array) -> Array:
            return self.base.update_doubtful(own, self._inward(x, tick)[0], zeta, trust)

        return self._later(stats, self._at(stats, value, trust))

    def log_predictive(self, stats: Array, x: Any, zeta: float) -> Array:
        """Return the log predictive of the image plus the log slope."""
        if zeta == 0.0:
            return np.zeros(stats.shape[1:])

        def value(own: Array, tick: float) -> Array:
            y, slope = self._inward(x, tick)
            return self.base.log_predictive(own, float(y), zeta) + slope

        return self._at(stats, value)

    def log_predictives(self, stats: Array, x: Array, zeta: float) -> Array:
        """Return the same of many readings."""

        def value(own: Array, tick: float) -> Array:
            y, slope = self._inward(x, tick)
            return self.base.log_predictives(own, y, zeta) + slope[:, None]

        return self._at(stats, value)

    def last_outlier(self, stats: Array) -> Array:
        """Return that of the innermost model."""
        return self.base.last_outlier(self._own(stats))

    def parameter(self, stats: Array) -> tuple[Array, Array]:
        """Return the moments of the innermost model's parameter, which is not mapped back."""
        return self.base.parameter(self._own(stats))

    def predictive(self, stats: Array, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the value whose image is expected, and the variance by the derivative of the map there.

        The predictives of an image are symmetric in most models: then the value is the median of the reading.
        """
        pair = self._at(
            stats,
            lambda own, tick: np.stack(self._moments(*self.base.predictive(own, zeta), tick)),
        )
        return pair[0], pair[1]

    def _moments(self, mean: Any, variance: Any, tick: float) -> tuple[Array, Array]:
        """Return the moments of the innermost model in units of the readings."""
        center, slope = mean, 0.0 * mean
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            for each in reversed(self._maps):
                center = each.to_outer(center, tick)
                slope = slope + each.log_slope(center)
            spread = np.where(np.isinf(variance), np.inf, variance * np.exp(-2.0 * slope))
        return np.asarray(center), spread

    def predictive_cdf(self, stats: Array, x: Any, zeta: float = 1.0) -> Array:
        """Return the distribution function of the image."""

        def value(own: Array, tick: float) -> Array:
            y = float(self.inward(float(x), tick))
            if math.isinf(y):
                return np.full(own.shape[1:], float(y > 0.0))
            return self.base.predictive_cdf(own, y, zeta)

        return self._at(stats, value)

    def log_tails(self, stats: Array, x: Any, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the logs of both tails of the image."""

        def value(own: Array, tick: float) -> Array:
            y = float(self.inward(float(x), tick))
            if math.isinf(y):
                ends = (0.0, -math.inf) if y > 0.0 else (-math.inf, 0.0)
                return np.stack([np.full(own.shape[1:], end) for end in ends])
            return np.stack(self.base.log_tails(own, y, zeta))

        pair = self._at(stats, value)
        return pair[0], pair[1]

    def run_length_gain(self, weight: Array, stats: Array, zeta: float) -> float:
        """Return that of the innermost model: a one-to-one map changes no information."""
        return self.base.run_length_gain(weight, self._own(stats), zeta)

    def parameter_gain(self, stats: Array, zeta: float) -> Array:
        """Return that of the innermost model."""
        return self.base.parameter_gain(self._own(stats), zeta)

    def joint_gain(self, weight: Array, stats: Array, zeta: float) -> float:
        """Return that of the innermost model."""
        return self.base.joint_gain(weight, self._own(stats), zeta)

    def quick_parameter_gain(self, stats: Array, zeta: float) -> Array:
        """Return that of the innermost model."""
        return self.base.quick_parameter_gain(self._own(stats), zeta)

    def variance_gain(self, stats: Array, zeta: float) -> Array:
        """Return that of the innermost model, in its own unit."""
        return self.base.variance_gain(self._own(stats), zeta)

    def sample(self, rng: np.random.Generator, ticks: int) -> Array:
        """Draw a regime of the innermost model that begins at tick 0, and map it back.

        A value that is the image of no reading becomes the nearest possible reading.
        """
        x: Any = self.base.sample(rng, ticks)
        tick = np.arange(float(ticks))
        for each in reversed(self._maps):
            x = each.inverse(x, tick)
        return np.where(self.possible(x), x, self.clipped(x))

    def _inner_rescaled(self, offset: float, scale: float) -> Model:
        try:
            return self.model.rescaled(offset, scale)
        except ValueError as error:
            raise ValueError(f"{type(self).__name__}: {error}") from None

    def spec(self) -> dict[str, Any]:
        """Return `model` as its kind and its arguments."""
        return {"model": named_spec(self.model)}
