"""How the levels of regimes follow from the readings of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..models import Categorical, Confusion, Model, RobustTrend, Trend
from ..policy.fidelity import Fidelity

Array = NDArray[np.float64]
Ticks = NDArray[np.int64]
Support = Literal["binary", "share", "count", "number"]


@dataclass(frozen=True)
class LevelRule:
    """How levels follow from the readings of a model.

    Attributes
    ----------
    weights : tuple of float
        Weight of a reading at each fidelity: zeta. If zeta only names a likelihood (`Model.ordered` is False), only
        the readings of the best fidelity count, because the others have a different mean; but see `rates`.
    line : bool
        Whether regimes may be lines. A slope that differs from 0 by 3 standard errors is then used, and the level is
        the value of the line at the tick of the change.
    categories : int
        Number of categories, if readings are indices of categories; else 0. The levels are then their shares.
    rates : tuple of tuple
        For the labels of a `Confusion`, P(label 1 | truth 0) = q0 and P(label 1 | truth 1) = q1 at each fidelity;
        else empty. A label x then counts as (x - q0) / (q1 - q0) with weight (q1 - q0)^2, which is unbiased for the
        rate of true ones (Rogan and Gladen 1978).
    """

    weights: tuple[float, ...]
    line: bool = False
    categories: int = 0
    rates: tuple[tuple[float, float], ...] = ()

    def corrected(self, x: Array, choice: Ticks, support: Support) -> tuple[Array, Support]:
        """Return readings whose mean is the level, and what they can be.

        Parameters
        ----------
        x : ndarray
            Readings, NaN where missing.
        choice : ndarray of int
            Index of the fidelity of each reading; -1 where nothing was read.
        support : {"binary", "count", "number"}
            What the readings can be.

        Returns
        -------
        tuple
            The readings as they are, or corrected labels and ``"share"``.
        """
        if not self.rates or support != "binary":
            return x, support
        low, high = np.array([*self.rates, (0.0, 1.0)])[choice].T
        apart = high - low
        return np.where(apart == 0.0, np.nan, (x - low) / np.where(apart == 0.0, 1.0, apart)), "share"

    def weights_of(self, choice: Ticks) -> Array:
        """Return the weight of each reading.

        Parameters
        ----------
        choice : ndarray of int
            Index of the fidelity of each reading; -1 where nothing was read.

        Returns
        -------
        ndarray
            The weights, 0 where nothing was read.
        """
        return np.array([*self.weights, 0.0])[choice]

    @classmethod
    def of(cls, model: Model, fidelities: Sequence[Fidelity]) -> LevelRule:
        """Return the rule of a model.

        Parameters
        ----------
        model : Model
            The model.
        fidelities : sequence of Fidelity
            The fidelities of the detector.

        Returns
        -------
        LevelRule
            The rule.
        """
        zetas = [f.zeta for f in fidelities]
        if isinstance(model, Confusion):
            known = [model.matrices.get(zeta, np.eye(2)) for zeta in zetas]
            rates = tuple((float(matrix[0, 1]), float(matrix[1, 1])) for matrix in known)
            return cls(tuple((q1 - q0) ** 2 for q0, q1 in rates), rates=rates)
        if not model.ordered:
            zetas = [float(zeta == max(zetas)) for zeta in zetas]
        families = list(_families(model))
        categories = model.columns if isinstance(model, Categorical) else 0
        return cls(tuple(zetas), any(isinstance(one, Trend | RobustTrend) for one in families), categories)


FULL = LevelRule((1.0,))
"""The rule of one fidelity."""


def _families(model: Model) -> Iterator[Model]:
    """Yield a model and those it is composed of."""
    yield model
    inner = getattr(model, "model", None)
    for part in [*getattr(model, "parts", ()), *([inner] if isinstance(inner, Model) else [])]:
        yield from _families(part)
