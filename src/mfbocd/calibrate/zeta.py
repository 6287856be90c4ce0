"""Estimates of zeta, the value of a low-fidelity reading, from held-out data, with confidence intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..inputs.arguments import positive, probability
from .checks import CalibrationError, binary_values, numbers, require_count, same_length
from .quantiles import chi_square, student

Array = NDArray[np.float64]
BernoulliMethod = Literal["accuracy", "tpr", "information"]
LEAST = 30
"""Pairs below which no estimate is given: with 30, a 95 % interval already spans a factor of four."""


@dataclass(frozen=True)
class ZetaEstimate:
    """An estimate of zeta with its confidence interval.

    Attributes
    ----------
    value : float
        The estimate, in [0, 1].
    low : float
        Lower end of the interval.
    high : float
        Upper end of the interval.
    level : float
        Confidence of the interval, in (0, 1).
    n : int
        Number of readings used: pairs, or positives for the true positive rate.
    method : str
        Name of the method.

    Examples
    --------
    >>> estimate = ZetaEstimate(0.5, 0.4, 0.61, level=0.95, n=200, method="accuracy")
    >>> print(estimate)
    zeta = 0.500, 95 % interval [0.400, 0.610], accuracy of 200 readings
    """

    value: float
    low: float
    high: float
    level: float
    n: int
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
    """Estimate zeta = s2_high / s2_low, the ratio of error variances, from simultaneous readings of both.

    The readings alone do not identify zeta, because their variation may be the signal's. Exactly one of `truth`,
    `regimes` and `noise_var` must be given.

    With `truth` or `regimes` the interval is that of Pitman and Morgan, exact for normal errors however the errors of
    a pair are correlated (the F interval needs independent errors, which readings of one scene seldom have). With
    `noise_var` it is the chi-square interval. Heavy tails make both too narrow (coverage .76 instead of .95 at
    Student's t with 5 degrees of freedom and 200 pairs), so the interval of log zeta from the squared errors' own
    variance is used if it is wider. zeta is at most 1, so value and interval are cut there.

    Parameters
    ----------
    high : ArrayLike
        Readings at the high fidelity.
    low : ArrayLike
        Readings at the low fidelity, at the same ticks.
    truth : ArrayLike or None
        The signal at each tick. Errors are squared about it, so that a bias counts as error: the filter takes every
        reading as unbiased.
    regimes : ArrayLike or None
        A label for each tick, constant while the signal is constant. Variances are pooled within regimes; a constant
        offset between the two fidelities is then not visible.
    noise_var : float or None
        The high fidelity's error variance, the model's `noise_var`. Then Var(high - low) = noise_var (1 + 1 / zeta)
        whatever the signal does, if the two errors are independent.
    level : float
        Confidence of the interval, in (0, 1); 0.95 by default.
    least : int
        Degrees of freedom required, at least 3; 30 by default.

    Returns
    -------
    ZetaEstimate
        The estimate.

    Raises
    ------
    CalibrationError
        If there are fewer than `least` degrees of freedom, the low fidelity does not follow the signal (no better
        than chance), or it is significantly better than the high one.
    ValueError
        If not exactly one of `truth`, `regimes` and `noise_var` is given, or the readings are invalid.

    Examples
    --------
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
    given = [name for name, v in (("truth", truth), ("regimes", regimes), ("noise_var", noise_var)) if v is not None]
    if len(given) != 1:
        raise ValueError(f"gaussian_zeta needs exactly one of truth, regimes and noise_var, not {given or 'none'}")
    confidence = probability("", "level", level)
    x, y = numbers("high", high), numbers("low", low)
    n = same_length(high=x, low=y)
    if noise_var is not None:
        return _from_differences(x, y, positive("gaussian_zeta", "noise_var", noise_var), confidence, least)
    if truth is not None:
        signal = numbers("truth", truth)
        same_length(high=x, truth=signal)
        df, blur = n, 0.0
        require_count(n, least, "paired readings")
        x, y_error, anchor = x - signal, y - signal, signal
    else:
        labels = np.asarray(regimes)
        same_length(high=x, regimes=labels)
        _, index, size = np.unique(labels, return_inverse=True, return_counts=True)
        df = n - size.size
        require_count(df, least, f"paired readings minus one per regime ({n} - {size.size})")
        anchor = (np.bincount(index, x) / size)[index]
        x, y_error = x - anchor, y - (np.bincount(index, y) / size)[index]
        blur = float(x @ x) / df * size.size / n
    _must_follow(y, anchor, blur, confidence)
    s2_high, s2_low = float(x @ x) / df, float(y_error @ y_error) / df
    for name, s2 in (("high", s2_high), ("low", s2_low)):
        if s2 == 0.0:
            raise CalibrationError(f"{name} has no error at all about the {given[0]}: is it the same data?")
    r = float(x @ y_error) / (df * math.sqrt(s2_high * s2_low))
    t = student(0.5 + 0.5 * confidence, df - 1)
    k = 1.0 + 2.0 * max(1.0 - r * r, 0.0) * t * t / (df - 1)
    ratio = s2_high / s2_low
    spread = max(k + math.sqrt(k * k - 1.0), _tails(x * x / s2_high - y_error * y_error / s2_low, df, t))
    method = "residuals" if truth is not None else "regimes"
    return _capped(ratio, ratio / spread, ratio * spread, confidence, n, method)


def _from_differences(high: Array, low: Array, noise_var: float, level: float, least: int) -> ZetaEstimate:
    n = high.size
    require_count(n, least, "paired readings")
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
    """Return the factor from a variance or ratio to its interval's end, by the delta method."""
    return math.exp(t * math.sqrt(float(influence @ influence)) / df)


def _must_follow(low: Array, anchor: Array, blur: float, level: float) -> None:
    """Raise an error if the low fidelity does not follow the signal, as a stuck sensor does not.

    In the model its slope on the signal (or on the high fidelity, whose own error has variance `blur`) is 1. It is
    refused if the slope may be 0 and cannot be 1. If the signal hardly varies, both are possible, and it is accepted.
    """
    deviation = anchor - anchor.mean()
    spread = float(deviation @ deviation)
    if (
        spread <= 10.0 * blur * anchor.size or spread == 0.0
    ):  # an error in the anchor flattens the slope, here by < 10 %
        return
    slope = float(deviation @ low) / spread
    rest = low - low.mean() - slope * deviation
    error = math.sqrt(float(rest @ rest) / (low.size - 2) / spread)
    reach = student(0.5 + 0.5 * level, low.size - 2) * error
    if slope - reach <= 0.0 and slope + reach < 1.0:
        raise CalibrationError(
            f"the low fidelity is no better than chance: its slope on the signal is {slope:.3g} "
            f"({100 * level:g} % interval [{slope - reach:.3g}, {slope + reach:.3g}]), where it should be 1"
        )


def _capped(value: float, low: float, high: float, level: float, n: int, method: str) -> ZetaEstimate:
    if low > 1.0:
        raise CalibrationError(
            f"the low fidelity is the better one: zeta = {value:.3g}, {100 * level:g} % interval from {low:.3g}; "
            "swap the two, or check for errors they share"
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
    """Estimate zeta of a low fidelity that reads zeros and ones.

    The methods are

    - ``"accuracy"``: q = P(low = reference), the paper's proxy.
    - ``"tpr"``: P(low = 1 | reference = 1), the paper's choice for its machines; right for an observer that only
      misses.
    - ``"information"``: (2 q - 1)^2, the Fisher information about P(x = 1) in a label that is flipped with
      probability 1 - q, at P(x = 1) = 1/2 (less elsewhere). An accuracy of 0.75 is worth 0.25 of a label, not 0.75.

    The interval is Wilson's for the proportion, transformed by the same increasing function.

    Parameters
    ----------
    high : ArrayLike
        Readings at the high fidelity, 0 or 1.
    low : ArrayLike
        Readings at the low fidelity, 0 or 1, of the same items.
    method : {"accuracy", "tpr", "information"}
        The formula; "accuracy" by default.
    truth : ArrayLike or None
        The true labels; if given, they are the reference instead of `high`.
    level : float
        Confidence of the interval, in (0, 1); 0.95 by default.
    least : int
        Pairs required (positives for "tpr"), at least 3; 30 by default.

    Returns
    -------
    ZetaEstimate
        The estimate.

    Raises
    ------
    CalibrationError
        If there are fewer than `least` pairs; if the low fidelity is no better than chance, that is, P(1 | 1) - P(1 |
        0) is not significantly positive (Newcombe's interval), or for "accuracy" and "information" q is not
        significantly above 1/2; or if it is significantly better than the high one, which only `truth` can show.
    ValueError
        If `method` is unknown, or the readings are invalid.

    Examples
    --------
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
    confidence = probability("", "level", level)
    x, y = binary_values("high", high), binary_values("low", low)
    n = same_length(high=x, low=y)
    reference = x
    if truth is not None:
        reference = binary_values("truth", truth)
        same_length(high=x, truth=reference)
    require_count(n, least, "paired readings")
    ones = int(reference.sum())
    found, false = int((y & reference).sum()), int((y & ~reference).sum())
    right = int((y == reference).sum())
    what = "truth" if truth is not None else "high fidelity"
    if ones in (0, n):
        raise CalibrationError(
            f"the {what} is {int(ones > 0)} in all {n} readings: a stuck low fidelity would look the same"
        )
    if method == "tpr":
        require_count(ones, least, f"readings where the {what} is 1")
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
    """Return Wilson's confidence interval of a proportion.

    Parameters
    ----------
    successes : int
        Number of successes.
    trials : int
        Number of trials, at least 1.
    level : float
        Confidence, in (0, 1); 0.95 by default.

    Returns
    -------
    tuple[float, float]
        The ends of the interval.

    Examples
    --------
    >>> tuple(round(end, 4) for end in wilson(8, 10))
    (0.4902, 0.9433)
    """
    z2 = NormalDist().inv_cdf(0.5 + 0.5 * level) ** 2
    p = successes / trials
    centre = (p + 0.5 * z2 / trials) / (1.0 + z2 / trials)
    reach = math.sqrt(z2 * (p * (1.0 - p) / trials + 0.25 * z2 / trials**2)) / (1.0 + z2 / trials)
    # At 0 and at all successes the end is exact and must not be affected by rounding.
    low = 0.0 if successes == 0 else centre - reach
    return low, 1.0 if successes == trials else centre + reach


def _not_better(high_right: NDArray[np.bool_], low_right: NDArray[np.bool_], level: float) -> None:
    """Raise an error if the low fidelity is significantly more often right where only one of them is."""
    wins = int((low_right & ~high_right).sum())
    discordant = int((low_right ^ high_right).sum())
    if discordant and wilson(wins, discordant, level)[0] > 0.5:
        raise CalibrationError(
            f"the low fidelity is the better one: right in {wins} of the {discordant} readings where only one is; "
            "swap the two"
        )
