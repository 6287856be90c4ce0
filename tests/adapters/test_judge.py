"""A monitor with an expensive judge: decisions, money, late judgements, learning, saving."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import mfbocd as mf
from mfbocd.adapters.judge import JudgeMonitor, level_rates
from mfbocd.adapters.judge.errors import BOTH, CHECK, LabelModel, PairCounts
from mfbocd.detector.late import LateReadings

CHECKS, JUDGE = [[0.85, 0.15], [0.25, 0.75]], [[0.96, 0.04], [0.08, 0.92]]


def score(item: dict[str, Any]) -> float:
    return float(item["score"])


def monitor(**options: Any) -> JudgeMonitor:
    given: dict[str, Any] = {"cheap_errors": (0.15, 0.25), "judge_errors": (0.04, 0.08), "points": 30, "hazard": 0.01}
    money = {"cost": 0.02, "per_day": 0.8, "items_per_day": 100}
    return JudgeMonitor(options.pop("cheap", score), **(money | given | options))


def items(count: int, seed: int = 0, change: int | None = None) -> Iterator[dict[str, Any]]:
    """Items with a score and the judge's label; the failure rate rises from 5 % to 50 % at `change`."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        fails = rng.random() < (0.5 if change is not None and i >= change else 0.05)
        yield {"id": i, "score": rng.beta(4, 2) if fails else rng.beta(2, 5), "label": float(fails)}


def fed(one: JudgeMonitor, stream: Iterator[dict[str, Any]]) -> list[int]:
    """Feed items with judgements at once; return the ids that the judge saw."""
    seen = []
    for item in stream:
        if one.wants_judge(item):
            assert one.judged(item, item["label"])
            seen.append(item["id"])
    return seen


# --- the model ------------------------------------------------------------------------------------------------------


def test_the_model_is_bayes_rule_for_levels_and_pairs() -> None:
    """The posterior mean of the failure rate after a level and a pair, by a dense integral."""
    model = LabelModel(np.array(CHECKS), np.array(JUDGE), fail_rate=0.2, points=400)
    stats = model.update(model.update(model.prior(), 2.0 + 1, CHECK), model.pair(0, 1.0), BOTH)
    p = (np.arange(20000) + 0.5) / 20000
    weight = (1 - p) ** 3  # Beta(1, 4)
    weight = weight * ((1 - p) * 0.15 + p * 0.75) * ((1 - p) * 0.85 * 0.04 + p * 0.25 * 0.92)
    assert float(model.parameter(stats)[0]) == pytest.approx(float((weight @ p) / weight.sum()), rel=1e-3)
    assert float(model.predictive(stats)[0]) == pytest.approx(float((weight @ p) / weight.sum()), rel=1e-3)


@pytest.mark.parametrize("level", [0, 1])
def test_the_gain_is_the_information_of_the_label_given_the_level(level: int) -> None:
    model = LabelModel(np.array(CHECKS), np.array(JUDGE), fail_rate=0.2, points=50)
    weight, p = np.exp(model.prior()), model.theta
    truth = np.array([(1 - p) * CHECKS[0][level], p * CHECKS[1][level]])
    label = np.array(JUDGE).T @ (truth / truth.sum(axis=0))  # P(label | level, p)
    mixed = label @ weight
    expected = float(((label * np.log(label)) @ weight).sum() - (mixed * np.log(mixed)).sum())
    found = model.parameter_gain(model.prior()[:, None], model.given(level))
    assert float(found[0]) == pytest.approx(expected, rel=1e-9)


def test_rates_are_counted_by_level() -> None:
    found = level_rates([0.1, 0.3, 0.69, 0.7, 0.2, 0.9], [0, 0, 0, 0, 1, 1], cuts=(0.3, 0.7))
    assert found == [[1.5 / 5.5, 2.5 / 5.5, 1.5 / 5.5], [1.5 / 3.5, 0.5 / 3.5, 1.5 / 3.5]]
    with pytest.raises(ValueError, match="same length"):
        level_rates([0.1], [0, 1])


def test_rates_allow_for_the_errors_of_the_judge() -> None:
    """A judge who errs in 5 % of the items labels as many good items as bad ones as failures."""
    rng = np.random.default_rng(2)
    count = 200_000
    fails = rng.random(count) < 0.05
    label = fails ^ (rng.random(count) < 0.05)
    scores = np.where(fails, rng.random(count) < 0.8, rng.random(count) < 0.1).astype(float)
    plain, corrected = level_rates(scores, label), level_rates(scores, label, judge_errors=0.05)
    assert plain[1][1] < 0.5
    assert corrected[1][1] == pytest.approx(0.8, abs=0.04)
    assert corrected[0][1] == pytest.approx(0.1, abs=0.01)


# --- decisions and money --------------------------------------------------------------------------------------------


def test_a_change_is_detected() -> None:
    one = monitor()
    stream = list(items(400, seed=3, change=250))
    seen = fed(one, iter(stream))
    changes = one.new_alarms()
    assert [change.item >= 250 for change in changes] == [True]
    assert abs(changes[0].changed_at - 250) < 15
    assert changes[0].rate > 0.15
    assert 0.35 < one.rate < 0.65
    assert one.new_alarms() == []
    assert one.alarms == changes
    assert one.asked == len(seen)


def test_the_judge_is_asked_about_doubtful_items() -> None:
    """A failure is rare and the check errs: what it calls a failure is doubtful, what it passes is not."""
    stream = list(items(400, seed=3))
    seen = fed(monitor(per_day=0.2), iter(stream))
    flagged = [item["id"] for item in stream if item["score"] >= 0.5]
    assert len(set(seen) & set(flagged)) / len(flagged) > 2 * len(seen) / len(stream)


def test_no_day_costs_more_than_its_budget_and_the_average_is_met() -> None:
    one, spent = monitor(), []
    stream = items(1000, seed=4)
    for _ in range(10):
        before = one.spent
        for item in (next(stream) for _ in range(100)):
            if one.wants_judge(item):
                one.judged(item, item["label"])
        spent.append(one.spent - before)
    assert max(spent) <= 0.8 + 1e-9
    assert np.mean(spent) > 0.9 * 0.8


def test_a_day_may_be_any_value_that_changes() -> None:
    one = monitor(per_day=0.11, audit=1.0)
    days = {"Monday": 300, "Tuesday": 300}
    stream, spent = items(600, seed=4), []
    for day, count in days.items():
        before = one.spent
        for item in (next(stream) for _ in range(count)):
            if one.wants_judge(item, day=day):
                one.judged(item, item["label"])
        spent.append(one.spent - before)
    assert spent == pytest.approx([0.1, 0.1], rel=1e-6)  # five judgements, although three days' items came


@pytest.mark.parametrize("seed", range(6))
def test_no_day_is_exceeded_in_any_order_of_items_and_judgements(seed: int) -> None:
    """Days interleave and come back, with more items than expected; checks cost up to nearly all of the budget."""
    rng = np.random.default_rng(seed)
    per_day, expected = 2.0, 60
    check = float(rng.choice([0.0, 0.3, 0.98])) * per_day / expected
    one = monitor(per_day=per_day, items_per_day=expected, cheap_cost=check, cost=lambda item: 0.02 + 0.1 * item["u"])
    spent: dict[int, float] = dict.fromkeys(range(4), 0.0)
    days = np.repeat(range(4), rng.integers(30, 140, 4))
    rng.shuffle(days)
    open_items: list[tuple[dict[str, Any], int]] = []
    for item, day in zip(items(len(days), seed=seed, change=100), days.tolist(), strict=True):
        before = one.spent
        if one.wants_judge(item | {"u": rng.random()}, day=day):
            open_items.append((item, day))
        spent[day] += one.spent - before
        while open_items and rng.random() < 0.6:
            late_item, its_day = open_items.pop(int(rng.integers(len(open_items))))
            before = one.spent
            assert one.judged(late_item, item["label"], cost=0.01 if rng.random() < 0.3 else None)
            spent[its_day] += one.spent - before  # a judgement may be cheaper than expected
        if rng.random() < 0.02:
            one = JudgeMonitor.from_bytes(one.to_bytes(), score, cost=lambda item: 0.02 + 0.1 * item["u"])
    assert max(spent.values()) <= per_day * (1 + 1e-9)
    assert max(spent.values()) > 0.9 * per_day


def test_checks_of_the_expected_items_are_reserved() -> None:
    one, spent = monitor(per_day=2.0, items_per_day=500, cheap_cost=0.0039), []
    stream = items(1500, seed=4)
    for _ in range(3):
        before = one.spent
        fed(one, (next(stream) for _ in range(500)))
        spent.append(one.spent - before)
    assert max(spent) <= 2.0 * (1 + 1e-9)
    assert min(spent) > 1.95
    assert one.asked > 0


def test_an_item_whose_check_the_day_cannot_pay_is_not_checked() -> None:
    checks: list[int] = []
    one = monitor(cheap=lambda item: checks.append(item) or 0.1, per_day=1.0, items_per_day=10, cheap_cost=0.1)
    for i in range(20):
        assert not one.wants_judge(i, day="Monday")
    assert checks == list(range(10))
    rate = one.rate
    assert one.detector.ticks == 20
    assert not one.wants_judge(20, day="Monday")
    assert one.rate == pytest.approx(rate, rel=0.05)
    assert one.spent == pytest.approx(1.0)


def test_a_free_check_is_made_also_after_a_judgement_that_cost_more_than_the_day_has() -> None:
    checks: list[int] = []
    one = monitor(cheap=lambda item: checks.append(item) or 0.1, audit=1.0, per_day=1.0, items_per_day=10)
    assert one.wants_judge(0, day="Monday")
    assert one.judged(0, "pass", cost=3.0)
    assert not any(one.wants_judge(i, day="Monday") for i in range(1, 5))
    assert checks == list(range(5))
    assert one.wants_judge(5, day="Tuesday")


def test_an_error_changes_nothing() -> None:
    one = monitor(audit=1.0, per_day=4.0)
    for item in items(20):
        if one.wants_judge(item):
            asked = item
    one.wants_judge({"id": "last", "score": 0.1})
    before = one.to_bytes()
    for make, message in (
        (lambda: one.judged(asked, 1, cost=-1.0), "cost must be positive"),
        (lambda: one.judged({"id": "last"}, 1, cost=0.0), "cost must be positive"),
        (lambda: one.judged(asked, 0.5), "a label must be"),
        (lambda: one.wants_judge({"id": "last", "score": 0.1}), "has not answered yet"),
        (lambda: one.wants_judge({"id": "next", "score": 2.0}), "a check must return a score"),
        (lambda: one.wants_judge({"id": "next", "score": 0.1}, day=1.5), "day must be"),  # type: ignore[arg-type]
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            make()
        assert one.to_bytes() == before
    assert one.judged({"id": "last"}, 1)
    assert one.judged(asked, 1, cost=0.03)
    assert fed(one, ({"id": f"more {i}", "score": 0.1, "label": 0} for i in range(5)))


def test_rates_that_were_learned_to_be_worse_than_chance_are_saved() -> None:
    one = monitor(cheap_errors=(0.3, 0.3), judge_errors=0.0, learn=True, audit=1.0, per_day=4.0, memory=20)
    for i in range(60):
        if one.wants_judge({"id": i, "score": i % 2}):
            one.judged(i, 1 - i % 2)
    assert one.check_rates[0, 1] > one.check_rates[1, 1]
    twin = JudgeMonitor.from_bytes(one.to_bytes(), score)
    assert twin.to_bytes() == one.to_bytes()


def test_items_may_have_their_own_cost() -> None:
    """Of two items that are alike, the cheaper one is judged more often."""
    one = monitor(cost=lambda item: 0.005 if item["id"] % 2 else 0.08, audit=0.0)
    seen = fed(one, items(600, seed=5))
    odd = sum(i % 2 for i in seen)
    assert odd > 2 * (len(seen) - odd)
    assert one.spent == pytest.approx(0.005 * odd + 0.08 * (len(seen) - odd), rel=1e-6)


def test_random_items_do_not_depend_on_the_check() -> None:
    blind = monitor(audit=1.0, cheap=lambda item: 0.0)
    seeing = monitor(audit=1.0)
    first, second = fed(blind, items(200)), fed(seeing, items(200))
    drawn = [i for i in first if i in second]
    assert len(drawn) > 40


def test_actual_costs_are_paid_and_learned() -> None:
    one = monitor(learn=True, memory=10)
    for item in items(300, seed=6):
        if one.wants_judge(item):
            one.judged(item, item["label"], cost=0.04)  # twice what is expected
    assert one._ledger.expected({}) == pytest.approx(0.04, rel=0.1)
    assert one.spent == pytest.approx(0.04 * one.asked, rel=1e-6)
    assert one.spent < 1.15 * 3 * 0.8


# --- late judgements ------------------------------------------------------------------------------------------------


def late(one: JudgeMonitor, stream: Iterator[dict[str, Any]], delay: Callable[[int], int]) -> list[int]:
    """Feed items; a judgement arrives `delay(id)` items later, which mixes up their order."""
    pending: list[tuple[int, dict[str, Any]]] = []
    seen = []
    for now, item in enumerate(stream):
        for due, other in sorted(pending, key=lambda pair: pair[0]):
            if due <= now:
                assert one.judged({"id": other["id"]}, other["label"])
                pending.remove((due, other))
        if one.wants_judge(item):
            seen.append(item["id"])
            pending.append((now + 1 + delay(item["id"]), item))
    for _, other in reversed(pending):
        assert one.judged(other, other["label"])
    return seen


def exact(stream: list[dict[str, Any]], seen: list[int], one: JudgeMonitor) -> mf.Detector:
    """Return a detector that got every judgement at once."""
    model = LabelModel(np.array(CHECKS), np.array(JUDGE), 0.1, 30)
    ways = [mf.Fidelity("cheap", CHECK, 1.0), mf.Fidelity("judge", BOTH, 1.0)]
    alarm = one.detector.alarm
    detector = mf.Detector(model, ways, 0.01, policy=mf.Always("cheap"), prune=mf.Resample(64), alarm=alarm)
    for item in stream:
        level = int(item["score"] >= 0.5)
        if item["id"] in seen:
            detector.update(model.pair(level, item["label"]), "judge")
        else:
            detector.update(2.0 + level, "cheap")
    return detector


def test_late_judgements_in_any_order_give_the_belief_of_prompt_ones() -> None:
    stream = list(items(160, seed=7, change=100))
    one = monitor()
    seen = late(one, iter(stream), lambda i: (7 * i) % 30)
    assert one.waiting == ()
    detector = exact(stream, seen, one)
    assert one.detector.run_length.weight.tolist() == detector.run_length.weight.tolist()
    assert one.rate == detector.parameter[0]
    assert one.detector.ticks == 160
    assert len(seen) > 30


def test_a_late_judgement_can_report_a_change_at_a_past_item() -> None:
    """The check sees nothing; the judgements of the last items arrive together and show the change."""
    one = monitor(cheap=lambda item: 0.0, cheap_errors=(0.02, 0.9), audit=1.0, per_day=4.0)
    waiting = []
    for i in range(120):
        if one.wants_judge(i):
            if i < 60:
                one.judged(i, "pass")
            else:
                waiting.append(i)
    assert one.new_alarms() == []
    assert one.waiting == tuple(waiting)
    for i in waiting:
        assert one.judged(i, "fail")
    found = one.new_alarms()
    assert len(found) == 1
    assert 60 <= found[0].item < 119
    assert abs(found[0].changed_at - 60) < 10


def test_judgements_beyond_the_window_are_ignored() -> None:
    one = monitor(window=20, audit=1.0, per_day=4.0)
    asked = [i for i, item in enumerate(items(200)) if one.wants_judge(item)]
    assert min(key for key in one.waiting if isinstance(key, int)) > 150
    assert not one.judged({"id": asked[0]}, 1)
    assert not one.judged({"id": "nobody asked"}, 1)
    assert one.ignored == 2
    assert one.judged({"id": one.waiting[-1]}, 1)
    assert len(one._late._ticks) <= 26  # the window and a quarter, and one that is applied before the next trim


def test_a_judge_without_an_answer_leaves_the_label_of_the_check() -> None:
    stream = list(items(80, seed=8))
    one = monitor()
    for k, item in enumerate(stream):
        if one.wants_judge(item) and k % 2:
            one.judged(item, None)  # at once
    for key in one.waiting:
        one.judged(key if isinstance(key, str) else {"id": key}, None)  # late
    assert one.waiting == ()
    assert one.rate == exact(stream, [], one).parameter[0]


def test_judgements_may_come_from_other_threads() -> None:
    one, stream = monitor(per_day=4.0), list(items(120, seed=9))
    lock, seen = threading.Lock(), []
    threads = []
    for item in stream:
        with lock:
            wanted = one.wants_judge(item)
        if wanted:
            seen.append(item["id"])
            threads.append(threading.Thread(target=one.judged, args=(item, item["label"])))
            threads[-1].start()
    for thread in threads:
        thread.join()
    assert one.rate == exact(stream, seen, one).parameter[0]


def test_a_replay_reports_a_change_once() -> None:
    """An alarm that moves to an earlier tick when a reading is replaced is not new."""
    ways = [mf.Fidelity("low", 0.3, 1.0), mf.Fidelity("high", 1.0, 9.0)]
    late_one = LateReadings(mf.Detector(mf.Gaussian(0, 9, 1), ways, 0.02))
    for t in range(30):
        late_one.apply(0.1 if t < 20 else 6.0, "low", 1.0, key=t if t == 20 else None)
    fired = late_one.new_alarms()
    assert [step.changed_at for step in fired] == [20]
    assert late_one.replace(20, 6.0, "high")
    assert late_one.new_alarms() == []
    assert late_one.alarms[0].tick < fired[0].tick
    assert late_one.detector.spent == 30.0


# --- learning -------------------------------------------------------------------------------------------------------


def test_the_rates_of_the_check_are_learned() -> None:
    """Declared (0.05, 0.05), true about (0.11, 0.19)."""
    one = monitor(cheap_errors=0.05, judge_errors=0.0, learn=True, audit=1.0, per_day=4.0)
    rng = np.random.default_rng(1)
    for i in range(600):
        fails = rng.random() < 0.3
        item = {"id": i, "score": rng.beta(4, 2) if fails else rng.beta(2, 5)}
        if one.wants_judge(item):
            one.judged(item, fails)
    assert one.check_rates[0, 1] == pytest.approx(0.11, abs=0.05)
    assert one.check_rates[1, 0] == pytest.approx(0.19, abs=0.08)
    assert monitor().check_rates.tolist() == [[0.85, 0.15], [0.25, 0.75]]


def test_a_pair_counts_for_both_truths() -> None:
    """P(fails | judge says pass, level 1) by Bayes' rule, with a judge that errs."""
    counts = PairCounts(np.array(CHECKS), memory=10.0)
    learned = counts.add(1, 0.0, np.array(CHECKS), np.array(JUDGE), rate=0.3)
    fails = 0.3 * 0.08 * 0.75 / (0.3 * 0.08 * 0.75 + 0.7 * 0.96 * 0.15)
    expected = np.array([[17.0, 3.0 + 0.0], [5.0, 15.0]]) * 0.9
    expected[:, 1] += [1 - fails, fails]
    assert learned == pytest.approx(expected / expected.sum(axis=1, keepdims=True), rel=1e-12)


# --- saving, copies, errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"learn": True, "audit": 0.5, "cuts": (0.3, 0.7)}])
def test_a_saved_monitor_continues_with_its_pending_items(options: dict[str, Any]) -> None:
    rates = [[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]]
    given = options | ({"cheap_errors": rates} if "cuts" in options else {})
    one = monitor(cost=lambda item: 0.02, **given)
    stream = list(items(150, seed=11))
    waiting = [item for item in stream[:70] if one.wants_judge(item)]
    saved = one.to_bytes()
    twin = JudgeMonitor.from_bytes(saved, score, cost=lambda item: 0.02)
    assert twin.to_bytes() == saved
    assert twin.waiting == one.waiting == tuple(item["id"] for item in waiting)
    for both in (one, twin, copy.deepcopy(one)):
        for item in waiting[::-1]:
            assert both.judged(item, item["label"])
        fed(both, iter(stream[70:]))
        assert both.to_bytes() == one.to_bytes()
    with pytest.raises(ValueError, match="pass cost="):
        JudgeMonitor.from_bytes(saved, score)
    with pytest.raises(ValueError, match="not a saved JudgeMonitor"):
        JudgeMonitor.from_bytes(mf.Detector(mf.Gaussian()).to_bytes(), score)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: monitor(cheap_errors=0.5), "no better than chance"),
        (lambda: monitor(cheap_errors=0.6), "must have a sum of less than 1"),
        (lambda: monitor(cheap_errors=(0.3, 0.7)), "no better than chance"),
        (lambda: monitor(judge_errors=(0.9, 0.2)), r"judge_errors = .* is no better than chance"),
        (lambda: monitor(cheap_errors=[[0.2, 0.3, 0.5], [0.5, 0.3, 0.2]], cuts=(0.3, 0.7)), "into higher levels"),
        (lambda: monitor(cheap_errors=(0.1, 0.2, 0.3)), "one error rate, two, or two rows"),
        (lambda: monitor(cuts=(0.3, 0.7)), "two rows of 3 rates"),
        (lambda: monitor(cuts=(0.7, 0.3)), "cuts must be ascending"),
        (lambda: monitor(cost=-1.0), "cost must be positive"),
        (lambda: monitor(per_day=0), "per_day must be positive"),
        (lambda: monitor(cheap=3), "cheap must be a function"),
        (lambda: monitor().wants_judge({"score": 0.1}), "identifies the item"),
        (lambda: monitor(cheap=lambda item: 2).wants_judge("a"), "a check must return a score"),
        (lambda: monitor(cheap=lambda item: "fail").judged("a", 0.5), "a label must be"),
    ],
)
def test_wrong_arguments_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make()
