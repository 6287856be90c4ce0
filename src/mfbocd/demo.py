"""What `make demo` runs: a simulated stream with a cheap and a dear sensor, read under a budget."""

from __future__ import annotations

import csv
from pathlib import Path

from .batch import Trace, run
from .detector import Detector
from .fidelity import Fidelity
from .metrics import mse
from .models import Gaussian
from .policy import Always, Budget, Policy, Random
from .simulate import Stream, gaussian

FIDELITIES = (Fidelity("imu", zeta=0.1, cost=1), Fidelity("gps", zeta=1.0, cost=40))
MODEL = Gaussian(mean=0, var=9, noise=1)
HAZARD = 1 / 200
NEAR = 50  # ticks within which the change an alarm reports counts as a true one, found early or late
COLUMNS = ("tick", "fidelity", "x", "cost", "mean", "run_length", "p_change", "alarm", "changed_at", "theta")


def run_demo(out: Path, *, ticks: int, budget: float, seed: int) -> str:
    """Run, write ``trace.csv`` and ``report.md`` under `out`, and return the summary."""
    stream = gaussian(MODEL, FIDELITIES, HAZARD, ticks=ticks, seed=seed)
    trace, detector = _follow(stream, Budget(budget), seed)
    summary = _summary(stream, trace, detector, budget)
    out.mkdir(parents=True, exist_ok=True)
    with (out / "trace.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for t in range(len(trace)):
            told = (f"{v[t]:.6g}" for v in (trace.x, trace.cost, trace.mean))
            change = trace.changed_at[t] if trace.alarm[t] else ""
            judged = (trace.run_length[t], f"{trace.p_change[t]:.6g}", int(trace.alarm[t]), change)
            writer.writerow([t, trace.fidelities[trace.choice[t]], *told, *judged, f"{stream.theta[t]:.6g}"])
    (out / "report.md").write_text(f"# mfbocd demo, seed {seed}\n\n```\n{summary}\n```\n")
    return f"{summary}\n\nWrote {out / 'report.md'} and {out / 'trace.csv'}"


def _follow(stream: Stream, policy: Policy, seed: int) -> tuple[Trace, Detector]:
    detector = Detector(MODEL, FIDELITIES, HAZARD, policy=policy, seed=seed)
    return run(detector, stream.table), detector


def _summary(stream: Stream, trace: Trace, detector: Detector, budget: float) -> str:
    lines = [
        f"A stream of {len(trace)} ticks, read with the imu (zeta 0.1, cost 1) or the gps (zeta 1, cost 40),",
        f"whichever is worth its cost, for {budget:g} a tick on average.",
        "",
        "alarm at   change at   sure   true change",
    ]
    for change in trace.changes:
        near = [int(c) for c in stream.changes if abs(c - change.changed_at) <= NEAR]
        lines.append(
            f"{change.tick:8d}{change.changed_at:12d}{change.confidence:7.2f}   {near[0] if near else 'none near'}"
        )
    read = ", ".join(f"{name} {int((trace.choice == j).sum())}" for j, name in enumerate(trace.fidelities))
    low = float((trace.choice == 0).mean())
    coin, _ = _follow(stream, Random([low, 1.0 - low]), detector.seed)
    high, all_high = _follow(stream, Always("gps"), detector.seed)
    lines += [
        "",
        f"True changes: {', '.join(map(str, stream.changes)) or 'none'}.",
        f"Readings: {read}. Spent {detector.spent:g}, {detector.spent / len(trace):.2f} a tick;",
        f"the gps alone would have cost {all_high.spent:g} ({1 - detector.spent / all_high.spent:.0%} saved).",
        "",
        "Mean squared error of the predicted level",
        f"  chosen, as above                     {mse(trace.mean, stream.theta):.3f}",
        f"  a coin that reads the gps as often   {mse(coin.mean, stream.theta):.3f}",
        f"  the gps at every tick                {mse(high.mean, stream.theta):.3f}",
    ]
    return "\n".join(lines)
