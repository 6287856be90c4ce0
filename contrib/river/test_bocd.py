from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from river import checks, drift

PRIOR = (0.0, 0.5, 2.0, 1.0)


def detected(detector, stream):
    """Return the index of each drift and the index at which its regime most probably began."""
    found = []
    for i, x in enumerate(stream):
        detector.update(x)
        if detector.drift_detected:
            found.append((i, i + 1 - detector.run_length))
    return found


def log_evidence(values, prior):
    """Log probability of the values of one regime, from the closed form of the conjugate prior."""
    mean, count, shape, scale = prior
    n = len(values)
    center = np.mean(values)
    new_scale = (
        scale
        + 0.5 * np.sum((values - center) ** 2)
        + 0.5 * n * count * (center - mean) ** 2 / (n + count)
    )
    return (
        math.lgamma(shape + n / 2)
        - math.lgamma(shape)
        + shape * math.log(scale)
        - (shape + n / 2) * math.log(new_scale)
        + 0.5 * math.log(count / (count + n))
        - 0.5 * n * math.log(2 * math.pi)
    )


def test_posterior_is_that_of_all_histories():
    """Sum over each of the 512 ways in which ten values can be cut into regimes."""
    hazard = 0.1
    stream = np.random.default_rng(1).normal(size=10) + np.repeat([0, 3], [6, 4])
    expected = np.zeros(len(stream) + 1)
    for cuts in itertools.product([False, True], repeat=len(stream) - 1):
        starts = [0, *(i + 1 for i, cut in enumerate(cuts) if cut), len(stream)]
        log_p = sum(math.log(hazard if cut else 1 - hazard) for cut in cuts)
        log_p += sum(log_evidence(stream[a:b], PRIOR) for a, b in itertools.pairwise(starts))
        expected[len(stream) - starts[-2]] += math.exp(log_p)
    expected /= expected.sum()

    bocd = drift.BOCD(hazard=hazard, prior=PRIOR)
    for x in stream:
        bocd.update(x)
    found = bocd.run_length_probabilities()

    assert sorted(found) == list(range(1, 11))
    for length, probability in found.items():
        assert probability == pytest.approx(expected[length], abs=1e-12)
    assert bocd.p_change == pytest.approx(expected[:10].sum(), abs=1e-12)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda z: z + 3, id="level"),
        pytest.param(lambda z: 4 * z, id="larger variance"),
        pytest.param(lambda z: z / 4, id="smaller variance"),
    ],
)
@pytest.mark.parametrize(("offset", "unit"), [(0.0, 1.0), (1e6, 1e-3), (-40.0, 1e5)])
def test_each_change_is_reported_once_in_any_unit(change, offset, unit):
    z = np.random.default_rng(2).normal(size=500)
    stream = np.concatenate([z[:300], change(z[300:])])

    ((index, start),) = detected(drift.BOCD(), offset + unit * stream)

    assert 300 <= index < 350
    assert abs(start - 300) <= 5


def test_stable_stream():
    assert detected(drift.BOCD(), np.random.default_rng(3).normal(size=2000)) == []


def test_constant_stream():
    detector = drift.BOCD()
    assert detected(detector, np.ones(200)) == []
    assert detected(detector, [2.0]) == [(0, 0)]


def test_a_change_in_the_first_values_is_reported_after_them():
    z = np.random.default_rng(4).normal(size=100)
    z[15:] += 8
    assert detected(drift.BOCD(min_instances=30), z) == [(29, 15)]


def test_number_of_run_lengths_is_bounded():
    stream = np.random.default_rng(5).normal(size=400) + np.repeat([0.0, 4.0], 200)
    few, all_ = drift.BOCD(max_run_lengths=20), drift.BOCD(max_run_lengths=1000)

    assert detected(few, stream) == detected(all_, stream)
    assert len(few.run_length_probabilities()) == 20
    assert len(all_.run_length_probabilities()) == 400
    assert few.p_change == pytest.approx(all_.p_change, abs=5e-3)
    assert sum(few.run_length_probabilities().values()) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("params", list(drift.BOCD._unit_test_params()))
def test_checks(params):
    detector = drift.BOCD(**params)
    for check in checks.yield_checks(detector):
        if check.__name__ != "check_tags":  # drift detectors have no tags
            check(detector.clone())


@pytest.mark.parametrize(
    "params",
    [
        {"hazard": 0},
        {"hazard": 1},
        {"threshold": 0},
        {"threshold": 1.1},
        {"window": 0},
        {"prior": (0, 1, 1, 0)},
        {"min_instances": 2},
        {"max_run_lengths": 1},
    ],
)
def test_invalid_parameters(params):
    with pytest.raises(ValueError, match=next(iter(params))):
        drift.BOCD(**params)


@pytest.mark.parametrize("x", [math.nan, math.inf])
def test_invalid_value_changes_nothing(x):
    detector = drift.BOCD(prior=PRIOR)
    detector.update(1)
    before = detector.run_length_probabilities()
    with pytest.raises(ValueError, match="finite"):
        detector.update(x)
    assert detector.run_length_probabilities() == before
