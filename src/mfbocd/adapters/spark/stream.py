"""Unbounded streams: one detector per key in the state of a Structured Streaming query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from ...io.config import Config
from .cache import Cache
from .frame import OWN, Ahead, Readings, inner_schema, job_of, named, plain, values
from .group import GroupBudget, Prices
from .java import PROVIDER, ROCKSDB
from .worker import InputRow, Job, Observers, get_worker

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
    """Run one detector per stream of a streaming frame, and return a frame of steps and problems.

    Within a micro-batch the rows of a stream are processed in the order of their times. A row that was applied before
    is skipped. A row that differs from the one applied at its time, that comes after a later one was applied, or that
    lies too far ahead is reported and not applied. A row that no detector can use (an empty key or time, an unknown
    key, a reading out of the model's range, a NaN if the configuration says ``missing = "raise"``, a record that
    Spark could not parse) is reported and changes nothing. `steps` and `problems` separate the two kinds of rows.

    Every stream has its own seed, `stream_seed` of the configuration's seed and the key.

    Parameters
    ----------
    df : DataFrame
        A streaming frame, of ``spark.readStream``.
    key : str
        Column that identifies the stream of a row.
    time : str
        Column of integers or timestamps; it orders the rows, and each row is one tick.
    readings : str or Mapping[str, str] or None
        Column of the raw payload, which `observers` read; or the column of each fidelity's readings (numbers or
        arrays of numbers) by the fidelity's name. None uses the columns in the configuration.
    config : Config
        Configuration of every stream's detector.
    observers : Observers or Callable[[], Observers] or None
        For a raw payload, a function of it by fidelity; or a function that returns these, called once per worker
        process, so that a network is loaded once. None by default.
    cache : Cache or None
        Keeps a replayed micro-batch from paying for a reading again; if it fails, the query stops. None by default.
    group : GroupBudget or None
        One budget, with one price, for all streams together. None by default: every stream has its own.
    keys : Iterable[Any] or None
        The expected streams; any by default.
    start : DataFrame or None
        Detectors to continue from: a frame with the key's column and ``state``, the bytes of `Detector.to_bytes`;
        each keeps its own seed. None by default.
    max_ahead : timedelta or int or "auto" or None
        Rows further ahead are reported, so that one wrong clock does not make all later rows late. For timestamps, a
        `datetime.timedelta` ahead of the clock at the start of the micro-batch; "auto" is one day. For integers,
        whose unit is unknown, an integer ahead of the stream's last time; "auto" is no limit. After a longer gap,
        restart the query with a larger limit. None is no limit.

    Returns
    -------
    DataFrame
        The columns of the key and the time; ``tick``, ``fidelity``, ``x``, ``cost``, ``mean``, ``p_change``,
        ``alarm``, ``changed_at`` and ``confidence`` as in `mfbocd.Step`; and ``problem``.

    Raises
    ------
    ValueError
        If the frame is not streaming, Spark's state store is not RocksDB, or an argument does not fit the frame.
    TypeError
        If `config` or `max_ahead` has the wrong type.
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
    result = rows.groupBy("key").transformWithState(
        statefulProcessor=Follower(job, None if group is None else group.prices),
        outputStructType=inner_schema(df, key, config),
        outputMode="Append",
        timeMode="None",
        initialState=begin,
    )
    return named(result, df, key, time)


class Follower(StatefulProcessor):
    """The stateful operator: reads a stream's record, processes its rows, and writes the record back.

    Parameters
    ----------
    job : Job
        What the workers need to know.
    prices : Prices or None
        The prices of a group.
    """

    def __init__(self, job: Job, prices: Prices | None) -> None:
        self.job = job
        self.prices = prices
        self._record: Any = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state: one value of bytes per stream."""
        self._record = handle.getValueState("record", "record BINARY")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802 (Spark's name)
        """Process all rows of one stream in this micro-batch."""
        worker = get_worker(self.job)
        given: list[InputRow] = []
        for row in rows:
            if not given:
                at = row.__fields__.index("time")
                first = row.__fields__.index("raw_0")
                rejected = row.__fields__.index("rejected")
            raw = row[first : first + len(self.job.columns)] if self.job.columns else plain(row[first])
            given.append(InputRow(row[at], raw, row[rejected]))
        kept = self._record.get()
        price = None if self.prices is None else self.prices.of(_batch())
        result, record = worker.process(key[0], given, None if kept is None else bytes(kept[0]), price)
        if record is not None:
            self._record.update((record,))
        return iter([_ROW(*values(row)) for row in result])

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802
        """Store a detector that the query continues from."""
        self._record.update((bytes(initialState["state"]),))

    def close(self) -> None:
        """Do nothing: the operator keeps no resources."""


def _batch() -> int:
    context = TaskContext.get()
    batch = None if context is None else context.getLocalProperty("streaming.sql.batchId")
    if batch is None:
        raise RuntimeError("Spark does not provide the number of the micro-batch, which a group's price depends on")
    return int(batch)
