"""Hazards by run length."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import mfbocd as mf


def test_a_function_is_tabulated_and_held() -> None:
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
    ("make", "said"),
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
def test_bad_hazards_are_named(make, said: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises((ValueError, TypeError)) as error:
        make()
    assert said in str(error.value)
