"""Results of detectors of several families, as JSON: run once compiled and once with NUMBA_DISABLE_JIT=1."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

import mfbocd as mf

FIDELITIES = [mf.Fidelity("low", 0.3, 1.0), mf.Fidelity("high", 1.0, 5.0)]


def results() -> dict[str, Any]:
    out: dict[str, Any] = {}
    models: dict[str, tuple[mf.Model, list[Any]]] = {
        "gaussian": (mf.Gaussian(0, 9, 1), [0.1, -0.4, 0.3, 0.2, 6.1, 5.8, 6.2, 60.0, 6.0]),
        "gaussian unknown": (mf.GaussianUnknown(0, 1, 2, 1), [0.1, -0.4, 0.3, 0.2, 6.1, 5.8, 6.2, 6.0]),
        "bernoulli": (mf.Bernoulli(1, 1), [0, 0, 1, 0, 0, 1, 1, 1]),
        "poisson": (mf.Poisson(2, 1), [1, 0, 2, 1, 9, 8, 11]),
        "binomial": (mf.Binomial(9, 1, 1), [1, 0, 2, 1, 9, 8]),
        "gamma": (mf.Gamma(2, 2, 1), [0.1, 0.5, 0.2, 4.0, 5.0]),
        "multivariate": (mf.MultivariateGaussian([0, 0], 9, 1), [[0.1, 0.2], [0.3, -0.2], [6.0, 6.0]]),
        "trend": (mf.Trend(), [0.1, 0.2, 0.3, 4.0, 4.1]),
    }
    for name, (model, xs) in models.items():
        hazard = mf.Learned(points=3) if name == "gaussian" else [0.2, 0.1] if name == "poisson" else 0.1
        prune = (
            mf.Resample(4, slack=1) if name in ("gaussian", "bernoulli") else mf.TopK(4) if name == "gamma" else None
        )
        several = model.observe is not None
        detector = mf.Detector(model, FIDELITIES if several else FIDELITIES[1:], hazard, prune=prune, missing="skip")
        steps = [detector.update(x, detector.choose())[:9] for x in xs]
        detector.wait(2)
        again = mf.Detector.from_bytes(detector.to_bytes())
        trace = mf.run(mf.Detector(model, hazard=hazard, prune=prune), xs)
        fleet = mf.Fleet(20, model, hazard=hazard, prune=prune, threads=2)
        for x in xs[:3]:
            step = fleet.update([x] * 20)
        out[name] = {
            "steps": steps,
            "gains": [list(g[3:6]) for g in again.gains()] if several else [],
            "weight": again.run_length.weight.tolist(),
            "trace": trace.mean.tolist(),
            "fleet": np.asarray(step.mean).tolist(),
            "evidence": detector.log_evidence,
        }
    fleet = mf.Fleet(2, mf.Gaussian(0, 9, 1), hazard=0.1, prune=mf.TopK(4))
    fleet.update([-0.5, 0.7])
    assert fleet.to_bytes_each() == [fleet.extract(i).to_bytes() for i in range(2)]
    out["likely"] = fleet.likely(0.01, 4)
    return out


if __name__ == "__main__":
    print(json.dumps(results()))
