"""Run a detector over a finished stream: a table with the readings of every fidelity."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._kernels import layout
from ..detector.detector import Detector
from ..detector.lock import using
from ..detector.observing import shadow_pair
from ..detector.step import Step, readings, report_fields
from ..inputs.readings import cells, numbers, stacked
from ..policy.fidelity import Fidelity
from .change import Change
from .recorder import Recorder
from .regimes import LevelRule
from .trace import Trace, costs_of, season_of

__all__ = ["Change", "Trace", "run"]

Array = NDArray[np.float64]

CHUNK = 4096  # ticks per compiled call: limits how far the state of an unpruned filter must be enlarged in advance


def run(
    detector: Detector,
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
    detector : Detector
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

    def work() -> Trace:
        choice = detector.policy.schedule([detector.seed], detector.ticks, len(columns[0]))
        slow = posterior or detail or surprise or detector.surprise or bool(detector.shadow)
        if choice is None or slow or detector.model.advance is None or raws is not None:
            return _run_stepwise(detector, columns, posterior, raws, detail)
        return _run_scheduled(detector, columns, choice[:, 0])

    before = detector.surprise
    detector.surprise = before or surprise
    try:
        return _rollback_on_error(detector, work)
    finally:
        detector.surprise = before


def _run_scheduled(detector: Detector, columns: list[Any], choice: NDArray[np.int64]) -> Trace:
    """Advance many ticks per compiled call, for choices that are known in advance."""
    first, ticks = detector.ticks, len(choice)
    x = _readings(detector, columns, choice)
    skipped = np.isnan(x)
    zeta = np.where(skipped, 0.0, np.array([f.zeta for f in detector.fidelities])[choice])
    applied = np.where(skipped, 0.0, x)
    cost = np.array([f.cost_of() for f in detector.fidelities])[choice]
    report = np.empty((ticks, layout.FIELDS, 1))
    for start in range(0, ticks, CHUNK):
        part = slice(start, min(start + CHUNK, ticks))
        detector._advance(applied[part, None], zeta[part, None], report[part])
    # summed in order, so that the total has the same bits as tick by tick
    detector.spent = float(np.add.accumulate(np.append(detector.spent, cost))[-1])
    return Trace(
        choice=choice,
        x=x,
        cost=cost,
        fidelities=tuple(f.name for f in detector.fidelities),
        first=first,
        costs=costs_of(detector.fidelities),
        level_rule=LevelRule.of(detector.model, detector.fidelities),
        season=season_of(detector.model, x, first),
        **report_fields(report[:, :, 0].T.copy()),
    )


def _columns(detector: Detector, table: Any) -> list[NDArray[Any]]:
    """Return the readings of each fidelity, (T,) or (T, d): as floats if the column is numeric, otherwise unchanged.

    A value in a row where its fidelity is not chosen is never validated.
    """
    dimension, count = detector.model.dimension, len(detector.fidelities)
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


def _readings(detector: Detector, columns: list[NDArray[Any]], choice: NDArray[np.int64]) -> Array:
    """Return the chosen readings as floats, NaN if missing; an error names the row and the column."""
    x = np.empty((len(choice), *columns[0].shape[1:]))
    for j, column in enumerate(columns):
        rows = np.flatnonzero(choice == j)
        where = partial(_place, rows, detector.fidelities[j].name)
        x[rows] = readings(detector.model, column[rows], detector.missing, where, detector.fidelities[j : j + 1])
    return x


def _place(rows: NDArray[np.int64], column: str, i: int) -> str:
    return f"row {rows[i]}, column {column!r}"


def _value_of(columns: list[Any], index: dict[str, int], row: int, fidelity: Fidelity) -> Any:
    return columns[index[fidelity.name]][row]


def run_each(
    detector: Detector, table: Any, on_step: Callable[[Step], None], raws: Sequence[Any] | None = None
) -> Trace:
    """Run a detector over a finished stream and call a function after every tick.

    Parameters
    ----------
    detector : Detector
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
    return _rollback_on_error(
        detector, lambda: _run_stepwise(detector, _columns(detector, table), False, raws, False, on_step)
    )


def _rollback_on_error(detector: Detector, work: Callable[[], Trace]) -> Trace:
    """Do the work while holding the detector's lock; if it raises, restore the detector's state."""
    with using(detector):
        before, spent, policy_state = detector._filter.state.copy(), detector.spent, detector.policy.state()
        fidelities, policy = detector.fidelities, detector.policy
        guards = {name: copy.copy(guard) for name, guard in detector.shadow.items()}
        try:
            return work()
        except BaseException:
            detector._use(fidelities, policy)
            detector._adopt(before, spent)
            detector.policy.restore(policy_state)
            detector.shadow = guards
            raise


def _run_stepwise(
    detector: Detector,
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
        f = detector.choose(raw)
        if recorder is not None:
            recorder.before_tick()
        value = None if f.zeta == 0.0 and detector.missing == "skip" else values_of[index[f.name]][t]
        try:
            pair = None
            if detector.shadow:
                pair = shadow_pair(detector, raw, partial(_value_of, values_of, index, t))
            if pair is None:
                steps.append(detector.update(value, f.name, raw=raw))
            else:
                steps.append(detector._apply(pair.value, pair.fidelity, pair.cost, warning=pair.warning))
        except (TypeError, ValueError) as error:
            raise type(error)(f"row {t}, column {f.name!r}: {error}") from None
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
