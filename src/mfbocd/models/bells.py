"""Predictives that are mixtures of normals, Student's t or Gamma ratios, and the gains of all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .._kernels.bells import NORMAL, bell_densities, bell_information, family_information
from .._kernels.heavy_tails import STUDENT
from .._kernels.tables import product_information, table_family_information, table_information
from .family import Array

_FEW = 20_000  # probabilities in the cells of a product: more are merged and summed in part

_RARE = 3e-6  # their information is at most a few 1e-5 nats


class Table(NamedTuple):
    """The next reading under each of K hypotheses, as probabilities of values or densities at nodes.

    Attributes
    ----------
    x : ndarray
        Values or nodes, shape (N,).
    share : ndarray
        1 for a value, the weight of a node in a sum or an integral; shape (N,).
    density : ndarray
        Probability or density, shape (N, K).
    """

    x: Array
    share: Array
    density: Array

    def likely(self, weight: Array) -> Table:
        """Return the table without the least likely nodes, which together have a probability of `_RARE`."""
        mass = self.share * (self.density @ weight)
        order = np.argsort(mass)
        kept = np.sort(order[np.cumsum(mass[order]) > _RARE])
        return Table(self.x[kept], self.share[kept], self.density[kept])

    def information(self, weight: Array) -> float:
        """Return I(r; x) in nats."""
        return float(table_information(weight, self.share, np.ascontiguousarray(self.density)))


class Bells(NamedTuple):
    """The next reading under each of K hypotheses, a mixture of m bells (`_kernels.bells`).

    Attributes
    ----------
    share : ndarray
        Share of each bell, shape (m, K); sums to 1 over the bells.
    centre, width, tail : ndarray
        Shape (m, K). With `origin` and `unit`, a centre is at origin + unit * centre.
    origin, unit : float
        Those of the readings; of their logarithms if `kind` is LOGISTIC.
    kind : int
        STUDENT, where infinitely many degrees of freedom are NORMAL, or LOGISTIC.
    """

    share: Array
    centre: Array
    width: Array
    tail: Array
    origin: float = 0.0
    unit: float = 1.0
    kind: int = STUDENT

    @classmethod
    def single(
        cls,
        centre: Array,
        width: Array,
        tail: Array | None = None,
        origin: float = 0.0,
        unit: float = 1.0,
        kind: int = STUDENT,
    ) -> Bells:
        """Return one bell per hypothesis, from arrays of shape (K,); normals if `tail` is None."""
        heavy = np.full_like(width, NORMAL) if tail is None else tail
        rows = [np.asarray(v, dtype=np.float64)[None] for v in (centre, width, heavy)]
        return cls(np.ones_like(rows[0]), rows[0], rows[1], rows[2], origin, unit, kind)

    def moved(self, origin: float, unit: float) -> Bells:
        """Return the same bells in other units."""
        if (origin, unit) == (self.origin, self.unit):
            return self
        factor = self.unit / unit
        centre = (self.origin - origin) / unit + factor * self.centre
        return self._replace(centre=centre, width=factor * self.width, origin=origin, unit=unit)

    @classmethod
    def mixed(cls, parts: Sequence[Bells], shares: Sequence[Array | float]) -> Bells | None:
        """Return the mixture of several predictives with these shares; None if their kinds differ."""
        first = parts[0]
        if any(part.kind != first.kind for part in parts):
            return None
        same = [part.moved(first.origin, first.unit) for part in parts]
        size = max(part.share.shape[1] for part in same)
        columns = (
            [part.share * share for part, share in zip(same, shares, strict=True)],
            [part.centre for part in same],
            [part.width for part in same],
            [part.tail for part in same],
        )
        rows = [np.concatenate([np.broadcast_to(v, (v.shape[0], size)) for v in column]) for column in columns]
        return cls(rows[0], rows[1], rows[2], rows[3], first.origin, first.unit, first.kind)

    def table(self) -> Table:
        """Return densities at the nodes of a quadrature, in the bells' own units."""
        rows = (np.ascontiguousarray(v) for v in (self.share, self.centre, self.width, self.tail))
        return Table(*bell_densities(self.kind, np.ones(self.share.shape[1]), *rows))

    def information(self, weight: Array) -> float:
        """Return I(r; x) in nats."""
        rows = (np.array(v) for v in (weight, self.share, self.centre, self.width, self.tail))
        return float(bell_information(self.kind, *rows))


def family_gains(parts: Sequence[Bells], probability: Array) -> Array:
    """Return I(k; x | r) of the family k for each hypothesis, from the bells of each family."""
    ends = np.cumsum([0, *(len(part.share) for part in parts)])
    mixed = Bells.mixed(parts, [1.0] * len(parts))
    assert mixed is not None
    rows = (np.ascontiguousarray(v) for v in (mixed.share, mixed.centre, mixed.width, mixed.tail))
    return np.asarray(family_information(mixed.kind, np.ascontiguousarray(probability), ends, *rows))


def table_family_gains(densities: Sequence[Array], probability: Array) -> Array:
    """Return I(k; x | r) for each hypothesis, from the probabilities of the same values under each family."""
    return np.asarray(table_family_information(np.ascontiguousarray(probability), np.array(densities)))


def product_gain(weight: Array, tables: Sequence[Table]) -> float:
    """Return I(r; x) of readings that are independent given the run length, from the table of each."""
    if weight.size * math.prod(table.x.size for table in tables) <= _FEW:  # exact
        share, density = tables[0].share, tables[0].density
        for table in tables[1:]:
            share = (share[:, None] * table.share).ravel()
            density = (density[:, None] * table.density).reshape(share.size, -1)
        return float(table_information(weight, share, density))
    likely = sorted((table.likely(weight) for table in tables), key=lambda table: table.share.size)
    ends = np.cumsum([0, *(table.share.size for table in likely)])
    share = np.concatenate([table.share for table in likely])
    density = np.concatenate([table.density for table in likely])
    return float(product_information(np.array(weight), ends, share, density))
