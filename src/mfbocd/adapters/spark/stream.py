"""Streams that go on: one detector a key in the state of a Structured Streaming query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from ...io.config import Config
from .cache import Cache
from .frame import OWN, Ahead, Readings, inner_schema, job_of, named, plain, values
from .group import GroupBudget
from .java import PROVIDER, ROCKSDB
from .worker import Given, Job, Observers, worker_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROW = Row("key", "time", *OWN)


def detect_stream(
    df: DataFrame,
    key: str,
    time: str,
    readings: Readings,
    config: Config,
    observers: Observers | Callable[[], Observers] | None = None,
    *,
    cache: Cache | None = None,
    group: GroupBudget | None = None,
    keys: Iterable[Any] | None = None,
    start: DataFrame | None = None,
    max_ahead: Ahead = "auto",
) -> DataFrame:
    """Follow every stream of a streaming frame with a detector of its own; a frame of steps, and of problems.

    Within a micro-batch the rows of a stream are taken in the order of their times. A row that was applied before is
    passed over; one that differs from the row applied at its time is reported and not applied, as is one that comes
    after a later one was applied, or too far ahead. A row that no detector can use (an empty key or time, an unknown
    key, a reading out of the model's range, a NaN where the config says ``missing = "raise"``, a record that Spark
    could not parse) is reported and changes nothing. `steps` and `problems` separate the two.

    Every stream draws from a seed of its own, `stream_seed` of the config's seed and the key.

    Parameters
    ----------
    key: the column that says which stream a row is of.
    time: a column of whole numbers or timestamps; it orders the rows, and each row is one tick.
    readings: the column of the raw payload, which `observers` read; or by fidelity the column its readings stand in,
        a number (or an array of them); None where the config names those columns.
    config: what every stream's detector is made of.
    observers: for a raw payload, by fidelity a function of it; or a function that makes them, called once a worker
        process, which is how a network is loaded once.
    cache: keeps a replayed micro-batch from paying for a reading again. If it fails the query stops.
    group: one budget, with one price, for all streams together.
    keys: the streams that are expected; any by default.
    start: detectors to go on from, a frame with the key's column and ``state``, the bytes of `Detector.to_bytes`;
        each keeps its own seed.
    max_ahead: rows further ahead are reported, so that one wrong clock does not make all later rows late. For
        timestamps a `datetime.timedelta` ahead of the clock when the micro-batch began, "auto" is a day. For whole
        numbers, whose unit is not known, a whole number ahead of the stream's last time, "auto" is no limit; after a
        longer gap, start the query again with a larger one. None is no limit.

    The answer has the key's and the time's column, ``tick``, ``fidelity``, ``x``, ``cost``, ``mean``, ``p_change``,
    ``alarm``, ``changed_at``, ``confidence`` as in `mfbocd.Step`, and ``problem``.
    """
    if not df.isStreaming:
        raise ValueError("df must be a streaming frame, of spark.readStream; detect_batch takes a finished one")
    spark = df.sparkSession
    provider = spark.conf.get(PROVIDER)
    if provider != ROCKSDB:
        raise ValueError(
            f"{PROVIDER} must be {ROCKSDB}, not {provider}: use mfbocd.adapters.spark.session, or set it"
        )
    if group is not None:
        group.check(config)
    shared = group is not None
    job, rows = job_of(df, key, time, readings, config, observers, cache, keys, max_ahead, shared=shared)
    begin = None
    if start is not None:
        for name in (key, "state"):
            if name not in start.columns:
                raise ValueError(f"start must have the columns {key} and state, but has {', '.join(start.columns)}")
        begin = start.select(start[key].alias("key"), start["state"].alias("state")).groupBy("key")
    answer = rows.groupBy("key").transformWithState(
        statefulProcessor=Follower(job, None if group is None else group.folder),
        outputStructType=inner_schema(df, key, config),
        outputMode="Append",
        timeMode="None",
        initialState=begin,
    )
    return named(answer, df, key, time)


class Follower(StatefulProcessor):
    """The operator: reads a stream's record, follows its rows, writes the record back."""

    def __init__(self, job: Job, prices: str | None) -> None:
        self.job = job
        self.prices = prices
        self._record: Any = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        """One value of bytes a stream."""
        self._record = handle.getValueState("record", "record BINARY")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802 (Spark's name)
        """All rows of one stream in this micro-batch."""
        worker = worker_of(self.job)
        given: list[Given] = []
        for row in rows:
            if not given:
                at = row.__fields__.index("time")
                first = row.__fields__.index("raw_0")
                unfit = row.__fields__.index("unfit")
            raw = row[first : first + len(self.job.columns)] if self.job.columns else plain(row[first])
            given.append(Given(row[at], raw, row[unfit]))
        kept = self._record.get()
        price = None if self.prices is None else GroupBudget.price(self.prices, _batch(), worker.budget)
        told, record = worker.follow(key[0], given, None if kept is None else bytes(kept[0]), price)
        if record is not None:
            self._record.update((record,))
        return iter([_ROW(*values(row)) for row in told])

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802
        """A detector that came from elsewhere."""
        self._record.update((bytes(initialState["state"]),))

    def close(self) -> None:
        """Nothing is held."""


def _batch() -> int:
    context = TaskContext.get()
    told = None if context is None else context.getLocalProperty("streaming.sql.batchId")
    if told is None:
        raise RuntimeError("Spark does not tell the number of the micro-batch, which a group's price depends on")
    return int(told)
