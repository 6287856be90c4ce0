"""Which items an expensive judge sees, at equal money and false alarms: ``python -m benchmarks.judge``.

A cheap check scores every item. Its label (a score of .5 or more) is right in about 94 of 100 items, but it misses
three failures in ten. The judge is wrong in 3 % of the items and costs 2 cents. Compared are `JudgeMonitor`, a fixed
sampling rate, and a confidence band (judge if the score is in .3 to .7, otherwise believe the check). The band has no
budget: what it costs on quiet streams is the budget of the others.

Every way watches its labels with a BOCD filter of the same prior and hazard, and alarms when P(change within WITHIN
items) reaches its own threshold, which gives QUANTILE of the quiet design streams a false alarm. Delays and false
alarms are of other streams. Four things happen after item BEFORE: a large and a small increase of the failure rate, a
new kind of failure that the check does not see, and a check that gets worse while the failure rate stays the same,
which should cause no alarm. A change that is not detected within AFTER items counts as AFTER.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

import mfbocd as mf
from mfbocd.adapters.judge import JudgeMonitor, level_rates

Array = NDArray[np.float64]

STREAMS = 40
QUIET, BEFORE, AFTER = 600, 200, 400  # items of a quiet stream, before and after a change
WITHIN = 300
QUANTILE = 0.2  # of quiet streams with a false alarm
SETTLE = 100  # items at the start without an alarm
RATE, COST, DAY = 0.05, 0.02, 1000  # failure rate, price of a judgement, items per day
JUDGE_ERROR = 0.03
HAZARD = 1 / 2000
PASS, FAIL, WORSE = (1.2, 5.0), (3.0, 2.0), (1.8, 4.0)  # Beta distributions of the scores
ERRORS = (0.042, 0.3125)  # of the check: P(score >= .5 | pass) and P(score < .5 | fail), from these distributions
BAND = (0.3, 0.7)
DESIGN, JUDGED = 0, 10_000  # first seeds
SAMPLE = 5_000  # seed of the labelled sample
NEVER = 2.0  # a threshold that no probability reaches


class Scenario(NamedTuple):
    """What changes: the failure rate, the share of failures that look like passes, and the scores of passes."""

    rate: float = RATE
    unseen: float = 0.0
    passes: tuple[float, float] = PASS


SCENARIOS = {
    "5 % to 20 %": Scenario(0.20),
    "5 % to 12 %": Scenario(0.12),
    "5 % to 20 %, unseen by the check": Scenario(0.20, unseen=0.75),
    "the check gets worse": Scenario(passes=WORSE),
}


def items(rng: np.random.Generator, count: int, scenario: Scenario, first: int = 0) -> Iterator[dict[str, Any]]:
    """Yield items with their score and the judge's label."""
    for i in range(first, first + count):
        fails = rng.random() < scenario.rate
        seen = fails and rng.random() >= scenario.unseen
        score = rng.beta(*(FAIL if seen else scenario.passes))
        yield {"id": i, "score": score, "label": float(fails) if rng.random() >= JUDGE_ERROR else 1.0 - fails}


class Way(Protocol):
    """A way to decide: takes an item, returns P(change)."""

    @property
    def spent(self) -> float:
        """Money spent."""

    def feed(self, item: dict[str, Any]) -> float:
        """Take an item; return P(change)."""


class Monitor:
    """`JudgeMonitor`, with the rates of the check counted in a labelled sample."""

    def __init__(self, share: float, cuts: tuple[float, ...], learn: bool = False) -> None:
        sample = list(items(np.random.default_rng(SAMPLE), 2000, Scenario()))
        scores, labels = [item["score"] for item in sample], [item["label"] for item in sample]
        self.monitor = JudgeMonitor(
            _score,
            COST,
            share * COST * DAY,
            DAY,
            cheap_errors=level_rates(scores, labels, cuts, JUDGE_ERROR),
            judge_errors=JUDGE_ERROR,
            cuts=cuts,
            fail_rate=RATE,
            hazard=HAZARD,
            alarm=mf.Alarm(WITHIN, 1.0),
            learn=learn,
        )

    @property
    def spent(self) -> float:
        """Money spent."""
        return self.monitor.spent

    def feed(self, item: dict[str, Any]) -> float:
        """Take an item, and the judge's label if it is wanted."""
        if self.monitor.wants_judge(item):
            self.monitor.judged(item, item["label"])
        return self.monitor.detector.p_changed(WITHIN)


class Sampled:
    """A fixed sampling rate: the judged items alone, or with the check's labels in the filter of `JudgeMonitor`."""

    def __init__(self, share: float, both: bool) -> None:
        self.share, self.both, self.spent = share, both, 0.0
        self.rng = np.random.default_rng(7)
        zeta = 0.3
        check = [[1 - ERRORS[0], ERRORS[0]], [ERRORS[1], 1 - ERRORS[1]]]
        judge = [[1 - JUDGE_ERROR, JUDGE_ERROR], [JUDGE_ERROR, 1 - JUDGE_ERROR]]
        model = (
            mf.Confusion({zeta: check, 1.0: judge}, 1, 1 / RATE - 1, 100) if both else mf.Bernoulli(1, 1 / RATE - 1)
        )
        ways = [mf.Fidelity("check", zeta, 1e-9), mf.Fidelity("judge", 1.0, COST)]
        self.detector = mf.Detector(
            model, ways, HAZARD, policy=mf.Always("judge"), prune=mf.Resample(64), alarm=None, missing="skip"
        )

    def feed(self, item: dict[str, Any]) -> float:
        """Take an item, and the judge's label if the item is drawn."""
        if self.rng.random() < self.share:
            self.spent += COST
            self.detector.update(item["label"], "judge")
        else:
            self.detector.update(float(item["score"] >= 0.5) if self.both else None, "check")
        return self.detector.p_changed(WITHIN)


class Band:
    """A confidence band: the judge's label inside of it, the check's label outside."""

    def __init__(self) -> None:
        self.spent = 0.0
        model = mf.Bernoulli(1, 1 / RATE - 1)
        self.detector = mf.Detector(model, hazard=HAZARD, prune=mf.Resample(64), alarm=None)

    def feed(self, item: dict[str, Any]) -> float:
        """Take an item, and the judge's label if the check is not sure."""
        unsure = BAND[0] <= item["score"] <= BAND[1]
        self.spent += COST * unsure
        self.detector.update(item["label"] if unsure else float(item["score"] >= 0.5))
        return self.detector.p_changed(WITHIN)


def _score(item: dict[str, Any]) -> float:
    return float(item["score"])


def ways(share: float) -> dict[str, Callable[[], Way]]:
    """Return the compared ways at one share of judged items."""
    return {
        "JudgeMonitor, the check's label": partial(Monitor, share, (0.5,)),
        "JudgeMonitor, its score in three levels": partial(Monitor, share, BAND),
        "the same with learn=True": partial(Monitor, share, BAND, True),
        "fixed rate, judged items only": partial(Sampled, share, False),
        "fixed rate, with the check's labels": partial(Sampled, share, True),
        "confidence band .3 to .7": Band,
    }


class Record(NamedTuple):
    """The largest P(change), the item at which it reached the threshold, and money spent per item until then."""

    peak: float
    crossed: int | None
    spent: float


def fed(way: Way, stream: Iterator[dict[str, Any]], threshold: float, settle: int = 0) -> Record:
    """Feed items until the threshold is reached."""
    before, peak, count = way.spent, 0.0, 0
    for i, item in enumerate(stream):
        chance = way.feed(item)
        count += 1
        if i >= settle:
            peak = max(peak, chance)
            if chance >= threshold:
                return Record(peak, i, (way.spent - before) / count)
    return Record(peak, None, (way.spent - before) / count)


def quiet(make: Callable[[], Way], seed: int) -> Record:
    """Run one quiet stream."""
    return fed(make(), items(np.random.default_rng(seed), QUIET, Scenario()), NEVER, SETTLE)


def changed(make: Callable[[], Way], threshold: float, seed: int) -> dict[str, Record] | None:
    """Run the items before a change, and from there each scenario; None if there was a false alarm before."""
    way = make()
    if fed(way, items(np.random.default_rng([seed, 1]), BEFORE, Scenario()), threshold, SETTLE).crossed is not None:
        return None
    return {
        name: fed(copy.deepcopy(way), items(np.random.default_rng([seed, 2]), AFTER, scenario, BEFORE), threshold)
        for name, scenario in SCENARIOS.items()
    }


def line(name: str, make: Callable[[], Way], streams: int, map_: Callable[..., Any]) -> str:
    """Return one row of the table."""
    peaks = [record.peak for record in map_(partial(quiet, make), range(DESIGN, DESIGN + streams))]
    threshold = float(np.quantile(peaks, 1.0 - QUANTILE, method="higher"))
    calm = list(map_(partial(quiet, make), range(JUDGED, JUDGED + streams)))
    false = float(np.mean([record.peak >= threshold for record in calm]))
    cells = [name, f"{1000 * np.mean([record.spent for record in calm]):.2f}", _share(false, streams)]
    seeds = range(JUDGED + streams, JUDGED + 2 * streams)
    runs = [found for found in map_(partial(changed, make, threshold), seeds) if found is not None]
    for what, scenario in SCENARIOS.items():
        late = np.array([AFTER if run[what].crossed is None else run[what].crossed for run in runs], dtype=float)
        if scenario.rate == RATE:
            cells.append(_share(float((late < AFTER).mean()), len(late)))
        else:
            spent = 1000 * np.mean([run[what].spent for run in runs])
            cells.append(f"{late.mean():.0f} ± {2 * late.std(ddof=1) / np.sqrt(len(late)):.0f} ({spent:.2f})")
    return f"| {' | '.join(cells)} |"


def _share(value: float, count: int) -> str:
    return f"{100 * value:.0f} % ± {200 * np.sqrt(max(value * (1 - value), 0.25 / count) / count):.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--streams", type=int, default=STREAMS, help="streams of each kind (default %(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="processes (default %(default)s)")
    arguments = parser.parse_args()
    streams = arguments.streams
    with ProcessPoolExecutor(arguments.workers) as pool:
        map_ = partial(pool.map, chunksize=5)
        share = float(np.mean([quiet(Band, seed).spent for seed in range(DESIGN, DESIGN + streams)])) / COST
        print(f"The band asks the judge about {100 * share:.1f} % of the items of quiet design streams.\n")
        print(f"| | money per 1000 items | quiet streams with a false alarm | {' | '.join(SCENARIOS)} |")
        print(f"|{'---|' * (3 + len(SCENARIOS))}", flush=True)
        for name, make in ways(share).items():
            print(line(name, make, streams, map_), flush=True)
        print(line("three levels, a quarter of the money", partial(Monitor, share / 4, BAND), streams, map_))


if __name__ == "__main__":
    main()
