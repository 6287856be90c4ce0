"""The paper's numerical experiment: rules on Gaussian streams, compared with the all-high run, and its pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mfbocd.datasets import simulate
from mfbocd.detector.detector import Detector
from mfbocd.models import Gaussian
from mfbocd.policy import Always, Budget, InformationRate, Margin, Policy, Random
from mfbocd.policy.fidelity import Fidelity
from mfbocd.trace.run import run

from . import published
from .framework import Job, Number, Options
from .published import CORRECTED, LIBRARY, PUBLISHED
from .streams.tuning import HELD_OUT, reach

Array = NDArray[np.float64]
Choices = NDArray[np.int64]
Scores = dict[str, dict[str, float]]
"""By rule and measure."""

TICKS = 500
HAZARD = 1 / 100
MODEL = Gaussian(mean=1, var=3, noise_var=1)
FIDELITIES = (Fidelity("low", zeta=0.5, cost=1.0), Fidelity("high", zeta=1.0, cost=2.0))
ZETAS = tuple(f.zeta for f in FIDELITIES)
RATES = tuple(1.0 / f.cost_of() for f in FIDELITIES)
CHUNK = 10  # trials per part
WIDEST = 1.0  # largest margin tried, in nats; the smallest is a millionth of it
ENGINES = {LIBRARY: False, PUBLISHED: True, CORRECTED: True}
"""Each with whether its streams are drawn as the published code draws them."""
LOW, HIGH, GREEN, INK = "#E69F00", "#0072B2", "#009E73", "#222222"
FAINTEST = 1e-4  # probability at which the heat map fades into the background
DEVIATIONS = 2.0  # half width of the band


@dataclass(frozen=True)
class Followed:
    """One rule on one stream."""

    choice: Choices
    """(T,): index of the fidelity read."""
    mean: Array
    """(T,): the predicted mean of the next reading."""
    posterior: Array
    """(T, T): the paper's run-length matrix without its first row and column, which are the same in every run: 1 - h
    times the filtered posterior."""


def engines(options: Options) -> list[str]:
    """Only that of ``--as-published`` if it was given, else all."""
    return [PUBLISHED] if options.as_published else list(ENGINES)


def stream(seed: int, as_published: bool, ticks: int = TICKS) -> simulate.Stream:
    """One stream; as published, drawn with standard deviations in place of variances."""
    if as_published:
        return published.draw(MODEL, FIDELITIES, HAZARD, ticks=ticks, seed=seed)
    return simulate.gaussian(MODEL, FIDELITIES, HAZARD, ticks=ticks, seed=seed)


def by_library(table: Array, policy: Policy, seed: int) -> Followed:
    """The library's exact filter under a policy."""
    detector = Detector(MODEL, FIDELITIES, HAZARD, policy=policy, prune=None, alarm=None, seed=seed)
    trace = run(detector, table, posterior=True)
    assert trace.posterior is not None
    return Followed(trace.choice, trace.mean, (1.0 - HAZARD) * trace.posterior)


def as_published(table: Array, policy: Policy, seed: int, correct: bool = False) -> Followed:
    """The paper's code under the same policy; a `Budget`, which it does not have, chooses by the library's gains."""
    rule: dict[str, Any]
    if isinstance(policy, InformationRate):
        rule = {"rates": RATES}
    elif isinstance(policy, Margin):
        rule = {"margin": policy.delta}
    else:
        planned = policy.bind(FIDELITIES).schedule([seed], 0, len(table))
        choice = by_library(table, policy, seed).choice if planned is None else np.ascontiguousarray(planned[:, 0])
        rule = {"choice": choice}
    found = published.run(MODEL, ZETAS, HAZARD, table, correct=correct, **rule)
    return Followed(found.choice, found.mean, found.posterior[1:, 1:])


def follow(table: Array, policy: Policy, seed: int, engine: str) -> Followed:
    """One stream under one policy with one of the engines."""
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
    """The rate rule, and with `tuned` two more, each with a random baseline of the same share on the same stream.

    `tuned` holds the margin of the margin rule and the spend per tick of the library's default.
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
            scores[random_of(name)] = score(follow(table, random(scores[name]["low"]), seed, engine), high)
        found.append(scores)
    return found


def random_of(rule: str) -> str:
    """Key of the scores of a rule's random baseline.

    >>> random_of("rate")
    'random for rate'
    """
    return f"random for {rule}"


def many(options: Options, count: int, tuned: Mapping[str, tuple[float, float] | None]) -> dict[str, list[Scores]]:
    """The scores of `count` trials by every engine in `tuned`, in parts."""
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
    """Of the names of an engine's parts."""
    return engine.replace(",", "").replace(" ", "-")


def random(share: float) -> Random:
    """Low fidelity at this share of the ticks, whatever the readings."""
    return Random([share, 1.0 - share])


def tune(seed: int, held_out: int, ticks: int, engine: str) -> dict[str, float]:
    """On held-out streams: the rate rule's share of low fidelity, and the margin that gives the same share."""
    seeds = range(HELD_OUT + seed, HELD_OUT + seed + held_out)
    tables = [stream(s, ENGINES[engine], ticks).table for s in seeds]

    def share(policy: Policy) -> float:
        low = [follow(table, policy, 0, engine).choice == 0 for table in tables]
        return float(np.mean(low))

    wanted = share(InformationRate())
    narrowing = reach(lambda w: share(Margin(WIDEST / w)), wanted, low=1.0, high=1e6)
    delta = WIDEST / narrowing
    return {"wanted": wanted, "delta": delta, "reached": share(Margin(delta))}


def spend(share: float) -> float:
    """Average cost per tick at this share of low fidelity.

    >>> spend(0.75)
    1.25
    """
    low, high = (f.cost_of() for f in FIDELITIES)
    return share * low + (1.0 - share) * high


def column(found: Sequence[Scores], rule: str, measure: str) -> Array:
    """One number per stream."""
    return np.array([scores[rule][measure] for scores in found])


def difference(found: Sequence[Scores], rule: str, other: str, measure: str) -> Number:
    """Mean of rule minus other on the same streams, with two standard errors."""
    return Number.mean_of(column(found, rule, measure) - column(found, other, measure))


def beside_random(found: Sequence[Scores], rule: str, name: str) -> tuple[int, str]:
    """In how many of MSE and L1 a rule beats its random baseline, and the sentence about it."""
    parts, won = [], []
    for measure in ("MSE", "L1"):
        gap = difference(found, rule, random_of(rule), measure)
        mine, theirs = (Number.mean_of(column(found, r, measure)) for r in (rule, random_of(rule)))
        parts.append(f"{measure} {mine} against {theirs}, {('no clear difference', 'HIGHER', 'lower')[gap.sign]}")
        won += [measure] if gap.sign < 0 else []
    verb = "beats" if won else "does not beat"
    only = f" in {won[0]} only" if len(won) == 1 else ""
    return len(won), f"{name} {verb} the random baseline at equal spend{only} ({'; '.join(parts)})."


def outcome(gap: Number) -> str:
    """What became of the claim that a difference is above zero."""
    return ("is neither confirmed nor refuted", "holds", "is reversed")[gap.sign]


# --- pictures --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drawing:
    """One stream under one rule, to be drawn."""

    title: str
    table: Array
    theta: Array
    followed: Followed


def deviation(table: Array, followed: Followed) -> Array:
    """Standard deviation of the next full-fidelity reading after each tick, for the choices of `followed`."""
    detector = Detector(MODEL, FIDELITIES, HAZARD, policy=Always(), prune=None, alarm=None)
    found = []
    for readings, j in zip(table, followed.choice.tolist(), strict=True):
        detector.update(float(readings[j]), FIDELITIES[j].name)
        found.append(detector.variance)
    return np.sqrt(found)


def draw_data(axis: Axes, drawing: Drawing) -> None:
    """Readings by fidelity, low orange crosses and high blue circles, with the predicted mean and its band."""
    choice, mean = drawing.followed.choice, drawing.followed.mean
    tick = np.arange(len(choice))
    x = drawing.table[tick, choice]
    width = DEVIATIONS * deviation(drawing.table, drawing.followed)
    # the prediction made after tick t is of tick t + 1
    axis.fill_between(tick + 1, mean - width, mean + width, color="#dddddd", lw=0, label="2 sd band")
    for j, marker, colour in ((0, "x", LOW), (1, "o", HIGH)):
        mine = choice == j
        label = f"{FIDELITIES[j].name} fidelity"
        axis.plot(tick[mine], x[mine], marker, color=colour, mfc="none", ms=3.2, mew=0.8, label=label)
    axis.plot(tick, drawing.theta, color=GREEN, lw=1.4, ls="--", label="true theta")
    axis.plot(tick + 1, mean, color=INK, lw=1.1, label="predicted mean")
    axis.set_title(f"{drawing.title}: {100 * (choice == 0).mean():.0f} % low", fontsize=10)
    axis.set_ylabel("reading")
    axis.spines[["top", "right"]].set_visible(False)
    axis.margins(x=0.01)


def draw_run_length(axis: Axes, drawing: Drawing) -> QuadMesh:
    """The filtered run-length posterior on a log scale."""
    weight = drawing.followed.posterior.T / (1.0 - HAZARD)
    seen = int(np.flatnonzero((weight >= FAINTEST).any(axis=1))[-1]) + 1
    edges = np.arange(weight.shape[1] + 1) - 0.5
    cmap = colormaps["Greys"].with_extremes(under="white")
    norm = LogNorm(FAINTEST, 1.0)
    mesh = axis.pcolormesh(edges, np.arange(seen + 1), weight[:seen], norm=norm, cmap=cmap, rasterized=True)
    axis.set_ylabel("run length")
    axis.set_xlabel("tick")
    axis.spines[["top", "right"]].set_visible(False)
    return mesh


def add_colour_bar(figure: Figure, mesh: QuadMesh, axes: Any) -> None:
    """The scale of the heat maps, beside the lower ones."""
    figure.colorbar(mesh, ax=axes, label="probability", extend="min", shrink=0.42, anchor=(0.0, 0.0), pad=0.01)
