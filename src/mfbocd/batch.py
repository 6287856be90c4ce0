"""A finished stream: every fidelity's readings in a table, of which only the chosen column is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._kernels import layout as at
from .detector import Detector
from .tick import Step, readings, told
from .trace import Change, Trace, costs_of
from .watch import Watch

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
    report = np.empty((ticks, at.FIELDS, 1))
    for start in range(0, ticks, CHUNK):
        part = slice(start, min(start + CHUNK, ticks))
        detector.advance(fed[part, None], zeta[part, None], report[part])
    # added in order, as ticks told singly would add up
    detector.spent = float(np.add.accumulate(np.append(detector.spent, cost))[-1])
    return Trace(
        choice=choice,
        x=x,
        cost=cost,
        fidelities=tuple(f.name for f in detector.fidelities),
        first=first,
        costs=costs_of(detector.fidelities),
        **told(report[:, :, 0].T.copy()),
    )


def _columns(detector: Detector, table: Any) -> list[Any]:
    """One sequence a fidelity."""
    names = [f.name for f in detector.fidelities]
    if detector.model.dimension > 1:
        return _several(detector, table)
    if hasattr(table, "columns") and hasattr(table, "__getitem__"):
        present = list(table.columns)
        missing = [name for name in names if name not in present]
        if missing:
            raise ValueError(f"table has no column {missing[0]!r}, only {', '.join(map(str, present))}")
        return [np.asarray(table[name]) for name in names]
    values = np.asarray(table)
    if values.ndim == 1 and len(names) == 1:
        values = values[:, None]
    if values.ndim != 2 or values.shape[1] != len(names):
        raise ValueError(f"table must have shape (T, {len(names)}), one column a fidelity, not {values.shape}")
    return [values[:, j] for j in range(len(names))]


def _several(detector: Detector, table: Any) -> list[Any]:
    """One (T, d) array a fidelity."""
    d, ways = detector.model.dimension, len(detector.fidelities)
    values = np.asarray(table)
    if values.ndim == 2 and ways == 1:
        values = values[:, None]
    if values.ndim != 3 or values.shape[1:] != (ways, d):
        shape = f"(T, {d})" if ways == 1 else f"(T, {ways}, {d})"
        raise ValueError(f"table must have shape {shape}, {d} numbers a reading, not {np.shape(table)}")
    return [values[:, j] for j in range(ways)]


def _readings(detector: Detector, columns: list[Any], choice: NDArray[np.int64]) -> Array:
    """The chosen readings as floats, NaN where missing; an error names the first bad row."""
    ticks = len(choice)
    x = np.empty(ticks)
    for j, column in enumerate(columns):
        rows = choice == j
        if not rows.any():
            continue
        chosen = column[rows]
        try:
            x[rows] = chosen  # numbers go in bulk; anything else is judged one by one below
        except (TypeError, ValueError):
            x[rows] = np.nan
    return readings(
        detector.model,
        x,
        detector.missing,
        item=lambda t: columns[choice[t]][t],
        where=lambda t: f"row {t}, column {detector.fidelities[choice[t]].name!r}",
    )


def _item(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def follow(detector: Detector, table: Any, each: Callable[[Step], None], raws: Sequence[Any] | None = None) -> Trace:
    """`run`, with a look at the detector after every tick."""
    return _whole(detector, lambda: _walk(detector, _columns(detector, table), False, raws, False, each))


def _whole(detector: Detector, work: Callable[[], Trace]) -> Trace:
    """All of it, or an error and a detector as it was."""
    before, spent, learnt = detector.filter.state.copy(), detector.spent, detector.policy.state()
    try:
        return work()
    except BaseException:
        detector.adopt(before, spent)
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
    steps: list[Step] = []
    for t in range(ticks):
        raw = None if raws is None else raws[t]
        f = detector.choose(raw)
        if watch is not None:
            watch.before()
        value = None if f.zeta == 0.0 and detector.missing == "skip" else _item(columns[index[f.name]][t])
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
