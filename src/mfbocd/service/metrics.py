"""Counts in the text format Prometheus reads."""

from __future__ import annotations

import time
from collections.abc import Mapping

from .. import __version__
from .service import Service


def written(service: Service, totals: Mapping[str, float]) -> str:
    """All metrics; what is counted here began with the process, the `totals` come from the store."""
    engine = service.engine
    rows = [
        ("mfbocd_streams", "gauge", "Streams in the store.", totals["streams"]),
        ("mfbocd_ticks_total", "counter", "Ticks of all streams in the store.", totals["ticks"]),
        ("mfbocd_spent_total", "counter", "Cost of all readings of the streams in the store.", totals["spent"]),
        ("mfbocd_alarms_total", "counter", "Alarms of the streams in the store.", totals["alarms"]),
        ("mfbocd_worker_streams", "gauge", "Streams this worker has in memory.", engine.held),
        ("mfbocd_worker_steps_total", "counter", "Steps this worker made.", engine.steps),
        ("mfbocd_worker_repeats_total", "counter", "Observations this worker was told again.", engine.repeats),
        ("mfbocd_worker_refusals_total", "counter", "Commands this worker refused.", engine.refusals),
        ("mfbocd_worker_commits_total", "counter", "Transactions of this worker.", engine.commits),
        ("mfbocd_worker_waiting", "gauge", "Jobs that wait for the writer.", service.writer.waiting()),
        ("mfbocd_worker_watchers", "gauge", "Open /events.", service.watching.total()),
        ("mfbocd_worker_uptime_seconds", "gauge", "Since the worker began.", time.time() - service.started),
    ]
    lines = [f'# TYPE mfbocd_info gauge\nmfbocd_info{{version="{__version__}"}} 1']
    lines += [f"# HELP {name} {said}\n# TYPE {name} {kind}\n{name} {value:.17g}" for name, kind, said, value in rows]
    return "\n".join(lines) + "\n"
