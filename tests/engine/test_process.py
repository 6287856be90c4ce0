"""The Gaussian process: its waves, exact regression, and nonlinear maps."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats

import mfbocd as mf

from . import dependent as d

FIDELITIES = [mf.Fidelity("none", 0.0, 0.0), mf.Fidelity("full", 1.0, 1.0)]


def tent(seed: int, ticks: int = 300, at: int = 150) -> list[float]:
    """A tent whose peak turns down at `at`, and noise reflected at its ends.

    Both are symmetric in the lag and leave the readings uniform: mean 0, variance 1, no correlation, before as after.
    """
    rng = np.random.default_rng(seed)
    u, xs = float(rng.random()), []
    for t in range(ticks):
        u = abs(2 * u - 1)
        u = abs((1 - u if t < at else u) + 0.1 * float(rng.normal()))
        u = 1 - abs(1 - u)
        xs.append(math.sqrt(12) * (u - 0.5))
    return xs


def kernel_of(model: mf.GaussianProcess, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The prior covariance over s2 of level and f together at the lags a (n, order) and b (m, order), as read."""

    def features(lags: np.ndarray) -> np.ndarray:
        about = (lags.T - model.mean) / model._unit
        return model._regressors(np.stack([about, 0 * about]))

    return (features(a).T / model._count) @ features(b)


def squared_exponential(a: np.ndarray, b: np.ndarray, length: float) -> np.ndarray:
    return np.exp(-0.5 * ((a[:, None] - b[None]) ** 2).sum(axis=2) / length**2)


# --- the kernel -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("order", "lengths"), [(1, 1.0), (1, 2.5), (1, 8.0), (1, 30.0), (2, 1.0), (2, 2.5), (2, 4)])
def test_the_waves_approximate_the_squared_exponential_within_reach(order: int, lengths: float) -> None:
    length = 0.3
    model = mf.GaussianProcess(order, 5.0, length, (1e12, 0.5), noise_var=7.0, reach=lengths * length)
    line = 40.0 + np.linspace(0.0, lengths * length, 200 if order == 1 else 20)
    lags = np.array(list(itertools.product(line, repeat=order)))
    apart = 0.5 * kernel_of(model, lags, lags) - squared_exponential(lags, lags, length)
    assert np.abs(apart).max() < 1e-3
    np.testing.assert_allclose(np.diag(apart), 0.0, atol=1e-9)


def test_beyond_their_reach_the_waves_repeat() -> None:
    model = mf.GaussianProcess(1, length=2.0, count=(1e12, 1.0), reach=10.0)
    lags = np.array([[0.0], [10.0 + 4 * 2.0], [9.0]])
    once, halfway = kernel_of(model, lags[:1], lags[1:])[0]
    assert once == pytest.approx(1.0, abs=1e-9)
    assert halfway == pytest.approx(2 * math.exp(-0.5 * 4.5**2), abs=1e-4)  # from either side


def test_the_defaults_reach_over_standard_scores() -> None:
    assert mf.GaussianProcess().reach == 8.0
    assert mf.GaussianProcess(2, length=3.0).reach == 12.0


# --- exact regression -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0.1, 0.01])
@pytest.mark.parametrize(("order", "reach"), [(1, 3.5), (1, 8.0), (2, 3.5)])
def test_a_regime_against_exact_regression(order: int, reach: float, count: float) -> None:
    """Dense, with the squared exponential itself: apart by the kernel's error, 0.001 / count of the noise."""
    noise_var, xs = 0.1, np.array(tent(1, 80, 80))
    model = mf.GaussianProcess(order, 0.0, 1.0, (1.0, count), noise_var=noise_var, reach=reach, weighting="tempered")
    stats = model.prior()
    for x in xs[:order].tolist():
        stats = model.update(stats, x, 1e-12)  # lags, which carry no information
    lags = np.stack([xs[order - 1 - i : -1 - i] for i in range(order)], axis=1)
    covariance = noise_var * (1.0 + squared_exponential(lags, lags, 1.0) / count)
    y = xs[order:]
    for t, x in enumerate(y.tolist()):
        past = covariance[:t, :t] + noise_var * np.eye(t)
        solved = np.linalg.solve(past, np.stack([y[:t], covariance[t, :t]], axis=1))
        truth = covariance[t, :t] @ solved[:, 0]
        width = math.sqrt(noise_var + covariance[t, t] - covariance[t, :t] @ solved[:, 1])
        mean, var = (float(v) for v in model.predictive(stats))
        assert mean == pytest.approx(truth, abs=1e-3 / count * math.sqrt(noise_var))
        assert math.sqrt(var) == pytest.approx(width, abs=1e-3 / count * math.sqrt(noise_var))
        stats = model.update(stats, x, 1.0)


def test_unknown_noise_against_one_multivariate_t() -> None:
    """Whole readings of a regime, their lags known: the dense joint density of the documented kernel."""
    x = 0.5 + np.array(tent(2, 30, 30))
    model = mf.GaussianProcess(1, 0.5, d.LENGTH, (0.7, 0.4), 2.3, 1.8, reach=d.REACH, weighting="tempered")
    stats = model.update(model.prior(), float(x[0]), 1e-12)
    total = 0.0
    for value in x[1:].tolist():
        total += float(model.log_predictive(stats, value, 1.0))
        stats = model.update(stats, value, 1.0)
    w, share = d.waves(1, d.LENGTH, d.REACH)
    kernel = np.cos((x[:-1, None] - x[None, :-1])[..., None] * w[:, 0]) @ share
    shape = 1.8 / 2.3 * (np.eye(29) + 1 / 0.7 + kernel / 0.4)
    assert total == pytest.approx(scipy.stats.multivariate_t(np.full(29, 0.5), shape, df=4.6).logpdf(x[1:]), rel=1e-9)


# --- uncertain lags -----------------------------------------------------------------------------------------------


def test_a_reading_at_an_unknown_input_informs_only_about_the_average_of_f() -> None:
    model = mf.GaussianProcess(count=(1e12, 0.1), noise_var=1.0, weighting="tempered")
    mean, var = model.predictive(model.prior())
    assert (float(mean), float(var)) == pytest.approx((0.0, 11.0))
    average = d.waves(1, 1.0, 8.0)[1].max() / 0.1  # the prior variance of the constant wave
    for x in (-1.0, 0.0, 3.0):
        after = model.update(model.update(model.prior(), 4.0, 1.0), x, 1e-12)  # 4 read after no lag, then x as a lag
        expected = (4.0 * average / 11.0, 11.0 - average**2 / 11.0)
        assert [float(v) for v in model.predictive(after)] == pytest.approx(expected, abs=1e-6)


def test_a_lag_that_was_missed_is_averaged_over() -> None:
    """The mean after a missed reading is an average over its possible values."""
    model = mf.GaussianProcess(noise_var=0.1, weighting="tempered")  # lags at any zeta are known
    stats = model.prior()
    for x in tent(4, 60, 60):
        stats = model.update(stats, x, 1.0)
    stats = model.update(stats, -0.87, 1e-12)  # the next is predicted at about 0, the peak of the tent
    mean, var = (float(v) for v in model.predictive(stats))
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    could = (mean + math.sqrt(var) * nodes).tolist()
    each = [float(model.predictive(model.update(stats, x, 1e-12))[0]) for x in could]
    missed, spread = (float(v) for v in model.predictive(model.skip(stats)))
    assert missed == pytest.approx(weights @ each / weights.sum(), abs=1e-6)
    at_it, less = (float(v) for v in model.predictive(model.update(stats, mean, 1e-12)))
    assert abs(missed - at_it) > 0.05  # the result with the mean in place of the reading
    assert spread > less


@pytest.mark.parametrize("zeta", [0.3, 1.0])
def test_uncertainty_of_lags_is_in_the_distribution_and_the_gains(zeta: float) -> None:
    model = mf.GaussianProcess(count=(0.5, 0.1), noise_var=2.0)
    lost = (1.0 - d.waves(1, 1.0, 8.0)[1].max()) / 0.1  # the variance of f at an unknown lag
    noise_var, spread = 1 / zeta + lost, 1 / 0.5 + 1 / 0.1 - lost
    prior = model.prior()
    one_up = math.sqrt(2.0 * (noise_var + spread))
    assert float(model.predictive_cdf(prior, one_up, zeta)) == pytest.approx(scipy.stats.norm.cdf(1.0), abs=1e-9)
    assert float(model.parameter_gain(prior, zeta)) == pytest.approx(
        0.5 * math.log(1.0 + spread / noise_var), rel=1e-9
    )
    assert float(model.variance_gain(prior, zeta)) == pytest.approx(spread**2 / (noise_var + spread), rel=1e-9)


def test_hypotheses_are_distinguished_by_their_uncertainty() -> None:
    """I(r; x), integrated over the predictives."""
    model = mf.GaussianProcess(noise_var=0.1)
    stats = model.prior()
    for x in tent(4, 40, 40):
        stats = model.update(stats, x, 1.0)
    both = np.stack([model.skip(stats), model.update(stats, -0.2, 1.0)], axis=1)
    x, step = np.linspace(-8.0, 8.0, 4001, retstep=True)
    p = np.exp([model.log_predictive(both, v, 0.7) for v in x.tolist()])
    mixture = p @ [0.4, 0.6]
    truth = step * (p * np.log(p / mixture[:, None])).sum(axis=0) @ [0.4, 0.6]
    assert model.run_length_gain(np.array([0.4, 0.6]), both, 0.7) == pytest.approx(truth, abs=2e-6)
    assert truth > 0.01


@pytest.mark.parametrize("order", [1, 2])
def test_the_first_reading_drawn_has_the_prior_variance(order: int) -> None:
    model, rng = mf.GaussianProcess(order, 3.0, count=(0.5, 0.1), noise_var=2.0), np.random.default_rng(8)
    first = np.array([model.sample(rng, 1)[0] for _ in range(4000)]) - 3.0
    var = 2.0 * (1.0 + 1 / 0.5 + 1 / 0.1)
    assert (first**2).mean() == pytest.approx(var, abs=4 * var * math.sqrt(2 / 4000))


@pytest.mark.parametrize("order", [1, 2])
def test_after_a_long_gap_the_lags_are_unknown(order: int) -> None:
    model = mf.GaussianProcess(order, noise_var=0.1)
    live = model.prior()[:, None]
    for x in tent(5, 30, 30):
        live = model.update(live, x, 1.0)
    for _ in range(order):
        live = model.skip(live)
    np.testing.assert_array_equal(model.new_regime(live), model.prior())


# --- changes that it detects --------------------------------------------------------------------------------------


def alarms(detector: mf.Detector, xs: list[float], missed: float = 0.0) -> list[int]:
    rng = np.random.default_rng(1)
    levels = ["none" if rng.random() < missed else "full" for _ in xs]
    return [t for t, (x, level) in enumerate(zip(xs, levels, strict=True)) if detector.update(x, level).alarm]


def detector_of(model: mf.Model) -> mf.Detector:
    return mf.Detector(model, FIDELITIES, 1 / 300, policy=mf.Always("full"))


@pytest.mark.parametrize("seed", range(5))
def test_a_reflected_map_is_a_change_that_no_linear_model_detects(seed: int) -> None:
    """Mean, variance and correlation stay the same: only the curve changes."""
    xs = tent(seed)
    curve, line = detector_of(mf.GaussianProcess()), detector_of(mf.Autoregressive(1))
    found = alarms(curve, xs)
    assert len(found) == 1
    assert 150 <= found[0] <= 153
    assert not any(150 <= t <= 170 for t in alarms(line, xs))
    assert curve.log_evidence > line.log_evidence + 200.0


@pytest.mark.parametrize("seed", range(3))
def test_missed_readings_are_not_changes(seed: int) -> None:
    """A map this steep doubles every error of a lag: a missed lag must not be treated as one that was read."""
    found = alarms(detector_of(mf.GaussianProcess()), tent(seed), missed=0.3)
    assert len(found) == 1
    assert 150 <= found[0] <= 160


def test_where_the_lags_act_along_a_line_little_is_lost() -> None:
    rng = np.random.default_rng(3)
    xs = [0.0]
    for t in range(300):
        xs.append((0.8 if t < 150 else -0.8) * xs[-1] + 0.6 * float(rng.normal()))
    curve, line = detector_of(mf.GaussianProcess()), detector_of(mf.Autoregressive(1))
    one, other = alarms(curve, xs), alarms(line, xs)
    assert len(one) == len(other) == 1
    assert abs(one[0] - other[0]) <= 5
    assert abs(curve.log_evidence - line.log_evidence) < 15.0


def test_two_lags_where_one_is_uninformative() -> None:
    """Two maps in turn: every reading follows from the last but one."""
    xs = [x for pair in zip(tent(1, 100, 50), tent(2, 100, 50), strict=True) for x in pair]
    one, two = detector_of(mf.GaussianProcess(1)), detector_of(mf.GaussianProcess(2, reach=3.5))
    assert not any(100 <= t <= 120 for t in alarms(one, xs))
    found = alarms(two, xs)
    assert len(found) == 1
    assert 100 <= found[0] <= 108
    assert two.log_evidence > one.log_evidence + 30.0


# --- saving, bad arguments ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [1, 2])
def test_saving_midway_changes_no_later_bit(order: int) -> None:
    model = mf.GaussianProcess(order, 1.0, 0.5, (2.0, 0.3), 1.5, 0.7, reach=1.5)
    detector = mf.Detector(model, FIDELITIES, 0.05, policy=mf.Always("full"))
    xs = tent(6, 60, 30)
    levels = [("full", "full", "none")[t % 3] for t in range(60)]
    for x, level in zip(xs[:30], levels[:30], strict=True):
        detector.update(x, level)
    twin = mf.Detector.from_bytes(detector.to_bytes())
    for x, level in zip(xs[30:], levels[30:], strict=True):
        assert twin.update(x, level) == detector.update(x, level)
    assert twin.to_bytes() == detector.to_bytes()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mf.GaussianProcess(0), "GaussianProcess.order must be a whole number of at least 1, not 0"),
        (lambda: mf.GaussianProcess(3), "GaussianProcess.order must be 1 or 2, not 3: more lags would need hundreds"),
        (lambda: mf.GaussianProcess(length=0), "GaussianProcess.length must be positive, not 0"),
        (lambda: mf.GaussianProcess(mean=math.nan), "GaussianProcess.mean must be finite, not nan"),
        (
            lambda: mf.GaussianProcess(count=(1, 2, 3)),
            "GaussianProcess.count must be one number or 2, of a and of f, not (1, 2, 3)",
        ),
        (lambda: mf.GaussianProcess(count=(1, 0)), "GaussianProcess.count must be positive"),
        (
            lambda: mf.GaussianProcess(noise_var=1, shape=2),
            "GaussianProcess: noise_var = 1 is known: shape and scale",
        ),
        (lambda: mf.GaussianProcess(reach=-1), "GaussianProcess.reach must be positive, not -1"),
        (lambda: mf.GaussianProcess(length=2, reach=1), "GaussianProcess.reach must be at least the length, 2"),
        (
            lambda: mf.GaussianProcess(2, reach=8),
            "GaussianProcess.reach = 8 is 8 lengths: with order = 2 that needs more than 100 features",
        ),
        (
            lambda: mf.GaussianProcess(length=1e-300, reach=1e300),
            "GaussianProcess.reach = 1e+300 is inf lengths: with order = 1 that needs more than 100 features",
        ),
        (
            lambda: mf.GaussianProcess(length=1e-200),
            "GaussianProcess.length = 1e-200 is negligible compared with the noise, 1",
        ),
    ],
)
def test_bad_parameters_are_named(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises((ValueError, TypeError)) as error:
        make()
    assert message in str(error.value)
