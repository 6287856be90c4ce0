"""What both ablation tables share: a rule that chooses, a coin that reads low as often, and low fidelity only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfbocd.calibrate import average_spend
from mfbocd.datasets import simulate
from mfbocd.fleet.fleet import Fleet
from mfbocd.models import Bernoulli, Gaussian
from mfbocd.policy import Always, InformationRate
from mfbocd.policy.fidelity import Fidelity

from . import published
from .level import reach
from .study.families import Drawn, Family
from .study.follow import Scores, follow
from .target import Number, Options

Array = NDArray[np.float64]
Choices = NDArray[np.int64]

LIBRARY, PAPER, PUBLISHED = "library", "library, paper's predictive", "as published"
CORRECTED = "published, correct updates"
"""As published but for the Gaussian's mistake in weighting its means."""
PARTS = {LIBRARY: "library", PAPER: "predictive", PUBLISHED: "published", CORRECTED: "corrected"}
THEIRS = (PUBLISHED, CORRECTED)
LOW, HIGH = Fidelity("low", 0.5, 1.0), Fidelity("high", 1.0, 2.0)
PLAIN = Fidelity("low", 1.0, 1.0)
"""Low-fidelity data taken at their word: ordinary BOCD."""
HELD_OUT = 1_000_000  # seeds from here on are drawn for tuning
TRIALS, QUICK, TUNING = 200, 16, 100


@dataclass(frozen=True)
class Setting:
    """A table of the paper: what is drawn, and what was printed."""

    model: Gaussian | Bernoulli
    ticks: int
    hazard: float
    only: tuple[str, str]
    """Low fidelity only, as printed: MSE and L1."""
    printed: Sequence[tuple[int, str, str, str, str]]
    """LF %, MSE of the coin, of information, L1 of the coin, of information."""
    engines: Sequence[str] = (LIBRARY, PUBLISHED)

    def draw(self, engine: str, seed: int) -> Drawn:
        """One stream of two columns, low then high."""
        ways = (LOW, HIGH)
        if isinstance(self.model, Bernoulli):
            made = simulate.bernoulli(self.model, ways, self.hazard, ticks=self.ticks, seed=seed, low="miss")
        elif engine in THEIRS:
            made = published.draw(self.model, ways, self.hazard, ticks=self.ticks, seed=seed)
        else:
            made = simulate.gaussian(self.model, ways, self.hazard, ticks=self.ticks, seed=seed)
        return Drawn(made.table, made.theta, made.changes)

    def model_of(self, engine: str) -> Gaussian | Bernoulli:
        """The model the engine filters with."""
        if engine == PAPER and isinstance(self.model, Bernoulli):
            return Bernoulli(self.model.alpha, self.model.beta, predictive="paper")
        return self.model


class Measured(NamedTuple):
    """One number a trial."""

    low: list[float]
    """Share of ticks read at low fidelity."""
    mse: list[float]
    l1: list[float]


@dataclass(frozen=True)
class Pair:
    """Information and the coin at one level, on the same streams."""

    level: int
    weight: float
    """Of the high fidelity, tuned on held-out streams."""
    information: Measured
    random: Measured

    @property
    def low(self) -> float:
        """Share of low fidelity that the rule came to."""
        return float(np.mean(self.information.low))

    def difference(self, measure: str) -> Number:
        """Information less the coin, stream by stream."""
        mine, coin = getattr(self.information, measure), getattr(self.random, measure)
        return Number.mean_of(np.subtract(mine, coin))

    def outcome(self, measure: str) -> str:
        """Of the rule: "better" or "worse" than the coin beyond two standard errors, or "no different"."""
        found = self.difference(measure)
        if found.two_se is None or abs(found.value) <= found.two_se:
            return "no different"
        return "better" if found.value < 0.0 else "worse"


@dataclass(frozen=True)
class Column:
    """One engine's table."""

    engine: str
    setting: Setting
    only: Measured
    """Low fidelity only."""
    pairs: Sequence[Pair]
    """In the order of the printed levels."""


def compare(setting: Setting, options: Options) -> list[Column]:
    """Every engine at every level, in parts."""
    trials = options.count(TRIALS, QUICK)
    tuning = min(TUNING, trials)
    engines = [PUBLISHED] if options.as_published else list(setting.engines)
    work: dict[str, Any] = {}
    for engine in engines:
        name = f"{PARTS[engine]}-{setting.ticks}"
        work[f"{name}-only"] = (low_only, (setting, engine, trials, options.seed))
        for level, *_ in setting.printed:
            work[f"{name}-{level}"] = (at_level, (setting, engine, level, trials, tuning, options.seed))
    found = list(options.finish(work, {"trials": trials, "tuning": tuning, "setting": repr(setting)}).values())
    columns = []
    for engine in engines:
        only, *parts = (found.pop(0) for _ in range(1 + len(setting.printed)))
        pairs = [
            Pair(level, part["weight"], Measured(**part["information"]), Measured(**part["random"]))
            for (level, *_), part in zip(setting.printed, parts, strict=True)
        ]
        columns.append(Column(engine, setting, Measured(**only), pairs))
    return columns


def at_level(setting: Setting, engine: str, level: int, trials: int, tuning: int, seed: int) -> dict[str, Any]:
    """Tune the weight on held-out streams, run the rule on the trials, and a coin with each trial's own share."""
    held_out = [setting.draw(engine, HELD_OUT + seed + i).table for i in range(tuning)]
    weight = reach(lambda w: _share(setting, engine, w, held_out), level / 100.0)
    drawn = [setting.draw(engine, seed + i) for i in range(trials)]
    mine = _informed(setting, engine, weight, drawn, seed)
    tossed = coins(mine.low, setting.ticks, level, seed)
    coin = given_choices(setting, engine, tossed, drawn, seed)
    return {"weight": weight, "information": mine._asdict(), "random": coin._asdict()}


def low_only(setting: Setting, engine: str, trials: int, seed: int) -> dict[str, list[float]]:
    """Ordinary BOCD on low-fidelity data, taken at their word."""
    drawn = [setting.draw(engine, seed + i) for i in range(trials)]
    if engine in THEIRS:
        low = np.zeros(setting.ticks, dtype=np.int64)
        return _published(setting, engine, drawn, (1.0, 1.0), [low] * trials)._asdict()
    family = replace(_family(setting, engine), fidelities=(PLAIN, HIGH))
    return _measured(setting, follow(family, Always("low"), drawn, seed))._asdict()


def coins(shares: Sequence[float], ticks: int, level: int, seed: int) -> list[Choices]:
    """For each trial, a toss a tick that reads low with the share the rule read low on that trial."""
    draws = [np.random.default_rng((seed + i, level)).random(ticks) for i in range(len(shares))]
    return [np.where(u < share, 0, 1).astype(np.int64) for u, share in zip(draws, shares, strict=True)]


def _share(setting: Setting, engine: str, weight: float, tables: Sequence[Array]) -> float:
    if engine in THEIRS:
        return float(np.mean([_chosen(setting, engine, weight, table) == 0 for table in tables]))
    policy, family = InformationRate([1.0, weight]), _family(setting, engine)
    options: dict[str, Any] = {"prune": None, "missing": "raise", "threads": 1}
    spend = average_spend(policy, family.model, family.fidelities, family.hazard, tables, **options)
    low, high = LOW.cost_of(), HIGH.cost_of()
    return (high - spend) / (high - low)


def _chosen(setting: Setting, engine: str, weight: float, table: Array) -> Choices:
    zeta, rates = (LOW.zeta, HIGH.zeta), (1.0 / LOW.cost_of(), weight / HIGH.cost_of())
    correct = engine == CORRECTED
    return published.run(setting.model, zeta, setting.hazard, table, rates=rates, correct=correct).choice


def _informed(setting: Setting, engine: str, weight: float, drawn: Sequence[Drawn], seed: int) -> Measured:
    if engine in THEIRS:
        return given_choices(setting, engine, [_chosen(setting, engine, weight, d.table) for d in drawn], drawn, seed)
    return _measured(setting, follow(_family(setting, engine), InformationRate([1.0, weight]), drawn, seed))


def given_choices(
    setting: Setting, engine: str, choices: list[Choices], drawn: Sequence[Drawn], seed: int
) -> Measured:
    """Choices made beforehand."""
    if engine in THEIRS:
        return _published(setting, engine, drawn, (LOW.zeta, HIGH.zeta), choices)
    planned = np.stack(choices, axis=1)

    def choose(fleet: Fleet) -> Choices:
        return np.asarray(planned[fleet.ticks[0]])

    return _measured(setting, follow(_family(setting, engine), choose, drawn, seed))


def _published(
    setting: Setting, engine: str, drawn: Sequence[Drawn], zeta: tuple[float, float], choices: Sequence[Choices]
) -> Measured:
    model, hazard = setting.model, setting.hazard
    high = np.ones(setting.ticks, dtype=np.int64)
    mse, l1 = [], []
    for stream, choice in zip(drawn, choices, strict=True):
        mine = published.run(model, zeta, hazard, stream.table, choice=choice, correct=engine == CORRECTED)
        best = published.run(model, (1.0, 1.0), hazard, stream.table, choice=high)
        mse.append(float(np.mean((mine.mean - best.mean) ** 2)))
        l1.append(float(np.abs(mine.posterior - best.posterior).sum()))
    return Measured([float(np.mean(c == 0)) for c in choices], mse, l1)


def _family(setting: Setting, engine: str) -> Family:
    return Family(
        "ablation", setting.model_of(engine), (LOW, HIGH), setting.hazard, lambda seed: setting.draw(engine, seed)
    )


def _measured(setting: Setting, scores: Scores) -> Measured:
    """In the paper's L1, which compares the run length of the next point: 1 - h times the filtered one's."""
    l1 = (1.0 - setting.hazard) * scores.l1
    return Measured(scores.low.tolist(), scores.mse.tolist(), l1.tolist())
