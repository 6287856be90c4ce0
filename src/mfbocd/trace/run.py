"""A finished stream: every fidelity's readings in a table, of which only the chosen column is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._kernels import layout
from ..detector.detector import Detector
from ..detector.lock import using
from ..detector.step import Step, readings, report_fields
from ..inputs.readings import cells, numbers, stacked
from .recorder import Watch
from .trace import Change, Trace, costs_of

__all__ = ["Change", "Trace", "run"]

Array = NDArray[np.float64]

CHUNK = 4096  # ticks a compiled call advances: bounds what a state without a bound must have room for


def run(
    detector: Detector,
    table: Any,
    posterior: bool = False,
    raws: Sequence[Any] | None = None,
    detail: bool = False,
) -> Trace:
    """Feed a finished stream to a detector and return what it did.

    `table` is a (T, J) array with one column a fidelity, in their order; or (T,) where there is only one; or a
    DataFrame (anything with ``columns``), whose columns bear the fidelities' names. Of each row only the chosen
    column is read. Where a reading has d numbers the shapes are (T, J, d) and (T, d), and a DataFrame with one
    fidelity has the numbers as its columns, in order. `raws` are the raw inputs, one a tick, where a cost is a
    function of them. `posterior` asks for the exact run-length posterior of every tick, `detail` for what the
    pictures need (`Detail`, bounded in memory); neither changes a step. Bad input names its row and column, and
    leaves the detector as it was.

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
        if choice is None or posterior or detail or detector.model.advance is None or raws is not None:
            return _walk(detector, columns, posterior, raws, detail)
        return _leap(detector, columns, choice[:, 0])

    return _whole(detector, work)


def _leap(detector: Detector, columns: list[Any], choice: NDArray[np.int64]) -> Trace:
    """Many ticks a compiled call: for choices known beforehand."""
    first, ticks = detector.ticks, len(choice)
    x = _readings(detector, columns, choice)
    skipped = np.isnan(x)
    zeta = np.where(skipped, 0.0, np.array([f.zeta for f in detector.fidelities])[choice])
    fed = np.where(skipped, 0.0, x)
    cost = np.array([f.cost_of() for f in detector.fidelities])[choice]
    report = np.empty((ticks, layout.FIELDS, 1))
    for start in range(0, ticks, CHUNK):
        part = slice(start, min(start + CHUNK, ticks))
        detector._advance(fed[part, None], zeta[part, None], report[part])
    # added in order, as ticks told singly would add up
    detector.spent = float(np.add.accumulate(np.append(detector.spent, cost))[-1])
    return Trace(
        choice=choice,
        x=x,
        cost=cost,
        fidelities=tuple(f.name for f in detector.fidelities),
        first=first,
        costs=costs_of(detector.fidelities),
        **report_fields(report[:, :, 0].T.copy()),
    )


def _columns(detector: Detector, table: Any) -> list[NDArray[Any]]:
    """The readings of each fidelity, (T,) or (T, d): floats where they are numbers for certain, else as they came.

    Whatever stands in a row of a fidelity that is not chosen there is never judged.
    """
    d, ways = detector.model.dimension, len(detector.fidelities)
    framed = hasattr(table, "columns") and hasattr(table, "__getitem__")
    if framed and d == 1:
        present = list(table.columns)
        for f in detector.fidelities:
            if f.name not in present:
                raise ValueError(f"table has no column {f.name!r}, only {', '.join(map(str, present))}")
        return [_taken(cells(table[f.name])) for f in detector.fidelities]
    values = stacked([table[name] for name in table.columns]) if framed else cells(table)
    if values.ndim == (1 if d == 1 else 2) and ways == 1:
        values = values[:, None]
    if d == 1 and (values.ndim != 2 or values.shape[1] != ways):
        raise ValueError(f"table must have shape (T, {ways}), one column a fidelity, not {values.shape}")
    if d > 1 and (values.ndim != 3 or values.shape[1:] != (ways, d)):
        shape = f"(T, {d})" if ways == 1 else f"(T, {ways}, {d})"
        raise ValueError(f"table must have shape {shape}, {d} numbers a reading, not {np.shape(table)}")
    return [_taken(values[:, j]) for j in range(ways)]


def _taken(column: NDArray[Any]) -> NDArray[Any]:
    return numbers(column) if column.dtype.kind in "biuf" else column


def _readings(detector: Detector, columns: list[NDArray[Any]], choice: NDArray[np.int64]) -> Array:
    """The chosen readings as floats, NaN where missing; an error names a bad row and its column."""
    x = np.empty((len(choice), *columns[0].shape[1:]))
    for j, column in enumerate(columns):
        rows = np.flatnonzero(choice == j)
        named = detector.fidelities[j].name
        where = partial(_place, rows, named)
        x[rows] = readings(detector.model, column[rows], detector.missing, where)
    return x


def _place(rows: NDArray[np.int64], column: str, i: int) -> str:
    return f"row {rows[i]}, column {column!r}"


def follow(detector: Detector, table: Any, each: Callable[[Step], None], raws: Sequence[Any] | None = None) -> Trace:
    """`run`, with a look at the detector after every tick."""
    return _whole(detector, lambda: _walk(detector, _columns(detector, table), False, raws, False, each))


def _whole(detector: Detector, work: Callable[[], Trace]) -> Trace:
    """All of it, or an error and a detector as it was; an error, too, while another thread uses the detector."""
    with using(detector):
        before, spent, learnt = detector._filter.state.copy(), detector.spent, detector.policy.state()
        try:
            return work()
        except BaseException:
            detector._adopt(before, spent)
            detector.policy.restore(learnt)
            raise


def _walk(
    detector: Detector,
    columns: list[Any],
    posterior: bool,
    raws: Sequence[Any] | None,
    detail: bool,
    each: Callable[[Step], None] | None = None,
) -> Trace:
    """Tick by tick: for choices that hang on what was read, for what is looked at on the way, for slow models."""
    ticks = len(columns[0])
    if posterior and detector.ticks:
        raise ValueError(f"posterior=True needs a detector that has seen nothing, not {detector.ticks} ticks")
    rows = np.zeros((ticks, ticks)) if posterior else None
    index = {f.name: j for j, f in enumerate(detector.fidelities)}
    watch = Watch(detector, ticks=ticks) if detail else None
    # floats of Python are taken at once, numpy's are judged: several times slower
    given = [column.tolist() if column.dtype == float and column.ndim == 1 else column for column in columns]
    steps: list[Step] = []
    for t in range(ticks):
        raw = None if raws is None else raws[t]
        f = detector.choose(raw)
        if watch is not None:
            watch.before()
        value = None if f.zeta == 0.0 and detector.missing == "skip" else given[index[f.name]][t]
        try:
            steps.append(detector.update(value, f.name, raw=raw))
        except (TypeError, ValueError) as error:
            raise type(error)(f"row {t}, column {f.name!r}: {error}") from None
        if watch is not None:
            watch.after(steps[-1])
        if each is not None:
            each(steps[-1])
        if rows is not None:
            length, weight = detector.run_length
            rows[t, length] = weight
    if watch is not None:
        return watch.trace(posterior=rows)
    return Trace.of(steps, detector, posterior=rows)
