"""Coverage and width of the 95 % intervals of levels, with and without autocorrelation.

``python -m benchmarks.levels [design|judged] [series]``. A series has a regime of other readings and then the regime
whose level is asked for, five standard deviations higher; the interval is computed at the true change. Widths are
relative to the interval of the mean that knows the autocorrelation and estimates only the scale. The choices of
`mfbocd.trace.intervals` were made on other seeds than those that are judged, which is the default. A second table has
the intervals that `mfbocd.detect` returns: of the change that it finds, at the position that it estimates.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import mfbocd as mf
from mfbocd.calibrate.auto.season import fit_season
from mfbocd.trace.intervals import student_quantile
from mfbocd.trace.levels import Level
from mfbocd.trace.regimes import LevelRule, levels_around

Array = NDArray[np.float64]

SEEDS = {"design": 1, "judged": 2}
SIZES = ((300, 300), (300, 60), (300, 20), (60, 60), (60, 40), (60, 20), (20, 20), (300, 10))
"""Readings before the change, and after it."""
PERIOD = 12
HARMONICS = 3
STEP = 5.0
RULE = LevelRule((1.0,), line=True)
FOUND = {"white": (60, 20), "AR(.8)": (60, 20)}
"""Kinds of series for `mfbocd.detect`, with the readings before the change and after it."""
FOUND_STEP = 4.0
NEAR = 10
"""A change that is found at most so many readings from the true one is that change."""


class Kind(NamedTuple):
    """A kind of series."""

    name: str
    rho: float = 0.0
    season: bool = False
    tail: float = 0.0  # readings are exp(tail * noise), if it is not 0


KINDS = (
    Kind("white"),
    Kind("AR(.5)", 0.5),
    Kind("AR(.8)", 0.8),
    Kind("season + AR(.8)", 0.8, season=True),
    Kind("AR(.95)", 0.95),
    Kind("lognormal", tail=1.0),
    Kind("lognormal, AR(.8)", 0.8, tail=1.0),
)


class Result(NamedTuple):
    """One interval."""

    covers: bool
    width: float
    trusted: bool
    median: bool


def noise(rng: np.random.Generator, rho: float, n: int) -> Array:
    """Return an AR(1) of variance 1."""
    x = rng.normal(size=n + 200)
    x[1:] *= np.sqrt(1.0 - rho * rho)
    for t in range(1, x.size) if rho else ():
        x[t] += rho * x[t - 1]
    return x[200:]


def variance_of_mean(rho: float, n: int) -> float:
    """Return the variance of the mean of readings of variance 1."""
    lags = np.arange(1, n)
    return float(1.0 + 2.0 * ((1.0 - lags / n) * rho**lags).sum()) / n


def informed_width(x: Array, rho: float) -> float:
    """Return the half-width of the interval that knows the autocorrelation."""
    white = np.append(np.sqrt(1.0 - rho * rho) * x[0], x[1:] - rho * x[:-1])
    one = np.append(np.sqrt(1.0 - rho * rho), np.full(x.size - 1, 1.0 - rho))
    rest = white - (one @ white) / (one @ one) * one
    variance = float(rest @ rest) / (x.size - 1) / (1.0 - rho * rho)
    return student_quantile(0.975, x.size - 1) * float(np.sqrt(variance * variance_of_mean(rho, x.size)))


def results(kind: Kind, before: int, after: int, seed: int, count: int) -> Iterator[Result]:
    """Yield the intervals of the level after the change."""
    rng = np.random.default_rng([seed, KINDS.index(kind), before, after])
    for _ in range(count):
        x = noise(rng, kind.rho, before + after)
        known = informed_width(x[before:], kind.rho)
        mean = median = STEP
        if kind.tail:
            x = np.exp(kind.tail * x)
            mean, median = STEP + float(np.exp(0.5 * kind.tail**2)), STEP + 1.0
        x[before:] += STEP
        tick = np.arange(x.size)
        if kind.season:
            x += 2.0 * np.sin(2.0 * np.pi * tick / PERIOD)
            season = fit_season(x, tick, PERIOD, HARMONICS)  # as the automatic detector does
            assert season is not None
            x -= season.at(tick)
        ((_, level),) = levels_around(x, [before], RULE)
        assert isinstance(level, Level)
        truth = mean if level.median is None else median
        half = 0.5 * (level.high - level.low)
        yield Result(level.low < truth < level.high, half / known, level.trusted, level.median is not None)


class Found(NamedTuple):
    """The interval after a change that was found, and the one at the true position."""

    late: int
    """Readings by which the estimated position is later than the true one."""
    level: Level
    known: Level


def found(kind: Kind, before: int, after: int, seed: int, count: int) -> Iterator[Found | None]:
    """Yield what `mfbocd.detect` finds in series of noise with a change of `FOUND_STEP`; None if it finds none."""
    rng = np.random.default_rng([seed, KINDS.index(kind), before, after, 1])
    for _ in range(count):
        x = noise(rng, kind.rho, before + after)
        x[before:] += FOUND_STEP
        near = [change for change in mf.detect(x).changes if abs(change.tick - before) <= NEAR]
        if not near:
            yield None
            continue
        nearest = min(near, key=lambda change: abs(change.tick - before))
        ((_, known),) = levels_around(x, [before], RULE)
        assert isinstance(known, Level)
        yield Found(nearest.tick - before, nearest.after, known)


def found_row(kind: Kind, got: list[Found | None]) -> str:
    """Return the row of a kind of series in the second table."""
    there = [one for one in got if one is not None]

    def coverage(levels: list[Level]) -> str:
        if not levels:
            return "-"
        return f"{np.mean([level.low < FOUND_STEP < level.high for level in levels]):.3f}".lstrip("0")

    late = np.array([one.late for one in there])
    shares = [len(there) / len(got), *(float(part.mean()) for part in (late == 0, late < 0, late > 0))]
    off = [one.level for one in there if one.late != 0]
    doubt = float(np.mean([not one.level.trusted for one in there]))
    cells = [
        *(f"{share:.1%}" for share in shares),
        coverage([one.level for one in there]),
        coverage([one.known for one in there]),
        f"{coverage(off)} of {len(off)}",
        f"{doubt:.0%}",
    ]
    return f"| {kind.name}, {' / '.join(map(str, FOUND[kind.name]))} | {' | '.join(cells)} |"


def cell(got: list[Result], kind: Kind) -> str:
    """Return coverage, median width, or the share of medians for skewed readings, and the share not trusted."""
    covers, trusted, medians = (
        float(np.mean(column))
        for column in ([r.covers for r in got], [r.trusted for r in got], [r.median for r in got])
    )
    width = f"{medians:.0%} medians" if kind.tail else f"{np.median([one.width for one in got]):.2f}"
    doubt = f" ({1.0 - trusted:.0%})" if trusted < 0.995 else ""
    return f"{covers:.3f}".lstrip("0") + f", {width}{doubt}"


def main() -> None:
    """Print the tables."""
    which = sys.argv[1] if len(sys.argv) > 1 else "judged"
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    print(f"| readings | {' | '.join(f'{before} / {after}' for before, after in SIZES)} |")
    print("|---" * (len(SIZES) + 1) + "|")
    for kind in KINDS:
        cells = [cell(list(results(kind, *size, SEEDS[which], count)), kind) for size in SIZES]
        print(f"| {' | '.join([kind.name, *cells])} |", flush=True)
    print()
    print_found(SEEDS[which], count)


def print_found(seed: int, count: int) -> None:
    """Print the second table."""
    titles = ["readings", "found", "at its place", "too early", "too late", "coverage"]
    titles += ["at the true place", "where wrong", "not trusted"]
    print(f"| {' | '.join(titles)} |")
    print("|---" * len(titles) + "|")
    for kind in KINDS:
        if kind.name in FOUND:
            print(found_row(kind, list(found(kind, *FOUND[kind.name], seed, count))), flush=True)


if __name__ == "__main__":
    main()
