"""Processing of the rows of streams in a worker: restore the detectors, step them, and store them again."""

from __future__ import annotations

import copy
import gc
import hashlib
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import numpy as np

from ...belief.hazard import Learned
from ...belief.serialization import contents, parse, split
from ...belief.state import fresh_state
from ...detector.detector import Detector
from ...detector.observing import read
from ...detector.serialization import Serializer, restore
from ...detector.step import checked_raw
from ...fleet import Fleet
from ...io.config import Config
from ...policy import Fidelity, Net
from ...policy.fidelity import same_readings
from .bucket import advance_together, fleet_of
from .cache import Cache, CacheError
from .record import Record, pack, unpack
from .rows import NO_TIME, InputRow, OutputRow, StreamRows

Observers = Mapping[str, Callable[[Any], Any]]


try:
    VERSION = version("mfbocd")
except PackageNotFoundError:  # a checkout on the path
    VERSION = "of a checkout"


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
        # Modules and kernels stay until the process ends. Looking for garbage among them, whenever the rows of a few
        # buckets had been allocated, took a quarter of the time.
        gc.freeze()
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


class Prepared(NamedTuple):
    """What the streams of a micro-batch have in common."""

    price: float | None
    detector: Detector
    """A stream before its first tick."""
    serializer: Serializer
    fleet: Fleet | None
    """Advances many streams together, if that is possible."""


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
        self._current: tuple[Any, int] = (None, NO_TIME)
        found = job.observers() if callable(job.observers) else job.observers
        if job.columns is None:
            _check(self.config, found)
            self.observers = {name: self._cached(name, observe) for name, observe in found.items()}
        else:
            self.observers = {name: _Column(i) for i, name in enumerate(job.columns)}
        self.fresh = self.config.detector(self.observers, shared=job.shared)
        self._last: Prepared | None = None
        self._parsed: dict[bytes, tuple[dict[str, Any], dict[str, Any]]] = {}

    def process(
        self, key: Any, rows: list[InputRow], saved: bytes | None, price: float | None = None
    ) -> tuple[list[OutputRow], bytes | None]:
        """Apply the rows of one stream: `process_many` for one."""
        return self.process_many([(key, rows, saved)], price)[0]

    def process_many(
        self, given: Iterable[tuple[Any, list[InputRow], bytes | None]], price: float | None = None
    ) -> list[tuple[list[OutputRow], bytes | None]]:
        """Apply the rows of streams in the order of their times; `StreamRows` has the rules.

        Parameters
        ----------
        given : iterable of tuple
            For each stream its key, its rows in this micro-batch, and its record; None for a new stream.
        price : float or None
            Price of the micro-batch, if the streams share a budget.

        Returns
        -------
        list of tuple of list of OutputRow, and bytes or None
            For each stream the result, and the new record; None if it is unchanged.
        """
        prepared = self._prepared(price)
        streams, active = [], []
        for key, rows, saved in given:
            record = None if saved is None else unpack(saved)
            unknown = self._unknown(key)
            streams.append(StreamRows(key, rows, record, self.job.max_ahead, unknown))
            if unknown is None:
                active.append((streams[-1], self._detector(key, record, prepared)))
        if prepared.fleet is not None:
            advance_together(prepared.fleet, active, self._read)
        records = {}
        for stream, detector in active:
            while (row := stream.row) is not None:
                self._current = (stream.key, row.time)
                try:
                    step = detector.step(row.raw)
                except CacheError:
                    raise
                # any error of an observer or the model concerns this row only: the other streams must continue
                except Exception as error:
                    stream.failed(row, error)
                else:
                    stream.applied(row, step)
            if stream.changed:
                records[stream] = self._packed(stream, detector, prepared)
        return [(stream.result, records.get(stream)) for stream in streams]

    def _unknown(self, key: Any) -> str | None:
        """Return why no row of a stream can be used, if its key is the reason."""
        if key is None or key != key:
            return "the key is empty"
        expected = self.job.keys
        return None if expected is None or key in expected else f"the key {key!r} is none of those expected"

    def _read(self, stream: StreamRows, row: InputRow, fidelity: Fidelity) -> Any:
        """Return the checked reading of a row at a fidelity."""
        self._current = (stream.key, row.time)
        return read(self.fresh, fidelity, row.raw)

    def _prepared(self, price: float | None) -> Prepared:
        """Return what is computed once per price."""
        if self._last is None or self._last.price != price:
            detector = copy.copy(self.fresh)
            if price is not None:
                gain = self.fresh.policy.gain
                assert gain is not None
                detector.policy = Net(price, gain=gain).bind(self.fresh.fidelities)
            self._last = Prepared(price, detector, Serializer(detector), fleet_of(detector))
        return self._last

    def _detector(self, key: Any, record: Record | None, prepared: Prepared) -> Detector:
        """Return the stream's detector, which shares no state with that of another stream."""
        if record is not None and record.config is None:
            detector = Detector.from_bytes(record.state, observers=self.observers)
            self._check_detector(detector)
            if detector.fidelities != self.fresh.fidelities:  # other costs
                detector = detector.with_fidelities(self.fresh.fidelities)
            if prepared.price is not None:
                detector.policy = copy.copy(prepared.detector.policy)
            return detector
        detector = copy.copy(prepared.detector)
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

    def _packed(self, stream: StreamRows, detector: Detector, prepared: Prepared) -> bytes:
        """Return the record of a stream after its rows."""
        # With guards, the pairs that they have seen are part of the configuration.
        state = detector.to_bytes() if detector.shadow else prepared.serializer.write(detector)
        policy = type(detector.policy).__name__
        return pack(self.digest, self.job.shared, policy, stream.times, stream.checksums, state)

    def _check_record(self, record: Record, detector: Detector) -> None:
        """Refuse a record that was written with another configuration, group or policy."""
        if record.config != self.digest:
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
