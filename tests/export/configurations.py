"""Random detectors that can be exported, and readings for them."""

from __future__ import annotations

from typing import Any

import numpy as np

import mfbocd as mf
from mfbocd.export.check import GAINS

FAMILIES = ("gaussian", "unknown", "bernoulli", "poisson", "trend", "season", "share")
TOLERANCE = dict.fromkeys(FAMILIES, 1e-12) | {"trend": 1e-8, "season": 1e-8}
"""How close numbers are. Python keeps P(line), so of a P(level) of 1e-8 the last bits are rounding."""
POLICIES = ("net", "budget", "cap", "always")


def make_model(rng: np.random.Generator, family: str) -> Any:
    kind = rng.choice(["normalized", "paper"])
    if family == "gaussian":
        return mf.Gaussian(rng.normal(), rng.uniform(1, 20), rng.uniform(0.2, 3))
    if family == "unknown":
        prior = rng.normal(), rng.uniform(0.1, 2), rng.uniform(0.6, 3), rng.uniform(0.3, 3)
        tempered = kind == "paper" or rng.random() < 0.5
        return mf.GaussianUnknown(*prior, predictive=kind, weighting="tempered" if tempered else "precision")
    if family == "bernoulli":
        return mf.Bernoulli(rng.uniform(0.3, 3), rng.uniform(0.3, 3), predictive=kind)
    if family == "trend":
        return make_trend(rng, rng.choice([0, 1, 3]))
    if family == "season":
        # the structure of the automatic detector: steps, a logarithm and a season before a trend
        curve = {"cosine": rng.normal(size=2), "sine": rng.normal(size=2)} if rng.random() < 0.7 else {}
        pieces = [] if curve else [(2.0, 1.0, 0.2), (7.0, -1.0, 0.0), (10.5, 0.0, -0.3)]
        season = mf.FixedSeason(make_trend(rng, 1), rng.uniform(11, 30), **curve, pieces=pieces, start=5)
        return mf.Rounded(mf.Transformed(mf.Scaled(season, 0.5, 0.1), "log", offset=0.5), step=0.25, start=3)
    if family == "share":
        function = rng.choice(["sqrt", "logit"])
        inner = mf.GaussianUnknown(0.0, 0.3, 1.5, 1.0) if function == "logit" else mf.Gaussian(4.0, 9.0, 0.5)
        return mf.Transformed(inner, function)
    return mf.Poisson(rng.uniform(0.5, 4), rng.uniform(0.1, 2), predictive=kind)


def make_trend(rng: np.random.Generator, lags: int) -> Any:
    """A level or line with as many lags, with or without outliers and a drifting noise variance."""
    return mf.RobustTrend(
        rng.normal(),
        (rng.uniform(0.05, 2.0), rng.uniform(0.1, 1000.0)),
        rng.uniform(0.6, 3.0),
        rng.uniform(0.3, 3.0),
        rng.uniform(0.1, 0.9),
        (rng.uniform(-0.3, 0.3, lags)).tolist(),
        rng.choice([0.0, 0.02]),
        rng.choice([1.0, 0.97]),
        rng.choice(["precision", "tempered"]),
    )


def make_detector(rng: np.random.Generator, family: str, policy: str, gain: str | None = None) -> mf.Detector:
    """A detector of a family with a policy; everything else is drawn."""
    model = make_model(rng, family)
    gain = gain or rng.choice(GAINS[type(model.core)])
    # Below full fidelity a Poisson is summed over counts, which is slow: every other one has two full sensors.
    low = 1.0 if family == "poisson" and rng.random() < 0.5 else rng.uniform(0.05, 0.9)
    sensors = [mf.Fidelity("low", low, 1.0), mf.Fidelity("high", 1.0, rng.uniform(3, 40))]
    if rng.random() < 0.3:
        sensors.insert(0, mf.Fidelity("skip", 0.0, 0.0))
    policies: dict[str, Any] = {
        "net": lambda: mf.Net(10 ** rng.uniform(-5, -2), gain=gain),
        "budget": lambda: mf.Budget(share=rng.uniform(0.1, 0.6), gain=gain),
        "cap": lambda: mf.Budget(share=0.3, cap=(20 + 6 * sensors[-1].cost, 20), gain=gain),
        "always": lambda: mf.Always("low"),
    }
    k = int(rng.integers(4, 40))
    return mf.Detector(
        model,
        sensors,
        rng.uniform(0.002, 0.05),
        policy=policies[policy](),
        prune=mf.TopK(k) if rng.random() < 0.5 else mf.Resample(k),
        alarm=mf.Alarm(int(rng.integers(5, 60)), rng.uniform(0.3, 0.9)),
        seed=int(rng.integers(1000)),
        missing="skip",
    )


def make_table(rng: np.random.Generator, detector: mf.Detector, ticks: int) -> np.ndarray:
    """Readings with changes, missing cells and, where readings are real numbers, outliers."""
    table = np.empty((ticks, len(detector.fidelities)))
    start, core = 0, detector.model.core
    while start < ticks:
        length = min(int(rng.geometric(0.01)), ticks - start)
        level, rate = 3.0 * rng.normal(), rng.gamma(2.0)
        for j, fidelity in enumerate(detector.fidelities):
            if isinstance(core, (mf.Gaussian, mf.GaussianUnknown, mf.RobustTrend)):
                x = rng.normal(level, 1.0 / np.sqrt(max(fidelity.zeta, 0.05)), length)
                x[rng.random(length) < 0.002] += 60.0
                if core is not detector.model:
                    x = in_domain(detector.model, x)
            elif isinstance(core, mf.Bernoulli):
                x = (rng.random(length) < rate / (rate + 1.0)).astype(float)
            else:
                x = rng.poisson(3.0 * rate, length).astype(float)
            table[start : start + length, j] = x
        start += length
    table[rng.random(table.shape) < 0.02] = np.nan
    return table


def in_domain(model: Any, x: np.ndarray) -> np.ndarray:
    """Readings that a model with maps accepts: shares, or rounded positive numbers."""
    if getattr(model, "function", "") == "logit":
        return np.clip(1.0 / (1.0 + np.exp(-0.3 * x)), 1e-6, 1.0 - 1e-6)
    return np.round(4.0 * np.exp(0.3 * np.clip(x, -20.0, 20.0))) / 4.0 + 0.25
