"""What a reading below full fidelity teaches about an unknown noise: it is a noisier reading, not a part of one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.signal import lfilter

import mfbocd as mf
from mfbocd.models.nested import named_spec, saved_arguments
from mfbocd.models.unknown_noise import UnknownNoise

from ..registry import ALL, Case

FAMILIES: dict[str, Any] = {
    "GaussianUnknown": lambda w: mf.GaussianUnknown(0, 0.1, 2, 2, weighting=w),
    "RobustTrend": lambda w: mf.RobustTrend(count=(0.1, 10), shape=2, scale=2, weighting=w),
    "autocorrelated": lambda w: mf.RobustTrend(count=(0.02, 100), shape=2, scale=2, ar=(0.9,), weighting=w),
    "StudentTUnknown": lambda w: mf.StudentTUnknown(0, 0.1, 2, 2, 30, weighting=w),
    "Trend": lambda w: mf.Trend(count=(0.1, 1000), shape=2, scale=2, weighting=w),
    "Autoregressive": lambda w: mf.Autoregressive(1, 0, (0.1, 1), 2, 2, weighting=w),
}
LOW, HIGH = mf.Fidelity("low", 0.1, 1.0), mf.Fidelity("high", 1.0, 10.0)


def quiet(phi: float, zeta: np.ndarray, seed: int) -> np.ndarray:
    """A stream without a change: noise of variance 1, autocorrelated by phi, and the noise of a cheaper sensor."""
    rng = np.random.default_rng(seed)
    series = lfilter([1.0], [1.0, -phi], rng.normal(size=zeta.size))
    return np.asarray(series + rng.normal(size=zeta.size) * np.sqrt(1 / zeta - 1))


def alarms(name: str, weighting: str, ticks: int, seed: int) -> int:
    """Number of alarms in a quiet stream of which a fifth of the readings are full ones."""
    zeta = np.where(np.random.default_rng([seed, 1]).random(ticks) < 0.2, 1.0, LOW.zeta)
    x = quiet(0.9 if name in ("autocorrelated", "Autoregressive") else 0.0, zeta, seed)
    detector = mf.Detector(
        FAMILIES[name](weighting), [LOW, HIGH], 1 / 500, policy=mf.Always("low"), prune=mf.TopK(60)
    )
    each = zip(x.tolist(), zeta.tolist(), strict=True)
    return sum(detector.update(v, "high" if z == 1.0 else "low").alarm for v, z in each)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_quiet_stream_of_mixed_fidelities_raises_no_alarms(name: str) -> None:
    """At most one in two thousand ticks; tempered, there are many in a few hundred."""
    compiled = name in ("GaussianUnknown", "RobustTrend", "autocorrelated")
    ticks = 6000 if compiled else 1500
    assert alarms(name, "precision", ticks, seed=0) <= max(ticks // 2000, 1)
    assert alarms(name, "tempered", 1500, seed=0) >= 5


@pytest.mark.parametrize("zeta", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("name", FAMILIES)
def test_the_noise_that_is_learned_from_noisier_readings_is_that_of_a_full_one(name: str, zeta: float) -> None:
    """2000 readings of variance 1 / zeta teach a variance of 1; tempered, of 1 / zeta."""
    model = FAMILIES[name]("precision")
    stats = model.prior()
    phi = 0.9 if name in ("autocorrelated", "Autoregressive") else 0.0
    for x in quiet(phi, np.full(2000, zeta), seed=3).tolist():
        stats = model.update(stats, x, zeta)
    _, var = model.predictive(stats, 1.0)
    if phi == 0.0:
        expected = 15 / 14 if name == "StudentTUnknown" else 1.0
        assert float(var) == pytest.approx(expected, rel=0.12)
        tempered = FAMILIES[name]("tempered")
        stats = tempered.prior()
        for x in quiet(0.0, np.full(2000, zeta), seed=3).tolist():
            stats = tempered.update(stats, x, zeta)
        assert float(tempered.predictive(stats, 1.0)[1]) == pytest.approx(expected / zeta, rel=0.12)
    else:
        # The variance that remains of a lag, V = P R / (P + R) with P = phi^2 V + 1 and R = 1 / zeta - 1, settles.
        remains, noise = 0.0, 1 / zeta - 1
        for _ in range(200):
            ahead = phi**2 * remains + 1.0
            remains = ahead * noise / (ahead + noise)
        assert float(var) == pytest.approx(ahead, rel=0.25)  # given phi, learned by Autoregressive


@pytest.mark.parametrize(
    "case", [case for case in ALL if isinstance(case.model(), UnknownNoise)], ids=lambda c: c.name
)
def test_full_readings_and_skips_are_the_same_in_either_weighting(case: Case) -> None:
    spec = case.model().spec()
    rng = np.random.default_rng(4)
    xs = [case.draw(rng) for _ in range(30)]
    steps = []
    for weighting in ("precision", "tempered"):
        if weighting == "precision" and spec.get("predictive") == "paper":
            with pytest.raises(ValueError, match=r"\.weighting must be 'tempered' with predictive='paper'"):
                type(case.model())(**(spec | {"weighting": weighting}))
            return
        model = type(case.model())(**(spec | {"weighting": weighting}))
        detector = mf.Detector(model, hazard=0.05, missing="skip", alarm=0.5)
        steps.append([detector.update(None if i % 7 == 5 else x) for i, x in enumerate(xs)])
    assert steps[0] == steps[1]
    with pytest.raises(ValueError, match=r"\.weighting must be 'precision' or 'tempered', not 'x'"):
        type(case.model())(**(spec | {"weighting": "x"}))


def test_a_model_saved_without_a_weighting_is_tempered() -> None:
    """As it was when it was saved, also within other models; what has no unknown noise has no weighting."""
    inner = mf.Mixture(mf.Gaussian(0, 9, 1), mf.GaussianUnknown(0, 1, 2, 1, weighting="tempered"))
    model = mf.Outliers(inner, 0.1)
    table = named_spec(model)
    old = eval(repr(table).replace(", 'weighting': 'tempered'", ""))
    assert "weighting" not in repr(old)
    kind = old.pop("kind")
    assert named_spec(mf.Outliers(**saved_arguments(kind, old))) == table


def test_a_noisy_lag_is_filtered() -> None:
    """Against a Kalman filter of the hidden readings, with a known level and coefficient."""
    phi, zetas = 0.8, np.array([1.0, 0.2, 0.2, 0.5, 1.0, 0.1, 0.1, 1.0])
    x = quiet(phi, zetas, seed=5)
    firm = 1e8
    model = mf.RobustTrend(count=(firm, firm), shape=firm, scale=firm, line=0.5, ar=(phi,))
    stats = model.prior()
    mean, var = 0.0, 1.0 / (1.0 - phi**2)
    for value, zeta in zip(x.tolist(), zetas.tolist(), strict=True):
        got = float(model.log_predictive(stats, value, zeta))
        noise = 1.0 / zeta - 1.0
        expected = -0.5 * (np.log(2 * np.pi * (var + noise)) + (value - mean) ** 2 / (var + noise))
        assert got == pytest.approx(expected, abs=1e-6)
        stats = model.update(stats, value, zeta)
        gain = var / (var + noise)
        mean, var = phi * (mean + gain * (value - mean)), phi**2 * (1.0 - gain) * var + 1.0
