"""Finished streams: the same rows from a batch frame."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from ...io.config import Config
from .cache import Cache
from .frame import Ahead, Readings, inner_schema, job_of, named, plain, values
from .rows import InputRow
from .worker import Observers, get_worker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def detect_batch(
    df: DataFrame,
    key: str,
    time: str,
    readings: Readings,
    config: Config,
    observers: Observers | Callable[[], Observers] | None = None,
    *,
    cache: Cache | None = None,
    keys: Iterable[Any] | None = None,
    max_ahead: Ahead = "auto",
    states: bool = False,
) -> DataFrame:
    """Run one detector per stream of a finished frame, from the first tick to the last.

    The result equals that of `detect_stream`, row for row, if there no row came late or in conflict with an earlier
    one: here all rows are sorted first. The rows of each stream must fit into the memory of one worker.

    Parameters
    ----------
    df : DataFrame
        A finished frame, of ``spark.read``.
    key : str
        Column that identifies the stream of a row.
    time : str
        Column of integers or timestamps; it orders the rows, and each row is one tick.
    readings : str or Mapping[str, str] or None
        Column of the raw payload, or columns of the readings by fidelity, as in `detect_stream`.
    config : Config
        Configuration of every stream's detector.
    observers : Observers or Callable[[], Observers] or None
        Functions that observe a raw payload, as in `detect_stream`; None by default.
    cache : Cache or None
        Keeps a repeated task from paying for a reading again; None by default.
    keys : Iterable[Any] or None
        The expected streams; any by default.
    max_ahead : timedelta or int or "auto" or None
        How far ahead a time may lie, as in `detect_stream`.
    states : bool
        Whether the last row of each stream also has its detector, for `final_states`; False by default.

    Returns
    -------
    DataFrame
        The columns of `detect_stream`; with `states` also ``record``.

    Raises
    ------
    ValueError
        If the frame is streaming, or an argument does not fit the frame.
    TypeError
        If `config` or `max_ahead` has the wrong type.
    """
    if df.isStreaming:
        raise ValueError("df must be a finished frame, of spark.read; detect_stream takes a streaming one")
    job, rows_in = job_of(df, key, time, readings, config, observers, cache, keys, max_ahead, shared=False)

    schema = inner_schema(df, key, config)
    if states:
        schema = schema.add("record", "binary")
    columns = to_arrow_schema(schema)

    def follow(named_by: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
        raws = [table[f"raw_{i}"].to_pylist() for i in range(len(job.columns or "1"))]
        payloads = zip(*raws, strict=True) if job.columns else map(plain, raws[0])
        cells = zip(table["time"].to_pylist(), payloads, table["rejected"].to_pylist(), strict=True)
        result, record = get_worker(job).process(named_by[0].as_py(), [InputRow(*row) for row in cells], None)
        rows = [values(row) for row in result]
        if states:
            rows = [(*row, record if i == len(rows) - 1 else None) for i, row in enumerate(rows)]
        found = zip(*rows, strict=True) if rows else [[]] * len(columns)
        return pa.table([pa.array(column, field.type) for column, field in zip(found, columns, strict=True)], columns)

    return named(rows_in.groupBy("key").applyInArrow(follow, schema), df, key, time)
