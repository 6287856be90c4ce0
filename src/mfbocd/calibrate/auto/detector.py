"""The automatic detector: it learns what a series is while it watches it."""

from __future__ import annotations

import copy
import math
from typing import Any, Self

import numpy as np

from ..._kernels import layout
from ...belief.alarm import Alarm
from ...belief.filter import Surprise
from ...belief.pruning import Resample
from ...detector.detector import Detector
from ...detector.lock import alone
from ...detector.step import Step, report_fields, seed_of
from ...inputs.arguments import boolean, positive, probability, whole
from ...inputs.display import count_text, html_facts
from ...inputs.readings import floats, number
from ...policy.fidelity import Fidelity
from ...trace.regimes import LevelRule
from ...trace.trace import Trace
from .pattern import Pattern
from .posterior import FIRST, HAZARD, AutoPosterior
from .repeats import counted, repeats_itself
from .rows import Member, Report, Rows, agreed
from .saved import read, write
from .season import Array, Ticks
from .selection import History, candidates, refreshed, replay
from .structure import Flags, Structure
from .surprise import surprise_of

_GROWTH = 1.25  # the structure is chosen again when there are so many times as many ticks
_LATER = 2.0  # the same, once the history is full
_AGAIN = 4  # times that the structure is reconsidered before an alarm, until it is chosen again anyway
_HYPOTHESES = 64
_FULL = (Fidelity("full", 1.0, 1.0),)
_LINES = LevelRule((1.0,), line=True)


class AutoDetector(AutoPosterior):
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
        self._x = np.empty(0)  # the last readings, at most `history`
        self._next = FIRST
        self._refresh = self.history  # tick at which the seasons are fitted again
        self._reconsidered = 0  # times since the structure was last chosen at its tick
        self._last_alarm = -1
        self._origin = 0  # tick that the members' detectors began at
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

    @alone
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

    @alone
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

    @alone
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
            season=self._season(x, first),
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

    def _season(self, x: Array, first: int) -> Array | None:
        """Return what of the readings is season; None if no season was found."""
        if self.structure is None or not self.structure.seasons:
            return None
        return x - self.without_seasons(x, np.arange(first, first + x.size))

    def _surprise(self, x: float) -> Surprise | None:
        """Return how surprising the coming reading is; None before the first structure, or if it does not count."""
        before = float(self._x[-1]) if self._x.size else math.nan
        if not self._members or not counted(np.array([x]), self._once, before, self._repeats)[0][0]:
            return None
        return surprise_of(self._members, x, self.ticks)

    def _possible(self, x: Array) -> Flags:
        """Tell which readings every member can describe."""
        ok = np.ones(x.size, dtype=np.bool_)
        for member in self._members:
            ok &= member.structure.possible(x)
        return ok

    def _advance(self, x: Array) -> Rows:
        """Take readings up to the next choice of a structure; only the last may be impossible for the members."""
        rows = Rows.empty(x.size)
        used = self._used(x)
        fit = bool(self._possible(x[-1:])[0])
        first = self.ticks
        self._x = np.append(self._x, x)[-self.history :]
        self.ticks += x.size
        if self._members:
            self._feed(x if fit else x[:-1], used, first, rows)
        else:
            for i in range(x.size):
                if np.isfinite(x[i]):
                    self._early += 1
                    self._early_mean += float(x[i]) / self._early - self._early_mean / self._early
                rows.mean[i] = self._early_mean
            rows.run_length[:] = np.arange(first, self.ticks)
        if self.ticks >= self._refresh:
            self._refresh_seasons()
        if self.ticks >= self._next or (self._members and not fit):
            growth = _GROWTH if self.ticks < self.history else _LATER
            self._next = max(math.ceil(growth * self.ticks), FIRST)
            self._reconsidered = 0
            self._choose_again(rows, least=FIRST if fit else 1)
            report = self._agreed(self.ticks - 1)
            if report is not None:
                self._fire(self.ticks - 1, report, rows, x.size - 1)
        return rows

    def _until_report(self, x: Array) -> int:
        """Return how many readings to take until a structure may be reconsidered, right after the last of them."""
        end = x.size
        if end > 1 and self._members and self._may_reconsider():
            ahead = self.__copy__()
            for i, _, _ in ahead._fed(x, ahead._used(x), ahead.ticks, Rows.empty(x.size)):
                end = min(end, i + 1)
        return end

    def _may_reconsider(self) -> bool:
        """Tell whether an alarm now needs a new choice: later, the structure is known well and a choice is slow."""
        return self._pattern is None and self.ticks < self.history and self._reconsidered < _AGAIN

    def _used(self, x: Array) -> Flags:
        """Tell which of the coming readings count."""
        before = float(self._x[-1]) if self._x.size else math.nan
        used, self._repeats = counted(x, self._once, before, self._repeats)
        return used

    def _feed(self, x: Array, used: Flags, first: int, rows: Rows) -> None:
        """Advance every member and fire the alarms they agree on."""
        may_reconsider = self._may_reconsider()
        reports = self._fed(x, used, first, rows)
        if self._pattern is not None:
            for one in self._pattern.feed(x):
                if one.changed_at > self._last_alarm:
                    self._fire(one.tick, one, rows, one.tick - first)
            return
        for i in sorted({i for i, _, _ in reports}):
            for j, member, one in reports:
                if j == i:
                    member.report = one
            report = self._agreed(first + i)
            if report is not None and may_reconsider:  # then this is the last reading
                self._reconsidered += 1
                self._choose_again(rows, FIRST, report.changed_at)
                report = self._agreed(first + i)
            if report is not None:
                self._fire(first + i, report, rows, i)

    def _fed(self, x: Array, used: Flags, first: int, rows: Rows) -> list[tuple[int, Member, Report]]:
        """Advance every member; return what they report, with the row."""
        tick = np.arange(first, first + x.size)
        reports: list[tuple[int, Member, Report]] = []
        for member in self._members:
            y = np.where(used[: x.size], member.structure.prepared(x, tick), np.nan)
            known = ~np.isnan(y)
            report = np.empty((x.size, layout.FIELDS, 1))
            member.detector._advance(np.where(known, y, 0.0)[:, None], known.astype(float)[:, None], report)
            fields = report_fields(report[:, :, 0].T.copy())
            if member is self._members[0]:
                rows.mean[: x.size] = member.structure.restored(fields["mean"], tick + 1)
                rows.run_length[: x.size] = fields["run_length"]
                rows.p_change[: x.size] = fields["p_change"]
            for i in np.flatnonzero(fields["alarm"]).tolist():
                changed_at = int(fields["changed_at"][i]) + self._origin
                reports.append((i, member, Report(first + i, changed_at, float(fields["confidence"][i]))))
        return reports

    def _agreed(self, tick: int) -> Report | None:
        """Return the change that the members agree on; None if there is none."""
        return agreed(self._members, tick, self._last_alarm) if self._pattern is None else None

    def _fire(self, tick: int, report: Report, rows: Rows, i: int) -> None:
        """Raise the alarm of a change at `tick`, row i."""
        self._last_alarm = tick
        self.changes = [*self.changes[-999:], (tick, report.changed_at)]
        rows.alarm[i], rows.changed_at[i], rows.confidence[i] = True, report.changed_at, report.confidence

    def _refresh_seasons(self) -> None:
        """Fit the seasons to the last readings: the period of a long series is never known well enough."""
        self._refresh = self.ticks + self.history
        if np.isfinite(self._x).sum() < FIRST:
            return
        for member in self._members:
            if member.structure.seasons:
                member.structure = refreshed(member.structure, self._recent())

    def _recent(self) -> History:
        """Return the readings that are kept, and decide whether repeated ones count."""
        self._once = repeats_itself(self._x[np.isfinite(self._x)])
        return self._past()

    def _choose_again(self, rows: Rows, least: int, pending: int | None = None) -> None:
        """Choose the structures from at least so many readings, and replay these in their detectors.

        `pending` is the place of a change that is about to be reported. The last row becomes that of the new choice.
        """
        present = int(np.isfinite(self._x).sum())
        if present < least:
            if not self._members:
                self._next = self.ticks + least - present
            return
        self._origin = self.ticks - self._x.size
        history = self._recent()
        changes = [at for _, at in self.changes] + ([] if pending is None else [pending])
        found = candidates(history, self._make, self.structure, changes, self.period)
        weight = np.exp(np.array([c.evidence for c in found]) - found[0].evidence)
        self._members = []
        self._pattern = None
        for candidate, share in zip(found, (weight / weight.sum()).tolist(), strict=True):
            detector, trace = replay(candidate.structure, history, self._make)
            report = None
            fired = np.flatnonzero(trace.alarm).tolist()  # not `changes`: their levels take longer
            if fired:
                t = fired[-1]
                changed_at, confidence = int(trace.changed_at[t]), float(trace.confidence[t])
                report = Report(t + self._origin, changed_at + self._origin, confidence)
            if not self._members:
                self._pattern = Pattern.of(self._x, len(fired), self._origin)
            self._members.append(Member(candidate.structure, share, detector, report))
        rows.mean[-1] = self.mean
        rows.run_length[-1] = self._members[0].detector.map_run_length or 0
        rows.p_change[-1] = self._members[0].detector.p_changed(self.alarm.within)

    def _past(self) -> History:
        """Return the readings that are kept."""
        used, _ = counted(self._x, self._once)
        return History(self._x, np.arange(self.ticks - self._x.size, self.ticks), used)

    def _make(self, structure: Structure) -> Detector:
        return Detector(
            structure.model(),
            hazard=self.hazard,
            prune=Resample(_HYPOTHESES),
            alarm=self.alarm,
            seed=self.seed,
            missing="skip",
        )


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
