"""Monitor pass/fail labels with a cheap check on every item and an expensive judge on few: an LLM, or a person.

A cheap check (a rule, a small model) labels every item. A judge is more reliable and costs money per item. The
monitor detects when the failure rate changes, and decides item by item whether the judge is worth its cost:

    if monitor.wants_judge(item):
        monitor.judged(item, label)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, Self

from ...belief.alarm import Alarm
from ...belief.pruning import Resample
from ...belief.serialization import Array
from ...detector.detector import Detector
from ...detector.late import Key, LateReadings
from ...detector.lock import OneThread
from ...inputs.arguments import positive, probability, whole
from ...policy import Always
from ...policy.base import draw_uniform
from ...policy.fidelity import Fidelity
from . import saved
from .errors import BOTH, CHECK, Errors, LabelModel, PairCounts, informative, rates_of
from .items import Asked, Label, RateChange, change_of, key_of, label_of
from .ledger import Ledger
from .value import gain_at_share, gain_of_label


class JudgeMonitor(OneThread):
    """Detects a change of the failure rate from a cheap check of every item and a judge of few.

        p ~ Beta(1, 1 / fail_rate - 1) in each regime,  P(item fails) = p
        P(level) = (1 - p) P(level | passes) + p P(level | fails)

    Every item is one tick. The check puts it into a level (pass or fail, or more levels of a score). The judge is
    asked where its label is worth its cost, given this level and the belief so far: the gain is the mutual
    information of the label and the failure rate, and `Budget` learns the price that meets the budget. A part of the
    budget, `audit`, goes to items drawn at random, because a failure that the check does not see is found in no other
    way.

    A judgement may arrive at once or late, in any order and from any thread. Until it arrives, the level alone is
    used. When it arrives, the items since are replayed: the belief is exactly what it would be if the judgement had
    arrived at once. Judgements that arrive more than `window` items later are ignored.

    Parameters
    ----------
    cheap : callable
        The cheap check: a function of the item that returns a label (1, True or "fail"; 0, False or "pass") or a
        score in [0, 1] that grows with the probability of a failure.
    cost : float or callable
        What one judgement costs, in any currency; or a function of the item that returns it.
    per_day : float
        Budget per day in the same currency, for checks and judgements. It is met on average and never exceeded within
        a day, except by costs that `judged` reports above the expected ones.
    items_per_day : int
        How many items are expected per day. Without the argument `day` of `wants_judge`, a day is this many items.
    cheap_errors : float, pair of float, or two sequences of float
        Error rates of the check: P(says fail | the item passes) and P(says pass | the item fails), whose sum is less
        than 1, which is chance; one number for both; or P(level | passes) and P(level | fails) of every level, as
        `level_rates` counts them.
    judge_errors : float or pair of float, default 0.0
        Error rates of the judge, likewise.
    cuts : sequence of float, default (0.5,)
        The scores at which a new level begins, ascending. ``(0.3, 0.7)`` makes three levels.
    fail_rate : float, default 0.1
        Typical failure rate: the mean of the prior of p.
    audit : float, default 0.2
        Share of the budget for items drawn at random, in [0, 1].
    hazard : float, optional
        P(change) per item; by default one change in 14 days.
    alarm : Alarm or float, optional
        When a change is reported: an `Alarm`, or its threshold alone. By default a probability of 0.9 of a change
        within the last day, but at least 200 items.
    learn : bool, default False
        Whether the rates of the check and the cost of the judge are learned, with the given ones as a start; see
        Notes.
    memory : float, default 200
        With `learn`, how many items are remembered.
    window : int, default 1000
        A judgement may arrive up to so many items late.
    key : callable, optional
        Returns what identifies an item, a str or int. By default the item itself if it is one of these, else its
        "id".
    cheap_cost : float, default 0.0
        What one check costs.
    points : int, default 100
        Size of the grid over p.
    seed : int, default 0
        Seed of the random items and of the pruning.

    Attributes
    ----------
    asked : int
        Number of judgements asked for.
    ignored : int
        Number of judgements that arrived too late or that nobody had asked for.

    Notes
    -----
    With `learn`, the judged items among those drawn at random show how often the check puts good and bad items into
    each level. The others are selected by their level, so they cannot show it. The truth behind a pair has the
    probability P(t | label, level) ~ P(t) P(label | t) P(level | t), and counts with that weight; counts are
    forgotten at the rate 1 / `memory`. The cost is corrected by the mean ratio of actual to expected cost (argument
    `cost` of `judged`). The error rates of the judge cannot be learned: there is nothing better to compare it with.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, or the check is no better than chance.

    Examples
    --------
    >>> import random
    >>> rng = random.Random(2)
    >>> monitor = JudgeMonitor(
    ...     cheap=lambda item: item["score"], cost=0.02, per_day=2.0, items_per_day=500,
    ...     cheap_errors=(0.1, 0.2), judge_errors=0.03, fail_rate=0.05,
    ... )
    >>> for i in range(900):
    ...     fails = rng.random() < (0.05 if i < 600 else 0.4)
    ...     item = {"id": i, "score": rng.betavariate(4, 2) if fails else rng.betavariate(2, 5)}
    ...     if monitor.wants_judge(item):
    ...         used = monitor.judged(item, fails)
    ...     for change in monitor.new_alarms():
    ...         print(f"item {change.item}: the rate changed at item {change.changed_at} to {change.rate:.2f}")
    item ...: the rate changed at item ... to 0...
    """

    def __init__(
        self,
        cheap: Callable[[Any], Any],
        cost: float | Callable[[Any], float],
        per_day: float,
        items_per_day: int,
        *,
        cheap_errors: Errors,
        judge_errors: float | Sequence[float] = 0.0,
        cuts: Sequence[float] = (0.5,),
        fail_rate: float = 0.1,
        audit: float = 0.2,
        hazard: float | None = None,
        alarm: Alarm | float | None = None,
        learn: bool = False,
        memory: float = 200.0,
        window: int = 1000,
        key: Callable[[Any], Key] | None = None,
        cheap_cost: float = 0.0,
        points: int = 100,
        seed: int = 0,
    ) -> None:
        owner = "JudgeMonitor"
        for name, function in (("cheap", cheap), ("key", key or str)):
            if not callable(function):
                raise TypeError(f"{owner}.{name} must be a function of the item, not {function!r}")
        self.cheap, self.key = cheap, key
        self._ledger = Ledger(cost, per_day, items_per_day, cheap_cost)
        self.cuts = [probability(owner, "cuts", cut, "[0, 1]") for cut in cuts]
        if not self.cuts or sorted(set(self.cuts)) != self.cuts:
            raise ValueError(f"{owner}.cuts must be ascending scores, not {cuts!r}")
        self.fail_rate = probability(owner, "fail_rate", fail_rate)
        self.audit = probability(owner, "audit", audit, "[0, 1]")
        self.learn = learn
        self.memory = positive(owner, "memory", memory)
        self.points = whole(owner, "points", points, 2)
        self.asked, self.ignored = 0, 0
        check = informative("cheap_errors", cheap_errors, rates_of("cheap_errors", cheap_errors, len(self.cuts) + 1))
        self._rates = check, informative("judge_errors", judge_errors, rates_of("judge_errors", judge_errors))
        self._pairs = PairCounts(check, self.memory)
        self._waiting: dict[Key, Asked] = {}
        self._asking: Key | None = None  # the last item, if it is with the judge and its tick has not been applied
        self._renew()  # a lock: unlike a detector, a monitor makes other threads wait
        default = Alarm(within=max(200, self._ledger.items_per_day))
        if not isinstance(alarm, Alarm | None):
            alarm = Alarm(default.within, probability(owner, "alarm", alarm, "(0, 1]"))
        detector = Detector(
            self._model(),
            [Fidelity(saved.CHEAP, CHECK, 1.0), Fidelity(saved.JUDGE, BOTH, 1.0)],
            1.0 / (14 * self._ledger.items_per_day) if hazard is None else hazard,
            policy=Always(saved.CHEAP),  # the monitor decides
            prune=Resample(64),
            alarm=default if alarm is None else alarm,
            seed=seed,
            missing="skip",  # an item that is not checked
        )
        self._late = LateReadings(detector, window)

    def __repr__(self) -> str:
        return (
            f"<JudgeMonitor: {self._late.detector.ticks} items, {self.asked} for the judge, spent {self.spent:g}, "
            f"failure rate {self.rate:.3g}>"
        )

    def wants_judge(self, item: Any, day: Key | None = None) -> bool:
        """Return whether the judge is to be asked about an item; call it once for every item.

        Parameters
        ----------
        item : Any
            The item.
        day : str or int, optional
            Any value that changes from day to day, such as ``str(date.today())``. Items of several days may come in
            any order. By default a day is `items_per_day` items.

        Returns
        -------
        bool
            True if `judged` is to be called with this item, now or later. The judgement counts as paid from here on.
            If the day's budget cannot even pay for the check, the item is not checked, and tells nothing.

        Raises
        ------
        TypeError, ValueError
            If the judge has been asked about an item with the same key and has not answered yet, or if the item, its
            check, its cost or the day is not valid. Nothing is changed then.
        """
        with self._lock:
            if day is not None and not isinstance(day, str | int):
                raise TypeError(f"day must be a str or int, not {day!r}")
            key, late, ledger = key_of(item, self.key), self._late, self._ledger
            if key in late.open or key == self._asking:
                raise ValueError(f"the judge has been asked about an item {key!r} and has not answered yet")
            cost = ledger.expected(item)
            tick = late.detector.ticks + (self._asking is not None)
            today = ledger.day_of(tick) if day is None else day
            checked = ledger.allows_check(today)
            level = bisect_right(self.cuts, label_of(self.cheap(item), score=True)) if checked else 0
            self._finish_last_item()  # only now, because an error changes nothing
            late.catch_up()
            ledger.forget_day_before(tick)
            if tick == 0:
                ledger.start(self._least_gain(cost), cost)
            if not checked:
                self._apply(None, saved.CHEAP, 0.0)
                return False
            drawn = self._draws(cost)
            if ledger.allows(cost, today) and (drawn or ledger.is_worth(self._gain(level), cost)):
                self._asking, self._waiting[key] = key, Asked(level, cost, drawn, today)
                self.asked += 1
                ledger.pay(cost, today)
                return True
            ledger.pay(ledger.cheap_cost, today)
            self._apply(2.0 + level, saved.CHEAP)
            return False

    def judged(self, item: Any, label: Label | None, cost: float | None = None) -> bool:
        """Take a judgement into account.

        Parameters
        ----------
        item : Any
            The item, or one with the same key.
        label : bool, float, "pass", "fail" or None
            The judge's label; 1, True and "fail" mean that the item fails. None if there is no answer: then the label
            of the check stays.
        cost : float, optional
            What the judgement actually cost, if that is known only afterwards.

        Returns
        -------
        bool
            Whether the judgement was used; False if it is too late, or nobody had asked for it.

        Raises
        ------
        TypeError, ValueError
            If the label is none of the above, or the cost is not positive. Nothing is changed then.
        """
        with self._lock:
            key = key_of(item, self.key)
            value = None if label is None else label_of(label)
            actual = None if cost is None else positive("", "cost", cost)
            now = self._asking == key
            if not now and key not in self._late.open:
                self.ignored += 1
                return False
            asked = self._waiting.pop(key)
            paid = asked.cost
            if actual is not None:
                rate = 1.0 / self.memory if self.learn else 0.0
                paid = self._ledger.correct(asked.cost, actual, asked.day, not now, rate)
            if value is not None and self.learn and asked.drawn:
                self._learn_pair(asked.level, value)
            code = None if value is None else self._model_in_use.pair(asked.level, value)
            if not now:
                self._late.replace(key, code, saved.JUDGE)
                return True
            self._asking = None
            if code is None:
                self._apply(2.0 + asked.level, saved.CHEAP, paid)
            else:
                self._apply(code, saved.JUDGE, paid)
            return True

    def new_alarms(self) -> list[RateChange]:
        """Return the changes that were detected since the last call.

        Returns
        -------
        list of RateChange
            Oldest first. A judgement that arrives late can lead to the detection of a change at a past item.
        """
        with self._lock:
            return [change_of(step) for step in self._late.new_alarms()]

    @property
    def alarms(self) -> list[RateChange]:
        """All changes as of now: late judgements can add, move or remove some; at most the last 1000."""
        with self._lock:
            self._late.catch_up()
            return [change_of(step) for step in self._late.alarms]

    @property
    def spent(self) -> float:
        """Money spent so far."""
        return self._ledger.spent

    @property
    def rate(self) -> float:
        """The estimated failure rate of the current regime."""
        with self._lock:
            self._late.catch_up()
            return float(self._late.detector.parameter[0])

    @property
    def waiting(self) -> tuple[Key, ...]:
        """Keys of the items that the judge has been asked about and has not answered, oldest first."""
        with self._lock:
            return (*self._late.open, *(() if self._asking is None else (self._asking,)))

    @property
    def detector(self) -> Detector:
        """The detector behind the monitor, to look at; only the monitor may update it."""
        with self._lock:
            self._late.catch_up()
            return self._late.detector

    @property
    def check_rates(self) -> Array:
        """P(level | truth) of the check as now used: items that pass in row 0, items that fail in row 1."""
        return self._rates[0].copy()

    def _model(self) -> LabelModel:
        return LabelModel(*self._rates, self.fail_rate, self.points)

    def _draws(self, cost: float) -> bool:
        """Return whether the item is one of those drawn at random: the same answer in a replay."""
        detector = self._late.detector
        chance = self.audit * self._ledger.per_item / cost
        return bool(draw_uniform([detector.seed], detector.ticks)[0] < chance)

    def _gain(self, level: int) -> float:
        """Return the gain of the label of an item in this level."""
        return gain_of_label(self._late.detector, self._model_in_use, level)

    def _least_gain(self, cost: float) -> float:
        """Return the gain of the last level that the budget pays for, if those with larger gains come first."""
        paid = (1.0 - self.audit) * self._ledger.per_item / cost
        return gain_at_share(self._model_in_use, self._rates[0], self.fail_rate, paid)

    @property
    def _model_in_use(self) -> LabelModel:
        model = self._late.detector.model
        assert isinstance(model, LabelModel)
        return model

    def _apply(self, x: float | None, fidelity: str, cost: float | None = None, key: Key | None = None) -> None:
        self._late.apply(x, fidelity, 0.0, key)
        self._ledger.charge(cost)

    def _finish_last_item(self) -> None:
        """Apply the level of an item that the judge has not answered before the next one came."""
        if self._asking is not None:
            asked = self._waiting[self._asking]
            self._apply(2.0 + asked.level, saved.CHEAP, asked.cost, self._asking)
            self._asking = None
        self._waiting = {key: self._waiting[key] for key in self._late.open}  # less those that came too late

    def _learn_pair(self, level: int, label: float) -> None:
        """Learn the rates of the check from a judged item, and use them from now on, also in replays."""
        check, judge = self._rates
        learned = self._pairs.add(level, label, check, judge, self.rate)
        self._rates = learned, judge
        old = self._late.detector
        new = Detector(
            self._model(),
            old.fidelities,
            old.hazard,
            policy=Always(saved.CHEAP),
            prune=old.pruning,
            alarm=old.alarm,
            seed=old.seed,
            missing=old.missing,
        )
        new._adopt(old._filter.state, old.spent)
        self._late.detector = new

    def to_bytes(self) -> bytes:
        """Return everything except functions as bytes.

        Returns
        -------
        bytes
            What `from_bytes` takes.
        """
        with self._lock:
            return saved.write(self)

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        cheap: Callable[[Any], Any],
        *,
        cost: Callable[[Any], float] | None = None,
        key: Callable[[Any], Key] | None = None,
    ) -> Self:
        """Return the monitor that `to_bytes` saved; functions, which cannot be saved, are passed again.

        Parameters
        ----------
        data : bytes
            The saved monitor.
        cheap : callable
            The cheap check.
        cost : callable, optional
            The cost, needed where it was a function.
        key : callable, optional
            What identifies an item, needed where it was a function.

        Returns
        -------
        JudgeMonitor
            A monitor that continues where the saved one was, with the judgements that it waits for.

        Raises
        ------
        ValueError
            If the bytes are not a saved monitor or are damaged, or if the cost is missing.
        """
        found: Self = saved.read(cls, data, cheap, cost, key)
        return found
