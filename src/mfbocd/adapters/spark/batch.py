"""Streams that have ended: the same rows from a finished frame."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ...io.config import Config
from .cache import Cache
from .frame import OWN, Ahead, Readings, inner_schema, job_of, named, plain, values
from .worker import Given, Observers, worker_of

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
    """Follow every stream of a finished frame from its first tick to its last; all else is as in `detect_stream`.

    Gives what the stream gives, row for row, if no row came late there nor in conflict with an earlier one: here all
    are put in order first. Each stream's rows are in the memory of one worker.
    """
    if df.isStreaming:
        raise ValueError("df must be a finished frame, of spark.read; detect_stream takes a streaming one")
    job, rows_in = job_of(df, key, time, readings, config, observers, cache, keys, max_ahead, shared=False)

    def follow(named_by: tuple[Any, ...], frame: pd.DataFrame) -> pd.DataFrame:
        import pandas as pd

        raws = [frame[f"raw_{i}"].tolist() for i in range(len(job.columns or "1"))]
        payloads = zip(*raws, strict=True) if job.columns else map(plain, raws[0])
        unfit = frame["unfit"].astype(object).where(frame["unfit"].notna(), None).tolist()
        rows = [Given(*row) for row in zip(frame["time"].tolist(), payloads, unfit, strict=True)]
        name = named_by[0]
        name = name.item() if hasattr(name, "item") else name
        told, _ = worker_of(job).follow(None if name != name else name, rows, None)
        answer = pd.DataFrame([values(row) for row in told], columns=["key", "time", *OWN], dtype=object)
        return answer.where(answer.notna(), None) if answer.size else answer

    return named(rows_in.groupBy("key").applyInPandas(follow, inner_schema(df, key, config)), df, key, time)
