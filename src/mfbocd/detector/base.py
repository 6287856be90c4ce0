"""The interface of all detectors: everything above this package uses a detector through it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..belief.alarm import Alarm
from ..belief.gains import GAINS, FidelityGain, Gain, Gains
from ..belief.records import RunLength, Start
from ..inputs.arguments import not_negative, probability, whole
from ..models import Gaussian, Model
from ..policy import Policy
from ..policy.fidelity import Fidelity
from .level_rule import LevelRule
from .lock import OneThread, exclusive
from .step import Missing, Step, readings

Array = NDArray[np.float64]  # (J,), (T,)
Ticks = NDArray[np.int64]  # (T,)

ANY_NUMBER = Gaussian()
"""A model that any finite number is a reading of."""


class BaseDetector(OneThread, ABC):
    """Anything that takes the readings of one stream and reports changes.

    Each tick is one round of a loop: `choose` a fidelity, observe at it, `update` the belief. Only one thread at a
    time may use a detector.

    Attributes
    ----------
    fidelities : tuple of Fidelity
        The ways to observe.
    policy : Policy
        How the next fidelity is chosen, bound to the fidelities.
    alarm : Alarm or None
        When `Step.alarm` is set; None for never.
    seed : int
        Seed of the policy's and the resampling's random numbers.
    missing : {"raise", "skip"}
        What a reading of None or NaN does.
    surprise : bool
        Whether every step has its `Step.surprise`.
    spent : float
        Cost of all readings so far.
    dimension : int
        Numbers per reading.

    Examples
    --------
    >>> import mfbocd as mf
    >>> def alarms(detector: mf.BaseDetector, readings: list[float]) -> list[int]:
    ...     return [step.tick for step in map(detector.step, readings) if step.alarm]
    >>> alarms(mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.01), [0.1, -0.3, 0.2, 6.0, 6.1])
    [3]
    >>> alarms(mf.auto(), [0.1, -0.3, 0.2, 6.0, 6.1])  # too few readings to choose a structure
    []
    """

    fidelities: tuple[Fidelity, ...]
    policy: Policy
    alarm: Alarm | None
    seed: int
    missing: Missing
    surprise: bool
    spent: float
    dimension: int = 1
    _reader: Model  # tells which readings are possible
    _by_name: dict[str, Fidelity]
    learn: bool = False  # whether fidelities change while the detector runs
    _chosen: tuple[int, Fidelity | None]  # the ticks before the last `choose`, and its fidelity
    _quoted: tuple[int, Any, dict[str, float]]  # the same, the raw input and the costs asked about

    @property
    @abstractmethod
    def ticks(self) -> int:
        """Number of ticks so far."""

    @property
    @abstractmethod
    def last_alarm(self) -> int:
        """Tick of the last alarm; -1 before the first."""

    @property
    @abstractmethod
    def level_rule(self) -> LevelRule:
        """How the levels of regimes follow from the readings."""

    @exclusive
    def choose(self, raw: Any = None) -> Fidelity:
        """Return the fidelity to read at the coming tick.

        Until the next `update` the answer stays the same.

        Parameters
        ----------
        raw : Any
            The raw input; needed where a cost is a function of it.

        Returns
        -------
        Fidelity
            One of `fidelities`.

        Examples
        --------
        >>> from mfbocd import Detector, Fidelity, Gaussian, Net
        >>> imu, gps = Fidelity("imu", zeta=0.1, cost=1), Fidelity("gps", zeta=1.0, cost=40)
        >>> detector = Detector(Gaussian(0, 9, 1), [imu, gps], policy=Net(0.01))
        >>> detector.choose()
        Fidelity(name='gps', zeta=1.0, cost=40.0)
        """
        chosen = self._choose(raw)
        self._chosen = self.ticks, chosen
        return chosen

    @abstractmethod
    def update(
        self, x: Any, fidelity: Fidelity | str | None = None, *, raw: Any = None, cost: float | None = None
    ) -> Step:
        """Update the belief with a reading; an error changes nothing.

        Parameters
        ----------
        x : Any
            The reading. None, and NaN with ``missing="skip"``, is a tick without a reading.
        fidelity : Fidelity or str, optional
            What `x` was read at. It may be omitted if there is only one fidelity, or after `choose` at this tick.
        raw : Any
            The raw input; needed where a cost is a function of it and `choose` did not get it at this tick.
        cost : float, optional
            What the reading actually cost; by default what the fidelity costs.

        Returns
        -------
        Step
            The record of the tick.

        Raises
        ------
        TypeError, ValueError
            If the reading is impossible, or if the fidelity is unknown, or omitted where there are several.
        """

    def update_from(self, value_of: Callable[[Fidelity], Any], raw: Any = None) -> Step:
        """Choose a fidelity, take its reading from a table, and update.

        Parameters
        ----------
        value_of : callable
            Returns the reading at a fidelity.
        raw : Any
            The raw input; needed where a cost is a function of it.

        Returns
        -------
        Step
            The record of the tick.
        """
        chosen = self.choose(raw)
        value = value_of(chosen)
        if chosen.zeta == 0.0 and self.missing == "skip":
            value = None
        return self.update(value, chosen.name, raw=raw)

    @property
    def has_outliers(self) -> bool:
        """Whether steps have the probability of an outlier."""
        return False

    @property
    def bulk(self) -> bool:
        """Whether `advance` takes many readings at once."""
        return False

    def readings(self, cells: NDArray[Any], fidelity: Fidelity, where: Callable[[int], str]) -> Array:
        """Return many readings at one fidelity as floats, NaN where missing.

        Parameters
        ----------
        cells : ndarray
            The readings along the first axis.
        fidelity : Fidelity
            What they were read at.
        where : callable
            Returns how an error names the i-th reading.

        Returns
        -------
        ndarray
            The corrected readings.

        Raises
        ------
        TypeError, ValueError
            If a reading is impossible.
        """
        return readings(self._reader, cells, self.missing, where, [fidelity])

    def advance(self, x: Array, choice: Ticks) -> dict[str, Any]:
        """Apply many ticks whose choices are known in advance: the same steps as from `update`.

        Parameters
        ----------
        x : ndarray
            Checked readings, NaN where missing.
        choice : ndarray of int
            Index of the fidelity that each was read at.

        Returns
        -------
        dict
            The fields of `Trace` that depend on the belief.

        Raises
        ------
        NotImplementedError
            If `bulk` is False.
        """
        raise NotImplementedError(f"{type(self).__name__} takes one reading at a time")

    def step(self, raw: Any = None) -> Step:
        """Choose a fidelity, observe `raw` with it, and update.

        Parameters
        ----------
        raw : Any
            The raw input, which is passed to `Fidelity.observe`.

        Returns
        -------
        Step
            The record of the tick.
        """
        chosen = self.choose(raw)
        x = raw if chosen.observe is None else chosen.observe(raw)
        return self.update(x, chosen, raw=raw)

    def wait(self, ticks: int) -> Step:
        """Let ticks pass with no reading and at no cost: a gap in irregular time.

        Parameters
        ----------
        ticks : int
            How many, at least 1.

        Returns
        -------
        Step
            The record of the last of them.

        Raises
        ------
        TypeError, ValueError
            If `ticks` is not a whole number of at least 1.

        Examples
        --------
        >>> from mfbocd import Detector, Gaussian
        >>> detector = Detector(Gaussian(0, 9, 1), hazard=0.01, alarm=None)
        >>> step = detector.update(0.3)
        >>> detector.wait(100).tick, round(detector.p_changed(within=100), 3)  # 1 - 0.99^100
        (100, 0.634)
        """
        for _ in range(whole("", "ticks", ticks, 1)):
            step = self.update(None)
        return step

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
        >>> from mfbocd import Detector, Fidelity, Gaussian
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
        each = [self.expected_gains(gain).tolist() for gain in GAINS]
        return Gains(
            FidelityGain(f.name, f.zeta, f.cost_of(raw), run_length, joint, variance, change, f is chosen)
            for f, run_length, joint, variance, change in zip(self.fidelities, *each, strict=True)
        )

    @abstractmethod
    def expected_gains(self, gain: Gain) -> Array:
        """Return one kind of gain of each fidelity at the coming tick.

        Parameters
        ----------
        gain : {"run_length", "joint", "variance", "change"}
            The kind (`belief.gains.expected_gains`).

        Returns
        -------
        ndarray
            One gain per fidelity.
        """

    @property
    @abstractmethod
    def mean(self) -> Any:
        """E[x_{t+1}], where a change at t + 1 is possible; an array if a reading has several numbers."""

    @abstractmethod
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
            Lower and upper end.
        """

    @property
    @abstractmethod
    def run_length(self) -> RunLength:
        """The filtered posterior P(r_t = l | x_1..x_t), shortest run first; r_t = 0 if x_t began a new regime."""

    @property
    def map_run_length(self) -> int | None:
        """The most probable run length; None before the first tick."""
        if self.ticks == 0:
            return None
        length, weight = self.run_length
        return int(length[np.argmax(weight)])

    @abstractmethod
    def p_changed(self, within: int) -> float:
        """Return P(a regime began in the last `within` ticks), that is P(r_t < within).

        Parameters
        ----------
        within : int
            Length of the window in ticks, at least 1.

        Returns
        -------
        float
            The probability; 0 before the first tick.
        """

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
        if self.ticks == 0:
            raise ValueError("no regime has begun: there was no tick yet")
        return self._start(probability("", "level", level))

    def _start(self, level: float) -> Start:
        """Return when the current regime began, from the run-length posterior."""
        length, weight = self.run_length
        return Start.of(np.float64(self.ticks - 1) - length[::-1], weight[::-1], level)

    @abstractmethod
    def explain(self) -> str:
        """Explain in words which model describes the stream, and why.

        Returns
        -------
        str
            One or several lines.
        """

    def warnings(self) -> list[str]:
        """Say what may make the alarms unreliable.

        Returns
        -------
        list of str
            Empty if there is nothing to say.
        """
        return []

    def without_seasons(self, x: Array, tick: Ticks) -> Array:
        """Return readings without the seasons that the detector knows; the same array if it knows none.

        Parameters
        ----------
        x : ndarray
            Readings, NaN where missing.
        tick : ndarray of int
            Their ticks.

        Returns
        -------
        ndarray
            Same shape.
        """
        return x

    @abstractmethod
    def to_bytes(self) -> bytes:
        """Return everything except functions as a small versioned binary, never pickle.

        Returns
        -------
        bytes
            What `from_bytes` takes.
        """

    @classmethod
    @abstractmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the detector that `to_bytes` saved.

        Parameters
        ----------
        data : bytes
            The saved detector.

        Returns
        -------
        BaseDetector
            A detector that continues where the saved one was.

        Raises
        ------
        ValueError
            If the bytes are no saved detector, or are damaged.
        """

    @abstractmethod
    def _choose(self, raw: Any) -> Fidelity:
        """Return the fidelity that the policy chooses for the coming tick."""

    def _resolve(self, fidelity: Fidelity | str | None, x: Any) -> Fidelity | None:
        """Return the fidelity that `x` was read at; None for a tick at which nothing was asked."""
        if fidelity is not None:
            return self._own_fidelity(fidelity)
        tick, chosen = self._chosen
        if x is None:
            skipped = tick == self.ticks and chosen is not None and chosen.zeta == 0.0
            return chosen if skipped else None
        if len(self.fidelities) == 1:
            return self.fidelities[0]
        if tick != self.ticks:
            raise ValueError(
                f"fidelity must be one of {', '.join(self._by_name)}: with several fidelities, give the one that was "
                "read, or call choose() first and read what it chose"
            )
        return chosen

    def _own_fidelity(self, fidelity: Fidelity | str) -> Fidelity:
        """Return the detector's own fidelity of that name; ValueError if there is none, or it is a different one."""
        name = fidelity.name if isinstance(fidelity, Fidelity) else fidelity
        own = self._by_name.get(name) if isinstance(name, str) else None
        # With `learn` the caller may have a fidelity from before its zeta or cost was learned.
        if own is None or (isinstance(fidelity, Fidelity) and fidelity != own and not self.learn):
            raise ValueError(f"fidelity must be one of {', '.join(self._by_name)}, not {fidelity!r}")
        return own

    def _costs(self, raw: Any) -> Array | None:
        """Return the cost of each fidelity for this raw input; None if no cost depends on it."""
        if not self.policy.priced:
            return None
        costs = {f.name: f.cost_of(raw) for f in self.fidelities}
        self._quoted = (self.ticks, raw, costs)
        return np.array(list(costs.values()))

    def _cost_of(self, fidelity: Fidelity, raw: Any) -> float:
        """Return the cost of a reading: what `choose` found at this tick, since reading may change the next cost."""
        if type(fidelity.cost) is float:
            return fidelity.cost
        tick, asked, costs = self._quoted
        if tick == self.ticks and (raw is None or raw is asked):
            return costs[fidelity.name]
        return fidelity.cost_of(raw)

    def _paid(self, fidelity: Fidelity | None, raw: Any, cost: float | None) -> float:
        """Return what a tick costs: the actual cost if it is given, 0 if nothing was asked."""
        if cost is not None:
            return not_negative("", "cost", cost)
        return 0.0 if fidelity is None else self._cost_of(fidelity, raw)
