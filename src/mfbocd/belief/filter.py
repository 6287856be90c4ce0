"""The run-length posterior of one stream and its update by one reading (`mbocd_recursive_rl_estimation`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._kernels import layout
from .._kernels.template import Report
from .._kernels.weights import begin_tick, end_tick, endings, expectation
from ..inputs.arguments import whole
from ..models import Model
from .alarm import Alarm, alarm_setup, decide, watch
from .crossing import crossing
from .hazard import Hazard
from .pruning import Pruning
from .records import RunLength, Start, Surprise
from .state import fresh_state, setup_array, stats_of, table, with_room

Array = NDArray[np.float64]


def observe(model: Model, state: Array, setup: Array, x: Any, zeta: float) -> Report:
    """Advance one state by one tick with the model's methods; the kernels of compiled models do it in one pass."""
    before = state.copy()
    if state[layout.COUNT] >= state[layout.CAP]:
        raise RuntimeError("the state has no capacity for a tick: a model's function must not call its own detector")
    try:
        if setup[layout.LEVEL] > 0.0:
            watch(model, state, setup, x, zeta, _change_now(state, setup))
        scale = begin_tick(state, setup)
        stats = stats_of(model, state)
        stats[:, -1] = model.new_regime(stats[:, :-1])
        logs, after = model.assimilate(stats, x, zeta)
        if np.isnan(logs).any() or not (logs < np.inf).all() or not (logs > -np.inf).any():
            raise ValueError(f"{model!r} gave a log predictive of {logs!r} at x = {x!r}, zeta = {zeta!r}")
        stats[:] = after
        gained = end_tick(state, setup, scale, np.array(logs))
        if zeta > 0.0:
            state[layout.EVIDENCE] += gained
        live = stats_of(model, state)
        mean, _ = model.predictive(live)
        prior, _ = model.predictive(model.new_regime(live))
        first = np.ascontiguousarray(mean if model.dimension == 1 else mean[0])
        state[layout.MEAN] = expectation(state, setup, first, float(np.ravel(prior)[0]))
        if setup[layout.LEVEL] > 0.0:
            decide(model, state, setup)
    except BaseException:
        state[:] = before
        raise
    report: Report = tuple(state[layout.REPORT].tolist())
    return report


def _change_now(state: Array, setup: Array) -> float:
    """P(change at the coming tick)."""
    weight = table(state)[layout.WEIGHT]
    return float(weight @ endings(state, setup) / weight.sum()) if weight.size else 0.0


def outlier_probability(model: Model, state: Array) -> float:
    """Return P(the last reading was an outlier) of a stream, averaged over its run lengths."""
    weight = table(state)[layout.WEIGHT]
    return float(model.last_outlier(stats_of(model, state)) @ weight / weight.sum())


class Filter:
    """The run-length posterior of one stream.

    Parameters
    ----------
    model : Model
        The family of the readings.
    hazard : Hazard
        P(change) by run length.
    pruning : Pruning
        How the number of hypotheses is bounded.
    alarm : Alarm or None
        When the filter reports an alarm; never by default.
    seed : int
        Seed of the resampling.

    Examples
    --------
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
        alarm: Alarm | None = None,
        seed: int = 0,
    ) -> None:
        self.model = model
        self.hazard = hazard
        self.pruning = pruning
        self.setup = setup_array(model, hazard, pruning, *alarm_setup(alarm, model))
        self.state = fresh_state(model, self.setup, seed)
        self._compiled = model.observe
        self._prior = model.prior()
        # Ticks until an unbounded state could be full; -1 if it is bounded.
        self._free = 0 if pruning.most == 0 else -1

    def observe(self, x: Any, zeta: float) -> Report:
        """Apply one tick and return its report.

        Parameters
        ----------
        x : Any
            The checked reading.
        zeta : float
            Its fidelity; 0 if nothing was read and only time passes.

        Returns
        -------
        tuple of float
            Mean, run length, P(change), alarm, changed at, confidence (`_kernels.layout.REPORT`).
        """
        if self._free >= 0:
            self.make_room(1)
        if self._compiled is not None:
            report: Report = self._compiled(self._state, self.setup, x, zeta)
            return report
        return observe(self.model, self._state, self.setup, x, zeta)

    def make_room(self, ticks: int) -> None:
        """Make `ticks` more hypotheses fit, at least doubling the capacity of an unbounded state if they do not.

        Parameters
        ----------
        ticks : int
            How many ticks are about to be applied.
        """
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
        """Continue from another state of the same configuration.

        Parameters
        ----------
        state : ndarray
            The state, which this filter will change.
        """
        self.state = state
        self._free = min(self._free, 0)

    @property
    def state(self) -> Array:
        """The array that the kernels change (`_kernels.layout`)."""
        return self._state

    @state.setter
    def state(self, state: Array) -> None:
        self._state = state

    def __getstate__(self) -> dict[str, Any]:
        # A copy has its own memory, and finds its kernel in the model's class.
        return {**self.__dict__, "_compiled": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._compiled = self.model.observe

    @property
    def ticks(self) -> int:
        """Number of ticks so far."""
        return int(self.state[layout.TICK]) + 1

    @property
    def stats(self) -> Array:
        """Sufficient statistics of the live hypotheses, oldest first, shape (columns, K)."""
        return stats_of(self.model, self.state)

    @property
    def run_length(self) -> RunLength:
        """P(r_t = l | x_1..x_t) of the live hypotheses."""
        weight, birth = table(self.state)[:2, ::-1]
        return RunLength((self.state[layout.TICK] - birth).astype(np.int64), weight / weight.sum())

    @property
    def candidates(self) -> Array:
        """P(candidate hazard | x_1..x_t) of each candidate; empty if the hazard is known."""
        many = int(self.setup[layout.LEARNED])
        weight = table(self.state)[layout.WEIGHT]
        if many == 0:
            return np.empty(0)
        if weight.size == 0:
            return self.hazard.setup[0][many:]
        return np.asarray(table(self.state)[-many:] @ weight / weight.sum())

    def p_changed(self, within: int) -> float:
        """Return P(a regime began in the last `within` ticks); the start of the stream does not count as a change.

        Parameters
        ----------
        within : int
            Length of the window in ticks.

        Returns
        -------
        float
            The probability.
        """
        whole("", "within", within, 1)
        weight, birth = table(self.state)[:2]
        recent = birth > max(self.state[layout.TICK] - within, 0.0)
        # at most 1: the two sums are rounded differently
        return min(float(weight[recent].sum() / weight.sum()), 1.0) if weight.size else 0.0

    def start(self, level: float) -> Start:
        """Return when the current regime began.

        Parameters
        ----------
        level : float
            Least probability of the credible interval, which has equal tails.

        Returns
        -------
        Start
            The most probable tick, the interval, and P(that tick).
        """
        weight, birth = table(self.state)[:2]
        return Start.of(birth, weight, level)

    def predicted(self) -> tuple[Array, Array]:
        """Return the prediction of the coming tick's run length.

        Returns
        -------
        weight : ndarray
            P(r_{t+1}), (K + 1,); the hypothesis of a change at t + 1 is the last.
        stats : ndarray
            The statistics of these hypotheses, (columns, K + 1).
        """
        weight = table(self.state)[layout.WEIGHT]
        live = self.stats
        new = self.model.new_regime(live)[:, None]
        if weight.size == 0:
            return np.ones(1), new
        share = weight / weight.sum()
        h = endings(self.state, self.setup)
        stats = np.concatenate([live, new], axis=1)
        return np.append(share * (1.0 - h), share @ h), stats

    def predictive(self, zeta: float) -> tuple[Any, Any]:
        """Return mean and variance of the coming reading (`bocd_predictive`).

        Parameters
        ----------
        zeta : float
            The fidelity that x_{t+1} is read at.

        Returns
        -------
        tuple
            Mean and variance; arrays if a reading has several numbers.
        """
        weight, stats = self.predicted()
        return mixed(weight, *self.model.predictive(stats, zeta))

    def surprise(self, x: Any, zeta: float) -> Surprise:
        """Return the log predictive and the log tails of the coming reading, mixed over the run length.

        Parameters
        ----------
        x : float or ndarray
            The checked reading.
        zeta : float
            Its fidelity, above 0.

        Returns
        -------
        Surprise
            The logs of the density and of both tails.
        """
        weight, stats = self.predicted()
        alive = weight > 0.0
        logs, stats = np.log(weight[alive]), stats[:, alive]
        density = self.model.log_predictive(stats, x, zeta)
        lower, upper = self.model.log_tails(stats, x, zeta)
        with np.errstate(invalid="ignore"):  # NaN for a number that is missing
            tails = [np.logaddexp.reduce(logs + each, axis=-1).tolist() for each in (lower, upper)]
        low, high = tails if self.model.dimension == 1 else map(tuple, tails)
        return Surprise(float(np.logaddexp.reduce(logs + density)), low, high)

    def parameter(self) -> tuple[Any, Any]:
        """Return mean and variance of the current regime's parameter theta_t.

        Returns
        -------
        tuple
            Mean and variance; arrays if there are several parameters.
        """
        if self.ticks == 0:
            mean, var = self.model.parameter(self._prior)
            return (float(mean), float(var)) if np.ndim(mean) == 0 else (mean, var)
        weight = table(self.state)[layout.WEIGHT]
        return mixed(weight / weight.sum(), *self.model.parameter(self.stats))

    def quantile(self, level: float, zeta: float) -> Any:
        """Return the value that the coming reading does not exceed with a given probability.

        Parameters
        ----------
        level : float
            The probability.
        zeta : float
            The fidelity that x_{t+1} is read at.

        Returns
        -------
        float or ndarray
            The quantile; one per number if a reading has several.
        """
        weight, stats = self.predicted()

        def below(x: Array) -> Array:
            return np.asarray(self.model.predictive_cdf(stats, x if x.ndim else float(x), zeta) @ weight)

        centre, var = (np.asarray(v) for v in self.predictive(zeta))
        reach = np.sqrt(np.where(np.isfinite(var), var, np.maximum(1.0, np.abs(centre)))) + 1e-300
        high = crossing(below, level, centre, reach)
        return self.model.nearest(high if high.ndim else float(high))


def mixed(weight: Array, mean: Array, var: Array) -> tuple[Any, Any]:
    """Return mean and variance of a mixture from those of its components, which are along the last axis.

    Examples
    --------
    >>> mixed(np.array([0.5, 0.5]), np.array([0.0, 2.0]), np.array([1.0, 1.0]))
    (1.0, 2.0)
    """
    if not weight.all():  # a component of probability 0 may have an infinite variance
        alive = weight > 0.0
        weight, mean, var = weight[alive], mean[..., alive], var[..., alive]
    centre = np.asarray(mean @ weight)
    spread = np.asarray((var + (mean - centre[..., None]) ** 2) @ weight)
    return (centre, spread) if centre.ndim else (float(centre), float(spread))
