"""The interface of every model: the filter uses nothing else. Here, what compiled kernels and saved states need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .family import Array
from .optional import OptionalMethods

__all__ = ["Array", "Model", "Predictive", "predictive_of"]

Predictive = Literal["normalized", "paper"]


class Model(OptionalMethods):
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
        Compiled kernel for one tick of one stream; None makes the filter use its methods.
    advance : callable or None
        Compiled kernel for many ticks of many streams.
    gains : callable or None
        Compiled kernel for the gains of many streams.

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

    # Compiled kernels (`_kernels.template`): one tick of a stream, many ticks of many, gains of many. None makes the
    # filter call the methods, which every model has and against which the tests compare the kernels.
    observe: Callable[..., Any] | None = None
    advance: Callable[..., Any] | None = None
    gains: Callable[..., Any] | None = None

    @property
    def units(self) -> tuple[float, float]:
        """Origin and unit of the statistics that the compiled kernels use: (x - origin) / unit; (0, 1) by default."""
        return 0.0, 1.0

    def params(self) -> Array:
        """Return the numbers that the compiled kernels read of the model.

        Returns
        -------
        ndarray
            One-dimensional; empty for models without compiled kernels.
        """
        return np.empty(0)

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
        """Advance many streams of a compiled model by many ticks.

        Parameters
        ----------
        call : callable
            Calls a kernel with these arguments and a work queue.
        states, setup : ndarray
            The states of all streams, (n, size), and what they share (`_kernels.layout`).
        rows : ndarray of int
            The streams to advance, (m,).
        x, zeta : ndarray
            Readings and their fidelities, (T, m).
        report : ndarray
            Shape (T, FIELDS, m); filled.
        """
        assert self.advance is not None
        call(self.advance, (states, setup, rows, x, zeta, report))

    @property
    def core(self) -> Model:
        """The model whose moments are averaged over run lengths: the model itself, except for `Mapped` models."""
        return self

    def core_stats(self, stats: Array) -> Array:
        """Return the statistics of the core.

        Parameters
        ----------
        stats : ndarray
            Shape (columns,) or (columns, K).

        Returns
        -------
        ndarray
            A view of the same shape, with the core's columns.
        """
        return stats

    def from_core(self, mean: Any, variance: Any, stats: Array) -> tuple[Any, Any]:
        """Return mean and variance of the core's readings in units of this model's readings.

        Parameters
        ----------
        mean, variance : float or ndarray
            Moments, or any other value with variance 0.
        stats : ndarray
            Statistics before the reading, shape (columns, K).

        Returns
        -------
        mean, variance : float or ndarray
            In units of the readings.
        """
        return mean, variance

    def without_seasons(self, x: Array, tick: NDArray[np.int64]) -> Array:
        """Return readings without the seasons that are the same in every regime (`FixedSeason`).

        Parameters
        ----------
        x : ndarray
            Readings, NaN where missing.
        tick : ndarray of int
            Their ticks.

        Returns
        -------
        ndarray
            `x` itself if there is no such season.
        """
        return x

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
        raise ValueError(f"{type(self).__name__} has no offset and scale: its readings have no unit")

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
