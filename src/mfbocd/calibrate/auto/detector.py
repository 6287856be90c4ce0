"""The automatic detector: it learns the structure of a series while it follows it."""

from __future__ import annotations

import copy
import math
from typing import Any, Self

import numpy as np

from ...belief.alarm import Alarm
from ...belief.records import Surprise
from ...detector.base import ANY_NUMBER
from ...detector.lock import exclusive
from ...detector.step import Step, reading, seed_of
from ...inputs.arguments import boolean, not_negative, positive, probability, whole
from ...inputs.display import count_text, html_facts
from ...policy import policy_of
from ...policy.fidelity import Fidelity, checked
from ...trace.run import run
from ...trace.trace import Trace
from .following import AutoFollower
from .pattern import Pattern
from .posterior import FIRST, HAZARD
from .repeats import counted
from .rows import Member, Rows
from .saved import read, write
from .season import Array, Ticks
from .surprise import surprise_of


class AutoDetector(AutoFollower):
    """Detect changes in a series of which nothing is known in advance.

    The detector estimates from the readings so far whether they are numbers, counts or 0/1, their scale, season,
    autocorrelation and outliers, and whether their variance drifts. It never uses later readings. At ticks 20, 25,
    31, ... it chooses the structure again and replays the readings so far, so that a misleading start does not
    persist.

    Parameters
    ----------
    hazard : float, default 1/500
        P(change) per tick.
    alarm : Alarm or float, optional
        When a structure reports a change; ``Alarm(within=200, threshold=0.9)`` by default. A number is the threshold.
    period : float, optional
        Ticks per season, if it is known (`calibrate.period_of` converts "daily" and the like). The season is used as
        soon as two of them were seen, if it raises the evidence. Without it, seasons are found in the readings.
    history : int, default 2048
        Readings kept for choosing the structure. Memory and time per reading do not grow beyond it.
    seed : int, default 0
        Seed of the resampling of hypotheses.
    surprise : bool, default False
        Whether every step has its `Step.surprise`, in units of the readings and averaged over the structures. It is
        slower. Steps before the first structure, and readings that are missing or not counted, have none.
    fidelity : Fidelity, optional
        Name, cost and observer of the readings; one full observation per tick by default.

    Attributes
    ----------
    changes : list of tuple
        Tick of the alarm and tick of the change, of the last 1000 alarms.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range.

    Notes
    -----
    Structures are compared by their evidence (`calibrate.auto.selection`). The most probable ones, at most four, are
    followed at the same time. An alarm fires when structures with at least half of the posterior probability have
    reported a change. So a change that only an improbable structure sees, such as a swing of autocorrelated noise for
    a structure with white noise, is not reported. Within the first `history` ticks the structures are chosen again
    before an alarm, from all readings so far, and it fires only if the new ones report a change too: a season may
    explain it by then, or a larger share of outliers.

    If even the most probable structure needs ten changes or more, one in fewer than 30 ticks, they are taken for
    swings of a recurring pattern. Until the next choice, changes of the shape of blocks are reported instead
    (`calibrate.shape_detector`).

    A reading that equals the one before is not counted if hardly any readings that are not neighbours are equal: it
    is a sensor that repeats its last value. After 50 repetitions it is counted.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> series = np.concatenate([rng.normal(5, 1, 200), rng.normal(9, 1, 100)])
    >>> detector = AutoDetector()
    >>> for x in series:
    ...     step = detector.update(x)
    ...     if step.alarm:
    ...         print(step.tick, step.changed_at)
    201 200
    """

    def __init__(
        self,
        hazard: float = HAZARD,
        alarm: Alarm | float | None = None,
        *,
        period: float | None = None,
        history: int = 2048,
        seed: int = 0,
        surprise: bool = False,
        fidelity: Fidelity | None = None,
    ) -> None:
        self._renew()
        self.hazard = probability("", "hazard", hazard)
        self.alarm = alarm if isinstance(alarm, Alarm) else Alarm(200, 0.9 if alarm is None else alarm)
        self.period = None if period is None else positive("", "period", period)
        if self.period is not None and self.period <= 2.0:
            raise ValueError(f"period must exceed 2 ticks, not {period!r}")
        self.history = whole("", "history", history, 2 * FIRST)
        self.seed = seed_of(seed)
        self.surprise = boolean("", "surprise", surprise)
        self.fidelities = checked(fidelity)
        self.policy = policy_of(None, self.fidelities).bind(self.fidelities)
        self.missing = "skip"
        self.spent = 0.0
        self._reader = ANY_NUMBER
        self._by_name = {f.name: f for f in self.fidelities}
        self._quoted, self._chosen = (-1, None, {}), (-1, None)
        self.changes: list[tuple[int, int]] = []
        self._ticks = 0
        self._x = np.empty(0)
        self._next = FIRST
        self._refresh = self.history
        self._reconsidered = 0
        self._last_alarm = -1
        self._origin = 0
        self._once = False  # whether repeated readings are skipped
        self._repeats = 0
        self._early = 0  # readings before the first structure, and their mean
        self._early_mean = 0.0
        self._members: list[Member] = []
        self._pattern: Pattern | None = None  # reports changes instead of the members

    def __repr__(self) -> str:
        return f"<AutoDetector: {count_text(self.ticks, 'tick')}, {count_text(len(self.changes), 'change')}>"

    def _repr_html_(self) -> str:
        known = self.structure
        facts: dict[str, object] = {
            "hazard": self.hazard,
            "alarm": repr(self.alarm),
            "changes": count_text(len(self.changes), "change"),
            "last change": f"tick {self.changes[-1][1]}" if self.changes else None,
        }
        if known is not None:
            facts["structure"] = known.kind if known.transform == "none" else f"{known.transform} of the readings"
            facts["seasons"] = ", ".join(f"{season.period:.4g} ticks" for season in known.seasons) or None
        return html_facts(f"AutoDetector: {count_text(self.ticks, 'tick')}", facts.items())

    @exclusive
    def to_bytes(self) -> bytes:
        """Return everything as a small versioned binary, never pickle.

        A loaded detector continues with identical results on the same type of CPU and with the same library versions.

        Returns
        -------
        bytes
            What `from_bytes` takes; at most some 100 KB with the default `history`.
        """
        return write(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the detector that `to_bytes` saved.

        Parameters
        ----------
        data : bytes
            What `to_bytes` returned.

        Returns
        -------
        AutoDetector
            A detector in the same state.

        Raises
        ------
        TypeError, ValueError
            If these are not such bytes, or if they are damaged.

        Examples
        --------
        >>> detector = AutoDetector()
        >>> trace = detector.run([3.1, 2.9, 3.0])
        >>> AutoDetector.from_bytes(detector.to_bytes()).ticks
        3
        """
        return read(cls, data)

    def __copy__(self) -> Self:
        return copy.deepcopy(self)

    @exclusive
    def update(
        self, x: Any, fidelity: Fidelity | str | None = None, *, raw: Any = None, cost: float | None = None
    ) -> Step:
        """Update the belief with a reading; an error changes nothing."""
        observed = self._resolve(fidelity, x)
        value = reading(ANY_NUMBER, x, "skip", observed)
        paid = 0.0
        if cost is not None:
            paid = not_negative("", "cost", cost)
        elif observed is not None:
            paid = self._cost_of(observed, raw)
        value = math.nan if value is None else value
        surprise = self._surprise(value) if self.surprise else None
        step = self._advance(np.array([value])).step(0, self.ticks - 1, value, observed, paid)
        self.spent += paid
        return step if surprise is None else step._replace(surprise=surprise)

    @property
    def bulk(self) -> bool:
        """Whether `advance` takes many readings at once."""
        return True

    @exclusive
    def advance(self, x: Array, choice: Ticks) -> dict[str, Any]:
        """Apply many ticks, in pieces that end where a structure may be chosen again."""
        rows = Rows.empty(x.size)
        start = 0
        while start < x.size:
            end = min(start + max(min(self._next, self._refresh) - self.ticks, 1), x.size)
            impossible = np.flatnonzero(~self._possible(x[start:end]))
            if impossible.size:  # the structure is chosen again right after the first of them
                end = start + int(impossible[0]) + 1
            end = min(end, start + self._until_report(x[start:end]))
            rows.put(start, self._advance(x[start:end]))
            start = end
        self.spent += float(self.policy.cost[choice].sum())
        return rows._asdict()

    def run(self, data: Any) -> Trace:
        """Take many readings: `mfbocd.run`.

        Parameters
        ----------
        data : array-like
            The readings, NaN where missing.

        Returns
        -------
        Trace
            The same steps as from `update`.
        """
        return run(self, data)

    def without_seasons(self, x: Array, tick: Ticks) -> Array:
        """Return readings without the seasons found so far.

        Parameters
        ----------
        x : ndarray
            Readings, NaN where missing.
        tick : ndarray of int
            Their ticks.

        Returns
        -------
        ndarray
            The readings themselves if no season was found.
        """
        return x if self.structure is None else self.structure.without_seasons(x, tick)

    def _surprise(self, x: float) -> Surprise | None:
        """Return how surprising the coming reading is; None before the first structure, or if it does not count."""
        before = float(self._x[-1]) if self._x.size else math.nan
        if not self._members or not counted(np.array([x]), self._once, before, self._repeats)[0][0]:
            return None
        return surprise_of(self._members, x, self.ticks)


def auto(
    hazard: float = HAZARD,
    alarm: Alarm | float | None = None,
    *,
    period: float | None = None,
    history: int = 2048,
    seed: int = 0,
    surprise: bool = False,
    fidelity: Fidelity | None = None,
) -> AutoDetector:
    """Return a detector for a live stream of which nothing is known in advance.

    Parameters
    ----------
    hazard, alarm, period, history, seed, surprise, fidelity : Any
        As in `AutoDetector`.

    Returns
    -------
    AutoDetector
        A new detector: pass it each reading with `AutoDetector.update`.

    Examples
    --------
    >>> detector = auto()
    >>> detector.update(20.3).alarm
    False
    """
    return AutoDetector(
        hazard, alarm, period=period, history=history, seed=seed, surprise=surprise, fidelity=fidelity
    )
