"""How much a low-fidelity reading is worth: zeta from held-out data, with an interval, or a refusal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..inputs.readings import cells
from ..inputs.readings import numbers as numbers_of
from ..models.base import finite, positive
from .quantiles import chi_square, student

Array = NDArray[np.float64]
BernoulliMethod = Literal["accuracy", "tpr", "information"]
LEAST = 30
"""Pairs below which no estimate is given: with 30, a 95 % interval already spans a factor of four."""


class CalibrationError(ValueError):
    """The held-out data cannot answer, and why.

    >>> bernoulli_zeta([0, 1, 1], [0, 1, 0])
    Traceback (most recent call last):
    ...
    mfbocd.calibrate.zeta.CalibrationError: 3 paired readings are too few for zeta: at least 30 are needed
    """


@dataclass(frozen=True)
class ZetaEstimate:
    """An estimate of zeta and the interval [low, high] that holds it with confidence `level`.

    >>> estimate = ZetaEstimate(0.5, 0.4, 0.61, level=0.95, n=200, method="accuracy")
    >>> print(estimate)
    zeta = 0.500, 95 % interval [0.400, 0.610], accuracy of 200 readings
    """

    value: float
    low: float
    high: float
    level: float
    n: int
    """Readings the estimate rests on: pairs, or positives for the true-positive rate."""
    method: str

    def __str__(self) -> str:
        interval = f"{100 * self.level:g} % interval [{self.low:.3f}, {self.high:.3f}]"
        return f"zeta = {self.value:.3f}, {interval}, {self.method} of {self.n} readings"


# --- Gaussian --------------------------------------------------------------------------------------------------


def gaussian_zeta(
    high: ArrayLike,
    low: ArrayLike,
    truth: ArrayLike | None = None,
    *,
    regimes: ArrayLike | None = None,
    noise_var: float | None = None,
    level: float = 0.95,
    least: int = LEAST,
) -> ZetaEstimate:
    """zeta = s2_high / s2_low, the ratio of error variances, from readings of both at the same ticks.

    Readings alone do not identify it: what varies may be the signal. Say one thing more, either

    - `truth`: the signal at each tick. Errors are squared about it, so a bias counts as error: the filter takes
      every reading as unbiased.
    - `regimes`: a label for each tick, constant while the signal is. Variances are pooled within regimes; a
      constant offset between the two observers cannot be seen then.
    - `noise`: the high fidelity's error variance, the model's `noise`. Then Var(high - low) = noise (1 + 1 / zeta)
      whatever the signal does, provided that the two err independently.

    The interval of the first two is Pitman and Morgan's: exact for normal errors however the pair's errors are
    correlated (F's needs them independent, and readings of one scene seldom are). The third's is chi-square's.
    Heavy tails make both too narrow (coverage .76 for .95 at Student's t with 5 degrees of freedom and 200 pairs),
    so the interval of log zeta from the squared errors' own variance is used where it is wider. zeta is at most 1,
    so value and interval are cut there.

    Refused: fewer than `least` degrees of freedom; a low fidelity that does not follow the signal (no better than
    chance); one that is significantly the better of the two.

    >>> rng = np.random.default_rng(0)
    >>> signal = np.repeat([0.0, 3.0, -2.0, 1.0], 50)
    >>> high, low = signal + rng.normal(size=200), signal + 2.0 * rng.normal(size=200)
    >>> print(gaussian_zeta(high, low, truth=signal))
    zeta = 0.218, 95 % interval [0.163, 0.292], residuals of 200 readings
    >>> print(gaussian_zeta(high, low, regimes=np.repeat([0, 1, 2, 3], 50)))
    zeta = 0.219, 95 % interval [0.162, 0.295], regimes of 200 readings
    >>> print(gaussian_zeta(high, low, noise_var=1.0))
    zeta = 0.226, 95 % interval [0.177, 0.287], differences of 200 readings
    """
    told = [name for name, v in (("truth", truth), ("regimes", regimes), ("noise_var", noise_var)) if v is not None]
    if len(told) != 1:
        raise ValueError(f"gaussian_zeta needs exactly one of truth, regimes and noise_var, not {told or 'none'}")
    confidence = confidence_of(level)
    x, y = numbers("high", high), numbers("low", low)
    n = _paired(high=x, low=y)
    if noise_var is not None:
        return _from_differences(x, y, positive("gaussian_zeta", "noise_var", noise_var), confidence, least)
    if truth is not None:
        signal = numbers("truth", truth)
        _paired(high=x, truth=signal)
        df, blur = n, 0.0
        _enough(n, least, "paired readings")
        x, y_error, anchor = x - signal, y - signal, signal
    else:
        labels = np.asarray(regimes)
        _paired(high=x, regimes=labels)
        _, index, size = np.unique(labels, return_inverse=True, return_counts=True)
        df = n - size.size
        _enough(df, least, f"paired readings less one a regime ({n} - {size.size})")
        anchor = (np.bincount(index, x) / size)[index]
        x, y_error = x - anchor, y - (np.bincount(index, y) / size)[index]
        blur = float(x @ x) / df * size.size / n
    _must_follow(y, anchor, blur, confidence)
    s2_high, s2_low = float(x @ x) / df, float(y_error @ y_error) / df
    for name, s2 in (("high", s2_high), ("low", s2_low)):
        if s2 == 0.0:
            raise CalibrationError(f"{name} has no error at all about the {told[0]}: is it the same data?")
    r = float(x @ y_error) / (df * math.sqrt(s2_high * s2_low))
    t = student(0.5 + 0.5 * confidence, df - 1)
    k = 1.0 + 2.0 * max(1.0 - r * r, 0.0) * t * t / (df - 1)
    ratio = s2_high / s2_low
    spread = max(k + math.sqrt(k * k - 1.0), _tails(x * x / s2_high - y_error * y_error / s2_low, df, t))
    method = "residuals" if truth is not None else "regimes"
    return _capped(ratio, ratio / spread, ratio * spread, confidence, n, method)


def _from_differences(high: Array, low: Array, noise_var: float, level: float, least: int) -> ZetaEstimate:
    n = high.size
    _enough(n, least, "paired readings")
    _must_follow(low, high, noise_var, level)
    squares = (high - low) ** 2
    square = float(squares.sum())
    if square == 0.0:
        raise CalibrationError("high and low never differ: is it the same data?")
    tail = 0.5 * (1.0 - level)
    spread = _tails(squares * n / square - 1.0, n, student(1.0 - tail, n - 1))

    def zeta(variance: float) -> float:
        return noise_var / (variance - noise_var) if variance > noise_var else math.inf

    return _capped(
        zeta(square / n),
        zeta(square / n * max(n / chi_square(tail, n), spread)),
        zeta(square / n * min(n / chi_square(1.0 - tail, n), 1.0 / spread)),
        level,
        n,
        "differences",
    )


def _tails(influence: Array, df: int, t: float) -> float:
    """Factor from a log variance (or a ratio's) to its interval's end, by the delta method: no shape is assumed."""
    return math.exp(t * math.sqrt(float(influence @ influence)) / df)


def _must_follow(low: Array, anchor: Array, blur: float, level: float) -> None:
    """Refuse a low fidelity that does not move with the signal: a stuck sensor has a variance too.

    Its slope on the signal (or on the high fidelity, whose own error has variance `blur`) is 1 in the model. It is
    refused if the slope may be 0 and cannot be 1. Where the signal hardly moves both may be, and nothing is said.
    """
    moved = anchor - anchor.mean()
    spread = float(moved @ moved)
    if spread <= 10.0 * blur * anchor.size or spread == 0.0:  # an error in the anchor flattens the slope, here < 10 %
        return
    slope = float(moved @ low) / spread
    rest = low - low.mean() - slope * moved
    error = math.sqrt(float(rest @ rest) / (low.size - 2) / spread)
    reach = student(0.5 + 0.5 * level, low.size - 2) * error
    if slope - reach <= 0.0 and slope + reach < 1.0:
        raise CalibrationError(
            f"the low fidelity is no better than chance: its slope on the signal is {slope:.3g} "
            f"({100 * level:g} % interval [{slope - reach:.3g}, {slope + reach:.3g}]), where a reading's is 1"
        )


def _capped(value: float, low: float, high: float, level: float, n: int, method: str) -> ZetaEstimate:
    if low > 1.0:
        raise CalibrationError(
            f"the low fidelity is the better one: zeta = {value:.3g}, {100 * level:g} % interval from {low:.3g}; "
            "swap the two, or look for errors they share"
        )
    return ZetaEstimate(min(value, 1.0), low, min(high, 1.0), level, n, method)


# --- Bernoulli -------------------------------------------------------------------------------------------------


def bernoulli_zeta(
    high: ArrayLike,
    low: ArrayLike,
    method: BernoulliMethod = "accuracy",
    truth: ArrayLike | None = None,
    *,
    level: float = 0.95,
    least: int = LEAST,
) -> ZetaEstimate:
    """zeta of a low fidelity that reads zeros and ones, against the high fidelity, or against `truth` if given.

    - ``"accuracy"``: q = P(low = reference), the paper's proxy.
    - ``"tpr"``: P(low = 1 | reference = 1), the paper's for its machines; right for an observer that misses.
    - ``"information"``: (2 q - 1)^2, the Fisher information about P(x = 1) that a label flipped with probability
      1 - q keeps, at P(x = 1) = 1/2 (less elsewhere). Accuracy 0.75 is worth 0.25 of a label, not 0.75.

    The interval is Wilson's for the proportion, put through the same increasing function.

    Refused: fewer than `least` pairs (positives, for the true-positive rate); a low fidelity no better than chance,
    that is, P(1 | 1) - P(1 | 0) not significantly positive (Newcombe's interval): where positives are rare one that
    always says 0 is accurate, and worth nothing; for accuracy and information also q not significantly above 1/2,
    below which (2 q - 1)^2 rises again; and, where the truth is known, a low fidelity better than the high one.

    >>> rng = np.random.default_rng(0)
    >>> high = rng.random(400) < 0.4
    >>> low = high ^ (rng.random(400) < 0.15)
    >>> print(bernoulli_zeta(high, low))
    zeta = 0.880, 95 % interval [0.844, 0.908], accuracy of 400 readings
    >>> print(bernoulli_zeta(high, low, "information"))
    zeta = 0.578, 95 % interval [0.475, 0.667], information of 400 readings
    """
    if method not in ("accuracy", "tpr", "information"):
        raise ValueError(f"method must be 'accuracy', 'tpr' or 'information', not {method!r}")
    confidence = confidence_of(level)
    x, y = bits("high", high), bits("low", low)
    n = _paired(high=x, low=y)
    reference = x
    if truth is not None:
        reference = bits("truth", truth)
        _paired(high=x, truth=reference)
    _enough(n, least, "paired readings")
    ones = int(reference.sum())
    found, false = int((y & reference).sum()), int((y & ~reference).sum())
    right = int((y == reference).sum())
    what = "truth" if truth is not None else "high fidelity"
    if ones in (0, n):
        raise CalibrationError(
            f"the {what} is {int(ones > 0)} in all {n} readings: the low fidelity cannot be told from one stuck there"
        )
    if method == "tpr":
        _enough(ones, least, f"readings where the {what} is 1")
    hit, alarm = found / ones, false / (n - ones)
    excess = hit - alarm
    below = math.hypot(
        hit - wilson(found, ones, confidence)[0], wilson(false, n - ones, confidence)[1] - alarm
    )  # Newcombe (1998), method 10
    if excess - below <= 0.0:
        raise CalibrationError(
            f"the low fidelity is no better than chance: 1 in {found} of {ones} readings where the {what} is 1, "
            f"and in {false} of {n - ones} where it is 0 (difference {excess:.3g}, {100 * confidence:g} % interval "
            f"from {excess - below:.3g})"
        )
    if truth is not None:
        _not_better(x == reference, y == reference, confidence)
    if method == "tpr":
        bottom, top = wilson(found, ones, confidence)
        return ZetaEstimate(hit, bottom, top, confidence, ones, method)
    q = right / n
    bottom, top = wilson(right, n, confidence)
    if bottom <= 0.5:
        raise CalibrationError(
            f"the low fidelity is no better than chance: right in {right} of {n} readings, accuracy {q:.3g} "
            f"({100 * confidence:g} % interval from {bottom:.3g})"
        )
    if method == "accuracy":
        return ZetaEstimate(q, bottom, top, confidence, n, method)
    return ZetaEstimate((2 * q - 1) ** 2, (2 * bottom - 1) ** 2, (2 * top - 1) ** 2, confidence, n, method)


def wilson(successes: int, trials: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson's interval of a proportion.

    >>> tuple(round(end, 4) for end in wilson(8, 10))
    (0.4902, 0.9433)
    """
    z2 = NormalDist().inv_cdf(0.5 + 0.5 * level) ** 2
    p = successes / trials
    centre = (p + 0.5 * z2 / trials) / (1.0 + z2 / trials)
    reach = math.sqrt(z2 * (p * (1.0 - p) / trials + 0.25 * z2 / trials**2)) / (1.0 + z2 / trials)
    # At 0 and at all successes the end is exact; rounding must not move it past.
    low = 0.0 if successes == 0 else centre - reach
    return low, 1.0 if successes == trials else centre + reach


def _not_better(high_right: NDArray[np.bool_], low_right: NDArray[np.bool_], level: float) -> None:
    """Refuse a low fidelity that wins significantly more than half of the readings on which just one is right."""
    wins = int((low_right & ~high_right).sum())
    discordant = int((low_right ^ high_right).sum())
    if discordant and wilson(wins, discordant, level)[0] > 0.5:
        raise CalibrationError(
            f"the low fidelity is the better one: right in {wins} of the {discordant} readings where just one is; "
            "swap the two"
        )


# --- what comes in ---------------------------------------------------------------------------------------------


def numbers(name: str, values: ArrayLike) -> Array:
    """Readings as finite floats, one a tick, or an error that names them.

    >>> numbers("high", [1, 2])
    array([1., 2.])
    """
    array = numbers_of(cells(values))
    if array.ndim != 1:
        raise ValueError(f"{name} must be one reading a tick, not of shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(
            f"{name} must be finite, but is {array[~np.isfinite(array)][0]} at some tick: leave pairs out"
        )
    return array


def bits(name: str, values: ArrayLike) -> NDArray[np.bool_]:
    """Readings that can only be 0 and 1, or an error that names them.

    >>> bits("high", [1.0, 0.0])
    array([ True, False])
    """
    array = numbers(name, values)
    odd = array[(array != 0.0) & (array != 1.0)]
    if odd.size:
        raise ValueError(f"{name} must be zeros and ones, but holds {odd[0]:g}")
    return np.asarray(array == 1.0)


def _paired(**arrays: NDArray[Any]) -> int:
    (a, first), (b, second) = arrays.items()
    if first.shape != second.shape:
        raise ValueError(
            f"{a} and {b} must be readings of the same ticks, not of shapes {first.shape}, {second.shape}"
        )
    return first.size


def _enough(n: int, least: int, what: str) -> None:
    if isinstance(least, bool) or not isinstance(least, int) or least < 3:
        raise ValueError(f"least must be a whole number of at least 3, not {least!r}")
    if n < least:
        raise CalibrationError(f"{n} {what} are too few for zeta: at least {least} are needed")


def confidence_of(level: float) -> float:
    """A confidence in (0, 1), or an error.

    >>> confidence_of(0.95)
    0.95
    """
    if not 0.0 < finite("calibrate", "level", level) < 1.0:
        raise ValueError(f"level must lie in (0, 1), not {level!r}")
    return float(level)
