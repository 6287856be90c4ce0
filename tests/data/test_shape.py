"""Detectors of changes of shape, estimated from the first readings."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

import mfbocd as mf
from mfbocd.calibrate import SHAPE_FEATURES, autocorrelation, block_length, block_prior, shape_detector

Array = NDArray[np.float64]
TICKS = 3000
T = np.arange(TICKS)


def noise(sd: float, seed: int) -> Array:
    return np.random.default_rng(seed).normal(0, sd, TICKS)


def found(x: Array, look: int = 300) -> list[int | None]:
    detector = shape_detector(x[:look])
    steps = [detector.update(float(v)) for v in x]
    return [step.changed_at for step in steps if step is not None and step.alarm]


def test_autocorrelation_against_sums() -> None:
    x = np.random.default_rng(1).normal(size=60)
    x[[5, 6, 40]] = np.nan
    r = x - np.nanmean(x)
    expected = [np.nanmean(r[: 60 - k] * r[k:]) / np.nanmean(r * r) for k in range(60)]
    np.testing.assert_allclose(autocorrelation(x), expected, atol=1e-12)
    x[:19], x[41:] = np.nan, np.nan  # 22 - 1 are left
    assert (autocorrelation(x)[22:] == 0.0).all()  # no pair is so far apart
    assert (autocorrelation(np.full(30, 0.1)) == 0.0).all()


@pytest.mark.parametrize(("period", "every"), [(50, 50), (24, 24), (20, 20), (12, 24), (9, 27)])
def test_a_block_is_a_period_or_several_short_ones(period: int, every: int) -> None:
    saw = (T % period) / period + noise(0.05, 2)
    assert block_length(saw[:300]) == every
    saw[50:80] = np.nan
    assert block_length(10.0 - 3.0 * saw[:300]) == every


def test_the_first_of_several_high_peaks_is_the_period() -> None:
    """A modulated wave correlates most at seven periods, but nearly as much at one."""
    x = np.sin(2 * np.pi * T / 24) * (1 + 1.0 * ((T // 24) % 7 > 4))
    rho = autocorrelation(x)
    assert rho[168] > 1.05 * rho[24]
    assert block_length(x) == 24


def test_a_series_without_a_period_has_blocks_of_half_its_length() -> None:
    assert block_length(np.linspace(0, 1, 200)) == 100
    assert block_length(np.full(41, 3.0)) == 20
    assert block_length(np.arange(20.0)) == 20
    with pytest.raises(ValueError, match="at least 20"):
        block_length(np.arange(19.0))


def test_the_prior_is_that_of_the_formula() -> None:
    x = 5.0 + 2.0 * np.random.default_rng(3).normal(size=100)
    blocks = mf.Blocks(20, ["mean", "log_sd", "slope", np.median])
    model = block_prior(blocks, x)
    assert isinstance(model, mf.Product)
    vectors = blocks.transform(x)
    middle = np.median(vectors, axis=0)
    square = ((vectors - middle) ** 2).sum(axis=0)
    sd = x.std()
    typical = np.array([(0.1 * sd) ** 2, 0.04, (0.1 * sd / 20) ** 2, square[3] / 5])
    var = (square + 2 * typical) / (5 - 1 + 2)
    parts = [part for part in model.parts if isinstance(part, mf.GaussianUnknown)]
    np.testing.assert_allclose([part.mean for part in parts], middle)
    np.testing.assert_allclose([part.scale / part.shape for part in parts], var)
    assert {(part.count, part.shape) for part in parts} == {(0.05, 1.5)}


def test_the_prior_of_few_or_missing_blocks() -> None:
    x = np.random.default_rng(4).normal(size=45)
    (one,) = {type(block_prior(mf.Blocks(20, ["mean"]), x[:20]))}
    assert one is mf.GaussianUnknown
    x[:15] = np.nan  # the first of two blocks is missing
    model = block_prior(mf.Blocks(20, ["mean"]), x)
    assert isinstance(model, mf.GaussianUnknown)
    assert model.mean == pytest.approx(x[20:40].mean())
    with pytest.raises(ValueError, match="mean cannot be computed from the first 19 readings in blocks of 20"):
        block_prior(mf.Blocks(20, ["mean"]), x[:19])


SINE = np.sin(2 * np.pi * T / 24)
CHANGED = {
    "level": SINE + 1.0,
    "amplitude": 2.0 * SINE,
    "period": np.sin(2 * np.pi * T / 16),
    "waveform": np.sign(SINE),
    "noise": SINE + noise(0.6, 5),
}


@pytest.mark.parametrize("kind", CHANGED)
def test_changes_of_many_kinds_in_a_series_that_oscillates(kind: str) -> None:
    x = np.where(T < 1800, SINE, CHANGED[kind]) + noise(0.2, 6)
    (at,) = found(x)
    assert at is not None
    assert abs(at - 1800) <= 24
    (again,) = found(1e6 * x - 3e7)  # in other units
    assert again == at


QUIET = {
    "sine": SINE + noise(0.3, 7),
    "two sines": SINE + 0.7 * np.sin(2 * np.pi * T / 37.3) + noise(0.2, 8),
    "sawtooth": (T % 30) / 30 + noise(0.1, 10),
    "exact sawtooth": (T % 30) / 30,
    "week": SINE * np.where((T // 24) % 7 > 4, 1.5, 1.0) + noise(0.3, 9),
    "constant": np.full(TICKS, 7.0),
}


@pytest.mark.parametrize("kind", QUIET)
def test_a_series_that_oscillates_forever_has_no_change(kind: str) -> None:
    assert found(QUIET[kind]) == []


def every_field(step: mf.Step | None) -> tuple[object, ...] | None:
    """Return a step in a form whose text has every field, and in which NaN equals itself."""
    return None if step is None else tuple(step)


def test_arguments_and_saving() -> None:
    x = SINE + noise(0.2, 11)
    detector = shape_detector(x[:100], every=48, hazard=0.01, alarm=mf.Alarm(10, 0.95))
    assert detector.blocks.every == 48
    assert detector.blocks.features == SHAPE_FEATURES
    assert detector.blocks.floor == pytest.approx(1e-3 * x[:100].std())
    assert detector.detector.alarm == mf.Alarm(10, 0.95)
    assert detector.detector.hazard.table.tolist() == [0.01]
    for v in x[:1000]:
        detector.update(v)
    twin = mf.BlockDetector.from_bytes(detector.to_bytes())
    for v in [*x[1000:1400], math.nan, None]:
        assert repr(every_field(detector.update(v))) == repr(every_field(twin.update(v)))
