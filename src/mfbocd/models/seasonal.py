"""A season of known period within every regime."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..inputs.arguments import COUNTABLE, finite, whole
from .base import Array
from .regression import MOST, Regression
from .unknown_noise import Weighting


class Seasonal(Regression):
    """Readings along a periodic curve in time, with normal noise.

        x = level + sum_j [a_j cos(2 pi j age / period) + b_j sin(2 pi j age / period)] + noise,  j = 1 .. harmonics

    With `slope` the curve also rises by the slope per tick. The age of a regime is 0 at its first tick and grows by 1
    per tick, whether the tick is read or not. A change of the level, of the shape or phase of the season, or of the
    noise begins a new regime. `Regression` has the formulas.

    Parameters
    ----------
    period : float
        Ticks per season, more than 2; need not be whole. `mfbocd.calibrate.estimate_period` estimates it from
        readings, `mfbocd.calibrate.period_of` converts a name such as "daily".
    harmonics : int, default 1
        Number of harmonics, from 1 to period / 2. More of them describe a season with sharper edges.
    level : float, default 0.0
        Prior mean of the level; with a slope, of the level at the first tick of a regime.
    slope : float, optional
        Prior mean of the slope, in units of the readings per tick. By default there is no slope.
    count : float or sequence of float, optional
        Number of readings that the priors are worth: one number, one each for the level, the slope (if there is one)
        and all a and b, or one per coefficient in the order level, slope, a_1, b_1, a_2, b_2, and so on. The prior
        standard deviation of a coefficient is that of the noise divided by sqrt(count). By default 1, and 100 for the
        slope.
    shape : float, optional
        Shape of the InverseGamma prior of the noise variance; 1 by default. Not with `noise_var`.
    scale : float, optional
        Scale of that prior, in squared units of the readings; 1 by default. Not with `noise_var`.
    noise_var : float, optional
        The noise variance, if it is known. By default it is learned.
    weighting : {'precision', 'tempered'}, default 'precision'
        What a reading at zeta < 1 is: one whose noise variance is s2 / zeta, or a fraction zeta of a reading of
        variance s2 (the paper, docs/maths.md, "What zeta says about unknown noise").

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range, or there are more harmonics than half the
        period.

    Notes
    -----
    All a and b have prior mean 0. If the last harmonic is exactly period / 2, its sine is 0 at every tick and b_j is
    omitted. The angle is computed from the remainder of j age / period, which is exact at any age.

    Statistics of a hypothesis: those of `Regression`, then the age.

    Examples
    --------
    >>> model = Seasonal(12, count=0.01, noise_var=1)
    >>> stats = model.prior()
    >>> for x in (5.0, 6.5, 7.6, 8.0, 7.6, 6.5, 5.0, 3.5, 2.4, 2.0, 2.4, 3.5):
    ...     stats = model.update(stats, x, zeta=1.0)
    >>> model.parameter(stats)[0].round(1)
    array([5., 0., 3.])
    >>> [round(float(model.predictive(s)[0]), 1) for s in (stats, model.skip(stats))]  # two ticks ahead
    [5.0, 6.5]
    """

    def __init__(
        self,
        period: float,
        harmonics: int = 1,
        level: float = 0.0,
        slope: float | None = None,
        count: float | Sequence[float] | Array | None = None,
        shape: float | None = None,
        scale: float | None = None,
        noise_var: float | None = None,
        weighting: Weighting = "precision",
    ) -> None:
        self.period = finite("Seasonal", "period", period)
        if not 2.0 < self.period < COUNTABLE:
            raise ValueError(f"Seasonal.period must exceed 2 ticks and be below 2**53, not {period!r}")
        self.harmonics = whole("Seasonal", "harmonics", harmonics, 1, MOST)
        if self.harmonics > 0.5 * self.period:
            raise ValueError(
                f"Seasonal.harmonics must be at most period / 2, {math.floor(0.5 * self.period)}, not {harmonics!r}"
            )
        self.level = finite("Seasonal", "level", level)
        self.slope = None if slope is None else finite("Seasonal", "slope", slope)
        waves = _waves(self.period, self.harmonics)
        line = [self.level] if self.slope is None else [self.level, self.slope]
        self._order = np.arange(1.0, self.harmonics + 1.0)[:, None]
        if count is None:
            count = [1.0, 1.0] if self.slope is None else [1.0, 100.0, 1.0]
        given = np.atleast_1d(np.asarray(count, dtype=object)).tolist()
        if len(given) == len(line) + 1:
            given = [*given[:-1], *[given[-1]] * waves]
        self._set(np.append(line, np.zeros(waves)), given, shape, scale, noise_var, weighting)
        self.columns += 1

    def sample(self, rng: np.random.Generator, ticks: int) -> Array:
        """Draw noise variance and coefficients from the prior, then a noisy season."""
        coefficients, sd = self._regime(rng)
        u, offset = self._curve(np.arange(float(ticks)))
        return np.asarray(offset + self._unit * (coefficients @ u + sd * rng.normal(size=ticks)))

    def rescaled(self, offset: float, scale: float) -> Seasonal:
        """As for any model; a slope has no offset."""
        line = {"level": offset + scale * self.level}
        if self.slope is not None:
            line["slope"] = scale * self.slope
        return type(self)(**(self.spec() | line | self._rescaled_noise(scale)))

    def spec(self) -> dict[str, Any]:
        """Return the arguments; those of an unused prior, and of an absent slope, are left out."""
        slope = {} if self.slope is None else {"slope": self.slope}
        season = {"period": self.period, "harmonics": self.harmonics, "level": self.level}
        return {**season, **slope, "count": self._counts(), **self._noise()}

    def _curve(self, age: Array) -> tuple[Array, Array]:
        # fmod is exact, and so is j age below 2**53: the angle has all its digits at any age
        angle = (2.0 * math.pi / self.period) * np.fmod(self._order * age, self.period)
        waves = np.stack([np.cos(angle), np.sin(angle)], axis=1).reshape(-1, age.size)
        if self.slope is None:
            line, offset = np.ones((1, age.size)), np.full(age.size, self.level)
        else:
            line, offset = np.stack([np.ones_like(age), age]), self.level + self.slope * age
        return np.concatenate([line, waves])[: self._size], offset

    def _next_regressors(self, rows: Array) -> tuple[Array, Array]:
        return self._curve(rows[-1])

    def _advance_extra(self, rows: Array, x: Any, zeta: Any) -> None:
        rows[-1] += 1.0


def _waves(period: float, harmonics: int) -> int:
    """Number of cosines and sines; the sine of half the period vanishes at every tick."""
    return 2 * harmonics - (2 * harmonics == period)
