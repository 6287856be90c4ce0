"""Gains: the expected information of a reading, before the comparison with costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from .._kernels import layout
from .._kernels.alarm import level_of_old, level_of_until
from .._kernels.change import doubted_after, weight_of_jump, weight_of_recent, weight_of_reported
from .._kernels.order import make_monotone
from .._kernels.template import ONE_ROW
from ..inputs.display import html_table
from .alarm import full_moments, with_moments
from .filter import Filter

Array = NDArray[np.float64]
Gain = Literal["run_length", "joint", "variance", "change"]
GAINS: tuple[Gain, ...] = get_args(Gain)
CODE = {
    "run_length": layout.RUN_LENGTH,
    "joint": layout.JOINT,
    "variance": layout.VARIANCE,
    "change": layout.CHANGE,
}


class FidelityGain(NamedTuple):
    """The gains of one fidelity at the coming tick, and its cost.

    Parameters
    ----------
    name : str
        The fidelity's name.
    zeta : float
        Its zeta.
    cost : float
        Cost of the reading.
    run_length : float
        I(r; x), the mutual information of run length and reading, in nats.
    joint : float
        I(r, theta; x), that of run length and parameter with the reading, in nats.
    variance : float
        Expected reduction of the parameter's variance.
    change : float
        What the reading is worth for detecting a change, in full readings.
    chosen : bool
        Whether the policy chooses it.

    Examples
    --------
    >>> from mfbocd import Detector, Fidelity, Gaussian
    >>> ways = [Fidelity("imu", zeta=0.1, cost=1), Fidelity("gps", zeta=1.0, cost=40)]
    >>> gains = Detector(Gaussian(0, 9, 1), ways).gains()
    >>> gains[1].name, round(gains[1].joint, 3), gains[1].chosen
    ('gps', 1.151, True)
    """

    name: str
    zeta: float
    cost: float
    run_length: float
    joint: float
    variance: float
    change: float
    chosen: bool


class Gains(tuple[FidelityGain, ...]):
    """One `FidelityGain` per fidelity; printed, a table that shows why one was chosen.

    Examples
    --------
    >>> from mfbocd import Detector, Fidelity, Gaussian
    >>> ways = [Fidelity("imu", zeta=0.1, cost=1), Fidelity("gps", zeta=1.0, cost=40)]
    >>> gains = Detector(Gaussian(0, 9, 1), ways).gains()
    >>> [(gain.name, gain.cost) for gain in gains]
    [('imu', 1.0), ('gps', 40.0)]
    """

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        heads = ("", *(name.replace("_", " ") for name in FidelityGain._fields[:-1]))
        rows = [("chosen" if g.chosen else "", *g[:-1]) for g in self]
        return html_table("Expected gains of a reading at the coming tick", heads, rows, len(self))

    def __str__(self) -> str:
        lines = [
            f"{'':2s}{'fidelity':12s}{'zeta':>7s}{'cost':>10s}{'run length':>12s}{'joint':>10s}{'variance':>11s}"
            f"{'change':>10s}"
        ]
        for g in self:
            values = (
                f"{g.zeta:7.3g}{g.cost:10.4g}{g.run_length:12.5f}{g.joint:10.5f} {g.variance:10.5f}{g.change:10.5f}"
            )
            lines.append(f"{'> ' if g.chosen else '  '}{g.name:12s}{values}")
        return "\n".join(lines)


def checked_gain(owner: str, gain: str) -> Gain:
    """Return the name of a gain, or raise an error that lists them."""
    for known in GAINS:
        if gain == known:
            return known
    raise ValueError(f"{owner}.gain must be one of {', '.join(GAINS)}, not {gain!r}")


def expected_gains(belief: Filter, zeta: Array, gain: Gain) -> Array:
    """Return the gain of reading the coming tick at each zeta.

    All gains are 0 at zeta = 0, never negative, and do not decrease with zeta: a reading can always be used as one of
    a lower fidelity, so it is worth at least as much as the lower ones among `zeta`. (For `Grid` and `Confusion` zeta
    only names a likelihood, and the gain is that of this likelihood.) The tempered update of a Bernoulli is not a
    probability model and may be expected to widen theta at a small zeta: then the variance gain is 0.

    Parameters
    ----------
    belief : Filter
        The run-length posterior.
    zeta : ndarray
        The fidelities, (J,).
    gain : {"run_length", "joint", "variance", "change"}
        ``"run_length"`` is I(r; x), the mutual information of run length and reading, in nats (`mi_rx`, `mi_xr`).
        ``"joint"`` is I(r, theta; x) = I(r; x) + E_r I(theta; x | r): information about the parameter counts as well.
        ``"variance"`` is E_r [Var(theta | r) - E_x Var(theta | r, x)]; in units of the noise for the Gaussian.
        ``"change"`` is zeta Q + E_r I(theta; x | r), where Q is the probability of a change that counts towards the
        next alarm, or was reported by the last one and is in doubt, each weighed by how quickly full readings would
        show it (`_kernels.change`). The second term keeps it positive before the first reading; for counts it is
        approximate (`Model.quick_parameter_gain`). With `Alarm.at_least` the gain is zeta Q: the parameter is then of
        no use.

    Returns
    -------
    ndarray
        The gains, (J,).

    Examples
    --------
    >>> from mfbocd.belief.hazard import Hazard
    >>> from mfbocd.models import Gaussian
    >>> from mfbocd.belief.pruning import Pruning
    >>> f = Filter(Gaussian(0, 9, 1), Hazard(0.01), Pruning.of(None))
    >>> for x in (0.1, -0.3, 0.2):
    ...     report = f.observe(x, 1.0)
    >>> expected_gains(f, np.array([0.0, 0.1, 1.0]), "joint").round(4)
    array([0.    , 0.0201, 0.1642])
    """
    if belief.model.gains is not None:
        out = np.empty((1, zeta.size))
        queue = np.zeros(2, dtype=np.int64)
        belief.model.gains(belief.state[None], belief.setup, ONE_ROW, zeta, CODE[gain], out, queue)
        return np.asarray(out[0])
    gains = _slow_gains(belief, zeta, gain)
    if belief.model.ordered:
        make_monotone(zeta, gains)
    return gains


def _slow_gains(belief: Filter, zeta: Array, gain: Gain) -> Array:
    """The gain of each zeta by itself, from the methods of the model."""
    model, levels = belief.model, zeta.tolist()
    weight, stats = belief.predicted()
    if gain == "variance":
        heavy, kept = _heavy(weight, stats, 1e-15)
        return np.array([max(float(heavy @ model.variance_gain(kept, z)), 0.0) for z in levels])
    if gain == "change":
        q = change_weight(belief, weight)
        if q > 0.0 and belief.setup[layout.AT_LEAST] > 0.0:
            return np.asarray(zeta * q)
        heavy, kept = _heavy(weight, stats, 1e-12)
        return zeta * q + [max(float(heavy @ model.quick_parameter_gain(kept, z)), 0.0) for z in levels]
    value = model.joint_gain if gain == "joint" else model.run_length_gain
    return np.array([value(weight, stats, z) for z in levels])


def _heavy(weight: Array, stats: Array, least: float) -> tuple[Array, Array]:
    """Leave out the hypotheses whose weight is too small to matter."""
    kept = weight > least
    return (weight, stats) if kept.all() else (weight[kept], stats[:, kept])


def change_weight(belief: Filter, weight: Array) -> float:
    """Return Q of the gain "change": the probability of a recent change, weighed by how quickly it would show."""
    model, state, setup = belief.model, belief.state, belief.setup
    if state[layout.COUNT] == 0:
        return 0.0
    mean, variance = full_moments(model, state, setup)
    level, spread = _of_each(lambda given: level_of_old(state, given), setup, mean, variance)
    if setup[layout.AT_LEAST] > 0.0:
        jumps = level + setup[layout.AT_LEAST] * np.array([1.0, -1.0])
        rise, fall = model.core.divergence(jumps, np.full(2, spread), level, spread).tolist()
        return weight_of_jump(state, rise, fall)
    apart = model.core.divergence(mean, variance, level, spread)
    if setup[layout.DIRECTION]:
        apart = np.where(setup[layout.DIRECTION] * (mean - level) >= 0.0, apart, 0.0)
    q = weight_of_recent(state, setup, weight, apart)
    oldest = doubted_after(state, setup)
    if oldest == np.inf:
        return q
    level, spread = _of_each(lambda given: level_of_until(state, given, oldest), setup, mean, variance)
    return q + weight_of_reported(state, setup, weight, model.core.divergence(mean, variance, level, spread))


def _of_each(
    level_of: Callable[[Array], tuple[bool, float, float]], setup: Array, mean: Array, variance: Array
) -> Any:
    """Return the level and its variance of each number of a reading, from moments of shape (K,) or (d, K)."""
    if mean.ndim == 1:
        return level_of(with_moments(setup, mean, variance))[1:]
    return np.array([level_of(with_moments(setup, m, v))[1:] for m, v in zip(mean, variance, strict=True)]).T
