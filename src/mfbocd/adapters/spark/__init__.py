"""Detectors on Apache Spark, one per key, with state that Spark keeps and restores (extra ``spark``).

`detect_stream` processes a stream of Structured Streaming and `detect_batch` a finished frame; both return the same
rows. `session` starts a suitable Spark session, and reports what is missing otherwise. docs/spark.md explains
settings, state and restarts.
"""

from __future__ import annotations

try:
    import google.protobuf  # type: ignore[import-untyped]  # noqa: F401
    import pandas  # noqa: F401 (both are what Spark asks for only once a query runs)
    import pyarrow  # noqa: F401
    import pyspark  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"mfbocd.adapters.spark needs pyspark, pandas, pyarrow and protobuf, but {error}: pip install 'mfbocd[spark]'"
    ) from error

from .batch import detect_batch
from .cache import Cache, CacheError, FolderCache
from .frame import problems, steps
from .group import GroupBudget
from .java import check_pandas, session
from .state import final_states, states
from .stream import detect_stream
from .worker import stream_seed

check_pandas()

__all__ = [
    "Cache",
    "CacheError",
    "FolderCache",
    "GroupBudget",
    "detect_batch",
    "detect_stream",
    "final_states",
    "problems",
    "session",
    "states",
    "steps",
    "stream_seed",
]
