"""Checks of the arguments of a fleet's methods; an error names the stream and leaves the fleet unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..belief.filter import Array
from ..detector.step import readings
from ..inputs.readings import cells, numbers
from ..policy import Choices, Fidelity

if TYPE_CHECKING:
    from .fleet import Fleet


def readings_of(fleet: Fleet, x: Any, rows: Choices, choice: Choices | None) -> Array:
    """Return one reading per stream as floats, (m,) or (m, d), NaN where it is missing; with `choice` corrected."""
    given = cells(x)
    d = fleet.model.dimension
    shape = (len(rows),) if d == 1 else (len(rows), d)
    if d > 1 and given.shape == (len(rows),) and np.isnan(numbers(given)).all():
        given = np.full(shape, np.nan)  # a list without any reading does not show how many numbers one has
    if given.shape != shape:
        raise ValueError(f"x must have one reading per stream, shape {shape}, not {given.shape}")
    names, units = fleet._names, fleet._rows
    found = readings(
        fleet.model,
        given,
        fleet.missing,
        lambda i: f"stream {names.of(int(rows[i]))}",
        () if choice is None else fleet.fidelities,
        choice,
    )
    if units.has_units:
        with np.errstate(all="ignore"):
            bad = np.flatnonzero(np.isinf((found - units.offset[rows]) / units.scale[rows]))
        if bad.size:
            name = names.of(int(rows[bad[0]]))
            raise ValueError(f"stream {name}: x = {float(found[bad[0]])!r} is too large for its offset and scale")
    return found


def choices_of(fleet: Fleet, fidelity: Any, rows: Choices) -> Choices:
    """Return the index of the fidelity of each stream, (m,), from one for all or one name or index per stream."""
    m, ways = len(rows), len(fleet.fidelities)
    if fidelity is None:
        return np.zeros(m, dtype=np.int64) if ways == 1 else _chosen(fleet, rows)
    if isinstance(fidelity, (str, Fidelity)):
        return np.full(m, _index(fleet, fidelity), dtype=np.int64)
    given = np.asarray(fidelity) if m else np.empty(0, dtype=np.int64)
    if given.shape != (m,):
        raise ValueError(f"fidelity must be one, or one per stream: {m}, not of shape {given.shape}")
    if given.dtype.kind in "iu":
        bad = np.flatnonzero((given < 0) | (given >= ways))
        if bad.size:
            name = fleet._names.of(int(rows[bad[0]]))
            raise ValueError(f"stream {name}: fidelity index must lie in [0, {ways}), not {given[bad[0]]}")
        return given.astype(np.int64)
    return np.array([_index(fleet, f) for f in given.tolist()], dtype=np.int64)


def _chosen(fleet: Fleet, rows: Choices) -> Choices:
    own = fleet._rows
    bad = np.flatnonzero(own.chosen_at[rows] != own.tick[rows])
    if bad.size:
        name, names = fleet._names.of(int(rows[bad[0]])), ", ".join(f.name for f in fleet.fidelities)
        raise ValueError(
            f"stream {name}: fidelity must be one of {names}: with several fidelities, give the one that was read, "
            "or call choose() first and read what it chose"
        )
    return np.asarray(own.chosen[rows])


def _index(fleet: Fleet, fidelity: Any) -> int:
    name = fidelity.name if isinstance(fidelity, Fidelity) else fidelity
    for j, known in enumerate(fleet.fidelities):
        if known.name == name:
            return j
    names = ", ".join(f.name for f in fleet.fidelities)
    raise ValueError(f"fidelity must be one of {names}, not {fidelity!r}")


def observed(fleet: Fleet, rows: Choices, choice: Choices, raws: Sequence[Any]) -> Array:
    """Return the readings of the raw inputs at the chosen fidelities, one per stream; NaN for a skip."""
    read, some = [], []
    for k, (j, raw) in enumerate(zip(choice.tolist(), raws, strict=True)):
        fidelity = fleet.fidelities[j]
        if fidelity.observe is not None:
            if hasattr(fidelity.observe, "warmup"):
                raise TypeError(f"fidelity {fidelity.name!r} remembers earlier inputs, and cannot serve many streams")
            raw = fidelity.observe(raw)
        elif fidelity.zeta == 0.0:
            continue
        elif len(fleet.fidelities) > 1:
            raise TypeError(
                f"fidelity {fidelity.name!r} has no observe: give it one, or use choose() and update(x, fidelity)"
            )
        read.append(raw)
        some.append(k)
    d = fleet.model.dimension
    values = np.full((len(rows), d) if d > 1 else len(rows), np.nan)
    if some:
        values[some] = readings_of(fleet, read, rows[some], choice[some])
    return values
