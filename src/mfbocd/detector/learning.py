"""zeta and cost learned while a detector runs: from shadow pairs, and from what readings actually cost."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from ..inputs.arguments import finite
from ..policy.fidelity import Fidelity

if TYPE_CHECKING:
    from .detector import Detector

GuardMethod = Literal["gaussian", "accuracy", "tpr", "information"]
_POINTS = 40
_LOWEST, _HIGHEST = 0.001, 0.98  # of a learned zeta; the best fidelity stays the best
_JUMP = 0.003  # P(zeta changes) per pair
_RATE = 0.05  # of the correction of a cost by one reading


class ZetaGrid:
    """The posterior of a zeta that may change, on a grid, from pairs of readings.

        P_n(zeta) ~ ((1 - j) P_{n-1}(zeta) + j P_0(zeta)) p(pair_n | zeta),  j = 0.003

    The grid has 40 values with a constant ratio and the declared zeta d. The latter has P_0 = 1/2; the others share
    the rest in proportion to min(zeta / d, d / zeta), because a declaration is seldom wrong by a large factor. The
    estimate is the geometric mean. The likelihood of a pair is that of `ShadowGuard`. The jumps track a zeta that
    drifts as well as one that changes at once: without a change the estimate averages over some hundred pairs, after
    a large change over those since.

    Parameters
    ----------
    declared : float
        The declared zeta.
    method : {"gaussian", "accuracy", "tpr", "information"}
        What a pair shows.
    noise_var : float or None
        The model's noise variance, for ``"gaussian"``.

    Examples
    --------
    >>> grid = ZetaGrid(0.9, "information", None)
    >>> belief = grid.start()
    >>> for agrees in [1, 1, 1, 0, 1, 1, 1, 1] * 10:  # 7 of 8: (2 * 7 / 8 - 1)^2 = 0.56
    ...     belief = grid.updated(belief, 1.0, float(agrees))
    >>> round(grid.value(belief), 2)
    0.54
    """

    def __init__(self, declared: float, method: GuardMethod, noise_var: float | None) -> None:
        ratio = math.log(_HIGHEST / _LOWEST) / (_POINTS - 1)
        self.zeta = [declared, *(_LOWEST * math.exp(ratio * i) for i in range(_POINTS))]
        self.method, self.noise_var = method, noise_var
        share = [min(z / declared, declared / z) for z in self.zeta[1:]]
        self._prior = [0.5, *(0.5 * s / sum(share) for s in share)]
        # P(the two labels agree) of each
        self._agree = [0.5 * (1.0 + math.sqrt(z)) if method == "information" else z for z in self.zeta]

    def start(self) -> list[float]:
        """Return the belief before any pair."""
        return list(self._prior)

    def updated(self, belief: list[float], high: float, low: float) -> list[float]:
        """Return the belief after a pair that says something about zeta.

        Parameters
        ----------
        belief : list of float
            The belief before; it is not changed.
        high, low : float
            The readings.

        Returns
        -------
        list of float
            The probabilities of the values of `zeta`.
        """
        if self.method == "gaussian":
            assert self.noise_var is not None
            each = [self.noise_var * (1.0 + 1.0 / z) for z in self.zeta]
            logs = [-0.5 * ((high - low) * (high - low) / v + math.log(v)) for v in each]
        else:
            logs = [math.log(max(q if high == low else 1.0 - q, 1e-300)) for q in self._agree]
        top = max(logs)
        weight = [
            ((1.0 - _JUMP) * b + _JUMP * p) * math.exp(e - top)
            for b, p, e in zip(belief, self._prior, logs, strict=True)
        ]
        total = sum(weight)
        return [w / total for w in weight]

    def value(self, belief: list[float]) -> float:
        """Return the geometric mean of zeta."""
        return math.exp(sum(b * math.log(z) for b, z in zip(belief, self.zeta, strict=True)))

    def checked(self, belief: list[float]) -> list[float]:
        """Return a saved belief, or raise an error if it cannot be one."""
        found = [finite("ShadowGuard", "learned", b) for b in belief]
        if len(found) != len(self.zeta) or min(found) < 0.0 or not 0.99 < sum(found) < 1.01:
            raise ValueError(f"state.learned must be {len(self.zeta)} probabilities, not {belief!r}")
        return found


def learn_zeta(detector: Detector, name: str, zeta: float) -> None:
    """Use a learned zeta from now on; the belief and the budget continue."""
    best = max(f.zeta for f in detector.fidelities)
    _exchange(detector, replace(detector._by_name[name], zeta=min(zeta, _HIGHEST * best)))


def learn_cost(detector: Detector, name: str, actual: float) -> None:
    """Move the cost that a policy expects of a fidelity towards what a reading actually cost.

    A cost that is a function does not change. Neither does a cost with which the budget could no longer pay for the
    cheapest fidelity.
    """
    fidelity = detector._by_name[name]
    if callable(fidelity.cost) or actual <= 0.0:
        return
    try:
        _exchange(detector, replace(fidelity, cost=fidelity.cost + _RATE * (actual - fidelity.cost)))
    except ValueError:
        return


def _exchange(detector: Detector, new: Fidelity) -> None:
    fidelities = tuple(new if f.name == new.name else f for f in detector.fidelities)
    policy = detector.policy.rebound(fidelities)  # the last step that can fail
    detector._use(fidelities, policy)
