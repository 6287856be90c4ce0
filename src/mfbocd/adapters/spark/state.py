"""The state of the streams outside Spark: as a frame of saved detectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .record import unpack

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STATE = "records"
"""Name of the state variable: the records by key."""


def states(checkpoint: str, key: str = "key", spark: SparkSession | None = None) -> DataFrame:
    """Return the detectors of a query of `detect_stream`, as of its last committed micro-batch.

    The query may be running. Pass the result as `start` to continue in a query with another checkpoint, or read
    single detectors with `Detector.from_bytes`.

    Parameters
    ----------
    checkpoint : str
        The checkpoint location of the query.
    key : str
        Name for the column of the key; "key" by default.
    spark : SparkSession or None
        The session; the active one by default.

    Returns
    -------
    DataFrame
        The key; ``state``, the bytes of `Detector.to_bytes`; and ``record``, the same with the last times.
    """
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as sql

    spark = spark or SparkSession.active()
    found = spark.read.format("statestore").option("stateVarName", STATE).load(str(checkpoint))
    value = "user_map_value"
    if "value" in found.schema[value].dataType.fieldNames():  # type: ignore[attr-defined]
        value += ".value"  # beside the time at which it expires
    return with_state(
        found.select(sql.col("user_map_key.key").alias(key), sql.col(f"{value}.record").alias("record"))
    )


def final_states(result: DataFrame) -> DataFrame:
    """Return the detectors after the last row of each stream, from a result of `detect_batch` with ``states=True``.

    Pass them as `start` to `detect_stream` to continue a backfill with live rows, or read single detectors with
    `Detector.from_bytes`.

    Parameters
    ----------
    result : DataFrame
        The result. Persist it if its steps are used too: it is computed for each use.

    Returns
    -------
    DataFrame
        The key; ``state``, the bytes of `Detector.to_bytes`; and ``record``, the same with the last times.

    Raises
    ------
    ValueError
        If the result has no states.
    """
    if "record" not in result.columns:
        raise ValueError("result must be that of detect_batch(..., states=True)")
    return with_state(result.where("record IS NOT NULL").select(result.columns[0], "record"))


def with_state(frame: DataFrame) -> DataFrame:
    """Return the columns of the key, the state, and the record that it is in."""
    from pyspark.sql import functions as sql

    state = sql.udf(lambda record: unpack(bytes(record)).state, "binary")  # Spark refuses annotations of bytes
    return frame.select(frame.columns[0], state("record").alias("state"), "record")
