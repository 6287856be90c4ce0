"""The period of a season, estimated from readings."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..inputs.arguments import finite
from ..inputs.readings import floats
from .red_noise import Fit, RedNoise

Array = NDArray[np.float64]

HARMONICS = 8
"""Most harmonics considered."""
_FEWEST = 16  # readings
_CYCLES = 3.0  # seasons that the readings must cover by default
_PEAKS = 3  # peaks of each periodogram that are tried
_PARTS = (2, 3, 4, 7)  # a peak may be that harmonic of the season; 7: days of a week
_MARGIN = 7.5  # log likelihood ratio beyond log n: exceeded by about 2 in 1000 series without a season
_SMALL = 10.0  # likelihood ratios are larger in small samples, by about n / (n - 10)
_SPIKE = 4.0  # standard deviations beyond which a reading is clipped


class PeriodEstimate(NamedTuple):
    """A season found in readings.

    Attributes
    ----------
    period : float
        Ticks per season, NaN if the readings are too few or constant.
    strength : float
        Share of the variance that the season explains, from 0 to 1; the variance of a straight line is not counted.
    significant : bool
        Whether noise without a season is an unlikely explanation. If not, ignore the period.
    harmonics : int
        Number of harmonics worth fitting, by the Bayesian information criterion; at most 8.
    """

    period: float
    strength: float
    significant: bool
    harmonics: int


_NOTHING = PeriodEstimate(math.nan, 0.0, False, 1)


def estimate_period(x: ArrayLike, longest: float | None = None) -> PeriodEstimate:
    """Estimate the period of a season, which need not be a whole number of ticks.

    The alternative to a season is noise: white, autocorrelated, a random walk, changes of level, a smooth curve, or
    one of these plus white noise. Of both explanations the most likely one is taken, and the season is significant if
    its log likelihood is higher by (log n + 7.5) n / (n - 10), and by log n more for every harmonic after the first.
    About 2 in 1000 series without a season have a significant period.

    Parameters
    ----------
    x : ArrayLike
        Readings at equal intervals, NaN where missing.
    longest : float, optional
        The longest period considered; by default a third of the readings.

    Returns
    -------
    PeriodEstimate
        The period, its strength, whether it is significant, and the number of harmonics.

    Raises
    ------
    ValueError
        If the readings are not one series, or `longest` is not above 2.

    Notes
    -----
    1. Gaps are interpolated, readings far from the median of their five neighbours are clipped, a line is removed.
    2. The spectrum of noise is fitted (`RedNoise`), and the readings are divided by it: they become white.
    3. The highest peaks of the periodograms with and without that division are candidates. Each is fitted as a sine,
       and the spectrum again to the rest. The most likely candidate is kept.
    4. With the readings whitened by the spectrum of the rest, the period is refined by least squares (Gauss-Newton),
       and the number of harmonics chosen; also tested is whether the peak is a harmonic of a longer season.

    The time is O(n log n). No method can determine a period better than to about sqrt(6 / n) / (pi a c) of itself,
    with c seasons seen and a the amplitude over the standard deviation of the noise: with n = 100, a = 1 and c = 4
    that is 2 %.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = np.sin(2 * np.pi * np.arange(300) / 24.5) + 0.5 * rng.normal(size=300)
    >>> found = estimate_period(x)
    >>> round(found.period, 1), found.significant, found.harmonics
    (24.5, True, 1)
    >>> estimate_period(np.cumsum(rng.normal(size=300))).significant  # a random walk
    False
    """
    values = floats(x)
    if values.ndim != 1:
        raise ValueError(f"x must be one series, not an array of shape {values.shape}")
    most = values.size / _CYCLES if longest is None else finite("", "longest", longest)
    if longest is not None and most <= 2.0:
        raise ValueError(f"longest must exceed 2 ticks, not {longest!r}")
    y = _prepared(values)
    return _NOTHING if y is None else _Search(y, 1.0 / most).result()


def refined_period(x: ArrayLike, period: float, harmonics: int) -> float:
    """Improve a period that is nearly known, by least squares.

    Parameters
    ----------
    x : ArrayLike
        Readings at equal intervals, NaN where missing.
    period : float
        Ticks per season, wrong by less than a third of a season over all readings.
    harmonics : int
        Number of harmonics of the season.

    Returns
    -------
    float
        The improved period; the given one if there are too few readings, or if they do not vary.

    Examples
    --------
    >>> x = np.sin(2 * np.pi * np.arange(300) / 24.5)
    >>> round(refined_period(x, 24.4, 1), 3)
    24.5
    """
    y = _prepared(floats(x))
    if y is None:
        return period
    age: Array = np.arange(float(y.size)) - 0.5 * (y.size - 1)
    return 1.0 / _refine(y, age, 1.0 / period, harmonics, 1.0 / y.size)


def _prepared(x: Array) -> Array | None:
    """Return the readings without gaps, spikes, mean and line, with variance 1; None if nothing remains."""
    seen = np.flatnonzero(np.isfinite(x))
    if seen.size < _FEWEST:
        return None
    x = x[seen[0] : seen[-1] + 1]
    age = np.arange(x.size, dtype=float)
    seen = seen - seen[0]
    y = np.interp(age, age[seen], x[seen] / np.abs(x[seen]).max() if x[seen].any() else x[seen])
    middle = np.median(np.lib.stride_tricks.sliding_window_view(np.pad(y, 2, mode="edge"), 5), axis=1)
    off = y - middle
    if off.any():
        # one reading in five is the median itself; white noise deviates from it by 0.61 (median of the others)
        spread = float(np.median(np.abs(off[off != 0.0]))) / 0.61
        y = middle + np.clip(off, -_SPIKE * spread, _SPIKE * spread)
    age -= age.mean()
    y = y - y.mean()
    y -= age * (age @ y) / (age @ age)
    scale = float(np.std(y))
    return y / scale if scale > 1e-12 else None


class _Waves:
    """Harmonics of a frequency at ages that are symmetric about 0, for least squares.

    A cosine is even and a sine odd: a series is folded into its even and its odd part, each of half its length, and
    the normal equations separate.
    """

    def __init__(self, frequency: float, harmonics: int, age: Array) -> None:
        self.half = age[age.size // 2 :]  # from 0 or 1/2 upwards
        self.weight = np.where(self.half > 0.0, 2.0, 1.0)
        turn = np.exp(2j * math.pi * frequency * self.half)
        powers = np.empty((harmonics, turn.size), dtype=complex)
        powers[0] = turn
        for j in range(1, harmonics):
            np.multiply(powers[j - 1], turn, out=powers[j])
        self.sin = np.ascontiguousarray(powers.imag)
        self.cos = np.ascontiguousarray(powers.real)
        # series come without mean and line, so the waves are fitted without theirs
        self.cos -= (self.cos @ self.weight / age.size)[:, None]
        line = self.weight * self.half
        self.sin -= np.outer(self.sin @ line / (line @ self.half), self.half)
        self.order = 2.0 * math.pi * np.arange(1.0, harmonics + 1.0)

    def fold(self, x: Array) -> tuple[Array, Array]:
        """Return the even and odd parts of a series."""
        later, earlier = x[-self.half.size :], x[: self.half.size][::-1]
        return 0.5 * (later + earlier), 0.5 * (later - earlier)

    def unfold(self, even: Array, odd: Array) -> Array:
        """Return the series with these parts."""
        earlier = (even - odd)[::-1]
        return np.concatenate([earlier[:-1] if self.half[0] == 0.0 else earlier, even + odd])

    def solve(self, even: Array, odd: Array) -> tuple[Array, Array]:
        """Return the coefficients of cosines and sines."""
        return self._solve(self.cos, even), self._solve(self.sin, odd)

    def _solve(self, u: Array, y: Array) -> Array:
        weighted = u * self.weight
        return np.asarray(np.linalg.solve(_ridge(weighted @ u.T), weighted @ y))

    def explained(self, even: Array, odd: Array) -> Array:
        """Return the sum of squares explained by the first 1, 2, ... harmonics."""
        out = np.zeros(self.order.size)
        for u, y in ((self.cos, even), (self.sin, odd)):
            weighted = u * self.weight
            out += np.linalg.solve(np.linalg.cholesky(_ridge(weighted @ u.T)), weighted @ y) ** 2
        return np.cumsum(out)

    def newton(self, even: Array, odd: Array) -> tuple[float, float]:
        """Return the sum of squares left by the fit, and the Gauss-Newton step of the frequency."""
        a, b = self.solve(even, odd)
        left = (even - a @ self.cos, odd - b @ self.sin)
        error = sum(float(self.weight @ part**2) for part in left)
        # the derivative by the frequency, less what a change of the coefficients can do
        slopes = [-(self.order * a) @ self.sin * self.half, (self.order * b) @ self.cos * self.half]
        slopes = [y - self._solve(u, y) @ u for u, y in zip((self.cos, self.sin), slopes, strict=True)]
        size = sum(float(self.weight @ part**2) for part in slopes)
        along = sum(float(self.weight @ (one * two)) for one, two in zip(slopes, left, strict=True))
        return error, along / size if size > 0.0 else 0.0


def _ridge(gram: Array) -> Array:
    """Make the equations solvable where two columns are nearly equal."""
    gram[np.diag_indices_from(gram)] += 1e-9 * float(np.trace(gram)) / len(gram)
    return gram


def _refine(series: Array, age: Array, frequency: float, harmonics: int, lowest: float) -> float:
    """Minimize the squares left by harmonics of a frequency, by Gauss-Newton steps that are halved if they fail."""
    best, result = math.inf, frequency
    for _ in range(4):
        waves = _Waves(frequency, harmonics, age)
        error, step = waves.newton(*waves.fold(series))
        if error >= best:
            frequency = 0.5 * (frequency + result)  # too far: halfway back
            continue
        best, result = error, frequency
        step = min(max(step, -0.3 / age.size), 0.3 / age.size)
        frequency = min(max(frequency + step, lowest), (0.5 - 1.0 / age.size) / harmonics)
        if abs(step) * age.size < 1e-3:  # the next one would be about its square
            return frequency
    return result


class _Search:
    """The candidates of one series, and the best of them."""

    def __init__(self, y: Array, lowest: float) -> None:
        self.n = n = y.size
        self.lowest = lowest
        self.highest = 0.5 - 1.0 / n
        self.age: Array = np.arange(float(n)) - 0.5 * (n - 1)
        self.noise = RedNoise(n)
        self.y = y
        self.coefficients = self.noise.forward(y)
        self.null = self.noise.fit(self.coefficients)

    def result(self) -> PeriodEstimate:
        white = self._white(self.null.root)
        found = [(self._left(white, self.null.root, peak, 1), peak) for peak in self._peaks(white)]
        if not found:
            return _NOTHING
        fit, frequency = max(found, key=lambda pair: pair[0].log_likelihood)
        # A season far above the noise is removed best from the readings as they are.
        plain = self._refined(self.y, frequency, 1)
        fit_plain = self._left(self.y, 1.0, plain, 1)
        as_read = fit_plain.log_likelihood > fit.log_likelihood
        if as_read:
            fit, frequency = fit_plain, plain
        white = self._white(fit.root)
        if not as_read:
            frequency = self._refined(white, frequency, 1)
        series, root = (self.y, 1.0) if as_read else (white, fit.root)
        log_n, best = math.log(self.n), -math.inf
        for part in (1, *_PARTS):
            if part > 1 and frequency / part < self.lowest:
                break
            size = self._harmonics(white, frequency / part, part)
            left = self._left(series, root, frequency / part, size)
            # a longer season costs as much as one more harmonic: there are several to choose from
            cost = log_n * (size - 1 + (part > 1))
            if left.log_likelihood - cost > best:
                best, chosen, harmonics, paid = left.log_likelihood - cost, part, size, cost
        frequency = self._refined(series, frequency / chosen, harmonics)
        left = self._left(series, root, frequency, harmonics)
        if harmonics > 1 and not as_read:  # the spectrum without all of them is closer to that of the noise
            left = self._left(self._white(left.root), left.root, frequency, harmonics)
        gain = left.log_likelihood - self.null.log_likelihood - paid
        needed = (log_n + _MARGIN) * self.n / (self.n - _SMALL)
        strength = min(float(self._season(self.y, frequency, harmonics) @ self.y) / self.n, 1.0)  # y has variance 1
        return PeriodEstimate(1.0 / frequency, strength, gain > needed, harmonics)

    def _left(self, series: Array, root: Array | float, frequency: float, harmonics: int) -> Fit:
        """Fit the noise after removing a season from the readings, which are whitened by `root`."""
        return self.noise.fit(self.noise.forward(series - self._season(series, frequency, harmonics)) * root)

    def _white(self, root: Array) -> Array:
        return self.noise.backward(self.coefficients / root)

    def _season(self, white: Array, frequency: float, harmonics: int) -> Array:
        waves = _Waves(frequency, harmonics, self.age)
        a, b = waves.solve(*waves.fold(white))
        return waves.unfold(a @ waves.cos, b @ waves.sin)

    def _peaks(self, white: Array) -> list[float]:
        """Return the frequencies of the highest peaks; a strong season hides in a spectrum fitted without it."""
        size = 1 << math.ceil(math.log2(4 * self.n))
        frequency = np.arange(size // 2 + 1) / size
        inside = (frequency >= 0.999 * self.lowest) & (frequency <= self.highest)
        found: list[float] = []
        for series in (white, self.y):
            power = np.where(inside, np.abs(np.fft.rfft(series, size)) ** 2, 0.0)
            tops = 1 + np.flatnonzero((power[1:-1] >= power[:-2]) & (power[1:-1] > power[2:]))
            for f in frequency[tops[np.argsort(-power[tops])[:_PEAKS]]].tolist():
                if all(abs(f - other) > 0.3 / self.n for other in found):
                    found.append(f)
        return found

    def _refined(self, white: Array, frequency: float, harmonics: int) -> float:
        """Maximize the fit over the frequency."""
        return _refine(white, self.age, frequency, harmonics, 0.97 * self.lowest)

    def _harmonics(self, white: Array, frequency: float, least: int) -> int:
        """Return the number of harmonics, at least `least`, by the Bayesian information criterion."""
        whole = float(white @ white)
        most = min(HARMONICS, max(int(self.highest / frequency), least))
        waves = _Waves(frequency, most, self.age)
        left = np.maximum(whole - waves.explained(*waves.fold(white)), 1e-12 * whole)
        score = -0.5 * self.n * np.log(left) - math.log(self.n) * np.arange(1, most + 1)
        return int(np.argmax(score[least - 1 :])) + least
