"""Does a machine sound damaged? Choose between four windows of a clip and all 196.

Run from anywhere: `python examples/machine_sound.py [folder]`. Needs mfbocd[report].
"""

import sys
from pathlib import Path

import numpy as np

import mfbocd as mf
from mfbocd.trace.metrics import mse

out = Path(sys.argv[1] if len(sys.argv) > 1 else "out/examples")
out.mkdir(parents=True, exist_ok=True)

# Real reconstruction errors of an anomaly network on clips of toy cars. A clip is labelled damaged if the median
# error of its windows is above a threshold. Thresholds and zeta were estimated from other clips. The clips of a
# stream and the times of the damage are random: one seed is one stream.
STREAMS = 40
streams = [mf.datasets.toycar(machine=4, seed=seed, ticks=300, zeta="information") for seed in range(STREAMS)]
ways = (streams[0].fidelities[1], streams[0].fidelities[3])
for fidelity in ways:
    print(f"{fidelity.name:12s} zeta {fidelity.zeta:.2f}, {fidelity.cost_of() / 1e6:.1f} million multiply-adds")


def follow(stream: mf.datasets.RealStream, policy: mf.Policy, seed: int = 0, detail: bool = False) -> mf.Trace:
    """Run the detector on a stream with a policy."""
    detector = mf.Detector(stream.model, ways, stream.hazard, policy=policy, seed=seed)
    return mf.run(detector, stream.table[:, [1, 3]], detail=detail)


# A budget of a third of the way from the cheapest to the most expensive; a random baseline with the same spend; and
# always all windows. The mean squared error of the estimated damage rate is computed relative to the true rate and
# relative to the estimate from all windows, the best that any budget can achieve.
rows, shares = [], []
for seed, stream in enumerate(streams):
    chosen = follow(stream, mf.Budget(share=1 / 3))
    low = float((chosen.choice == 0).mean())
    baseline = follow(stream, mf.Random([low, 1 - low]), seed)
    always = follow(stream, mf.Always("196-windows"))
    rows.append([[mse(t.mean, aim) for t in (chosen, baseline, always)] for aim in (stream.theta, always.mean)])
    shares.append(chosen.spent / always.spent)
errors = np.array(rows)  # (streams, errors, ways)
to_truth, to_all = errors.mean(axis=0)
print(f"\n{STREAMS} streams, for {np.mean(shares):.0%} of the full cost\n")
print("mean squared error to     the truth   all windows")
for j, name in enumerate(("chosen", "random", "all windows")):
    print(f"  {name:18s}{to_truth[j]:15.4f}{to_all[j]:14.4f}")
gap = errors[:, :, 1] - errors[:, :, 0]
error = 2 * gap.std(axis=0, ddof=1) / STREAMS**0.5
print(f"  random - chosen        {gap[:, 0].mean():.4f}+-{error[0]:.4f} {gap[:, 1].mean():.4f}+-{error[1]:.4f}")

trace = follow(streams[0], mf.Budget(share=1 / 3), detail=True)
mf.report.write(
    out / "machine_sound.html",
    trace,
    title="Does the machine sound damaged?",
    unit="1 if damaged",
    cost_unit="multiply-adds",
    truth=streams[0].theta,
    changes=streams[0].changes,
)
print(f"\nWrote {out / 'machine_sound.html'}, of the first stream")
