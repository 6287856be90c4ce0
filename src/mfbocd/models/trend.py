"""A straight line in time within every regime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..inputs.arguments import finite
from .base import Array
from .cost import CostBound
from .regression import Regression


class Trend(Regression):
    """x = level + slope * age + noise, where age is 0 at the regime's first tick and grows by 1 a tick, read or not.

    A ramp is one regime; a jump, a kink or another noise begins the next. `Regression` has the formulas; the noise
    is unknown unless told, so that nothing needs to be set by hand but the units.

    Parameters
    ----------
    level, slope: prior means: of the first reading of a regime, and of the rise a tick.
    count: how many readings the prior of level and slope is worth. The prior standard deviation of a coefficient is
        that of the noise divided by sqrt(count): unless told, once the noise for the level, a tenth of it a tick for
        the slope.
    shape, scale: of the InverseGamma prior of the noise variance, 1 and 1 unless told.
    noise: the noise variance, if it is known.

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
    ) -> None:
        self.level = finite("Trend", "level", level)
        self.slope = finite("Trend", "slope", slope)
        self._set(np.array([self.level, self.slope]), count, shape, scale, noise_var)
        self.columns += 1

    def sample(self, rng: np.random.Generator, ticks: int) -> Array:
        """Noise variance, level and slope from the prior, then a noisy line."""
        (level, slope), sd = self._regime(rng)
        age = np.arange(ticks)
        return self.level + self.slope * age + self._unit * (level + slope * age + sd * rng.normal(size=ticks))

    @classmethod
    def cost_bound(cls, arguments: Mapping[str, Any]) -> CostBound:
        """Fixed: two regressors."""
        return cls._cost_bound(2, 1, "kind")

    def spec(self) -> dict[str, Any]:
        """The arguments that were given."""
        return {"level": self.level, "slope": self.slope, "count": self._counts(), **self._noise()}

    def _coming(self, rows: Array) -> tuple[Array, Array]:
        age = rows[-1]
        return np.stack([np.ones_like(age), age]), self.level + self.slope * age

    def _moved(self, rows: Array, x: Any) -> None:
        rows[-1] += 1.0
