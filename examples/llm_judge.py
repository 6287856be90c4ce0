"""Answers of a chatbot, checked by a rule and by an LLM judge on a budget of 1.20 per day.

The rule scores every answer for free. The judge is better, costs money by the length of the answer, and answers some
minutes later, not in order. On the third day a new version of the chatbot fails five times as often.

Run it as `python examples/llm_judge.py`. Everything is simulated; replace `rule`, `price` and `ask_judge`.
"""

import random

from mfbocd.adapters.judge import JudgeMonitor, level_rates

ITEMS_PER_DAY, DAYS, CHANGE = 300, 3, 2 * 300
CUTS = (0.3, 0.7)  # three levels of the rule's score: pass, unsure, fail
JUDGE_ERRORS = 0.03  # from a comparison of the judge with people

rng = random.Random(4)


def answer(number: int, fail_rate: float) -> dict:
    """Return a simulated answer of the chatbot."""
    fails = rng.random() < fail_rate
    score = rng.betavariate(3, 2) if fails else rng.betavariate(1.2, 5)
    return {"id": number, "tokens": rng.randrange(200, 1800), "score": score, "fails": fails}


def rule(item: dict) -> float:
    """Return the cheap score in [0, 1]; here it is part of the item."""
    return item["score"]


def price(item: dict) -> float:
    """Return what a judgement of this answer costs: 0.01 per 1000 tokens, and the prompt."""
    return 0.005 + 0.01 * item["tokens"] / 1000


def ask_judge(item: dict) -> tuple[int, bool]:
    """Return how many answers later the judge replies, and its label."""
    wrong = rng.random() < JUDGE_ERRORS
    return rng.randrange(1, 40), item["fails"] != wrong


# 600 past answers that the judge has labelled show how good the rule is.
past = [answer(-1 - i, 0.05) for i in range(600)]
labels = [ask_judge(item)[1] for item in past]
rates = level_rates([rule(item) for item in past], labels, CUTS, JUDGE_ERRORS)

monitor = JudgeMonitor(
    rule, price, 1.2, ITEMS_PER_DAY, cheap_errors=rates, judge_errors=JUDGE_ERRORS, cuts=CUTS, fail_rate=0.05
)
inbox: list[tuple[int, int, bool]] = []  # when the judge replies, about which answer, and how
for i in range(DAYS * ITEMS_PER_DAY):
    day = i // ITEMS_PER_DAY
    for due, key, label in [reply for reply in inbox if reply[0] <= i]:
        monitor.judged({"id": key}, "fail" if label else "pass")
        inbox.remove((due, key, label))
    item = answer(i, 0.05 if i < CHANGE else 0.25)
    if monitor.wants_judge(item, day=day):
        later, label = ask_judge(item)
        inbox.append((i + later, i, label))
    for change in monitor.new_alarms():
        print(f"answer {change.item}: the failure rate changed at answer {change.changed_at}, now {change.rate:.0%}")
    if (i + 1) % ITEMS_PER_DAY == 0:
        print(
            f"day {day + 1}: failure rate {monitor.rate:.1%}, {monitor.asked} judgements, spent {monitor.spent:.2f}"
        )
    if i == 400:  # a restart: the answers that the judge still has are not forgotten
        monitor = JudgeMonitor.from_bytes(monitor.to_bytes(), rule, cost=price)
        print(f"restarted with {len(monitor.waiting)} answers at the judge")
