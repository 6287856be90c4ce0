"""What `make demo` runs: a simulated stream with a cheap and a dear sensor, read at random."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from .batch import Trace, run
from .detector import Detector
from .fidelity import Fidelity
from .models import Gaussian
from .policy import Random
from .simulate import Stream, gaussian

FIDELITIES = (Fidelity("imu", zeta=0.1, cost=1), Fidelity("gps", zeta=1.0, cost=40))
MODEL = Gaussian(mean=0, var=9, noise=1)
HAZARD = 1 / 200


def run_demo(out: Path, *, ticks: int, low: float, seed: int) -> str:
    """Run, write ``trace.csv`` and ``report.md`` under `out`, and return the summary."""
    stream = gaussian(MODEL, FIDELITIES, HAZARD, ticks=ticks, seed=seed)
    detector = Detector(MODEL, FIDELITIES, HAZARD, policy=Random([low, 1.0 - low]), seed=seed)
    trace = run(detector, stream.table)
    summary = _summary(stream, trace, detector)
    out.mkdir(parents=True, exist_ok=True)
    with (out / "trace.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            [
                "tick",
                "fidelity",
                "x",
                "cost",
                "mean",
                "run_length",
                "p_change",
                "alarm",
                "changed_at",
                "theta",
            ]
        )
        for t in range(len(trace)):
            writer.writerow([
                t, trace.fidelities[trace.choice[t]], f"{trace.x[t]:.6g}", trace.cost[t], f"{trace.mean[t]:.6g}",
                trace.run_length[t], f"{trace.p_change[t]:.6g}", int(trace.alarm[t]),
                trace.changed_at[t] if trace.alarm[t] else "", f"{stream.theta[t]:.6g}",
            ])  # fmt: skip
    (out / "report.md").write_text(f"# mfbocd demo, seed {seed}\n\n```\n{summary}\n```\n")
    return f"{summary}\n\nWrote {out / 'report.md'} and {out / 'trace.csv'}"


def _summary(stream: Stream, trace: Trace, detector: Detector) -> str:
    gps = FIDELITIES[1].cost_of() * len(trace)
    error = float(np.mean((trace.mean - stream.theta) ** 2))
    lines = [
        f"A stream of {len(trace)} ticks, read with the imu (zeta 0.1, cost 1) or the gps (zeta 1, cost 40).",
        "",
        "alarm at   change at   sure   true change",
    ]
    for change in trace.changes:
        near = stream.changes[np.abs(stream.changes - change.changed_at).argmin()] if stream.changes.size else -1
        true = str(near) if near >= 0 and abs(near - change.changed_at) <= 20 else "none near"
        lines.append(f"{change.tick:8d}{change.changed_at:12d}{change.confidence:7.2f}   {true}")
    read = ", ".join(f"{name} {int((trace.choice == j).sum())}" for j, name in enumerate(trace.fidelities))
    lines += [
        "",
        f"True changes: {', '.join(map(str, stream.changes)) or 'none'}.",
        f"Readings: {read}. Spent {detector.spent:g}; the gps alone would have cost {gps:g} "
        f"({1 - detector.spent / gps:.0%} saved).",
        f"Mean squared error of the predicted level: {error:.3f}.",
    ]
    return "\n".join(lines)
