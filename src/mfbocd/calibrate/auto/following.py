"""How the automatic detector follows a series: it advances its structures, fires their alarms and chooses again."""

from __future__ import annotations

import copy
import math

import numpy as np

from ...belief.alarm import Alarm
from ...belief.pruning import Resample
from ...detector.detector import Detector
from .pattern import Pattern
from .posterior import FIRST, AutoPosterior
from .repeats import counted, repeats_itself
from .rows import Member, Report, Rows, agreed
from .season import Array
from .selection import History, candidates, refreshed, replay
from .structure import Flags, Structure

_GROWTH = 1.25  # the structure is chosen again when the number of ticks has grown by this factor
_LATER = 2.0  # the same, once the history is full
_AGAIN = 4  # most times that the structure is reconsidered before an alarm, between two scheduled choices
_HYPOTHESES = 64


class AutoFollower(AutoPosterior):
    """The part of `AutoDetector` that takes readings."""

    hazard: float
    alarm: Alarm
    period: float | None
    history: int
    seed: int
    _x: Array
    """The last readings, at most `history`."""
    _next: int
    """Tick at which the structure is chosen again."""
    _refresh: int
    """Tick at which the seasons are fitted again."""
    _reconsidered: int
    """How often the structure was reconsidered before an alarm since the last scheduled choice."""
    _last_alarm: int
    """Tick of the last alarm; -1 before the first."""
    _ticks: int
    _origin: int
    """Tick that the members' detectors began at."""
    _repeats: int
    """How often the last reading has been repeated."""

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
        self._ticks += x.size
        if self._members:
            self._fire_agreed(x if fit else x[:-1], used, first, rows)
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
            ahead = copy.copy(self)
            for i, _, _ in ahead._advance_members(x, ahead._used(x), ahead.ticks, Rows.empty(x.size)):
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

    def _fire_agreed(self, x: Array, used: Flags, first: int, rows: Rows) -> None:
        """Advance every member, and fire the alarms they agree on."""
        may_reconsider = self._may_reconsider()
        reports = self._advance_members(x, used, first, rows)
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

    def _advance_members(self, x: Array, used: Flags, first: int, rows: Rows) -> list[tuple[int, Member, Report]]:
        """Advance every member; return what they report, with the row."""
        tick = np.arange(first, first + x.size)
        reports: list[tuple[int, Member, Report]] = []
        for member in self._members:
            y = np.where(used[: x.size], member.structure.prepared(x, tick), np.nan)
            fields = member.detector.advance(y, np.zeros(x.size, dtype=np.int64))
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
        """Choose the structures from at least `least` readings, and replay these in their detectors.

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
