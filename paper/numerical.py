"""The paper's numerical experiment: several rules on the same Gaussian streams, held against the all-high run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfbocd.datasets import simulate
from mfbocd.detector.detector import Detector
from mfbocd.models import Gaussian
from mfbocd.policy import Always, Budget, InformationRate, Margin, Policy, Random
from mfbocd.policy.fidelity import Fidelity
from mfbocd.trace.run import run

from . import published
from .level import reach
from .study.parts import Job
from .target import Number, Options

Array = NDArray[np.float64]
Choices = NDArray[np.int64]
Scores = dict[str, dict[str, float]]
"""By rule and measure."""

TICKS = 500
HAZARD = 1 / 100
MODEL = Gaussian(mean=1, var=3, noise_var=1)
WAYS = (Fidelity("low", zeta=0.5, cost=1.0), Fidelity("high", zeta=1.0, cost=2.0))
ZETAS = tuple(f.zeta for f in WAYS)
RATES = tuple(1.0 / f.cost_of() for f in WAYS)
HELD_OUT = 1_000_000  # added to the seeds of the streams an argument is tuned on
CHUNK = 10  # trials a part
WIDEST = 1.0  # margin tried, in nats; the narrowest is a millionth of it
CORRECTED = "published, correct updates"
"""As published but for the mistake in weighting the means (`published`, 1)."""
ENGINES = {"library": False, "as published": True, CORRECTED: True}
"""Each with whether its streams are drawn as the published code draws them."""


@dataclass(frozen=True)
class Followed:
    """What one rule did on one stream."""

    choice: Choices
    """(T,): index of the fidelity read."""
    mean: Array
    """(T,): the predicted mean of the next reading."""
    posterior: Array
    """(T, T): the paper's run-length matrix but for its first row and column, which no run differs in: 1 - h times
    the filtered posterior."""


def engines(options: Options) -> list[str]:
    """The one asked for with ``--as-published``, else all."""
    return ["as published"] if options.as_published else list(ENGINES)


def stream(seed: int, as_published: bool, ticks: int = TICKS) -> simulate.Stream:
    """One stream; as published it is drawn with standard deviations for variances."""
    if as_published:
        return published.draw(MODEL, WAYS, HAZARD, ticks=ticks, seed=seed)
    return simulate.gaussian(MODEL, WAYS, HAZARD, ticks=ticks, seed=seed)


def by_library(table: Array, policy: Policy, seed: int) -> Followed:
    """The library's exact filter under a policy."""
    detector = Detector(MODEL, WAYS, HAZARD, policy=policy, prune=None, alarm=None, seed=seed)
    trace = run(detector, table, posterior=True)
    assert trace.posterior is not None
    return Followed(trace.choice, trace.mean, (1.0 - HAZARD) * trace.posterior)


def as_published(table: Array, policy: Policy, seed: int, correct: bool = False) -> Followed:
    """The paper's code under the same policy; a `Budget`, which it does not know, chooses by the library's gains."""
    rule: dict[str, Any]
    if isinstance(policy, InformationRate):
        rule = {"rates": RATES}
    elif isinstance(policy, Margin):
        rule = {"margin": policy.delta}
    else:
        planned = policy.bind(WAYS).schedule([seed], 0, len(table))
        choice = by_library(table, policy, seed).choice if planned is None else np.ascontiguousarray(planned[:, 0])
        rule = {"choice": choice}
    found = published.run(MODEL, ZETAS, HAZARD, table, correct=correct, **rule)
    return Followed(found.choice, found.mean, found.posterior[1:, 1:])


def follow(table: Array, policy: Policy, seed: int, engine: str) -> Followed:
    """One stream under one policy by one of the engines."""
    if ENGINES[engine]:
        return as_published(table, policy, seed, correct=engine == CORRECTED)
    return by_library(table, policy, seed)


def score(tested: Followed, high: Followed) -> dict[str, float]:
    """Share of low fidelity, switching rate, and the paper's two distances to the all-high run.

    >>> table = stream(1, False, ticks=40).table
    >>> high = follow(table, Always("high"), 1, "library")
    >>> score(high, high)
    {'low': 0.0, 'switching': 0.0, 'MSE': 0.0, 'L1': 0.0}
    """
    return {
        "low": float((tested.choice == 0).mean()),
        "switching": float((np.diff(tested.choice) != 0).mean()),
        "MSE": float(((tested.mean - high.mean) ** 2).mean()),
        "L1": float(np.abs(tested.posterior - high.posterior).sum()),
    }


def trials(first: int, count: int, ticks: int, engine: str, tuned: tuple[float, float] | None = None) -> list[Scores]:
    """The rate rule, and with `tuned` two more, each with a coin that reads low as often on the same stream.

    `tuned` are the margin of the margin rule and the spend a tick of the library's default.
    """
    rules: dict[str, Policy] = {"rate": InformationRate()}
    if tuned is not None:
        rules |= {"margin": Margin(tuned[0]), "default": Budget(tuned[1])}
    found = []
    for seed in range(first, first + count):
        table = stream(seed, ENGINES[engine], ticks).table
        high = follow(table, Always("high"), seed, engine)
        scores: Scores = {}
        for name, policy in rules.items():
            scores[name] = score(follow(table, policy, seed, engine), high)
            scores[coin_of(name)] = score(follow(table, coin(scores[name]["low"]), seed, engine), high)
        found.append(scores)
    return found


def coin_of(rule: str) -> str:
    """Where the scores of a rule's coin are.

    >>> coin_of("rate")
    'coin of rate'
    """
    return f"coin of {rule}"


def many(options: Options, count: int, tuned: Mapping[str, tuple[float, float] | None]) -> dict[str, list[Scores]]:
    """The scores of `count` trials by every engine that `tuned` names, in parts that a later run resumes from."""
    end = options.seed + count
    jobs: dict[str, dict[str, Job]] = {
        engine: {
            f"{stem(engine)}-{first}": (trials, (first, min(CHUNK, end - first), TICKS, engine, wanted))
            for first in range(options.seed, end, CHUNK)
        }
        for engine, wanted in tuned.items()
    }
    work = {name: job for of in jobs.values() for name, job in of.items()}
    parts = options.finish(work, {"trials": count, "ticks": TICKS, "tuned": dict(tuned)})
    return {engine: [scores for name in of for scores in parts[name]] for engine, of in jobs.items()}


def stem(engine: str) -> str:
    """Of the names of its parts."""
    return engine.replace(",", "").replace(" ", "-")


def coin(share: float) -> Random:
    """Low fidelity at this share of the ticks, whatever was seen."""
    return Random([share, 1.0 - share])


def tune(seed: int, held: int, ticks: int, engine: str) -> dict[str, float]:
    """On held-out streams: the rate rule's share of low fidelity, and the margin that gives the same share."""
    seeds = range(HELD_OUT + seed, HELD_OUT + seed + held)
    tables = [stream(s, ENGINES[engine], ticks).table for s in seeds]

    def share(policy: Policy) -> float:
        low = [follow(table, policy, 0, engine).choice == 0 for table in tables]
        return float(np.mean(low))

    wanted = share(InformationRate())
    narrowing = reach(lambda w: share(Margin(WIDEST / w)), wanted, low=1.0, high=1e6)
    delta = WIDEST / narrowing
    return {"wanted": wanted, "delta": delta, "reached": share(Margin(delta))}


def spend(share: float) -> float:
    """Average cost a tick at this share of low fidelity.

    >>> spend(0.75)
    1.25
    """
    low, high = (f.cost_of() for f in WAYS)
    return share * low + (1.0 - share) * high


def column(found: Sequence[Scores], rule: str, measure: str) -> Array:
    """One number a stream."""
    return np.array([scores[rule][measure] for scores in found])


def difference(found: Sequence[Scores], rule: str, other: str, measure: str) -> Number:
    """Mean of rule minus other on the same streams, with two standard errors."""
    return Number.mean_of(column(found, rule, measure) - column(found, other, measure))


def sign(gap: Number) -> int:
    """1 or -1 if a mean is above or below zero by more than its two standard errors, else 0.

    >>> sign(Number(-3.0, 1.0)), sign(Number(0.5, 1.0))
    (-1, 0)
    """
    if gap.two_se is None or abs(gap.value) <= gap.two_se:
        return 0
    return 1 if gap.value > 0.0 else -1


def beside_coin(found: Sequence[Scores], rule: str, name: str) -> tuple[int, str]:
    """In how many of MSE and L1 a rule beats its coin, and the sentence that says so."""
    told, won = [], []
    for measure in ("MSE", "L1"):
        gap = difference(found, rule, coin_of(rule), measure)
        mine, theirs = (Number.mean_of(column(found, r, measure)) for r in (rule, coin_of(rule)))
        word = ("not told apart", "HIGHER", "lower")[sign(gap)]
        told.append(f"{measure} {mine} against {theirs}, {word}")
        won += [measure] if sign(gap) < 0 else []
    verb = "beats" if won else "does not beat"
    only = f" in {won[0]} only" if len(won) == 1 else ""
    return len(won), f"{name} {verb} a coin that reads low fidelity as often{only} ({'; '.join(told)})."


def held(gap: Number) -> str:
    """What became of a claim that a difference is above zero."""
    return ("can be neither told nor ruled out", "holds", "is reversed")[sign(gap)]
