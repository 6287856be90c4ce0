"""Regression, trend and autoregression: formulas they equal, and changes they detect."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

import mfbocd as mf
from mfbocd.belief.gains import GAINS, expected_gains

from . import dependent as d

FIDELITIES = [mf.Fidelity("none", 0.0, 0.0), mf.Fidelity("low", 0.3, 1.0), mf.Fidelity("high", 1.0, 5.0)]


def alarms(detector: mf.Detector, xs, fidelity: str = "full") -> list[int]:  # type: ignore[no-untyped-def]
    return [t for t, x in enumerate(xs) if detector.update(x, fidelity).alarm]


def evidence(model: mf.Model, readings) -> float:  # type: ignore[no-untyped-def]
    """Readings of one regime."""
    total, stats_ = 0.0, model.prior()
    for x, zeta in readings:
        total += float(model.log_predictive(stats_, x, zeta))
        stats_ = model.update(stats_, x, zeta)
    return total


# --- against scipy ----------------------------------------------------------------------------------------------


def test_full_readings_of_a_regime_are_one_multivariate_t() -> None:
    x = np.random.default_rng(0).normal(2.0, 3.0, 12)
    age = np.arange(12.0)
    u = np.stack([np.ones(12), age], axis=1)
    shape = d.SCALE / d.SHAPE * (np.eye(12) + (u / d.COUNTS[:2]) @ u.T)
    truth = stats.multivariate_t(d.LEVEL + d.SLOPE * age, shape, df=2 * d.SHAPE).logpdf(x)
    model = mf.Trend(d.LEVEL, d.SLOPE, d.COUNTS[:2], d.SHAPE, d.SCALE)
    assert evidence(model, [(v, 1.0) for v in x.tolist()]) == pytest.approx(truth, rel=1e-11)


@pytest.mark.parametrize("noise_var", [None, d.NOISE])
@pytest.mark.parametrize("zeta", [0.15, 1.0])
def test_a_predictive_is_a_density_with_its_moments_and_distribution(noise_var, zeta: float) -> None:  # type: ignore[no-untyped-def]
    model = mf.Autoregressive(2, d.ABOUT, d.COUNTS, **d.known_noise(noise_var))
    stats_ = model.prior()
    for x in (3.0, -1.0, 2.0, 4.0):
        stats_ = model.update(stats_, x, 0.7)
    mean, var = (float(v) for v in model.predictive(stats_, zeta))

    def of(power: float):  # type: ignore[no-untyped-def]
        def value(x: float) -> float:
            return (x - mean) ** power * math.exp(float(model.log_predictive(stats_, x, zeta)))

        return value

    whole, first, second = (integrate.quad(of(p), -np.inf, np.inf, epsabs=1e-10, limit=500)[0] for p in (0, 1, 2))
    assert whole == pytest.approx(1.0, abs=1e-7)
    assert first == pytest.approx(0.0, abs=1e-6)
    assert second == pytest.approx(var, rel=1e-5)
    below = integrate.quad(of(0), -np.inf, mean + 1.3, epsabs=1e-11)[0]
    assert float(model.predictive_cdf(stats_, mean + 1.3, zeta)) == pytest.approx(below, abs=1e-7)


@pytest.mark.parametrize("noise_var", [None, d.NOISE])
def test_parameter_gain_is_the_expected_divergence(noise_var) -> None:  # type: ignore[no-untyped-def]
    """E_x log p(x | coefficients, s2) / p(x), by drawing both; at zeta = 1 it is a mutual information."""
    rng = np.random.default_rng(5)
    model = mf.Trend(0.0, 0.0, (0.5, 4.0), **d.known_noise(noise_var))
    unit = d.unit(noise_var)
    stats_ = model.skip(model.skip(model.prior()))  # the third tick: the slope matters
    n = 200_000
    s2 = unit**2 / (rng.gamma(d.SHAPE, size=n) if noise_var is None else 1.0)
    line = rng.normal(size=n) / math.sqrt(0.5) + 2.0 * rng.normal(size=n) / 2.0
    x = np.sqrt(s2) * (line + rng.normal(size=n))
    q = 1.0 + 1 / 0.5 + 4.0 / 4.0
    if noise_var is None:
        p = stats.t(2 * d.SHAPE, 0.0, math.sqrt(d.SCALE * q / d.SHAPE)).logpdf(x)
    else:
        p = stats.norm(0.0, math.sqrt(noise_var * q)).logpdf(x)
    gains = stats.norm(np.sqrt(s2) * line, np.sqrt(s2)).logpdf(x) - p
    error = gains.std() / math.sqrt(n)
    assert float(model.parameter_gain(stats_, 1.0)) == pytest.approx(gains.mean(), abs=5 * error)
    assert error < 0.01 * gains.mean()


def test_coefficients_against_least_squares() -> None:
    """With a flat prior the result is numpy's weighted least squares."""
    rng = np.random.default_rng(2)
    u = rng.normal(size=(40, 3))
    y = 2.0 + u @ [1.0, -3.0, 0.5] + rng.normal(size=40)
    zeta = rng.uniform(0.2, 1.0, 40)
    model = mf.LinearRegression(3, count=1e-9, scale=4.0)
    stats_ = model.prior()
    for row, value, weight in zip(u, y, zeta, strict=True):
        stats_ = model.update(stats_, np.append(value, row), float(weight))
    root = np.sqrt(zeta)[:, None]
    full = np.column_stack([np.ones(40), u])
    truth = np.linalg.lstsq(root * full, root[:, 0] * y, rcond=None)[0]
    mean, var = model.parameter(stats_)
    np.testing.assert_allclose(mean, truth, rtol=1e-7)
    noise_var = (4.0 + 0.5 * zeta @ (y - full @ truth) ** 2) / (0.5 * zeta.size)  # E[s2], with a prior shape of 1
    np.testing.assert_allclose(var, noise_var * np.diag(np.linalg.inv((full.T * zeta) @ full)), rtol=1e-7)


def test_an_autoregressions_coefficients_against_least_squares() -> None:
    rng = np.random.default_rng(3)
    about = np.append([0.0, 0.0], rng.normal(size=50))
    model = mf.Autoregressive(2, 7.0, 1e-9, noise_var=9.0)
    stats_ = model.prior()
    for x in (7.0 + about[2:]).tolist():
        stats_ = model.update(stats_, x, 1.0)
    u = np.column_stack([np.ones(50), about[1:-1], about[:-2]])
    mean, var = model.parameter(stats_)
    np.testing.assert_allclose(mean, np.linalg.lstsq(u, about[2:], rcond=None)[0] + [7.0, 0.0, 0.0], rtol=1e-7)
    np.testing.assert_allclose(var, 9.0 * np.diag(np.linalg.inv(u.T @ u)), rtol=1e-7)


# --- against other models -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("gain", GAINS)
def test_an_autoregression_of_order_0_is_the_gaussian_of_unknown_variance(gain) -> None:  # type: ignore[no-untyped-def]
    pair = (mf.Autoregressive(0, 0.5, 0.8, 2.2, 1.7), mf.GaussianUnknown(0.5, 0.8, 2.2, 1.7))
    one, two = (mf.Detector(m, FIDELITIES, 0.05, policy=mf.Always("high")) for m in pair)
    rng = np.random.default_rng(3)
    for t in range(60):
        name = ("none", "low", "high")[t % 3]
        x = float(rng.normal(3.0 * (t > 30)))
        a, b = one.update(x, name), two.update(x, name)
        assert (a.mean, a.p_change) == pytest.approx((b.mean, b.p_change), abs=1e-10)
    levels = np.array([0.0, 0.1, 0.6, 1.0])
    np.testing.assert_allclose(*(expected_gains(det._filter, levels, gain) for det in (one, two)), atol=1e-7)
    assert one.interval(0.9) == pytest.approx(two.interval(0.9), rel=1e-9)
    assert one.variance == pytest.approx(two.variance, rel=1e-10)


def test_a_regression_on_the_age_is_a_trend() -> None:
    """With the age as its covariate, a regression equals a trend while there is one regime."""
    trend = mf.Trend(1.0, 0.2, (0.5, 3.0), noise_var=2.0)
    line = mf.LinearRegression(1, (1.0, 0.2), (0.5, 3.0), noise_var=2.0)
    rng = np.random.default_rng(4)
    readings = [(float(rng.normal()), float(rng.uniform(0.1, 1))) for _ in range(9)]
    apart = evidence(trend, readings) - evidence(line, [(np.array([x, t]), z) for t, (x, z) in enumerate(readings)])
    assert apart == pytest.approx(0.0, abs=1e-11)


def test_a_regression_without_intercept_goes_through_zero() -> None:
    model = mf.LinearRegression(1, count=1e-6, noise_var=1, intercept=False)
    stats_ = model.prior()
    for u in (1.0, 2.0, 4.0):
        stats_ = model.update(stats_, np.array([10.0 + u, u]), 1.0)
    mean, _ = model.parameter(stats_)
    assert mean.shape == (1,)
    assert float(mean[0]) == pytest.approx((11 + 24 + 56) / 21, rel=1e-5)


@pytest.mark.parametrize("gain", GAINS)
def test_a_vector_autoregression_of_order_0_is_the_gaussian_of_unknown_covariance(gain) -> None:  # type: ignore[no-untyped-def]
    prior = {"degrees": d.DEGREES, "scale": d.SCATTER}
    pair = (
        mf.VectorAutoregressive(0, d.CENTRE, 0.8, **prior),
        mf.MultivariateGaussianUnknown(d.CENTRE, 0.8, **prior),
    )
    one, two = (mf.Detector(m, FIDELITIES, 0.05, policy=mf.Always("high")) for m in pair)
    rng = np.random.default_rng(3)
    for t in range(40):
        x, name = rng.normal(3.0 * (t > 20), 1.0, 2), ("none", "low", "high")[t % 3]
        a, b = one.update(x, name), two.update(x, name)
        np.testing.assert_allclose([*a.mean, a.p_change], [*b.mean, b.p_change], atol=1e-10)
    levels = np.array([0.0, 0.1, 0.6, 1.0])
    np.testing.assert_allclose(*(expected_gains(det._filter, levels, gain) for det in (one, two)), atol=1e-9)
    np.testing.assert_allclose(one.interval(0.9), two.interval(0.9), rtol=1e-9)
    np.testing.assert_allclose(one.variance, two.variance, rtol=1e-10)
    np.testing.assert_allclose(one.parameter, two.parameter, rtol=1e-9)


def test_vector_coefficients_against_least_squares() -> None:
    """With a flat prior the result is least squares, in the units and axes of the data."""
    rng = np.random.default_rng(6)
    xs = rng.normal(size=(60, 2)) @ [[1.0, 0.4], [0.0, 2.0]] + [3.0, -5.0]
    model = mf.VectorAutoregressive(2, (3.0, -5.0), 1e-9, 6.0, [[2.0, 0.5], [0.5, 1.0]])
    stats_ = model.prior()
    for x in xs:
        stats_ = model.update(stats_, x, 1.0)
    about = np.vstack([np.zeros((2, 2)), xs - [3.0, -5.0]])
    u = np.column_stack([np.ones(60), about[1:-1], about[:-2]])
    truth, *_ = np.linalg.lstsq(u, about[2:], rcond=None)
    mean, var = model.parameter(stats_)
    np.testing.assert_allclose(mean[:2], truth[0] + [3.0, -5.0], rtol=1e-7)
    np.testing.assert_allclose(mean[2:], np.concatenate([truth[1:3].T.ravel(), truth[3:].T.ravel()]), atol=1e-7)
    rest = about[2:] - u @ truth
    noise_var = (rest.T @ rest + [[2.0, 0.5], [0.5, 1.0]]) / (6.0 + 60 - 2 - 1)
    every = np.outer(np.diag(noise_var), np.diag(np.linalg.inv(u.T @ u)))  # (number, regressor)
    np.testing.assert_allclose(var[:2], every[:, 0], rtol=1e-6)
    np.testing.assert_allclose(var[2:], np.concatenate([every[:, 1:3].ravel(), every[:, 3:].ravel()]), rtol=1e-6)


# --- changes that they detect -------------------------------------------------------------------------------------


def test_a_ramp_is_one_regime_of_a_trend_and_many_of_a_gaussian() -> None:
    ramp = [0.5 * t for t in range(120)]
    assert alarms(mf.Detector(mf.Trend(), hazard=1 / 100), ramp) == []
    assert len(alarms(mf.Detector(mf.Gaussian(0, 100, 1), hazard=1 / 100), ramp)) >= 3


@pytest.mark.parametrize("seed", range(5))
def test_a_kink_is_a_change_of_trend(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rise = np.concatenate([0.3 * np.arange(80.0), 24.0 - 0.3 * np.arange(80.0)]) + rng.normal(size=160)
    found = mf.run(mf.Detector(mf.Trend(count=(0.01, 100)), hazard=1 / 100), rise.tolist()).changes
    assert len(found) == 1
    assert abs(found[0].changed_at - 80) <= 8


@pytest.mark.parametrize("seed", range(5))
def test_slow_oscillation_is_one_regime_of_an_autoregression_and_many_of_a_gaussian(seed: int) -> None:
    rng = np.random.default_rng(seed)
    xs = [0.0]
    for _ in range(400):
        xs.append(0.95 * xs[-1] + float(rng.normal()))
    lag, plain = mf.Autoregressive(1), mf.Gaussian(0, 10, 1)
    assert len(alarms(mf.Detector(lag, hazard=1 / 400), xs)) == 0
    assert len(alarms(mf.Detector(plain, hazard=1 / 400), xs)) >= 3


@pytest.mark.parametrize("seed", range(5))
def test_a_sign_change_of_the_coefficient_is_a_change_of_autoregression(seed: int) -> None:
    """Mean and variance stay the same: only the dependence changes."""
    rng = np.random.default_rng(seed)
    xs = [0.0]
    for t in range(300):
        xs.append((0.8 if t < 150 else -0.8) * xs[-1] + float(rng.normal()))
    found = alarms(mf.Detector(mf.Autoregressive(1), hazard=1 / 300), xs)
    assert len(found) == 1
    assert 150 < found[0] <= 180


def test_a_changed_slope_is_found_whatever_the_covariates_are() -> None:
    rng = np.random.default_rng(7)
    detector = mf.Detector(mf.LinearRegression(1), hazard=1 / 200)
    u = np.sin(0.7 * np.arange(200.0))
    y = np.where(np.arange(200) < 100, 1.0, -1.0) * 2.0 * u + rng.normal(0, 0.5, 200)
    found = alarms(detector, np.column_stack([y, u]))
    assert len(found) == 1
    assert 100 <= found[0] <= 106


@pytest.mark.parametrize("seed", range(3))
def test_a_reversed_rotation_is_a_change_of_vector_autoregression(seed: int) -> None:
    """Each column stays the same autoregression: only which one leads the other changes."""
    rng = np.random.default_rng(seed)
    turn = 0.9 * np.array([[math.cos(0.8), -math.sin(0.8)], [math.sin(0.8), math.cos(0.8)]])
    xs = [np.zeros(2)]
    for t in range(200):
        xs.append((turn if t < 100 else turn.T) @ xs[-1] + rng.normal(size=2))
    both = mf.Detector(mf.VectorAutoregressive(1, (0, 0)), hazard=1 / 200)
    alone = mf.Detector(mf.Autoregressive(1), hazard=1 / 200)
    assert 100 < alarms(both, xs)[0] <= 115
    assert not any(100 < tick <= 115 for tick in alarms(alone, [x[0] for x in xs]))


def test_a_vector_autoregression_is_affine_equivariant() -> None:
    rng = np.random.default_rng(9)
    mix, shift = np.array([[3.0, 1.0], [-2.0, 0.5]]), np.array([100.0, -7.0])
    plain, moved = (
        mf.Detector(mf.VectorAutoregressive(1, m, scale=s), FIDELITIES, 0.05)
        for m, s in (((0.5, 1.0), np.eye(2)), (shift + mix @ (0.5, 1.0), mix @ mix.T))
    )
    for t in range(40):
        x, name = rng.normal(2.0 * (t > 20), 1.0, 2), ("low", "high", "none")[t % 3]
        plain.update(x, name)
        moved.update(shift + mix @ x, name)
    assert moved.p_changed(within=10) == pytest.approx(plain.p_changed(within=10), abs=1e-9)
    np.testing.assert_allclose(moved.mean, shift + mix @ plain.mean, rtol=1e-9)


# --- time and lags -----------------------------------------------------------------------------------------------


def test_a_trend_ages_at_ticks_without_a_reading() -> None:
    model = mf.Trend(count=(1e-6, 1e-6), noise_var=1)
    detector = mf.Detector(model, FIDELITIES, [0.0, 0.0, 0.0, 1e-9], missing="skip", policy=mf.Always("high"))
    for x in (10.0, 13.0, None, None, 22.0):
        detector.update(x, "high")
    assert detector.mean == pytest.approx(25.0, abs=1e-3)
    level, slope = detector.parameter[0]
    assert (level, slope) == pytest.approx((10.0, 3.0), abs=1e-3)


def test_a_missed_lag_is_replaced_by_its_regimes_mean() -> None:
    model = mf.Autoregressive(1, count=1e-6, noise_var=1)
    stats_ = model.prior()
    for x in (8.0, -4.0, 2.0, -1.0, 0.5, -0.25):
        stats_ = model.update(stats_, x, 1.0)
    mean, _ = model.predictive(stats_)
    read, missed = model.update(stats_, float(mean), 0.5), model.skip(stats_)
    assert float(model.predictive(missed)[0]) == pytest.approx(float(model.predictive(read)[0]), abs=1e-9)


def test_a_new_regime_uses_the_readings_before_it() -> None:
    """Two lags read, one missed: a new regime uses the two and the prior mean for the third."""
    model = mf.Autoregressive(3, 1.0, noise_var=4.0)
    live = np.stack([model.prior()] * 2, axis=1)
    for x in (5.0, None, 7.0):
        live = model.skip(live) if x is None else model.update(live, x, 0.5)
    lags = model.new_regime(live)[-6:]
    # (x - 1) / 2, newest first; then the variances, 1 / zeta - 1 of that of the noise
    assert lags.tolist() == [3.0, 0.0, 2.0, 1.0, 0.0, 1.0]
    np.testing.assert_array_equal(model.new_regime(np.empty((model.columns, 0))), model.prior())


def test_a_new_vector_regime_uses_the_readings_before_it() -> None:
    model = mf.VectorAutoregressive(2, (1.0, 2.0), scale=4.0)
    live = np.stack([model.prior()] * 2, axis=1)
    for x in ((5.0, 2.0), (3.0, 4.0), None, (1.0, 6.0)):
        live = model.skip(live) if x is None else model.update(live, np.array(x), 0.5)
    assert model.new_regime(live)[-4:].tolist() == [
        0.0,
        2.0,
        0.0,
        0.0,
    ]  # (x - mean) / 2, newest first; one was missed
    assert (live[-8:-4, 0] != live[-4:, 0]).any()  # the regime itself has a better estimate of the missed one
    np.testing.assert_array_equal(model.new_regime(np.empty((model.columns, 0))), model.prior())


def test_a_new_regime_is_predicted_at_the_last_covariates() -> None:
    detector = mf.Detector(
        mf.LinearRegression(2, (1.0, 2.0, 3.0), noise_var=1.0), hazard=1 - 1e-12
    )  # every tick is new
    detector.update([0.3, 10.0, 100.0], "full")
    np.testing.assert_allclose(detector.mean, [1 + 20 + 300, 10, 100])
    low, high = detector.interval(0.9)
    np.testing.assert_allclose([low[1:], high[1:]], [[10, 100], [10, 100]])
    spread = math.sqrt(1 + 1 + 10**2 + 100**2) * stats.norm.ppf(0.95)
    np.testing.assert_allclose([low[0], high[0]], [321 - spread, 321 + spread], rtol=1e-9)


# --- any units, any length --------------------------------------------------------------------------------------


MOVED = {
    "trend": (
        lambda a, b: mf.Trend(a + 0.5 * b, 0.1 * b, (0.5, 30.0), 1.5, 2 * b * b),
        lambda a, b: mf.Trend(a + 0.5 * b, 0.1 * b, (0.5, 30.0), noise_var=b * b),
    ),
    "autoregressive": (
        lambda a, b: mf.Autoregressive(2, a + 0.5 * b, 1.0, 1.5, 2 * b * b),
        lambda a, b: mf.Autoregressive(2, a + 0.5 * b, 1.0, noise_var=b * b),
    ),
    "process": (
        lambda a, b: mf.GaussianProcess(1, a + 0.5 * b, 2 * b, shape=1.5, scale=2 * b * b),
        lambda a, b: mf.GaussianProcess(2, a + 0.5 * b, 2 * b, noise_var=b * b, reach=4 * b),
    ),
}


@pytest.mark.parametrize("known", [0, 1], ids=["unknown", "known"])
@pytest.mark.parametrize("name", MOVED)
@given(shift=st.floats(-1e6, 1e6), log_scale=st.floats(-6, 6), seed=st.integers(0, 1000))
def test_shift_and_scale_change_nothing(name: str, known: int, shift: float, log_scale: float, seed: int) -> None:
    scale = 10.0**log_scale
    rng = np.random.default_rng(seed)
    xs = np.concatenate([rng.normal(0, 1, 12), rng.normal(4, 1, 12)])
    make = MOVED[name][known]
    plain, moved = (
        mf.Detector(make(a, b), FIDELITIES, 0.05, policy=mf.Always("high")) for a, b in ((0.0, 1.0), (shift, scale))
    )
    for t, x in enumerate(xs.tolist()):
        level = ("low", "high", "none", "high")[t % 4]
        plain.update(x, level)
        moved.update(shift + scale * x, level)
    # adding the shift to x already loses this much of it
    lost = 1e-15 * max(1.0, abs(shift) / scale)
    assert moved.p_changed(within=10) == pytest.approx(plain.p_changed(within=10), abs=1e-9 + 1e4 * lost)
    assert moved.mean == pytest.approx(shift + scale * plain.mean, rel=1e-9, abs=scale * (1e-8 + 1e5 * lost))
    for gain in GAINS:
        a, b = (expected_gains(det._filter, np.array([0.3, 1.0]), gain) for det in (plain, moved))
        np.testing.assert_allclose(b, a, atol=1e-6 + 1e4 * lost)


def test_a_regression_is_equivariant_to_units_of_y_and_covariates() -> None:
    rng = np.random.default_rng(8)
    readings = [np.append(rng.normal(), rng.normal(size=2)) for _ in range(30)]
    factor = np.array([100.0, 0.01])
    plain = mf.Detector(mf.LinearRegression(2, (0.5, 1.0, -1.0), (1, 2, 3)), FIDELITIES, 0.05)
    other = mf.LinearRegression(
        2, [1e3 + 5.0, *(10.0 * np.array([1.0, -1.0]) / factor)], [1, *([2, 3] * factor**2)], scale=100
    )
    moved = mf.Detector(other, FIDELITIES, 0.05)
    for t, x in enumerate(readings):
        name = ("low", "high")[t % 2]
        plain.update(x, name)
        moved.update(np.append(1e3 + 10.0 * x[0], factor * x[1:]), name)
    assert moved.p_changed(within=10) == pytest.approx(plain.p_changed(within=10), abs=1e-9)
    assert moved.mean[0] == pytest.approx(1e3 + 10.0 * plain.mean[0], rel=1e-10)


@pytest.mark.parametrize("make", [mf.Trend, mf.Autoregressive, mf.GaussianProcess, lambda: mf.Trend(noise_var=1.0)])
def test_wild_readings_and_long_gaps_stay_finite(make) -> None:  # type: ignore[no-untyped-def]
    detector = mf.Detector(make(), FIDELITIES, 0.05, policy=mf.Always("high"), missing="skip")
    for x in (0.0, 1e308, -1e308, 1.0, 3.0, 9.0, *[None] * 400, 1e-308, 0.0):
        step = detector.update(x, "high")
        assert np.isfinite([step.mean, step.p_change, detector.log_evidence]).all()
        assert detector.run_length.weight.sum() == pytest.approx(1.0)


def test_a_regime_of_a_million_ticks_is_still_exact() -> None:
    """Rotations keep all digits where the normal equations have lost half."""
    model = mf.Trend(count=(1.0, 1.0), noise_var=1.0)
    age = np.arange(0.0, 1e6, 1e4)
    stats_ = model.prior()
    for t in age.tolist():
        stats_[-1] = t  # as if all between had been skipped
        stats_ = model.update(stats_, 3.0 + 1e-3 * t, 1.0)
    u = np.stack([np.ones_like(age), age], axis=1)
    root = np.vstack([np.eye(2), u])
    truth = np.linalg.lstsq(root, np.append([0.0, 0.0], 3.0 + 1e-3 * age), rcond=None)[0]
    np.testing.assert_allclose(model.parameter(stats_)[0], truth, rtol=1e-10)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: mf.Trend(noise_var=1, shape=2),
            "Trend: noise_var = 1 is known: shape and scale are for noise that is not",
        ),
        (lambda: mf.Trend(shape=0.5), "Trend.shape must exceed 1/2, not 0.5"),
        (lambda: mf.Trend(noise_var=0), "Trend.noise_var must be positive, not 0"),
        (lambda: mf.Trend(slope=math.inf), "Trend.slope must be finite, not inf"),
        (
            lambda: mf.Trend(count=(1, 2, 3)),
            "Trend.count must be one number or 2, one per coefficient, not (1, 2, 3)",
        ),
        (lambda: mf.Autoregressive(-1), "Autoregressive.order must be a whole number of at least 0, not -1"),
        (lambda: mf.Autoregressive(2, count=(1, 0)), "Autoregressive.count must be positive"),
        (lambda: mf.VectorAutoregressive(1, 0.0), "VectorAutoregressive.mean must be two numbers or more"),
        (lambda: mf.VectorAutoregressive(1, (0, 0), degrees=1.5), "VectorAutoregressive.degrees must be at least 2"),
        (
            lambda: mf.VectorAutoregressive(1, (0, 0), (1, 2, 3, 4)),
            "VectorAutoregressive.count must be one number or 3",
        ),
        (lambda: mf.LinearRegression(0), "LinearRegression.covariates must be a whole number of at least 1, not 0"),
        (lambda: mf.LinearRegression(2, mean=(1, 2)), "LinearRegression.mean must be one number or 3, not (1, 2)"),
        (lambda: mf.LinearRegression(1, intercept=2), "LinearRegression.intercept must be True or False, not 2"),
    ],
)
def test_bad_parameters_are_named(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises((ValueError, TypeError)) as error:
        make()
    assert message in str(error.value)


def test_a_covariate_beyond_squaring_is_named_and_changes_nothing() -> None:
    detector = mf.Detector(mf.LinearRegression(1))
    detector.update([1.0, 2.0], "full")
    before = detector.to_bytes()
    with pytest.raises(ValueError, match=r"outside the support of LinearRegression: covariates must be at most 1e50"):
        detector.update([1.0, 1e51], "full")
    assert detector.to_bytes() == before
    assert mf.LinearRegression(1).possible(np.array([[1, 2], [1, 1e51], [np.nan, 1]])).tolist() == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    "model",
    [
        mf.Trend(1, 2, (3, 4), noise_var=5),
        mf.Autoregressive(2, 1, (2, 3)),
        mf.GaussianProcess(2, 1, 3, (2, 0.5), noise_var=5, reach=9),
        mf.LinearRegression(2, 1, intercept=False),
        mf.VectorAutoregressive(2, (1, 2), (3, 4), 5, (6, 7)),
    ],
    ids=lambda m: type(m).__name__,
)
def test_a_model_equals_the_one_made_from_its_spec(model: mf.Model) -> None:
    twin = type(model)(**model.spec())
    np.testing.assert_array_equal(twin.prior(), model.prior())
    assert twin.spec() == model.spec()
    assert repr(twin) == repr(model)
    for a, b in zip(twin.predictive(twin.prior()), model.predictive(model.prior()), strict=True):
        np.testing.assert_array_equal(a, b)
