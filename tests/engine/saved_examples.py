"""Saved detectors in ``saved.json``: bytes that every later version of mfbocd must load and continue.

``python -m tests.engine.saved_examples`` writes the file. Run it only when the format has a new version, and keep the
examples of the old version in another file, as tests of the migration.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mfbocd as mf

FILE = Path(__file__).parent / "saved.json"
IMU_GPS = [mf.Fidelity("imu", 0.1, 1), mf.Fidelity("gps", 1.0, 40)]
BEFORE = [0.3, -0.4, 0.1, 0.0, 0.6, 4.8, 5.3, 5.1, 4.9, 5.2, 5.0, 1.1]
AFTER = [5.2, 4.7, 0.2, -0.1, 0.4]

EXAMPLES: dict[str, Callable[[], mf.Detector]] = {
    "default": lambda: mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.02),
    "budget": lambda: mf.Detector(
        mf.Gaussian(0, 9, 1), IMU_GPS, 0.02, policy=mf.Budget(share=0.35), prune=mf.Resample(8), seed=7
    ),
    "cap": lambda: mf.Detector(
        mf.GaussianUnknown(0, 1, 2, 1, weighting="tempered"),
        IMU_GPS,
        0.02,
        policy=mf.Budget(8.0, cap=(60.0, 5)),
        prune=mf.TopK(9),
    ),
    "exact": lambda: mf.Detector(
        mf.Poisson(2, 1), IMU_GPS, [0.1, 0.05, 0.02], policy=mf.Net(0.01), prune=None, alarm=None
    ),
    "learned": lambda: mf.Detector(
        mf.Gamma(1, 2, 1), hazard=mf.Learned(1 / 5000, 1 / 5, points=3), missing="skip", alarm=0.8
    ),
    "shadow": lambda: mf.Detector(mf.Gaussian(0, 9, 1), IMU_GPS, 0.02, shadow=3, on_error="fallback"),
    "vector": lambda: mf.Detector(mf.MultivariateGaussian([0, 0], 9, 1), hazard=0.02, prune=mf.Threshold(1e-6)),
}


def feed(detector: mf.Detector, xs: list[float]) -> list[dict[str, Any]]:
    """Update with these readings, made positive integers or two-dimensional where the model needs it."""
    steps = []
    for x in xs:
        value: Any = x
        if isinstance(detector.model, mf.Gamma | mf.Poisson):
            value = round(abs(x)) + 1.0
        step = detector.update([value, -value] if detector.model.dimension == 2 else value, detector.choose())
        steps.append(
            {
                "fidelity": step.fidelity,
                "mean": step.mean if isinstance(step.mean, float) else list(step.mean),
                "run_length": step.run_length,
                "p_change": step.p_change,
                "alarm": step.alarm,
                "spent": detector.spent,
                "log_evidence": detector.log_evidence,
            }
        )
    return steps


def main() -> None:
    kept = {}
    for name, make in EXAMPLES.items():
        detector = make()
        feed(detector, BEFORE)
        data = detector.to_bytes()
        kept[name] = {"bytes": base64.b64encode(data).decode(), "later": feed(detector, AFTER)}
    FILE.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
