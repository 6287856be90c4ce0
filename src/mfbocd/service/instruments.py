"""Counters and histograms of one process, and the text format of Prometheus."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

Labels = tuple[str, ...]
"""Values of the labels of one series, in the order of their names."""

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the buckets of latencies."""


class Counter:
    """A number for each combination of labels that only increases. Any thread may increase it.

    Examples
    --------
    >>> failures = Counter("store_failures_total", "Failed transactions.", ("operation",))
    >>> failures.add("write")
    >>> print("\\n".join(failures.lines()))
    # HELP store_failures_total Failed transactions.
    # TYPE store_failures_total counter
    store_failures_total{operation="write"} 1
    """

    def __init__(self, name: str, text: str, labels: Labels = (), known: Iterable[Labels] = ()) -> None:
        self.name, self.text, self.labels = name, text, labels
        # a series that exists from the start lets Prometheus see its first increase
        self._values: dict[Labels, float] = dict.fromkeys(known if labels else [()], 0.0)
        self._lock = threading.Lock()

    def add(self, *labels: str) -> None:
        """Increase the number of one combination of labels by 1."""
        with self._lock:
            self._values[labels] = self._values.get(labels, 0.0) + 1.0

    def value(self, *labels: str) -> float:
        """The present number; 0 if it was never increased."""
        return self._values.get(labels, 0.0)

    def lines(self) -> Iterator[str]:
        """The series as text."""
        with self._lock:
            values = sorted(self._values.items())
        return family(self.name, "counter", self.text, self.labels, values)


class Histogram:
    """Numbers of observations up to each bound, for each combination of labels. Only one thread may observe.

    Examples
    --------
    >>> took = Histogram("took_seconds", "Seconds.", bounds=(0.1, 1.0))
    >>> took.observe(0.0625)
    >>> took.observe(3.0)
    >>> print("\\n".join(took.lines()))
    # HELP took_seconds Seconds.
    # TYPE took_seconds histogram
    took_seconds_bucket{le="0.1"} 1
    took_seconds_bucket{le="1.0"} 1
    took_seconds_bucket{le="+Inf"} 2
    took_seconds_sum 3.0625
    took_seconds_count 2
    """

    def __init__(self, name: str, text: str, labels: Labels = (), bounds: Sequence[float] = SECONDS) -> None:
        self.name, self.text, self.labels, self.bounds = name, text, labels, tuple(bounds)
        self._series: dict[Labels, list[float]] = {} if labels else {(): [0.0] * (len(self.bounds) + 2)}
        """The number of observations in each bucket, and their sum."""

    def observe(self, value: float, *labels: str) -> None:
        """Count an observation."""
        series = self._series.get(labels)
        if series is None:
            series = self._series[labels] = [0.0] * (len(self.bounds) + 2)
        series[bisect_left(self.bounds, value)] += 1.0
        series[-1] += value

    def lines(self) -> Iterator[str]:
        """The series as text. The count is the last bucket, so that both agree while another thread observes."""
        yield from _head(self.name, "histogram", self.text)
        for labels, series in sorted(self._series.copy().items()):
            counts, total = series[:-1], series[-1]
            below = 0.0
            for bound, count in zip((*map(str, self.bounds), "+Inf"), counts, strict=True):
                below += count
                yield _sample(f"{self.name}_bucket", (*self.labels, "le"), (*labels, bound), below)
            yield _sample(f"{self.name}_sum", self.labels, labels, total)
            yield _sample(f"{self.name}_count", self.labels, labels, below)


def family(name: str, kind: str, text: str, labels: Labels, values: Iterable[tuple[Labels, float]]) -> Iterator[str]:
    """All series of one name as text.

    >>> print(*family("up", "gauge", "Works.", ("of",), [(("a\\"b",), 1.0)]), sep="\\n")
    # HELP up Works.
    # TYPE up gauge
    up{of="a\\"b"} 1
    """
    yield from _head(name, kind, text)
    for found, value in values:
        yield _sample(name, labels, found, value)


def single(name: str, kind: str, text: str, value: float) -> Iterator[str]:
    """One series without labels as text."""
    return family(name, kind, text, (), [((), value)])


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


def _sample(name: str, labels: Labels, values: Labels, value: float) -> str:
    pairs = ",".join(f'{label}="{_escape(text)}"' for label, text in zip(labels, values, strict=True))
    return f"{name}{{{pairs}}} {value:.17g}" if pairs else f"{name} {value:.17g}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
