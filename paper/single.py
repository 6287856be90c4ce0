"""One stream run by several policies, beside the run that always reads high and beside many runs of a coin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mfbocd.detector.detector import Detector
from mfbocd.detector.step import Alarm
from mfbocd.models import Bernoulli
from mfbocd.policy import Policy, Random
from mfbocd.policy.fidelity import Fidelity
from mfbocd.trace.metrics import detection, l1, mse
from mfbocd.trace.run import run

from . import published
from .scene import Array, Scene

Engine = Literal["library", "as published"]
PRIOR = 1.0  # alpha and beta


@dataclass(frozen=True)
class Play:
    """What one run over the stream did."""

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
    """Of the predictive mean to the all-high run's."""
    l1: float
    """Of the run-length posterior to the all-high run's, in the paper's shifted convention."""
    found: float
    """Labelled changes with an alarm of their own."""
    false: float
    """Alarms with no change."""


def model(engine: Engine) -> Bernoulli:
    """Beta(1, 1) prior; as published the predictive is not normalised."""
    return Bernoulli(PRIOR, PRIOR, predictive="paper" if engine == "as published" else "normalized")


def alarm(hazard: float, sure: float = 0.9) -> Alarm:
    """Fire where a change within half the expected length of a regime is this sure.

    >>> alarm(1 / 20)
    Alarm(within=10, threshold=0.9)
    """
    return Alarm(within=max(1, round(0.5 / hazard)), threshold=sure)


def play(scene: Scene, policy: Policy, engine: Engine, seed: int = 0, sure: float = 0.9) -> Play:
    """The stream under a policy, with the exact filter."""
    return _play(scene, scene.fidelities, scene.table, policy, engine, seed, sure)


def plain(scene: Scene, column: int, engine: Engine, sure: float = 0.9) -> Play:
    """Ordinary BOCD (zeta = 1) on one fidelity's readings alone: column 0 low, 1 high."""
    only = (Fidelity(scene.fidelities[column].name, zeta=1.0, cost=scene.fidelities[column].cost),)
    told = _play(scene, only, scene.table[:, [column]], None, engine, 0, sure)
    return Play(np.full_like(told.choice, column), told.x, told.mean, told.posterior, told.alarms, told.spent)


def _play(
    scene: Scene,
    ways: tuple[Fidelity, ...],
    table: Array,
    policy: Policy | None,
    engine: Engine,
    seed: int,
    sure: float,
) -> Play:
    fires = alarm(scene.hazard, sure)
    detector = Detector(model(engine), ways, scene.hazard, policy=policy, prune=None, alarm=fires, seed=seed)
    trace = run(detector, table, posterior=True)
    assert trace.posterior is not None
    mean = trace.mean
    if engine == "as published":
        zeta = [f.zeta for f in ways]
        mean = published.run(detector.model, zeta, scene.hazard, table, choice=trace.choice).mean
    fired = tuple(int(t) for t in np.flatnonzero(trace.alarm))
    return Play(trace.choice, trace.x, mean, trace.posterior, fired, trace.spent)


def score(scene: Scene, one: Play, high: Play) -> Score:
    """A run held against the all-high run and the labels."""
    found = detection(one.alarms, scene.changes, within=alarm(scene.hazard).within)
    return Score(
        low=float((one.choice == 0).mean()),
        spent=one.spent,
        mse=mse(one.mean, high.mean),
        l1=(1.0 - scene.hazard) * l1(one.posterior, high.posterior),
        found=float(found.found),
        false=float(found.false_alarms),
    )


def toss(scene: Scene, engine: Engine, share: float, seeds: Sequence[int]) -> list[dict[str, float]]:
    """Scores of a coin that reads this share at low fidelity, one run a seed."""
    high = plain(scene, 1, engine)
    coin = Random([share, 1.0 - share])
    return [asdict(score(scene, play(scene, coin, engine, seed), high)) for seed in seeds]
