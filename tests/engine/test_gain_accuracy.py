"""The information about the run length against dense integration, for every family, and the choices that follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mfbocd as mf
from mfbocd.belief.gains import expected_gains

from ..registry import CASES, Case

Array = np.ndarray
LEVELS = np.array([0.1, 1.0])


def shifting(rng: np.random.Generator) -> float:
    return float(rng.normal(1.5, 1.0) + (6.0 if rng.random() < 0.1 else 0.0))


def waiting(rng: np.random.Generator) -> float:
    return float(rng.exponential(1.3))


def counted(rng: np.random.Generator) -> float:
    return float(rng.poisson(4.0))


COMPOSED: dict[str, tuple[Callable[[], Any], Callable[[np.random.Generator], Any]]] = {
    "outliers-unknown": (lambda: mf.Outliers(mf.GaussianUnknown()), shifting),
    "outliers-wide": (lambda: mf.Outliers(mf.Gaussian(0, 9, 1), 0.05, mf.Gaussian(0, 1e4, 1)), shifting),
    "outliers-student": (lambda: mf.Outliers(mf.StudentT(0, 9, 1)), shifting),
    "outliers-student-unknown": (lambda: mf.Outliers(mf.StudentTUnknown()), shifting),
    "outliers-trend": (lambda: mf.Outliers(mf.Trend()), shifting),
    "outliers-gamma": (lambda: mf.Outliers(mf.Gamma(2, 2, 2)), waiting),
    "mixture-three": (
        lambda: mf.Mixture(mf.GaussianUnknown(), mf.Trend(), mf.Gaussian(0, 9, 1)),
        shifting,
    ),
    "mixture-counts-many": (lambda: mf.Mixture(mf.Poisson(3, 1), mf.Binomial(20, 1, 1)), counted),
    "student-unknown-few": (lambda: mf.StudentTUnknown(degrees=2), shifting),
    "student-unknown-many": (lambda: mf.StudentTUnknown(degrees=30), shifting),
    "robust-trend-drifting": (
        lambda: mf.RobustTrend(count=(0.01, 0.01), ar=(0.5, 0.2), outliers=0.01, forget=0.99),
        shifting,
    ),
    "student-vague": (lambda: mf.StudentT(0, 900, 1), shifting),
}
ROWS = {case.name: (case.model, case.draw) for case in CASES} | COMPOSED
# The grids have a likelihood at a few zetas only. The paper's predictive of a waiting time is no density, and its
# gains are those of the reading that is one. The paper's gain of a Bernoulli is a sum over values that are no
# probabilities, which is tested with the family.
OTHERS = {"grid-classifier", "grid-sensor", "gamma-paper", "exponential-paper", "bernoulli-paper"}


def detector(model: Any, draw: Callable[[np.random.Generator], Any], seed: int, ticks: int) -> mf.Detector:
    rng = np.random.default_rng(seed)
    ways = [mf.Fidelity("low", 0.1, 1.0), mf.Fidelity("high", 1.0, 10.0)]
    out = mf.Detector(model, ways, 1 / 30, prune=mf.TopK(40, slack=8))
    for _ in range(ticks):
        out.update(draw(rng), ways[int(rng.random() < 0.4)])
    return out


def dense(model: Any, weight: Array, stats: Array, zeta: float) -> float:
    """I(r; x) by a plain sum over counts, or the trapezoid rule in asinh x."""
    support = np.arange(700.0)
    if isinstance(model, mf.Rounded):
        # a square root is positive, but the model of the roots is not: the gain is that of all its values
        return dense(model.core, weight, model.core_stats(stats), zeta)
    if model.nearest(0.37) != 0.37:
        x = support[model.possible(support)]
        step = np.ones(x.size)
    else:
        s = np.linspace(-26.0, 26.0, 1501)
        x = 1.5 + 0.1 * np.sinh(s)
        step = 0.1 * (s[1] - s[0]) * np.cosh(s)
        if not model.possible(np.array([-1.0]))[0]:
            s = np.linspace(-40.0, 40.0, 1501)
            x = np.exp(s)
            step = (s[1] - s[0]) * x
        if not model.possible(np.array([2.0, -1.0])).any():
            s = np.linspace(-30.0, 30.0, 1501)
            x = 1.0 / (1.0 + np.exp(-s))
            step = (s[1] - s[0]) * x * (1.0 - x)
    density = np.exp(model.log_predictives(stats, x, zeta))
    density = density / (step @ density)  # the gains are those of the normalized predictives
    tiny = 1e-300
    inner = (density * np.log(density + tiny)) @ weight
    mixed = density @ weight
    return float(step @ (inner - mixed * np.log(mixed + tiny)))


@pytest.mark.parametrize("name", sorted(set(ROWS) - OTHERS))
def test_the_run_length_gain_equals_dense_integration(name: str) -> None:
    """To 1e-4 nats or 1 %, whichever is more."""
    make, draw = ROWS[name]
    model = make()
    seed = sum(name.encode())
    belief = detector(model, draw, seed, 8 + seed % 30)._filter
    weight, stats = belief.predicted()
    for zeta in LEVELS.tolist():
        expected = dense(model, weight, stats, zeta)
        assert expected > 1e-6
        gain = expected_gains(belief, np.array([zeta]), "run_length")[0]
        assert gain == pytest.approx(expected, rel=0.01, abs=1e-4)


def test_choices_equal_those_of_dense_integration() -> None:
    """At prices around the one at which both fidelities are equally good; at most one in a thousand differs."""
    rng = np.random.default_rng(11)
    prices = equal = 0
    for name in ("outliers-unknown", "outliers-student", "mixture-three", "student-unknown-many"):
        make, draw = COMPOSED[name]
        model = make()
        for seed in range(3):
            belief = detector(model, draw, seed, 20 + 10 * seed)._filter
            weight, stats = belief.predicted()
            exact = np.array([dense(model, weight, stats, zeta) for zeta in LEVELS.tolist()])
            gains = expected_gains(belief, LEVELS, "run_length")
            turning = (exact[1] - exact[0]) / 9.0
            price = rng.uniform(0.0, 2.0 * turning, 250)[:, None]
            cost = np.array([1.0, 10.0])
            chosen = (gains - price * cost).argmax(axis=1)
            best = (exact - price * cost).argmax(axis=1)
            assert 0 < best.sum() < best.size
            prices += best.size
            equal += int((chosen == best).sum())
    assert prices == 3000
    assert equal >= 0.999 * prices


def test_the_gain_of_a_product_equals_dense_integration() -> None:
    """Two continuous families: a sum over all pairs of nodes of dense tables."""
    model = mf.Product(mf.GaussianUnknown(0, 0.1, 2, 2), mf.Gaussian(0, 9, 1))
    belief = detector(model, lambda rng: rng.normal(size=2), 3, 25)._filter
    weight, stats = belief.predicted()
    s = np.linspace(-9.0, 9.0, 301)
    x = 0.1 * np.sinh(s)
    step = 0.1 * (s[1] - s[0]) * np.cosh(s)
    for zeta in LEVELS.tolist():
        first, second = (np.exp(part.log_predictives(own, x, zeta)) for part, own in model._each(stats))
        expected = 0.0
        for row, length in zip(first, step.tolist(), strict=True):
            density = row * second + 1e-300
            mixed = density @ weight
            inner = (density * np.log(density)) @ weight - mixed * np.log(mixed)
            expected += length * float(step @ inner)
        gain = expected_gains(belief, np.array([zeta]), "run_length")[0]
        assert gain == pytest.approx(expected, rel=0.01, abs=1e-4)


def counted_bits(rng: np.random.Generator) -> Array:
    return np.array([rng.normal(1.5, 1.0), rng.poisson(4.0), rng.random() < 0.3])


def test_the_gain_of_three_families_equals_a_plain_sum() -> None:
    """Merged hypotheses and unlikely values that are left out cost less than 1e-4 nats."""
    model = mf.Product(mf.GaussianUnknown(), mf.Poisson(2, 0.5), mf.Bernoulli(1, 1))
    belief = detector(model, counted_bits, 0, 60)._filter
    weight, stats = belief.predicted()
    s = np.linspace(-12.0, 12.0, 301)
    nodes = 1.5 + 0.3 * np.sinh(s)
    steps = (0.3 * (s[1] - s[0]) * np.cosh(s), np.ones(80), np.ones(2))
    for zeta in LEVELS.tolist():
        tables = []
        for (part, own), x, step in zip(
            model._each(stats), (nodes, np.arange(80.0), np.arange(2.0)), steps, strict=True
        ):
            density = np.exp(part.log_predictives(own, x, zeta))
            tables.append(density / (step @ density))
        expected = 0.0
        for p, length in zip(tables[0], steps[0].tolist(), strict=True):
            density = (p * tables[1])[:, None] * tables[2] + 1e-300
            mixed = density @ weight
            inner = (density * np.log(density)) @ weight
            expected += length * float((inner - mixed * np.log(mixed)).sum())
        gain = expected_gains(belief, np.array([zeta]), "run_length")[0]
        assert gain == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("family", [mf.MultivariateGaussian, mf.MultivariateGaussianUnknown])
def test_the_gain_of_pairs_equals_dense_integration(family: Callable[..., Any]) -> None:
    """To the error of the fixed points, which `models.sampling` gives; merging hardly adds to it."""
    model = family([0.0, 0.0])
    for seed in range(2):
        belief = detector(model, lambda rng: rng.normal(0.5, 1.0, size=2), seed, 20 + 20 * seed)._filter
        weight, stats = belief.predicted()
        s = np.linspace(-7.0, 7.0, 61)
        x, step = 0.5 + 0.3 * np.sinh(s), 0.3 * (s[1] - s[0]) * np.cosh(s)
        for zeta in LEVELS.tolist():
            expected = 0.0
            for first, length in zip(x.tolist(), step.tolist(), strict=True):
                logs = np.array([model.log_predictive(stats, np.array([first, v]), zeta) for v in x.tolist()])
                density = np.exp(logs) + 1e-300
                mixed = density @ weight
                inner = (density * np.log(density)) @ weight - mixed * np.log(mixed)
                expected += length * float(step @ inner)
            gain = expected_gains(belief, np.array([zeta]), "run_length")[0]
            assert gain == pytest.approx(expected, rel=0.05)


def test_user_functions_of_merged_hypotheses_have_the_gains_of_the_family() -> None:
    model = next(case for case in CASES if case.name == "family-poisson").model()
    closed = mf.Poisson(*model.prior().tolist())
    weight, stats = detector(closed, counted, 4, 60)._filter.predicted()
    for zeta in LEVELS.tolist():
        assert model._merged(weight, stats, zeta)[0].size < weight.size
        expected = closed.run_length_gain(weight, stats, zeta), closed.joint_gain(weight, stats, zeta)
        assert model.run_length_gain(weight, stats, zeta) == pytest.approx(expected[0], abs=5e-5)
        assert model.joint_gain(weight, stats, zeta) == pytest.approx(expected[1], abs=5e-5)


@pytest.mark.parametrize("name", ["student-vague", "mixture-counts-many", "family-poisson"])
def test_the_joint_gain_is_the_sum_of_its_parts(name: str) -> None:
    make, draw = ROWS[name]
    model = make()
    weight, stats = detector(model, draw, 2, 12)._filter.predicted()
    for zeta in (0.0, *LEVELS.tolist()):
        expected = model.run_length_gain(weight, stats, zeta) + weight @ model.parameter_gain(stats, zeta)
        assert model.joint_gain(weight, stats, zeta) == pytest.approx(float(expected), rel=1e-9)


@pytest.mark.parametrize("name", ["outliers-unknown", "mixture-three", "student-unknown-many", "outliers-student"])
def test_gains_do_not_depend_on_the_units(name: str) -> None:
    make, draw = COMPOSED[name]
    model = make()
    for offset, scale in ((-1e6, 1e6), (1e6, 1.0), (-3.0, 1e-6)):
        moved = model.rescaled(offset, scale)
        plain = detector(model, draw, 5, 30)
        other = detector(moved, lambda rng, a=offset, b=scale: a + b * draw(rng), 5, 30)
        for gain in ("run_length", "joint", "change"):
            expected = expected_gains(plain._filter, LEVELS, gain)
            np.testing.assert_allclose(expected_gains(other._filter, LEVELS, gain), expected, rtol=1e-4)
        assert (expected_gains(other._filter, np.zeros(1), "joint") == 0.0).all()


def test_cases_are_known() -> None:
    assert set(ROWS) > OTHERS
    assert all(isinstance(case, Case) for case in CASES)
