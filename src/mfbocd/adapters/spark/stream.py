"""Unbounded streams: one detector per key in the state of a Structured Streaming query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql import functions as sql
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import ArrayType, StructType

from ...inputs.arguments import whole
from ...io.config import Config
from .cache import Cache
from .frame import OWN, Ahead, Readings, inner_schema, job_of, named, plain, values
from .group import GroupBudget, price_of
from .java import NO_DATA, PROVIDER, ROCKSDB
from .rows import InputRow
from .state import STATE
from .worker import Job, Observers, get_worker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COLUMNS = Row("key", "time", *OWN)
_TOGETHER = 1024
"""Rows of the result that go to Spark as one row of arrays: pyspark takes longer for a row than a detector does."""
_STREAMS = 256
"""Streams that are advanced together at most: each takes some 20 kB of memory then."""
BUCKETS = 256
"""Default number of buckets."""


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
    ttl: timedelta | None = None,
    buckets: int = BUCKETS,
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
        each keeps its own seed. With a column ``record``, as in `states` and `final_states`, the last times are
        continued too, so that rows which were applied before are skipped. None by default.
    max_ahead : timedelta or int or "auto" or None
        Rows further ahead are reported, so that one wrong clock does not make all later rows late. For timestamps, a
        `datetime.timedelta` ahead of the clock at the start of the micro-batch; "auto" is one day. For integers,
        whose unit is unknown, an integer ahead of the stream's last time; "auto" is no limit. After a longer gap,
        restart the query with a larger limit. None is no limit.
    ttl : timedelta or None
        How long a stream is remembered after its last row, on the clock of the micro-batches; a row after that
        begins a new stream. None by default: for ever.
    buckets : int
        Number of groups of streams. Spark calls Python once per bucket and micro-batch instead of once per stream.
        Use at least 8 per shuffle partition; 100 streams or more per bucket leave little overhead. It is fixed by
        the first run of a checkpoint. 256 by default.

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
    whole("", "buckets", buckets, 1)
    if ttl is not None and (not isinstance(ttl, timedelta) or ttl <= timedelta(0)):
        raise ValueError(f"ttl must be a positive datetime.timedelta or None, not {ttl!r}")
    if ttl is not None and spark.conf.get(NO_DATA) != "false":
        raise ValueError(
            f"{NO_DATA} must be false with ttl, or Spark runs empty micro-batches without end: "
            "use mfbocd.adapters.spark.session, or set it"
        )
    if group is not None:
        group.check(config)
    shared = group is not None
    job, rows = job_of(df, key, time, readings, config, observers, cache, keys, max_ahead, shared=shared)
    rows = _in_buckets(rows, buckets)
    begin = None
    if start is not None:
        for name in (key, "state"):
            if name not in start.columns:
                raise ValueError(f"start must have the columns {key} and state, but has {', '.join(start.columns)}")
        state = "record" if "record" in start.columns else "state"
        saved = start.select(start[key].cast(rows.schema["key"].dataType).alias("key"), start[state].alias("state"))
        begin = _in_buckets(saved, buckets).groupBy("bucket")
    kind = StructType().add("key", rows.schema["key"].dataType)
    schema = inner_schema(df, key, config)
    arrays = StructType()
    for field in schema:
        arrays = arrays.add(field.name, ArrayType(field.dataType))
    result = rows.groupBy("bucket").transformWithState(
        statefulProcessor=Follower(
            job,
            kind,
            buckets,
            None if ttl is None else ttl // timedelta(milliseconds=1),
            None if group is None else group.setting,
        ),
        outputStructType=arrays,
        outputMode="Append",
        timeMode="None" if ttl is None else "ProcessingTime",
        initialState=begin,
    )
    return named(result.select(sql.inline(sql.arrays_zip(*schema.names))), df, key, time)


def _in_buckets(rows: DataFrame, buckets: int) -> DataFrame:
    """Add the bucket of each row's key."""
    return rows.withColumn("bucket", sql.pmod(sql.xxhash64("key"), sql.lit(buckets)).cast("int"))


def _layout(buckets: int) -> str:
    """Return the schema of a variable that is never written, for Spark to refuse another number of buckets.

    With another number, streams would be looked for in the wrong place and begin anew. Spark compares the types of
    variables with those of the checkpoint before it runs anything. Here they are the digits of the number; the name,
    which is not compared, shows the number in Spark's error.
    """
    names = (f"buckets_{buckets}", "digit_1", "digit_2")
    return ", ".join(f"{name} DECIMAL({buckets // 38**i % 38 + 1}, 0)" for i, name in enumerate(names))


class Follower(StatefulProcessor):
    """The stateful operator: for the streams of a bucket, reads the records, processes the rows, writes the records.

    Parameters
    ----------
    job : Job
        What the workers need to know.
    key : StructType
        The type of the key, as a schema with the column ``key``.
    buckets : int
        Number of buckets.
    ttl : int or None
        Milliseconds after which the state of a silent stream is removed.
    price : str or None
        The setting with the price of a group.
    """

    def __init__(self, job: Job, key: StructType, buckets: int, ttl: int | None, price: str | None) -> None:
        self.job, self.key, self.buckets, self.ttl, self.price = job, key, buckets, ttl, price
        self._records: Any = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state: the records of the streams of a bucket by key."""
        self._records = handle.getMapState(STATE, self.key, "record BINARY", self.ttl)
        handle.getValueState("layout", _layout(self.buckets))

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802 (Spark's name)
        """Process all rows of the streams of one bucket in this micro-batch."""
        columns = self.job.columns
        given: dict[Any, list[InputRow]] = {}
        for row in rows:
            if not given:
                fields = row.__fields__
                names = ("key", "time", "raw_0", "rejected")
                who, at, first, rejected = (fields.index(name) for name in names)
                last = first + len(columns or "1")
            cells = tuple(row)  # a Row is slower to index
            raw = cells[first:last] if columns else plain(cells[first])
            given.setdefault(cells[who], []).append(InputRow(cells[at], raw, cells[rejected]))
        worker = get_worker(self.job)
        price = None if self.price is None else price_of(self.price)
        result: list[tuple[Any, ...]] = []
        keys = list(given)
        for i in range(0, len(keys), _STREAMS):
            some = keys[i : i + _STREAMS]
            streams = [(name, given[name], self._saved(name)) for name in some]
            for name, (found, record) in zip(some, worker.process_many(streams, price), strict=True):
                if record is not None:
                    self._records.updateValue((name,), (record,))
                result += map(values, found)
        parts = (result[i : i + _TOGETHER] for i in range(0, len(result), _TOGETHER))
        return (_COLUMNS(*zip(*part, strict=True)) for part in parts)

    def _saved(self, name: Any) -> bytes | None:
        """Return the record of a stream."""
        kept = None if name is None else self._records.getValue((name,))
        return None if kept is None else bytes(kept[0])

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802
        """Store a detector that the query continues from."""
        self._records.updateValue((initialState["key"],), (bytes(initialState["state"]),))

    def close(self) -> None:
        """Do nothing: the operator keeps no resources."""
