"""Exponential readings with a Gamma prior on their rate."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .base import Array, Predictive
from .gamma import Gamma


class Exponential(Gamma):
    """Waiting times: exponential readings with a Gamma prior on their rate.

        theta ~ Gamma(shape, rate),  x | theta ~ Gamma(zeta, zeta * theta)

    A full reading (zeta = 1) is exponential with rate theta. A reading at fidelity zeta has mean 1 / theta and
    variance 1 / (zeta theta^2). This is `Gamma` with known shape 1.

    Parameters
    ----------
    shape : float, default 2.0
        Shape of the Gamma prior of theta; must exceed 1, or the next reading would have no mean.
    rate : float, default 1.0
        Rate of the Gamma prior of theta, in units of the readings. The prior mean of a reading is rate / (shape - 1).
    predictive : {'normalized', 'paper'}, default 'normalized'
        Which density a reading at zeta < 1 has; see Notes.

    Notes
    -----
    Statistics of a hypothesis: a = shape + sum of zeta and b = rate + sum of zeta x.

    At zeta = 1 the predictive is Lomax with shape a and scale b. At zeta < 1, ``"normalized"`` means that zeta x / b
    is beta prime with zeta and a; ``"paper"`` is Gamma(a + zeta) / Gamma(a) b^a / (b + zeta x)^(a + zeta), which is
    not a density in x. See `Gamma` for the reasons and for readings of 0.

    Examples
    --------
    >>> model = Exponential(shape=3, rate=2)
    >>> round(float(np.exp(model.log_predictive(model.prior(), x=2.0, zeta=1.0))), 6)  # 3 * 2^3 / 4^4
    0.09375
    >>> [round(float(v), 6) for v in model.predictive(model.prior())]  # 2 / (3 - 1), 3 * 2^2 / ((3 - 1)^2 (3 - 2))
    [1.0, 3.0]
    """

    def __init__(self, shape: float = 2.0, rate: float = 1.0, predictive: Predictive = "normalized") -> None:
        super().__init__(1.0, shape, rate, predictive)

    def __repr__(self) -> str:
        return f"Exponential(shape={self.shape:g}, rate={self.rate:g}, predictive={self.kind!r})"

    def check(self, x: float) -> float:
        """Accept every number of at least 0."""
        if x < 0.0:
            raise self.outside(x, "numbers of at least 0")
        return x

    def possible(self, x: Array) -> NDArray[np.bool_]:
        """Accept every number of at least 0."""
        return np.isfinite(x) & (x >= 0.0)

    def spec(self) -> dict[str, Any]:
        """Return `shape`, `rate` and `predictive`."""
        return {"shape": self.shape, "rate": self.rate, "predictive": self.kind}
