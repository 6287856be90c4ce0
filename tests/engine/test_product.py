"""Products of families: missing columns, joint gains of all columns, saving."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, special

import mfbocd as mf

from ..registry import ALPHA, BETA, MEAN, NOISE, VAR, multivariate, product_model
from .test_truth import Segments, dense, enumerate_histories
from .test_vectors import FIDELITIES, by_name, planar, some, updated


def test_missing_columns_are_skipped_and_the_filter_equals_enumeration() -> None:
    case = by_name("product")
    rng = np.random.default_rng(2)
    readings = []
    for t in range(7):
        x = case.draw(rng)
        if t % 2:
            x[0] = np.nan
        if t in (2, 3, 5):
            x[2:] = np.nan
        if t in (3, 6):
            x[1] = np.nan
        readings.append((x, float(rng.choice([0.1, 0.5, 1.0]))))
    fidelities = [mf.Fidelity(f"z{z}", z, 1.0) for z in (0.1, 0.5, 1.0)]
    detector = mf.Detector(case.model(), fidelities, 0.15, policy=mf.Always(), prune=None, missing="skip")
    fleet = mf.Fleet(2, case.model(), fidelities, 0.15, policy=mf.Always(), prune=None, missing="skip")
    segments = Segments(case, readings)
    for t, (x, zeta) in enumerate(readings, start=1):
        detector.update(x, f"z{zeta}")
        fleet.update([x, x], f"z{zeta}")
        # a tick without any reading has marginal 1, whatever its zeta
        posterior, evidence, mean = enumerate_histories(segments, t, mf.Hazard(0.15))
        np.testing.assert_allclose(dense(detector.run_length, t), posterior, atol=1e-10)
        assert detector.log_evidence == pytest.approx(evidence, abs=1e-9)
        np.testing.assert_allclose(detector.mean, mean, atol=1e-9)
    np.testing.assert_allclose(fleet.mean[1], detector.mean, rtol=1e-12)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (
            [0.0, 4.0, 1.0, 1.0, 1.0],
            "x[1]: x = 4.0 is outside the support of Categorical: a whole number from 0 to 3",
        ),
        ([0.0, 1.0, np.nan, 1.0, 1.0], "takes all of its numbers or none"),
        ([0.0, 1.0, np.inf, 1.0, 1.0], "x must be finite"),
        ([0.0, 1.0], "x must be 5 numbers, not of shape (2,)"),
    ],
)
def test_a_bad_reading_names_its_column_and_changes_nothing(x, message: str) -> None:  # type: ignore[no-untyped-def]
    detector = mf.Detector(product_model(), hazard=0.1, missing="skip")
    detector.update([1.0, 2.0, 0.0, 0.0, 0.0])
    before = detector.to_bytes()
    with pytest.raises(ValueError) as error:  # noqa: PT011 (the message is compared)
        detector.update(x)
    assert message in str(error.value)
    assert detector.to_bytes() == before


def product_state(model, readings) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[no-untyped-def]
    detector = mf.Detector(model, hazard=0.1, prune=None)
    for x in readings:
        detector.update(np.array(x))
    weight, at = detector._filter.predicted()
    return np.array(weight), np.array(at)


def test_the_gain_of_discrete_parts_is_exact() -> None:
    model = mf.Product(mf.Bernoulli(ALPHA, BETA), mf.Categorical([1.0, 2.0, 0.5]))
    rng = np.random.default_rng(0)
    weight, at = product_state(model, [[float(t > 8), float(rng.integers(3))] for t in range(12)])
    for zeta in (0.2, 1.0):
        rise = special.poch(np.concatenate([at[1:2], at[:1], at[3:]]), zeta)
        binary, ternary = rise[:2] / rise[:2].sum(axis=0), rise[2:] / rise[2:].sum(axis=0)
        p = (binary[:, None] * ternary[None]).reshape(6, -1)
        expected = special.entr(p @ weight).sum() - weight @ special.entr(p).sum(axis=0)
        assert expected > 1e-3
        assert model.run_length_gain(weight, at, zeta) == pytest.approx(
            expected, rel=1e-4
        )  # weights of 1e-6 are left out
        apart = sum(
            part.run_length_gain(weight, at[rows], zeta)
            for part, rows in zip(model.parts, (slice(0, 3), slice(3, 6)), strict=True)
        )
        assert abs(apart / expected - 1.0) > 1e-3  # not the sum of the parts


@pytest.mark.parametrize("zeta", [0.3, 1.0])
def test_the_gain_of_a_mixed_product_equals_integration(zeta: float) -> None:
    """A Bernoulli reading and a positive one with a heavy tail and an end at 0: two integrals by scipy."""

    def family() -> mf.ExponentialFamily:
        return mf.ExponentialFamily(
            a2=lambda chi, nu: special.gammaln(nu + 1) - (nu + 1) * np.log(-chi),
            u=lambda x: -x,
            log_h1=lambda x: 0.0 * x,
            chi=-2.0,
            nu=4.0,
            support=(0.0, np.inf),
            predictive="normalized",
        )

    model = mf.Product(mf.Bernoulli(1, 1), family())
    weight, at = product_state(model, [[0, 0.5], [0, 0.3], [1, 0.6], [1, 4.0], [1, 5.0]])
    chi, nu = -at[3], at[4]
    rise = special.poch(at[1::-1], zeta)
    bernoulli = rise / rise.sum(axis=0)

    def integrand(x: float) -> float:
        density = zeta * (nu + zeta) / chi * (1 + zeta * x / chi) ** -(nu + 1 + zeta)  # Lomax, normalized
        both = bernoulli * density
        mixed = both @ weight
        return float((special.xlogy(both, both) @ weight - special.xlogy(mixed, mixed)).sum())

    expected = sum(
        integrate.quad(integrand, a, b, limit=400)[0] for a, b in ((0, 1), (1, 10), (10, 1e3), (1e3, np.inf))
    )
    assert expected > 1e-2
    assert model.run_length_gain(weight, at, zeta) == pytest.approx(expected, rel=0.01)


def test_a_product_too_large_to_sum_is_sampled() -> None:
    """Two Gaussians and an uninformative third: the gain of the two, integrated in the plane."""
    pair = mf.MultivariateGaussian([0, 0], [4.0, 9.0], [1.0, 2.0])
    idle = mf.Gaussian(0.0, 1e-9, 1.0)
    model = mf.Product(mf.Gaussian(0, 4, 1), mf.Gaussian(0, 9, 2), idle)
    rng = np.random.default_rng(3)
    read = [[*rng.normal([0.0, 3.0 * (t > 9)], 1.0), 0.0] for t in range(12)]
    weight, at = product_state(model, read)
    kept = weight > 1e-6
    flat = np.stack([updated(pair, [(np.array(x[:2]), 1.0) for x in read[k:]]) for k in range(13)], axis=1)
    for zeta in (0.3, 1.0):
        expected = planar(pair, weight[kept] / weight[kept].sum(), flat[:, kept], zeta)
        assert expected > 5e-3
        assert model.run_length_gain(weight, at, zeta) == pytest.approx(expected, rel=0.04)
        product = mf.Product(mf.Bernoulli(1e6, 1e6), pair)
        bernoulli = np.repeat(product.prior()[:3, None], 13, axis=1)
        assert product.run_length_gain(weight, np.concatenate([bernoulli, flat]), zeta) == pytest.approx(
            expected, rel=0.04
        )


def test_a_product_from_tables_nested_and_saved() -> None:
    table = [
        {"kind": "gaussian", "mean": 1.0, "var": 4.0, "noise_var": 0.5},
        {"kind": "MultivariateGaussianUnknown", "mean": [0.0, 1.0], "degrees": 5},
        {"kind": "Product", "parts": [{"kind": "Bernoulli"}, {"kind": "categorical", "alpha": [1, 1, 1]}]},
    ]
    model = mf.Product(parts=table)
    assert [type(part).__name__ for part in model.parts] == [
        *("Gaussian", "MultivariateGaussianUnknown", "Bernoulli", "Categorical")
    ]
    assert model.dimension == 5
    same = mf.Product(
        mf.Gaussian(1, 4, 0.5),
        mf.MultivariateGaussianUnknown([0, 1], degrees=5),
        mf.Product(mf.Bernoulli(), mf.Categorical([1, 1, 1])),
    )
    assert same.spec() == model.spec()
    detector = mf.Detector(model, FIDELITIES, 0.05, policy=mf.Net(0.01))
    for x in ([1.0, 0.0, 1.0, 1.0, 2.0], [0.0, 0.5, 1.0, 0.0, 2.0]):
        detector.update(x, detector.choose())
    twin = mf.Detector.from_bytes(detector.to_bytes())
    assert twin.model.spec() == model.spec()
    x = [1.0, 0.0, 1.0, 1.0, 1.0]
    assert twin.update(x, twin.choose()) == detector.update(x, detector.choose())
    low, high = detector.interval(0.9)
    assert set(low[3:]) | set(high[3:]) <= {0.0, 1.0, 2.0}
    assert detector.parameter[0].shape == (1 + 2 + 1 + 3,)


def test_a_gaussian_of_a_product_is_that_of_the_registry() -> None:
    """The rows of the product are those of its families."""
    model = product_model()
    alone = mf.Gaussian(MEAN, VAR, NOISE)
    read = some(by_name("product"), 5)
    at = updated(model, read)
    np.testing.assert_array_equal(at[:2], updated(alone, [(float(x[0]), z) for x, z in read]))
    np.testing.assert_array_equal(at[6:], updated(multivariate(), [(x[2:], z) for x, z in read]))


def test_two_multivariate_parts_are_drawn_independently() -> None:
    """Their product is one Gaussian with block-diagonal covariances."""
    plane = mf.MultivariateGaussian([0, 0], 4.0, 1.0)
    whole, halves = mf.MultivariateGaussian(np.zeros(4), 4.0, 1.0), mf.Product(plane, plane)
    rng = np.random.default_rng(4)
    read = [rng.normal(1.5 * (t > 9), 1.0, 4) for t in range(12)]
    weight, at = product_state(halves, read)
    same, four = product_state(whole, read)
    np.testing.assert_allclose(weight, same, atol=1e-12)
    for zeta in (0.3, 1.0):
        expected = whole.run_length_gain(weight, four, zeta)
        assert expected > 1e-2
        assert halves.run_length_gain(weight, at, zeta) == pytest.approx(expected, rel=0.05)
