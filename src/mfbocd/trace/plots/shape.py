"""What a picture asks of a trace."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ticks = NDArray[np.int64]


class DetailLike(Protocol):
    """What the pictures need beside the steps: see `mfbocd.trace.Detail`."""

    @property
    def level(self) -> float: ...  # noqa: D102
    @property
    def gain(self) -> str: ...  # noqa: D102
    @property
    def gains(self) -> Array: ...  # noqa: D102
    @property
    def began(self) -> Ticks: ...  # noqa: D102
    @property
    def tick(self) -> Ticks: ...  # noqa: D102
    @property
    def low(self) -> Array: ...  # noqa: D102
    @property
    def high(self) -> Array: ...  # noqa: D102
    @property
    def length(self) -> Ticks: ...  # noqa: D102
    @property
    def weight(self) -> Array: ...  # noqa: D102


class TraceLike(Protocol):
    """The steps of a stream as arrays: see `mfbocd.Trace`."""

    @property
    def choice(self) -> Ticks: ...  # noqa: D102
    @property
    def x(self) -> Array: ...  # noqa: D102
    @property
    def cost(self) -> Array: ...  # noqa: D102
    @property
    def mean(self) -> Array: ...  # noqa: D102
    @property
    def run_length(self) -> Ticks: ...  # noqa: D102
    @property
    def p_change(self) -> Array: ...  # noqa: D102
    @property
    def alarm(self) -> NDArray[np.bool_]: ...  # noqa: D102
    @property
    def changed_at(self) -> Ticks: ...  # noqa: D102
    @property
    def confidence(self) -> Array: ...  # noqa: D102
    @property
    def fidelities(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def costs(self) -> tuple[float, ...]: ...  # noqa: D102
    @property
    def first(self) -> int: ...  # noqa: D102
    @property
    def detail(self) -> DetailLike | None: ...  # noqa: D102


def detail_of(trace: TraceLike, what: str) -> DetailLike:
    """The trace's detail, or an error that says how to have it."""
    if trace.detail is None:
        raise ValueError(f"{what} needs a trace with detail: run(detector, table, detail=True)")
    return trace.detail


def binary(trace: TraceLike) -> bool:
    """Whether every reading is 0 or 1: the mean is then the whole predictive distribution, and no band is drawn."""
    seen = trace.x[np.isfinite(trace.x)]
    return bool(seen.size) and bool(((seen == 0.0) | (seen == 1.0)).all())


def dearest(trace: TraceLike) -> int | None:
    """Index of the fidelity that costs most; None where a cost is not known."""
    if not trace.costs or not np.isfinite(trace.costs).all():
        return None
    return int(np.argmax(trace.costs))
