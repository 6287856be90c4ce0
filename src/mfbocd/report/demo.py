"""The demonstration that `mfbocd demo` runs: a real or a simulated stream, read under a budget."""

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

FILES = ("report.html", "trace.csv", "stream.csv")
"""What `run_demo` writes."""
BASELINES = 50  # random baselines to average over
COLUMNS = ("tick", "fidelity", "x", "cost", "mean", "run_length", "p_change", "alarm", "changed_at", "target")


@dataclass(frozen=True)
class Scene:
    """A stream to show, a detector's settings for it, and the labels of the output.

    Attributes
    ----------
    title : str
        Title of the report.
    about : str
        One sentence about the stream.
    table : numpy.ndarray
        (T, J): one column per fidelity, the most expensive last.
    fidelities : tuple[Fidelity, ...]
        The fidelities, in the order of the columns.
    model : Model
        The model.
    hazard : float
        P(change) per tick.
    budget : float
        Average cost per tick.
    changes : numpy.ndarray
        Ticks of the known changes.
    known : str
        Heading of the known changes: who determined them.
    near : int
        Ticks within which the change reported by an alarm counts as a known one, early or late.
    target_name : str
        What `target` is.
    target : numpy.ndarray
        (T,): what the mean after tick t should have been; NaN at ticks that are not scored.
    unit : str
        Unit of the readings.
    xlabel : str
        Label of the horizontal axis.
    truth : numpy.ndarray or None
        (T,): the true parameter, if it is known.
    """

    title: str
    about: str
    table: Array
    fidelities: tuple[Fidelity, ...]
    model: Model
    hazard: float
    budget: float
    changes: NDArray[np.int64]
    known: str
    near: int
    target_name: str
    target: Array
    unit: str = ""
    xlabel: str = "tick"
    truth: Array | None = None


def real_run(budget: float | None = None) -> Scene:
    """Return the scene of a real run: a runner's pace every five seconds, smoothed or from two raw GPS fixes.

    Parameters
    ----------
    budget : float or None
        Average cost per tick; 35 % of the way from the cheapest to the most expensive fidelity by default.

    Returns
    -------
    Scene
        The scene.

    Raises
    ------
    ImportError
        If river is not installed.
    """
    try:
        stream = run_log()
    except ImportError as error:
        raise ImportError(f"{error}. Without further packages: mfbocd demo --simulated") from error
    target = np.append(stream.table[1:, -1], np.nan)
    target[: stream.warmup] = np.nan  # noise and zeta were estimated from these ticks
    low, high = (f.cost_of() for f in stream.fidelities)
    return Scene(
        title="Changes in the pace of a run",
        about="A real interval training of half an hour: minutes per mile, every five seconds.",
        table=stream.table,
        fidelities=stream.fidelities,
        model=stream.model,
        hazard=stream.hazard,
        budget=low + 0.35 * (high - low) if budget is None else budget,  # as a detector does by default
        changes=stream.changes,
        known="people marked",
        near=10,  # less than a minute; the shortest interval is 18 ticks
        target_name="the next pace",
        target=target,
        unit="minutes per mile",
        xlabel="tick of five seconds",
    )


def simulated_walk(seed: int, ticks: int = 1000, budget: float | None = None) -> Scene:
    """Return the scene of a simulated level that jumps, read with a cheap or an expensive sensor.

    Parameters
    ----------
    seed : int
        Seed of the simulation.
    ticks : int
        Length of the stream; 1000 by default.
    budget : float or None
        Average cost per tick; 8 by default.

    Returns
    -------
    Scene
        The scene.
    """
    fidelities = (Fidelity("imu", zeta=0.1, cost=1), Fidelity("gps", zeta=1.0, cost=40))
    model = Gaussian(mean=0, var=9, noise_var=1)
    stream = gaussian(model, fidelities, 1 / 200, ticks=ticks, seed=seed)
    return Scene(
        title="Changes of a simulated level",
        about=f"A simulated level that jumps at random, {ticks} ticks.",
        table=stream.table,
        fidelities=fidelities,
        model=model,
        hazard=1 / 200,
        budget=8.0 if budget is None else budget,
        changes=stream.changes,
        known="true change",
        near=50,
        target_name="the level",
        target=stream.theta,
        truth=stream.theta,
    )


def run_demo(scene: Scene, out: Path, *, seed: int) -> str:
    """Run the demonstration and write ``report.html``, ``trace.csv`` and ``stream.csv``.

    Parameters
    ----------
    scene : Scene
        The stream and its settings.
    out : Path
        Folder to write to; it is created if it does not exist.
    seed : int
        Seed of the detector.

    Returns
    -------
    str
        The summary to print.
    """
    detector, trace = _follow(scene, Budget(scene.budget), seed, detail=True)
    summary = _summary(scene, detector, trace)
    out.mkdir(parents=True, exist_ok=True)
    _write_trace(out / "trace.csv", scene, trace)
    _write_stream(out / "stream.csv", scene)
    return "\n".join(
        [
            summary,
            "",
            _write_report(out / "report.html", scene, trace),
            f"Every tick:             {out / 'trace.csv'}",
            f"The stream itself:      {out / 'stream.csv'}",
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
            state = (trace.run_length[t], f"{trace.p_change[t]:.6g}", int(trace.alarm[t]), change)
            target = "" if np.isnan(scene.target[t]) else f"{scene.target[t]:.6g}"
            writer.writerow([t, trace.fidelities[trace.choice[t]], *read, *state, target])


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
    return f"Report (open in a browser): {path}"


def _summary(scene: Scene, detector: Detector, trace: Trace) -> str:
    cheap, expensive = scene.fidelities[0], scene.fidelities[-1]
    sensors = " or ".join(f"{f.name} (zeta {f.zeta:.2g}, cost {f.cost_of():g})" for f in (cheap, expensive))
    near = [_near(scene, change.changed_at) for change in trace.changes]
    missing = [c for c in scene.changes.tolist() if c not in near]
    lines = [
        scene.about,
        f"Read with {sensors}, for {scene.budget:g} per tick on average.",
        "",
        f"alarm at   change at   prob.  {scene.known}",
    ]
    for change, place in zip(trace.changes, near, strict=True):
        nearest = f"{'-' if place is None else place:>{len(scene.known) + 3}}"
        lines.append(f"{change.tick:8d}{change.changed_at:12d}{change.confidence:7.2f}{nearest}")
    missed = ", ".join(map(str, missing)) or "none"
    lines.append(
        f"Missed of {scene.changes.size} known changes: {missed}. (-: no known change within {scene.near} ticks.)"
    )
    _, high = _follow(scene, Always(expensive.name), detector.seed)
    low = float((trace.choice == 0).mean())
    baselines = [_error(scene, _follow(scene, Random([low, 1.0 - low]), seed)[1]) for seed in range(BASELINES)]
    spread = f"(sd {np.std(baselines):.2f} over {BASELINES} seeds)"
    read = ", ".join(f"{name} {int((trace.choice == j).sum())}" for j, name in enumerate(trace.fidelities))
    return "\n".join(
        [
            *lines,
            "",
            f"Readings: {read}. Spent {detector.spent:g}, {detector.spent / len(trace):.2f} per tick;",
            f"{expensive.name} alone would have cost {high.spent:g}: {1 - detector.spent / high.spent:.0%} saved.",
            "",
            f"Mean squared error of {scene.target_name}, as predicted",
            f"  chosen by the detector      {_error(scene, trace):6.3f}",
            f"  random, the same spend      {np.mean(baselines):6.3f}   {spread}",
            f"  {expensive.name + ' at every tick':28s}{_error(scene, high):6.3f}",
        ]
    )


def _near(scene: Scene, tick: int) -> int | None:
    """Return the nearest known change, if it is within `scene.near` ticks."""
    if scene.changes.size == 0:
        return None
    place = int(scene.changes[np.abs(scene.changes - tick).argmin()])
    return place if abs(place - tick) <= scene.near else None


def _error(scene: Scene, trace: Trace) -> float:
    return float(np.nanmean((trace.mean - scene.target) ** 2))
