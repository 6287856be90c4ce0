"""What a reading is expected to tell: gains, before anything is paid."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from .._kernels import layout
from .._kernels.order import make_monotone
from .._kernels.template import ONE_ROW
from .filter import Filter

Array = NDArray[np.float64]
Gain = Literal["run_length", "joint", "variance"]
GAINS: tuple[Gain, ...] = get_args(Gain)
CODE = {"run_length": layout.RUN_LENGTH, "joint": layout.JOINT, "variance": layout.VARIANCE}


class FidelityGain(NamedTuple):
    """What one fidelity is expected to tell at the coming tick, and what it costs."""

    name: str
    zeta: float
    cost: float
    run_length: float
    """I(r; x) in nats."""
    joint: float
    """I(r, theta; x) in nats."""
    variance: float
    """Expected reduction of the parameter's variance."""
    chosen: bool


class Gains(tuple[FidelityGain, ...]):
    """One `FidelityGain` a fidelity; printed, a table that shows why one was chosen."""

    def __str__(self) -> str:
        lines = [
            f"{'':2s}{'fidelity':12s}{'zeta':>7s}{'cost':>10s}{'run length':>12s}{'joint':>10s}{'variance':>11s}"
        ]
        for g in self:
            told = f"{g.zeta:7.3g}{g.cost:10.4g}{g.run_length:12.5f}{g.joint:10.5f} {g.variance:10.5f}"
            lines.append(f"{'> ' if g.chosen else '  '}{g.name:12s}{told}")
        return "\n".join(lines)


def checked_gain(owner: str, gain: str) -> Gain:
    """The gain's name, or an error that lists them."""
    for known in GAINS:
        if gain == known:
            return known
    raise ValueError(f"{owner}.gain must be one of {', '.join(GAINS)}, not {gain!r}")


def expected_gains(belief: Filter, zeta: Array, gain: Gain) -> Array:
    """The gain of reading the coming tick at each zeta, shape (J,).

    - ``"run_length"``: I(r; x), the mutual information of run length and reading, in nats (`mi_rx`, `mi_xr`).
    - ``"joint"``: I(r, theta; x) = I(r; x) + E_r I(theta; x | r): what is learnt of the parameter counts too.
    - ``"variance"``: E_r [Var(theta | r) - E_x Var(theta | r, x)]; in units of the noise for the Gaussian.

    All are 0 at zeta = 0, never negative, and do not fall as zeta rises: a reading can always be used as one of a
    lower fidelity, so it is worth at least what those of `zeta` that are lower are worth. (For `Grid` and `Confusion`
    zeta is but a name, and the gain that of the likelihood it names.) A Bernoulli's tempered update is none of a
    probability model, and at a small zeta may be expected to WIDEN theta: then the variance gain is 0.

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
        board = np.zeros(2, dtype=np.int64)
        belief.model.gains(belief.state[None], belief.setup, ONE_ROW, zeta, CODE[gain], out, board)
        return np.asarray(out[0])
    weight, stats = belief.predicted()
    told = np.array([_slow_gain(belief, weight, stats, float(z), gain) for z in zeta])
    if belief.model.ordered:
        make_monotone(zeta, told)
    return told


def _slow_gain(belief: Filter, weight: Array, stats: Array, zeta: float, gain: Gain) -> float:
    model = belief.model
    if gain == "variance":
        return max(float(weight @ model.variance_gain(stats, zeta)), 0.0)
    value = model.run_length_gain(weight, stats, zeta)
    return value + float(weight @ model.parameter_gain(stats, zeta)) if gain == "joint" else value
