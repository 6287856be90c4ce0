"""The loops that every compiled family shares, written once.

The functions in the first section are templates. `family_kernels` compiles a copy of each for a family, in which the
names `tick` and `gain` stand for that family's own kernels (`compile.bind`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .alarm import decide, dropped_moments, level_until, normal_log_ratio, old_level, watch
from .change import change_weight, normal_divergence
from .compile import bind
from .dropped import dropped, forget_dropped
from .layout import ALARM, AT_LEAST, CHANGE, CHANGED_AT, CONFIDENCE, DROPPED, LEVEL, MEAN, P_CHANGE, RUN
from .order import make_monotone
from .pointer import Array, Pointer, pointer
from .work_queue import WorkQueue, mark_done, take_block

Rows = NDArray[np.int64]
Report = tuple[float, float, float, float, float, float]
"""The result of a tick: E[x_{t+1}], MAP run length, P(change), alarm (0 or 1), tick of the change, its confidence."""

ONE_ROW: Rows = np.zeros(1, dtype=np.int64)
"""`rows` for the only stream of a matrix with one row."""

if TYPE_CHECKING:

    def tick(state: Pointer, setup: Pointer, x: float, zeta: float) -> None:
        """Advance one stream by the reading x at fidelity zeta."""

    def gain(state: Pointer, setup: Pointer, zeta: float, kind: int) -> float:
        """The expected gain of a reading at zeta; `kind` is RUN_LENGTH, JOINT or VARIANCE.

        For CHANGE it is the information about the parameter, E_r I(theta; x | r), without zeta * Q (`change`).
        """

    def gain_of_each(state: Pointer, setup: Pointer, zeta: Array, kind: int, out: Pointer) -> None:
        """Write `gain` at each zeta to `out`."""

    def change_weight_of(state: Pointer, setup: Pointer) -> float:
        """Q of the gain CHANGE (`change.change_weight`)."""

    def absorb(table: Pointer, setup: Pointer, i: int, x: float, zeta: float) -> None:
        """Update the statistics of row i of a table of hypotheses by a reading, as `tick` does."""

    def tick_of_all(state: Pointer, setup: Pointer, x: float, zeta: float) -> None:
        """`tick`, also of the dropped hypotheses."""

    def tick_with_alarm(state: Pointer, setup: Pointer, x: float, zeta: float) -> None:
        """`tick_of_all`, then the alarm if it has options."""

    def watch_of(state: Pointer, setup: Pointer, x: float, zeta: float) -> None:
        """`alarm.watch` of the family."""

    def decide_of(state: Pointer, setup: Pointer) -> None:
        """`alarm.decide` of the family."""


def _tick_of_all(state: Pointer, setup: Pointer, x: float, zeta: float) -> None:
    if state[DROPPED] > 0.0:
        forget_dropped(state, setup)
        for i in range(int(state[DROPPED])):
            absorb(dropped(state), setup, i, x, zeta)
    tick(state, setup, x, zeta)


def _tick_with_alarm(state: Pointer, setup: Pointer, x: float, zeta: float) -> None:
    has_options = setup[LEVEL] > 0.0
    if has_options:
        watch_of(state, setup, x, zeta)
    tick_of_all(state, setup, x, zeta)
    if has_options:
        decide_of(state, setup)


def observe(state: Array, setup: Array, x: float, zeta: float) -> Report:
    """Advance one stream by one tick and return its report."""
    s = pointer(state, 0)
    tick_with_alarm(s, pointer(setup, 0), x, zeta)
    return s[MEAN], s[RUN], s[P_CHANGE], s[ALARM], s[CHANGED_AT], s[CONFIDENCE]


def advance(states: Array, setup: Array, rows: Rows, x: Array, zeta: Array, report: Array, queue: WorkQueue) -> None:
    """Advance row rows[k] of `states` by the readings x[:, k] at zeta[:, k], for each k.

    x and zeta have shape (T, m), report has shape (T, FIELDS, m) and is filled. Rows must be valid and distinct:
    nothing checks them, and threads that share `queue` advance different k at the same time.
    """
    low, high = take_block(queue, rows.size)
    while low < high:
        for k in range(low, high):
            s = pointer(states, rows[k] * states.shape[1])
            for t in range(x.shape[0]):
                tick_with_alarm(s, pointer(setup, 0), x[t, k], zeta[t, k])
                for j in range(report.shape[1]):
                    report[t, j, k] = s[MEAN + j]
        mark_done(queue, high - low)
        low, high = take_block(queue, rows.size)


def _gain_of_each(state: Pointer, setup: Pointer, zeta: Array, kind: int, out: Pointer) -> None:
    for j in range(zeta.size):
        out[j] = gain(state, setup, zeta[j], kind)


def gains(states: Array, setup: Array, rows: Rows, zeta: Array, kind: int, out: Array, queue: WorkQueue) -> None:
    """Fill out[k, j] with the gain of row rows[k] of `states` at zeta[j]; `out` has shape (m, J)."""
    low, high = take_block(queue, rows.size)
    while low < high:
        for k in range(low, high):
            state = pointer(states, rows[k] * states.shape[1])
            gain_of_each(state, pointer(setup, 0), zeta, kind, pointer(out, k * zeta.size))
            if kind == CHANGE:
                q = change_weight_of(state, pointer(setup, 0))
                for j in range(zeta.size):
                    # the parameter is of no use where the size of the change is given
                    out[k, j] = zeta[j] * q + (0.0 if q > 0.0 and setup[AT_LEAST] > 0.0 else out[k, j])
            make_monotone(zeta, out[k])
        mark_done(queue, high - low)
        low, high = take_block(queue, rows.size)


# --- bound to a family ---------------------------------------------------------------------------------------


class FamilyKernels(NamedTuple):
    """The compiled kernels of one family; their arguments are those of the templates of the same names."""

    observe: Callable[[Array, Array, Any, float], Report]
    advance: Callable[[Array, Array, Rows, Array, Array, Array, WorkQueue], None]
    gains: Callable[[Array, Array, Rows, Array, int, Array, WorkQueue], None]


class TickKernels(NamedTuple):
    """The compiled kernels of a family whose gains are not compiled."""

    observe: Callable[[Array, Array, Any, float], Report]
    advance: Callable[[Array, Array, Rows, Array, Array, Array, WorkQueue], None]


Tick = Callable[[Pointer, Pointer, float, float], None]
Absorb = Callable[[Pointer, Pointer, int, float, float], None]


def tick_kernels(tick: Tick, absorb: Absorb) -> TickKernels:
    """Compile the templates for a family without compiled gains, whose alarms have no options.

    Parameters
    ----------
    tick : kernel
        Advances one stream by one reading.
    absorb : kernel
        Updates the statistics of one row of a table of hypotheses by a reading, as `tick` does.
    """
    return _tick_kernels(bind(_tick_of_all, tick=tick, absorb=absorb))


def _tick_kernels(tick: Tick) -> TickKernels:
    return TickKernels(observe=bind(observe, tick_with_alarm=tick), advance=bind(advance, tick_with_alarm=tick))


def family_kernels(
    tick: Tick,
    gain: Callable[[Pointer, Pointer, float, int], float] | None = None,
    gain_of_each: Callable[[Pointer, Pointer, Array, int, Pointer], None] | None = None,
    *,
    absorb: Absorb,
    moments: Callable[[Pointer, Pointer, int], tuple[float, float]],
    divergence: Callable[[float, float, float, float], float] = normal_divergence,
    log_ratio: Callable[[Pointer, float, float, float, float, float], float] = normal_log_ratio,
) -> FamilyKernels:
    """Compile the templates for one family.

    Parameters
    ----------
    tick : kernel
        Advances one stream by one reading.
    gain : kernel, optional
        The gain of a reading at one zeta.
    gain_of_each : kernel, optional
        The gains at several zetas, for a family that saves work by computing them together; instead of `gain`.
    absorb : kernel
        Updates the statistics of one row of a table of hypotheses by a reading, as `tick` does.
    moments : kernel
        Mean and variance of a full reading under one hypothesis, in the family's units.
    divergence : kernel, optional
        KL of one predictive from another, from their moments; that of two normals by default.
    log_ratio : kernel, optional
        log p(x | mean after) - log p(x | mean before); that of two normals by default.
    """
    if gain_of_each is None:
        assert gain is not None
        gain_of_each = bind(_gain_of_each, gain=gain)
    dropped_ones = bind(dropped_moments, moments=moments)
    level = bind(level_until, moments=moments, moments_dropped=dropped_ones)
    reference = bind(old_level, level=level)
    ticked = bind(
        _tick_with_alarm,
        tick_of_all=bind(_tick_of_all, tick=tick, absorb=absorb),
        watch_of=bind(watch, reference=reference, log_ratio=log_ratio),
        decide_of=bind(decide, reference=reference, moments=moments),
    )
    weight = bind(change_weight, moments=moments, divergence=divergence, level=level, reference=reference)
    return FamilyKernels(
        *_tick_kernels(ticked), gains=bind(gains, gain_of_each=gain_of_each, change_weight_of=weight)
    )
