"""Every changepoint history for small T, enumerated: the filter, the evidence and the mean must agree."""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

import mfbocd as mf

from ..registry import ALL, CASES, ZETAS, Case

HAZARDS = {
    "constant": 0.15,
    "increasing": lambda length: 0.05 + 0.9 * length / (length + 4.0),
    "decreasing": lambda length: 0.6 / (length + 1.0),
    "table": [0.0, 0.3, 0.1, 0.6],
    "ends": mf.Hazard.from_lengths([0.1, 0.2, 0.3, 0.4]),
}


class Segments:
    """The readings of a stream, and the truth about each segment of them, which every history and hazard shares."""

    def __init__(self, case: Case, readings: list[tuple[Any, float]]) -> None:
        self.case = case
        self.readings = readings
        self._marginal: dict[tuple[int, int], float] = {}
        self._mean: dict[tuple[int, int], Any] = {}

    def marginal(self, start: int, end: int) -> float:
        key = (start, end)
        if key not in self._marginal:
            self._marginal[key] = self.case.marginal_of(self.readings[start:end], self.readings[:start])
        return self._marginal[key]

    def mean(self, start: int, end: int) -> Any:
        """E[x_{end+1}] in a regime that began at `start`."""
        key = (start, end)
        if key not in self._mean:
            self._mean[key] = self.case.mean_of(self.readings[start:end], self.readings[:start])
        return self._mean[key]


def enumerate_histories(segments: Segments, ticks: int, hazard: mf.Hazard) -> tuple[np.ndarray, float, Any]:
    """P(r_t = l), log evidence and E[x_{t+1}] after the first `ticks` readings, from all 2^(ticks-1) histories."""
    logs, lengths, means = [], [], []
    hazards = [float(hazard(age)) for age in range(ticks)]
    for flags in itertools.product([False, True], repeat=ticks - 1):
        starts = [0] + [t for t, change in enumerate(flags, start=1) if change]
        log = 0.0
        for start, end in zip(starts, [*starts[1:], ticks], strict=True):
            log += segments.marginal(start, end)
        for t in range(1, ticks):
            age = t - 1 - max(s for s in starts if s <= t - 1)  # r_{t-1}
            h = hazards[age]
            p = h if t in starts else 1.0 - h
            log += math.log(p) if p > 0 else -math.inf
        logs.append(log)
        lengths.append(ticks - 1 - starts[-1])
        h = hazards[lengths[-1]]
        means.append((1.0 - h) * segments.mean(starts[-1], ticks) + h * segments.mean(ticks, ticks))
    evidence = float(logsumexp(logs))
    share = np.exp(np.array(logs) - evidence)
    posterior = np.bincount(lengths, weights=share, minlength=ticks)
    return posterior, evidence, segments.case.outer(share @ np.array(means), ticks)


@cache
def segments_of(case: Case, seed: int, ticks: int) -> Segments:
    rng = np.random.default_rng(seed)
    return Segments(case, [(case.draw(rng), float(rng.choice(ZETAS))) for _ in range(ticks)])


def dense(run_length: mf.RunLength, ticks: int) -> np.ndarray:
    posterior = np.zeros(ticks)
    posterior[run_length.length] = run_length.weight
    return posterior


def mismatch(segments: Segments, hazard: mf.Hazard) -> float:
    """The largest disagreement between the detector and the enumeration, over every prefix."""
    fidelities = [mf.Fidelity(f"z{zeta}", zeta=zeta, cost=1.0) for zeta in ZETAS]
    detector = mf.Detector(segments.case.model(), fidelities, hazard, prune=None)
    worst = 0.0
    for t, (x, zeta) in enumerate(segments.readings, start=1):
        detector.update(x, f"z{zeta}")
        posterior, evidence, mean = enumerate_histories(segments, t, hazard)
        worst = max(
            worst,
            float(np.abs(dense(detector.run_length, t) - posterior).max()),
            abs(detector.log_evidence - evidence) / max(1.0, abs(evidence)),
            float(np.max(np.abs(detector.mean - mean) / np.maximum(1.0, np.abs(mean)))),
        )
    return worst


@pytest.mark.parametrize("name", HAZARDS)
@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_filter_equals_enumeration(case: Case, name: str) -> None:
    assert mismatch(segments_of(case, seed=3, ticks=7), mf.Hazard(HAZARDS[name])) < case.tolerance


@pytest.mark.slow
@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_filter_equals_enumeration_of_ten_ticks(case: Case) -> None:
    assert mismatch(segments_of(case, seed=11, ticks=10), mf.Hazard(0.2)) < case.tolerance


class _IgnoresFidelity(mf.Gaussian):
    """A wrong model: every reading counts in full. The harness must notice."""

    observe = None
    advance = None

    def update(self, stats, x, zeta):  # type: ignore[no-untyped-def]
        return super().update(stats, x, 1.0 if zeta > 0 else 0.0)


class _WrongVariance(mf.Gaussian):
    """Another: the predictive forgets the parameter's own uncertainty."""

    observe = None
    advance = None

    def log_predictive(self, stats, x, zeta):  # type: ignore[no-untyped-def]
        certain = np.array([np.full_like(stats[0], 1e12), stats[1]])
        return super().log_predictive(certain, x, zeta)


@pytest.mark.parametrize("wrong", [_IgnoresFidelity, _WrongVariance])
def test_the_harness_rejects_a_wrong_model(wrong: type[mf.Gaussian]) -> None:
    right = CASES[0]
    model = right.model()
    case = Case(
        "wrong", lambda: wrong(model.mean, model.var, model.noise_var), right.draw, right.log_marginal, right.mean
    )
    assert mismatch(segments_of(case, seed=3, ticks=6), mf.Hazard(0.15)) > 1e-3


def test_the_posterior_matrix_is_the_filtered_one() -> None:
    case = CASES[0]
    segments = Segments(case, [(x, 1.0) for x, _ in segments_of(case, seed=5, ticks=7).readings])
    table = [x for x, _ in segments.readings]
    trace = mf.run(mf.Detector(case.model(), hazard=0.15, prune=None), table, posterior=True)
    assert trace.posterior is not None
    assert trace.posterior.shape == (7, 7)
    for t in range(7):
        posterior, _, mean = enumerate_histories(segments, t + 1, mf.Hazard(0.15))
        np.testing.assert_allclose(trace.posterior[t, : t + 1], posterior, atol=1e-12)
        assert (trace.posterior[t, t + 1 :] == 0).all()
        assert trace.mean[t] == pytest.approx(mean, abs=1e-10)
        assert trace.run_length[t] == posterior.argmax()
