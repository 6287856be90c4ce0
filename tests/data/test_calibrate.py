"""zeta, cost and threshold from held-out data, and the guard at run time."""

import json
import math

import numpy as np
import pytest
from scipy import special, stats

import mfbocd as mf
from mfbocd.calibrate import (
    CalibrationError,
    CostEstimate,
    ShadowGuard,
    ShadowWarning,
    bernoulli_zeta,
    decision_operations,
    decision_time,
    declared_cost,
    gaussian_zeta,
    measured_time,
    threshold_fnr_fpr,
)
from mfbocd.calibrate.quantiles import beta_cdf, chi_square, gamma_cdf, student
from mfbocd.calibrate.zeta import wilson
from mfbocd.datasets import simulate


def within(rate: float, expected: float, trials: int) -> bool:
    """Whether a simulated rate is within four standard errors: fails by chance once in 16,000."""
    return abs(rate - expected) <= 4.0 * math.sqrt(expected * (1.0 - expected) / trials)


# --- quantiles -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("df", [1, 2, 3, 7, 29, 400, 1e5])
@pytest.mark.parametrize("p", [0.001, 0.025, 0.3, 0.6, 0.95, 0.995, 0.9999])
def test_quantiles_equal_scipy(df, p):
    assert student(p, df) == pytest.approx(stats.t.ppf(p, df), rel=1e-9)
    assert chi_square(p, df) == pytest.approx(stats.chi2.ppf(p, df), rel=1e-9)


@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (2, 3), (40, 0.5), (300, 700)])
def test_incomplete_functions_equal_scipy(a, b):
    for x in [0.0, 0.01, 0.3, 0.7, 0.99, 1.0]:
        assert beta_cdf(a, b, x) == pytest.approx(special.betainc(a, b, x), rel=1e-10, abs=1e-300)
    for x in [0.0, 0.1 * a, a, 3.0 * a]:
        assert gamma_cdf(a, x) == pytest.approx(special.gammainc(a, x), rel=1e-10)


def test_wilson_equals_scipy():
    for k, n in [(0, 10), (3, 10), (10, 10), (370, 400)]:
        expected = stats.binomtest(k, n).proportion_ci(0.9, method="wilson")
        assert wilson(k, n, 0.9) == pytest.approx((expected.low, expected.high), abs=1e-12)


# --- Gaussian zeta ---------------------------------------------------------------------------------------------


def pairs(rng, n, zeta, correlation=0.0, tails=None, regimes=5):
    label = np.repeat(np.arange(regimes), n // regimes)
    signal = rng.normal(0.0, 5.0, size=regimes)[label]
    draw = (lambda: rng.normal(size=n)) if tails is None else (lambda: rng.standard_t(tails, size=n))
    a = draw()
    b = correlation * a + math.sqrt(1.0 - correlation**2) * draw()
    return signal + a, signal + b / math.sqrt(zeta), signal, label


@pytest.mark.parametrize("how", ["truth", "regimes", "noise_var"])
def test_gaussian_zeta_finds_the_ratio_of_variances(how):
    rng = np.random.default_rng(1)
    high, low, signal, label = pairs(rng, 100_000, zeta=0.3)
    given = {"truth": signal, "regimes": label, "noise_var": 1.0}[how]
    estimate = gaussian_zeta(high, low, **{how: given})
    assert estimate.value == pytest.approx(0.3, abs=0.006)  # standard error .3 * sqrt(4 / n) = .002
    assert estimate.low < 0.3 < estimate.high
    assert estimate.high - estimate.low < 0.01
    assert (estimate.n, estimate.level) == (100_000, 0.95)


@pytest.mark.parametrize("how", ["truth", "regimes"])
@pytest.mark.parametrize("correlation", [0.0, 0.7])
def test_gaussian_interval_covers_whatever_the_correlation(how, correlation):
    rng = np.random.default_rng(2)
    trials, hit = 800, 0
    for _ in range(trials):
        high, low, signal, label = pairs(rng, 60, 0.3, correlation)
        found = gaussian_zeta(high, low, level=0.9, **{"truth": signal} if how == "truth" else {"regimes": label})
        hit += found.low <= 0.3 <= found.high
    # At least the nominal coverage; the correction for heavy tails may widen it a little.
    assert hit / trials >= 0.9 - 4.0 * math.sqrt(0.09 / trials)
    assert hit / trials <= 0.95


def test_gaussian_interval_is_that_of_pitman_and_morgan():
    """Inverting their test by brute force: high / k + low and high / k - low are uncorrelated at k^2 = the ratio."""
    rng = np.random.default_rng(8)
    n = 41
    a, b = rng.normal(size=(2, n))
    # light tails, so that the other interval, the one against heavy tails, is the narrower
    high, low = np.sign(a) * np.abs(a) ** 0.3, 1.5 * np.sign(b) * np.abs(b) ** 0.3 + 0.2 * a
    found = gaussian_zeta(high, low, regimes=np.zeros(n))
    for end in (found.low, found.high):
        k = math.sqrt(end)
        p = stats.pearsonr(high / k + low, high / k - low).pvalue
        assert p == pytest.approx(0.05, rel=1e-6)


def test_gaussian_interval_covers_with_heavy_tails():
    rng = np.random.default_rng(3)
    trials, hit = 600, 0
    for _ in range(trials):
        high, low, signal, _ = pairs(rng, 200, 0.3, tails=5)
        found = gaussian_zeta(high, low, truth=signal)
        hit += found.low <= 0.3 <= found.high
    assert hit / trials > 0.88  # Pitman and Morgan's interval alone covers 0.76


def test_difference_interval_covers():
    rng = np.random.default_rng(4)
    trials, hit = 800, 0
    for _ in range(trials):
        high, low, _, _ = pairs(rng, 100, 0.5)
        found = gaussian_zeta(high, low, noise_var=1.0, level=0.9)
        hit += found.low <= 0.5 <= found.high
    assert 0.9 - 4.0 * math.sqrt(0.09 / trials) <= hit / trials <= 0.95


def test_a_bias_counts_as_error_where_the_truth_is_known():
    rng = np.random.default_rng(5)
    high, low, signal, _ = pairs(rng, 20_000, zeta=1.0)
    assert gaussian_zeta(high, low + 1.0, truth=signal).value == pytest.approx(0.5, abs=0.02)


def test_zeta_of_simulated_streams_is_recovered():
    model = mf.Gaussian(0, 9, 2.0)
    fidelities = [mf.Fidelity("low", zeta=0.2, cost=1), mf.Fidelity("high", zeta=1, cost=9)]
    stream = simulate.gaussian(model, fidelities, 1 / 50, ticks=2000, seed=3)
    label = np.searchsorted(stream.changes, np.arange(2000), side="right")
    low, high = stream.table.T
    for given in ({"truth": stream.theta}, {"regimes": label}, {"noise_var": 2.0}):
        found = gaussian_zeta(high, low, **given)
        assert found.low < 0.2 < found.high
        assert found.high < 0.25


def test_gaussian_zeta_is_at_most_one():
    rng = np.random.default_rng(6)
    high, low, signal, _ = pairs(rng, 200, zeta=1.0)
    found = [gaussian_zeta(a, b, truth=signal) for a, b in ((high, low), (low, high))]
    assert {e.high for e in found} == {1.0}
    assert max(e.value for e in found) == 1.0  # one of the two ratios is above 1


@pytest.mark.parametrize("how", ["truth", "regimes", "noise_var"])
@pytest.mark.parametrize("stuck", ["constant", "random"])
def test_an_uncorrelated_low_fidelity_is_refused(how, stuck):
    rng = np.random.default_rng(7)
    high, _, signal, label = pairs(rng, 200, 0.5, regimes=20)
    low = np.zeros(200) if stuck == "constant" else rng.normal(size=200)
    given = {"truth": signal, "regimes": label, "noise_var": 1.0}[how]
    with pytest.raises(CalibrationError, match="no better than chance: its slope"):
        gaussian_zeta(high, low, **{how: given})


def test_a_constant_signal_is_not_refused():
    rng = np.random.default_rng(9)
    high, low = rng.normal(size=400), 2.0 * rng.normal(size=400)
    for given in ({"truth": np.zeros(400)}, {"regimes": np.repeat(np.arange(20), 20)}, {"noise_var": 1.0}):
        found = gaussian_zeta(high, low, **given)
        assert found.low < 0.25 < found.high


def test_gaussian_refusals():
    rng = np.random.default_rng(10)
    high, low, signal, label = pairs(rng, 100, 0.1)
    with pytest.raises(CalibrationError, match="20 paired readings are too few for zeta: at least 30 are needed"):
        gaussian_zeta(high[:20], low[:20], truth=signal[:20])
    with pytest.raises(CalibrationError, match=r"25 paired readings minus one per regime \(50 - 25\)"):
        gaussian_zeta(high[:50], low[:50], regimes=np.repeat(np.arange(25), 2))
    for given in ({"truth": signal}, {"regimes": label}):
        with pytest.raises(CalibrationError, match="the low fidelity is the better one"):
            gaussian_zeta(low, high, **given)
    with pytest.raises(CalibrationError, match="the low fidelity is the better one"):
        gaussian_zeta(high, signal + 0.1 * (high - signal), noise_var=4.0)
    with pytest.raises(CalibrationError, match="high has no error at all about the truth"):
        gaussian_zeta(signal, low, truth=signal)
    with pytest.raises(CalibrationError, match="never differ"):
        gaussian_zeta(high, high, noise_var=1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, "exactly one of truth, regimes and noise_var"),
        ({"noise_var": 1.0, "truth": np.zeros(50)}, "exactly one of truth, regimes and noise_var"),
        ({"truth": np.zeros(49)}, "high and truth must have the same shape"),
        ({"noise_var": -1.0}, "gaussian_zeta.noise_var must be positive"),
        ({"noise_var": 1.0, "level": 1.0}, "level must lie in"),
        ({"noise_var": 1.0, "least": 2}, "least must be a whole number of at least 3, not 2"),
        ({"noise_var": 1.0, "low": np.full(50, np.nan)}, "low must be finite, not nan"),
        ({"noise_var": 1.0, "low": np.zeros((50, 1))}, "low must be one-dimensional, one reading per tick"),
    ],
)
def test_gaussian_arguments(change, message):
    given = {"high": np.arange(50.0), "low": np.arange(50.0)} | change
    with pytest.raises(ValueError, match=message):
        gaussian_zeta(**given)


# --- Bernoulli zeta --------------------------------------------------------------------------------------------

TO_ZETA = {"accuracy": lambda q: q, "tpr": lambda q: q, "information": lambda q: (2 * q - 1) ** 2}


def flipped(rng, n, q, method):
    high = rng.random(n) < 0.4
    right = rng.random(n) < q
    return high, high & right if method == "tpr" else high ^ ~right


@pytest.mark.parametrize("method", TO_ZETA)
def test_bernoulli_zeta_and_its_interval(method):
    rng = np.random.default_rng(11)
    zeta = TO_ZETA[method](0.85)
    assert bernoulli_zeta(*flipped(rng, 100_000, 0.85, method), method).value == pytest.approx(zeta, abs=0.012)
    trials, hit = 1000, 0
    for _ in range(trials):
        found = bernoulli_zeta(*flipped(rng, 300, 0.85, method), method, level=0.9)
        hit += found.low <= zeta <= found.high
        assert found.low <= found.value <= found.high
    assert within(hit / trials, 0.9, trials)  # Wilson's own coverage is within 1 % of it here


def test_information_is_the_fisher_information_kept():
    """Fisher information of a flipped label over that of a correct one, at theta = 1/2, numerically."""
    q, theta, step = 0.8, 0.5, 1e-5

    def fisher(p):
        slope = (p(theta + step) - p(theta - step)) / (2 * step)
        return slope**2 / (p(theta) * (1 - p(theta)))

    kept = fisher(lambda t: q * t + (1 - q) * (1 - t)) / fisher(lambda t: t)
    high = np.tile([0, 1], 500)
    low = np.where(np.arange(1000) % 10 < 8, high, 1 - high)
    assert bernoulli_zeta(high, low, "information").value == pytest.approx(kept, rel=1e-6)


@pytest.mark.parametrize("low", ["flip", "miss"])
def test_zeta_of_simulated_binary_streams_is_recovered(low):
    fidelities = [mf.Fidelity("low", zeta=0.49, cost=1), mf.Fidelity("high", zeta=1, cost=9)]
    stream = simulate.bernoulli(mf.Bernoulli(1, 1), fidelities, 1 / 50, ticks=4000, seed=5, low=low)
    if low == "flip":
        found = bernoulli_zeta(stream.table[:, 1], stream.table[:, 0], "information")
        assert found.low < 0.49 < found.high
        assert found.high - found.low < 0.1
    else:
        # x ~ Bernoulli(zeta theta) is independent of the high fidelity, so the pair agrees less often than zeta:
        # the true-positive rate is E[zeta theta^2] / E[theta] = zeta 2/3 under a uniform prior.
        theta = stream.theta
        found = bernoulli_zeta(stream.table[:, 1], stream.table[:, 0], "tpr")
        assert found.low < 0.49 * (theta**2).mean() / theta.mean() < found.high


def test_truth_replaces_the_high_fidelity():
    rng = np.random.default_rng(12)
    truth = rng.random(5000) < 0.5
    high, low = (truth ^ (rng.random(5000) < error) for error in (0.1, 0.3))
    assert bernoulli_zeta(high, low, truth=truth).value == pytest.approx(0.7, abs=0.03)
    assert bernoulli_zeta(high, low).value == pytest.approx(0.7 * 0.9 + 0.3 * 0.1, abs=0.03)
    with pytest.raises(CalibrationError, match="the low fidelity is the better one: right in"):
        bernoulli_zeta(low, high, truth=truth)


@pytest.mark.parametrize("method", TO_ZETA)
def test_chance_is_refused(method):
    rng = np.random.default_rng(13)
    high = rng.random(400) < 0.5
    for low in (rng.random(400) < 0.5, ~high, np.zeros(400), np.ones(400)):
        with pytest.raises(CalibrationError, match="no better than chance: 1 in"):
            bernoulli_zeta(high, low, method)


@pytest.mark.parametrize("method", TO_ZETA)
def test_always_zero_is_refused_however_accurate(method):
    high = np.arange(1000) % 20 == 0  # 5 % are 1: always 0 is right 95 times in 100
    with pytest.raises(CalibrationError, match="no better than chance"):
        bernoulli_zeta(high, np.zeros(1000), method)


def test_the_difference_of_rates_is_that_of_newcombe():
    """His example (1998), 56 of 70 against 48 of 80, method 10: 0.0524 to 0.3339; here with the opposite sign."""
    reference = np.repeat([1, 0], [80, 70])
    low = np.concatenate([np.arange(80) < 48, np.arange(70) < 56])
    with pytest.raises(CalibrationError, match=r"difference -0\.2, 95 % interval from -0\.334\)"):
        bernoulli_zeta(reference, low)
    assert bernoulli_zeta(1 - reference, low, "tpr").value == pytest.approx(0.8)


def test_chance_is_refused_at_the_given_level():
    refused = 0
    rng = np.random.default_rng(14)
    for _ in range(1000):
        try:
            bernoulli_zeta(rng.random(200) < 0.5, rng.random(200) < 0.5, level=0.9)
        except CalibrationError:
            refused += 1
    assert within(refused / 1000, 0.95, 1000)  # one-sided: 5 % pass


def test_an_observer_that_only_misses_is_not_chance():
    rng = np.random.default_rng(15)
    high = rng.random(2000) < 0.5
    low = high & (rng.random(2000) < 0.3)  # accuracy .65, true-positive rate .3, never a false alarm
    assert bernoulli_zeta(high, low, "tpr").value == pytest.approx(0.3, abs=0.05)


def test_bernoulli_refusals():
    rng = np.random.default_rng(16)
    high = rng.random(100) < 0.4
    with pytest.raises(CalibrationError, match="20 paired readings are too few for zeta: at least 30"):
        bernoulli_zeta(high[:20], high[:20])
    few = np.arange(100) < 10
    with pytest.raises(CalibrationError, match="10 readings where the high fidelity is 1 are too few"):
        bernoulli_zeta(few, few, "tpr")
    with pytest.raises(CalibrationError, match="the high fidelity is 0 in all 100 readings"):
        bernoulli_zeta(np.zeros(100), high)
    # informative (no false alarms), but right less than half of the time
    often = np.arange(100) < 90
    with pytest.raises(CalibrationError, match="right in 40 of 100 readings"):
        bernoulli_zeta(often, np.arange(100) < 30, "information")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "auc"}, "method must be 'accuracy', 'tpr' or 'information', not 'auc'"),
        ({"low": np.full(50, 0.5)}, "low must be zeros and ones, not 0.5"),
        ({"low": np.zeros(49)}, "high and low must have the same shape"),
        ({"truth": np.zeros(49)}, "high and truth must have the same shape"),
    ],
)
def test_bernoulli_arguments(change, message):
    with pytest.raises(ValueError, match=message):
        bernoulli_zeta(**({"high": np.arange(50) % 2, "low": np.arange(50) % 2} | change))


# --- the guard -------------------------------------------------------------------------------------------------

METHODS = ["gaussian", "accuracy", "tpr", "information"]


def guard_of(method, declared, level=0.99):
    return ShadowGuard(declared, every=1, method=method, level=level, noise_var=2.0 if method == "gaussian" else None)


def shadows(rng, method, zeta, n):
    """Return n pairs with a low fidelity of the given zeta (one number, or one per pair)."""
    zeta = np.broadcast_to(zeta, n)
    if method == "gaussian":
        signal = 10.0 * rng.normal(size=n)
        return signal + math.sqrt(2) * rng.normal(size=n), signal + np.sqrt(2 / zeta) * rng.normal(size=n)
    q = 0.5 + 0.5 * np.sqrt(zeta) if method == "information" else zeta
    high = (rng.random(n) < 0.5) if method != "tpr" else np.ones(n, dtype=bool)
    return high * 1.0, (high ^ (rng.random(n) >= q)) * 1.0


def first_warning(guard, high, low):
    for i, pair in enumerate(zip(high, low, strict=True)):
        if guard.observe(*pair):
            return i
    return None


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("declared", [0.9, 0.3])
def test_false_warnings_are_bounded_over_the_whole_stream(method, declared):
    rng = np.random.default_rng(17)
    trials, false = 200, 0
    for _ in range(trials):
        false += (
            first_warning(guard_of(method, declared, level=0.9), *shadows(rng, method, declared, 600)) is not None
        )
    assert false / trials <= 0.1 + 3.0 * math.sqrt(0.09 / trials)
    assert false > 0  # and it does warn


def outcomes(method, zeta, declared):
    """Every possible pair with its probability under zeta; Gaussian ones on a fine trapezoid grid."""
    if method == "gaussian":
        # in standard deviations of the difference as declared; the widest alternative is four of them wide
        z = np.linspace(-24.0, 24.0, 97)
        as_declared, actual = (math.sqrt(2.0 * (1.0 + 1.0 / v)) for v in (declared, zeta))
        return [((z_, 0.0), stats.norm.pdf(z_, 0.0, actual) * as_declared * 0.5) for z_ in z * as_declared]
    q = 0.5 + 0.5 * math.sqrt(zeta) if method == "information" else zeta
    return [((1, 1), q), ((1, 0), 1.0 - q)]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_evidence_is_one_in_expectation_where_zeta_is_as_declared(method):
    """The expectation over all outcomes: exactly 1 after one and two pairs, less if zeta is better, more if worse."""

    def expected(zeta):
        once = twice = 0.0
        for first, p in outcomes(method, zeta, 0.5):
            guard = guard_of(method, 0.5)
            guard.observe(*first)
            once += p * guard.evidence
            saved = guard.spec()
            for second, q in outcomes(method, zeta, 0.5):
                guard = ShadowGuard.from_spec(saved)
                guard.observe(*second)
                twice += p * q * guard.evidence
        return once, twice

    assert expected(0.5) == pytest.approx((1.0, 1.0), abs=1e-7)
    assert max(expected(0.7)) < 1.0
    assert min(expected(0.4)) > 1.0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("good", [0, 500])
def test_a_low_fidelity_that_is_or_gets_worse_is_found(method, good):
    rng = np.random.default_rng(19)
    n = 1500
    worth = np.where(np.arange(n) < good, 0.8, 0.2)
    delays = []
    for _ in range(15):
        guard = guard_of(method, 0.8)
        at = first_warning(guard, *shadows(rng, method, worth, n))
        assert at is not None
        if at >= good:
            delays.append(at - good)
            assert guard.warning is not None
            assert 0.0 <= guard.warning.suggested < 0.6
    assert len(delays) >= 14
    # the good past costs log 500^2 nats: two to three times the delay, not 500 more pairs
    assert np.median(delays) < 150


def test_the_warning_is_given_once_and_stays():
    guard = guard_of("accuracy", 0.9)
    warnings = [guard.observe(1, 0) for _ in range(20)]
    (warning,) = [w for w in warnings if w is not None]
    assert isinstance(warning, ShadowWarning)
    assert isinstance(warning, UserWarning)
    assert guard.warning is warning
    assert warning.declared == 0.9
    assert warning.odds >= 100
    assert warning.pairs == warnings.index(warning) + 1


def test_a_declared_zeta_of_one_is_contradicted_by_one_difference():
    guard = guard_of("accuracy", 1.0)
    assert all(guard.observe(x, x) is None for x in [0, 1] * 200)
    assert guard.observe(1, 0) is not None
    json.dumps(guard.spec(), allow_nan=False)


def test_uninformative_pairs_do_not_count():
    guard = guard_of("tpr", 0.8)
    for pair in [(0, 1), (0, 0), (None, 1), (1, None), (math.nan, 1)]:
        assert guard.observe(*pair) is None
    assert guard.pairs == 0
    assert guard.evidence == 1.0
    guard.observe(1, 0)
    assert guard.pairs == 1


def test_a_huge_difference_does_not_overflow():
    guard = guard_of("gaussian", 0.5)
    assert guard.observe(1e200, 0.0) is not None
    assert guard.observe(0.0, 0.0) is None
    assert math.isfinite(guard.evidence)


@pytest.mark.parametrize("method", METHODS)
def test_a_saved_guard_continues_identically(method):
    rng = np.random.default_rng(20)
    high, low = shadows(rng, method, 0.3, 400)
    whole, first = guard_of(method, 0.6), guard_of(method, 0.6)
    for pair in zip(high[:7], low[:7], strict=True):
        first.observe(*pair)
    second = ShadowGuard.from_spec(json.loads(json.dumps(first.spec(), allow_nan=False)))
    assert first_warning(whole, high, low) == 7 + first_warning(second, high[7:], low[7:])
    assert whole.spec() == second.spec()
    third = ShadowGuard.from_spec(json.loads(json.dumps(whole.spec())))
    assert str(third.warning) == str(whole.warning)
    assert repr(third) == repr(whole)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"declared": 0.0}, "ShadowGuard.declared must lie in"),
        ({"declared": 1.1}, "ShadowGuard.declared must lie in"),
        ({"every": 0}, "ShadowGuard.every must be a whole number of at least 1, not 0"),
        ({"method": "auc"}, "ShadowGuard.method must be"),
        ({"level": 1.0}, "ShadowGuard.level must lie in"),
        ({"noise_var": 1.0}, "ShadowGuard.noise_var is needed for 'gaussian' and for nothing else"),
        ({"method": "gaussian"}, "ShadowGuard.noise_var is needed for 'gaussian' and for nothing else"),
        ({"method": "gaussian", "noise_var": 0.0}, "ShadowGuard.noise_var must be positive"),
    ],
)
def test_guard_arguments(change, message):
    with pytest.raises(ValueError, match=message):
        ShadowGuard(**({"declared": 0.5, "every": 10, "method": "accuracy"} | change))


def test_guard_readings_must_be_possible():
    with pytest.raises(ValueError, match="high must be finite, not inf"):
        guard_of("gaussian", 0.5).observe(math.inf, math.inf)
    with pytest.raises(ValueError, match=r"low must be 0 or 1 for ShadowGuard\.method = 'accuracy', not 0\.5"):
        guard_of("accuracy", 0.5).observe(1, 0.5)


# --- threshold -------------------------------------------------------------------------------------------------


def rates(scores, labels, value):
    read = np.asarray(scores) >= value
    labels = np.asarray(labels, dtype=bool)
    return (~read)[labels].mean(), read[~labels].mean()


@pytest.mark.parametrize("decimals", [1, 3, None])
def test_threshold_has_the_least_difference_of_rates(decimals):
    rng = np.random.default_rng(21)
    for _ in range(100):
        labels = rng.random(40) < rng.uniform(0.2, 0.8)
        if labels.all() or not labels.any():
            continue
        scores = rng.normal(size=40) + labels * rng.uniform(-1, 3)
        scores = scores if decimals is None else scores.round(decimals)
        found = threshold_fnr_fpr(scores, labels)
        assert (found.fnr, found.fpr) == pytest.approx(rates(scores, labels, found.value))
        cuts = np.concatenate([np.unique(scores), [scores.max() + 1]])
        least = min(abs(np.subtract(*rates(scores, labels, cut))) for cut in cuts)
        assert abs(found.fnr - found.fpr) == pytest.approx(least, abs=1e-12)
        u, _ = stats.mannwhitneyu(scores[labels], scores[~labels])
        assert found.auc == pytest.approx(u / (labels.sum() * (~labels).sum()))


def test_threshold_of_two_normals_is_half_way():
    rng = np.random.default_rng(22)
    labels = rng.random(50_000) < 0.2
    found = threshold_fnr_fpr(rng.normal(size=50_000) + 2.0 * labels, labels)
    assert found.value == pytest.approx(1.0, abs=0.05)
    assert found.eer == pytest.approx(stats.norm.cdf(-1.0), abs=0.01)
    assert found.auc == pytest.approx(stats.norm.cdf(math.sqrt(2.0)), abs=0.01)


def test_threshold_ties():
    # separable: any threshold in the gap is right, the middle is used
    found = threshold_fnr_fpr([0, 1, 4, 6], [0, 0, 1, 1])
    assert (found.value, found.fnr, found.fpr, found.auc, found.eer) == (2.5, 0, 0, 1, 0)
    # all scores equal: all 1 and all 0 are equally unbalanced; false alarms are preferred to misses
    found = threshold_fnr_fpr([5, 5], [0, 1])
    assert (found.value, found.fnr, found.fpr, found.auc, found.eer) == (5, 0, 1, 0.5, 0.5)
    # score 1 has a zero and two ones: as 0 it misses 2 of 3, as 1 it gives 1 false alarm of 2
    found = threshold_fnr_fpr([0, 1, 1, 1, 2], [0, 0, 1, 1, 1])
    assert (found.value, found.fnr, found.fpr) == (1, 0, 0.5)
    assert found.eer == pytest.approx(2 / 7)  # (0, 1/2) to (2/3, 0): 2/3 s = 1/2 (1 - s) at s = 3/7
    # reversed: every one scores below every zero
    found = threshold_fnr_fpr([0, 1, 2, 3], [1, 1, 0, 0])
    assert (found.value, found.fnr, found.fpr, found.auc) == (1.5, 1, 1, 0)


def test_threshold_between_neighbouring_floats_still_separates():
    above = math.nextafter(1.0, 2.0)
    found = threshold_fnr_fpr([1.0, above], [0, 1])
    assert (found.fnr, found.fpr) == rates([1.0, above], [0, 1], found.value) == (0, 0)


@pytest.mark.parametrize(
    ("scores", "labels", "message"),
    [
        ([1, 2], [1, 1], "labels must contain both classes, not 2 ones and 0 zeros"),
        ([1, 2], [0, 0], "labels must contain both classes, not 0 ones and 2 zeros"),
        ([1, 2, 3], [0, 1], "scores and labels must have the same length, not 3 and 2"),
        ([1, math.nan], [0, 1], "scores must be finite"),
        ([1, 2], [0, 2], "labels must be zeros and ones, not 2"),
    ],
)
def test_threshold_arguments(scores, labels, message):
    with pytest.raises(ValueError, match=message):
        threshold_fnr_fpr(scores, labels)


# --- cost ------------------------------------------------------------------------------------------------------


class Clock:
    """A clock that only an observer advances."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_measured_time_is_the_median_pass_over_the_mean_raw():
    clock = Clock()
    calls = []

    def observe(raw):
        calls.append(raw)
        # raws take 1 s and 3 s; the first pass is slow (not warm), the fourth is disturbed
        pass_ = (len(calls) - 1) // 2
        clock.now += raw * {0: 100.0, 3: 50.0}.get(pass_, 1.0 + 0.01 * pass_)

    found = measured_time(observe, [1, 3], warmup=1, repeats=9, clock=clock)
    assert len(calls) == 20
    # passes 1 .. 9, with 3 disturbed: the median of nine is the fifth of 1, 2, 4, 5, 6, 7, 8, 9, disturbed
    assert found.value == pytest.approx(2.0 * 1.06)
    # 1 - 2 P(Binomial(9, 1/2) < 2) = .961: from the second fastest to the second slowest
    assert (found.low, found.high) == pytest.approx((2.0 * 1.02, 2.0 * 1.09))
    assert found.unit == "s"


def test_the_interval_of_measured_times_covers_the_median():
    rng = np.random.default_rng(23)
    trials, hit = 1000, 0
    for _ in range(trials):
        clock = Clock()

        def observe(_, clock=clock):
            clock.now += rng.exponential()

        found = measured_time(observe, [0], warmup=0, repeats=9, clock=clock)
        hit += found.low <= math.log(2.0) <= found.high
    assert within(hit / trials, 1.0 - 2.0 * 10 / 512, trials)


def test_a_real_clock_runs():
    found = measured_time(lambda n: sum(range(n)), [200_000], repeats=6)
    assert 0 < found.low <= found.value <= found.high < 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"raws": []}, "raws must contain at least one input"),
        ({"repeats": 5}, "repeats must be at least 6 for an interval of level 0.95, not 5"),
        ({"repeats": 7, "level": 0.99}, "repeats must be at least 8 for an interval of level 0.99, not 7"),
        ({"warmup": -1}, "warmup must be a whole number of at least 0, not -1"),
    ],
)
def test_measured_time_arguments(change, message):
    with pytest.raises(ValueError, match=message):
        measured_time(**({"observe": abs, "raws": [1]} | change))


def test_the_minimum_of_repeats_in_the_message_suffices():
    for level in (0.5, 0.9, 0.95, 0.99):
        least = math.ceil(1.0 - math.log2(1.0 - level))
        measured_time(abs, [1], repeats=least, level=level)
        with pytest.raises(ValueError, match=f"at least {least} "):
            measured_time(abs, [1], repeats=least - 1, level=level)


def test_declared_cost():
    assert declared_cost(5, "mJ") == CostEstimate(5.0, "mJ", 5.0, 5.0)
    with pytest.raises(ValueError, match=r"declared_cost\.value must be positive, not 0"):
        declared_cost(0)


def test_timing_a_decision_leaves_the_detector_alone():
    detector = mf.Detector(
        mf.Bernoulli(), [mf.Fidelity("a", zeta=0.5, cost=1), mf.Fidelity("b", zeta=1, cost=2)], policy=mf.Random()
    )
    for x in [0.0, 1.0, 1.0]:
        detector.update(x, "a")
    before = detector.to_bytes()
    assert decision_time(detector, calls=3).unit == "s"
    assert detector.to_bytes() == before


class Counted:
    """A number that counts its operations."""

    done = 0

    def __init__(self, value):
        self.value = value

    @classmethod
    def make(cls, value):
        cls.done += 1
        return cls(value)

    def __add__(self, other):
        return self.make(self.value + other.value)

    def __sub__(self, other):
        return self.make(self.value - other.value)

    def __mul__(self, other):
        return self.make(self.value * other.value)

    def lgamma(self):
        return self.make(math.lgamma(self.value))

    def exp(self):
        return self.make(math.exp(self.value))

    def log(self):
        return self.make(math.log(self.value))


@pytest.mark.parametrize("t", [1, 2, 17])
def test_the_operations_of_a_decision_are_counted(t):
    rng = np.random.default_rng(24)
    zeta = 0.7
    stats_ = [(Counted(a), Counted(b)) for a, b in rng.uniform(0.5, 5, size=(t, 2))]
    weights = [Counted(w) for w in rng.dirichlet(np.ones(t))]

    def log_beta(a, b):
        return a.lgamma() + b.lgamma() - (a + b).lgamma()

    def total(terms):
        first, *rest = terms
        for term in rest:
            first = first + term
        return first

    Counted.done = 0
    outcomes = [(Counted(zeta), Counted(0.0)), (Counted(0.0), Counted(zeta))]  # (zeta x, zeta (1 - x)): no operation
    p = [[(log_beta(a + u, b + v) - log_beta(a, b)).exp() for a, b in stats_] for u, v in outcomes]
    predictives = Counted.done
    assert predictives + 1 == decision_operations(t)
    marginal = [total([w * q for w, q in zip(weights, row, strict=True)]) for row in p]
    outer = total([m * m.log() for m in marginal])
    inner = [total([row[i] * row[i].log() for row in p]) for i in range(t)]
    gain = total([w * h for w, h in zip(weights, inner, strict=True)]) - outer
    assert Counted.done == decision_operations(t, kind="bernoulli-whole")
    w, q = np.array([w.value for w in weights]), np.array([[v.value for v in row] for row in p])
    assert gain.value == pytest.approx(special.entr(q @ w).sum() - w @ special.entr(q).sum(axis=0), abs=1e-12)
    assert decision_operations(t, 3) == 3 * decision_operations(t)


def test_the_papers_totals():
    # "Computing the information gain required 465,291 flops" for 171 frames: t = 0 .. 170, one fidelity.
    assert sum(decision_operations(t) for t in range(171)) == 465_291
    # "with 10,000 particles ... 0.32 million flops"
    assert decision_operations(10_000) == 320_001


def test_decision_arguments():
    with pytest.raises(ValueError, match="kind must be 'bernoulli' or 'bernoulli-whole', not 'poisson'"):
        decision_operations(3, kind="poisson")
    with pytest.raises(ValueError, match="hypotheses must be a whole number of at least 0, not -1"):
        decision_operations(-1)
    with pytest.raises(ValueError, match="fidelities must be a whole number of at least 1, not 0"):
        decision_operations(1, 0)
