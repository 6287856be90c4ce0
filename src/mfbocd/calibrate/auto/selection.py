"""Which structure a series has: candidates are compared by the evidence of the whole changepoint filter.

The evidence p(x_1, ..., x_n | structure) sums over every history of changes. It therefore weighs, for example, "white
noise with five changes of level" against "autocorrelated noise without a change" with no further rule. Numbers that
are fitted to the readings themselves (seasons, long autoregressions) are charged log(n) / 2 each, as in the Bayesian
information criterion.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...detector.detector import Detector
from ...models.fixed_season import Season
from ..period import estimate_period, refined_period
from .season import Array, Ticks, fit_pieces, fit_season
from .structure import Flags, Structure, Transform, scales, unit_of

AUTOCORRELATIONS: tuple[tuple[float, ...], ...] = ((), (0.3,), (0.6,), (0.8,), (0.9,), (0.95,), (0.99,))
OUTLIERS = (0.001, 0.01, 0.05, 0.15, 0.3)
FORGET = (1.0, 0.99, 0.97)
MEMBERS = 4
"""Structures that are followed at the same time."""
_RANGE = 8.0  # nats below the best at which a structure is no longer followed
_ORDER = 8  # longest autoregression that is fitted
_SEASONS = 2
_CYCLES = 2.0  # seasons that must have been seen
_ENOUGH = 40  # readings for seasons and long autoregressions
EXTRA_COST = 2.0  # nats; prior odds of e^2 for readings as they are, and for noise without autocorrelation
_IRREGULAR = 0.15  # relative difference of distances that still count as equal
_FEW = 200  # readings up to which every value is tried
_AROUND = 9  # readings around one whose mean is its local level

MakeDetector = Callable[[Structure, int], Detector]
"""Returns the detector of a structure whose stream begins at a tick."""


class Candidate(NamedTuple):
    """A structure and the log evidence of the readings so far, less the cost of what was fitted."""

    evidence: float
    structure: Structure


class History(NamedTuple):
    """Readings with their ticks; `used` is False where a reading is missing or only repeats the one before."""

    x: Array
    tick: Ticks
    used: Flags
    choice: Ticks
    """Index of the fidelity of each reading."""
    zeta: Array
    """Zeta of each reading."""

    def prepared(self, structure: Structure) -> Array:
        """The readings as the core of the structure's model sees them, NaN where they are not used."""
        return np.where(self.used, structure.prepared(self.x, self.tick), np.nan)

    def standardized(self, structure: Structure) -> Array:
        """The used ones as if all had been read at full fidelity; see `standardized`."""
        y = structure.prepared(self.x[self.used], self.tick[self.used])
        return standardized(y, self.zeta[self.used])

    def filled(self, structure: Structure) -> Array:
        """The same, with gaps interpolated."""
        return np.interp(self.tick, self.tick[self.used], self.standardized(structure))


def standardized(y: Array, zeta: Array) -> Array:
    """Return readings whose noise has the same variance at every zeta, with the same local levels.

    A reading at zeta has the noise variance s2 / zeta. Its distance from the mean of the readings around it, weighted
    by zeta, is therefore multiplied by the root of zeta.

    Parameters
    ----------
    y : ndarray
        Readings in order, without missing ones.
    zeta : ndarray
        The zeta of each, above 0.

    Returns
    -------
    ndarray
        `y` itself if every zeta is 1.
    """
    if y.size == 0 or bool((zeta == 1.0).all()):
        return y
    window = np.ones(_AROUND)
    level = np.convolve(zeta * y, window, "same") / np.convolve(zeta, window, "same")
    return np.asarray(level + np.sqrt(zeta) * (y - level))


def replay(structure: Structure, history: History, make: MakeDetector) -> tuple[Detector, dict[str, Any]]:
    """Return a detector of the structure after the readings, and the fields of its trace."""
    detector = make(structure, int(history.tick[0]))
    return detector, detector.advance(np.where(history.used, history.x, np.nan), history.choice)


def candidates(
    history: History,
    make: MakeDetector,
    start: Structure | None = None,
    changes: Sequence[int] = (),
    period: float | None = None,
) -> list[Candidate]:
    """Return the structures worth following, most probable first; at most `MEMBERS`.

    The search is greedy: transform, autocorrelation, seasons, outliers, drifting variance, and the autocorrelation
    again. It begins with the autocorrelation, outliers and drift of `start`, the structure chosen before. `changes`
    are the ticks of the changes reported so far: at equal distances, they may be a season that was not recognized.
    `period` is tried as a season, if it is known.
    """
    x = history.x[history.used]
    if np.isin(x, (0.0, 1.0)).all():
        return [Candidate(0.0, Structure(kind="binary"))]
    return _Search(history, make, start or Structure(), period, _spacings(changes)).result()


class _Search:
    """A greedy search that remembers the evidence of every structure it tried."""

    def __init__(
        self,
        history: History,
        make: MakeDetector,
        start: Structure,
        known: float | None = None,
        periods: Sequence[float] = (),
    ) -> None:
        self.history, self.make, self.start, self.known = history, make, start, known
        self.periods = periods if known is None else (known, *periods)
        self.x = history.x[history.used]
        self.log_n = math.log(max(self.x.size, 2))
        self.tried: dict[Structure, float] = {}
        ar = start.ar if start.ar in AUTOCORRELATIONS else ()
        like = Structure(
            ar=ar, outliers=start.outliers, forget=start.forget, step=_rounding(self.x), unit=unit_of(self.x)
        )
        self.best = self._scaled(like)
        self.tried[self.best] = self._evidence(self.best)

    def result(self) -> list[Candidate]:
        base = self.best
        for transform in self._transforms():
            self._try(self._scaled(replace(base, transform=transform)))
        self._climb("ar", AUTOCORRELATIONS)
        if self.x.size >= _ENOUGH:
            self._seasons()
            self._long_autoregression()
        self._climb("outliers", OUTLIERS)
        self._climb("forget", FORGET)
        self._climb("ar", AUTOCORRELATIONS)
        # Of structures that differ only in outliers and drift the best one stands for all.
        groups: dict[Any, Candidate] = {}
        for structure, evidence in sorted(self.tried.items(), key=lambda item: -item[1]):
            key = structure.transform, structure.seasons, structure.ar
            groups.setdefault(key, Candidate(evidence, structure))
        found = list(groups.values())
        return [one for one in found if one.evidence > found[0].evidence - _RANGE][:MEMBERS]

    def _scaled(self, structure: Structure) -> Structure:
        """Estimate center, noise and spread again."""
        center, noise, spread = scales(self.history.standardized(structure))
        return replace(structure, center=center, noise=noise, spread=spread)

    def _evidence(self, structure: Structure) -> float:
        detector, _ = replay(structure, self.history, self.make)
        fitted = sum(season.fitted for season in structure.seasons)
        if structure.ar not in AUTOCORRELATIONS:
            fitted += len(structure.ar)
        extra = (structure.transform != "none") + bool(structure.ar)
        cost = 0.5 * fitted * self.log_n + EXTRA_COST * extra
        return detector.log_evidence - cost

    def _try(self, structure: Structure) -> bool:
        """Make the structure the best one if its evidence is higher."""
        if structure not in self.tried:
            self.tried[structure] = self._evidence(structure)
        if self.tried[structure] <= self.tried[self.best]:
            return False
        self.best = structure
        return True

    def _consider(self, **changed: Any) -> bool:
        return self._try(replace(self.best, **changed))

    def _transforms(self) -> list[Transform]:
        """Return the transforms that the readings allow."""
        low, high, step = float(self.x.min()), float(self.x.max()), self.best.step
        allowed: list[Transform] = ["none"]
        if low > 0.0 and high > 3.0 * low and step == 0.0:
            allowed.append("log")
        if low >= 0.0 and step <= 1.0 and high > 2.0 * max(low, 1.0):
            allowed.append("sqrt")
        return allowed

    def _climb(self, field: str, values: Sequence[Any]) -> None:
        """Try all values of a field while readings are few, otherwise uphill from the best; values are ordered."""
        if self.x.size <= _FEW or getattr(self.best, field) not in values:
            for value in values:
                self._consider(**{field: value})
            return
        for direction in (1, -1):
            at = values.index(getattr(self.best, field)) + direction
            while 0 <= at < len(values) and self._consider(**{field: values[at]}):
                at += direction

    def _seasons(self) -> None:
        """Add seasons that raise the evidence: those of the structure before, then those found in the readings.

        A change of level may hide known seasons from the estimate, and a false one may have been found before.
        """
        plain = base = self.best
        for season in self.start.seasons:
            base = self._with_season(base, season.period, len(season.cosine) or 3) or base
        self._find_seasons(base)
        if base.seasons:
            self._find_seasons(plain)
        for period in self.periods:
            for harmonics in (3, 8):
                self._with_season(plain, period, harmonics)
        if self.best.seasons:
            self._other_transforms(self.best)
            self._climb("ar", AUTOCORRELATIONS)

    def _other_transforms(self, best: Structure) -> None:
        """Try the other transforms: without its season, a swing looks like noise that depends on the level."""
        for transform in self._transforms():
            if transform != best.transform:
                other = self._scaled(replace(best, transform=transform, seasons=()))
                self._try(other)
                self._find_seasons(other)

    def _find_seasons(self, base: Structure) -> None:
        while len(base.seasons) < _SEASONS:
            found = estimate_period(self.history.filled(base))
            grown = self._with_season(base, found.period, found.harmonics) if found.significant else None
            if grown is None:
                return
            base = grown

    def _with_season(self, base: Structure, period: float, harmonics: int) -> Structure | None:
        """Return the base with one more season, with or without its autocorrelation; None if it is not better."""
        if self.x.size < _CYCLES * period:
            return None
        harmonics = max(min(harmonics, int((period - 1e-9) / 2.0)), 1)
        y = self.history.filled(base)
        seasons = (
            fit_season(y, self.history.tick, period, harmonics),
            fit_pieces(y, self.history.tick, period, exact=period == self.known),
        )
        variants = [
            replace(grown, ar=ar)
            for grown in (self._scaled(replace(base, seasons=(*base.seasons, s))) for s in seasons if s is not None)
            for ar in dict.fromkeys([(), base.ar])
        ]
        if not variants:
            return None
        for variant in variants:
            self._try(variant)
        best = max(variants, key=self.tried.__getitem__)
        return best if self.tried[best] > self.tried[base] else None

    def _long_autoregression(self) -> None:
        """Try autoregressions fitted to the readings, of the best structure and of the same without a transform."""
        for base in dict.fromkeys([self.best, self._scaled(replace(self.best, transform="none"))]):
            if base.transform != self.best.transform and base.seasons:
                continue  # they are seasons of the transformed readings
            y = self.history.filled(base)
            y = np.clip(y - np.median(y), -6.0 * base.spread, 6.0 * base.spread)
            ar = burg(y - y.mean(), min(_ORDER, self.x.size // 10))
            if ar:
                self._try(replace(base, ar=ar))


def losses(structure: Structure, history: History, make: MakeDetector) -> dict[str, float]:
    """Return by how many nats the evidence falls if one feature of a structure is removed.

    Without a season every autocorrelation is tried, since it can stand for part of the season.

    Parameters
    ----------
    structure : Structure
        The structure of the series.
    history : History
        The readings.
    make : callable
        Returns the detector of a structure.

    Returns
    -------
    dict of str to float
        One entry for each of the fields ``transform``, ``seasons``, ``ar``, ``outliers`` and ``forget`` in which the
        structure differs from the simplest one. Negative if the simpler structure now has more evidence.
    """
    if structure.kind == "binary":
        return {}
    search = _Search(history, make, structure)
    scaled = search._scaled
    simpler: dict[str, list[Structure]] = {}
    if structure.transform != "none":
        simpler["transform"] = [scaled(replace(structure, transform="none"))]
    if structure.seasons:
        plain = scaled(replace(structure, seasons=()))
        simpler["seasons"] = [replace(plain, ar=ar) for ar in dict.fromkeys((structure.ar, *AUTOCORRELATIONS))]
    if structure.ar:
        simpler["ar"] = [replace(structure, ar=())]
    if structure.outliers > OUTLIERS[0]:
        simpler["outliers"] = [replace(structure, outliers=OUTLIERS[0])]
    if structure.forget < 1.0:
        simpler["forget"] = [replace(structure, forget=1.0)]
    if not simpler:
        return {}
    now = search._evidence(structure)
    return {name: now - max(map(search._evidence, others)) for name, others in simpler.items()}


def burg(y: Array, longest: int) -> tuple[float, ...]:
    """Fit an autoregression by Burg's method, its order chosen by the Bayesian information criterion.

    Parameters
    ----------
    y : ndarray
        Readings with mean 0.
    longest : int
        Largest order.

    Returns
    -------
    tuple of float
        The coefficients, that of the last reading first; empty if none is worth it. They are stationary.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = np.zeros(2000)
    >>> for t in range(2, 2000):
    ...     y[t] = 1.2 * y[t - 1] - 0.5 * y[t - 2] + rng.normal()
    >>> [round(a, 1) for a in burg(y, 8)]
    [1.2, -0.5]
    """
    best: Sequence[float] = ()
    coefficients = np.zeros(0)
    left, cost, lowest = 1.0, 0.0, 0.0
    forward, backward = y[1:].copy(), y[:-1].copy()
    for order in range(1, longest + 1):
        power = float(forward @ forward + backward @ backward)
        if not power > 0.0 or forward.size < 5:
            break
        k = float(np.clip(2.0 * (forward @ backward) / power, -0.995, 0.995))
        coefficients = np.append(coefficients - k * coefficients[::-1], k)
        left *= 1.0 - k * k
        forward, backward = (forward - k * backward)[1:], (backward - k * forward)[:-1]
        cost = y.size * math.log(left) + order * math.log(y.size)
        if cost < lowest:
            lowest, best = cost, coefficients.tolist()
    return tuple(best)


def refreshed(structure: Structure, history: History) -> Structure:
    """Return the structure with its seasons fitted again to the last readings, each by Gauss-Newton in its period."""
    seasons: list[Season] = []
    for k, season in enumerate(structure.seasons):
        others = replace(structure, seasons=(*seasons, *structure.seasons[k + 1 :]))
        y = history.filled(others)
        if season.pieces:
            again = fit_pieces(y, history.tick, season.period)
        else:
            period = refined_period(y, season.period, len(season.cosine))
            again = fit_season(y, history.tick, period, len(season.cosine))
        seasons.append(again or season)
    return replace(structure, seasons=tuple(seasons))


def _spacings(changes: Sequence[int]) -> tuple[float, ...]:
    """Return possible periods: the distance of the last changes if it is regular, and twice it (up and down).

    >>> _spacings([3, 40, 61, 80])
    (20.0, 40.0)
    """
    if len(changes) < 3:
        return ()
    last = np.diff(np.array(changes[-3:], dtype=float))
    mean = float(last.mean())
    return (mean, 2.0 * mean) if float(last.max() - last.min()) <= _IRREGULAR * float(last.max()) else ()


def _rounding(x: Array) -> float:
    """Return the step of rounded readings; 0 if fewer than half of them repeat an earlier value."""
    values = np.unique(x)
    return float(np.diff(values).min()) if 1 < values.size < 0.5 * x.size else 0.0
