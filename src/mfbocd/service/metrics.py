"""Metrics in the text format of Prometheus."""

from __future__ import annotations

import time
from collections.abc import Mapping

from .. import __version__
from .service import Service


def render(service: Service, totals: Mapping[str, float]) -> str:
    """All metrics; `totals` are those of the store, the others count since the start of this process."""
    engine = service.engine
    rows = [
        ("mfbocd_streams", "gauge", "Streams in the store.", totals["streams"]),
        ("mfbocd_ticks_total", "counter", "Ticks of all streams in the store.", totals["ticks"]),
        ("mfbocd_spent_total", "counter", "Cost of all readings of the streams in the store.", totals["spent"]),
        ("mfbocd_alarms_total", "counter", "Alarms of the streams in the store.", totals["alarms"]),
        ("mfbocd_worker_streams", "gauge", "Streams in the memory of this worker.", len(engine.cache.streams)),
        ("mfbocd_worker_steps_total", "counter", "Steps computed by this worker.", engine.steps),
        ("mfbocd_worker_repeats_total", "counter", "Repeated observations at this worker.", engine.repeats),
        ("mfbocd_worker_refusals_total", "counter", "Commands refused by this worker.", engine.refusals),
        ("mfbocd_worker_commits_total", "counter", "Transactions of this worker.", engine.commits),
        ("mfbocd_worker_waiting", "gauge", "Jobs in the queue of this worker.", service.writer.waiting()),
        ("mfbocd_worker_watchers", "gauge", "Open /events connections.", service.watching.total()),
        ("mfbocd_worker_uptime_seconds", "gauge", "Since the worker started.", time.time() - service.started),
    ]
    lines = [f'# TYPE mfbocd_info gauge\nmfbocd_info{{version="{__version__}"}} 1']
    lines += [f"# HELP {name} {text}\n# TYPE {name} {kind}\n{name} {value:.17g}" for name, kind, text, value in rows]
    return "\n".join(lines) + "\n"
