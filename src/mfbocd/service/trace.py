"""Steps of a stream as JSON Lines, CSV or Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import orjson

from .records import Event

COLUMNS = (
    *("tick", "fidelity", "x", "cost", "mean", "run_length", "p_change", "alarm", "changed_at", "confidence"),
    *("spent", "at"),
)

MEDIA = {
    "jsonl": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}
"""Media type of each format."""


def format_steps(events: Sequence[Event], form: str) -> bytes:
    """The steps in a format, a key of `MEDIA`.

    >>> step = '{"tick":0,"fidelity":"imu","x":1.5,"cost":1.0,"mean":1.2,"run_length":0,"p_change":0.0,'
    >>> step += '"alarm":false,"changed_at":null,"confidence":null,"spent":1.0,"at":0.0,"posterior":[[0,1.0]]}'
    >>> print(format_steps([Event("s", 0, 0.0, False, step)], "csv").decode())
    tick,fidelity,x,cost,mean,run_length,p_change,alarm,changed_at,confidence,spent,at
    0,imu,1.5,1.0,1.2,0,0.0,0,,,1.0,0.0
    """
    if form == "jsonl":
        return "".join(f"{event.step}\n" for event in events).encode()
    steps = [_flat(orjson.loads(event.step)) for event in events]
    return _csv(steps) if form == "csv" else _parquet(steps)


def _csv(steps: list[dict[str, Any]]) -> bytes:
    """CSV; a reading of several numbers has a column for each: x_0, x_1."""
    widths = {name: _width(steps, name) for name in ("x", "mean")}
    columns = _columns(steps)
    head = [part for name in columns for part in _column_names(name, widths.get(name, 0))]
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(head)
    for step in steps:
        row: list[Any] = []
        for name in columns:
            value = step.get(name)
            if widths.get(name):
                row += value if isinstance(value, list) else [value] * widths[name]
            elif isinstance(value, str):
                row.append(_escape(value))
            else:
                row.append(int(value) if isinstance(value, bool) else value)
        rows.writerow(row)
    return out.getvalue().encode()


def _flat(step: dict[str, Any]) -> dict[str, Any]:
    """A step with one field for the gain of each fidelity."""
    return step | {f"gain_{name}": gain for name, gain in (step.get("gains") or {}).items()}


def _columns(steps: list[dict[str, Any]]) -> tuple[str, ...]:
    """The columns. `outlier`, `price`, `limit` and the gains are only there if some step has them."""
    found = dict.fromkeys(name for step in steps for name in step if step[name] is not None)
    more = (name for name in found if name in ("outlier", "price", "limit") or name.startswith("gain_"))
    return (*COLUMNS, *more)


def _escape(value: str) -> str:
    """A string that no spreadsheet interprets as a formula."""
    return f"'{value}" if value[:1] in ("=", "+", "-", "@", "\t") else value


def _width(steps: list[dict[str, Any]], name: str) -> int:
    return max((len(step[name]) for step in steps if isinstance(step[name], list)), default=0)


def _column_names(name: str, width: int) -> list[str]:
    return [f"{name}_{i}" for i in range(width)] if width else [name]


def _parquet(steps: list[dict[str, Any]]) -> bytes:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ImportError("Parquet needs pyarrow: pip install 'mfbocd[table]'") from None
    float64, int64 = pa.float64(), pa.int64()
    kinds = {
        "tick": int64,
        "fidelity": pa.string(),
        "limit": pa.string(),
        "run_length": int64,
        "alarm": pa.bool_(),
        "changed_at": int64,
    }
    columns = {}
    for name in _columns(steps):
        several = name in ("x", "mean") and _width(steps, name) > 0
        kind = pa.list_(float64) if several else kinds.get(name, float64)
        columns[name] = pa.array([step.get(name) for step in steps], type=kind)
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()
