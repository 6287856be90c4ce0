"""The automatic detector: it learns the structure of a series while it follows it."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

import numpy as np

from ..._kernels import layout
from ...belief.alarm import Alarm
from ...belief.filter import Filter
from ...belief.gains import Gain
from ...belief.hazard import hazard_of
from ...belief.pruning import Pruning, Resample
from ...belief.records import RunLength, Surprise
from ...detector.base import ANY_NUMBER, BaseDetector
from ...detector.detector import Detector
from ...detector.level_rule import LevelRule
from ...detector.lock import exclusive
from ...detector.step import Step, reading, seed_of
from ...inputs.arguments import boolean, positive, probability, whole
from ...inputs.display import count_text, html_facts
from ...models import GaussianUnknown
from ...models.unknown_noise import Weighting
from ...policy import Always, Policy, policy_of
from ...policy.fidelity import Fidelity, checked
from ...trace.run import run
from ...trace.trace import Trace
from .explain import Account, cautions, explanation
from .pattern import Pattern
from .repeats import counted, repeats_itself
from .rows import Member, Report, Rows, agreed
from .saved import read, write
from .season import Array, Ticks
from .selection import History, candidates, refreshed, replay
from .structure import Flags, Structure
from .surprise import surprise_of

HAZARD = 1 / 500
"""P(change) per tick, by default."""
FIRST = 20
"""Readings before the first structure is chosen; no alarm fires earlier."""

_GROWTH = 1.25  # the structure is chosen again when the number of ticks has grown by this factor
_LATER = 2.0  # the same, once the history is full
_AGAIN = 4  # most times that the structure is reconsidered before an alarm, between two scheduled choices
_HYPOTHESES = 64


class AutoDetector(BaseDetector):
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
    fidelities : iterable of Fidelity, or Fidelity, optional
        The ways to observe; one full observation per tick by default.
    policy : Policy, optional
        How the next fidelity is chosen; `Budget(share=0.35)` by default, if there are several fidelities. Gains are
        averaged over the structures.

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

    changes: list[tuple[int, int]]
    """Tick of the alarm and tick of the change, of the last 1000 alarms."""
    alarm: Alarm
    _x: Array
    """The last readings, at most `history`."""
    _choice: Ticks
    """Index of the fidelity of each of them."""
    _next: int
    """Tick at which the structure is chosen again."""
    _refresh: int
    """Tick at which the seasons are fitted again."""
    _reconsidered: int
    """How often the structure was reconsidered before an alarm since the last scheduled choice."""
    _origin: int
    """Tick that the members' detectors began at."""
    _repeats: int
    """How often the last reading has been repeated."""

    def __init__(
        self,
        hazard: float = HAZARD,
        alarm: Alarm | float | None = None,
        *,
        period: float | None = None,
        history: int = 2048,
        seed: int = 0,
        surprise: bool = False,
        fidelities: Iterable[Fidelity] | Fidelity | None = None,
        policy: Policy | None = None,
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
        self.fidelities = checked(fidelities)
        if min(f.zeta for f in self.fidelities) == 0.0:
            raise ValueError("fidelities must have a zeta above 0: the automatic detector has no skip")
        self.policy = policy_of(policy, self.fidelities).bind(self.fidelities)
        start = Filter(GaussianUnknown(), hazard_of(self.hazard), Pruning.of(Resample(_HYPOTHESES)))
        self.policy.initialize(start)  # gains are in units of the noise, so any model predicts the first price
        # The members get checked readings and pay nothing.
        self._ways = tuple(Fidelity(f.name, f.zeta, 1.0) for f in self.fidelities)
        self.missing = "skip"
        self.spent = 0.0
        self._reader = ANY_NUMBER
        self._by_name = {f.name: f for f in self.fidelities}
        self._quoted, self._chosen = (-1, None, {}), (-1, None)
        self.changes: list[tuple[int, int]] = []
        self._ticks = 0
        self._x = np.empty(0)
        self._choice = np.empty(0, dtype=np.int64)
        self._next = FIRST
        self._refresh = self.history
        self._reconsidered = 0
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
    def from_bytes(
        cls,
        data: bytes,
        *,
        observers: Mapping[str, Callable[[Any], Any]] | None = None,
        costs: Mapping[str, Callable[[Any], float]] | None = None,
    ) -> Self:
        """Return the detector that `to_bytes` saved; functions, which cannot be saved, are passed again.

        Parameters
        ----------
        data : bytes
            What `to_bytes` returned.
        observers, costs : mapping of str to callable, optional
            Functions of the fidelities by name.

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
        return read(cls, data, observers or {}, costs or {})

    def __copy__(self) -> Self:
        return copy.deepcopy(self)

    @exclusive
    def update(
        self, x: Any, fidelity: Fidelity | str | None = None, *, raw: Any = None, cost: float | None = None
    ) -> Step:
        """Update the belief with a reading; an error changes nothing."""
        observed = self._resolve(fidelity, x)
        value = reading(ANY_NUMBER, x, "skip", observed)
        paid = self._paid(observed, raw, cost)
        value = math.nan if value is None else value
        choice = 0 if observed is None else self.fidelities.index(observed)
        surprise = self._surprise(value, choice) if self.surprise else None
        step = self._advance(np.array([value]), np.array([choice])).step(0, self.ticks - 1, value, observed, paid)
        self.spent += paid
        self.policy.record_cost((paid,))
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
            end = min(end, start + self._until_report(x[start:end], choice[start:end]))
            rows.put(start, self._advance(x[start:end], choice[start:end]))
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
        """Return one kind of gain of each fidelity, averaged over the structures; zeta before the first of them."""
        if not self._members:
            return self.policy.zeta.copy()
        total = np.zeros(len(self.fidelities))
        for member in self._members:
            total += member.weight * member.detector.expected_gains(gain)
        return total

    def _choose(self, raw: Any) -> Fidelity:
        """Return the fidelity that the policy chooses for the coming tick."""
        gain = self.policy.gain
        gains = None if gain is None else self.expected_gains(gain)
        return self.fidelities[self.policy.choose_by(gains, self.seed, self.ticks, self._costs(raw))]

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
        return float(self._members[0].detector.mean)

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
        name = None if fidelity is None else self._own_fidelity(fidelity).name
        low, high = self._members[0].detector.interval(level, name)
        return low, high

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
            random walk, very frequent changes, noise that is skewed or has many outliers, and structure that none of
            the models describes. Empty if there is nothing to say.

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

    def _surprise(self, x: float, choice: int) -> Surprise | None:
        """Return how surprising the coming reading is; None before the first structure, or if it does not count."""
        before = float(self._x[-1]) if self._x.size else math.nan
        if not self._members or not counted(np.array([x]), self._once, before, self._repeats)[0][0]:
            return None
        return surprise_of(self._members, x, self.fidelities[choice].zeta)

    def _possible(self, x: Array) -> Flags:
        """Tell which readings every member can describe."""
        ok = np.ones(x.size, dtype=np.bool_)
        for member in self._members:
            ok &= np.isnan(x) | member.detector.model.possible(x)
        return ok

    def _advance(self, x: Array, choice: Ticks) -> Rows:
        """Take readings up to the next choice of a structure; only the last may be impossible for the members."""
        rows = Rows.empty(x.size)
        used = self._used(x)
        fit = bool(self._possible(x[-1:])[0])
        first = self.ticks
        self._x = np.append(self._x, x)[-self.history :]
        self._choice = np.append(self._choice, choice)[-self.history :]
        self._ticks += x.size
        if self._members:
            self._fire_agreed(x if fit else x[:-1], choice, used, first, rows)
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

    def _until_report(self, x: Array, choice: Ticks) -> int:
        """Return how many readings to take until a structure may be reconsidered, right after the last of them."""
        end = x.size
        if end > 1 and self._members and self._may_reconsider():
            ahead = copy.copy(self)
            if not self._possible(x[-1:])[0]:
                x = x[:-1]
            used = ahead._used(x)
            for i, _, _ in ahead._advance_members(x, choice, used, ahead.ticks, Rows.empty(x.size)):
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

    def _fire_agreed(self, x: Array, choice: Ticks, used: Flags, first: int, rows: Rows) -> None:
        """Advance every member, and fire the alarms they agree on."""
        may_reconsider = self._may_reconsider()
        reports = self._advance_members(x, choice, used, first, rows)
        if self._pattern is not None:
            for one in self._pattern.feed(x):
                if one.changed_at > self.last_alarm:
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

    def _advance_members(
        self, x: Array, choice: Ticks, used: Flags, first: int, rows: Rows
    ) -> list[tuple[int, Member, Report]]:
        """Advance every member; return what they report, with the row."""
        reports: list[tuple[int, Member, Report]] = []
        for member in self._members:
            y = np.where(used[: x.size], x, np.nan)
            fields = member.detector.advance(y, choice[: x.size])
            if member is self._members[0]:
                rows.mean[: x.size] = fields["mean"]
                rows.run_length[: x.size] = fields["run_length"]
                rows.p_change[: x.size] = fields["p_change"]
            for i in np.flatnonzero(fields["alarm"]).tolist():
                changed_at = int(fields["changed_at"][i]) + self._origin
                reports.append((i, member, Report(first + i, changed_at, float(fields["confidence"][i]))))
        return reports

    def _agreed(self, tick: int) -> Report | None:
        """Return the change that the members agree on; None if there is none."""
        return agreed(self._members, tick, self.last_alarm) if self._pattern is None else None

    def _fire(self, tick: int, report: Report, rows: Rows, i: int) -> None:
        """Raise the alarm of a change at `tick`, row i."""
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
                member.detector = self._continued(member)

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
            detector, fields = replay(candidate.structure, history, self._make)
            report = None
            fired = np.flatnonzero(fields["alarm"]).tolist()
            if fired:
                t = fired[-1]
                changed_at, confidence = int(fields["changed_at"][t]), float(fields["confidence"][t])
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
        tick = np.arange(self.ticks - self._x.size, self.ticks)
        return History(self._x, tick, used, self._choice, self.policy.zeta[self._choice])

    def _continued(self, member: Member) -> Detector:
        """Return the member's detector with the model of its present structure, of which only the seasons differ."""
        state = member.detector._filter.state
        detector = self._make(member.structure, self._origin)
        detector._adopt(state, member.detector.spent)
        state[layout.MEAN] = detector._filter.predictive(1.0)[0]
        return detector

    def _make(self, structure: Structure, start: int) -> Detector:
        return Detector(
            structure.model(start, self._weighting()),
            self._ways,
            hazard=self.hazard,
            prune=Resample(_HYPOTHESES),
            alarm=self.alarm,
            seed=self.seed,
            missing="skip",
            policy=Always(self._ways[0].name),
        )

    def _weighting(self) -> Weighting:
        """Return how readings below full fidelity count; tempered is the same for full ones, and quicker."""
        return "tempered" if min(self.policy.zeta) == 1.0 else "precision"


def auto(
    hazard: float = HAZARD,
    alarm: Alarm | float | None = None,
    *,
    period: float | None = None,
    history: int = 2048,
    seed: int = 0,
    surprise: bool = False,
    fidelities: Iterable[Fidelity] | Fidelity | None = None,
    policy: Policy | None = None,
) -> AutoDetector:
    """Return a detector for a live stream of which nothing is known in advance.

    Parameters
    ----------
    hazard, alarm, period, history, seed, surprise, fidelities, policy : Any
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
        hazard,
        alarm,
        period=period,
        history=history,
        seed=seed,
        surprise=surprise,
        fidelities=fidelities,
        policy=policy,
    )
