"""What a reading below full fidelity says about a noise variance that is unknown."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from .base import Array, Model

Weighting = Literal["precision", "tempered"]


class UnknownNoise(Model):
    """Base class of the families that learn a noise variance s2.

    With ``weighting="precision"`` a reading at zeta is a reading of variance s2 / zeta: it is one deviation, weighted
    with its precision. With ``"tempered"`` its likelihood is that of a full reading to the power of zeta (the paper):
    it is a fraction zeta of a deviation. Both weigh it equally in the level.
    """

    weighting: Weighting

    def _deviations(self, zeta: Any) -> Any:
        """Return as how many squared deviations a reading counts in what is learned about the noise.

        A zeta above 1 stands for as many full readings (`Budget.initialize`).
        """
        if self.weighting == "tempered":
            return zeta
        return np.where(np.asarray(zeta) > 0.0, np.maximum(zeta, 1.0), 0.0) if np.ndim(zeta) else _count(zeta)

    def update(self, stats: Array, x: Any, zeta: float) -> Array:
        """Update the posterior with a reading, or skip the tick at zeta = 0."""
        if np.ndim(zeta) == 0 and zeta == 0.0:
            return self.skip(stats)
        return self._learned(stats, x, zeta, self._deviations(zeta))

    def update_doubtful(self, stats: Array, x: Any, zeta: float, trust: Array) -> Array:
        """Count a reading that may not belong to the regime as a fraction `trust` of a reading at zeta."""
        part: Any = np.maximum(trust, 1e-300 / zeta)  # 0 would be a tick without a reading
        weight, deviations = zeta * part, self._deviations(zeta) * part
        if self.elementwise or stats.ndim == 1:
            return self._learned(stats, x, weight, deviations)
        each = zip(stats.T, weight.tolist(), deviations.tolist(), strict=True)
        return np.stack([self._learned(column, x, *counts) for column, *counts in each], axis=1)

    def _learned(self, stats: Array, x: Any, zeta: Any, deviations: Any) -> Array:
        """Return the statistics after a reading of precision zeta that counts as so many deviations."""
        raise NotImplementedError


def _count(zeta: float) -> float:
    return max(zeta, 1.0) if zeta > 0.0 else 0.0


def weighting_of(owner: str, weighting: str, predictive: str = "normalized") -> Weighting:
    """Return the argument `weighting`, or raise an error that names the field."""
    if weighting == "tempered":
        return "tempered"
    if weighting != "precision":
        raise ValueError(f"{owner}.weighting must be 'precision' or 'tempered', not {weighting!r}")
    if predictive == "paper":
        raise ValueError(f"{owner}.weighting must be 'tempered' with predictive='paper', not 'precision'")
    return "precision"
