"""When did a runner change gait? A smoothed GPS pace (cost 4) or a raw increment (cost 1).

Run from anywhere: `python examples/run_pace.py [folder]`. Needs mfbocd[demo].
"""

import sys
from pathlib import Path

from matplotlib.figure import Figure

import mfbocd as mf
from mfbocd.trace.metrics import detection

out = Path(sys.argv[1] if len(sys.argv) > 1 else "out/examples")
out.mkdir(parents=True, exist_ok=True)

# A real run of half an hour, every five seconds. `changes` are those that most of five annotators marked.
stream = mf.datasets.run_log()
increment, pace = stream.fidelities
print(f"{increment.name}: zeta {increment.zeta:.3f}, cost {increment.cost:g}")
print(f"{pace.name}: zeta {pace.zeta:g}, cost {pace.cost:g}")


def follow(policy: mf.Policy) -> mf.Trace:
    """Run the detector with a policy."""
    detector = mf.Detector(stream.model, stream.fidelities, stream.hazard, policy=policy)
    return mf.run(detector, stream.table, detail=True)


# How much can be saved before changes are missed? The first 60 ticks were used to estimate noise and zeta, so they
# are not scored.
after = [int(c) for c in stream.changes if c > stream.warmup]
print("\nbudget  spent  pace readings  found  delay  false alarms")
for budget in (1.2, 2.05, 3.0, 4.0):
    trace = follow(mf.Always("pace") if budget == pace.cost else mf.Budget(budget))
    alarms = [c.tick for c in trace.changes if c.tick > stream.warmup + 5]
    score = detection(alarms, after, within=15)
    read = int((trace.choice == 1).sum())
    print(
        f"{budget:6.2f}{trace.spent:7g}{read:15d}{score.found:4d}/{len(after)}{score.delay:7.1f}{score.false_alarms:14d}"
    )

# A figure of the second budget; `trace.plot()` is the standard figure, with the run length and the gains.
trace = follow(mf.Budget(2.05))
figure = Figure(figsize=(7.0, 5.2), dpi=150, layout="constrained")
top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1.6))
mf.plots.data(top, trace, unit="minutes per mile", changes=stream.changes)
mf.plots.spend(bottom, trace, budget=2.05)
bottom.set_xlabel("tick of five seconds")
figure.savefig(out / "run_pace.png")
print(f"\nWrote {out / 'run_pace.png'}")
