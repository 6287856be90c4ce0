"""The steps of a stream as arrays, and what its pictures need beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ..detector.detector import Detector
from ..detector.step import Step
from ..policy.fidelity import Fidelity

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Ticks = NDArray[np.int64]


class Change(NamedTuple):
    """One alarm of a trace: the tick it fired, the tick the regime most probably began, P(it is a new one)."""

    tick: int
    changed_at: int
    confidence: float


@dataclass(frozen=True)
class Detail:
    """What the pictures need beside the steps; `run(..., detail=True)` collects it.

    The gains are of every tick. What is dear to compute or large, the band and the run-length posterior, is kept of
    at most 1024 ticks, evenly spaced: every tick of a stream as short as that, every second of one twice as long.
    """

    level: float
    """Probability of the band and of the intervals in `began`."""
    gain: str
    """Which gain `gains` holds: the policy's own, or "joint" where it weighs none."""
    gains: Array
    """(T, J): what each fidelity was expected to tell at tick t, before it was read."""
    began: Ticks
    """(A, 2): for each alarm, in order, the ticks between which the new regime began, with probability `level` if
    it is a new one; `confidence` is the probability that it is."""
    tick: Ticks
    """(n,): the ticks of the rows below."""
    low: Array
    """(n,): lower end of where x_{t+1} lies after tick t, read at the best fidelity (`Detector.interval`)."""
    high: Array
    """(n,): upper end."""
    length: Ticks
    """(B + 1,): edges of the run-length bins, B at most 256; bin b holds length[b] <= r < length[b + 1]."""
    weight: Array
    """(n, B): the filtered P(r_t in bin b). The last bin also holds what lies beyond it, at most 1e-3."""


@dataclass(frozen=True)
class Trace:
    """The steps of a stream, as arrays of length T."""

    choice: NDArray[np.int64]
    """Index of the fidelity read; -1 where time merely passed."""
    x: Array
    """The reading; NaN if missing. (T, d) where a reading has d numbers."""
    cost: Array
    mean: Array
    """E[x_{t+1}] after tick t, shaped as `x`."""
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
    costs: tuple[float, ...] = ()
    """What one reading at each fidelity costs, NaN where that is a function; empty where only names are known."""
    detail: Detail | None = None
    """On request, what the pictures need."""

    @classmethod
    def of(cls, steps: Sequence[Step], fidelities: Detector | Iterable[Fidelity | str], **more: Any) -> Self:
        """The trace of steps made one by one, by this detector or at these fidelities (or just their names).

        `more` are other fields of a trace.

        >>> from mfbocd import Gaussian
        >>> detector = Detector(Gaussian(0, 9, 1), hazard=0.01)
        >>> trace = Trace.of([detector.step(x) for x in (0.1, -0.3, 0.2, 6.0, 6.1)], detector)
        >>> trace.changes[0].changed_at, trace.spent
        (3, 5.0)
        """
        first = fidelities.ticks if isinstance(fidelities, Detector) else 0
        known = list(fidelities.fidelities if isinstance(fidelities, Detector) else fidelities)
        index: dict[str | None, int] = {f if isinstance(f, str) else f.name: j for j, f in enumerate(known)}
        names = [name for name in index if name is not None]
        if steps:
            first = steps[0].tick
        for expected, step in enumerate(steps, first):
            if step.tick != expected:
                raise ValueError(f"steps must be of consecutive ticks: {expected} was expected, not {step.tick}")
            if step.fidelity is not None and step.fidelity not in index:
                raise ValueError(f"step {step.tick} read {step.fidelity!r}, which is none of {', '.join(names)}")
        if all(isinstance(f, Fidelity) for f in known):
            more.setdefault("costs", costs_of([f for f in known if isinstance(f, Fidelity)]))
        index[None] = -1
        return cls(
            choice=np.array([index[s.fidelity] for s in steps], dtype=np.int64),
            x=_readings(steps),
            cost=np.array([s.cost for s in steps]),
            mean=np.array([s.mean for s in steps]),
            run_length=np.array([s.run_length for s in steps], dtype=np.int64),
            p_change=np.array([s.p_change for s in steps]),
            alarm=np.array([s.alarm for s in steps], dtype=np.bool_),
            changed_at=np.array([-1 if s.changed_at is None else s.changed_at for s in steps], dtype=np.int64),
            confidence=np.array([np.nan if s.confidence is None else s.confidence for s in steps]),
            fidelities=tuple(names),
            first=first,
            **more,
        )

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

    def number(self, j: int) -> Self:
        """The trace of one number of each reading, to be drawn: where there are several, a picture shows one."""
        if self.x.ndim == 1:
            raise ValueError("each reading has one number: there is none to pick")
        return replace(self, x=self.x[:, j], mean=self.mean[:, j], detail=None)

    def plot(self, **options: Any) -> Figure:
        """The standard figure (extra ``plot``); `mfbocd.plots.figure` says what it shows and takes."""
        from . import plots

        if self.x.ndim > 1:
            raise ValueError(f"each reading has {self.x.shape[1]} numbers: draw one, trace.number(0).plot()")
        return plots.figure(self, **options)

    def to_frame(self) -> pd.DataFrame:
        """One row a tick as a pandas DataFrame (extra ``frame``); several numbers are columns x_0, x_1, ..."""
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("to_frame needs pandas: pip install 'mfbocd[frame]'") from None

        names = np.array([*self.fidelities, None], dtype=object)  # the last is what -1 refers to
        columns: dict[str, Any] = {"fidelity": names[self.choice]}
        for f in fields(self):
            if f.name not in ("posterior", "fidelities", "first", "costs", "detail"):
                value = getattr(self, f.name)
                if value.ndim == 1:
                    columns[f.name] = value
                else:
                    columns |= {f"{f.name}_{j}": value[:, j] for j in range(value.shape[1])}
        index = pd.RangeIndex(self.first, self.first + len(self), name="tick")
        return pd.DataFrame(columns, index=index)


def _readings(steps: Sequence[Step]) -> Array:
    several = next((len(s.mean) for s in steps if isinstance(s.mean, tuple)), 0)
    nothing = (np.nan,) * several if several else np.nan
    return np.array([nothing if s.x is None else s.x for s in steps], dtype=np.float64)


def costs_of(fidelities: Sequence[Fidelity]) -> tuple[float, ...]:
    """What one reading at each costs, NaN where that is a function of the raw input."""
    return tuple(np.nan if callable(f.cost) else float(f.cost) for f in fidelities)
