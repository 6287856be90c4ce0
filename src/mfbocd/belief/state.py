"""The arrays that the kernels work on (`_kernels.layout`): how they are made, read, enlarged and checked."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, isfinite

import numpy as np
from numpy.typing import NDArray

from .._kernels import layout
from .._kernels.alarm import MOST_ODDS
from ..inputs.arguments import room_for
from ..models import Model
from .hazard import Hazard
from .pruning import Pruning

Array = NDArray[np.float64]

START = 64
"""Capacity, in hypotheses, that a state without a bound begins with."""


def setup_array(
    model: Model, hazard: Hazard, pruning: Pruning, alarm: Mapping[int, float], start: Array | None = None
) -> Array:
    """Return the array that the kernels read and never change (`_kernels.layout`).

    `alarm` holds its numbers by index. `start` is the statistics of the regime that a stream begins in, if known.
    """
    params = model.params()
    head = np.zeros(layout.FIRST)
    for index, number in alarm.items():
        head[index] = number
    head[layout.EPS], head[layout.MOST], head[layout.SLACK] = pruning.eps, pruning.most, pruning.slack
    head[layout.RESAMPLE] = pruning.resample
    hazards, candidates = hazard.setup
    head[layout.PARAMS], head[layout.HAZARDS], head[layout.LEARNED] = params.size, hazards.size, candidates
    return np.concatenate([head, params, hazards, np.empty(0) if start is None else start])


def fresh_state(model: Model, setup: Array, seed: int) -> Array:
    """Return the state of a stream before its first tick."""
    most, slack = int(setup[layout.MOST]), int(setup[layout.SLACK])
    head = np.zeros(layout.HEAD)
    head[layout.TICK] = head[layout.FIRED] = head[layout.CHANGED_AT] = -1.0
    head[layout.SEED] = seed
    head[layout.COLUMNS] = layout.STATS + model.columns + int(setup[layout.LEARNED])
    rows = most + 2 if most else START
    what = f"{type(model).__name__} with {model.columns} statistics for each of {most or rows} hypotheses"
    room_for(what, head[layout.COLUMNS] * rows)
    exact = most == 0 and setup[layout.EPS] == 0.0
    head[layout.LIMIT] = np.inf if exact else (most or slack)
    head[layout.ARMED] = 1.0
    first = layout.FIRST + int(setup[layout.PARAMS] + setup[layout.HAZARDS])
    start = setup[first:]
    mean, _ = model.predictive(start if start.size else model.prior())
    head[layout.MEAN] = np.ravel(mean)[0]
    live = np.empty((int(head[layout.COLUMNS]), 0))
    if start.size:
        # The regime of the known level began before the stream.
        head[layout.COUNT] = head[layout.TOTAL] = 1.0
        learned = int(setup[layout.LEARNED])
        live = np.concatenate([[1.0, -1.0], start, setup[first - learned : first]])[:, None]
    return state_of(model, head, live, rows)


def _padded(rows: int) -> int:
    return -(-rows // layout.LANES) * layout.LANES


def table(state: Array) -> Array:
    """Return the live hypotheses: rows are weight, birth and statistics, columns hypotheses, oldest first; a view."""
    return columns_of(state)[:, : int(state[layout.COUNT])]


def columns_of(state: Array) -> Array:
    """Return the columns of the hypotheses as rows, with all of their capacity; a view."""
    return state[layout.HEAD : layout.HEAD + _size(state)].reshape(int(state[layout.COLUMNS]), -1)


def _size(state: Array) -> int:
    return int(state[layout.COLUMNS] * state[layout.CAP])


def _dropped(state: Array) -> Array:
    """Return the table of the dropped hypotheses (`_kernels.dropped`), with all of its capacity; a view."""
    return state[layout.HEAD + _size(state) + layout.HEAD :].reshape(-1, layout.KEPT)


def hypotheses(state: Array) -> Array:
    """Return what is saved of a state next to its header: the dropped hypotheses, then the live ones, as `table`."""
    kept = int(state[layout.DROPPED])
    live = table(state)
    return np.concatenate([_dropped(state)[:, :kept], live], axis=1) if kept else live


def stats_of(model: Model, state: Array) -> Array:
    """Return the sufficient statistics of the live hypotheses, (columns, K); a view."""
    return table(state)[layout.STATS : layout.STATS + model.columns]


def dropped_stats(model: Model, state: Array) -> Array:
    """Return the sufficient statistics of the dropped hypotheses, (columns, K); a view."""
    return _dropped(state)[layout.STATS : layout.STATS + model.columns, : int(state[layout.DROPPED])]


def dropped_births(state: Array) -> Array:
    """Return the start ticks of the dropped hypotheses, oldest first; a view."""
    return _dropped(state)[layout.BIRTH, : int(state[layout.DROPPED])]


def state_of(model: Model, head: Array, given: Array, rows: int) -> Array:
    """Return the state with this header, these `hypotheses` and capacity for `rows` live ones."""
    kept = int(head[layout.DROPPED])
    live = given[:, kept:]
    cap = _padded(max(rows, live.shape[1] + 1))
    state = np.zeros(2 * layout.HEAD + live.shape[0] * (cap + layout.KEPT))
    state[: layout.HEAD] = head
    state[layout.CAP] = cap
    columns = columns_of(state)
    # The kernels' loops run past the last live hypothesis: the numbers there must be finite.
    columns[layout.STATS : layout.STATS + model.columns] = model.prior()[:, None]
    columns[:, : live.shape[1]] = live
    own = state[layout.HEAD + columns.size :]
    own[layout.COUNT] = own[layout.CAP] = layout.KEPT
    _dropped(state)[:, :kept] = given[:, :kept]
    return state


def check_saved(model: Model, setup: Array, head: Array, given: Array, cap: int) -> None:
    """Raise a ValueError if no stream of this configuration can have had this header and these `hypotheses`.

    The kernels use numbers of the header as lengths and indices without checking them. `cap` is the capacity that a
    state of this configuration begins with.
    """
    if head.shape != (layout.HEAD,):
        raise ValueError(f"the saved state has a header of {head.size} numbers, not {layout.HEAD}")
    h: list[float] = head.tolist()  # numpy's numbers take longer to compare
    kept = h[layout.DROPPED]
    if not _whole_in(kept, 0.0, min(layout.KEPT, given.shape[1])):
        raise ValueError("the saved state is invalid: the number of dropped hypotheses is wrong")
    columns, count = given.shape[0], given.shape[1] - int(kept)
    most, tick = int(setup[layout.MOST]), h[layout.TICK]
    began = 1.0 if setup[layout.KNOWN] else 0.0  # the regime of a known level began one tick before the stream
    limit = h[layout.LIMIT]
    rules = {
        "the number of columns": h[layout.COLUMNS]
        == columns
        == layout.STATS + model.columns + int(setup[layout.LEARNED]),
        "the tick": _whole_in(tick, -1.0, 2.0**53 - 1.0),
        "the number of hypotheses": h[layout.COUNT] == count <= tick + 1.0 + began - kept
        and (count > 0) == (tick + began >= 0.0)
        and (most == 0 or count < cap),
        "the limit": limit >= 0.0 and (limit.is_integer() or limit == inf) and (most == 0 or limit <= most),
        "the likeliest hypothesis": _whole_in(h[layout.MAP_INDEX], 0.0, max(count - 1.0, 0.0)),
        "the seed": _whole_in(h[layout.SEED], 0.0, 2.0**53 - 1.0),
        "the last alarm": _whole_in(h[layout.FIRED], -1.0, tick),
        "the last change": _whole_in(h[layout.CHANGED_AT], -1.0, tick),
        "the run length": _whole_in(h[layout.RUN], 0.0, max(tick, 0.0) + began),
        "the alarm": h[layout.ALARM] in (0.0, 1.0),
        "a probability": 0.0 <= h[layout.P_CHANGE] <= 1.0 and 0.0 <= h[layout.CONFIDENCE] <= 1.0,
        "the odds of a jump": 0.0 <= h[layout.RISE] <= MOST_ODDS and 0.0 <= h[layout.FALL] <= MOST_ODDS,
        "whether it is armed": h[layout.ARMED] in (0.0, 1.0),
        "the evidence": isfinite(h[layout.EVIDENCE]) and isfinite(h[layout.SLOPES]),
    }
    for what, holds in rules.items():
        if not holds:
            raise ValueError(f"the saved state is invalid: {what} is wrong")
    if count == 0:
        return
    weight, birth = given[: layout.STATS]
    total = weight.sum()
    if not ((weight >= 0.0) & (weight <= 1e300)).all() or not total > 0.0 or weight[: int(kept)].any():
        raise ValueError("the saved state is invalid: weights must be finite and not negative")
    if not abs(head[layout.TOTAL] - total) <= 1e-6 * total:
        raise ValueError(f"the saved state is invalid: its weights add up to {total}, not {head[layout.TOTAL]}")
    if (
        not ((birth == np.floor(birth)) & (birth >= -began) & (birth <= tick)).all()
        or not (np.diff(birth) > 0.0).all()
    ):
        raise ValueError("the saved state is invalid: the first ticks of its hypotheses must increase")
    stats, shares = given[layout.STATS : layout.STATS + model.columns], given[layout.STATS + model.columns :]
    if not model.sound(stats):
        raise ValueError(f"the saved state is invalid: its statistics are impossible for {model!r}")
    if shares.size and not (((shares >= 0.0) & (shares <= 1.0 + 1e-9)).all() and (shares.sum(axis=0) > 0.5).all()):
        raise ValueError("the saved state is invalid: the weights of its candidate hazards are not probabilities")


def _whole_in(value: float, low: float, high: float) -> bool:
    return low <= value <= high and value.is_integer()


def with_room(model: Model, state: Array, rows: int) -> Array:
    """Return a copy of the state with capacity for `rows` hypotheses."""
    return state_of(model, state[: layout.HEAD], hypotheses(state), rows)
