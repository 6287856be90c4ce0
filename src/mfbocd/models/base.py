"""What every conjugate family offers; the filter knows nothing else about it."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from .cost import CostBound

Array = NDArray[np.float64]
Predictive = Literal["normalized", "paper"]


class Model(ABC):
    """A conjugate family with its prior.

    A hypothesis is a column of sufficient statistics: `stats` has shape (columns,) for one or (columns, K) for K.
    An observation at fidelity zeta adds `zeta * u(x)` to them (equation `mf_posterior`), so zeta = 0 adds nothing.
    """

    columns: int
    """Statistics a hypothesis has."""
    dimension: int = 1
    """Numbers a reading has: 1 is a float; more, an array of that length, and means, variances and distribution
    functions below then have one row each in front of the hypotheses' axis."""
    partial: bool = False
    """Whether some numbers of a reading may be missing (NaN) while others are there."""
    ordered: bool = True
    """Whether a reading at a higher zeta can be used as one at a lower; not where zeta is but a name."""
    # Compiled kernels (`_kernels.template`): one tick of a stream, many ticks of many, gains of many. None makes the
    # filter call the methods below, which every model has and against which the tests compare the kernels.
    observe: ClassVar[Callable[..., Any] | None] = None
    advance: ClassVar[Callable[..., Any] | None] = None
    gains: ClassVar[Callable[..., Any] | None] = None
    operations: ClassVar[tuple[float, float]] = (500.0, 20_000.0)
    """Operations per hypothesis, about nanoseconds: of a tick, and of the gain of one fidelity (`cost_bound`)."""

    @abstractmethod
    def prior(self) -> Array:
        """Statistics of a regime with no observation yet, shape (columns,)."""

    def new_regime(self, live: Array) -> Array:
        """Statistics of a regime that begins now, beside the live hypotheses'; the prior, unless the past matters."""
        return self.prior()

    def skip(self, stats: Array) -> Array:
        """Statistics after a tick with no reading; the same, unless time itself matters."""
        return stats

    @abstractmethod
    def check(self, x: Any) -> Any:
        """Return the finite reading `x`, or raise ValueError if the family cannot produce it."""

    def check_zetas(self, zetas: Sequence[float]) -> None:  # noqa: B027
        """Raise ValueError if readings at these zetas cannot be ranked by what they tell."""

    def possible(self, x: Array) -> NDArray[np.bool_]:
        """Which of many readings, along the first axis, the family can have produced; NaN never."""
        known = np.asarray(np.isfinite(x))
        return known if known.ndim == 1 else np.asarray(known.all(axis=1))

    @abstractmethod
    def update(self, stats: Array, x: Any, zeta: float) -> Array:
        """Statistics after observing x at fidelity zeta (equation `mf_posterior`)."""

    @abstractmethod
    def log_predictive(self, stats: Array, x: Any, zeta: float) -> Array:
        """log p(x | statistics, zeta) (equation `mf_posterior_predictive`); 0 at zeta = 0: nothing was seen."""

    @abstractmethod
    def parameter(self, stats: Array) -> tuple[Array, Array]:
        """Posterior mean and variance of the parameter theta."""

    @abstractmethod
    def predictive(self, stats: Array, zeta: float = 1.0) -> tuple[Array, Array]:
        """Mean and variance of the next x read at fidelity zeta."""

    @abstractmethod
    def predictive_cdf(self, stats: Array, x: Any, zeta: float = 1.0) -> Array:
        """P(next x <= x) at fidelity zeta."""

    @abstractmethod
    def run_length_gain(self, weight: Array, stats: Array, zeta: float) -> float:
        """I(r; x) of a reading at zeta, hypothesis k having probability weight[k] (`mi_rx` = `mi_xr`), in nats."""

    @abstractmethod
    def parameter_gain(self, stats: Array, zeta: float) -> Array:
        """I(theta; x | r) of each hypothesis: E_x KL(theta given x || theta), in nats."""

    @abstractmethod
    def variance_gain(self, stats: Array, zeta: float) -> Array:
        """Var(theta | r) - E_x Var(theta | r, x) of each hypothesis."""

    def sample(self, rng: np.random.Generator, ticks: int) -> Array:
        """Readings of one regime at full fidelity: a parameter from the prior, then x; (ticks,) or (ticks, d).

        Here each is drawn from the predictive given those before, by bisecting its distribution function: right for
        any family with one number a reading, but slow; those with a better way have their own.
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
        """Whether these statistics, (columns, K), can be this model's: asked of saved ones, which kernels trust."""
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
        """The value nearest to x that x can take; x itself where it is continuous."""
        return x

    def params(self) -> Array:
        """What the compiled kernels read of the model."""
        return np.empty(0)

    @classmethod
    def cost_bound(cls, arguments: Mapping[str, Any]) -> CostBound:
        """What a hypothesis needs at most, found without building the model.

        Parameters
        ----------
        arguments : mapping
            The constructor's arguments as plain values, not yet checked. What is wrong in them may raise a
            LookupError, TypeError, ValueError, ArithmeticError or AttributeError.
        """
        return CostBound(cls.columns, *cls.operations)

    def spec(self) -> dict[str, Any]:
        """The constructor's arguments as plain values, for saving; raises if the model holds functions."""
        raise TypeError(f"{type(self).__name__} holds functions, which bytes cannot carry: pass model= when loading")

    def outside(self, x: Any, support: str) -> ValueError:
        """The error for a reading the family cannot produce."""
        return ValueError(f"x = {x!r} is outside the support of {type(self).__name__}: {support}")


def room_for(what: str, numbers: float) -> None:
    """Refuse arrays of more numbers than this machine has memory for, before any of it is taken.

    >>> room_for("TopK.k = 1000000000000000", 1e15)
    Traceback (most recent call last):
    ValueError: TopK.k = 1000000000000000 needs 8e+06 GB of memory, more than this machine has
    """
    try:
        most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not of this system
        most = 1 << 40
    if 8.0 * numbers > most:
        raise ValueError(f"{what} needs {8e-9 * numbers:.4g} GB of memory, more than this machine has")


def predictive_of(owner: str, predictive: str) -> Predictive:
    """Return which predictive a tempered likelihood is given, or raise an error that names both."""
    if predictive == "normalized":
        return "normalized"
    if predictive == "paper":
        return "paper"
    raise ValueError(f"{owner}.predictive must be 'normalized' or 'paper', not {predictive!r}")
