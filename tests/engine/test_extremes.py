"""Readings far from every hypothesis, streams that never change, a million ticks: finite, normalized, never NaN."""

from __future__ import annotations

import math

import numpy as np
import pytest

import mfbocd as mf


def healthy(detector: mf.Detector) -> None:
    length, weight = detector.run_length
    assert np.isfinite(weight).all()
    assert weight.sum() == pytest.approx(1.0, abs=1e-12)
    assert (np.diff(length) > 0).all()
    assert math.isfinite(detector.log_evidence)
    assert math.isfinite(detector.mean)
    assert math.isfinite(detector.variance)
    assert detector.variance > 0
    assert np.isfinite(detector._filter.state[np.isfinite(detector._filter.state)]).all()
    assert not np.isnan(detector._filter.state).any()
    assert np.isfinite(detector.interval(0.9)).all()


FAR = [150.0, -150.0, 1e8, 1e100, -1e150, 1e200, -1e200, 1e308, 5e-324]


@pytest.mark.parametrize("prune", [None, mf.TopK(16), mf.Resample(16), mf.Threshold(1e-8)])
@pytest.mark.parametrize("far", FAR)
def test_an_outlier(far: float, prune) -> None:  # type: ignore[no-untyped-def]
    low = mf.Fidelity("low", 1e-6, 1.0)
    detector = mf.Detector(mf.Gaussian(0, 9, 1), [low, mf.Fidelity("high", 1.0, 2.0)], 0.01, prune=prune)
    rng = np.random.default_rng(0)
    for t, x in enumerate(rng.normal(size=80).tolist()):
        detector.update(far if t in (0, 40, 41, 60) else x, "low" if t == 60 else "high")
        healthy(detector)


def test_a_150_sigma_outlier_is_a_change_and_so_is_the_return() -> None:
    detector = mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.01)
    rng = np.random.default_rng(1)
    xs = np.concatenate([rng.normal(size=50), [150.0], rng.normal(size=50)])
    alarms = [s.changed_at for s in (detector.update(float(x)) for x in xs) if s.alarm]
    assert alarms == [50, 51]


@pytest.mark.parametrize("value", [0.0, 3.7, -1e6])
def test_a_long_constant_stream(value: float) -> None:
    detector = mf.Detector(mf.Gaussian(0, 9, 1), hazard=1 / 250)
    trace = mf.run(detector, np.full(20_000, value))
    healthy(detector)
    assert detector.mean == pytest.approx(value, rel=0.01, abs=1e-9)
    assert trace.p_change[-1] < 0.2
    assert np.isfinite(trace.mean).all()


@pytest.mark.parametrize("prior", [(0, 1e-12, 1), (0, 1e12, 1), (0, 1, 1e-12), (1e9, 1e-6, 1e6)])
def test_extreme_priors(prior: tuple[float, float, float]) -> None:
    detector = mf.Detector(mf.Gaussian(*prior), hazard=0.02)
    for x in np.random.default_rng(2).normal(size=200).tolist():
        detector.update(x)
        healthy(detector)


@pytest.mark.parametrize("predictive", ["paper", "normalized"])
@pytest.mark.parametrize("prior", [(1e-6, 1e-6), (1e9, 1.0), (0.1, 0.1)])
def test_bernoulli_extremes(prior: tuple[float, float], predictive) -> None:  # type: ignore[no-untyped-def]
    fidelities = [mf.Fidelity("low", 1e-9, 1.0), mf.Fidelity("mid", 0.5, 1.0), mf.Fidelity("high", 1.0, 2.0)]
    detector = mf.Detector(mf.Bernoulli(*prior, predictive=predictive), fidelities, 0.01)
    rng = np.random.default_rng(3)
    for t in range(400):
        detector.update(float(rng.random() < (0.01 if t < 200 else 0.99)), fidelities[t % 3])
        assert np.isfinite(detector.run_length.weight).all()
        assert detector.run_length.weight.sum() == pytest.approx(1.0)
        assert math.isfinite(detector.log_evidence)
        assert 0 <= detector.mean <= 1


@pytest.mark.slow
@pytest.mark.parametrize("model", [mf.Gaussian(0, 9, 1), mf.Bernoulli(1, 1)], ids=repr)
def test_a_million_ticks(model) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(4)
    detector = mf.Detector(model, hazard=1 / 1000)
    size = detector._filter.state.nbytes
    ones = isinstance(model, mf.Bernoulli)
    for part in range(10):
        x = (rng.random(100_000) < 0.5 + 0.04 * part).astype(float) if ones else rng.normal(part, 1.0, 100_000)
        trace = mf.run(detector, x)
        assert np.isfinite(trace.mean).all()
        assert np.isfinite(trace.p_change).all()
    assert detector.ticks == 1_000_000
    assert detector._filter.state.nbytes == size
    assert detector.mean == pytest.approx(0.86 if ones else 9.0, abs=0.02)
    assert math.isfinite(detector.log_evidence)
    assert detector.run_length.weight.sum() == pytest.approx(1.0)
    assert len(detector.to_bytes()) < 20_000
