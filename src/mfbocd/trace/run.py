"""Run a detector over a finished stream: a table with the readings of every fidelity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..detector.base import BaseDetector
from ..detector.lock import unchanged_on_error
from ..detector.step import Step
from ..inputs.readings import cells, numbers, stacked
from ..policy.fidelity import Fidelity
from .change import Change
from .recorder import Recorder
from .trace import Trace, costs_of, season_of

__all__ = ["Change", "Trace", "run"]

Array = NDArray[np.float64]


def run(
    detector: BaseDetector,
    table: Any,
    posterior: bool = False,
    raws: Sequence[Any] | None = None,
    detail: bool = False,
    surprise: bool = False,
) -> Trace:
    """Run a detector over a finished stream and return its steps.

    Of each row only the reading at the chosen fidelity is used; where a `shadow` is due, a pair is read as in
    `Detector.step`. If a row is invalid, the call raises and the detector
    is restored to its state before the call.

    Parameters
    ----------
    detector : BaseDetector
        The detector; it continues from its current state.
    table : Any
        The readings. An array of shape (T, J) with one column per fidelity, in their order; (T,) for one fidelity; or
        a DataFrame (anything with ``columns``) whose columns have the fidelities' names. With one fidelity and one
        column, the name does not matter. For readings of d numbers the shapes are (T, J, d) and (T, d), and a
        DataFrame with one fidelity has the d numbers as its columns, in order.
    posterior : bool
        Whether to return the exact run-length posterior of every tick, (T, T); False by default.
    raws : Sequence[Any] or None
        Raw inputs, one per tick, if a cost is a function of them; None by default.
    detail : bool
        Whether to collect what plots need (`Detail`, of bounded size); False by default. It changes no step.
    surprise : bool
        Whether to return the log tail probabilities of every reading (`Trace.surprise`), which takes longer; by
        default only if the detector has ``surprise=True``.

    Returns
    -------
    Trace
        One row per tick.

    Raises
    ------
    ValueError
        If the table has the wrong shape or lacks a column, or a reading cannot be used; the message names its row and
        column. Also if `posterior` is requested of a detector that has already seen readings.
    TypeError
        If a reading is not a number.

    Examples
    --------
    >>> from mfbocd import Detector, Gaussian
    >>> trace = run(Detector(Gaussian(0, 9, 1), hazard=0.01), [0.1, -0.3, 0.2, 6.0, 6.1])
    >>> trace.run_length
    array([0, 1, 2, 0, 1])
    >>> trace.changes[0].changed_at
    3
    """
    columns = _columns(detector, table)
    with unchanged_on_error(detector):
        choice = detector.policy.schedule([detector.seed], detector.ticks, len(columns[0]))
        slow = posterior or detail or surprise or detector.surprise or raws is not None
        if choice is not None and detector.bulk and not slow:
            return _run_scheduled(detector, columns, choice[:, 0])
        before = detector.surprise
        detector.surprise = before or surprise
        trace = _run_stepwise(detector, columns, posterior, raws, detail)
        detector.surprise = before
        return trace


def _run_scheduled(detector: BaseDetector, columns: list[Any], choice: NDArray[np.int64]) -> Trace:
    """Advance many ticks per compiled call, for choices that are known in advance."""
    first = detector.ticks
    x = _readings(detector, columns, choice)
    fields = detector.advance(x, choice)
    return Trace(
        choice=choice,
        x=x,
        cost=detector.policy.cost[choice],
        fidelities=tuple(f.name for f in detector.fidelities),
        first=first,
        costs=costs_of(detector.fidelities),
        level_rule=detector.level_rule,
        season=season_of(detector, x, first),
        **fields,
    )


def _columns(detector: BaseDetector, table: Any) -> list[NDArray[Any]]:
    """Return the readings of each fidelity, (T,) or (T, d): as floats if the column is numeric, otherwise unchanged.

    A value in a row where its fidelity is not chosen is never validated.
    """
    dimension, count = detector.dimension, len(detector.fidelities)
    is_frame = hasattr(table, "columns") and hasattr(table, "__getitem__")
    if is_frame and dimension == 1:
        names = list(table.columns)
        if len(names) == count == 1:  # of one column the name does not matter
            return [_as_numbers(cells(table[names[0]]))]
        for f in detector.fidelities:
            if f.name not in names:
                raise ValueError(f"table has no column {f.name!r}, only {', '.join(map(str, names))}")
        return [_as_numbers(cells(table[f.name])) for f in detector.fidelities]
    values = stacked([table[name] for name in table.columns]) if is_frame else cells(table)
    if values.ndim == (1 if dimension == 1 else 2) and count == 1:
        values = values[:, None]
    if dimension == 1 and (values.ndim != 2 or values.shape[1] != count):
        raise ValueError(f"table must have shape (T, {count}), one column per fidelity, not {values.shape}")
    if dimension > 1 and (values.ndim != 3 or values.shape[1:] != (count, dimension)):
        shape = f"(T, {dimension})" if count == 1 else f"(T, {count}, {dimension})"
        raise ValueError(f"table must have shape {shape}, {dimension} numbers per reading, not {np.shape(table)}")
    return [_as_numbers(values[:, j]) for j in range(count)]


def _as_numbers(column: NDArray[Any]) -> NDArray[Any]:
    return numbers(column) if column.dtype.kind in "biuf" else column


def _readings(detector: BaseDetector, columns: list[NDArray[Any]], choice: NDArray[np.int64]) -> Array:
    """Return the chosen readings as floats, NaN if missing; an error names the row and the column."""
    x = np.empty((len(choice), *columns[0].shape[1:]))
    for j, column in enumerate(columns):
        rows = np.flatnonzero(choice == j)
        fidelity = detector.fidelities[j]
        x[rows] = detector.readings(column[rows], fidelity, partial(_place, rows, fidelity.name))
    return x


def _place(rows: NDArray[np.int64], column: str, i: int) -> str:
    return f"row {rows[i]}, column {column!r}"


def _value_of(columns: list[Any], index: dict[str, int], row: int, fidelity: Fidelity) -> Any:
    return columns[index[fidelity.name]][row]


def run_each(
    detector: BaseDetector, table: Any, on_step: Callable[[Step], None], raws: Sequence[Any] | None = None
) -> Trace:
    """Run a detector over a finished stream and call a function after every tick.

    Parameters
    ----------
    detector : BaseDetector
        The detector; it continues from its current state.
    table : Any
        The readings, as in `run`.
    on_step : Callable[[Step], None]
        Called with every step.
    raws : Sequence[Any] or None
        Raw inputs, one per tick, if a cost is a function of them; None by default.

    Returns
    -------
    Trace
        One row per tick.

    Raises
    ------
    ValueError
        As in `run`.
    """
    with unchanged_on_error(detector):
        return _run_stepwise(detector, _columns(detector, table), False, raws, False, on_step)


def _run_stepwise(
    detector: BaseDetector,
    columns: list[Any],
    posterior: bool,
    raws: Sequence[Any] | None,
    detail: bool,
    on_step: Callable[[Step], None] | None = None,
) -> Trace:
    """Advance tick by tick: for choices that depend on readings, for callbacks and detail, and for slow models."""
    ticks = len(columns[0])
    if posterior and detector.ticks:
        raise ValueError(f"posterior=True needs a detector before its first tick, not after {detector.ticks} ticks")
    rows = np.zeros((ticks, ticks)) if posterior else None
    index = {f.name: j for j, f in enumerate(detector.fidelities)}
    recorder = Recorder(detector, ticks=ticks) if detail else None
    # Python floats need no validation in `update`; numpy scalars make it several times slower
    values_of = [column.tolist() if column.dtype == float and column.ndim == 1 else column for column in columns]
    steps: list[Step] = []
    for t in range(ticks):
        raw = None if raws is None else raws[t]
        if recorder is not None:
            recorder.before_tick()
        try:
            steps.append(detector.update_from(partial(_value_of, values_of, index, t), raw))
        except (TypeError, ValueError) as error:
            raise type(error)(f"row {t}, column {detector.choose(raw).name!r}: {error}") from None
        if recorder is not None:
            recorder.after_tick(steps[-1])
        if on_step is not None:
            on_step(steps[-1])
        if rows is not None:
            length, weight = detector.run_length
            rows[t, length] = weight
    if recorder is not None:
        return recorder.trace(posterior=rows)
    return Trace.of(steps, detector, posterior=rows)
