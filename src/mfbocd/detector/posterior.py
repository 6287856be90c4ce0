"""What a detector knows about its stream: the posterior, and the questions it answers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._kernels import layout
from ..belief.filter import Array, Filter
from ..belief.gains import GAINS, FidelityGain, Gains, expected_gains
from ..belief.hazard import Hazard
from ..belief.records import RunLength, Start
from ..inputs.arguments import probability
from ..models import Mixture, Model
from ..policy import Policy
from ..policy.fidelity import Fidelity
from .lock import OneThread, exclusive


class Posterior(OneThread):
    """The part of `Detector` that reads the run-length posterior and changes nothing."""

    model: Model
    """The family of the readings with its prior."""
    hazard: Hazard
    """P(change) by run length, as it was given; `hazard_posterior` is its posterior if it is learned."""
    fidelities: tuple[Fidelity, ...]
    """The ways to observe."""
    policy: Policy
    """How the next fidelity is chosen, bound to the fidelities."""
    seed: int
    """Seed of the policy's and the resampling's random numbers."""
    learn: bool
    """Whether zeta and cost are learned."""
    _filter: Filter
    _by_name: dict[str, Fidelity]
    _tick: int  # index of the last tick, as in the state, which takes longer to read
    _quoted: tuple[int, Any, dict[str, float]]  # the tick, raw input and costs that `choose` last asked about

    @property
    def ticks(self) -> int:
        """Number of ticks so far."""
        return self._tick + 1

    @property
    @exclusive
    def run_length(self) -> RunLength:
        """The filtered posterior P(r_t = l | x_1..x_t), shortest run first; r_t = 0 if x_t began a new regime.

        Examples
        --------
        >>> from mfbocd import Detector, Gaussian
        >>> detector = Detector(Gaussian(0, 9, 1), hazard=0.01)
        >>> for x in (0.0, 0.1, 4.0):
        ...     step = detector.update(x)
        >>> detector.run_length.length, detector.run_length.weight.round(4)
        (array([0, 1, 2]), array([0.2571, 0.0102, 0.7327]))
        """
        return self._filter.run_length

    @property
    def map_run_length(self) -> int | None:
        """The most probable run length; None before the first tick."""
        return int(self._filter.state[layout.RUN]) if self._tick >= 0 else None

    @exclusive
    def p_changed(self, within: int) -> float:
        """Return P(a regime began in the last `within` ticks), that is P(r_t < within).

        The start of the stream itself does not count as a change.

        Parameters
        ----------
        within : int
            Length of the window in ticks, at least 1.

        Returns
        -------
        float
            The probability; 0 before the first tick.

        Raises
        ------
        ValueError
            If `within` is below 1.

        Examples
        --------
        >>> from mfbocd import Detector, Gaussian
        >>> detector = Detector(Gaussian(0, 9, 1), hazard=0.01)
        >>> for x in (0.0, 0.1, -0.2, 3.0, 3.2):
        ...     step = detector.update(x)
        >>> round(detector.p_changed(within=1), 3), round(detector.p_changed(within=3), 3)
        (0.016, 0.43)
        """
        return self._filter.p_changed(within)

    @exclusive
    def regime(self, level: float = 0.9) -> Start:
        """Return when the current regime began.

        Parameters
        ----------
        level : float
            Probability of the credible interval, in (0, 1).

        Returns
        -------
        Start
            The most probable tick, an equal-tailed credible interval, and P(that tick).

        Raises
        ------
        ValueError
            Before the first tick.

        Examples
        --------
        >>> from mfbocd import Detector, Gaussian
        >>> detector = Detector(Gaussian(0, 9, 1), hazard=0.01)
        >>> for x in (0.0, 0.1, -0.2, 7.0, 7.2):
        ...     step = detector.update(x)
        >>> detector.regime().at
        3
        """
        if self._tick < 0:
            raise ValueError("no regime has begun: there was no tick yet")
        return self._filter.start(probability("", "level", level))

    @exclusive
    def families(self) -> dict[str, float]:
        """Return the probability of each family of a `Mixture` in the current regime, averaged over run lengths.

        Returns
        -------
        dict of str to float
            P(family | x_1..x_t) by name (`Mixture.names`); the prior probabilities before the first tick.

        Raises
        ------
        TypeError
            If the model is not a `Mixture`.

        Examples
        --------
        >>> from mfbocd import Detector, GaussianUnknown, Mixture, Trend
        >>> detector = Detector(Mixture(GaussianUnknown(), Trend()), hazard=0.01)
        >>> for t in range(20):
        ...     step = detector.update(0.5 * t + 0.3 * (-1) ** t)
        >>> {name: round(p, 3) for name, p in detector.families().items()}
        {'GaussianUnknown': 0.0, 'Trend': 1.0}
        """
        if not isinstance(self.model, Mixture):
            raise TypeError(f"{type(self.model).__name__} is one family: only a Mixture has several")
        shares = self.model.families(self.model.prior())
        if self._tick >= 0:
            shares = self._filter.run_length.weight[::-1] @ self.model.families(self._filter.stats)
        return dict(zip(self.model.names, shares.tolist(), strict=True))

    @property
    @exclusive
    def hazard_posterior(self) -> tuple[Array, Array]:
        """The candidates of a `Learned` hazard and their posterior probabilities; else the hazard's table and 1.

        Examples
        --------
        >>> from mfbocd import Detector, Gaussian, Learned, simulate
        >>> stream = simulate.gaussian(Gaussian(0, 9, 1), hazard=0.05, ticks=1000, seed=1)
        >>> detector = Detector(Gaussian(0, 9, 1), hazard=Learned())
        >>> for x in stream.table[:, 0]:
        ...     step = detector.update(x)
        >>> hazard, probability = detector.hazard_posterior
        >>> round(float(hazard @ probability), 2)
        0.05
        """
        candidates = self._filter.candidates
        return self.hazard.table, candidates if candidates.size else np.ones(1)

    @property
    def log_evidence(self) -> float:
        """Log p(x_1 .. x_t), the sum of the log predictives."""
        state = self._filter.state
        return float(state[layout.EVIDENCE] + state[layout.SLOPES])

    @property
    @exclusive
    def mean(self) -> Any:
        """E[x_{t+1}], where a change at t + 1 is possible; an array if a reading has several numbers."""
        if self.model.dimension > 1:
            return self._filter.predictive(1.0)[0]
        return float(self._filter.state[layout.MEAN])

    @property
    @exclusive
    def variance(self) -> Any:
        """Var[x_{t+1}] of a full-fidelity reading; an array if a reading has several numbers."""
        return self._filter.predictive(1.0)[1]

    @exclusive
    def interval(self, level: float = 0.9, fidelity: Fidelity | str | None = None) -> tuple[Any, Any]:
        """Return the interval that x_{t+1} lies in with a given probability, with equal tails.

        Parameters
        ----------
        level : float
            Probability of the interval, in (0, 1).
        fidelity : Fidelity or str, optional
            The fidelity of that reading; full fidelity (zeta = 1) by default.

        Returns
        -------
        tuple
            Lower and upper end: floats, or arrays if a reading has several numbers, each with its own interval.

        Raises
        ------
        ValueError
            If the fidelity is unknown, or has zeta = 0 and so reads nothing.

        Examples
        --------
        >>> from mfbocd import Detector, Gaussian
        >>> detector = Detector(Gaussian(0, 9, 1))
        >>> [round(end, 2) for end in detector.interval(0.9)]
        [-5.2, 5.2]
        """
        zeta = 1.0 if fidelity is None else self._own_fidelity(fidelity).zeta
        if zeta == 0.0:
            raise ValueError(f"fidelity {fidelity!r} is a skip: it reads nothing that could lie anywhere")
        tail = 0.5 * (1.0 - probability("", "level", level))
        low, high = self._filter.quantile(tail, zeta), self._filter.quantile(1.0 - tail, zeta)
        # Ends closer than the accuracy of the search may come out in the wrong order.
        return low, np.maximum(low, high) if self.model.dimension > 1 else max(low, high)

    @property
    @exclusive
    def parameter(self) -> tuple[Any, Any]:
        """Mean and variance of the current regime's parameter; arrays if there are several parameters."""
        return self._filter.parameter()

    @exclusive
    def gains(self, raw: Any = None) -> Gains:
        """Return the gains of each fidelity at the coming tick, and its cost.

        Parameters
        ----------
        raw : Any
            The raw input; needed where a cost is a function of it.

        Returns
        -------
        Gains
            One `FidelityGain` per fidelity; printed, a table that shows why one was chosen.

        Examples
        --------
        >>> from mfbocd import Detector, Gaussian
        >>> imu, gps = Fidelity("imu", zeta=0.1, cost=1), Fidelity("gps", zeta=1.0, cost=40)
        >>> detector = Detector(Gaussian(0, 9, 1), [imu, gps])
        >>> for x in [0.1, -0.2, 0.0, 0.1, 7.9, 8.1]:
        ...     step = detector.update(x, "gps")
        >>> print(detector.gains())
          fidelity       zeta      cost  run length     joint   variance    change
          imu             0.1         1     0.00981   0.03414    0.03839   0.02473
        > gps               1        40     0.02231   0.22003    0.18407   0.20173
        """
        chosen = self._choose(raw)
        each = [expected_gains(self._filter, self.policy.zeta, gain).tolist() for gain in GAINS]
        return Gains(
            FidelityGain(f.name, f.zeta, f.cost_of(raw), run_length, joint, variance, change, f is chosen)
            for f, run_length, joint, variance, change in zip(self.fidelities, *each, strict=True)
        )

    def _choose(self, raw: Any) -> Fidelity:
        """Return the fidelity that the policy chooses for the coming tick."""
        return self.fidelities[self.policy.choose(self._filter, self.seed, self._costs(raw))]

    def _costs(self, raw: Any) -> Array | None:
        """Return the cost of each fidelity for this raw input; None if no cost depends on it."""
        if not self.policy.priced:
            return None
        costs = {f.name: f.cost_of(raw) for f in self.fidelities}
        self._quoted = (self._tick, raw, costs)
        return np.array(list(costs.values()))

    def _own_fidelity(self, fidelity: Fidelity | str) -> Fidelity:
        """Return the detector's own fidelity of that name; ValueError if there is none, or it is a different one."""
        name = fidelity.name if isinstance(fidelity, Fidelity) else fidelity
        own = self._by_name.get(name) if isinstance(name, str) else None
        # With `learn` the caller may have a fidelity from before its zeta or cost was learned.
        if own is None or (isinstance(fidelity, Fidelity) and fidelity != own and not self.learn):
            raise ValueError(f"fidelity must be one of {', '.join(self._by_name)}, not {fidelity!r}")
        return own
