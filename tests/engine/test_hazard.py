"""Hazards by run length."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import mfbocd as mf
from mfbocd.belief.hazard import Learned

from ..registry import CASES, Case


def test_a_function_is_tabulated_and_constant_beyond_the_table() -> None:
    hazard = mf.Hazard(lambda length: 1 / (length + 2), horizon=5)
    assert hazard(3) == pytest.approx(0.2)
    assert hazard([4, 5, 1000]) == pytest.approx([1 / 6] * 3)
    assert "5 run lengths" in repr(hazard)


def test_weibull_is_the_discrete_hazard_of_its_survival() -> None:
    hazard = mf.Hazard.weibull(shape=1.8, scale=40.0, horizon=300)
    survival = stats.weibull_min(1.8, scale=40.0).sf(np.arange(301))
    np.testing.assert_allclose(hazard.table, 1 - survival[1:] / survival[:-1], rtol=1e-10)
    assert (np.diff(mf.Hazard.weibull(shape=0.5, scale=40.0).table) < 0).all()
    assert mf.Hazard.weibull(shape=1.0, scale=20.0).table == pytest.approx(-np.expm1(-1 / 20))


def test_from_lengths_gives_regimes_of_those_lengths() -> None:
    p = np.array([0.0, 0.25, 0.5, 0.25])
    hazard = mf.Hazard.from_lengths(p)
    stay = np.concatenate([[1.0], np.cumprod(1 - hazard.table)])
    np.testing.assert_allclose(stay[:-1] * hazard.table, p, atol=1e-15)
    changes = mf.simulate.gaussian(mf.Gaussian(), hazard=hazard, ticks=20_000, seed=0).changes
    lengths = np.diff(changes)
    shares = np.bincount(lengths, minlength=5)[1:5] / lengths.size
    np.testing.assert_allclose(shares, p, atol=0.03)


def test_a_flat_table_is_a_constant() -> None:
    assert mf.Hazard([0.2, 0.2, 0.2]).table.tolist() == [0.2]
    a, b = (mf.Detector(mf.Gaussian(0, 9, 1), hazard=h, prune=None) for h in (0.2, [0.2, 0.2000000000000001]))
    for x in (0.0, 1.0, 7.0):
        a.update(x)
        b.update(x)
    np.testing.assert_allclose(a.run_length.weight, b.run_length.weight, rtol=1e-12)


def test_a_certain_end_ends_the_regime() -> None:
    detector = mf.Detector(mf.Gaussian(0, 9, 1), hazard=mf.Hazard.from_lengths([0, 0, 1.0]), prune=None)
    for t in range(12):
        detector.update(0.1)
        assert detector.map_run_length == t % 3
        assert detector.run_length.weight.max() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mf.Hazard([]), "table of one dimension"),
        (lambda: mf.Hazard([[0.1]]), "table of one dimension"),
        (lambda: mf.Hazard([0.0, 0.0]), "positive at some run length"),
        (lambda: mf.Hazard([1.0]), "hazard must lie in (0, 1)"),
        (lambda: mf.Hazard(lambda length: length * 1.0), "hazard at run length 2 must lie in [0, 1]"),
        (lambda: mf.Hazard("often"), "hazard must be a number, not 'often'"),
        (lambda: mf.Hazard.weibull(-1, 3), "weibull.shape must be positive"),
        (lambda: mf.Hazard.from_lengths([0.5, 0.4]), "sum to 1"),
    ],
)
def test_bad_hazards_are_named(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises((ValueError, TypeError)) as error:
        make()
    assert message in str(error.value)


# --- a learned hazard ------------------------------------------------------------------------------------------


THREE = [case for case in CASES if case.name in ("gaussian", "bernoulli", "grid-sensor")]


@pytest.mark.parametrize("case", THREE, ids=lambda c: c.name)
def test_a_learned_hazard_is_a_mixture_of_one_filter_per_candidate(case: Case) -> None:
    learned = Learned(low=0.01, high=0.4, points=5)
    fidelities = [mf.Fidelity(f"z{z}", zeta=z, cost=1.0) for z in (0.0, 0.3, 1.0)]
    whole = mf.Detector(case.model(), fidelities, learned, prune=None)
    parts = [mf.Detector(case.model(), fidelities, float(h), prune=None) for h in learned.table]
    rng = np.random.default_rng(4)
    for _ in range(40):
        x, name = case.draw(rng), fidelities[int(rng.integers(3))].name
        step = whole.update(x, name)
        for part in parts:
            part.update(x, name)
        evidence = np.array([part.log_evidence for part in parts])
        share = np.exp(evidence - np.logaddexp.reduce(evidence))
        np.testing.assert_allclose(whole.hazard_posterior[1], share, atol=1e-11)
        assert whole.log_evidence == pytest.approx(np.logaddexp.reduce(evidence) - math.log(5), abs=1e-9)
        expected = share @ np.array([part.run_length.weight for part in parts])
        np.testing.assert_allclose(whole.run_length.weight, expected, atol=1e-11)
        assert step.mean == pytest.approx(share @ np.array([part.mean for part in parts]), abs=1e-9)
    mixed = whole._filter.predicted()[0]
    each = np.array([part._filter.predicted()[0] for part in parts])
    np.testing.assert_allclose(mixed, share @ each, atol=1e-11)


def test_a_learned_hazard_finds_the_true_one_whatever_the_pruning() -> None:
    stream = mf.simulate.gaussian(mf.Gaussian(0, 25, 1), hazard=0.02, ticks=6000, seed=3)
    detector = mf.Detector(mf.Gaussian(0, 25, 1), hazard=Learned(), missing="skip")
    mf.run(detector, stream.table[:, 0])
    hazard, probability = detector.hazard_posterior
    assert probability.sum() == pytest.approx(1.0)
    counted = len(stream.changes) / 6000
    assert float(hazard @ probability) == pytest.approx(counted, rel=0.3)  # candidates are a factor 2 apart


def test_a_learned_hazard_becomes_small_in_a_long_quiet_stream() -> None:
    detector = mf.Detector(mf.GaussianUnknown(0, 1, 2, 1), hazard=Learned())
    trace = mf.run(detector, np.random.default_rng(2).normal(size=50_000))
    assert float(np.dot(*detector.hazard_posterior)) < 1 / 10_000
    assert not trace.changes


def test_a_saved_learned_hazard_continues_with_the_same_bits() -> None:
    rng = np.random.default_rng(5)
    detector = mf.Detector(mf.Bernoulli(1, 1), hazard=Learned(points=4), seed=2)
    for x in rng.integers(0, 2, 300):
        detector.update(int(x))
    twin = mf.Detector.from_bytes(detector.to_bytes())
    for x in rng.integers(0, 2, 300):
        assert detector.update(int(x)) == twin.update(int(x))
    assert detector.to_bytes() == twin.to_bytes()


def test_a_fleet_learns_each_streams_hazard() -> None:
    streams = [
        mf.simulate.gaussian(mf.Gaussian(0, 25, 1), hazard=h, ticks=800, seed=i) for i, h in enumerate((0.01, 0.1))
    ]
    fleet = mf.Fleet(2, mf.Gaussian(0, 25, 1), hazard=Learned())
    alone = [mf.Detector(mf.Gaussian(0, 25, 1), hazard=Learned(), seed=i) for i in range(2)]
    for row in np.column_stack([s.table[:, 0] for s in streams]):
        fleet.update(row)
        for detector, x in zip(alone, row, strict=True):
            detector.update(float(x))
    for i, detector in enumerate(alone):
        assert fleet.extract(i).to_bytes() == detector.to_bytes()
    means = [float(np.dot(*fleet.extract(i).hazard_posterior)) for i in range(2)]
    assert means[0] < 0.03 < means[1]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [((0.5, 0.1), "low < high"), ((0.1, 1.0), "low < high"), ((0.0, 0.1), "low"), ((0.1, 0.2, 1), "points")],
)
def test_learned_hazard_refusals(arguments: tuple[float, ...], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        Learned(*arguments)  # type: ignore[arg-type]
