"""Effective sample size, and detectors whose evidence it tempers."""

from __future__ import annotations

import math

import numpy as np
import pytest

import mfbocd as mf
from mfbocd.calibrate import effective_power


def autoregression(phi: float, ticks: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    noise = np.random.default_rng(seed).normal(size=ticks)
    out = np.zeros(ticks)
    for t in range(1, ticks):
        out[t] = phi * out[t - 1] + noise[t]
    return out


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.8, 0.95])
def test_effective_power_of_an_autoregression(phi: float) -> None:
    x = autoregression(phi, 40_000, seed=1)
    expected = pytest.approx((1 - phi) / (1 + phi), rel=0.15)
    assert effective_power(x) == expected
    x[np.random.default_rng(2).random(40_000) < 0.3] = np.nan
    assert effective_power(100.0 + 5.0 * x) == expected


def test_effective_power_is_at_most_one() -> None:
    assert effective_power(autoregression(-0.6, 1000, seed=3)) == 1.0
    assert effective_power(np.full(50, 2.0)) == 1.0
    assert 0.8 < effective_power(np.random.default_rng(4).normal(size=3000)) <= 1.0


def test_effective_power_refusals() -> None:
    with pytest.raises(ValueError, match="at least 20 readings are needed, not 19"):
        effective_power([*range(19), math.nan])
    with pytest.raises(ValueError, match="one dimension"):
        effective_power(np.zeros((30, 2)))


def test_tempered_evidence_of_a_segment_is_that_of_the_tempered_likelihood() -> None:
    """Against a sum over a grid of levels and noise variances; the next regime has hardly any weight."""
    power, x = 0.3, np.array([0.4, -1.1, 0.7, 2.0, 0.1])
    model = mf.GaussianUnknown(mean=0, count=0.5, shape=2, scale=1.5, predictive="paper", weighting="tempered")
    detector = mf.Detector(model, mf.Fidelity("full", power, 1), hazard=1e-12, prune=None)
    for v in x:
        detector.update(float(v))
    log_var = np.linspace(-9, 9, 2001)[:, None]
    var = np.exp(log_var)
    level = np.linspace(-60, 60, 4001) * np.sqrt(var) / 6  # the prior of the level is as wide as the noise
    prior = 2 * math.log(1.5) - math.lgamma(2) - 2 * log_var - 1.5 / var  # of log(var)
    prior = prior + 0.5 * np.log(0.5 / (2 * np.pi * var)) - 0.5 * 0.5 * level**2 / var
    logs = sum(-0.5 * np.log(2 * np.pi * var) - 0.5 * (v - level) ** 2 / var for v in x)
    cell = (log_var[1] - log_var[0]) * (level[:, 1] - level[:, 0])
    total = float((np.exp(prior + power * logs).sum(axis=1) * cell).sum())
    assert detector.log_evidence == pytest.approx(math.log(total), abs=1e-4)


def test_tempering_removes_the_false_alarms_of_a_dependent_stream_and_finds_a_change() -> None:
    learn, quiet = autoregression(0.9, 1000, seed=5), autoregression(0.9, 4000, seed=6)
    var = float(np.var(learn))
    model = mf.GaussianUnknown(0.0, 0.1, 3, 2 * var, predictive="paper", weighting="tempered")
    power = effective_power(learn)

    def alarms(zeta: float, x: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[int]:
        detector = mf.Detector(model, mf.Fidelity("full", zeta, 1), hazard=1 / 1000, alarm=mf.Alarm(200, 0.9))
        return [change.changed_at for change in mf.run(detector, x).changes]

    assert len(alarms(1.0, quiet)) > 40
    assert alarms(power, quiet) == []
    shifted = quiet + np.where(np.arange(4000) < 2500, 0.0, 6.0 * math.sqrt(var))
    (found,) = alarms(power, shifted)
    assert abs(found - 2500) <= 10
