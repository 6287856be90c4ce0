"""Streams of a fleet give the same results as single detectors."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import mfbocd as mf
from mfbocd._kernels.work_queue import BLOCK
from mfbocd.belief.state import START

from ..parts import PATIENCE
from ..registry import ALL, Case

FIDELITIES = [mf.Fidelity("low", 0.3, 1.0), mf.Fidelity("high", 1.0, 5.0)]


@pytest.mark.parametrize("prune", [None, mf.TopK(20), mf.Resample(20), (mf.Threshold(1e-5), mf.Resample(24))])
@pytest.mark.parametrize("case", ALL, ids=lambda c: c.name)
def test_a_fleet_equals_detectors(case: Case, prune) -> None:  # type: ignore[no-untyped-def]
    # compiled: more streams than a thread takes at a time; unbounded, more ticks than a state has memory for at first
    long = 40 if prune else START + 6
    n, ticks = (2, 25) if case.model().observe is None else (BLOCK + 2, long)
    rng = np.random.default_rng(0)
    arguments = {"hazard": 0.03, "policy": mf.Random([0.6, 0.4]), "prune": prune}
    fleet = mf.Fleet(n, case.model(), FIDELITIES, **arguments, seed=5, threads=2)
    alone = [mf.Detector(case.model(), FIDELITIES, **arguments, seed=5 + i) for i in range(n)]
    for _ in range(ticks):
        x = np.array([case.draw(rng) for _ in range(n)])
        chosen = fleet.choose()
        assert [FIDELITIES[j].name for j in chosen] == [d.choose().name for d in alone]
        step = fleet.update(x)
        steps = [d.update(row) for d, row in zip(alone, x, strict=True)]
        np.testing.assert_allclose(step.mean, [s.mean for s in steps], atol=1e-12, rtol=1e-12)
        np.testing.assert_allclose(step.p_change, [s.p_change for s in steps], atol=1e-12, rtol=0)
        for field in ("run_length", "alarm", "cost"):
            assert getattr(step, field).tolist() == [getattr(s, field) for s in steps]
    for i, d in enumerate(alone):
        np.testing.assert_allclose(fleet.run_length(i).weight, d.run_length.weight, atol=1e-12)
        assert fleet.extract(i).to_bytes() == d.to_bytes()
    assert fleet.spent == sum(d.spent for d in alone)
    np.testing.assert_allclose(fleet.log_evidence, [d.log_evidence for d in alone], rtol=1e-12)
    np.testing.assert_allclose(fleet.p_changed(5), [d.p_changed(5) for d in alone], atol=1e-12)
    np.testing.assert_allclose(fleet.mean, [d.mean for d in alone], rtol=1e-12)


def test_the_number_of_threads_changes_no_bit() -> None:
    fleets = [mf.Fleet(200, mf.Gaussian(0, 9, 1), threads=t, prune=mf.Resample(40)) for t in (1, 2, 3)]
    rng = np.random.default_rng(1)
    for _ in range(200):
        x = rng.normal(size=200)
        steps = [fleet.update(x) for fleet in fleets]
        for other in steps[1:]:
            np.testing.assert_array_equal(other.mean, steps[0].mean)
    assert len({fleet.extract(137).to_bytes() for fleet in fleets}) == 1


def test_fleets_in_several_threads_at_once() -> None:
    """Nothing is shared between fleets: four of them advanced by four threads end as one alone does."""
    x = np.random.default_rng(2).normal(size=(150, 100))

    def work(out: list[bytes]) -> None:
        fleet = mf.Fleet(100, mf.Gaussian(0, 9, 1), threads=2)
        for row in x:
            fleet.update(row)
        out.append(fleet.extract(63).to_bytes())

    results: list[bytes] = []
    threads = [threading.Thread(target=work, args=(results,)) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(timeout=PATIENCE)
    assert len(results) == 4
    assert len(set(results)) == 1


def test_fidelities_by_name_by_object_and_a_stream() -> None:
    def names(fidelity) -> list[str]:  # type: ignore[no-untyped-def]
        fleet = mf.Fleet(3, mf.Gaussian(), FIDELITIES, policy=mf.Always())
        fleet.choose()
        return [FIDELITIES[j].name for j in fleet.update([0.0, 1.0, 2.0], fidelity).choice]

    assert names("low") == ["low"] * 3
    assert names(FIDELITIES[0]) == ["low"] * 3
    assert names(["low", "high", "low"]) == ["low", "high", "low"]
    assert names([0, 1, 1]) == ["low", "high", "high"]
    assert names(None) == ["high"] * 3


def test_missing_readings() -> None:
    fleet = mf.Fleet(2, mf.Gaussian(0, 9, 1), hazard=0.1, missing="skip", prune=None)
    alone = mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.1, missing="skip", prune=None)
    for x in (1.0, None, 2.0):
        step = fleet.update([0.0, x])
        alone.update(x, "full")
        assert np.isnan(step.x[1]) == (x is None)
    assert fleet.mean[1] == alone.mean
    assert fleet.spent == 6.0


@pytest.mark.parametrize(
    ("x", "fidelity", "message"),
    [
        ([0.0, np.nan, 1.0], "low", "stream 1: x is nan"),
        ([0.0, 1.0, np.inf], "low", "stream 2: x must be finite"),
        ([0.0, "x", 1.0], "low", "must be a number"),
        ([0.0, 1.0], "low", "x must have one reading per stream, shape (3,), not (2,)"),
        ([0.0, 1.0, 2.0], "sonar", "fidelity must be one of low, high, not 'sonar'"),
        ([0.0, 1.0, 2.0], [0, 1, 2], "stream 2: fidelity index must lie in [0, 2), not 2"),
        ([0.0, 1.0, 2.0], ["low"], "fidelity must be one, or one per stream: 3"),
    ],
)
def test_bad_input_is_named_and_changes_nothing(x, fidelity, message: str) -> None:  # type: ignore[no-untyped-def]
    fleet = mf.Fleet(3, mf.Gaussian(), FIDELITIES)
    fleet.update([0.0, 0.1, 0.2], "low")
    before = [fleet.extract(i).to_bytes() for i in range(3)]
    with pytest.raises((ValueError, TypeError)) as error:
        fleet.update(x, fidelity)
    assert message in str(error.value)
    assert [fleet.extract(i).to_bytes() for i in range(3)] == before


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="n must be a whole number of at least 0, not -1"):
        mf.Fleet(-1, mf.Gaussian())
    with pytest.raises(ValueError, match="threads must be a whole number of at least 1, not 0"):
        mf.Fleet(2, mf.Gaussian(), threads=0)
    with pytest.raises(IndexError, match=r"stream must lie in \[0, 2\), not 2"):
        mf.Fleet(2, mf.Gaussian()).extract(2)
