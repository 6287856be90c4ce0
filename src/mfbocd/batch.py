"""A finished stream: every fidelity's readings in a table, of which only the chosen column is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._kernels import layout as at
from .detector import Detector
from .tick import Step, readings, told

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]

CHUNK = 4096  # ticks a compiled call advances: bounds what a state without a bound must have room for


class Change(NamedTuple):
    """One alarm of a trace: the tick it fired, the tick the regime most probably began, P(it is a new one)."""

    tick: int
    changed_at: int
    confidence: float


@dataclass(frozen=True)
class Trace:
    """The steps of a finished stream, as arrays of length T."""

    choice: NDArray[np.int64]
    """Index of the fidelity read."""
    x: Array
    """The reading; NaN if missing."""
    cost: Array
    mean: Array
    """E[x_{t+1}] after tick t."""
    run_length: NDArray[np.int64]
    """MAP of r_t."""
    p_change: Array
    """P(change within the alarm's window)."""
    alarm: NDArray[np.bool_]
    changed_at: NDArray[np.int64]
    """At an alarm the tick the new regime most probably began at; else -1."""
    confidence: Array
    """At an alarm P(a regime began after the last alarm, within the window); else NaN."""
    fidelities: tuple[str, ...]
    """Names `choice` refers to."""
    first: int = 0
    """Tick of the first row."""
    posterior: Array | None = None
    """On request, (T, T): row t holds the filtered P(r_t = l), l = 0..t."""

    def __len__(self) -> int:
        return len(self.choice)

    @property
    def spent(self) -> float:
        """What the readings cost together."""
        return float(self.cost.sum())

    @property
    def changes(self) -> list[Change]:
        """The alarms, in order."""
        return [
            Change(self.first + int(t), int(self.changed_at[t]), float(self.confidence[t]))
            for t in np.flatnonzero(self.alarm)
        ]

    def to_frame(self) -> pd.DataFrame:
        """One row a tick as a pandas DataFrame (extra ``frame``)."""
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("to_frame needs pandas: pip install 'mfbocd[frame]'") from None

        names = np.array(self.fidelities, dtype=object)
        columns: dict[str, Any] = {"fidelity": names[self.choice]}
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name not in ("posterior", "fidelities", "first"):
                columns[f.name] = value
        index = pd.RangeIndex(self.first, self.first + len(self), name="tick")
        return pd.DataFrame(columns, index=index)


def run(detector: Detector, table: Any, posterior: bool = False, raws: Sequence[Any] | None = None) -> Trace:
    """Feed a finished stream to a detector and return what it did.

    `table` is a (T, J) array with one column a fidelity, in their order; or (T,) where there is only one; or a
    DataFrame (anything with ``columns``), whose columns bear the fidelities' names. Of each row only the chosen
    column is read. `raws` are the raw inputs, one a tick, where a cost is a function of them. Bad input names its row
    and column, and leaves the detector as it was.

    >>> from mfbocd import Detector, Gaussian
    >>> trace = run(Detector(Gaussian(0, 9, 1), hazard=0.01), [0.1, -0.3, 0.2, 6.0, 6.1])
    >>> trace.run_length
    array([0, 1, 2, 0, 1])
    >>> trace.changes[0].changed_at
    3
    """
    columns = _columns(detector, table)
    before, spent, learnt = detector.filter.state.copy(), detector.spent, detector.policy.state()
    try:
        choice = detector.policy.schedule([detector.seed], detector.ticks, len(columns[0]))
        if choice is None or posterior or detector.model.advance is None or raws is not None:
            return _walk(detector, columns, posterior, raws)
        return _leap(detector, columns, choice[:, 0])
    except BaseException:
        detector.adopt(before, spent)
        detector.policy.restore(learnt)
        raise


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
        **told(report[:, :, 0].T.copy()),
    )


def _columns(detector: Detector, table: Any) -> list[Any]:
    """One sequence a fidelity."""
    names = [f.name for f in detector.fidelities]
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


def _walk(detector: Detector, columns: list[Any], posterior: bool, raws: Sequence[Any] | None) -> Trace:
    """Tick by tick: for choices that hang on what was read, for the posterior, for models not compiled."""
    ticks = len(columns[0])
    first = detector.ticks
    if posterior and first:
        raise ValueError(f"posterior=True needs a detector that has seen nothing, not {first} ticks")
    rows = np.zeros((ticks, ticks)) if posterior else None
    index = {f.name: j for j, f in enumerate(detector.fidelities)}
    steps: list[Step] = []
    choices = []
    for t in range(ticks):
        raw = None if raws is None else raws[t]
        f = detector.choose(raw)
        value = None if f.zeta == 0.0 and detector.missing == "skip" else _item(columns[index[f.name]][t])
        try:
            steps.append(detector.update(value, f.name, raw=raw))
        except (TypeError, ValueError) as error:
            raise type(error)(f"row {t}, column {f.name!r}: {error}") from None
        choices.append(index[f.name])
        if rows is not None:
            length, weight = detector.run_length
            rows[t, length] = weight
    return Trace(
        choice=np.array(choices, dtype=np.int64),
        x=np.array([np.nan if s.x is None else s.x for s in steps]),
        cost=np.array([s.cost for s in steps]),
        mean=np.array([s.mean for s in steps]),
        run_length=np.array([s.run_length for s in steps], dtype=np.int64),
        p_change=np.array([s.p_change for s in steps]),
        alarm=np.array([s.alarm for s in steps], dtype=np.bool_),
        changed_at=np.array([-1 if s.changed_at is None else s.changed_at for s in steps], dtype=np.int64),
        confidence=np.array([np.nan if s.confidence is None else s.confidence for s in steps]),
        fidelities=tuple(index),
        first=first,
        posterior=rows,
    )
