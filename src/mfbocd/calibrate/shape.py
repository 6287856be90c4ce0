"""Detectors of changes of shape: block features with a prior estimated from the first readings."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..belief.alarm import Alarm
from ..belief.hazard import Hazard, Learned
from ..belief.pruning import Resample
from ..detector.blocks import BlockDetector
from ..detector.detector import Detector
from ..inputs.blocks import Blocks
from ..inputs.readings import floats
from ..models import GaussianUnknown, Model, Product
from .dependence import autocorrelation

Array = NDArray[np.float64]

SHAPE_FEATURES = ("mean", "log_sd", "log_sd_diff", "log_sd_diff2", "harmonics")
"""Features that describe the level, the spread, the roughness and the waveform of a block."""
_SHORTEST = 20  # readings: shorter blocks consist of several periods
_CLOSE = 0.7  # of the highest autocorrelation: the first peak above it is the period, the others its multiples
FLOOR = 1e-3  # of the standard deviation of the readings
_LOG_SD = 0.2  # of a log feature within a regime, and
_LEVEL_SD = 0.1  # of a level in units of the standard deviation of the readings, as long as few blocks are known;
_WORTH = 2.0  # they are worth this number of blocks
_COUNT = 0.05  # a change moves a feature by about sqrt(1 / 0.05) = 4.5 standard deviations within a regime
_SHAPE = 1.5  # three degrees of freedom, the fewest with a finite expected variance


def block_length(readings: ArrayLike) -> int:
    """Return a block length for an oscillating series: the period, or a multiple of a period below 20 readings.

    The period is the first peak of the autocorrelation, after its first negative value, that reaches 0.7 times the
    highest peak. Without a positive peak it is half the series.

    Parameters
    ----------
    readings : ArrayLike
        The first readings, shape (T,), NaN where missing. Periods up to T / 2 are found.

    Returns
    -------
    int
        Readings per block, at most T.

    Raises
    ------
    ValueError
        If there are fewer than 20 readings, or they have several dimensions.

    Examples
    --------
    >>> t = np.arange(200)
    >>> block_length(np.sin(2 * np.pi * t / 35)), block_length(np.sin(2 * np.pi * t / 12))
    (35, 24)
    """
    rho = autocorrelation(readings)
    negative = np.flatnonzero(rho < 0.0)
    start = max(int(negative[0]) if negative.size else 0, 8)
    inner = rho[start : rho.size // 2]
    tops = 1 + np.flatnonzero((inner[1:-1] >= inner[:-2]) & (inner[1:-1] > inner[2:]))
    tops = tops[inner[tops] > 0.0]
    high = tops[inner[tops] >= _CLOSE * inner[tops].max(initial=0.0)]
    period = start + int(high[0]) if high.size else rho.size // 2
    return min(period * math.ceil(_SHORTEST / period), rho.size)


def block_prior(blocks: Blocks, readings: ArrayLike) -> Model:
    """Return a model of block features: independent Gaussians with unknown mean and variance.

    The prior mean of a feature is its median over the blocks of the first readings, and the prior variance within a
    regime combines their spread s^2 with a typical one s_0^2, which is worth two blocks:

        var = (sum_b (v_b - median)^2 + 2 s_0^2) / (n - 1 + 2)

    with s_0 = 0.2 for logarithms, and 0.1 standard deviations of the readings for levels. A change moves a feature by
    about 4.5 standard deviations.

    Parameters
    ----------
    blocks : Blocks
        Defines the features; what was pushed is neither used nor changed.
    readings : ArrayLike
        The first readings, at least one block, NaN where missing.

    Returns
    -------
    Model
        A `Product` of `GaussianUnknown`, or one of them for a single feature.

    Raises
    ------
    ValueError
        If a feature cannot be computed in any block.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(20, 2, 400)
    >>> block_prior(Blocks(40, ["mean"]), x)
    GaussianUnknown(mean=19.9..., count=0.05, shape=1.5, scale=0.1..., predictive='normalized')
    """
    parts = []
    for known, typical in seen_features(blocks, floats(readings)):
        middle = float(np.median(known))
        square = float(np.sum((known - middle) ** 2))
        var = (square + _WORTH * typical) / (known.size - 1.0 + _WORTH)
        parts.append(GaussianUnknown(middle, _COUNT, _SHAPE, _SHAPE * var))
    return Product(*parts) if len(parts) > 1 else parts[0]


def seen_features(blocks: Blocks, x: Array) -> Iterator[tuple[Array, float]]:
    """Yield the values of each feature in the blocks of x, without missing ones, and a typical variance of it."""
    sd = deviation(x)
    for name, column in zip(blocks.names, blocks.transform(x).T, strict=True):
        known = column[np.isfinite(column)]
        if known.size == 0:
            raise ValueError(
                f"{name} cannot be computed from the first {x.size} readings in blocks of {blocks.every}"
            )
        yield known, _typical(name, sd, blocks.every, float(np.mean((known - np.median(known)) ** 2)))


def shape_detector(
    readings: ArrayLike,
    *,
    every: int | None = None,
    hazard: float | Hazard | None = None,
    alarm: Alarm | float | None = 0.7,
) -> BlockDetector:
    """Return a detector for changes of shape in an oscillating series.

    It compares blocks of one period by their mean, spread, roughness and spectrum. A series that oscillates for ever
    is not cut at every swing, and changes of level, amplitude, period, waveform or noise are found.

    Parameters
    ----------
    readings : ArrayLike
        The first readings, NaN where missing, at least 20; two periods or more should be among them. Only the block
        length and the prior are taken from them: update the detector with them too.
    every : int, optional
        Readings per block, at most as many as `readings`; `block_length` by default.
    hazard : float or Hazard, optional
        P(change) per block; learned by default.
    alarm : Alarm, float or None, default 0.7
        When `Step.alarm` is set; an alarm's window is counted in blocks.

    Returns
    -------
    BlockDetector
        A detector before its first reading.

    Raises
    ------
    TypeError, ValueError
        If there are too few readings, or an argument is out of range.

    Examples
    --------
    >>> t = np.arange(2000)
    >>> wave = np.sin(t / 5)
    >>> x = np.where(t < 1200, wave, np.sign(wave)) + np.random.default_rng(0).normal(0, 0.1, 2000)
    >>> detector = shape_detector(x[:200])
    >>> for value in x:
    ...     step = detector.update(value)
    ...     if step.alarm:
    ...         print(step.tick, step.changed_at)
    1239 1209
    """
    x = floats(readings)
    length = block_length(x) if every is None else every
    blocks = Blocks(length, SHAPE_FEATURES, floor=FLOOR * deviation(x))
    detector = Detector(
        block_prior(blocks, x),
        hazard=Learned(1e-4, 0.1, 12) if hazard is None else hazard,
        prune=Resample(128),
        alarm=alarm,
        missing="skip",
    )
    return BlockDetector(blocks, detector)


def deviation(x: Array) -> float:
    """Return the standard deviation of the readings; a placeholder if they do not vary."""
    known = x[np.isfinite(x)]
    if known.size and (known != known[0]).any():
        return float(np.std(known))
    return abs(float(known[0])) / 100.0 if known.size and known[0] else 1.0


def _typical(name: str, sd: float, every: int, found: float) -> float:
    """Return a typical variance of a feature within a regime; the variance found for one without a known scale."""
    if name.startswith(("log_", "harmonic_")):
        return _LOG_SD**2
    if name in ("mean", "max", "min"):
        return (_LEVEL_SD * sd) ** 2
    if name == "slope":
        return (_LEVEL_SD * sd / every) ** 2
    return found or 1.0
