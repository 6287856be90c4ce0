"""The exponential distribution with a Gamma prior on its rate (`exponential` is any exponential family)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .base import Array, Predictive
from .gamma import Gamma


class Exponential(Gamma):
    """Waiting times: readings of at least zero, exponential with unknown rate theta, and a Gamma(shape, rate) prior.

    A reading at fidelity zeta is x ~ Gamma(zeta, rate zeta * theta): mean 1 / theta, variance 1 / (zeta theta^2).
    It is `Gamma` with a known shape of one; the statistics are a = shape + sum of zeta and b = rate + sum of zeta x.
    The predictive is Lomax at zeta = 1, with shape a and scale b; ``"normalized"`` (the default) at zeta < 1 says
    that zeta x / b is beta prime with zeta and a. ``"paper"`` then is Gamma(a + zeta) / Gamma(a) b^a /
    (b + zeta x)^(a + zeta), no density in x. See `Gamma` for the rest, and for readings of 0.

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
        """Every number of at least zero is possible."""
        if x < 0.0:
            raise self.outside(x, "numbers of at least 0")
        return x

    def possible(self, x: Array) -> NDArray[np.bool_]:
        """Those of at least zero."""
        return np.isfinite(x) & (x >= 0.0)

    def spec(self) -> dict[str, Any]:
        """The three arguments."""
        return {"shape": self.shape, "rate": self.rate, "predictive": self.kind}
