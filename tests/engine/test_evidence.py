"""Priors and hazards fitted to data, and alarm thresholds for a given rate of false alarms."""

from __future__ import annotations

import numpy as np
import pytest

import mfbocd as mf
from mfbocd.calibrate import alarm_for, fit


def spread(x: np.ndarray) -> mf.Gaussian:
    """A start in the data's own units."""
    return mf.Gaussian(float(x.mean()), float(x.var()), float(x.var()))


@pytest.fixture(scope="module")
def stream() -> np.ndarray:
    return mf.simulate.gaussian(mf.Gaussian(5, 16, 0.25), hazard=0.02, ticks=800, seed=1).table[:, 0]


def test_the_fit_recovers_the_true_parameters(stream: np.ndarray) -> None:
    found = fit(spread(stream), stream)
    assert isinstance(found.model, mf.Gaussian)
    assert found.model.noise_var == pytest.approx(0.25, rel=0.15)
    assert found.model.var == pytest.approx(16, rel=0.8)  # about twenty levels
    assert float(found.hazard.table[0]) == pytest.approx(0.02, rel=0.6)
    true = mf.Detector(mf.Gaussian(5, 16, 0.25), hazard=0.02, alarm=None)
    mf.run(true, stream)
    assert found.log_evidence > true.log_evidence  # more probable than under the truth: that is what was maximized
    assert found.log_evidence > found.began + 100
    assert found.detector().model is found.model


def test_the_fit_does_not_depend_on_units(stream: np.ndarray) -> None:
    found = fit(spread(stream), stream)
    for scale, shift in ((1e-3, 0.0), (1e4, -3e5)):
        moved = scale * stream + shift
        other = fit(spread(moved), moved)
        assert other.model.noise_var == pytest.approx(scale**2 * found.model.noise_var, rel=0.02)
        assert float(other.hazard.table[0]) == pytest.approx(float(found.hazard.table[0]), rel=0.02)
        a, b = (mf.run(f.detector(alarm=0.8), x).changes for f, x in ((found, stream), (other, moved)))
        assert [c.changed_at for c in a] == [c.changed_at for c in b]


def test_a_prefix_and_a_known_hazard(stream: np.ndarray) -> None:
    whole = fit(spread(stream), stream, hazard=0.02)
    part = fit(spread(stream), stream, hazard=0.02, prefix=300)
    assert float(part.hazard.table[0]) == 0.02
    assert part.log_evidence != whole.log_evidence
    short = fit(spread(stream), stream[:300], hazard=0.02)
    assert short.log_evidence == part.log_evidence
    noise_var = fit(spread(stream), stream, free=["noise_var"], hazard=0.02)
    assert noise_var.model.var == float(stream.var())
    assert noise_var.model.noise_var == pytest.approx(0.25, rel=0.15)


def test_fidelities_weigh_the_readings(stream: np.ndarray) -> None:
    rng = np.random.default_rng(3)
    zeta = rng.choice([0.2, 1.0], stream.size)
    blurred = stream + rng.normal(0, 1, stream.size) * np.sqrt(0.25 / zeta - 0.25)
    weighted = fit(spread(stream), blurred, zeta=zeta, hazard=0.02, free=["noise_var"])
    unweighted = fit(spread(stream), blurred, hazard=0.02, free=["noise_var"])
    assert weighted.model.noise_var == pytest.approx(0.25, rel=0.2)
    assert unweighted.model.noise_var > 1.5 * weighted.model.noise_var


@pytest.mark.parametrize(
    ("model", "free"),
    [(mf.GaussianUnknown(0, 1, 2, 1), None), (mf.Poisson(1, 1), None), (mf.Bernoulli(1, 1), None)],
    ids=lambda v: type(v).__name__,
)
def test_other_families_gain_evidence(model: mf.Model, free: list[str] | None) -> None:
    rng = np.random.default_rng(5)
    true = {
        "GaussianUnknown": mf.GaussianUnknown(0, 0.05, 20, 3),
        "Poisson": mf.Poisson(30, 2),
        "Bernoulli": mf.Bernoulli(0.2, 0.2),
    }[type(model).__name__]
    x = np.concatenate([true.sample(rng, 60) for _ in range(8)])
    found = fit(model, x, free=free)
    assert found.log_evidence > found.began + 2.0
    assert type(found.model) is type(model)


def test_fit_refusals(stream: np.ndarray) -> None:
    with pytest.raises(ValueError, match="at least two readings, not 1"):
        fit(spread(stream), stream[:1])
    with pytest.raises(ValueError, match=r"free must name numbers of Gaussian \(mean, var, noise_var\), not 'nois'"):
        fit(spread(stream), stream, free=["nois"])
    with pytest.raises(ValueError, match=r"zeta must have shape \(800,\), one per reading, not \(1,\)"):
        fit(spread(stream), stream, zeta=[1.0])
    with pytest.raises(ValueError, match="free must name at least one argument if hazard is given"):
        fit(spread(stream), stream, free=[], hazard=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("model", [mf.Gaussian(0, 9, 1), mf.Bernoulli(1, 1)], ids=lambda m: type(m).__name__)
def test_false_alarms_have_the_requested_rate(model: mf.Model) -> None:
    found = alarm_for(300, model, hazard=1 / 100, seed=4)
    assert found.low < found.achieved < found.high
    assert found.achieved == pytest.approx(300, rel=0.25)
    # a third set of streams, through separate detectors
    alarms = 0
    for i in range(40):
        x = model.sample(np.random.default_rng(50_000 + i), 1000)
        alarms += len(mf.run(mf.Detector(model, hazard=1 / 100, alarm=found.alarm), x).changes)
    assert 40_000 / alarms == pytest.approx(300, rel=0.4)
    assert "requested 300" in str(found)


def test_rarer_false_alarms_need_a_higher_threshold() -> None:
    model = mf.Bernoulli(1, 1)
    rare, often = (alarm_for(n, model, hazard=1 / 100, seed=4, events=100) for n in (1000, 150))
    assert rare.alarm.threshold > often.alarm.threshold
    with pytest.raises(ValueError, match="every must be positive"):
        alarm_for(0, model)
