"""All metrics of a service in the text format of Prometheus."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from .. import __version__
from .instruments import family, single
from .store.totals import STATES, Totals, Usage

if TYPE_CHECKING:
    from .service import Service

MAX_GROUPS = 1000
"""Groups with metrics of their own. `mfbocd_groups` shows if there are more."""


def render(service: Service, totals: Totals | None) -> str:
    """All metrics.

    Parameters
    ----------
    service : Service
    totals : Totals or None
        Sums over all streams, the same from every worker of a database and after a restart; None if the store did not
        return them. The other metrics are those of this process since its start.
    """
    lines = [*_worker(service), *_store(service), *_process(service)]
    lines += [] if totals is None else _totals(totals)
    return "\n".join(lines) + "\n"


def _worker(service: Service) -> Iterator[str]:
    engine, writer, metrics = service.engine, service.writer, service.metrics
    yield from family("mfbocd_info", "gauge", "Version.", ("version",), [((__version__,), 1.0)])
    cached = len(engine.cache.streams)
    yield from single("mfbocd_worker_streams", "gauge", "Streams in the memory of this worker.", cached)
    for name, text, value in (
        ("steps", "Steps computed by this worker.", engine.steps),
        ("repeats", "Repeated observations at this worker.", engine.repeats),
        ("refusals", "Commands refused by this worker.", engine.refusals),
        ("commits", "Transactions of this worker.", engine.commits),
    ):
        yield from single(f"mfbocd_worker_{name}_total", "counter", text, value)
    for name, text, found in (
        ("waiting", "Jobs in the queue of this worker.", writer.waiting()),
        ("watchers", "Open /events connections.", service.watching.total()),
        ("uptime_seconds", "Since the worker started.", time.time() - service.started),
        ("ready", "Whether the kernels of all stored configurations are loaded.", not service.not_ready()),
    ):
        yield from single(f"mfbocd_worker_{name}", "gauge", text, found)
    yield from single("mfbocd_writer_lag_seconds", "gauge", "Age of the oldest job not finished.", writer.lag())
    yield from writer.commit_seconds.lines()
    yield from metrics.requests.lines()
    yield from family(
        "mfbocd_component_up",
        "gauge",
        "Whether a component such as the MQTT bridge works.",
        ("component",),
        [((name,), float(not problem)) for name, problem in sorted(service.components.items())],
    )
    yield from metrics.broker_failures.lines()
    yield from metrics.messages.lines()
    if service.notifier is not None:
        yield from metrics.deliveries.lines()
        yield from metrics.abandoned.lines()
        pending, oldest = service.notifier.backlog()
        yield from single("mfbocd_webhook_pending", "gauge", "Alarms not delivered yet.", pending)
        yield from single("mfbocd_webhook_oldest_seconds", "gauge", "Age of the oldest of these.", oldest)


def _store(service: Service) -> Iterator[str]:
    up = not service.known_problem()
    yield from single("mfbocd_store_up", "gauge", "Whether the store can be read and written.", up)
    yield from service.store.failures.lines()
    free = service.monitor.free_bytes
    if free is not None:
        yield from single("mfbocd_disk_free_bytes", "gauge", "Free space on the disk of the SQLite file.", free)


def _totals(totals: Totals) -> Iterator[str]:
    usage = totals.usage
    yield from single("mfbocd_streams", "gauge", "Streams in the store.", usage.streams)
    yield from family(
        "mfbocd_streams_by_state",
        "gauge",
        "Streams in the store by state.",
        ("state",),
        [((state,), totals.states[state]) for state in STATES],
    )
    yield from single("mfbocd_ticks_total", "counter", "Ticks of all streams.", usage.ticks)
    yield from single("mfbocd_spent_total", "counter", "Cost of all readings.", usage.spent)
    yield from single("mfbocd_alarms_total", "counter", "Alarms of all streams.", usage.alarms)
    groups = sorted(totals.groups.items())
    yield from single("mfbocd_groups", "gauge", "Groups that have or had streams.", sum(1 for g, _ in groups if g))
    shown: list[tuple[str, Usage]] = list(islice(groups, MAX_GROUPS + 1))
    for name, kind, text in (
        ("streams", "gauge", "Streams of a group; the label is empty without one."),
        ("ticks_total", "counter", "Ticks of the streams of a group."),
        ("spent_total", "counter", "Cost of the readings of a group."),
        ("alarms_total", "counter", "Alarms of the streams of a group."),
    ):
        values = [((group,), float(getattr(one, name.removesuffix("_total")))) for group, one in shown]
        yield from family(f"mfbocd_group_{name}", kind, text, ("group",), values)
    if totals.streams:
        for name, text, position in (
            ("ticks", "Ticks of a stream.", 1),
            ("spent", "Cost of the readings of a stream.", 2),
            ("alarms", "Alarms of a stream.", 3),
        ):
            of_streams = [((one[0],), float(one[position])) for one in totals.streams]
            yield from family(f"mfbocd_stream_{name}_total", "counter", text, ("stream",), of_streams)


def _process(service: Service) -> Iterator[str]:
    """Metrics with the names that all Prometheus clients use."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield from single("process_start_time_seconds", "gauge", "Start of the service since 1970.", service.started)
    yield from single("process_cpu_seconds_total", "counter", "Processor time.", used.ru_utime + used.ru_stime)
    try:  # Linux
        with open("/proc/self/statm") as statm:
            pages = int(statm.read().split()[1])
        files = len(os.listdir("/proc/self/fd"))
    except OSError:
        return
    memory = pages * resource.getpagesize()
    yield from single("process_resident_memory_bytes", "gauge", "Memory in use.", memory)
    yield from single("process_open_fds", "gauge", "Open files and connections.", files)
