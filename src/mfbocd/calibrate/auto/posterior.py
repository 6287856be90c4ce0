"""What the automatic detector knows about its series, and the questions it answers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ...belief.gains import Gain
from ...belief.records import RunLength
from ...detector.base import BaseDetector
from ...detector.detector import Detector
from ...detector.level_rule import LevelRule
from ...detector.lock import exclusive
from ...policy.fidelity import Fidelity
from .explain import Account, cautions, explanation
from .pattern import Pattern
from .rows import Member
from .season import Array
from .selection import History
from .structure import Structure

HAZARD = 1 / 500
"""P(change) per tick, by default."""
FIRST = 20
"""Readings before the first structure is chosen; no alarm fires earlier."""


class AutoPosterior(BaseDetector, ABC):
    """The part of `AutoDetector` that changes nothing."""

    changes: list[tuple[int, int]]
    """Tick of the alarm and tick of the change, of the last 1000 alarms."""
    _ticks: int
    _members: list[Member]
    _once: bool
    _pattern: Pattern | None
    _early: int
    _early_mean: float

    @abstractmethod
    def _past(self) -> History:
        """Return the readings that are kept."""

    @abstractmethod
    def _make(self, structure: Structure) -> Detector:
        """Return a new detector of a structure."""

    @property
    def ticks(self) -> int:
        """Number of readings so far."""
        return self._ticks

    @property
    def last_alarm(self) -> int:
        """Tick of the last alarm; -1 before the first."""
        return self.changes[-1][0] if self.changes else -1

    @property
    def level_rule(self) -> LevelRule:
        """How the levels of regimes follow from the readings: regimes may be lines."""
        return LevelRule(tuple(f.zeta for f in self.fidelities), line=True)

    @exclusive
    def expected_gains(self, gain: Gain) -> Array:
        """Return one kind of gain of each fidelity, averaged over the structures; 0 before the first of them."""
        total = np.zeros(len(self.fidelities))
        for member in self._members:
            total += member.weight * member.detector.expected_gains(gain)
        return total

    def _choose(self, raw: Any) -> Fidelity:
        return self.fidelities[0]

    @property
    def structure(self) -> Structure | None:
        """The most probable structure of the series; None before the first 20 readings."""
        return self._members[0].structure if self._members else None

    @property
    @exclusive
    def mean(self) -> float:
        """E[x_{t+1}] of the most probable structure, in units of the readings.

        Where readings are transformed it is the value whose transform is expected.
        """
        if not self._members:
            return self._early_mean
        return self._restored(float(self._members[0].detector.mean))

    @property
    @exclusive
    def run_length(self) -> RunLength:
        """The run-length posterior of the most probable structure; see `Detector.run_length`."""
        if self._members:
            return self._members[0].detector.run_length
        return RunLength(np.array([max(self.ticks - 1, 0)]), np.ones(1))

    @exclusive
    def p_changed(self, within: int) -> float:
        """Return P(a regime began in the last `within` ticks), averaged over the structures.

        Parameters
        ----------
        within : int
            Length of the window in ticks.

        Returns
        -------
        float
            The probability; 0 before the first 20 readings.
        """
        return min(sum(member.weight * member.detector.p_changed(within) for member in self._members), 1.0)

    @exclusive
    def interval(self, level: float = 0.9, fidelity: Fidelity | str | None = None) -> tuple[float, float]:
        """Return an interval that contains the next reading with a given probability.

        Parameters
        ----------
        level : float
            The probability.
        fidelity : Fidelity or str, optional
            The fidelity of that reading.

        Returns
        -------
        low, high : float
            Ends of the interval, in units of the readings; infinite before the first 20 readings.
        """
        if not self._members:
            return -math.inf, math.inf
        low, high = self._members[0].detector.interval(level)
        return self._restored(low), self._restored(high)

    def _restored(self, y: float) -> float:
        """Return a value of the most probable structure for the coming tick, in units of the readings."""
        return float(self._members[0].structure.restored(np.array([y]), np.array([self.ticks]))[0])

    @exclusive
    def explain(self) -> str:
        """Explain in words which structure the series has, and why.

        Returns
        -------
        str
            A few lines. The reason for a feature is how much lower the evidence of the readings so far is without it:
            a difference of n nats makes the simpler structure exp(n) times less probable.

        Examples
        --------
        >>> rng = np.random.default_rng(1)
        >>> import mfbocd as mf
        >>> detector = mf.auto()
        >>> trace = detector.run(5 + 2 * np.sin(np.arange(300) / 3) + rng.normal(size=300))
        >>> [line for line in detector.explain().splitlines() if "Season" in line]
        ['Season of 18.85 ticks: without it the evidence is 107 nats lower.']
        """
        account = self._account()
        if account is None:
            return self._waiting()
        lines = explanation(account)
        if self._pattern is not None:
            lines.append(
                f"It swings in a recurring pattern that no structure describes: blocks of {self._pattern.every} "
                "readings are compared by their shape."
            )
        if self.changes:
            count = len(self.changes)
            lines.append(
                f"{count} change{'s' if count > 1 else ''} reported, the last at tick {self.changes[-1][1]}."
            )
        return "\n".join([*lines, f"No alarm fires before tick {FIRST - 1}, when the structure is chosen first."])

    @exclusive
    def warnings(self) -> list[str]:
        """Say what may make the alarms unreliable.

        Returns
        -------
        list of str
            One entry for each of: few readings, many missing ones, a constant series, a series that moves like a
            random walk, very frequent changes, and structure that none of the models describes. Empty if there is
            nothing to say.

        Examples
        --------
        >>> import mfbocd as mf
        >>> detector = mf.auto()
        >>> trace = detector.run([5.0] * 50)
        >>> detector.warnings()
        ['The series is constant: the size of its noise is unknown, so any other value is a change.']
        """
        account = self._account()
        if account is None:
            return [self._waiting()]
        return cautions(account)

    def _waiting(self) -> str:
        """Say why there is no structure."""
        many = f"{self._early} reading{'' if self._early == 1 else 's'}"
        missing = f" in {self.ticks} ticks" if self.ticks > self._early else ""
        return f"Only {many}{missing} so far: changes are looked for from reading {FIRST} on."

    def _account(self) -> Account | None:
        """Return the facts that explanations and warnings use; None before the structure is chosen."""
        if not self._members:
            return None
        top = self._members[0]
        return Account(
            self.ticks, top.structure, top.detector, self._past(), self._make, self._once, list(self.changes)
        )
