"""The as-published engine against a naive twin written from the paper's didactic code."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import betaln, logsumexp

import mfbocd as mf
from mfbocd.belief.filter import Filter
from mfbocd.belief.gains import expected_gains
from mfbocd.belief.hazard import Hazard
from mfbocd.belief.pruning import Pruning
from paper import published

pytestmark = pytest.mark.slow

FIDELITIES = (mf.Fidelity("low", 0.5, 1.0), mf.Fidelity("high", 1.0, 2.0))
ZETA = (0.5, 1.0)
NORMAL = mf.Gaussian(1, 3, 1)
COUNTS = mf.Bernoulli(0.1, 0.1)
HAZARD = 1 / 50
SMALL = 1e-20


class NaiveGaussian:
    """Hypotheses by run length, newest first, as the didactic code keeps them."""

    def __init__(self, model, correct=False):
        self.model = model
        self.correct = correct
        self.means = np.array([model.mean], dtype=float)
        self.precisions = np.array([1 / model.var])

    def log_predictive(self, x, zeta):
        var = 1 / self.precisions + self.model.noise_var / zeta
        return -0.5 * (np.log(2 * np.pi * var) + (x - self.means) ** 2 / var)

    def update(self, x, zeta):
        old = self.precisions
        grown = old + zeta / self.model.noise_var
        self.precisions = np.append(1 / self.model.var, grown)
        # the mistake: overwritten before the means are weighted with them; the new ones are shifted by one place
        weights = old if self.correct else self.precisions[:-1]
        means = (self.means * weights + zeta * x / self.model.noise_var) / grown
        self.means = np.append(self.model.mean, means)

    def gain(self, posterior, log_message, hazard, zeta):
        def entropy(log_joint):
            p = np.exp(log_joint - logsumexp(log_joint))
            return -np.sum(p * np.log(p + SMALL))

        nodes, weights = np.polynomial.hermite.hermgauss(50)
        expected = 0.0
        for x, w in zip(nodes, weights, strict=True):
            log_pis = self.log_predictive(x, zeta)
            marginal = np.sum(np.exp(log_pis) * posterior)
            expected += w * np.exp(x**2) * marginal * entropy(roll(log_pis + log_message, hazard))
        return entropy(roll(log_message, hazard)) - expected


class NaiveBernoulli:
    def __init__(self, model):
        self.model = model
        self.a = np.array([model.alpha], dtype=float)
        self.b = np.array([model.beta], dtype=float)

    @property
    def means(self):
        return self.a / (self.a + self.b)

    def log_predictive(self, x, zeta):
        return betaln(zeta * x + self.a, zeta * (1 - x) + self.b) - betaln(self.a, self.b)

    def update(self, x, zeta):
        self.a = np.append(self.model.alpha, self.a + zeta * x)
        self.b = np.append(self.model.beta, self.b + zeta * (1 - x))

    def gain(self, posterior, log_message, hazard, zeta):
        gain = 0.0
        for x in (0, 1):
            p = np.exp(self.log_predictive(x, zeta))
            mixed = np.sum(p * posterior)
            gain += -mixed * np.log(mixed + SMALL) + np.sum(posterior * p * np.log(p + SMALL))
        return gain


def roll(log_joint, hazard):
    return np.append(logsumexp(log_joint + np.log(hazard)), log_joint + np.log(1 - hazard))


def naive(model, table, hazard, choose, correct=False):
    """The paper's `mf_bocd`, log weights and the matrix it keeps; `choose` gets the tick and a call for gains."""
    twin = NaiveGaussian(model, correct) if isinstance(model, mf.Gaussian) else NaiveBernoulli(model)
    ticks = len(table)
    log_message = np.array([1.0])
    log_R = np.full((ticks + 1, ticks + 1), -np.inf)
    log_R[0, 0] = 1
    mean, choices = np.zeros(ticks), np.zeros(ticks, dtype=int)
    for t in range(1, ticks + 1):
        posterior = np.exp(log_R[t - 1, :t])

        def gains(posterior=posterior, log_message=log_message):
            found = np.array([twin.gain(posterior, log_message, hazard, zeta) for zeta in ZETA])
            return np.where(found < 0, SMALL, found)

        j = choose(t - 1, gains)
        choices[t - 1] = j
        x = table[t - 1, j]
        log_message = roll(twin.log_predictive(x, ZETA[j]) + log_message, hazard)
        log_R[t, : t + 1] = log_message - logsumexp(log_message)
        twin.update(x, ZETA[j])
        mean[t - 1] = np.sum(twin.means[:t] * posterior)
    return choices, np.exp(log_R), mean


def stream(model, seed, ticks=60):
    if isinstance(model, mf.Gaussian):
        return published.draw(model, FIDELITIES, HAZARD, ticks=ticks, seed=seed).table
    return mf.simulate.bernoulli(model, FIDELITIES, HAZARD, ticks=ticks, seed=seed, low="miss").table


@pytest.mark.parametrize("model", [NORMAL, COUNTS], ids=["gaussian", "bernoulli"])
@pytest.mark.parametrize("weight", [1.2, 1.5])
def test_the_engine_is_the_didactic_code(model, weight):
    rates = np.array([1.0, weight / 2.0])
    both = set()
    for seed in range(3):
        table = stream(model, seed)
        choice, R, mean = naive(model, table, HAZARD, lambda t, gains: int(np.argmax(gains() * rates)))
        found = published.run(model, ZETA, HAZARD, table, rates=tuple(rates))
        assert (found.choice == choice).all()
        np.testing.assert_allclose(found.posterior, R, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(found.mean, mean, rtol=1e-9)
        both |= set(choice)
    assert both == {0, 1}  # the rule made both choices


@pytest.mark.parametrize("correct", [False, True], ids=["as published", "correct updates"])
def test_the_margin_rule_is_the_didactic_codes(correct):
    def close(t, gains):
        low, high = gains()
        return 0 if abs(low - high) < 0.03 else 1

    table = stream(NORMAL, 0)
    assert table.max() > published.NODES[-1]  # partly beyond the last node
    choice, R, mean = naive(NORMAL, table, HAZARD, close, correct=correct)
    found = published.run(NORMAL, ZETA, HAZARD, table, margin=0.03, correct=correct)
    assert set(choice) == {0, 1}
    assert (found.choice == choice).all()
    np.testing.assert_allclose(found.posterior, R, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_with_both_fidelities_the_published_means_are_weighted_wrongly(seed):
    table = stream(NORMAL, seed)
    choice = np.random.default_rng(seed).integers(0, 2, len(table))
    made = {c: published.run(NORMAL, ZETA, HAZARD, table, choice=choice, correct=c) for c in (False, True)}
    for correct, found in made.items():
        _, R, mean = naive(NORMAL, table, HAZARD, lambda t, gains: choice[t], correct=correct)
        np.testing.assert_allclose(found.mean, mean, rtol=1e-9)
        np.testing.assert_allclose(found.posterior, R, rtol=1e-8, atol=1e-12)
        # and the other engine is off by far more than rounding
        assert np.abs(made[not correct].mean - mean).max() > 1e-3
        assert np.abs(made[not correct].posterior - R).max() > 1e-3


def test_by_how_much_a_published_mean_is_off():
    """A run read low, then high: the old mean counts (zeta now - zeta first) / (noise * new precision) too much."""
    model, x = mf.Gaussian(1, 3, 2), np.array([[9.0, 9.0], [4.0, 4.0], [5.0, 5.0]])
    # the mean after the third reading is that of the last two: the weights are one reading old
    found, right = (
        published.run(model, ZETA, 1e-12, x, choice=np.array([1, 0, 1]), correct=correct).mean[2]
        for correct in (False, True)
    )
    first = 1 / 3 + 0.5 / 2
    mean = (1 / 3 * 1.0 + 0.5 * 4.0 / 2) / first
    new = first + 1.0 / 2
    assert right == pytest.approx((first * mean + 5.0 / 2) / new, abs=1e-9)
    assert found - right == pytest.approx((1.0 - 0.5) / (2 * new) * mean, abs=1e-9)


@pytest.mark.parametrize("j", [0, 1])
def test_with_one_fidelity_the_published_filter_is_the_exact_one(j):
    for seed in range(3):
        table = stream(NORMAL, seed, ticks=200)
        choice = np.full(len(table), j)
        found = published.run(NORMAL, ZETA, HAZARD, table, choice=choice)
        right = published.run(NORMAL, ZETA, HAZARD, table, choice=choice, correct=True)
        np.testing.assert_allclose(found.mean, right.mean, rtol=0, atol=2e-13)
        detector = mf.Detector(NORMAL, FIDELITIES, HAZARD, policy=mf.Always(), prune=None, alarm=None)
        stale = np.array([math.e])
        for t, readings in enumerate(table):
            detector.update(readings[j], FIDELITIES[j])
            filtered = detector.run_length.weight
            np.testing.assert_allclose(found.posterior[t + 1, 1 : t + 2], (1 - HAZARD) * filtered, rtol=0, atol=2e-13)
            # the exact filter's means by run length, under the weights of the tick before
            means = NORMAL.mean + math.sqrt(NORMAL.noise_var) * detector._filter.predicted()[1][1, ::-1]
            assert found.mean[t] == pytest.approx(float(stale @ means[: t + 1]), abs=2e-13)
            stale = np.append(HAZARD, (1 - HAZARD) * filtered)


@pytest.mark.parametrize("model", [NORMAL, COUNTS], ids=["gaussian", "bernoulli"])
def test_the_matrix_is_the_librarys_shifted_by_one(model):
    table = stream(model, 3)
    choice = np.random.default_rng(5).integers(0, 2, len(table))
    found = published.run(model, ZETA, HAZARD, table, choice=choice, correct=True)
    assert (found.choice == choice).all()
    exact = mf.Bernoulli(0.1, 0.1, predictive="paper") if isinstance(model, mf.Bernoulli) else model
    detector = mf.Detector(exact, FIDELITIES, HAZARD, policy=mf.Always("high"), prune=None)
    for t, (readings, j) in enumerate(zip(table, choice, strict=True)):
        detector.update(readings[j], FIDELITIES[j])
        filtered = detector.run_length.weight
        assert found.posterior[t + 1, 0] == pytest.approx(HAZARD)
        np.testing.assert_allclose(found.posterior[t + 1, 1 : t + 2], (1 - HAZARD) * filtered, rtol=1e-8, atol=1e-12)
    assert found.mean[-1] != pytest.approx(detector.mean, rel=1e-3)  # stale weights


def moved(by):
    return mf.Gaussian(NORMAL.mean + by, NORMAL.var, NORMAL.noise_var)


def test_a_shift_of_the_data_changes_the_published_choices_and_none_of_the_librarys():
    table = stream(NORMAL, 1, ticks=150)
    ours, theirs = [], []
    for by in (0.0, 30.0):
        theirs.append(published.run(moved(by), ZETA, HAZARD, table + by, rates=(1.0, 0.8)).choice)
        policy = mf.InformationRate([1.0, 1.6])
        detector = mf.Detector(moved(by), FIDELITIES, HAZARD, policy=policy, prune=None)
        ours.append(mf.run(detector, table + by).choice)
    assert set(theirs[0]) == set(ours[0]) == {0, 1}
    assert (theirs[0] != theirs[1]).mean() > 0.2
    assert (ours[0] == ours[1]).all()


@pytest.mark.parametrize("model", [NORMAL, mf.Bernoulli(0.1, 0.1, predictive="paper")], ids=["gaussian", "bernoulli"])
def test_near_zero_the_published_gain_is_the_exact_one_of_the_next_point(model):
    belief = Filter(model, Hazard(HAZARD), Pruning.of(None))
    zeta = np.array(ZETA)
    for x in (0.0, 1.0, 1.0, 0.0, 0.0):
        belief.observe(x, 1.0)
        # I(next; x) = (1 - h) I(r; x) for the Gaussian, whose gain is about the next point
        share = 1 - HAZARD if isinstance(model, mf.Gaussian) else 1.0
        # one at a time: with a lower fidelity present, no gain is below that of the lower one
        exact = np.array([expected_gains(belief, zeta[j : j + 1], "run_length")[0] for j in range(2)])
        np.testing.assert_allclose(published.gains(belief, zeta), share * exact, atol=2e-4)
        assert (exact > 1e-3).all()


def test_unsupported_options_are_refused():
    with pytest.raises(ValueError, match="margin is for a Gaussian and two fidelities"):
        published.run(COUNTS, ZETA, HAZARD, np.zeros((3, 2)), margin=0.1)
    with pytest.raises(ValueError, match="rates must be 2 numbers, one per fidelity"):
        published.run(NORMAL, ZETA, HAZARD, np.zeros((3, 2)), rates=(1.0,))
    poisson = mf.ExponentialFamily(
        a2=lambda chi, nu: np.vectorize(math.lgamma)(chi) - chi * np.log(nu),
        u=lambda x: x,
        log_h1=lambda x: -np.vectorize(math.lgamma)(np.asarray(x) + 1.0),
        chi=2.0,
        nu=1.0,
        support="counts",
    )
    with pytest.raises(TypeError, match="must be Gaussian or Bernoulli"):
        published.run(poisson, ZETA, HAZARD, np.zeros((3, 2)), rates=(1.0, 1.0))
    with pytest.raises(TypeError, match="must be Gaussian or Bernoulli"):
        published.gains(Filter(poisson, Hazard(HAZARD), Pruning.of(None)), np.array(ZETA))
