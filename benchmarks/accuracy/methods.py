"""What the benchmarks compare: one protocol for our detectors and the peers of `peers`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Times = Sequence[str] | None
"""Timestamps as they are in the file, or None."""


class Alarm(NamedTuple):
    """One detected change."""

    at: int
    """Tick at which the alarm is raised; a method that sees the whole series first has `changed_at` here."""
    changed_at: int
    """First tick of the new regime, as estimated at the alarm."""


Run = Callable[[Array, Times, float], list[Alarm]]


@dataclass(frozen=True)
class Method:
    """A detector of changes in one series."""

    name: str
    looks_ahead: bool
    """Whether a result depends on readings after the tick that it is about."""
    online: bool
    """Whether alarms have a tick at which they are raised."""
    run: Run
    threshold: float = float("nan")
    """The default of its one number that makes it more or less ready to alarm; NaN if there is none."""
    range: tuple[float, float] = (float("nan"), float("nan"))
    """Smallest and largest sensible threshold, searched on a log scale; the second has the fewest alarms."""
    note: str = ""
    """What it sees in advance, or how it is set."""
    package: str = ""
    """The distribution it comes from, whose version is part of the cache key. Ours are not cached."""

    def detect(self, x: Array, times: Times = None, threshold: float | None = None) -> list[Alarm]:
        """Return the alarms, in the order in which they are raised."""
        return self.run(x, times, self.threshold if threshold is None else threshold)


def _automatic(x: Array, times: Times, threshold: float) -> list[Alarm]:
    from mfbocd.calibrate.auto import AutoDetector

    return [Alarm(change.tick, change.changed_at) for change in AutoDetector().run(x).changes]


def _none(x: Array, times: Times, threshold: float) -> list[Alarm]:
    return []


def ours() -> list[Method]:
    """What a user gets without settings. The first is the one that peers are compared with."""
    return [Method("mfbocd", False, True, _automatic, note="`mfbocd detect` without a configuration")]


def none() -> Method:
    """No change at all."""
    return Method("none", False, False, _none, note="no change at all")


def select(names: str | None) -> list[Method]:
    """Return the methods with these names, separated by commas; all of them by default."""
    from .peers import peers

    known = {method.name: method for method in [*ours(), *peers()]}
    if names is None:
        return list(known.values())
    unknown = [name for name in names.split(",") if name not in known]
    if unknown:
        raise ValueError(f"methods must be among {', '.join(known)}, not {', '.join(unknown)}")
    return [known[name] for name in names.split(",")]
