"""Shared code of the models made of other models: building the parts, and concatenated statistics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from .base import Array, Model
from .nested import model_of, named_spec

Part = Model | Mapping[str, Any]


class Composed(Model):
    """Base class of the models made of other models, whose statistics come one after the other.

    Attributes
    ----------
    parts : list of Model
        The families.
    """

    parts: list[Model]

    def _compose(self, parts: list[Model], dimension: int, own: int = 0) -> None:
        """Set the parts and what follows from them; `own` more statistics come after those of the parts."""
        self.parts = parts
        self.dimension = dimension
        self.ordered = all(part.ordered for part in parts)
        self.has_outliers = any(part.has_outliers for part in parts)
        ends = np.cumsum([0, *(part.columns for part in parts)]).tolist()
        self._rows = [slice(a, b) for a, b in pairwise(ends)]
        self.columns = ends[-1] + own

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(repr(part) for part in self.parts)})"

    def _each(self, stats: Array) -> Iterator[tuple[Model, Array]]:
        """Yield every family with its statistics."""
        return zip(self.parts, (stats[rows] for rows in self._rows), strict=True)

    def prior(self) -> Array:
        """Return the priors of the families, concatenated."""
        return np.concatenate([part.prior() for part in self.parts])

    def sound(self, stats: Array) -> bool:
        """Check the statistics of every family."""
        return all(part.sound(own) for part, own in self._each(stats))

    def new_regime(self, live: Array) -> Array:
        """Return the new regime of every family, concatenated."""
        return np.concatenate([part.new_regime(own) for part, own in self._each(live)])

    def skip(self, stats: Array) -> Array:
        """Skip the tick in every family."""
        return np.concatenate([part.skip(own) for part, own in self._each(stats)])

    def check_zetas(self, zetas: Sequence[float]) -> None:
        """Check the fidelities for every family."""
        for part in self.parts:
            part.check_zetas(zetas)

    def parameter(self, stats: Array) -> tuple[Array, Array]:
        """Return the parameters of the families, concatenated."""
        pairs = [part.parameter(own) for part, own in self._each(stats)]
        return stacked([mean for mean, _ in pairs], stats), stacked([var for _, var in pairs], stats)

    def spec(self) -> dict[str, Any]:
        """Return `parts`: each family as its kind and its arguments."""
        return {"parts": [named_spec(part) for part in self.parts]}


def parts_of(owner: str, models: Sequence[Model], parts: Sequence[Part] | None) -> list[Model]:
    """Return the families, which were given as arguments or as `parts`, as models or as tables that name them."""
    if models and parts is not None:
        raise TypeError(f"{owner} takes its families as arguments or as parts, not both")
    return [model_of(f"{owner}.parts[{i}]", part) for i, part in enumerate(models if parts is None else parts)]


def stacked(found: list[Array], stats: Array) -> Array:
    """Concatenate values, with one row per number in front of the hypotheses."""
    return np.concatenate([np.asarray(values).reshape(-1, *stats.shape[1:]) for values in found])
