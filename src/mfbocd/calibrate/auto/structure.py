"""The structure of a series: its scale, season, noise and outliers, as one immutable description."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...models import Bernoulli, FixedSeason, Model, RobustTrend, Rounded, Scaled, Transformed
from ...models.fixed_season import Piece, Season
from ...models.mapped import Mapped
from ...models.unknown_noise import Weighting
from ..noise import local_noise
from .season import Array, Ticks

Flags = NDArray[np.bool_]
Kind = Literal["number", "binary"]
Transform = Literal["none", "log", "sqrt"]

_SHIFT = 0.6  # added before a square root, so that the variance of small counts is nearly constant
_SMALL = 1e-100  # readings below it, or above its inverse, are measured in a unit of their own size
_WIDEST = 1e6  # largest ratio of the spread of readings to their noise that the filter resolves
_ABSURD = 0.05  # share of readings beyond that ratio up to which they are left out
_SLOPE_TICKS = 100.0  # ticks within which a line typically changes by the spread of the levels


@dataclass(frozen=True)
class Structure:
    """A description of a series, from which its model follows.

    Parameters
    ----------
    kind : {"number", "binary"}
        ``"binary"`` if all readings are 0 or 1; the other fields are then not used.
    transform : {"none", "log", "sqrt"}
        Applied to the readings first.
    center : float
        Typical level of the transformed readings.
    noise : float
        Standard deviation of their noise.
    spread : float
        Typical distance of levels from `center`.
    seasons : tuple of Season
        Subtracted from the transformed readings.
    ar : tuple of float
        Autocorrelation of the noise, as in `RobustTrend`.
    outliers : float
        Probability of an outlier.
    forget : float
        Below 1 if the variance of the noise drifts, as in `RobustTrend`.
    unit : float
        A power of two by which readings are divided first if they are not transformed; see `unit_of`.
    step : float
        Step of rounded readings, 0 if they are not rounded. A random fraction of a step is added, because the
        variance of rounded readings that repeat themselves would otherwise be estimated as 0.
    """

    kind: Kind = "number"
    transform: Transform = "none"
    center: float = 0.0
    noise: float = 1.0
    spread: float = 1.0
    seasons: tuple[Season, ...] = ()
    ar: tuple[float, ...] = ()
    outliers: float = 0.01
    forget: float = 1.0
    unit: float = 1.0
    step: float = 0.0

    def possible(self, x: Array) -> Flags:
        """Tell which readings the structure can describe; missing ones count as possible.

        Parameters
        ----------
        x : ndarray
            Readings, NaN where missing.

        Returns
        -------
        ndarray of bool
            Same shape.
        """
        return np.isnan(x) | self._model.possible(x)

    def prepared(self, x: Array, tick: Ticks) -> Array:
        """Return the readings as the core of the model sees them.

        Parameters
        ----------
        x : ndarray
            Readings that are `possible`, NaN where missing.
        tick : ndarray of int
            Their ticks.

        Returns
        -------
        ndarray
            Transformed readings without their seasons.
        """
        model = self._model
        return np.asarray(model.inward(x, tick)) if isinstance(model, Mapped) else x

    def restored(self, y: Array, tick: Ticks) -> Array:
        """Return values of the core of the model in units of the readings.

        Parameters
        ----------
        y : ndarray
            Values such as predictive means or quantiles.
        tick : ndarray of int
            The ticks they belong to.

        Returns
        -------
        ndarray
            The inverse of `prepared`.
        """
        model = self._model
        return np.asarray(model.outward(y, tick)) if isinstance(model, Mapped) else y

    def without_seasons(self, x: Array, tick: Ticks) -> Array:
        """Return readings without their seasons, in units of the readings.

        Parameters
        ----------
        x : ndarray
            Readings, NaN where missing.
        tick : ndarray of int
            Their ticks.

        Returns
        -------
        ndarray
            The readings themselves where there is no season, or where they are not `possible`.
        """
        return self._model.without_seasons(x, tick)

    def model(self, start: int = 0, weighting: Weighting = "precision") -> Model:
        """Return the model of the readings.

        Parameters
        ----------
        start : int, default 0
            Tick at which the stream of the model begins: the first reading that a detector of it gets is that of
            this tick.
        weighting : {'precision', 'tempered'}, default 'precision'
            As in `RobustTrend`; it matters only where readings have several fidelities.

        Returns
        -------
        Model
            `Bernoulli` for binary readings; otherwise `RobustTrend`, within a `FixedSeason` for each season, a
            `Transformed` or `Scaled` if readings are transformed or very large or small, and a `Rounded`.
        """
        if self.kind == "binary":
            return Bernoulli(1.0, 1.0)
        count = (self.noise / self.spread) ** 2
        model: Model = RobustTrend(
            level=self.center,
            count=(count, count * _SLOPE_TICKS**2),
            scale=self.noise**2,
            ar=self.ar,
            outliers=self.outliers,
            forget=self.forget,
            weighting=weighting,
        )
        for season in reversed(self.seasons):
            model = FixedSeason(model, *season, start=start)
        if self.transform == "log":
            model = Transformed(model, "log")
        elif self.transform == "sqrt":
            model = Transformed(model, "sqrt", _SHIFT)
        elif self.unit != 1.0:
            model = Scaled(model, self.unit)
        return Rounded(model, self.step, start) if self.step else model

    @cached_property
    def _model(self) -> Model:
        return self.model()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; `from_dict` is the inverse.

        Returns
        -------
        dict
            Of numbers, strings and lists.
        """
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        seasons = [[s.period, list(s.cosine), list(s.sine), list(map(list, s.pieces))] for s in self.seasons]
        return plain | {"ar": list(self.ar), "seasons": seasons}

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Structure:
        """Return the structure that `to_dict` described.

        Parameters
        ----------
        given : dict
            The plain values.

        Returns
        -------
        Structure
            The structure.
        """
        seasons = tuple(
            Season(float(period), tuple(map(float, cosine)), tuple(map(float, sine)), tuple(map(_piece, pieces)))
            for period, cosine, sine, pieces in given["seasons"]
        )
        return cls(**(given | {"seasons": seasons, "ar": tuple(map(float, given["ar"]))}))


def _piece(given: Any) -> Piece:
    start, value, slope = map(float, given)
    return start, value, slope


def unit_of(x: Array) -> float:
    """Return the power of two near the largest reading if its square could not be represented, otherwise 1.

    Parameters
    ----------
    x : ndarray
        Readings, without missing ones.

    Returns
    -------
    float
        The unit.

    Examples
    --------
    >>> unit_of(np.array([1e-5, 1e9])), unit_of(np.array([0.0, -1.5 * 2.0**800])) == 2.0**800
    (1.0, True)
    """
    largest = float(np.abs(x).max())
    if largest == 0.0 or _SMALL < largest < 1.0 / _SMALL:
        return 1.0
    return math.ldexp(1.0, math.frexp(largest)[1] - 1)


def scales(y: Array) -> tuple[float, float, float]:
    """Return center, noise and spread of prepared readings, all positive or finite also if they never vary.

    Parameters
    ----------
    y : ndarray
        Prepared readings, without missing ones.

    Returns
    -------
    center, noise, spread : float
        As in `Structure`.
    """
    center, unit = float(np.median(y)), unit_of(y)
    sd = unit * float(np.std(y / unit))  # a power of two changes no digit, but squares are finite
    noise = local_noise(y)
    if not noise > 0.0:
        noise = 0.1 * sd if sd > 0.0 else 1e-6 * (abs(center) or 1.0)
    if sd > _WIDEST * noise:  # by many readings, such as levels without noise; or by a few absurd ones
        far = np.abs(y - center) > _WIDEST * noise
        if far.mean() <= _ABSURD:
            sd = unit * float(np.std(y[~far] / unit))
    noise = max(noise, 1e-6 * sd)
    return center, noise, max(1.4826 * float(np.median(np.abs(y - center))), 0.5 * sd, noise)
