"""Student's t of unknown scale: the projection after each reading, and how close it stays to the exact posterior."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

import mfbocd as mf

PRIOR = (0.0, 0.5, 2.0, 2.0)


def exact(xs: list[float], degrees: float) -> tuple[float, float]:
    """Log evidence and posterior mean of the level, by an integral over level and log s2."""
    mean, count, shape, scale = PRIOR
    u = np.linspace(-5.0, 6.0, 111)
    s2 = np.exp(u)[:, None]
    level = 8.0 * np.sinh(np.linspace(-3.0, 3.0, 601)) / 2.0
    logs = stats.invgamma(shape, scale=scale).logpdf(s2) + np.log(s2)
    logs = logs + stats.norm(mean, np.sqrt(s2 / count)).logpdf(level)
    for x in xs:
        logs = logs + stats.t(degrees, level, np.sqrt(s2)).logpdf(x)
    joint = np.exp(logs)
    total = integrate.trapezoid(integrate.trapezoid(joint, level, axis=1), u)
    first = integrate.trapezoid(integrate.trapezoid(joint * level, level, axis=1), u)
    return math.log(total), float(first / total)


def filtered(xs: list[float], degrees: float) -> tuple[float, float]:
    model, total = mf.StudentTUnknown(*PRIOR, degrees=degrees), 0.0
    state = model.prior()
    for x in xs:
        total += float(model.log_predictive(state, x, 1.0))
        state = model.update(state, x, 1.0)
    return total, float(model.parameter(state)[0])


@pytest.mark.parametrize("degrees", [2.5, 4.0, 12.0])
@pytest.mark.parametrize(
    ("xs", "evidence", "level"),
    [
        ([1.3], 1e-4, 0.02),
        ([1.3, 0.4], 0.05, 0.05),
        ([1.3, 0.4, 0.9, 1.8, 1.1], 0.1, 0.05),
        ([1.3, 0.4, 0.9, 1.8, 1.1, 12.0], 0.3, 0.15),
    ],
    ids=["one", "two", "five", "outlier"],
)
def test_the_first_readings_are_as_exact_as_documented(
    xs: list[float], evidence: float, level: float, degrees: float
) -> None:
    truth, got = exact(xs, degrees), filtered(xs, degrees)
    assert got[0] == pytest.approx(truth[0], abs=evidence)
    assert got[1] == pytest.approx(truth[1], abs=level)


def test_many_degrees_of_freedom_are_the_gaussian_of_unknown_variance() -> None:
    student, normal = mf.StudentTUnknown(1.0, 0.5, 2.0, 3.0, 1e6), mf.GaussianUnknown(1.0, 0.5, 2.0, 3.0)
    one, two = student.prior(), normal.prior()
    for x, zeta in ((1.2, 1.0), (0.1, 0.4), (3.0, 0.7), (1.5, 1.0)):
        for a, b in zip(
            (
                student.log_predictive(one, x, zeta),
                student.predictive_cdf(one, x, zeta),
                *student.predictive(one, 1.0),
            ),
            (normal.log_predictive(two, x, zeta), normal.predictive_cdf(two, x, zeta), *normal.predictive(two, 1.0)),
            strict=True,
        ):
            assert float(a) == pytest.approx(float(b), rel=1e-4)
        one, two = student.update(one, x, zeta), normal.update(two, x, zeta)
        np.testing.assert_allclose(one, two, rtol=1e-4)
    for gain in ("parameter_gain", "variance_gain"):
        assert float(getattr(student, gain)(one, 0.5)) == pytest.approx(
            float(getattr(normal, gain)(two, 0.5)), rel=1e-4
        )
    both = np.stack([two, normal.prior()], axis=1)
    weight = np.array([0.7, 0.3])
    got, expected = (m.run_length_gain(weight, both, 1.0) for m in (student, normal))
    assert got == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("zeta", [0.3, 1.0])
def test_the_predictive_is_a_density_with_its_moments_and_distribution(zeta: float) -> None:
    model = mf.StudentTUnknown(0.5, 0.5, 4.0, 2.0, degrees=6.0)
    state = model.update(model.prior(), 1.7, 1.0)
    x = 400.0 * np.sinh(np.linspace(-9.0, 9.0, 6_001)) / math.sinh(9.0)
    p = np.exp([float(model.log_predictive(state, v, zeta)) for v in x])
    mean, var = (float(v) for v in model.predictive(state, zeta))
    assert integrate.trapezoid(p, x) == pytest.approx(1.0, abs=1e-5)
    assert integrate.trapezoid(p * x, x) == pytest.approx(mean, abs=1e-4)
    assert integrate.trapezoid(p * (x - mean) ** 2, x) == pytest.approx(var, rel=5e-3)
    below = x <= 1.0
    last = integrate.trapezoid(p[below], x[below]) + (1.0 - x[below][-1]) * p[below][-1]
    assert float(model.predictive_cdf(state, 1.0, zeta)) == pytest.approx(last, abs=1e-4)
    assert float(mf.StudentTUnknown(degrees=2.0).predictive(mf.StudentTUnknown().prior())[1]) == np.inf


@pytest.mark.parametrize("scale", [0.2, 1.0, 30.0])
def test_an_outlier_is_no_change_and_a_shift_is_at_any_noise(scale: float) -> None:
    rng = np.random.default_rng(3)
    one = scale * rng.normal(size=200)
    shift = scale * rng.normal(size=200)
    one[100] = 12.0 * scale
    shift[100:] += 6.0 * scale
    model = mf.StudentTUnknown(0, 0.02, 1, 1, degrees=3)
    found = [
        [c.changed_at for c in mf.run(mf.Detector(model, hazard=1 / 300), x.tolist()).changes] for x in (one, shift)
    ]
    assert found[0] == []
    assert len(found[1]) == 1
    assert abs(found[1][0] - 100) <= 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"degrees": 1.0}, "StudentTUnknown.degrees must exceed 1"),
        ({"shape": 0.5}, "StudentTUnknown.shape must exceed 1/2"),
        ({"scale": 0.0}, "StudentTUnknown.scale must be positive"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mf.StudentTUnknown(**arguments)


def test_extreme_readings_leave_finite_statistics() -> None:
    detector = mf.Detector(mf.StudentTUnknown(), hazard=0.01)
    for x in (0.0, 0.0, 1e-300, 1e200, -1e300, 0.0):
        detector.update(x)
    assert np.isfinite(detector._filter.state).all()
    assert (detector._filter.stats[[0, 2, 3]] > 0).all()


def test_units() -> None:
    model = mf.StudentTUnknown(1.0, 0.5, 2.0, 3.0, 5.0)
    other = model.rescaled(-4.0, 7.0)
    state = model.update(model.prior(), 2.5, 0.6)
    np.testing.assert_allclose(other.update(other.prior(), -4.0 + 7.0 * 2.5, 0.6), state, rtol=1e-12)
    assert repr(mf.StudentTUnknown(**model.spec())) == repr(model)
