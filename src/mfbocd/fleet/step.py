"""What a fleet returns: the record of one tick of many streams, and a decision for the next."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..belief.filter import Array
from ..detector.step import Step
from ..policy import Choices


@dataclass(slots=True)
class FleetStep:
    """One tick of each of m streams of a fleet: arrays of length m, in the order the readings were given in.

    Examples
    --------
    >>> from mfbocd import Fleet, Gaussian
    >>> step = Fleet(3, Gaussian(0, 9, 1)).update([0.5, 0.1], streams=[2, 0])
    >>> step.streams, step.tick, step.x
    (array([2, 0]), array([0, 0]), array([0.5, 0.1]))
    >>> step.steps()[1].x
    0.1
    """

    streams: NDArray[np.int64]
    """Index of each stream in the fleet, at the time of the update."""
    tick: NDArray[np.int64]
    """Index of the tick in the stream's own clock; 0 for the first."""
    choice: Choices
    """Index of the fidelity read."""
    x: Array
    """The readings, (m,) or (m, d); NaN if missing."""
    cost: Array
    mean: Array
    """E[x_{t+1}] after this tick, (m,) or (m, d)."""
    run_length: NDArray[np.int64]
    """MAP of r_t: ticks since the first of the current regime."""
    p_change: Array
    """P(change within the alarm's window)."""
    alarm: NDArray[np.bool_]
    changed_at: NDArray[np.int64]
    """At an alarm the tick at which the new regime most probably began; else -1."""
    confidence: Array
    """At an alarm P(a regime began after the last alarm, within the window); else NaN."""
    fidelities: tuple[str, ...]
    """Names of the fidelities, which `choice` indexes."""

    def __len__(self) -> int:
        return len(self.streams)

    def steps(self) -> list[Step]:
        """Return the same as one `Step` per stream, as `Detector.update` returns it."""
        fired = self.alarm.tolist()
        when: Any = repeat(None)
        sure: Any = repeat(None)
        if True in fired:
            when = [at if f else None for at, f in zip(self.changed_at.tolist(), fired, strict=True)]
            sure = [p if f else None for p, f in zip(self.confidence.tolist(), fired, strict=True)]
        x, mean = self.x.tolist(), self.mean.tolist()
        if self.x.ndim > 1:
            x, mean = [tuple(row) for row in x], [tuple(row) for row in mean]
        gone = np.isnan(self.x) if self.x.ndim == 1 else np.isnan(self.x).all(axis=1)
        for i in np.flatnonzero(gone).tolist():
            x[i] = None
        names = [self.fidelities[j] for j in self.choice.tolist()]
        columns = (self.tick.tolist(), names, x, self.cost.tolist(), mean, self.run_length.tolist())
        return list(map(Step, *columns, self.p_change.tolist(), fired, when, sure))


class Decision(NamedTuple):
    """What streams should read next, and why."""

    streams: NDArray[np.int64]
    """Index of each stream in the fleet."""
    choice: Choices
    """Index of the fidelity to read."""
    gains: Array
    """Expected gain of each fidelity, (m, J); (m, 0) where the policy weighs none, or there is only one fidelity."""
    price: Array | None
    """The gain one unit of cost must buy, (m,); None where the policy has no such price."""
