"""Processing of the rows of one stream in a worker: sort them, reject invalid ones, step the stream's detector."""

from __future__ import annotations

import copy
import hashlib
import sys
import zlib
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import numpy as np

from ...belief.hazard import Learned
from ...belief.serialization import contents, parse, split
from ...belief.state import fresh_state
from ...detector.detector import Detector
from ...detector.serialization import Serializer, restore
from ...detector.step import Step, checked_raw
from ...io.config import Config
from ...policy import Net
from ...policy.fidelity import same_readings
from .cache import Cache, CacheError
from .record import Record, pack, unpack

NO_TIME = -(2**63)
"""An empty time. A number instead of null, because pandas would turn a column with nulls into floats."""

Observers = Mapping[str, Callable[[Any], Any]]


try:
    VERSION = version("mfbocd")
except PackageNotFoundError:  # a checkout on the path
    VERSION = "of a checkout"


class InputRow(NamedTuple):
    """One row of a stream."""

    time: int
    raw: Any
    """The input of the observers; where fidelities have columns, their values in the order of `Job.columns`."""
    rejected: str | None = None
    """Why the row was rejected before it reached the worker."""


class OutputRow(NamedTuple):
    """One row of the result: a step, or the problem with an input row."""

    key: Any
    time: int | None
    step: Step | None
    problem: str | None


@dataclass(frozen=True)
class Job:
    """Everything that is sent to the workers."""

    token: str
    """Identifies the query, so that a worker process loads its networks only once."""
    config: dict[str, Any]
    columns: tuple[str, ...] | None
    """Fidelities that have a column of readings; None if there is a raw payload."""
    observers: Observers | Callable[[], Observers]
    cache: Cache | None = None
    keys: frozenset[Any] | None = None
    shared: bool = False
    """Whether all streams share a budget; the price then depends on the micro-batch."""
    max_ahead: int | None = None
    """How far a time may lie ahead of the last applied one."""
    version: str = VERSION
    """Version of mfbocd of the driver."""


_WORKERS: dict[str, Worker] = {}


def get_worker(job: Job) -> Worker:
    """Return the worker of this process for a job; create it on first use."""
    if job.token not in _WORKERS:
        _WORKERS[job.token] = Worker(job)
    return _WORKERS[job.token]


def stream_seed(seed: int, key: Any) -> int:
    """Return the seed of one stream: the first 53 bits of SHA-256 of the configuration's seed, a slash and the key.

    The seed is the same in every process, and in `detect_stream` and `detect_batch`. Streams draw independently.

    Parameters
    ----------
    seed : int
        Seed of the configuration.
    key : Any
        Key of the stream. It is used as text: a string as it is, an integer in decimal, bytes in hexadecimal, a time
        in ISO format.

    Returns
    -------
    int
        The seed, below 2**53.

    Examples
    --------
    >>> stream_seed(0, "press 7"), stream_seed(0, "press 8"), stream_seed(1, "press 7")
    (1690845835711661, 5828069422146447, 4164798791364914)
    """
    if isinstance(key, (bytes, bytearray)):
        text = key.hex()
    else:
        text = key.isoformat() if hasattr(key, "isoformat") else str(key)
    return int.from_bytes(hashlib.sha256(f"{seed}/{text}".encode()).digest()[:8]) >> 11


class Worker:
    """The configuration, the observers and a detector before its first tick; one per process and query."""

    def __init__(self, job: Job) -> None:
        if job.version != VERSION:
            raise RuntimeError(
                f"this worker has mfbocd {VERSION} in {sys.executable}, but the driver has {job.version}: "
                "install the same version everywhere, and set PYSPARK_PYTHON to the interpreter that has it"
            )
        self.job = job
        self.config = Config.parse(job.config)
        self.digest = self.config.digest()
        self._digests = self.digest, self.config.digest(costs=True)  # earlier versions included costs
        self._current: tuple[Any, int] = (None, NO_TIME)
        found = job.observers() if callable(job.observers) else job.observers
        if job.columns is None:
            _check(self.config, found)
            self.observers = {name: self._cached(name, observe) for name, observe in found.items()}
        else:
            self.observers = {name: _Column(i) for i, name in enumerate(job.columns)}
        self.fresh = self.config.detector(self.observers, shared=job.shared)
        self._rule: tuple[float | None, Net | None] = (None, None)
        self._parsed: dict[bytes, tuple[dict[str, Any], dict[str, Any]]] = {}
        self._serializer: tuple[Any, Serializer | None] = (None, None)

    def process(
        self, key: Any, rows: list[InputRow], saved: bytes | None, price: float | None = None
    ) -> tuple[list[OutputRow], bytes | None]:
        """Apply the rows of one stream in the order of their times.

        A row that was applied before is skipped. Reported without effect are: another row of a time that was applied,
        a late row (before the last applied time and not among the remembered ones), a row too far ahead, and a row
        that no detector can use.

        Parameters
        ----------
        key : Any
            Key of the stream.
        rows : list of InputRow
            Its rows in this micro-batch.
        saved : bytes or None
            The stream's record; None for a new stream.
        price : float or None
            Price of the micro-batch, if the streams share a budget.

        Returns
        -------
        tuple of list of OutputRow, and bytes or None
            The result, and the new record; None if it is unchanged.
        """
        expected = self.job.keys
        empty = key is None or key != key
        if empty or (expected is not None and key not in expected):
            unknown = "the key is empty" if empty else f"the key {key!r} is none of those expected"
            return [OutputRow(key, _time(row), None, row.rejected or unknown) for row in rows], None
        record = None if saved is None else unpack(saved)
        detector = self._detector(key, record, price)
        times, checksums = (list(record.times), list(record.checksums)) if record else ([], [])
        result = []
        changed = False
        for row in _ordered(rows):
            step: Step | None = None
            problem = row.rejected or self._problem(row, times, checksums)
            if problem is None:
                self._current = (key, row.time)
                try:
                    step = detector.step(row.raw)
                except CacheError:
                    raise
                # any error of an observer or the model concerns this row only: the other streams must continue
                except Exception as error:
                    problem = f"{type(error).__name__}: {error}"
                else:
                    times.append(row.time)
                    checksums.append(_checksum(row))
                    changed = True
            if step is not None or problem:
                result.append(OutputRow(key, _time(row), step, problem))
        if not changed:
            return result, None
        policy = type(detector.policy).__name__
        return result, pack(self.digest, self.job.shared, policy, times, checksums, self._saved(detector, price))

    def _problem(self, row: InputRow, times: list[int], checksums: list[int]) -> str | None:
        """Return why a row cannot be applied; None if it can, "" if it was applied before and is to be skipped."""
        if row.time == NO_TIME:
            return "the time is empty"
        if not times:
            return None
        if row.time > times[-1]:
            most = self.job.max_ahead
            if most is None or row.time - times[-1] <= most:
                return None
            return f"ahead: {row.time - times[-1]} after {times[-1]}, more than max_ahead = {most}"
        index = bisect_left(times, row.time)
        if index == len(times) or times[index] != row.time:
            return f"late: {times[-1]} was seen before it"
        return "" if checksums[index] == _checksum(row) else "conflict: another row of this time was applied"

    def _detector(self, key: Any, record: Record | None, price: float | None) -> Detector:
        """Return the stream's detector, which shares no state with that of another stream."""
        if record is not None and record.config is None:
            detector = Detector.from_bytes(record.state, observers=self.observers)
            self._check_detector(detector)
            if detector.fidelities != self.fresh.fidelities:  # other costs
                detector = detector.with_fidelities(self.fresh.fidelities)
            if price is not None:
                detector.policy = self._net(price)
            return detector
        detector = copy.copy(self.fresh)
        if price is not None:
            detector.policy = self._net(price)
        if record is None:
            detector.seed = stream_seed(self.config.seed, key)
            detector._adopt(fresh_state(detector.model, detector._filter.setup, detector.seed), 0.0)
            return detector
        self._check_record(record, detector)
        restore(detector, *self._contents(record.state))
        return detector

    def _contents(self, state: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what `belief.serialization.unpack` does; the text, which most streams share, is parsed once."""
        text, body = contents(state)
        if text not in self._parsed:
            if len(self._parsed) > 64:  # it has the price, where there is a group
                self._parsed.clear()
            self._parsed[text] = parse(text)
        facts, sizes = self._parsed[text]
        return facts, split(body, sizes)

    def _saved(self, detector: Detector, price: float | None) -> bytes:
        """Return `Detector.to_bytes`; what streams have in common is computed once."""
        if detector.shadow:  # the evidence of its guards is part of the configuration
            return detector.to_bytes()
        known, serializer = self._serializer
        if serializer is None or known != price:
            serializer = Serializer(detector)
            self._serializer = (price, serializer)
        return serializer.write(detector)

    def _check_record(self, record: Record, detector: Detector) -> None:
        """Refuse a record that was written with another configuration, group or policy."""
        if record.config not in self._digests:
            raise ValueError(
                "the checkpoint was written with another config: model, fidelities, hazard, policy, alarm and seed "
                "must not change, costs may. Use that config, or another checkpoint."
            )
        if record.shared != self.job.shared:
            was, now = ("with", "without") if record.shared else ("without", "with")
            raise ValueError(
                f"the checkpoint was written {was} a group's budget and cannot be continued {now} one: "
                f"continue {was} it, or use another checkpoint"
            )
        if record.policy != type(detector.policy).__name__:
            raise ValueError(
                f"the checkpoint was written with the policy {record.policy}, not {detector.policy!r}: "
                "use another checkpoint"
            )

    def _net(self, price: float) -> Net:
        """Return the policy of all streams of a micro-batch."""
        cached, rule = self._rule
        if rule is None or cached != price:
            gain = self.fresh.policy.gain
            assert gain is not None
            rule = Net(price, gain=gain).bind(self.fresh.fidelities)
            self._rule = (price, rule)
        return rule

    def _check_detector(self, detector: Detector) -> None:
        """Refuse a saved detector with another configuration; only its seed may differ."""
        for field in ("model", "fidelities", "alarm", "pruning", "missing", "on_error", "shadow", "policy", "hazard"):
            mine, theirs = _shown(self.fresh, field), _shown(detector, field)
            if field == "fidelities" and same_readings(detector.fidelities, self.fresh.fidelities):
                continue
            if mine != theirs and not (field == "policy" and self._replaced(detector)):
                raise ValueError(f"the saved detector has another {field} than the config: {theirs}, not {mine}")

    def _replaced(self, detector: Detector) -> bool:
        """Whether the policy is that of a stream in a group, which the price of the micro-batch replaces."""
        policy = detector.policy
        return self.job.shared and isinstance(policy, Net) and policy.gain == self.fresh.policy.gain

    def _cached(self, name: str, observe: Callable[[Any], Any]) -> Callable[[Any], Any]:
        cache = self.job.cache
        if cache is None:
            return observe

        def read(raw: Any) -> Any:
            stream, time = self._current
            try:
                found = cache.get(stream, time, name)
            except Exception as error:
                raise CacheError(_failed(cache, "get", self._current, name, error)) from error
            if found is not None:
                return found[0]
            # an invalid reading is a problem of this row, and is not cached
            x = checked_raw(self.fresh.model, observe(raw), self.config.missing, self.fresh._by_name[name])
            try:
                cache.put(stream, time, name, x)
            except Exception as error:
                raise CacheError(_failed(cache, "put", self._current, name, error)) from error
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
                f"observers[{name!r}] has a memory, which Spark cannot restore: read such a stream in "
                "process, or let the message carry what the observer must see"
            )


def _ordered(rows: list[InputRow]) -> list[InputRow]:
    """Sort by time; rows with the same time are sorted by content, so that their order of arrival does not matter."""
    if len({row.time for row in rows}) < len(rows):
        return sorted(rows, key=lambda row: (row.time, repr(_comparable(row.raw))))
    return sorted(rows, key=lambda row: row.time)


def _checksum(row: InputRow) -> int:
    """Return a checksum of the row's content, the same in every process."""
    return zlib.crc32(repr(_comparable(row.raw)).encode())


def _comparable(raw: Any) -> Any:
    """Bring equal numbers, and missing ones, into one form."""
    if type(raw) is float:  # by far the most frequent
        return None if raw != raw else raw + 0.0  # 0.0 of -0.0 too
    if isinstance(raw, dict):
        return {name: _comparable(value) for name, value in raw.items()}
    if isinstance(raw, (list, tuple)):
        return [_comparable(value) for value in raw]
    if isinstance(raw, np.ndarray):
        return _comparable(raw.tolist())
    return _comparable(float(raw)) if isinstance(raw, (float, np.floating)) else raw


def _time(row: InputRow) -> int | None:
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
