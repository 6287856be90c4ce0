"""Periods: found where there is a season, not in noise; names of periods; noise from local lines.

The constants were chosen with seeds 0 to 199; the seeds here are others.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from mfbocd.calibrate import estimate_period, local_noise, period_of
from mfbocd.calibrate.red_noise import RedNoise

SEEDS = range(1000, 1200)


def ar(rng: np.random.Generator, n: int, phi: float) -> np.ndarray:
    x = rng.normal(size=n)
    x[0] /= math.sqrt(1 - phi**2)
    for t in range(1, n):
        x[t] += phi * x[t - 1]
    return x


NOISES = {
    "white": lambda rng, n: rng.normal(size=n),
    "ar.95": lambda rng, n: ar(rng, n, 0.95),
    "ar.8": lambda rng, n: ar(rng, n, 0.8),
    "walk": lambda rng, n: np.cumsum(rng.normal(size=n)),
    "walk+white": lambda rng, n: 0.3 * np.cumsum(rng.normal(size=n)) + rng.normal(size=n),
    "steps": lambda rng, n: np.cumsum((rng.random(n) < 4 / n) * rng.normal(0, 5, n)) + rng.normal(size=n),
    "spikes": lambda rng, n: (rng.random(n) < 0.02) * rng.normal(0, 15, n) + rng.normal(size=n),
    "line": lambda rng, n: np.linspace(0, 10, n) + rng.normal(size=n),
    "parabola": lambda rng, n: 30 * np.linspace(0, 1, n) ** 2 + rng.normal(size=n),
    "exponential": lambda rng, n: np.exp(np.linspace(0, 6, n)) + rng.normal(size=n),
}


def season(shape: str, period: float, n: int, rng: np.random.Generator) -> np.ndarray:
    """Seasons of amplitude 1 and random phase."""
    turns = np.arange(n) / period + rng.random()
    part = turns % 1
    if shape == "two sines":
        return np.sin(2 * np.pi * turns) + 0.7 * np.sin(4 * np.pi * turns + 6 * rng.random())
    if shape == "weekend":
        return np.where(np.floor(turns) % 7 < 5, 1.0, 0.3) * np.sin(2 * np.pi * turns)
    return {"sine": np.sin(2 * np.pi * turns), "sawtooth": 2 * part - 1, "square": np.sign(part - 0.5)}[shape]


@pytest.mark.parametrize("n", [100, *(pytest.param(n, marks=pytest.mark.slow) for n in (300, 1200))])
@pytest.mark.parametrize("kind", ["white", "ar.95", "walk"])
def test_noise_has_no_period(kind: str, n: int) -> None:
    seeds = SEEDS if n < 1000 else SEEDS[:60]
    found = sum(estimate_period(NOISES[kind](np.random.default_rng([seed, n]), n)).significant for seed in seeds)
    assert found <= 1


@pytest.mark.slow
@pytest.mark.parametrize("n", [100, 300])
@pytest.mark.parametrize("kind", sorted(set(NOISES) - {"white", "ar.95", "walk"}))
def test_other_quiet_series_have_no_period(kind: str, n: int) -> None:
    seeds = SEEDS[:60]
    found = sum(estimate_period(NOISES[kind](np.random.default_rng([seed, n]), n)).significant for seed in seeds)
    assert found <= 1


FOUND = [
    *((shape, 24.0, 300, "white", 1.0) for shape in ("sine", "two sines", "sawtooth", "square", "weekend")),
    *((shape, 24.0, 1200, "white", 1.0) for shape in ("sine", "sawtooth", "weekend")),
    *((shape, 168.3, 1200, "white", 1.0) for shape in ("sine", "two sines", "sawtooth", "square")),
    *((shape, 300.0, 1200, "white", 1.0) for shape in ("sine", "two sines", "square")),
    *(("sine", 24.0, 300, noise, 1.0) for noise in ("spikes", "line", "parabola")),
    ("sine", 24.0, 300, "steps", 2.0),  # the changes of level are part of the noise
    ("sine", 24.0, 1200, "ar.8", 1.67),
    ("square", 12.3, 100, "white", 1.0),
    ("sine", 25.0, 100, "white", 2.5),
    ("sine", 25.0, 100, "line", 2.5),
]


@pytest.mark.parametrize(("shape", "period", "n", "noise", "amplitude"), FOUND)
@pytest.mark.slow
def test_a_season_is_found(shape: str, period: float, n: int, noise: str, amplitude: float) -> None:
    """Of 40 series at least 38, with the period within 2 %; of a season with weekends also the week."""
    good = 0
    for seed in SEEDS[:40]:
        rng = np.random.default_rng([seed, n, 7])
        found = estimate_period(amplitude * season(shape, period, n, rng) + NOISES[noise](rng, n))
        truths = [period, 7 * period] if shape == "weekend" else [period]
        good += found.significant and min(abs(found.period / truth - 1) for truth in truths) < 0.02
    assert good >= 38


@pytest.mark.parametrize(("n", "period"), [(300, 7.3), (300, 24.0), (1200, 24.4), (1200, 168.3)])
@pytest.mark.slow
def test_the_phase_drifts_by_less_than_a_tenth_of_a_period(n: int, period: float) -> None:
    amplitude, drifts = 1.5, []
    for seed in SEEDS:
        rng = np.random.default_rng([seed, n, 8])
        found = estimate_period(amplitude * season("sine", period, n, rng) + rng.normal(size=n))
        drifts.append(abs(n / found.period - n / period))
    assert np.mean(np.array(drifts) < 0.1) >= 0.95
    limit = math.sqrt(6 / n) / math.pi / amplitude  # standard deviation of n / period at the Cramer-Rao bound
    assert np.sqrt(np.mean(np.square(drifts))) < 1.3 * limit


@pytest.mark.parametrize("n", [44, 47])
def test_the_shortest_period_is_found(n: int) -> None:
    """At the highest frequency considered, rounding must not exclude the harmonics of longer seasons."""
    rng = np.random.default_rng(0)
    found = estimate_period(np.cos(np.pi * np.arange(n) * (1 - 2 / n)) + 0.01 * rng.normal(size=n))
    assert found.significant
    assert found.period == pytest.approx(2 / (1 - 2 / n), rel=1e-3)


def test_readings_may_be_missing() -> None:
    good = 0
    for seed in SEEDS[:40]:
        rng = np.random.default_rng(seed)
        x = season("sine", 24.0, 300, rng) + rng.normal(size=300)
        x[rng.random(300) < 0.2] = np.nan
        found = estimate_period(x)
        good += found.significant and abs(found.period / 24 - 1) < 0.02
    assert good >= 38


def test_the_number_of_harmonics_follows_the_shape() -> None:
    t = np.arange(1200)
    rng = np.random.default_rng(1000)
    noise = 0.5 * rng.normal(size=1200)
    assert estimate_period(np.sin(2 * np.pi * t / 24) + noise).harmonics == 1
    assert estimate_period(np.sin(2 * np.pi * t / 24) + np.sin(2 * np.pi * t / 8) + noise).harmonics == 3
    square = estimate_period(np.sign(t % 24 - 11.5) + noise)
    assert square.harmonics in (5, 7)  # its even harmonics are 0
    pulse = estimate_period(5.0 * (t % 24 == 3) + noise)
    assert pulse.harmonics == 8


def test_a_season_that_is_weaker_than_its_harmonic_is_found() -> None:
    t = np.arange(600)
    x = (
        0.8 * np.sin(2 * np.pi * t / 60)
        + 2 * np.sin(2 * np.pi * t / 20)
        + np.random.default_rng(1000).normal(size=600)
    )
    found = estimate_period(x)
    assert found.period == pytest.approx(60, rel=0.005)
    assert found.harmonics == 3


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_a_season_without_noise_is_exact(scale: float) -> None:
    found = estimate_period(scale * np.sin(2 * np.pi * np.arange(400) / 19.7))
    assert found.period == pytest.approx(19.7, rel=1e-7)
    assert found.significant
    assert found.strength == pytest.approx(1.0, abs=1e-6)


def test_shift_and_scale_change_nothing() -> None:
    rng = np.random.default_rng(1000)
    x = season("sine", 24.0, 300, rng) + rng.normal(size=300)
    plain, moved = estimate_period(x), estimate_period(-1e3 + 50.0 * x)
    assert moved.period == pytest.approx(plain.period, rel=1e-9)
    assert moved.strength == pytest.approx(plain.strength, rel=1e-7)
    assert plain.strength == pytest.approx(1 / 3, abs=0.08)


def test_the_longest_period_is_respected() -> None:
    t = np.arange(400)
    x = 3 * np.sin(2 * np.pi * t / 40) + np.sin(2 * np.pi * t / 11) + np.random.default_rng(5).normal(size=400)
    assert estimate_period(x).period == pytest.approx(40, rel=0.01)
    assert estimate_period(x, longest=20).period == pytest.approx(11, rel=0.01)
    with pytest.raises(ValueError, match="longest must exceed 2 ticks, not 2"):
        estimate_period(x, 2)
    with pytest.raises(ValueError, match=r"x must be one series, not an array of shape \(2, 200\)"):
        estimate_period(x.reshape(2, 200))


@pytest.mark.parametrize(
    "x", [[], [1.0] * 15, np.zeros(100), np.full(100, np.nan), 3.0 + 2.0 * np.arange(100), [1e308] * 50]
)
def test_too_few_or_constant_readings_have_no_period(x) -> None:  # type: ignore[no-untyped-def]
    found = estimate_period(x)
    assert math.isnan(found.period)
    assert (found.strength, found.significant, found.harmonics) == (0.0, False, 1)


# --- the noise without a season ---------------------------------------------------------------------------------


def test_the_transform_is_the_orthonormal_cosine_transform() -> None:
    from scipy import fft

    for n in (16, 17, 101):
        x = np.random.default_rng(n).normal(size=n)
        x -= x.mean()
        noise = RedNoise(n)
        np.testing.assert_allclose(noise.forward(x)[1:], fft.dct(x, norm="ortho")[1:], atol=1e-12)
        np.testing.assert_allclose(noise.backward(noise.forward(x)), x, atol=1e-12)


@pytest.mark.parametrize("kind", ["white", "ar.8", "walk"])
def test_the_spectrum_of_noise_is_recovered(kind: str) -> None:
    n = 2000
    noise = RedNoise(n)
    w = np.pi * np.arange(1, n) / n
    phi = {"white": 0.0, "ar.8": 0.8, "walk": 1.0}[kind]
    truth = 1 / (1 + phi**2 - 2 * phi * np.cos(w))
    x = NOISES[kind](np.random.default_rng(1000), n)
    ratio = noise.fit(noise.forward(x)).root[1:] ** 2 / truth
    assert np.abs(np.log(ratio[10:])).max() < math.log(1.5)


# --- names of periods -------------------------------------------------------------------------------------------


def test_names_of_periods() -> None:
    start = datetime(2024, 3, 1, tzinfo=UTC)
    hours = [start + timedelta(hours=i) for i in range(48)]
    assert period_of("daily", hours) == pytest.approx(24)
    assert period_of("weekly", [time.isoformat() for time in hours]) == pytest.approx(168)
    assert period_of("hourly", np.arange(0, 3600, 300)) == pytest.approx(12)
    assert period_of("yearly", np.arange("2001-01-01", "2003-01-01", dtype="datetime64[D]")) == pytest.approx(
        365.2425
    )
    assert period_of("yearly", [f"{2000 + i // 12}-{1 + i % 12:02}" for i in range(48)]) == pytest.approx(
        12, rel=1e-3
    )
    gaps = [*range(0, 3000, 60), *range(7200, 9000, 60)]
    assert period_of("hourly", gaps) == pytest.approx(60)


@pytest.mark.parametrize(
    ("name", "times", "message"),
    [
        ("monthly", [0, 1, 2], "period must be one of hourly, daily, weekly, yearly, not 'monthly'"),
        ("daily", [0, 3600], "needs at least 3 times, not 2"),
        ("daily", [0, 3600, 3600, 7200], "times must increase: row 2 is not after the row before"),
        ("daily", [0, 7200, 3600], "times must increase: row 2"),
        ("daily", np.cumsum([1, 100, 5000, 20, 700]), "needs readings at equal intervals: 100% of the intervals"),
        ("hourly", [0, 1800, 3600], 'the period "hourly" must have more than 2 ticks, but a tick is 1800 s'),
        ("daily", [True, False, True], "times must be datetimes, ISO 8601 text or numbers"),
        ("daily", [0.0, math.nan, 2.0], "times must not be missing"),
        ("daily", np.array(["2024-01-01", "NaT", "2024-01-03"], dtype="datetime64[s]"), "times must not be missing"),
        ("daily", ["2024-01-01", "noon", "2024-01-03"], "noon"),
    ],
)
def test_times_without_a_period_are_refused(name: str, times, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises((ValueError, TypeError)) as error:
        period_of(name, times)
    assert message in str(error.value)


# --- noise from local lines -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["white", "steps", "spikes", "line", "parabola", "exponential"])
def test_the_noise_is_found_within_a_tenth(kind: str) -> None:
    found = [local_noise(2.5 * NOISES[kind](np.random.default_rng([seed, 9]), 600)) for seed in SEEDS[:40]]
    assert np.mean(np.abs(np.array(found) / 2.5 - 1) < 0.1) >= 0.95
    assert np.mean(found) == pytest.approx(2.5, rel=0.03)


def test_frequent_changes_of_level_are_not_noise() -> None:
    rng = np.random.default_rng(1000)
    x = np.repeat(rng.normal(0, 20, 30), 20) + rng.normal(size=600)
    assert local_noise(x) == pytest.approx(1.0, abs=0.1)


def test_the_noise_of_an_autoregression_is_near_its_innovations() -> None:
    found = [local_noise(NOISES["ar.8"](np.random.default_rng([seed, 9]), 600)) for seed in SEEDS[:40]]
    assert np.mean(found) == pytest.approx(0.95, abs=0.03)


def test_gaps_units_and_small_samples() -> None:
    rng = np.random.default_rng(1000)
    x = rng.normal(size=400) + 0.7 * np.arange(400)
    x[rng.random(400) < 0.3] = np.nan
    assert local_noise(x) == pytest.approx(1.0, abs=0.15)
    assert local_noise(1e200 * x) == pytest.approx(1e200 * local_noise(x), rel=1e-9)
    assert local_noise(1e-200 * x + 1e-200) == pytest.approx(1e-200 * local_noise(x), rel=1e-6)
    few = [local_noise(rng.normal(size=6)) for _ in range(200)]
    assert np.sqrt(np.mean(np.square(few))) == pytest.approx(1.0, abs=0.25)
    assert local_noise([1.0, 2.0, 5.0]) == local_noise([]) == 0.0
    assert local_noise(3.0 + 2.0 * np.arange(40)) == pytest.approx(0.0, abs=1e-12)


def test_readings_that_seldom_vary_have_noise() -> None:
    x = np.zeros(100)
    x[::20] = 1.0
    assert 0.05 < local_noise(x) < 0.5
