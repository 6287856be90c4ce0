"""Everything that is run on the CamVid stream: high, low, the paper's rule, our default, and coins."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mfbocd.calibrate import Tuned, weights_for
from mfbocd.policy import Budget, Policy

from .scene import Array, Scene
from .single import Engine, Play, Score, model, plain, play, score, toss
from .target import Options

FULL, QUICK = 2000, 500  # runs of each coin
BLOCK = 100  # of them a part
MEASURES = {"mse": "MSE", "l1": "L1"}
CHANCE = 0.025  # a run beats a coin if no more of the coin's runs are as good

HIGH, LOW = "all high", "all low"
RATE, BUDGET, HALF = "active, the paper's rule", "active, Budget at its spend", "active, Budget at half"
FAIR, EQUAL = "fair coin", "coin at the paper's rule's spend"
RIVAL = {LOW: FAIR, RATE: EQUAL, BUDGET: EQUAL, HALF: FAIR}
"""Which coin spends what the run spends, or comes nearest to it."""


@dataclass(frozen=True)
class Told:
    """All runs of one engine."""

    plays: Mapping[str, Play]
    policies: Mapping[str, Policy]
    scores: Mapping[str, Score]
    coins: Mapping[str, Mapping[str, Array]]
    """By coin and field of `Score`, one number a run."""
    tuned: Tuned


@dataclass(frozen=True)
class Against:
    """One run beside the runs of a coin."""

    mine: float
    mean: float
    sd: float
    """Of one run of the coin."""
    as_good: float
    """Share of the coin's runs with no larger error."""

    @classmethod
    def of(cls, mine: float, coin: Array) -> Against:
        """Smaller is better.

        >>> beside = Against.of(4.0, np.array([1.0, 2.0, 3.0, 6.0]))
        >>> beside.as_good, beside.beats
        (0.75, False)
        """
        return cls(mine, float(coin.mean()), float(coin.std(ddof=1)), float((coin <= mine).mean()))

    @property
    def deviations(self) -> float:
        """How many standard deviations of one run of the coin this run is worse than the coin's mean."""
        difference = self.mine - self.mean
        return difference / self.sd if self.sd else math.copysign(math.inf, difference) if difference else 0.0

    @property
    def beats(self) -> bool:
        """Whether hardly any run of the coin is as good: the errors of short streams are far from normal."""
        return self.as_good <= CHANCE

    def __str__(self) -> str:
        return f"{self.mine:.3g} to {self.mean:.3g}, {self.deviations:+.1f} sd, {self.as_good:.1%}"


def follow(scene: Scene, options: Options, engine: Engine) -> Told:
    """Tune on the other frames, then run everything on the stream."""
    tuned = weights_for(scene.half, model(engine), scene.fidelities, scene.hazard, scene.tuning, prune=None)
    plays = {HIGH: plain(scene, 1, engine), LOW: plain(scene, 0, engine), RATE: play(scene, tuned.policy, engine)}
    spend = plays[RATE].spent / len(scene.table)
    policies: dict[str, Policy] = {RATE: tuned.policy, BUDGET: Budget(spend), HALF: Budget(scene.half)}
    for name in (BUDGET, HALF):
        plays[name] = play(scene, policies[name], engine)
    scores = {name: score(scene, one, plays[HIGH]) for name, one in plays.items()}
    coins = tossed(scene, options, engine, {FAIR: 0.5, EQUAL: scores[RATE].low})
    return Told(plays, policies, scores, coins, tuned)


def tossed(
    scene: Scene, options: Options, engine: Engine, shares: Mapping[str, float]
) -> dict[str, dict[str, Array]]:
    """Many runs of each coin, in parts."""
    count = options.count(FULL, QUICK)
    digest = hashlib.sha256(scene.table.tobytes() + scene.truth.tobytes()).hexdigest()[:16]
    low, high = scene.fidelities
    setting = {"shares": shares, "stream": digest, "hazard": scene.hazard, "zeta": low.zeta, "trials": count}
    setting |= {"cost": [low.cost_of(), high.cost_of()]}
    parts: dict[str, list[str]] = {name: [] for name in shares}
    work = {}
    for name, share in shares.items():
        for start in range(0, count, BLOCK):
            seeds = range(options.seed + start, options.seed + min(start + BLOCK, count))
            part = f"coin-{engine}-{share:.3f}-{start:05d}".replace(" ", "-")
            work[part] = (toss, (scene, engine, share, seeds))
            parts[name].append(part)
    made = options.finish(work, setting)
    runs = {name: [one for part in parts[name] for one in made[part]] for name in shares}
    return {name: {field: np.array([one[field] for one in all_]) for field in all_[0]} for name, all_ in runs.items()}


def against(told: Told, name: str, coin: str) -> dict[str, Against]:
    """A run beside a coin, by measure."""
    return {
        what: Against.of(getattr(told.scores[name], field), told.coins[coin][field])
        for field, what in MEASURES.items()
    }
