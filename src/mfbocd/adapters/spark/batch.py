"""Finished streams: the same rows from a batch frame."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ...io.config import Config
from .cache import Cache
from .frame import OWN, Ahead, Readings, inner_schema, job_of, named, plain, values
from .worker import InputRow, Observers, get_worker

if TYPE_CHECKING:
    import pandas as pd
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

    Returns
    -------
    DataFrame
        The columns of `detect_stream`.

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

    def follow(named_by: tuple[Any, ...], frame: pd.DataFrame) -> pd.DataFrame:
        import pandas as pd

        raws = [frame[f"raw_{i}"].tolist() for i in range(len(job.columns or "1"))]
        payloads = zip(*raws, strict=True) if job.columns else map(plain, raws[0])
        rejected = frame["rejected"].astype(object).where(frame["rejected"].notna(), None).tolist()
        rows = [InputRow(*row) for row in zip(frame["time"].tolist(), payloads, rejected, strict=True)]
        name = named_by[0]
        name = name.item() if hasattr(name, "item") else name
        result, _ = get_worker(job).process(None if name != name else name, rows, None)
        frame_out = pd.DataFrame([values(row) for row in result], columns=["key", "time", *OWN], dtype=object)
        return frame_out.where(frame_out.notna(), None) if frame_out.size else frame_out

    return named(rows_in.groupBy("key").applyInPandas(follow, inner_schema(df, key, config)), df, key, time)
