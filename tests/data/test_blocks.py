"""Block features, and detectors on them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

import mfbocd as mf

NAMED = ["mean", "log_sd", "log_sd_diff", "log_sd_diff2", "max", "min", "slope", "harmonics:2"]


def test_features_are_those_of_the_formulas() -> None:
    x = np.random.default_rng(1).normal(3.0, 2.0, 16)
    t = np.arange(16)
    waves = [abs(np.sum(x * np.exp(-2j * np.pi * k * t / 16))) for k in (1, 2)]
    expected = [
        x.mean(),
        math.log(x.std()),
        math.log(np.diff(x).std()),
        math.log(np.diff(x, 2).std()),
        x.max(),
        x.min(),
        np.polyfit(t, x, 1)[0],
        *(math.log(2 * w**2 / 16**2) for w in waves),
    ]
    blocks = mf.Blocks(16, NAMED)
    np.testing.assert_allclose(blocks.transform(x), [expected], rtol=1e-9)
    assert blocks.names == [*NAMED[:-1], "harmonic_1", "harmonic_2"]
    assert blocks.dimension == 9


def test_a_harmonic_is_the_power_of_its_wave() -> None:
    wave = 3.0 * np.sin(2 * np.pi * 2 * np.arange(20) / 20)
    power = np.exp(mf.Blocks(20, ["harmonics"]).transform(wave)[0])
    np.testing.assert_allclose(power, [0, 4.5, 0, 0, 0, 0], atol=1e-12)  # the variance of the wave


def test_push_gives_the_rows_of_transform() -> None:
    x = np.random.default_rng(2).normal(size=50)
    x[[3, 4, 17]] = np.nan
    blocks = mf.Blocks(8, NAMED)
    pushed = [blocks.push(v) for v in x]
    assert [i for i, v in enumerate(pushed) if v is not None] == [7, 15, 23, 31, 39, 47]
    np.testing.assert_array_equal([v for v in pushed if v is not None], blocks.transform(x))
    assert blocks.ticks == 50


def test_missing_readings() -> None:
    x = np.array([1.0, 2.0, np.nan, 4.0, 5.0, 6.0, 7.0, 8.0])
    mean, slope, step = mf.Blocks(8, ["mean", "slope", "log_sd_diff"]).transform(x)[0]
    assert (mean, slope) == (pytest.approx(33 / 7), pytest.approx(1.0))
    assert step < -20  # every known difference is 1; the two beside the gap are left out
    line = np.arange(1.0, 9.0)
    harmonics = mf.Blocks(8, ["harmonics"])
    np.testing.assert_allclose(harmonics.transform(x), harmonics.transform(line))
    x[3:6] = np.nan  # half are left
    assert np.isfinite(mf.Blocks(8, ["mean"]).transform(x)).all()
    x[6] = np.nan
    assert np.isnan(mf.Blocks(8, ["mean", "harmonics"]).transform(x)).all()
    assert mf.Blocks(4, ["mean"]).push(None) is None


def test_a_constant_block_is_finite() -> None:
    features = mf.Blocks(8, NAMED, floor=0.01).transform(np.full(8, 5.0))
    np.testing.assert_allclose(features[0, 1:4], math.log(0.01))
    assert np.isfinite(features).all()


def test_functions_are_features_that_cannot_be_saved() -> None:
    blocks = mf.Blocks(4, ["mean", np.median])
    np.testing.assert_array_equal(blocks.transform([1, 2, np.nan, 9]), [[4.0, 2.0]])
    assert blocks.names == ["mean", "median"]
    with pytest.raises(TypeError, match="cannot be saved"):
        blocks.to_bytes()


@pytest.mark.parametrize("at", [0, 3, 16, 21])
def test_saved_blocks_continue_with_the_same_bits(at: int) -> None:
    x = np.random.default_rng(3).normal(size=40)
    x[18] = np.nan
    blocks = mf.Blocks(8, NAMED, floor=1e-4)
    for v in x[:at]:
        blocks.push(v)
    twin = mf.Blocks.from_bytes(blocks.to_bytes())
    assert repr(twin) == repr(blocks)
    for v in x[at:]:
        np.testing.assert_array_equal(blocks.push(v), twin.push(v))
    assert twin.to_bytes() == blocks.to_bytes()


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[1]", mf.Blocks(4, ["mean"]).to_bytes().replace(b'"ticks": 0', b'"ticks": 3')]
)
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not saved blocks"):
        mf.Blocks.from_bytes(data)


@pytest.mark.parametrize(
    ("every", "features", "error", "message"),
    [
        (3, ["mean"], ValueError, "Blocks.every"),
        (8.0, ["mean"], TypeError, "Blocks.every"),
        (8, "mean", TypeError, "sequence"),
        (8, [], ValueError, "contain a feature"),
        (8, ["average"], ValueError, "not 'average'"),
        (8, [3], ValueError, "not 3"),
        (8, ["mean:2"], ValueError, "not 'mean:2'"),
        (8, ["log_sd:2"], ValueError, "not 'log_sd:2'"),
        (8, ["harmonics:5"], ValueError, "1 to 4"),
        (8, ["harmonics:x"], ValueError, "1 to 4"),
    ],
)
def test_refusals(every: object, features: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        mf.Blocks(every, features)  # type: ignore[arg-type]


def test_a_reading_that_is_refused_changes_nothing() -> None:
    blocks = mf.Blocks(4, ["mean"])
    blocks.push(1.0)
    before = blocks.to_bytes()
    for bad, error in (("2", TypeError), (math.inf, ValueError)):
        with pytest.raises(error):
            blocks.push(bad)
    assert blocks.to_bytes() == before


# --- a detector of blocks ---------------------------------------------------------------------------------------


def waves(change: int, ticks: int = 1200, seed: int = 4) -> NDArray[np.float64]:
    """A sine that becomes a square wave of the same level, power and period."""
    t = np.arange(ticks)
    sine = np.sqrt(2) * np.sin(2 * np.pi * t / 24)
    wave: NDArray[np.float64] = np.where(t < change, sine, np.sign(sine))
    return wave + np.random.default_rng(seed).normal(0, 0.1, ticks)


def watch(every: int = 24) -> mf.BlockDetector:
    blocks = mf.Blocks(every, ["mean", "log_sd", "log_sd_diff"])
    parts = [mf.GaussianUnknown(mean, 0.05, 2, 0.02) for mean in (0.0, 0.0, -1.0)]
    return mf.BlockDetector(blocks, mf.Detector(mf.Product(*parts), hazard=0.01, missing="skip"))


def test_changes_are_reported_in_ticks_of_the_readings() -> None:
    detector = watch()
    steps = [detector.update(x) for x in waves(720)]
    assert [step.tick for step in steps] == list(range(1200))
    assert [step.x for step in steps] == waves(720).tolist()
    alarms = [step for step in steps if step.alarm]
    assert [step.changed_at for step in alarms] == [720]
    assert alarms[0].tick < 720 + 4 * 24
    assert alarms[0].tick % 24 == 23
    assert steps[-1].run_length == 1200 - 720 - 1
    assert detector.ticks == 1200
    assert detector.last_block is not None
    np.testing.assert_array_equal(detector.last_block.x, detector.blocks.transform(waves(720))[-1])


def test_a_step_within_a_block_has_no_news() -> None:
    detector = watch()
    steps = [detector.update(x) for x in waves(720, ticks=30)]
    within = steps[24:]
    assert {step.p_change for step in within} == {steps[23].p_change}
    assert {step.mean for step in within} == {steps[23].mean}
    assert [step.run_length for step in within] == list(range(steps[23].run_length + 1, steps[23].run_length + 7))


def test_a_gap_in_the_readings_is_no_change() -> None:
    x = waves(10**6)
    x[480:840] = np.nan
    x[100] = np.nan
    detector = watch()
    missing = []
    for v in x:
        assert not detector.update(v).alarm
        if detector.blocks.remaining == 24 and detector.last_block is not None:
            missing.append(detector.last_block.x is None)
    assert missing == [20 <= i < 35 for i in range(50)]


@pytest.mark.parametrize("partial", [True, False])
def test_one_feature_that_is_missing(partial: bool) -> None:
    """No difference of this block is known: a `Product` uses the mean, other models use nothing."""
    blocks = mf.Blocks(4, ["mean", "log_sd_diff"])
    product = mf.Product(mf.Gaussian(0, 9, 1), mf.Gaussian(0, 9, 1))
    model = product if partial else mf.MultivariateGaussian([0, 0], 9, 1)
    detector = mf.BlockDetector(blocks, mf.Detector(model, missing="skip"))
    for x in [1.0, np.nan, 3.0]:
        detector.update(x)
    detector.update(None)
    step = detector.last_block
    assert step is not None
    assert (step.x is not None) == partial
    assert step.mean[0] == pytest.approx(1.8 * (1 - 1 / 250) if partial else 0.0)


@pytest.mark.parametrize("at", [0, 30, 48])
def test_a_saved_detector_of_blocks_continues_with_the_same_bits(at: int) -> None:
    x = waves(48, ticks=96)
    detector = watch(12)
    for v in x[:at]:
        detector.update(v)
    twin = mf.BlockDetector.from_bytes(detector.to_bytes())
    for v in x[at:]:
        assert detector.update(v) == twin.update(v)
    assert twin.to_bytes() == detector.to_bytes()


def test_detectors_of_blocks_that_do_not_fit() -> None:
    blocks = mf.Blocks(4, ["mean", "max"])
    with pytest.raises(ValueError, match=r"2 features, mean, max, .* has 1 numbers"):
        mf.BlockDetector(blocks, mf.Detector(mf.Gaussian(0, 9, 1)))
    model = mf.Product(mf.Gaussian(0, 9, 1), mf.Gaussian(0, 9, 1))
    two = [mf.Fidelity("a", 0.1, 1), mf.Fidelity("b", 1.0, 9)]
    with pytest.raises(ValueError, match="one fidelity, not 2"):
        mf.BlockDetector(blocks, mf.Detector(model, two))
    used = mf.Detector(model)
    used.update([1.0, 2.0])
    with pytest.raises(ValueError, match="seen 1 blocks, but 0 readings"):
        mf.BlockDetector(blocks, used)
    for data in (b"", b"abc", b"\x05\x00\x00\x00abcde"):
        with pytest.raises(ValueError, match=r"not (a )?saved"):
            mf.BlockDetector.from_bytes(data)
