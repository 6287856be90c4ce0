"""Seasonal: equal to least squares, exact at any age, and blind to its own season."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import mfbocd as mf

FIDELITIES = [mf.Fidelity("none", 0.0, 0.0), mf.Fidelity("low", 0.3, 1.0), mf.Fidelity("high", 1.0, 5.0)]


def design(age: np.ndarray, period: Fraction, harmonics: int, slope: bool = False) -> np.ndarray:
    """Regressors from exact fractions of a turn."""
    columns = [np.ones(age.size)] + ([age.astype(float)] if slope else [])
    for j in range(1, harmonics + 1):
        turns = [float((j * int(t) / period) % 1) for t in age]
        columns += [np.cos(2 * np.pi * np.array(turns))]
        columns += [np.sin(2 * np.pi * np.array(turns))] if 2 * j != period else []
    return np.stack(columns, axis=1)


@pytest.mark.parametrize(
    ("period", "harmonics", "slope"),
    [
        (Fraction(12), 1, None),
        (Fraction(12), 6, None),
        (Fraction(29, 4), 3, 0.05),
        (Fraction(7), 3, -0.2),
        (Fraction(9, 4), 1, None),
    ],
)
def test_coefficients_are_a_ridge_fit(period: Fraction, harmonics: int, slope: float | None) -> None:
    """With known noise and readings missing: numpy's least squares with the prior as additional rows."""
    rng = np.random.default_rng(harmonics)
    age = np.sort(rng.permutation(60)[:45])
    u = design(age, period, harmonics, slope is not None)
    x = 4.0 + rng.normal(size=age.size)
    zeta = rng.uniform(0.2, 1.0, age.size)
    count = rng.uniform(0.1, 3.0, u.shape[1])
    model = mf.Seasonal(float(period), harmonics, 1.5, slope, count, noise_var=2.5)
    stats = model.prior()
    for t in range(60):
        at = np.flatnonzero(age == t)
        stats = model.update(stats, float(x[at[0]]), float(zeta[at[0]])) if at.size else model.skip(stats)
    prior = np.zeros(u.shape[1])
    prior[:2] = [1.5, slope or 0.0]
    rows = np.vstack([np.sqrt(zeta)[:, None] * u, np.diag(np.sqrt(count))])
    truth = np.linalg.lstsq(rows, np.append(np.sqrt(zeta) * x, np.sqrt(count) * prior), rcond=None)[0]
    mean, var = model.parameter(stats)
    np.testing.assert_allclose(mean, truth, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(var, 2.5 * np.diag(np.linalg.inv(rows.T @ rows)), rtol=1e-9)
    ahead = design(np.array([60]), period, harmonics, slope is not None)[0]
    assert float(model.predictive(stats)[0]) == pytest.approx(ahead @ truth, rel=1e-9)


@pytest.mark.parametrize("period", [Fraction(24), Fraction(2923, 8), Fraction(10**6 + 1, 2**10)])
def test_a_regime_of_ten_million_ticks_is_still_exact(period: Fraction) -> None:
    model = mf.Seasonal(float(period), 2, count=1.0, noise_var=1.0)
    age = 10_000_000 + 7 * np.arange(100)
    u = design(age, period, 2)
    x = u @ [5.0, 1.0, -2.0, 0.5, 0.25]
    stats = model.prior()
    for t, value in zip(age, x, strict=True):
        stats[-1] = t  # as if all between had been skipped
        stats = model.update(stats, float(value), 1.0)
    truth = np.linalg.lstsq(np.vstack([u, np.eye(5)]), np.append(x, np.zeros(5)), rcond=None)[0]
    np.testing.assert_allclose(model.parameter(stats)[0], truth, rtol=1e-11)


def test_the_highest_harmonic_has_no_sine() -> None:
    sizes = [mf.Seasonal(period, 3).parameter(mf.Seasonal(period, 3).prior())[0].size for period in (6, 6.5, 7)]
    assert sizes == [6, 7, 7]
    model = mf.Seasonal(4, 2, count=1e-9, noise_var=1)
    stats = model.prior()
    for x in (1.0, 5.0, 2.0, 9.0) * 3:
        stats = model.update(stats, x, 1.0)
    ahead = []
    for _ in range(4):
        ahead.append(float(model.predictive(stats)[0]))
        stats = model.skip(stats)
    np.testing.assert_allclose(ahead, [1, 5, 2, 9], rtol=1e-7)  # all harmonics: any four numbers


def test_a_season_ages_at_ticks_without_a_reading() -> None:
    model = mf.Seasonal(5, count=1e-6, noise_var=1)
    detector = mf.Detector(model, FIDELITIES, [0.0] * 40 + [1e-9], missing="skip", policy=mf.Always("high"))
    for t in range(33):
        detector.update(None if t % 3 == 1 else 2.0 + 3.0 * math.cos(2 * math.pi * t / 5), "high")
    assert detector.mean == pytest.approx(2.0 + 3.0 * math.cos(2 * math.pi * 33 / 5), abs=1e-4)


def test_count_is_given_for_all_for_groups_or_for_each() -> None:
    def roots(model: mf.Seasonal) -> list[float]:
        size = model.parameter(model.prior())[0].size
        return [round(float(model.prior()[j * (j + 1) // 2 + j] ** 2), 9) for j in range(size)]

    assert roots(mf.Seasonal(9, 2)) == [1, 1, 1, 1, 1]
    assert roots(mf.Seasonal(9, 2, slope=0)) == [1, 100, 1, 1, 1, 1]
    assert roots(mf.Seasonal(9, 2, count=3)) == [3] * 5
    assert roots(mf.Seasonal(9, 2, count=(3, 4))) == [3, 4, 4, 4, 4]
    assert roots(mf.Seasonal(4, 2, slope=1, count=(3, 4, 5))) == [3, 4, 5, 5, 5]
    assert roots(mf.Seasonal(9, 1, count=(3, 4, 5))) == [3, 4, 5]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mf.Seasonal(2), "Seasonal.period must exceed 2 ticks"),
        (lambda: mf.Seasonal("daily"), "Seasonal.period must be a number, not 'daily'"),
        (lambda: mf.Seasonal(math.inf), "Seasonal.period must be finite"),
        (lambda: mf.Seasonal(7, 0), "Seasonal.harmonics must be a whole number of at least 1, not 0"),
        (lambda: mf.Seasonal(7, 4), "Seasonal.harmonics must be at most period / 2, 3, not 4"),
        (lambda: mf.Seasonal(7, 3, slope=math.nan), "Seasonal.slope must be finite"),
        (lambda: mf.Seasonal(7, 3, count=(1, 2, 3)), "Seasonal.count must be one number or 7"),
    ],
)
def test_bad_parameters_are_named(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises((ValueError, TypeError)) as error:
        make()
    assert message in str(error.value)


@pytest.mark.parametrize("slope", [None, 0.3])
def test_a_model_equals_the_one_made_from_its_spec(slope: float | None) -> None:
    model = mf.Seasonal(4, 2, 1.0, slope, noise_var=5)
    twin = mf.Seasonal(**model.spec())
    np.testing.assert_array_equal(twin.prior(), model.prior())
    assert twin.spec() == model.spec()
    assert repr(twin) == repr(model)
    ahead = [float(m.predictive(m.skip(m.prior()))[0]) for m in (model, twin)]
    assert ahead == [1.0 + (slope or 0.0)] * 2


def test_a_change_within_the_season_is_found_and_the_season_is_not_a_change() -> None:
    rng = np.random.default_rng(0)
    t = np.arange(600)
    season = 3.0 * np.sin(2 * np.pi * t / 24) + rng.normal(size=600)
    detector = mf.Detector(mf.Seasonal(24, count=0.1), hazard=1 / 500)
    assert mf.run(detector, season.tolist()).changes == []
    (found,) = mf.run(mf.Detector(mf.Seasonal(24, count=0.1), hazard=1 / 500), (season + 3.0 * (t >= 400))).changes
    assert found.changed_at == pytest.approx(400, abs=3)
