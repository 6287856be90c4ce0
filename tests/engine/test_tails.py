"""Log tail probabilities of every family, against mpmath far out, and of detectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import mfbocd as mf
from mfbocd._kernels.beta import log_beta_tails
from mfbocd._kernels.tails import log_normal_tails

from ..registry import CASES, Case

FAR = 1e-10  # relative error of the logarithms


def near(got: Any, expected: Any, tolerance: float = FAR) -> bool:
    return bool(abs(mp.mpf(float(got)) - expected) <= tolerance * abs(expected) + 1e-14)


@pytest.mark.parametrize("z", [0.0, 0.3, 1.0, 5.0, 20.0, 29.9, 30.0, 30.1, 37.5, 40.0, 1e3, 1e8])
def test_normal(z: float) -> None:
    with mp.workdps(60):
        # the continued fraction, because mpmath's erfc underflows nowhere but is slow far out
        expected = mp.log(mp.erfc(z / mp.sqrt(2)) / 2) if z < 1e3 else None
        if expected is None:
            expected = -(mp.mpf(z) ** 2) / 2 - mp.log(z * mp.sqrt(2 * mp.pi)) + mp.log1p(-1 / mp.mpf(z) ** 2)
        lower, upper = log_normal_tails(np.array([-z, z]))
        assert near(lower[0], expected)
        assert near(upper[1], expected)
        assert near(lower[1], mp.log1p(-mp.exp(expected)))
        assert upper[0] == lower[1]


def incomplete_beta(a: Any, b: Any, x: Any) -> Any:
    return mp.betainc(a, b, 0, x, regularized=True)


@pytest.mark.parametrize(
    ("a", "b"), [(0.5, 1.0), (0.5, 2.5), (0.5, 50.0), (0.5, 1e4), (3.0, 2.0), (1.0, 700.0), (40.0, 30.0)]
)
@pytest.mark.parametrize("odds", [1e-200, 1e-12, 0.01, 0.3, 1.0, 3.0, 40.0, 1e8, 1e150])
def test_incomplete_beta(a: float, b: float, odds: float) -> None:
    lower, upper = log_beta_tails(*(np.array([v]) for v in (a, b, odds)))
    with mp.workdps(60):
        u = mp.mpf(odds)
        below, above = incomplete_beta(a, b, u / (1 + u)), incomplete_beta(b, a, 1 / (1 + u))
        assert near(lower[0], mp.log(below) if below < 0.5 else mp.log1p(-above))
        assert near(upper[0], mp.log(above) if above < 0.5 else mp.log1p(-below))


def test_extreme_odds() -> None:
    lower, upper = log_beta_tails(np.ones(2), np.ones(2), np.array([0.0, np.inf]))
    assert lower.tolist() == [-math.inf, 0.0]
    assert upper.tolist() == [0.0, -math.inf]


# --- each family, at one reading far out of a few hypotheses ------------------------------------------------------


def student(t: Any, df: Any) -> Any:
    return mp.log(incomplete_beta(df / mp.mpf(2), mp.mpf(1) / 2, 1 / (1 + t * t / df)) / 2)


def gaussian(stats: Any, x: float, zeta: float) -> Any:
    mean, var = mf.Gaussian(0, 9, 2).predictive(stats, zeta)
    return mp.log(mp.erfc(abs(x - mp.mpf(float(mean))) / mp.sqrt(2 * mp.mpf(float(var)))) / 2)


def gaussian_unknown(stats: Any, x: float, zeta: float) -> Any:
    count, mean, shape, scale = (mp.mpf(float(v)) for v in stats)  # standardized: the model has mean 0 and scale 1
    df = 2 * shape
    return student((x - mean) / mp.sqrt(2 * scale * (1 / mp.mpf(zeta) + 1 / count) / df), df)


def gamma(stats: Any, x: float, zeta: float) -> Any:
    a, b = (mp.mpf(float(v)) for v in stats)
    return mp.log(incomplete_beta(a, 2 * mp.mpf(zeta), b / (b + zeta * x)))


def poisson_term(a: Any, b: Any, x: int, zeta: Any) -> Any:
    logs = mp.loggamma(a + zeta * x) - mp.loggamma(a) + a * mp.log(b) - (a + zeta * x) * mp.log(b + zeta)
    return mp.exp(logs - zeta * mp.loggamma(x + 1))


@cache
def poisson_terms(a: float, b: float, zeta: float) -> list[Any]:
    return [poisson_term(mp.mpf(a), mp.mpf(b), n, mp.mpf(zeta)) for n in range(800)]


def poisson(stats: Any, x: float, zeta: float) -> Any:
    terms = poisson_terms(float(stats[0]), float(stats[1]), zeta)
    return mp.log(mp.fsum(terms[int(x) : int(x) + 400]) / mp.fsum(terms[:400]))


@cache
def binomial_terms(a: float, b: float, zeta: float) -> list[Any]:
    z = mp.mpf(zeta)
    return [mp.binomial(900, n) ** z * mp.beta(a + z * n, b + z * (900 - n)) for n in range(901)]


def binomial(stats: Any, x: float, zeta: float) -> Any:
    terms = binomial_terms(float(stats[0]), float(stats[1]), zeta)
    return mp.log(mp.fsum(terms[int(x) :]) / mp.fsum(terms))


def categorical(stats: Any, x: float, zeta: float) -> Any:
    weights = [mp.gammaprod([mp.mpf(float(a)) + zeta], [mp.mpf(float(a))]) for a in stats]
    return mp.log(mp.fsum(weights[int(x) :]) / mp.fsum(weights))


def bernoulli(stats: Any, x: float, zeta: float) -> Any:
    return categorical([stats[1], stats[0]], x, zeta)


def outliers(stats: Any, x: float, zeta: float) -> Any:
    """A mixture of the predictive of the regime and that of a new one."""
    prior = mf.Gaussian(0, 9, 2).prior()
    return mp.log(
        mp.mpf("0.99") * mp.exp(gaussian(stats[:-1], x, zeta)) + mp.mpf("0.01") * mp.exp(gaussian(prior, x, zeta))
    )


def student_unknown(stats: Any, x: float, zeta: float) -> Any:
    """The integral over the precision w of one reading, w ~ Gamma(6, 6): 12 degrees of freedom."""
    count, mean, shape, scale = (mp.mpf(float(v)) for v in stats)
    df = 2 * shape

    def part(w: Any) -> Any:
        t = (x - mean) / mp.sqrt(2 * scale * (1 / (zeta * w) + 1 / count) / df)
        return w**5 * mp.exp(-6 * w) * mp.exp(student(t, df))

    with mp.workdps(20):
        return mp.log(mp.quad(part, [0, 0.02, 0.1, 0.3, 1, 3, 8, 20]) * mp.mpf(6) ** 6 / mp.gamma(6))


FAMILIES: dict[str, tuple[Any, list[float], list[float], Callable[..., Any]]] = {
    "gaussian": (mf.Gaussian(0, 9, 2), [0.3, -0.5, 0.9] * 30, [4.0, 55.0, 90.0], gaussian),
    "gaussian_unknown": (mf.GaussianUnknown(0, 1, 1, 1), [0.3, -0.5, 0.9] * 300, [4.0, 60.0, 1e6], gaussian_unknown),
    "gamma": (mf.Gamma(2, 1.5, 1), [0.3, 0.5, 0.9] * 300, [4.0, 600.0, 1e6], gamma),
    "poisson": (mf.Poisson(1, 1), [3.0, 5.0, 2.0] * 20, [12.0, 180.0, 400.0], poisson),
    "binomial": (mf.Binomial(900), [9.0, 7.0] * 20, [30.0, 200.0, 900.0], binomial),
    "outliers": (mf.Outliers(mf.Gaussian(0, 9, 2), 0.01), [0.3, -0.5, 0.9] * 30, [4.0, 40.0, 95.0], outliers),
    "student_unknown": (mf.StudentTUnknown(0, 1, 2, 1, 12), [0.3, -0.5, 0.9] * 5, [1.0, 4.0, 9.0], student_unknown),
    "categorical": (mf.Categorical([1, 1e-3, 1e-9]), [0.0, 1.0, 0.0], [1.0, 2.0], categorical),
    "bernoulli": (mf.Bernoulli(1e-9, 1), [0.0] * 50, [1.0], bernoulli),
}


@pytest.mark.parametrize("zeta", [1.0, 0.4])
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.slow
def test_far_out(name: str, zeta: float) -> None:
    model, seen, readings, expected = FAMILIES[name]
    stats = model.prior()
    for x in seen:
        stats = model.update(stats, x, 1.0)
    both = np.stack([model.prior(), stats], axis=1)
    for x in readings:
        lower, upper = model.log_tails(both, x, zeta)
        with mp.workdps(50):
            for k in range(2):
                tail = expected(both[:, k], x, zeta)
                assert near(upper[k], tail), (x, k, upper[k], mp.nstr(tail, 15))
                assert lower[k] <= 0.0
    heavy = ("categorical", "bernoulli", "gamma", "gaussian_unknown", "student_unknown")
    assert upper[1] < -300.0 or name in heavy


@pytest.mark.parametrize("zeta", [1.0, 0.4])
@pytest.mark.parametrize(
    "model",
    [
        mf.Outliers(mf.Gaussian(3, 9, 2), 0.01),
        mf.Outliers(mf.GaussianUnknown(3, 1, 200, 400), 0.01, mf.GaussianUnknown(5, 0.1, 150, 400)),
        mf.StudentTUnknown(3, 1, 200, 200, 300),
        mf.StudentTUnknown(3, 1, 60, 60, 5),
        mf.RobustTrend(3, (1, 100), 200, 400, ar=[0.5, 0.1], outliers=0.01),
        mf.RobustTrend(3, (1, 100), 200, 400, line=0.1),
    ],
    ids=repr,
)
def test_integral_of_the_density(model: Any, zeta: float) -> None:
    """Mixtures of normals or Student's t: the tails are integrals of the density, also where they are 1e-100."""
    stats = model.prior()
    columns = [stats]
    for x in (3.1, 2.5, 4.2, 9.0, 3.3):
        stats = model.update(stats, x, 1.0)
        columns.append(stats)
    both = np.stack(columns, axis=1)
    least = 0.0
    for side, x in [(0, -120.0), (0, -20.0), (0, 1.0), (1, 6.0), (1, 30.0), (1, 130.0), (1, 1e7)]:
        tails = model.log_tails(both, x, zeta)
        for k in (0, 3, 5):
            expected = log_integral(lambda v, k=k: float(model.log_predictive(both[:, k], v, zeta)), x, 2 * side - 1)
            assert near(tails[side][k], expected), (x, k, tails[side][k], expected)
            assert near(tails[1 - side][k], mp.log1p(-mp.exp(expected)))
            least = min(least, expected)
    assert least < -500.0


def log_integral(log_density: Callable[[float], float], x: float, sign: int) -> float:
    """log of the integral of a density from x to infinity on one side."""
    first = log_density(x)
    reach = max(1.0, abs(x)) / max(abs(first), 1.0)  # the distance within which the density falls by a factor or so
    ends = np.concatenate([[0.0], reach * 2.0 ** np.arange(-3, 40)])
    nodes, weights = np.polynomial.legendre.leggauss(20)
    total = 0.0
    for a, b in pairwise(ends.tolist()):
        v = 0.5 * (a + b) + 0.5 * (b - a) * nodes
        part = 0.5 * (b - a) * float(weights @ [math.exp(log_density(x + sign * each) - first) for each in v])
        total += part
        if part < 1e-17 * total:
            break
    return first + math.log(total)


@pytest.mark.parametrize("zeta", [1.0, 0.4])
def test_lower_tail_of_counts(zeta: float) -> None:
    """The lower tail of a large rate, where both tails are sums of many terms."""
    model = mf.Poisson(1, 1)
    stats = model.prior()
    for _ in range(2000):
        stats = model.update(stats, 2000.0, 1.0)
    with mp.workdps(40):
        a, b, z = mp.mpf(float(stats[0])), mp.mpf(float(stats[1])), mp.mpf(zeta)
        terms = [poisson_term(a, b, n, z) for n in range(4000)]
        for x in (0.0, 600.0, 1500.0, 1990.0, 2010.0, 2600.0):
            lower, upper = model.log_tails(stats, x, zeta)
            assert near(lower, mp.log(mp.fsum(terms[: int(x) + 1]) / mp.fsum(terms)), 1e-9), x
            assert near(upper, mp.log(mp.fsum(terms[int(x) :]) / mp.fsum(terms)), 1e-9), x


@pytest.mark.parametrize("zeta", [1.0, 0.3])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_agrees_with_the_distribution_function(case: Case, zeta: float) -> None:
    """For every family of the registry, near the middle, where the distribution function loses nothing."""
    model, rng = case.model(), np.random.default_rng(5)
    stats = model.prior()
    if zeta < 1.0 and not _accepts(model, zeta):
        pytest.skip("it has no such fidelity")
    columns = [stats]
    for _ in range(6):
        stats = model.update(stats, case.draw(rng), 1.0)
        columns.append(stats)
    both = np.stack(columns, axis=1)
    for _ in range(4):
        x = case.draw(rng)
        lower, upper = model.log_tails(both, x, zeta)
        below = model.predictive_cdf(both, x, zeta)
        above = 1.0 - model.predictive_cdf(both, np.nextafter(x, -np.inf), zeta)
        if case.given:  # covariates are given: their tails are 1
            below, above = (
                np.concatenate([side[: -case.given], np.ones_like(side[-case.given :])]) for side in (below, above)
            )
        np.testing.assert_allclose(np.exp(lower), below, atol=2e-6)
        np.testing.assert_allclose(np.exp(upper), above, atol=2e-6)
        single = model.log_tails(stats, x, zeta)
        np.testing.assert_allclose(single[0], lower[..., -1], rtol=1e-12)
        np.testing.assert_allclose(single[1], upper[..., -1], rtol=1e-12)


def _accepts(model: Any, zeta: float) -> bool:
    try:
        model.log_predictive(
            model.prior(), model.nearest(0.5) if model.dimension == 1 else np.zeros(model.dimension), zeta
        )
    except ValueError:
        return False
    return True


def test_user_defined_families_far_out() -> None:
    normal = mf.ExponentialFamily(
        a2=lambda chi, nu: 0.5 * chi**2 / nu + 0.5 * np.log(2 * np.pi / nu),
        u=lambda x: x,
        log_h1=lambda x: -0.5 * x**2 - 0.5 * np.log(2 * np.pi),
        chi=0.0,
        nu=1.0,
    )
    same = mf.Gaussian(0, 1, 1)
    for x in (-50.0, -3.0, 0.1, 4.0, 60.0):
        got, expected = normal.log_tails(normal.prior(), x), same.log_tails(same.prior(), x)
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)
    counts = mf.ExponentialFamily(
        a2=lambda chi, nu: np.vectorize(math.lgamma)(chi) - chi * np.log(nu),
        u=lambda x: x,
        log_h1=lambda x: -np.vectorize(math.lgamma)(np.asarray(x) + 1.0),
        chi=2.0,
        nu=3.0,
        support="counts",
    )
    poisson = mf.Poisson(2, 3)
    for x in (0.0, 2.0, 40.0, 500.0):
        got, expected = counts.log_tails(counts.prior(), x), poisson.log_tails(poisson.prior(), x)
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)


def test_covariates_of_the_reading() -> None:
    """y lies on the line at its own covariates, and nowhere near the line at those of the last reading."""
    model = mf.LinearRegression(1, count=0.01, noise_var=1)
    stats = model.prior()
    for u in (0.0, 1.0, 2.0, 3.0) * 5:
        stats = model.update(stats, np.array([5 + 2 * u, u]), zeta=1.0)
    x = np.array([5 + 2 * 100.0, 100.0])
    assert abs(float(model.predictive_cdf(stats, x)[0]) - 0.5) < 0.2
    lower, upper = model.log_tails(stats, x)
    assert max(abs(math.exp(lower[0]) - 0.5), abs(math.exp(upper[0]) - 0.5)) < 0.2
    assert lower[1] == upper[1] == 0.0
    detector = mf.Detector(model, surprise=True, alarm=None, hazard=1e-12)
    for t in range(40):
        step = detector.update([5 + 2 * (t % 4), t % 4])
    assert step.surprise is not None
    assert abs(math.exp(step.surprise.log_lower[0]) - 0.5) < 0.2


# --- detectors ------------------------------------------------------------------------------------------------------


def test_interval_at_the_last_covariates() -> None:
    """The covariates of the coming reading are unknown: intervals are those of y at the last ones."""
    detector = mf.Detector(mf.LinearRegression(2, count=0.01, noise_var=1), alarm=None, hazard=1e-12)
    for u in (0.0, 1.0, 2.0, 3.0) * 5:
        detector.update([5 + 2 * u, u, -7.0 * (u == 1.0)])
    low, high = detector.interval(0.9)
    mean, var = detector.mean[0], detector.variance[0]
    reach = 1.6448536269514722 * math.sqrt(var)
    assert (low[0], high[0]) == pytest.approx((mean - reach, mean + reach), abs=1e-6)
    np.testing.assert_allclose(low[1:], [3.0, 0.0], atol=1e-9)


def test_mixture_over_run_lengths() -> None:
    """The tails are the weighted sums of those of all predicted run lengths, with the coming change among them."""
    model = mf.Gaussian(0, 9, 1)
    detector = mf.Detector(model, hazard=0.02, prune=None, surprise=True)
    for x in (0.1, -0.3, 0.2, 6.0, 6.1):
        weight, stats = detector._filter.predicted()
        mean, var = model.predictive(stats)
        step = detector.update(x)
        assert step.surprise is not None
        z = (x - mean) / np.sqrt(2 * var)
        above = [0.5 * math.erfc(v) for v in z]
        below = [0.5 * math.erfc(-v) for v in z]
        density = np.exp(-(z**2)) / np.sqrt(2 * np.pi * var)
        expected = [math.log(weight @ np.array(side)) for side in (density, below, above)]
        assert step.surprise == pytest.approx(expected, rel=1e-12)


def test_density_sums_to_the_evidence() -> None:
    detector = mf.Detector(mf.GaussianUnknown(0, 1, 1, 1), surprise=True)
    steps = [detector.update(x) for x in np.random.default_rng(2).normal(size=50).tolist()]
    total = sum(step.surprise.log_density for step in steps if step.surprise)
    assert total == pytest.approx(detector.log_evidence, rel=1e-10)


def test_tails_of_1e_300_are_kept() -> None:
    detector = mf.Detector(mf.Gaussian(0, 1, 1), hazard=1e-290, prune=None, surprise=True)
    for _ in range(200):
        detector.update(0.0)
    step = detector.update(30.0)
    with mp.workdps(40):
        new = mp.mpf(1e-290) * mp.erfc(30 / mp.sqrt(4)) / 2
        old = mp.erfc(30 / mp.sqrt(2 * (1 + 1 / mp.mpf(201)))) / 2
        assert step.surprise is not None
        assert near(step.surprise.log_upper, mp.log(old + new))
        assert mp.log(old) < -440


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_changes_no_step(case: Case) -> None:
    rng = np.random.default_rng(3)
    readings = [case.draw(rng) for _ in range(8)]
    plain, surprised = mf.Detector(case.model()), mf.Detector(case.model(), surprise=True)
    for x in readings:
        one, other = plain.update(x), surprised.update(x)
        assert one.surprise is None
        assert other.surprise is not None
        assert other._replace(surprise=None) == one
    assert surprised.surprise
    assert not plain.surprise


def test_nothing_read() -> None:
    detector = mf.Detector(mf.Gaussian(0, 9, 1), mf.Fidelity("skip", 0.0, 0.0), surprise=True, missing="skip")
    assert detector.update(1.0).surprise is None
    detector = mf.Detector(mf.Gaussian(0, 9, 1), surprise=True, missing="skip")
    assert detector.update(None).surprise is None
    assert detector.update(math.nan, "full").surprise is None
    assert detector.wait(3).surprise is None
    product = mf.Detector(mf.Product(mf.Gaussian(0, 9, 1), mf.Poisson(1, 1)), surprise=True, missing="skip")
    surprise = product.update([0.0, math.nan]).surprise
    assert surprise is not None
    assert math.isnan(surprise.log_lower[1])
    assert surprise.log_lower[0] == pytest.approx(math.log(0.5))


def test_saved_with_the_switch() -> None:
    detector = mf.Detector(mf.Gaussian(0, 9, 1), surprise=True)
    detector.update(0.5)
    loaded = mf.Detector.from_bytes(detector.to_bytes())
    assert loaded.surprise
    assert loaded.update(0.7) == detector.update(0.7)
    detector.surprise = False
    plain = mf.Detector(mf.Gaussian(0, 9, 1))
    for x in (0.5, 0.7):
        plain.update(x)
    assert detector.to_bytes() == plain.to_bytes()
    assert detector.with_fidelities(detector.fidelities).surprise is False
    with pytest.raises(TypeError, match="surprise must be True or False"):
        mf.Detector(mf.Gaussian(0, 9, 1), surprise=1)  # type: ignore[arg-type]


def test_trace() -> None:
    table = [0.1, math.nan, 0.2, 6.0]
    detector = mf.Detector(mf.Gaussian(0, 9, 1), missing="skip")
    trace = mf.run(detector, table, surprise=True)
    assert trace.surprise is not None
    assert not detector.surprise
    again = mf.Detector(mf.Gaussian(0, 9, 1), missing="skip", surprise=True)
    steps = [again.update(x, "full") for x in table]
    for t, step in enumerate(steps):
        for column, value in zip(trace.surprise, step.surprise or (math.nan,) * 3, strict=True):
            assert column[t] == pytest.approx(value, nan_ok=True)
    frame = trace.to_frame()
    assert frame["log_upper"].tolist() == pytest.approx(trace.surprise.log_upper.tolist(), nan_ok=True)
    assert mf.run(mf.Detector(mf.Gaussian(0, 9, 1)), [0.1]).surprise is None
    pair = mf.Product(mf.Gaussian(0, 9, 1), mf.Gaussian(0, 9, 1))
    trace = mf.run(mf.Detector(pair, surprise=True), [[0.1, 0.2], [0.3, 5.0]])
    assert trace.surprise is not None
    assert trace.surprise.log_lower.shape == (2, 2)
    one = trace.number(1).surprise
    assert one is not None
    assert one.log_upper.tolist() == trace.surprise.log_upper[:, 1].tolist()
    assert "log_upper_1" in trace.to_frame()
