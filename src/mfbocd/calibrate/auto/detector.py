"""The automatic detector: it learns the structure of a series while it follows it."""

from __future__ import annotations

import copy
import math
from typing import Any, Self

import numpy as np

from ...belief.alarm import Alarm
from ...belief.records import Surprise
from ...detector.lock import exclusive
from ...detector.step import Step, seed_of
from ...inputs.arguments import boolean, positive, probability, whole
from ...inputs.display import count_text, html_facts
from ...inputs.readings import floats, number
from ...policy.fidelity import Fidelity
from ...trace.regimes import LevelRule
from ...trace.trace import Trace, season_of
from .following import AutoFollower
from .pattern import Pattern
from .posterior import FIRST, HAZARD
from .repeats import counted
from .rows import Member, Rows
from .saved import read, write
from .season import Array, Ticks
from .surprise import surprise_of

_FULL = (Fidelity("full", 1.0, 1.0),)
_LINES = LevelRule((1.0,), line=True)


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

    Attributes
    ----------
    ticks : int
        Number of readings so far.
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
        self.fidelities = _FULL
        self.level_rule = _LINES  # how the levels of changes follow from the readings
        self.changes: list[tuple[int, int]] = []
        self.ticks = 0
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
    def update(self, x: Any) -> Step:
        """Take one reading.

        Parameters
        ----------
        x : float or None
            The reading; None or NaN if it is missing.

        Returns
        -------
        Step
            The record of the tick.

        Raises
        ------
        TypeError, ValueError
            If `x` is not a finite number. Nothing changes.
        """
        value = math.nan if x is None else number(x)
        if math.isinf(value):
            raise ValueError(f"x must be finite, not {x!r}")
        surprise = self._surprise(value) if self.surprise else None
        step = self._advance(np.array([value])).step(0, self.ticks - 1, value, self.fidelities[0].name)
        return step if surprise is None else step._replace(surprise=surprise)

    @exclusive
    def run(self, data: Any) -> Trace:
        """Take many readings.

        Parameters
        ----------
        data : array-like
            The readings, NaN where missing.

        Returns
        -------
        Trace
            The same steps as from `update`.

        Raises
        ------
        TypeError, ValueError
            If a reading is not a number or infinite. Nothing changes.
        """
        x = floats(data)
        if x.ndim != 1:
            raise ValueError(f"data must be one series, not an array of shape {x.shape}")
        if np.isinf(x).any():
            raise ValueError(f"reading {int(np.argmax(np.isinf(x)))} must be finite, not {x[np.isinf(x)][0]!r}")
        first = self.ticks
        rows = Rows.empty(x.size)
        tails = np.full((3, x.size), np.nan)
        start = 0
        while start < x.size:
            end = min(start + max(min(self._next, self._refresh) - self.ticks, 1), x.size)
            if self.surprise:
                end = start + 1
                tails[:, start] = self._surprise(float(x[start])) or math.nan
            impossible = np.flatnonzero(~self._possible(x[start:end]))
            if impossible.size:  # the structure is chosen again right after the first of them
                end = start + int(impossible[0]) + 1
            end = min(end, start + self._until_report(x[start:end]))
            rows.put(start, self._advance(x[start:end]))
            start = end
        return Trace(
            choice=np.where(np.isnan(x), -1, 0),
            x=x,
            cost=np.ones(x.size),
            fidelities=(self.fidelities[0].name,),
            first=first,
            costs=(1.0,),
            surprise=Surprise(*tails) if self.surprise else None,
            season=season_of(self, x, first),
            level_rule=self.level_rule,
            **rows._asdict(),
        )

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
        return surprise_of(self._members, x)


def auto(
    hazard: float = HAZARD,
    alarm: Alarm | float | None = None,
    *,
    period: float | None = None,
    history: int = 2048,
    seed: int = 0,
    surprise: bool = False,
) -> AutoDetector:
    """Return a detector for a live stream of which nothing is known in advance.

    Parameters
    ----------
    hazard, alarm, period, history, seed, surprise : Any
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
    return AutoDetector(hazard, alarm, period=period, history=history, seed=seed, surprise=surprise)
