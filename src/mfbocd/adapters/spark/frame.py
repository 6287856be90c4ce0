"""Spark frames: columns and types that are read, and the rows of the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from ...io.config import Config
from .cache import Cache
from .rows import NO_TIME, OutputRow
from .worker import Job, Observers

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

OWN = ("tick", "fidelity", "x", "cost", "mean", "p_change", "alarm", "changed_at", "confidence", "problem")
"""Columns of the result, after the columns of the key and the time."""

Readings = str | Mapping[str, str] | None
Ahead = timedelta | int | Literal["auto"] | None
DAY = timedelta(days=1)
"""How far "auto" allows a timestamp to lie ahead of the clock."""
EPOCH = "timestamp_ntz'1970-01-01 00:00:00'"


def steps(result: DataFrame) -> DataFrame:
    """Return the rows of a result that are steps of detectors.

    Parameters
    ----------
    result : DataFrame
        The result of `detect_stream` or `detect_batch`.

    Returns
    -------
    DataFrame
        The steps, without the column ``problem``.
    """
    return result.where("problem IS NULL").drop("problem", "record")


def problems(result: DataFrame) -> DataFrame:
    """Return the rows of a result that came late or that no detector could use.

    Parameters
    ----------
    result : DataFrame
        The result of `detect_stream` or `detect_batch`.

    Returns
    -------
    DataFrame
        The key, the time, and the ``problem``.
    """
    keep = [name for name in result.columns if name not in (*OWN, "record") or name == "problem"]
    return result.where("problem IS NOT NULL").select(*keep)


def job_of(
    df: DataFrame,
    key: str,
    time: str,
    readings: Readings,
    config: Config,
    observers: Observers | Callable[[], Observers] | None,
    cache: Cache | None,
    keys: Iterable[Any] | None,
    max_ahead: Ahead,
    *,
    shared: bool,
) -> tuple[Job, DataFrame]:
    """Return what the workers need to know, and the columns they read.

    Parameters
    ----------
    df : DataFrame
        The frame.
    key : str
        Column of the stream's key.
    time : str
        Column of the time.
    readings : str or Mapping[str, str] or None
        Column of the raw payload, or columns of the readings by fidelity.
    config : Config
        The configuration.
    observers : Observers or Callable[[], Observers] or None
        Functions that observe the payload.
    cache : Cache or None
        Cache of readings.
    keys : Iterable[Any] or None
        Expected keys.
    max_ahead : timedelta or int or str or None
        How far ahead a time may lie.
    shared : bool
        Whether the streams share a budget.

    Returns
    -------
    tuple[Job, DataFrame]
        The job, and the frame that the workers read.

    Raises
    ------
    ValueError
        If the arguments do not fit the frame.
    TypeError
        If `config` or `max_ahead` has the wrong type.
    """
    if not isinstance(config, Config):
        raise TypeError(f"config must be a mfbocd.io.config.Config, not {config!r}")
    names = [f.name for f in config.fidelities if f.zeta > 0.0] or ["full"]
    columns: tuple[str, ...] | None = None
    if isinstance(readings, str):
        places = [readings]
        if observers is None and len(config.fidelities) > 1:
            raise ValueError(f"readings is one column, {readings!r}: observers must read {', '.join(names)} from it")
    else:
        if observers is not None or cache is not None:
            what = "observers" if observers is not None else "cache"
            raise ValueError(f"{what} is for a raw payload: readings must name its column, not {readings!r}")
        given = {f.name: f.column for f in config.fidelities} if readings is None else dict(readings)
        for name in given:
            if name not in [*(f.name for f in config.fidelities), *names]:
                raise ValueError(f"readings names {name!r}, which is none of {', '.join(names)}")
        for name in names:
            if name not in given:
                raise ValueError(f"readings must say in which column {name!r} stands")
        columns = tuple(names)
        places = [given[name] for name in names]
    for field, column in (("key", key), ("time", time), *(("readings", place) for place in places)):
        if column not in df.columns:
            raise ValueError(f"{field} must name a column of the frame, {', '.join(df.columns)}, not {column!r}")
    for field, column in (("key", key), ("time", time)):
        if column in (*OWN, "record"):
            raise ValueError(
                f"{field} must not have the name of a column of the result, as {column!r} does: rename it"
            )
    if df.schema[key].dataType.typeName() in ("struct", "array", "map", "variant"):
        raise ValueError(
            f"key must be a column of single values, but {key!r} is {df.schema[key].dataType.simpleString()}"
        )
    if df.schema[places[0]].dataType.typeName() == "map":
        raise ValueError(f"readings must not be a map, as {places[0]!r} is: make it a struct or a text")
    raw = [df[place] for place in places]
    if observers is None:
        several = config.detector(shared=True).model.dimension > 1
        raw = [_number(df, place, several) for place in places]
    ahead = _ahead(df, time, max_ahead)
    job = Job(
        token=uuid4().hex,
        config=config.to_dict(),
        columns=columns,
        observers={} if observers is None else observers,
        cache=cache,
        keys=None if keys is None else frozenset(keys),
        shared=shared,
        max_ahead=ahead if isinstance(ahead, int) else None,
    )
    return job, _taken(df, key, time, raw, ahead if isinstance(ahead, timedelta) else None)


def _number(df: DataFrame, place: str, several: bool) -> Column:
    """Return a column of readings as doubles; ValueError if it does not contain numbers."""
    from pyspark.sql.types import ArrayType, BooleanType, DoubleType, FloatType, IntegralType

    kind = df.schema[place].dataType
    of: DataType | None = kind
    if several:
        of = kind.elementType if isinstance(kind, ArrayType) else None
    if not isinstance(of, (IntegralType, FloatType, DoubleType, BooleanType)):
        wanted = "arrays of numbers" if several else "numbers"
        cast = "array<double>" if several else "double"
        raise ValueError(
            f"readings must be {wanted} (tinyint, smallint, int, bigint, float, double or boolean), "
            f"but {place!r} is {kind.simpleString()}: cast it, such as col({place!r}).try_cast({cast!r}), "
            "and drop or report what becomes null"
        )
    return df[place].cast("array<double>" if several else "double")


def _ahead(df: DataFrame, time: str, given: Ahead) -> timedelta | int | None:
    """Return how far ahead a time may lie: of the clock for timestamps, of the previous time for integers."""
    from pyspark.sql.types import IntegralType, TimestampNTZType, TimestampType

    kind = df.schema[time].dataType
    if not isinstance(kind, (IntegralType, TimestampType, TimestampNTZType)):
        raise ValueError(
            f"time must be a column of whole numbers or timestamps, but {time!r} is {kind.simpleString()}"
        )
    whole = isinstance(kind, IntegralType)
    if given == "auto":
        return None if whole else DAY
    if given is None:
        return None
    if whole and isinstance(given, int) and not isinstance(given, bool):
        positive = given > 0
    elif not whole and isinstance(given, timedelta):
        positive = given > timedelta(0)
    else:
        wanted = "a whole number" if whole else "a datetime.timedelta"
        raise TypeError(f"max_ahead must be {wanted} or None, as {time!r} is {kind.simpleString()}, not {given!r}")
    if not positive:
        raise ValueError(f"max_ahead must be positive, not {given!r}")
    return given


def _taken(df: DataFrame, key: str, time: str, raw: list[Column], ahead: timedelta | None) -> DataFrame:
    """Return the columns a worker reads: key, time as an integer, raw_0, raw_1, ..., and the problem if any."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import TimestampNTZType, TimestampType

    kind = df.schema[time].dataType
    if isinstance(kind, TimestampType):
        at = sql.unix_micros(df[time])
    elif isinstance(kind, TimestampNTZType):
        # as if in UTC: the session's zone would shift an hour of spring onto the next
        at = sql.unix_micros(sql.concat(df[time].cast("string"), sql.lit("Z")).cast("timestamp"))
    else:
        at = df[time].cast("long")
    rejected = sql.lit(None).cast("string")
    if ahead is not None:
        # Spark notes a micro-batch's clock with its offsets, so a replay compares with the same
        most = sql.unix_micros(sql.current_timestamp()) + sql.lit(ahead // timedelta(microseconds=1))
        rejected = sql.when(at > most, sql.lit(f"ahead: more than max_ahead = {ahead} after the clock"))
    parsed = df.sparkSession.conf.get("spark.sql.columnNameOfCorruptRecord")
    if parsed in df.columns:
        damaged = sql.concat(sql.lit("not of the schema: "), sql.substring(df[parsed].cast("string"), 1, 200))
        rejected = sql.when(df[parsed].isNotNull(), damaged).otherwise(rejected)
    return df.select(
        df[key].alias("key"),
        sql.coalesce(at, sql.lit(NO_TIME)).alias("time"),
        *(column.alias(f"raw_{i}") for i, column in enumerate(raw)),
        rejected.alias("rejected"),
    )


def inner_schema(df: DataFrame, key: str, config: Config) -> StructType:
    """Return the schema of the rows that a worker returns.

    Parameters
    ----------
    df : DataFrame
        The frame.
    key : str
        Column of the stream's key.
    config : Config
        The configuration.

    Returns
    -------
    StructType
        The schema.
    """
    from pyspark.sql.types import ArrayType, BooleanType, DoubleType, LongType, StringType, StructType

    reading: DataType = DoubleType()
    if config.detector(shared=True).model.dimension > 1:
        reading = ArrayType(DoubleType())
    schema = StructType().add("key", df.schema[key].dataType).add("time", LongType())
    kinds: dict[str, DataType] = {"x": reading, "mean": reading, "alarm": BooleanType()}
    kinds |= {name: LongType() for name in ("tick", "changed_at")}
    kinds |= {name: StringType() for name in ("fidelity", "problem")}
    for name in OWN:
        schema = schema.add(name, kinds.get(name, DoubleType()))
    return schema


def values(row: OutputRow) -> tuple[Any, ...]:
    """Return one row of the result, in the order of `inner_schema`.

    Parameters
    ----------
    row : OutputRow
        A worker's step or problem.

    Returns
    -------
    tuple[Any, ...]
        The row.
    """
    step = row.step
    if step is None:
        return (row.key, row.time, *(None,) * (len(OWN) - 1), row.problem)
    seen = (step.tick, step.fidelity, step.x, step.cost, step.mean, step.p_change)
    return (row.key, row.time, *seen, step.alarm, step.changed_at, step.confidence, None)


def named(result: DataFrame, df: DataFrame, key: str, time: str) -> DataFrame:
    """Return the result with the original names of the key and the time, and the original type of the time.

    Parameters
    ----------
    result : DataFrame
        The workers' rows.
    df : DataFrame
        The frame.
    key : str
        Column of the stream's key.
    time : str
        Column of the time.

    Returns
    -------
    DataFrame
        The result.
    """
    from pyspark.sql import functions as sql
    from pyspark.sql.types import TimestampNTZType, TimestampType

    kind = df.schema[time].dataType
    if isinstance(kind, TimestampNTZType):
        at = sql.expr(f"timestampadd(MICROSECOND, time, {EPOCH})")
    else:
        at = sql.timestamp_micros("time") if isinstance(kind, TimestampType) else sql.col("time").cast(kind)
    more = [name for name in result.columns if name == "record"]
    return result.select(sql.col("key").alias(key), at.alias(time), *OWN, *more)


def plain(raw: Any) -> Any:
    """Return a payload in the same form for every Spark API: structs as dicts, arrays as lists, empty cells as None.

    Parameters
    ----------
    raw : Any
        The payload.

    Returns
    -------
    Any
        The plain payload.
    """
    from pyspark.sql import Row

    if isinstance(raw, Row):
        return plain(raw.asDict())
    if isinstance(raw, dict):
        return {name: plain(value) for name, value in raw.items()}
    if hasattr(raw, "tolist"):
        raw = raw.tolist()
    return [plain(value) for value in raw] if isinstance(raw, list) else raw
