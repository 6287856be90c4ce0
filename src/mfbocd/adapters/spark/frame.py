"""Spark frames in and out: which columns are read, of what types, and what the answer's rows look like."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ...config import Config
from .cache import Cache
from .follow import NO_TIME, Job, Observers, Told

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

OWN = ("tick", "fidelity", "x", "cost", "mean", "p_change", "alarm", "changed_at", "confidence", "problem")
"""Columns of the answer, after the key and the time under their own names."""

Readings = str | Mapping[str, str] | None


def steps(answer: DataFrame) -> DataFrame:
    """The rows of an answer that are steps of detectors."""
    return answer.where("problem IS NULL").drop("problem")


def problems(answer: DataFrame) -> DataFrame:
    """The side output: rows that came late or that no detector could use, and why."""
    keep = [name for name in answer.columns if name not in OWN or name == "problem"]
    return answer.where("problem IS NOT NULL").select(*keep)


def job_of(
    df: DataFrame,
    key: str,
    time: str,
    readings: Readings,
    config: Config,
    observers: Observers | Callable[[], Observers] | None,
    cache: Cache | None,
    keys: Iterable[Any] | None,
    *,
    shared: bool,
) -> tuple[Job, list[str]]:
    """What the workers must know, and the frame's columns of readings; ValueError if the two do not fit."""
    if not isinstance(config, Config):
        raise TypeError(f"config must be a mfbocd.config.Config, not {config!r}")
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
        if column in OWN:
            raise ValueError(
                f"{field} must not bear the name of a column of the answer, as {column!r} does: rename it"
            )
    if df.schema[places[0]].dataType.typeName() == "map":
        raise ValueError(f"readings must not be a map, as {places[0]!r} is: make it a struct or a text")
    job = Job(
        token=uuid4().hex,
        config=config.to_dict(),
        columns=columns,
        observers={} if observers is None else observers,
        cache=cache,
        keys=None if keys is None else frozenset(keys),
        shared=shared,
    )
    return job, places


def taken(df: DataFrame, key: str, time: str, places: list[str]) -> DataFrame:
    """The columns a worker reads: key, time as a whole number, and readings as raw_0, raw_1, ..."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import IntegralType, TimestampType

    kind = df.schema[time].dataType
    if not isinstance(kind, (IntegralType, TimestampType)):
        raise ValueError(
            f"time must be a column of whole numbers or timestamps, but {time!r} is {kind.simpleString()}"
        )
    at = sql.unix_micros(df[time]) if isinstance(kind, TimestampType) else df[time].cast("long")
    return df.select(
        df[key].alias("key"),
        sql.coalesce(at, sql.lit(NO_TIME)).alias("time"),
        *(df[place].alias(f"raw_{i}") for i, place in enumerate(places)),
    )


def inner_schema(df: DataFrame, key: str, config: Config) -> StructType:
    """Of the rows a worker gives back."""
    from pyspark.sql.types import ArrayType, BooleanType, DataType, DoubleType, LongType, StringType, StructType

    reading: DataType = DoubleType()
    if config.detector().model.dimension > 1:
        reading = ArrayType(DoubleType())
    schema = StructType().add("key", df.schema[key].dataType).add("time", LongType())
    kinds: dict[str, DataType] = {"x": reading, "mean": reading, "alarm": BooleanType()}
    kinds |= {name: LongType() for name in ("tick", "changed_at")}
    kinds |= {name: StringType() for name in ("fidelity", "problem")}
    for name in OWN:
        schema = schema.add(name, kinds.get(name, DoubleType()))
    return schema


def values(told: Told) -> tuple[Any, ...]:
    """One row of the answer, in the order of `inner_schema`."""
    step = told.step
    if step is None:
        return (told.key, told.time, *(None,) * (len(OWN) - 1), told.problem)
    seen = (step.tick, step.fidelity, step.x, step.cost, step.mean, step.p_change)
    return (told.key, told.time, *seen, step.alarm, step.changed_at, step.confidence, None)


def named(answer: DataFrame, df: DataFrame, key: str, time: str) -> DataFrame:
    """The answer with the key's and the time's own names, and the time's own type."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import TimestampType

    kind = df.schema[time].dataType
    at = sql.timestamp_micros("time") if isinstance(kind, TimestampType) else sql.col("time").cast(kind)
    return answer.select(sql.col("key").alias(key), at.alias(time), *OWN)


def plain(raw: Any) -> Any:
    """A payload as it is whichever way Spark brings it: structs are dicts, arrays lists, an empty cell None."""
    from pyspark.sql import Row

    if isinstance(raw, Row):
        return raw.asDict(recursive=True)
    if hasattr(raw, "tolist"):
        return raw.tolist()
    return raw
