"""Arguments of a policy that are one number per fidelity, in order or by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ..inputs.arguments import finite
from .base import Array
from .fidelity import Fidelity


def numbers_of(
    owner: str, field: str, given: Mapping[str, float] | Iterable[float] | None
) -> dict[str, float] | list[float] | None:
    """Return numbers, in the order of the fidelities or by name, as plain values, or raise an error."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        return {name: finite(owner, field, v) for name, v in given.items()}
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"{owner}.{field} must be numbers, one per fidelity, not {given!r}")
    return [finite(owner, field, v) for v in given]


def by_fidelity(
    owner: str,
    field: str,
    given: Mapping[str, float] | Sequence[float],
    fidelities: Sequence[Fidelity],
    absent: float,
) -> Array:
    """Return one number per fidelity from a sequence in their order or a mapping by name."""
    names = [f.name for f in fidelities]
    if isinstance(given, Mapping):
        for name in given:
            if name not in names:
                raise ValueError(f"{owner}.{field} names {name!r}, which is none of {', '.join(names)}")
        given = [given.get(name, absent) for name in names]
    values = np.array([finite(owner, field, v) for v in given])
    if values.size != len(names):
        raise ValueError(f"{owner}.{field} must be {len(names)} numbers, one per fidelity, not {given!r}")
    return values
