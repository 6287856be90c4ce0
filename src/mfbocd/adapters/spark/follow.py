"""What a worker does with the rows of one stream: order them, refuse what is unfit, step the stream's detector."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..._kernels import layout as at
from ...config import Config
from ...detector import Detector
from ...policy import Budget, Net
from ...saving import unpack as unpack_blob
from ...snapshot import Freezer, thaw
from ...tick import Step
from .cache import Cache
from .record import Record, pack, unpack

NO_TIME = -(2**63)
"""Stands for an empty time, so that a column of times is one of whole numbers to pandas too."""

Observers = Mapping[str, Callable[[Any], Any]]


class Given(NamedTuple):
    """One row of a stream."""

    time: int
    raw: Any
    """What the observers take; where fidelities have columns, their values in the order of `Job.columns`."""


class Told(NamedTuple):
    """One row of the answer: a step, or what was wrong with the row."""

    key: Any
    time: int | None
    step: Step | None
    problem: str | None


@dataclass(frozen=True)
class Job:
    """What is sent to the workers."""

    token: str
    """Of this query: a worker that has met it need not load its networks again."""
    config: dict[str, Any]
    columns: tuple[str, ...] | None
    """Fidelities that have a column of readings; None where there is a raw payload."""
    observers: Observers | Callable[[], Observers]
    cache: Cache | None = None
    keys: frozenset[Any] | None = None
    shared: bool = False
    """Whether all streams pay one price, which comes with the micro-batch."""


_MET: dict[str, Worker] = {}


def worker_of(job: Job) -> Worker:
    """This process's worker for the job, made when it is first asked for."""
    if job.token not in _MET:
        _MET[job.token] = Worker(job)
    return _MET[job.token]


class Worker:
    """Config, observers and a detector before its first tick, made once a process."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.config = Config.parse(job.config)
        self.digest = self.config.digest()
        self._at: tuple[Any, int] = (None, NO_TIME)
        found = job.observers() if callable(job.observers) else job.observers
        if job.columns is None:
            _check(self.config, found)
            self.observers = {name: self._remembered(name, observe) for name, observe in found.items()}
        else:
            self.observers = {name: _Column(i) for i, name in enumerate(job.columns)}
        self.fresh = self.config.detector(self.observers)
        self._begin = self.fresh.to_bytes()
        self._lent = self.config.detector(self.observers)
        self._freeze = Freezer(self._lent)
        self._rule: tuple[float | None, Net | None] = (None, None)
        self._room = int(self.fresh.filter.state[at.CAP])

    def follow(
        self, key: Any, rows: list[Given], record: bytes | None, price: float | None = None
    ) -> tuple[list[Told], bytes | None]:
        """The answer to the rows of one stream, and its new record; None if it is as it was.

        Rows are taken in the order of their times. A time seen before is passed over; one before the last applied and
        not among the last remembered is late: it is told and changes nothing, as is a row that no detector can use.
        """
        known = self.job.keys
        if key is None or (known is not None and key not in known):
            why = "the key is empty" if key is None else f"the key {key!r} is none of those expected"
            return [Told(key, None if row.time == NO_TIME else row.time, None, why) for row in rows], None
        kept = None if record is None else unpack(record)
        detector = self._detector(kept, price)
        seen = list(kept.seen) if kept else []
        told = []
        moved = False
        for time, raw in _ordered(rows):
            if time == NO_TIME:
                told.append(Told(key, None, None, "the time is empty"))
            elif seen and time <= seen[-1]:
                if not _among(time, seen):
                    told.append(Told(key, time, None, f"late: {seen[-1]} was seen before it"))
            else:
                self._at = (key, time)
                try:
                    step = detector.step(raw)
                # whatever an observer or the model makes of a poisoned payload: the other streams must go on
                except Exception as error:
                    told.append(Told(key, time, None, f"{type(error).__name__}: {error}"))
                else:
                    told.append(Told(key, time, step, None))
                    seen.append(time)
                    moved = True
        if not moved:
            return told, None
        blob = self._freeze(detector) if detector is self._lent else detector.to_bytes()
        return told, pack(self.digest, seen, blob)

    def _detector(self, kept: Record | None, price: float | None) -> Detector:
        """The stream's detector. All streams of a config lend one: building it takes longer than its state."""
        blob = self._begin if kept is None else kept.blob
        if kept is None or kept.config == self.digest:
            detector = self._lent
            thaw(detector, *unpack_blob(blob), self._room)
        elif kept.config is None:
            detector = Detector.from_bytes(blob, observers=self.observers)
            self._match(detector)
        else:
            raise ValueError(
                "the checkpoint's streams were followed under another config: model, fidelities, hazard, policy, "
                "alarm and seed must be as they were. Use that config, or another checkpoint."
            )
        if price is not None:
            detector.policy = self._net(price)
        return detector

    def _net(self, price: float) -> Net:
        """What all streams of a micro-batch decide by."""
        known, rule = self._rule
        if rule is None or known != price:
            gain = self.fresh.policy.gain
            assert gain is not None
            rule = Net(price, gain=gain).bind(self.fresh.fidelities)
            self._rule = (price, rule)
        return rule

    def _match(self, detector: Detector) -> None:
        """Refuse a saved detector that this config would not have made."""
        for field in ("model", "fidelities", "alarm", "pruning", "missing", "policy", "hazard"):
            mine, theirs = _shown(self.fresh, field), _shown(detector, field)
            if mine != theirs and not (field == "policy" and self.job.shared):
                raise ValueError(f"the saved detector has another {field} than the config: {theirs}, not {mine}")

    @property
    def budget(self) -> Budget:
        """The config's budget, before its first tick, where one price serves all streams."""
        assert isinstance(self.fresh.policy, Budget)
        return self.fresh.policy

    def _remembered(self, name: str, observe: Callable[[Any], Any]) -> Callable[[Any], Any]:
        cache = self.job.cache
        if cache is None:
            return observe

        def read(raw: Any) -> Any:
            stream, time = self._at
            held = cache.get(stream, time, name)
            if held is not None:
                return held[0]
            x = observe(raw)
            cache.put(stream, time, name, x)
            return x

        return read


class _Column:
    """Reads the fidelity's own column."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self, raw: list[Any]) -> Any:
        return raw[self.at]


def _check(config: Config, observers: Observers) -> None:
    names = [f.name for f in config.fidelities if f.zeta > 0.0]
    if len(config.fidelities) > 1:
        for name in names:
            if name not in observers:
                raise ValueError(f"observers must read every fidelity, but {name!r} has none")
    for name, observe in observers.items():
        if hasattr(observe, "warmup"):
            raise ValueError(
                f"observers[{name!r}] has a memory of its own, which Spark cannot restore: read such a stream in "
                "process, or let the message carry what the observer must see"
            )


def _ordered(rows: list[Given]) -> list[Given]:
    """By time; of rows with the same time an order that does not hang on how they came."""
    if len({row.time for row in rows}) < len(rows):
        return sorted(rows, key=lambda row: (row.time, repr(row.raw)))
    return sorted(rows, key=lambda row: row.time)


def _among(time: int, seen: list[int]) -> bool:
    at = bisect_left(seen, time)
    return at < len(seen) and seen[at] == time


def _shown(detector: Detector, field: str) -> Any:
    value = getattr(detector, field)
    if field in ("model", "policy"):
        return type(value).__name__, value.spec()
    return np.asarray(value.table).tolist() if field == "hazard" else value
