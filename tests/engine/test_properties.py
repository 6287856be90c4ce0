"""Properties that hold for every model and every stream (hypothesis)."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mfbocd as mf

from ..registry import ALL, COMPILED, VECTORS, Case

FIDELITIES = [mf.Fidelity("none", 0.0, 0.0), mf.Fidelity("low", 0.3, 1.0), mf.Fidelity("high", 1.0, 5.0)]
PRUNES = st.sampled_from([None, mf.TopK(7), mf.Resample(9), mf.Threshold(1e-6), (mf.Threshold(1e-5), mf.TopK(12))])


MIXES = [(1.0, 1.0, 1.0), (0.0, 1.0, 1.0), (8.0, 1.0, 1.0), (0.0, 0.0, 1.0), (1.0, 0.0, 0.0)]
"""Relative frequencies of the fidelities of a stream."""


def streams(case: Case, most: int = 25) -> st.SearchStrategy[list[tuple[float, str]]]:
    """Streams from a seed, long enough for every pruning: lists whose elements are drawn one by one are slow."""

    def stream(seed: int, ticks: int, mix: tuple[float, ...]) -> list[tuple[float, str]]:
        rng = np.random.default_rng(seed)
        chosen = rng.choice(len(mix), ticks, p=np.array(mix) / sum(mix))
        return [(case.draw(rng), FIDELITIES[j].name) for j in chosen.tolist()]

    return st.builds(stream, st.integers(0, 2**31), st.integers(1, most), st.sampled_from(MIXES))


def feed(detector: mf.Detector, stream: list[tuple[float, str]]) -> list[mf.Step]:
    return [detector.update(x, name) for x, name in stream]


@pytest.mark.parametrize("case", [*COMPILED, *VECTORS], ids=lambda c: c.name)
@given(data=st.data())
def test_weights_are_a_distribution_and_p_change_a_probability(case: Case, data: st.DataObject) -> None:
    detector = mf.Detector(case.model(), FIDELITIES, 0.1, policy=mf.Always(), prune=data.draw(PRUNES))
    for x, name in data.draw(streams(case)):
        step = detector.update(x, name)
        length, weight = detector.run_length
        assert weight.sum() == pytest.approx(1.0, abs=1e-12)
        assert (weight >= 0).all()
        assert (np.diff(length) > 0).all()
        assert length[0] >= 0
        assert length[-1] <= step.tick
        assert 0 <= step.p_change <= 1
        assert np.isfinite([*np.ravel(step.mean), *np.ravel(detector.variance), detector.log_evidence]).all()


@pytest.mark.parametrize("case", ALL, ids=lambda c: c.name)
@given(data=st.data())
def test_a_reading_at_zeta_zero_has_no_effect(case: Case, data: st.DataObject) -> None:
    """At zeta = 0 the result does not depend on x and equals that of a missing reading."""
    stream = data.draw(streams(case, most=6))
    fed = mf.Detector(case.model(), FIDELITIES, 0.1, policy=mf.Always(), prune=None, missing="skip")
    feed(fed, stream)
    results = []
    for x in (case.draw(np.random.default_rng(1)), case.draw(np.random.default_rng(2)), None):
        detector = copy.copy(fed)
        before = detector._filter.stats.copy()
        evidence = detector.log_evidence
        detector.update(x, "none")
        np.testing.assert_array_equal(detector._filter.stats[:, :-1], detector.model.skip(before))
        assert detector.log_evidence == evidence
        results.append((*detector.run_length.weight, *np.ravel(detector.mean)))
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("case", [case for case in ALL if case.additive], ids=lambda c: c.name)
@given(seed=st.integers(0, 10_000), split=st.floats(0.01, 0.99))
def test_two_part_readings_equal_one_whole(case: Case, seed: int, split: float) -> None:
    """x at .3 and x at .7 add up to x at 1: in the statistics, and (unnormalized) in the likelihood."""
    x = case.draw(np.random.default_rng(seed))
    model = case.model()
    part = model.update(model.prior(), x, split)
    np.testing.assert_allclose(
        model.update(part, x, 1 - split), model.update(model.prior(), x, 1.0), rtol=1e-10, atol=1e-12
    )
    if "paper" in case.name:
        two = model.log_predictive(model.prior(), x, split) + model.log_predictive(part, x, 1 - split)
        assert float(two) == pytest.approx(float(model.log_predictive(model.prior(), x, 1.0)), abs=1e-9)


@given(
    shift=st.floats(-1e6, 1e6),
    log_scale=st.floats(-6, 6),
    seed=st.integers(0, 1000),
    prune=PRUNES,
)
def test_the_gaussian_is_affine_invariant(shift: float, log_scale: float, seed: int, prune) -> None:  # type: ignore[no-untyped-def]
    """Shift and scale data, prior and noise together: the posterior stays, the mean changes accordingly."""
    scale = 10.0**log_scale
    rng = np.random.default_rng(seed)
    xs = np.concatenate([rng.normal(0, 1, 20), rng.normal(4, 1, 20)])
    plain = mf.Detector(mf.Gaussian(0.5, 9, 1), FIDELITIES, 0.05, prune=prune)
    moved = mf.Detector(mf.Gaussian(shift + 0.5 * scale, 9 * scale**2, scale**2), FIDELITIES, 0.05, prune=prune)
    for t, x in enumerate(xs.tolist()):
        name = ("low", "high")[t % 2]
        plain.update(x, name)
        moved.update(shift + scale * x, name)
    # adding the shift to x already loses this much of it
    lost = 1e-15 * max(1.0, abs(shift) / scale)
    assert moved.p_changed(within=10) == pytest.approx(plain.p_changed(within=10), abs=1e-9 + 1e3 * lost)
    assert moved.mean == pytest.approx(shift + scale * plain.mean, rel=1e-9, abs=scale * (1e-9 + 1e3 * lost))
    assert moved.map_run_length == plain.map_run_length


@pytest.mark.parametrize("case", [*COMPILED, *VECTORS], ids=lambda c: c.name)
@given(data=st.data())
def test_saving_midway_changes_no_later_bit(case: Case, data: st.DataObject) -> None:
    prune, seed = data.draw(PRUNES), data.draw(st.integers(0, 2**40))
    hazard = data.draw(st.sampled_from([0.07, (0.3, 0.05, 0.2)]))
    detector = mf.Detector(case.model(), FIDELITIES, hazard, policy=mf.Random(), prune=prune, seed=seed)
    feed(detector, data.draw(streams(case)))
    twin = mf.Detector.from_bytes(detector.to_bytes())
    assert twin.to_bytes() == detector.to_bytes()
    later = data.draw(streams(case))
    for x, name in later:
        assert twin.choose() == detector.choose()
        assert twin.update(x, name) == detector.update(x, name)
    assert twin.to_bytes() == detector.to_bytes()
    assert twin.spent == detector.spent


@given(seed=st.integers(0, 2**53 - 1), ticks=st.integers(0, 30))
def test_choose_is_idempotent_and_repeatable(seed: int, ticks: int) -> None:
    detector = mf.Detector(mf.Gaussian(), FIDELITIES, policy=mf.Random([0.2, 0.3, 0.5]), seed=seed)
    chosen = []
    for _ in range(ticks):
        first = detector.choose()
        before = detector.to_bytes()
        assert detector.choose() == first
        assert detector.to_bytes() == before
        chosen.append(first.name)
        detector.update(0.1, first)
    again = mf.Detector(mf.Gaussian(), FIDELITIES, policy=mf.Random([0.2, 0.3, 0.5]), seed=seed)
    assert [again.update(0.1, again.choose()).fidelity for _ in range(ticks)] == chosen
