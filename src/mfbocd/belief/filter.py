"""The run-length state and how one observation moves it (equation `mbocd_recursive_rl_estimation`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._kernels import layout
from .._kernels.template import Report
from .._kernels.weights import begin_tick, end_tick, endings, expectation
from ..models import Model
from ..models.base import room_for
from .hazard import Hazard
from .pruning import Pruning

Array = NDArray[np.float64]

START = 64  # rows a state without a bound begins with


class RunLength(NamedTuple):
    """The filtered posterior P(r_t = length), shortest run first; r_t = 0 means x_t began a new regime."""

    length: NDArray[np.int64]
    weight: Array


class Start(NamedTuple):
    """When the current regime began: the most probable tick, a credible interval, P(that tick)."""

    at: int
    low: int
    high: int
    probability: float


def setup_array(model: Model, hazard: Hazard, pruning: Pruning, within: int, threshold: float) -> Array:
    """What the kernels read and never change (`_kernels.layout`)."""
    params = model.params()
    head = np.empty(layout.FIRST)
    head[layout.WITHIN], head[layout.THRESHOLD] = within, threshold
    head[layout.EPS], head[layout.MOST], head[layout.SLACK] = pruning.eps, pruning.most, pruning.slack
    head[layout.RESAMPLE] = pruning.resample
    hazards, candidates = hazard.setup
    head[layout.PARAMS], head[layout.HAZARDS], head[layout.LEARNED] = params.size, hazards.size, candidates
    return np.concatenate([head, params, hazards])


def fresh_state(model: Model, setup: Array, seed: int, rows: int = START) -> Array:
    """A stream before its first tick; `rows` is the room it begins with where nothing bounds it."""
    most, slack = int(setup[layout.MOST]), int(setup[layout.SLACK])
    head = np.zeros(layout.HEAD)
    head[layout.TICK] = head[layout.FIRED] = head[layout.CHANGED_AT] = -1.0
    head[layout.SEED] = seed
    head[layout.COLUMNS] = layout.STATS + model.columns + int(setup[layout.LEARNED])
    rows = most + 2 if most else rows
    what = f"{type(model).__name__} with {model.columns} statistics for each of {most or rows} hypotheses"
    room_for(what, head[layout.COLUMNS] * rows)
    exact = most == 0 and setup[layout.EPS] == 0.0
    head[layout.LIMIT] = np.inf if exact else (most or slack)
    mean, _ = model.predictive(model.prior())
    head[layout.MEAN] = np.ravel(mean)[0]
    return state_of(model, head, np.empty((int(head[layout.COLUMNS]), 0)), rows)


def _padded(rows: int) -> int:
    return -(-rows // layout.LANES) * layout.LANES


def table(state: Array) -> Array:
    """The live hypotheses: one row a column of the state (weight, birth, statistics), oldest first; a view."""
    cap, count = int(state[layout.CAP]), int(state[layout.COUNT])
    return state[layout.HEAD :].reshape(-1, cap)[:, :count]


def stats_of(model: Model, state: Array) -> Array:
    """The sufficient statistics of the live hypotheses, (columns, K); a view."""
    return table(state)[layout.STATS : layout.STATS + model.columns]


def state_of(model: Model, head: Array, live: Array, rows: int) -> Array:
    """The state with this header, these live hypotheses (`table` reads them) and room for `rows` of them."""
    cap = _padded(max(rows, live.shape[1] + 1))
    state = np.zeros(layout.HEAD + live.shape[0] * cap)
    state[: layout.HEAD] = head
    state[layout.CAP] = cap
    columns = state[layout.HEAD :].reshape(-1, cap)
    columns[layout.STATS : layout.STATS + model.columns] = model.prior()[
        :, None
    ]  # rows not alive must be finite: kernels run over some
    columns[:, : live.shape[1]] = live
    return state


def check_saved(model: Model, setup: Array, head: Array, live: Array, cap: int) -> None:
    """Refuse a saved header and live hypotheses (`table`) that no stream with this set-up can have had.

    Kernels take lengths and indices from them and check none. `cap` is the room a state begins with.
    """
    if head.shape != (layout.HEAD,):
        raise ValueError(f"the saved state has a header of {head.size} numbers, not {layout.HEAD}")
    columns, count = live.shape
    most, tick = int(setup[layout.MOST]), head[layout.TICK]
    rules = {
        "the number of columns": head[layout.COLUMNS]
        == columns
        == layout.STATS + model.columns + int(setup[layout.LEARNED]),
        "the tick": tick == np.floor(tick) and -1.0 <= tick < 2.0**53,
        "the number of hypotheses": head[layout.COUNT] == count <= tick + 1.0
        and (count > 0) == (tick >= 0.0)
        and (most == 0 or count < cap),
        "the limit": head[layout.LIMIT] >= 0.0
        and (head[layout.LIMIT] == np.floor(head[layout.LIMIT]) or not np.isfinite(head[layout.LIMIT]))
        and (most == 0 or head[layout.LIMIT] <= most),
        "the likeliest hypothesis": _whole_in(head[layout.MAP_INDEX], 0.0, max(count - 1.0, 0.0)),
        "the seed": _whole_in(head[layout.SEED], 0.0, 2.0**53 - 1.0),
        "the last alarm": _whole_in(head[layout.FIRED], -1.0, tick),
        "the last change": _whole_in(head[layout.CHANGED_AT], -1.0, tick),
        "the run length": _whole_in(head[layout.RUN], 0.0, max(tick, 0.0)),
        "the alarm": head[layout.ALARM] in (0.0, 1.0),
        "a probability": 0.0 <= head[layout.CHANGE] <= 1.0 and 0.0 <= head[layout.CONFIDENCE] <= 1.0,
        "the evidence": bool(np.isfinite(head[layout.EVIDENCE])),
    }
    for what, holds in rules.items():
        if not holds:
            raise ValueError(f"the saved state cannot be: {what} is wrong")
    if count == 0:
        return
    weight, birth = live[: layout.STATS]
    total = weight.sum()
    if not ((weight >= 0.0) & (weight <= 1e300)).all() or not total > 0.0:
        raise ValueError("the saved state cannot be: weights must be finite, and not negative")
    if not abs(head[layout.TOTAL] - total) <= 1e-6 * total:
        raise ValueError(f"the saved state cannot be: its weights add up to {total}, not {head[layout.TOTAL]}")
    if not ((birth == np.floor(birth)) & (birth >= 0.0) & (birth <= tick)).all() or not (np.diff(birth) > 0.0).all():
        raise ValueError("the saved state cannot be: hypotheses must begin at ticks that rise")
    stats, shares = live[layout.STATS : layout.STATS + model.columns], live[layout.STATS + model.columns :]
    if not model.sound(stats):
        raise ValueError(f"the saved state cannot be: these are no statistics of {model!r}")
    if shares.size and not (((shares >= 0.0) & (shares <= 1.0 + 1e-9)).all() and (shares.sum(axis=0) > 0.5).all()):
        raise ValueError("the saved state cannot be: the candidate hazards must have probabilities")


def _whole_in(value: float, low: float, high: float) -> bool:
    return bool(low <= value <= high and value == np.floor(value))


def with_room(model: Model, state: Array, rows: int) -> Array:
    """A copy of the state with room for `rows` hypotheses."""
    return state_of(model, state[: layout.HEAD], table(state), rows)


def observe(model: Model, state: Array, setup: Array, x: Any, zeta: float) -> Report:
    """Move one state by one tick through the model's methods; compiled models do the same in one pass."""
    before = state.copy()
    if state[layout.COUNT] >= state[layout.CAP]:
        raise RuntimeError("the state has no room for a tick: a model's function must not call its own detector")
    try:
        scale = begin_tick(state, setup)
        stats = stats_of(model, state)
        stats[:, -1] = model.new_regime(stats[:, :-1])
        logs = model.log_predictive(stats, x, zeta)
        if np.isnan(logs).any() or not (logs < np.inf).all() or not (logs > -np.inf).any():
            raise ValueError(f"{model!r} gave a log predictive of {logs!r} at x = {x!r}, zeta = {zeta!r}")
        stats[:] = model.update(stats, x, zeta) if zeta > 0.0 else model.skip(stats)
        gained = end_tick(state, setup, scale, np.array(logs))
        if zeta > 0.0:
            state[layout.EVIDENCE] += gained
        live = stats_of(model, state)
        mean, _ = model.predictive(live)
        prior, _ = model.predictive(model.new_regime(live))
        first = np.ascontiguousarray(mean if model.dimension == 1 else mean[0])
        state[layout.MEAN] = expectation(state, setup, first, float(np.ravel(prior)[0]))
    except BaseException:
        state[:] = before
        raise
    report: Report = tuple(state[layout.REPORT].tolist())
    return report


class Filter:
    """The run-length posterior of one stream.

    >>> from mfbocd.models import Gaussian
    >>> f = Filter(Gaussian(mean=0, var=9, noise_var=1), Hazard(0.01), Pruning.of(None))
    >>> for x in (0.0, 0.1, 4.0):
    ...     report = f.observe(x, zeta=1.0)
    >>> f.run_length.length, f.run_length.weight.round(4)
    (array([0, 1, 2]), array([0.2571, 0.0102, 0.7327]))
    """

    def __init__(
        self,
        model: Model,
        hazard: Hazard,
        pruning: Pruning,
        *,
        within: int = 1,
        threshold: float = 2.0,
        seed: int = 0,
    ) -> None:
        self.model = model
        self.hazard = hazard
        self.pruning = pruning
        self.setup = setup_array(model, hazard, pruning, within, threshold)
        self.state = fresh_state(model, self.setup, seed)
        self._compiled = model.observe
        self._prior = model.prior()
        # ticks until an unbounded state could be full: asked of the state only then
        self._free = 0 if pruning.most == 0 else -1

    def observe(self, x: Any, zeta: float) -> Report:
        """One tick: x read at fidelity zeta (0: nothing was read, only time passes)."""
        if self._free >= 0:
            self.make_room(1)
        if self._compiled is not None:
            report: Report = self._compiled(self._state, self.setup, x, zeta)
            return report
        return observe(self.model, self._state, self.setup, x, zeta)

    def make_room(self, ticks: int) -> None:
        """Let `ticks` more hypotheses fit, doubling an unbounded state when they do not."""
        if self._free < 0:
            return
        if self._free < ticks:
            count, cap = int(self.state[layout.COUNT]), int(self.state[layout.CAP])
            if count + ticks > cap:
                self.state = with_room(self.model, self.state, max(2 * cap, count + ticks))
                cap = int(self.state[layout.CAP])
            self._free = cap - count
        self._free -= ticks

    def adopt(self, state: Array) -> None:
        """Go on from another state of the same set-up."""
        self.state = state
        self._free = min(self._free, 0)

    @property
    def state(self) -> Array:
        """What the kernels move (`_kernels.layout`)."""
        return self._state

    @state.setter
    def state(self, state: Array) -> None:
        self._state = state
        self._address = 0

    def __getstate__(self) -> dict[str, Any]:
        # A copy has memory of its own, and finds its kernel in the model's class.
        return {**self.__dict__, "_address": 0, "_compiled": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._compiled = self.model.observe

    @property
    def address(self) -> int:
        """Where the state lies in memory, for a kernel that goes from one to the next while this filter is held."""
        if self._address == 0:
            if not self._state.flags.carray or self._state.dtype != np.float64:
                raise ValueError("a state is one contiguous array of numbers")
            self._address = self._state.ctypes.data
        return self._address

    @property
    def ticks(self) -> int:
        """Ticks so far."""
        return int(self.state[layout.TICK]) + 1

    @property
    def stats(self) -> Array:
        """Sufficient statistics of the live hypotheses, oldest first, shape (columns, K)."""
        return stats_of(self.model, self.state)

    @property
    def run_length(self) -> RunLength:
        """P(r_t = l | x_1..x_t) for the hypotheses alive."""
        weight, birth = table(self.state)[:2, ::-1]
        return RunLength((self.state[layout.TICK] - birth).astype(np.int64), weight / weight.sum())

    @property
    def candidates(self) -> Array:
        """P(candidate hazard | x_1..x_t), one a candidate; empty where the hazard is known."""
        many = int(self.setup[layout.LEARNED])
        weight = table(self.state)[layout.WEIGHT]
        if many == 0:
            return np.empty(0)
        if weight.size == 0:
            return self.hazard.setup[0][many:]
        return np.asarray(table(self.state)[-many:] @ weight / weight.sum())

    def changed(self, within: int) -> float:
        """P(a regime began in the last `within` ticks); the start of the stream itself is no change."""
        if isinstance(within, bool) or not isinstance(within, (int, np.integer)) or within < 1:
            raise ValueError(f"within must be a whole number of at least 1, not {within!r}")
        weight, birth = table(self.state)[:2]
        recent = birth > max(self.state[layout.TICK] - within, 0.0)
        return float(weight[recent].sum() / weight.sum()) if weight.size else 0.0

    def start(self, level: float) -> Start:
        """When the current regime began, with an equal-tailed credible interval of at least `level`."""
        weight, birth = table(self.state)[:2]
        share = weight / weight.sum()
        below = np.cumsum(share)
        tail = 0.5 * (1.0 - level)
        low = int(np.searchsorted(below, tail, side="right"))
        high = int(np.searchsorted(below, 1.0 - tail))
        top = int(np.argmax(share))
        last = share.size - 1
        return Start(int(birth[top]), int(birth[min(low, last)]), int(birth[min(high, last)]), float(share[top]))

    def predicted(self) -> tuple[Array, Array]:
        """Weights P(r_{t+1}) and statistics, the hypothesis of a change at t + 1 last."""
        weight = table(self.state)[layout.WEIGHT]
        live = self.stats
        born = self.model.new_regime(live)[:, None]
        if weight.size == 0:
            return np.ones(1), born
        share = weight / weight.sum()
        h = endings(self.state, self.setup)
        stats = np.concatenate([live, born], axis=1)
        return np.append(share * (1.0 - h), share @ h), stats

    def predictive(self, zeta: float) -> tuple[Any, Any]:
        """Mean and variance of x_{t+1} read at zeta (`bocd_predictive`); of each of its numbers, if several."""
        weight, stats = self.predicted()
        return mixed(weight, *self.model.predictive(stats, zeta))

    def parameter(self) -> tuple[Any, Any]:
        """Mean and variance of the current regime's parameter theta_t; of several, one each."""
        if self.ticks == 0:
            mean, var = self.model.parameter(self._prior)
            return (float(mean), float(var)) if np.ndim(mean) == 0 else (mean, var)
        weight = table(self.state)[layout.WEIGHT]
        return mixed(weight / weight.sum(), *self.model.parameter(self.stats))

    def quantile(self, level: float, zeta: float) -> Any:
        """The x that x_{t+1}, read at fidelity zeta, stays at or below with probability `level`; one a number."""
        weight, stats = self.predicted()

        def below(x: Array) -> Array:
            return np.asarray(self.model.predictive_cdf(stats, x if x.ndim else float(x), zeta) @ weight)

        centre, var = (np.asarray(v) for v in self.predictive(zeta))
        reach = np.sqrt(np.where(np.isfinite(var), var, np.maximum(1.0, np.abs(centre)))) + 1e-300
        low, high = centre - reach, centre + reach
        step = reach
        for _ in range(1100):
            short, far = below(low) > level, below(high) < level
            if not (short.any() or far.any()):
                break
            low, high = np.where(short, low - step, low), np.where(far, high + step, high)
            step = 2.0 * step
        # to 1e-13 of the scale, not to the last bit: an end at exactly 0 would take a thousand halvings
        enough = 1e-13 * (np.abs(centre) + reach)
        for _ in range(2000):
            middle = 0.5 * (low + high)
            if not ((high - low > enough) & (low < middle) & (middle < high)).any():
                break
            under = below(middle) < level
            low, high = np.where(under, middle, low), np.where(under, high, middle)
        return self.model.nearest(high if high.ndim else float(high))


def mixed(weight: Array, mean: Array, var: Array) -> tuple[Any, Any]:
    """Mean and variance of a mixture from its components', which lie along the last axis.

    >>> mixed(np.array([0.5, 0.5]), np.array([0.0, 2.0]), np.array([1.0, 1.0]))
    (1.0, 2.0)
    """
    if not weight.all():  # a component that cannot be may be infinitely wide
        alive = weight > 0.0
        weight, mean, var = weight[alive], mean[..., alive], var[..., alive]
    centre = np.asarray(mean @ weight)
    spread = np.asarray((var + (mean - centre[..., None]) ** 2) @ weight)
    return (centre, spread) if centre.ndim else (float(centre), float(spread))
