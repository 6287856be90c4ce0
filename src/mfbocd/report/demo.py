"""What `make demo` runs: a real run, or a simulated stream, read under a budget."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..datasets import run_log
from ..datasets.simulate import gaussian
from ..detector.detector import Detector
from ..models import Gaussian, Model
from ..policy import Always, Budget, Policy, Random
from ..policy.fidelity import Fidelity
from ..trace.run import run
from ..trace.trace import Trace

Array = NDArray[np.float64]

COINS = 50
COLUMNS = ("tick", "fidelity", "x", "cost", "mean", "run_length", "p_change", "alarm", "changed_at", "wanted")


@dataclass(frozen=True)
class Scene:
    """A stream to show, a detector's settings for it, and what to call things."""

    title: str
    about: str
    table: Array
    """(T, J): one column a fidelity, the dearest last."""
    fidelities: tuple[Fidelity, ...]
    model: Model
    hazard: float
    budget: float
    """Average cost a tick."""
    changes: NDArray[np.int64]
    known: str
    """Who says where the changes are."""
    near: int
    """Ticks within which the change an alarm reports counts as a known one, found early or late."""
    aim: str
    """What `wanted` is."""
    wanted: Array
    """(T,): what the mean after tick t should have been; NaN where it is not scored."""
    unit: str = ""
    xlabel: str = "tick"
    truth: Array | None = None


def a_real_run(budget: float | None = None) -> Scene:
    """A runner's pace every five seconds, as the application smooths it or by two raw GPS fixes."""
    try:
        stream = run_log()
    except ImportError as error:
        raise ImportError(f"{error}. Or, with nothing more to install: mfbocd demo --simulated") from error
    wanted = np.append(stream.table[1:, -1], np.nan)
    wanted[: stream.warmup] = np.nan  # the noise and zeta are from these ticks
    low, high = (f.cost_of() for f in stream.fidelities)
    return Scene(
        title="The pace of a run, and when it changed",
        about="A real run of half an hour, told when to walk and when to run: minutes a mile, every five seconds.",
        table=stream.table,
        fidelities=stream.fidelities,
        model=stream.model,
        hazard=stream.hazard,
        budget=low + 0.35 * (high - low) if budget is None else budget,  # what a detector does unless told
        changes=stream.changes,
        known="people marked",
        near=10,  # less than a minute; the shortest interval is 18 ticks
        aim="the next pace",
        wanted=wanted,
        unit="minutes a mile",
        xlabel="tick of five seconds",
    )


def a_simulated_walk(seed: int, ticks: int = 1000, budget: float | None = None) -> Scene:
    """A level that jumps, read with a cheap or a dear sensor."""
    fidelities = (Fidelity("imu", zeta=0.1, cost=1), Fidelity("gps", zeta=1.0, cost=40))
    model = Gaussian(mean=0, var=9, noise_var=1)
    stream = gaussian(model, fidelities, 1 / 200, ticks=ticks, seed=seed)
    return Scene(
        title="A simulated walk, and when it changed",
        about=f"A simulated level that jumps now and then, {ticks} ticks.",
        table=stream.table,
        fidelities=fidelities,
        model=model,
        hazard=1 / 200,
        budget=8.0 if budget is None else budget,
        changes=stream.changes,
        known="true change",
        near=50,
        aim="the level",
        wanted=stream.theta,
        truth=stream.theta,
    )


def run_demo(scene: Scene, out: Path, *, seed: int) -> str:
    """Run, write ``report.html``, ``trace.csv`` and ``stream.csv`` under `out`, and return the summary."""
    detector, trace = _follow(scene, Budget(scene.budget), seed, detail=True)
    told = _summary(scene, detector, trace)
    out.mkdir(parents=True, exist_ok=True)
    _write_trace(out / "trace.csv", scene, trace)
    _write_stream(out / "stream.csv", scene)
    return "\n".join(
        [
            told,
            "",
            _write_report(out / "report.html", scene, trace),
            f"Every tick:             {out / 'trace.csv'}",
            f"The stream, to try:     {out / 'stream.csv'}",
        ]
    )


def _follow(scene: Scene, policy: Policy, seed: int, detail: bool = False) -> tuple[Detector, Trace]:
    detector = Detector(scene.model, scene.fidelities, scene.hazard, policy=policy, seed=seed)
    return detector, run(detector, scene.table, detail=detail)


def _write_stream(path: Path, scene: Scene) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["tick", *(f.name for f in scene.fidelities)])
        writer.writerows([t, *(f"{x:.6g}" for x in row)] for t, row in enumerate(scene.table))


def _write_trace(path: Path, scene: Scene, trace: Trace) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for t in range(len(trace)):
            read = (f"{v[t]:.6g}" for v in (trace.x, trace.cost, trace.mean))
            change = trace.changed_at[t] if trace.alarm[t] else ""
            judged = (trace.run_length[t], f"{trace.p_change[t]:.6g}", int(trace.alarm[t]), change)
            wanted = "" if np.isnan(scene.wanted[t]) else f"{scene.wanted[t]:.6g}"
            writer.writerow([t, trace.fidelities[trace.choice[t]], *read, *judged, wanted])


def _write_report(path: Path, scene: Scene, trace: Trace) -> str:
    from . import write

    try:
        write(
            path,
            trace,
            title=scene.title,
            unit=scene.unit,
            xlabel=scene.xlabel,
            budget=scene.budget,
            truth=scene.truth,
            changes=scene.changes,
        )
    except ImportError as error:
        return f"No report: {error}"
    return f"Report, for a browser: {path}"


def _summary(scene: Scene, detector: Detector, trace: Trace) -> str:
    cheap, dear = scene.fidelities[0], scene.fidelities[-1]
    ways = " or ".join(f"{f.name} (zeta {f.zeta:.2g}, cost {f.cost_of():g})" for f in (cheap, dear))
    near = [_near(scene, change.changed_at) for change in trace.changes]
    missing = [c for c in scene.changes.tolist() if c not in near]
    lines = [
        scene.about,
        f"Read with {ways}, for {scene.budget:g} a tick on average.",
        "",
        f"alarm at   change at   sure   {scene.known}",
    ]
    for change, place in zip(trace.changes, near, strict=True):
        beside = f"{'-' if place is None else place:>{len(scene.known) + 3}}"
        lines.append(f"{change.tick:8d}{change.changed_at:12d}{change.confidence:7.2f}{beside}")
    missed = ", ".join(map(str, missing)) or "none"
    lines.append(f"Of {scene.changes.size} missed: {missed}. (-: none within {scene.near} ticks.)")
    _, high = _follow(scene, Always(dear.name), detector.seed)
    low = float((trace.choice == 0).mean())
    coins = [_error(scene, _follow(scene, Random([low, 1.0 - low]), seed)[1]) for seed in range(COINS)]
    read = ", ".join(f"{name} {int((trace.choice == j).sum())}" for j, name in enumerate(trace.fidelities))
    return "\n".join(
        [
            *lines,
            "",
            f"Readings: {read}. Spent {detector.spent:g}, {detector.spent / len(trace):.2f} a tick;",
            f"{dear.name} alone would have cost {high.spent:g}: {1 - detector.spent / high.spent:.0%} saved.",
            "",
            f"Mean squared error of {scene.aim}, as predicted",
            f"  chosen, as above            {_error(scene, trace):6.3f}",
            f"  a coin of the same spend    {np.mean(coins):6.3f}   (sd {np.std(coins):.2f} over {COINS} coins)",
            f"  {dear.name + ' at every tick':28s}{_error(scene, high):6.3f}",
        ]
    )


def _near(scene: Scene, tick: int) -> int | None:
    """The nearest known change, if it is near."""
    if scene.changes.size == 0:
        return None
    place = int(scene.changes[np.abs(scene.changes - tick).argmin()])
    return place if abs(place - tick) <= scene.near else None


def _error(scene: Scene, trace: Trace) -> float:
    return float(np.nanmean((trace.mean - scene.wanted) ** 2))
