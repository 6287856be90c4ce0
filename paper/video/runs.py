"""Everything that is run on the video stream: high, low, the paper's rule, the default, and random choice."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mfbocd.belief.alarm import Alarm
from mfbocd.calibrate import Tuned, weights_for
from mfbocd.detector.detector import Detector
from mfbocd.models import Bernoulli
from mfbocd.policy import Budget, Policy, Random
from mfbocd.policy.fidelity import Fidelity
from mfbocd.trace.metrics import detection, l1, mse
from mfbocd.trace.run import run

from .. import published
from ..framework import Options
from .scene import Array, Scene

Engine = Literal["library", "as published"]
PRIOR = 1.0  # alpha and beta
FULL, QUICK = 2000, 500  # runs of each random baseline
BLOCK = 100  # of them per part
MEASURES = {"mse": "MSE", "l1": "L1"}
CHANCE = 0.025  # a run beats random choice if at most this share of the random runs is as good

HIGH, LOW = "all high", "all low"
RATE, BUDGET, HALF = "active, the paper's rule", "active, Budget at its spend", "active, Budget at half"
FAIR, EQUAL = "random, half low", "random at the paper's rule's spend"
RIVAL = {LOW: FAIR, RATE: EQUAL, BUDGET: EQUAL, HALF: FAIR}
"""The random baseline whose spend is that of the run, or closest to it."""


@dataclass(frozen=True)
class Play:
    """One run over the stream."""

    choice: NDArray[np.int64]
    """Index of the fidelity read."""
    x: Array
    mean: Array
    """Of the next reading, after each."""
    posterior: Array
    """(T, T): row t holds the filtered P(r_t = l)."""
    alarms: tuple[int, ...]
    spent: float


@dataclass(frozen=True)
class Score:
    """A run in numbers."""

    low: float
    """Share of frames read at low fidelity."""
    spent: float
    mse: float
    """Of the predictive mean, to that of the all-high run."""
    l1: float
    """Of the run-length posterior, to that of the all-high run, in the paper's shifted convention."""
    found: float
    """Labelled changes with an alarm of their own."""
    false: float
    """Alarms without a change."""


def model(engine: Engine) -> Bernoulli:
    """Beta(1, 1) prior; as published, the predictive is not normalized."""
    return Bernoulli(PRIOR, PRIOR, predictive="paper" if engine == "as published" else "normalized")


def alarm(hazard: float, confidence: float = 0.9) -> Alarm:
    """Fires when a change within half the expected length of a regime has this probability.

    >>> alarm(1 / 20)
    Alarm(within=10, threshold=0.9, direction=None, before=None, at_least=None)
    """
    return Alarm(within=max(1, round(0.5 / hazard)), threshold=confidence)


def play(scene: Scene, policy: Policy, engine: Engine, seed: int = 0, confidence: float = 0.9) -> Play:
    """The stream under a policy, with the exact filter."""
    return _play(scene, scene.fidelities, scene.table, policy, engine, seed, confidence)


def plain(scene: Scene, column: int, engine: Engine, confidence: float = 0.9) -> Play:
    """Ordinary BOCD (zeta = 1) on one fidelity's readings alone: column 0 low, 1 high."""
    only = (Fidelity(scene.fidelities[column].name, zeta=1.0, cost=scene.fidelities[column].cost),)
    one = _play(scene, only, scene.table[:, [column]], None, engine, 0, confidence)
    return Play(np.full_like(one.choice, column), one.x, one.mean, one.posterior, one.alarms, one.spent)


def _play(
    scene: Scene,
    fidelities: tuple[Fidelity, ...],
    table: Array,
    policy: Policy | None,
    engine: Engine,
    seed: int,
    confidence: float,
) -> Play:
    fires = alarm(scene.hazard, confidence)
    detector = Detector(model(engine), fidelities, scene.hazard, policy=policy, prune=None, alarm=fires, seed=seed)
    trace = run(detector, table, posterior=True)
    assert trace.posterior is not None
    mean = trace.mean
    if engine == "as published":
        zeta = [f.zeta for f in fidelities]
        mean = published.run(detector.model, zeta, scene.hazard, table, choice=trace.choice).mean
    fired = tuple(int(t) for t in np.flatnonzero(trace.alarm))
    return Play(trace.choice, trace.x, mean, trace.posterior, fired, trace.spent)


def score(scene: Scene, one: Play, high: Play) -> Score:
    """A run compared with the all-high run and the labels."""
    found = detection(one.alarms, scene.changes, within=alarm(scene.hazard).within)
    return Score(
        low=float((one.choice == 0).mean()),
        spent=one.spent,
        mse=mse(one.mean, high.mean),
        l1=(1.0 - scene.hazard) * l1(one.posterior, high.posterior),
        found=float(found.found),
        false=float(found.false_alarms),
    )


def random_scores(scene: Scene, engine: Engine, share: float, seeds: Sequence[int]) -> list[dict[str, float]]:
    """Scores of random choice with this share of low fidelity, one run per seed."""
    high = plain(scene, 1, engine)
    policy = Random([share, 1.0 - share])
    return [asdict(score(scene, play(scene, policy, engine, seed), high)) for seed in seeds]


@dataclass(frozen=True)
class Runs:
    """All runs of one engine."""

    plays: Mapping[str, Play]
    policies: Mapping[str, Policy]
    scores: Mapping[str, Score]
    random: Mapping[str, Mapping[str, Array]]
    """By random baseline and field of `Score`, one number per run."""
    tuned: Tuned

    def against(self, name: str, baseline: str) -> dict[str, Against]:
        """A run compared with a random baseline, by measure."""
        mine, random = self.scores[name], self.random[baseline]
        return {what: Against.of(getattr(mine, field), random[field]) for field, what in MEASURES.items()}


@dataclass(frozen=True)
class Against:
    """One run compared with the runs of a random baseline."""

    mine: float
    mean: float
    sd: float
    """Of one random run."""
    as_good: float
    """Share of the random runs whose error is not larger."""

    @classmethod
    def of(cls, mine: float, random: Array) -> Against:
        """Smaller is better.

        >>> found = Against.of(4.0, np.array([1.0, 2.0, 3.0, 6.0]))
        >>> found.as_good, found.beats
        (0.75, False)
        """
        return cls(mine, float(random.mean()), float(random.std(ddof=1)), float((random <= mine).mean()))

    @property
    def deviations(self) -> float:
        """Difference to the random mean in standard deviations of one random run; positive is worse."""
        difference = self.mine - self.mean
        return difference / self.sd if self.sd else math.copysign(math.inf, difference) if difference else 0.0

    @property
    def beats(self) -> bool:
        """Whether hardly any random run is as good: the errors of short streams are far from normal."""
        return self.as_good <= CHANCE

    def __str__(self) -> str:
        return f"{self.mine:.3g} to {self.mean:.3g}, {self.deviations:+.1f} sd, {self.as_good:.1%}"


def follow(scene: Scene, options: Options, engine: Engine) -> Runs:
    """Tune on the other frames, then run everything on the stream."""
    tuned = weights_for(scene.half, model(engine), scene.fidelities, scene.hazard, scene.tuning, prune=None)
    plays = {HIGH: plain(scene, 1, engine), LOW: plain(scene, 0, engine), RATE: play(scene, tuned.policy, engine)}
    spend = plays[RATE].spent / len(scene.table)
    policies: dict[str, Policy] = {RATE: tuned.policy, BUDGET: Budget(spend), HALF: Budget(scene.half)}
    for name in (BUDGET, HALF):
        plays[name] = play(scene, policies[name], engine)
    scores = {name: score(scene, one, plays[HIGH]) for name, one in plays.items()}
    random = random_runs(scene, options, engine, {FAIR: 0.5, EQUAL: scores[RATE].low})
    return Runs(plays, policies, scores, random, tuned)


def random_runs(
    scene: Scene, options: Options, engine: Engine, shares: Mapping[str, float]
) -> dict[str, dict[str, Array]]:
    """Many runs of each random baseline, in parts."""
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
            part = f"random-{engine}-{share:.3f}-{start:05d}".replace(" ", "-")
            work[part] = (random_scores, (scene, engine, share, seeds))
            parts[name].append(part)
    made = options.finish(work, setting)
    runs = {name: [one for part in parts[name] for one in made[part]] for name in shares}
    return {name: {field: np.array([one[field] for one in all_]) for field in all_[0]} for name, all_ in runs.items()}
