"""The run-length state and how one observation moves it (equation `mbocd_recursive_rl_estimation`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._kernels import layout as at
from ._kernels.weights import begin_tick, end_tick, expectation
from .hazard import Hazard
from .models import Model
from .models.base import Report
from .prune import Pruning

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
    head = np.empty(at.FIRST)
    head[at.WITHIN], head[at.THRESHOLD] = within, threshold
    head[at.EPS], head[at.MOST], head[at.SLACK] = pruning.eps, pruning.most, pruning.slack
    head[at.RESAMPLE] = pruning.resample
    head[at.PARAMS], head[at.HAZARDS] = params.size, hazard.table.size
    return np.concatenate([head, params, hazard.table])


def fresh_state(model: Model, setup: Array, seed: int, rows: int = START) -> Array:
    """A stream before its first tick; `rows` is the room it begins with where nothing bounds it."""
    most, slack = int(setup[at.MOST]), int(setup[at.SLACK])
    head = np.zeros(at.HEAD)
    head[at.TICK] = head[at.FIRED] = head[at.CHANGED_AT] = -1.0
    head[at.SEED] = seed
    head[at.COLUMNS] = at.STATS + model.columns
    exact = most == 0 and setup[at.EPS] == 0.0
    head[at.LIMIT] = np.inf if exact else (most or slack)
    mean, _ = model.predictive(model.prior())
    head[at.MEAN] = float(mean)
    return state_of(model, head, np.empty((at.STATS + model.columns, 0)), most + 2 if most else rows)


def _padded(rows: int) -> int:
    return -(-rows // at.LANES) * at.LANES


def table(state: Array) -> Array:
    """The live hypotheses: one row a column of the state (weight, birth, statistics), oldest first; a view."""
    cap, count = int(state[at.CAP]), int(state[at.COUNT])
    return state[at.HEAD :].reshape(-1, cap)[:, :count]


def state_of(model: Model, head: Array, live: Array, rows: int) -> Array:
    """The state with this header, these live hypotheses (`table` reads them) and room for `rows` of them."""
    cap = _padded(max(rows, live.shape[1] + 1))
    state = np.zeros(at.HEAD + live.shape[0] * cap)
    state[: at.HEAD] = head
    state[at.CAP] = cap
    columns = state[at.HEAD :].reshape(-1, cap)
    columns[at.STATS :] = model.prior()[:, None]  # rows not alive must be finite: kernels run over some
    columns[:, : live.shape[1]] = live
    return state


def with_room(model: Model, state: Array, rows: int) -> Array:
    """A copy of the state with room for `rows` hypotheses."""
    return state_of(model, state[: at.HEAD], table(state), rows)


def observe(model: Model, state: Array, setup: Array, x: float, zeta: float) -> Report:
    """Move one state by one tick through the model's methods; compiled models do the same in one pass."""
    before = state.copy()
    try:
        scale = begin_tick(state, setup)
        stats = table(state)[at.STATS :]
        stats[:, -1] = model.prior()
        logs = model.log_predictive(stats, x, zeta)
        if np.isnan(logs).any() or not (logs < np.inf).all() or not (logs > -np.inf).any():
            raise ValueError(f"{model!r} gave a log predictive of {logs!r} at x = {x!r}, zeta = {zeta!r}")
        if zeta > 0.0:
            stats[:] = model.update(stats, x, zeta)
        gained = end_tick(state, setup, scale, np.array(logs))
        if zeta > 0.0:
            state[at.EVIDENCE] += gained
        mean, _ = model.predictive(table(state)[at.STATS :])
        prior, _ = model.predictive(model.prior())
        state[at.MEAN] = expectation(state, setup, np.ascontiguousarray(mean), float(prior))
    except BaseException:
        state[:] = before
        raise
    report: Report = tuple(state[at.REPORT].tolist())
    return report


class Filter:
    """The run-length posterior of one stream.

    >>> from mfbocd.models import Gaussian
    >>> f = Filter(Gaussian(mean=0, var=9, noise=1), Hazard(0.01), Pruning.of(None))
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

    def observe(self, x: float, zeta: float) -> Report:
        """One tick: x read at fidelity zeta (0: nothing was read, only time passes)."""
        if self._free >= 0:
            self.make_room(1)
        if self._compiled is not None:
            report: Report = self._compiled(self.state, self.setup, x, zeta)
            return report
        return observe(self.model, self.state, self.setup, x, zeta)

    def make_room(self, ticks: int) -> None:
        """Let `ticks` more hypotheses fit, doubling an unbounded state when they do not."""
        if self._free < 0:
            return
        if self._free < ticks:
            count, cap = int(self.state[at.COUNT]), int(self.state[at.CAP])
            if count + ticks > cap:
                self.state = with_room(self.model, self.state, max(2 * cap, count + ticks))
                cap = int(self.state[at.CAP])
            self._free = cap - count
        self._free -= ticks

    def adopt(self, state: Array) -> None:
        """Go on from another state of the same set-up."""
        self.state = state
        self._free = min(self._free, 0)

    @property
    def ticks(self) -> int:
        """Ticks so far."""
        return int(self.state[at.TICK]) + 1

    @property
    def stats(self) -> Array:
        """Sufficient statistics of the live hypotheses, oldest first, shape (columns, K)."""
        return table(self.state)[at.STATS :]

    @property
    def run_length(self) -> RunLength:
        """P(r_t = l | x_1..x_t) for the hypotheses alive."""
        weight, birth = table(self.state)[:2, ::-1]
        return RunLength((self.state[at.TICK] - birth).astype(np.int64), weight / weight.sum())

    def changed(self, within: int) -> float:
        """P(a regime began in the last `within` ticks); the start of the stream itself is no change."""
        if isinstance(within, bool) or not isinstance(within, (int, np.integer)) or within < 1:
            raise ValueError(f"within must be a whole number of at least 1, not {within!r}")
        weight, birth = table(self.state)[:2]
        recent = birth > max(self.state[at.TICK] - within, 0.0)
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
        weight, birth = table(self.state)[:2]
        if weight.size == 0:
            return np.ones(1), self._prior[:, None]
        share = weight / weight.sum()
        h = self.hazard(self.state[at.TICK] - birth)
        stats = np.concatenate([self.stats, self._prior[:, None]], axis=1)
        return np.append(share * (1.0 - h), share @ h), stats

    def predictive(self, zeta: float) -> tuple[float, float]:
        """Mean and variance of x_{t+1} read at fidelity zeta (equation `bocd_predictive`)."""
        weight, stats = self.predicted()
        mean, var = self.model.predictive(stats, zeta)
        centre = float(weight @ mean)
        return centre, float(weight @ (var + (mean - centre) ** 2))

    def parameter(self) -> tuple[float, float]:
        """Mean and variance of the current regime's parameter theta_t."""
        if self.ticks == 0:
            mean, var = self.model.parameter(self._prior)
            return float(mean), float(var)
        weight = table(self.state)[at.WEIGHT]
        share = weight / weight.sum()
        mean, var = self.model.parameter(self.stats)
        centre = float(share @ mean)
        return centre, float(share @ (var + (mean - centre) ** 2))

    def quantile(self, level: float, zeta: float) -> float:
        """The x that x_{t+1}, read at fidelity zeta, stays at or below with probability `level`."""
        weight, stats = self.predicted()

        def below(x: float) -> float:
            return float(weight @ self.model.predictive_cdf(stats, x, zeta))

        centre, var = self.predictive(zeta)
        reach = np.sqrt(var) + 1e-300
        low, high = centre - reach, centre + reach
        for _ in range(100):
            if below(low) <= level <= below(high):
                break
            low, high = low - reach, high + reach
            reach *= 2.0
        for _ in range(2000):
            middle = 0.5 * (low + high)
            if not low < middle < high:
                break
            low, high = (middle, high) if below(middle) < level else (low, middle)
        return self.model.nearest(high)
