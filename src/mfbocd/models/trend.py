"""A straight line in time within every regime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..inputs.arguments import finite
from .base import Array
from .regression import Regression
from .unknown_noise import Weighting


class Trend(Regression):
    """Readings along a straight line in time, with normal noise.

        x = level + slope * age + noise

    The age of a regime is 0 at its first tick and grows by 1 per tick, whether the tick is read or not. A ramp is one
    regime; a jump, a kink or a change of the noise begins the next. `Regression` has the formulas.

    Parameters
    ----------
    level : float, default 0.0
        Prior mean of the first reading of a regime.
    slope : float, default 0.0
        Prior mean of the slope, in units of the readings per tick.
    count : float or sequence of float, default (1.0, 100.0)
        Number of readings that the priors of level and slope are worth. The prior standard deviation of a coefficient
        is that of the noise divided by sqrt(count): by default that of the noise for the level, and a tenth of it per
        tick for the slope.
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
        If an argument has the wrong type or is out of range.

    Notes
    -----
    Statistics of a hypothesis: those of `Regression`, then the age.

    Examples
    --------
    >>> model = Trend(count=(0.01, 0.01), noise_var=1)
    >>> stats = model.prior()
    >>> for x in (5.0, 7.0, 9.0, 11.0):
    ...     stats = model.update(stats, x, zeta=1.0)
    >>> model.parameter(stats)[0].round(2)
    array([4.97, 2.01])
    >>> round(float(model.predictive(model.skip(stats))[0]), 1)  # two ticks after the last reading
    15.0
    """

    def __init__(
        self,
        level: float = 0.0,
        slope: float = 0.0,
        count: float | Sequence[float] | Array = (1.0, 100.0),
        shape: float | None = None,
        scale: float | None = None,
        noise_var: float | None = None,
        weighting: Weighting = "precision",
    ) -> None:
        self.level = finite("Trend", "level", level)
        self.slope = finite("Trend", "slope", slope)
        self._set(np.array([self.level, self.slope]), count, shape, scale, noise_var, weighting)
        self.columns += 1

    def sample(self, rng: np.random.Generator, ticks: int) -> Array:
        """Draw noise variance, level and slope from the prior, then a noisy line."""
        (level, slope), sd = self._regime(rng)
        age = np.arange(ticks)
        return self.level + self.slope * age + self._unit * (level + slope * age + sd * rng.normal(size=ticks))

    def rescaled(self, offset: float, scale: float) -> Trend:
        """As for any model; a slope has no offset."""
        line = {"level": offset + scale * self.level, "slope": scale * self.slope}
        return type(self)(**(self.spec() | line | self._rescaled_noise(scale)))

    def spec(self) -> dict[str, Any]:
        """Return the arguments; those of an unused prior are left out."""
        return {"level": self.level, "slope": self.slope, "count": self._counts(), **self._noise()}

    def _next_regressors(self, rows: Array) -> tuple[Array, Array]:
        age = rows[-1]
        return np.stack([np.ones_like(age), age]), self.level + self.slope * age

    def _advance_extra(self, rows: Array, x: Any, zeta: Any) -> None:
        rows[-1] += 1.0
