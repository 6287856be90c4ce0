"""What a worker does with the rows of one stream: order them, refuse what is unfit, step the stream's detector."""

from __future__ import annotations

import copy
import hashlib
import zlib
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...belief.hazard import Learned
from ...belief.serialization import unpack as unpack_blob
from ...belief.state import fresh_state
from ...detector.detector import Detector
from ...detector.serialization import restore
from ...detector.step import Step, reading
from ...io.config import Config
from ...policy import Budget, Net
from .cache import Cache, CacheError
from .record import Record, pack, unpack

NO_TIME = -(2**63)
"""Stands for an empty time, so that a column of times is one of whole numbers to pandas too."""

Observers = Mapping[str, Callable[[Any], Any]]


class Given(NamedTuple):
    """One row of a stream."""

    time: int
    raw: Any
    """What the observers take; where fidelities have columns, their values in the order of `Job.columns`."""
    unfit: str | None = None
    """What was wrong with the row before it came here."""


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
    max_ahead: int | None = None
    """How far a time may lie ahead of the last one applied."""


_MET: dict[str, Worker] = {}


def worker_of(job: Job) -> Worker:
    """This process's worker for the job, made when it is first asked for."""
    if job.token not in _MET:
        _MET[job.token] = Worker(job)
    return _MET[job.token]


def stream_seed(seed: int, key: Any) -> int:
    """The seed of one stream's detector: the first 53 bits of SHA-256 of the config's seed, a slash and the key.

    The key is taken as text: a string as it is, a whole number in decimal, bytes in hexadecimal, a time in ISO
    format. So it is the same in every process and in either of `detect_stream` and `detect_batch`, and streams draw
    independently.

    >>> stream_seed(0, "press 7"), stream_seed(0, "press 8"), stream_seed(1, "press 7")
    (1690845835711661, 5828069422146447, 4164798791364914)
    """
    if isinstance(key, (bytes, bytearray)):
        text = key.hex()
    else:
        text = key.isoformat() if hasattr(key, "isoformat") else str(key)
    return int.from_bytes(hashlib.sha256(f"{seed}/{text}".encode()).digest()[:8]) >> 11


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
        self._rule: tuple[float | None, Net | None] = (None, None)

    def follow(
        self, key: Any, rows: list[Given], record: bytes | None, price: float | None = None
    ) -> tuple[list[Told], bytes | None]:
        """The answer to the rows of one stream, and its new record; None if it is as it was.

        Rows are taken in the order of their times. A time seen before is passed over if its row is the same; another
        row of that time, one before the last applied and not among the last remembered (late), one too far ahead and
        one that no detector can use are reported and change nothing.
        """
        known = self.job.keys
        empty = key is None or key != key
        if empty or (known is not None and key not in known):
            unknown = "the key is empty" if empty else f"the key {key!r} is none of those expected"
            return [Told(key, _time(row), None, row.unfit or unknown) for row in rows], None
        kept = None if record is None else unpack(record)
        detector = self._detector(key, kept, price)
        seen, marks = (list(kept.seen), list(kept.marks)) if kept else ([], [])
        told = []
        moved = False
        for row in _ordered(rows):
            step: Step | None = None
            why = row.unfit or self._unfit(row, seen, marks)
            if why is None:
                self._at = (key, row.time)
                try:
                    step = detector.step(row.raw)
                except CacheError:
                    raise
                # whatever an observer or the model makes of a poisoned payload: the other streams must go on
                except Exception as error:
                    why = f"{type(error).__name__}: {error}"
                else:
                    seen.append(row.time)
                    marks.append(_mark(row))
                    moved = True
            if step is not None or why:
                told.append(Told(key, _time(row), step, why))
        if not moved:
            return told, None
        kind = type(detector.policy).__name__
        return told, pack(self.digest, self.job.shared, kind, seen, marks, detector.to_bytes())

    def _unfit(self, row: Given, seen: list[int], marks: list[int]) -> str | None:
        """Why a row cannot be applied: nothing to say ("") of one that was, None if it can."""
        if row.time == NO_TIME:
            return "the time is empty"
        if not seen:
            return None
        if row.time > seen[-1]:
            most = self.job.max_ahead
            if most is None or row.time - seen[-1] <= most:
                return None
            return f"ahead: {row.time - seen[-1]} after {seen[-1]}, more than max_ahead = {most}"
        at = bisect_left(seen, row.time)
        if at == len(seen) or seen[at] != row.time:
            return f"late: {seen[-1]} was seen before it"
        return "" if marks[at] == _mark(row) else "conflict: another row of this time was applied"

    def _detector(self, key: Any, kept: Record | None, price: float | None) -> Detector:
        """The stream's detector: a new one for each stream, so that nothing of another's can be left in it."""
        if kept is not None and kept.config is None:
            detector = Detector.from_bytes(kept.blob, observers=self.observers)
            self._match(detector)
            if price is not None:
                detector.policy = self._net(price)
            return detector
        detector = copy.copy(self.fresh)
        if price is not None:
            detector.policy = self._net(price)
        if kept is None:
            detector.seed = stream_seed(self.config.seed, key)
            detector._adopt(fresh_state(detector.model, detector._filter.setup, detector.seed), 0.0)
            return detector
        self._same(kept, detector)
        restore(detector, *unpack_blob(kept.blob))
        return detector

    def _same(self, kept: Record, detector: Detector) -> None:
        """Refuse a record that was written under other conditions."""
        if kept.config != self.digest:
            raise ValueError(
                "the checkpoint's streams were followed under another config: model, fidelities, hazard, policy, "
                "alarm and seed must be as they were. Use that config, or another checkpoint."
            )
        if kept.shared != self.job.shared:
            was, now = ("with", "without") if kept.shared else ("without", "with")
            raise ValueError(
                f"the checkpoint's streams were followed {was} a group's budget and cannot go on {now} one: "
                f"continue {was} it, or begin another checkpoint"
            )
        if kept.policy != type(detector.policy).__name__:
            raise ValueError(
                f"the checkpoint's streams were decided by {kept.policy}, not by {detector.policy!r}: "
                "begin another checkpoint"
            )

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
        """Refuse a saved detector that this config would not have made; only its seed may be its own."""
        for field in ("model", "fidelities", "alarm", "pruning", "missing", "on_error", "shadow", "policy", "hazard"):
            mine, theirs = _shown(self.fresh, field), _shown(detector, field)
            if mine != theirs and not (field == "policy" and self._replaced(detector)):
                raise ValueError(f"the saved detector has another {field} than the config: {theirs}, not {mine}")

    def _replaced(self, detector: Detector) -> bool:
        """Whether its policy is that of a stream in a group, which the group's price replaces."""
        policy = detector.policy
        return self.job.shared and isinstance(policy, Net) and policy.gain == self.fresh.policy.gain

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
            try:
                held = cache.get(stream, time, name)
            except Exception as error:
                raise CacheError(_failed(cache, "get", self._at, name, error)) from error
            if held is not None:
                return held[0]
            # what is no reading is this row's problem, and is not kept
            x = reading(self.fresh.model, observe(raw), self.config.missing)
            try:
                cache.put(stream, time, name, x)
            except Exception as error:
                raise CacheError(_failed(cache, "put", self._at, name, error)) from error
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
    """By time; of rows with the same time an order that does not depend on how they came."""
    if len({row.time for row in rows}) < len(rows):
        return sorted(rows, key=lambda row: (row.time, repr(_comparable(row.raw))))
    return sorted(rows, key=lambda row: row.time)


def _mark(row: Given) -> int:
    """Differs if the rows do (but for 1 in 2^32), the same in every process."""
    return zlib.crc32(repr(_comparable(row.raw)).encode())


def _comparable(raw: Any) -> Any:
    """Equal numbers and missing ones in one form."""
    if isinstance(raw, dict):
        return {name: _comparable(value) for name, value in raw.items()}
    if isinstance(raw, (list, tuple)):
        return [_comparable(value) for value in raw]
    if isinstance(raw, np.ndarray):
        return _comparable(raw.tolist())
    if isinstance(raw, (float, np.floating)):
        return None if raw != raw else float(raw) + 0.0  # 0.0 of -0.0 too
    return raw


def _time(row: Given) -> int | None:
    return None if row.time == NO_TIME else row.time


def _failed(cache: Cache, what: str, where: tuple[Any, int], fidelity: str, error: Exception) -> str:
    of = f"stream {where[0]!r}, time {where[1]}, fidelity {fidelity!r}"
    return f"{type(cache).__name__}.{what} failed for {of}: {type(error).__name__}: {error}"


def _shown(detector: Detector, field: str) -> Any:
    value = getattr(detector, field)
    if field in ("model", "policy"):
        return type(value).__name__, value.spec()
    if field == "hazard":
        return isinstance(value, Learned), np.asarray(value.table).tolist()
    return {name: guard.spec() for name, guard in value.items()} if field == "shadow" else value
