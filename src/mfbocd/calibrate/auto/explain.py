"""Explains the automatic detector in words: the structure it found, the reasons, and what it cannot handle."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ...detector.detector import Detector
from ...models import RobustTrend
from ..period import estimate_period
from .season import Array
from .selection import AUTOCORRELATIONS, History, MakeDetector, losses, replay
from .structure import Structure

_SHORT = 40  # readings below which estimates are rough
_MISSING = 0.2  # share of missing readings worth a warning
_CROWDED = 25  # ticks per change below which the changes are probably structure that no model describes
_OUTLIERS = 0.1  # share of outliers beyond which a part of them is the noise itself
_MANY = 100  # forecast errors from which that share is known well enough
_SKEWED = 0.2  # (upper - lower) / (upper + lower) deciles from the median worth a warning; 0.46 of an exponential
_SKEW_ERROR = 1.2  # its standard error times the root of the number of readings, with heavy tails
_CLEAR = 0.2  # least autocorrelation, and share of variance of a season, of residuals worth a warning


class Account(NamedTuple):
    """The facts about a series that explanations and warnings use."""

    ticks: int
    structure: Structure
    """The most probable one."""
    detector: Detector
    """Its detector, after these readings."""
    history: History
    """The last readings."""
    make: MakeDetector
    once: bool
    """Whether repeated readings are skipped."""
    changes: list[tuple[int, int]]
    """Tick of the alarm and of the change."""


def explanation(account: Account) -> list[str]:
    """Return the structure of a series and the reasons, one line per feature."""
    structure, value = account.structure, constant(account.history.x)
    if value is not None:
        return [_count(account), f"All readings equal {value:g}."]
    lost = losses(structure, account.history, account.make)
    lines = [_count(account), *_kind(structure, lost)]
    if structure.kind == "number":
        lines += [_level(account), *_noise(structure, lost)]
    repeats = int((~account.history.used & np.isfinite(account.history.x)).sum())
    if account.once and repeats:
        lines.append(f"A reading that only repeats the one before is skipped: {repeats:,} so far.")
    return lines


def cautions(account: Account) -> list[str]:
    """Return what may make the result unreliable, one sentence or two each."""
    x = account.history.x
    present = x[np.isfinite(x)]
    found = []
    if present.size < _SHORT:
        found.append(f"Only {_readings(present.size)}: the estimates are rough and a season cannot be found.")
    if np.isnan(x).mean() > _MISSING:
        found.append(f"{np.isnan(x).mean():.0%} of the readings are missing: alarms come later and are less certain.")
    if constant(x) is not None:
        return [*found, "The series is constant: the size of its noise is unknown, so any other value is a change."]
    if account.structure.kind == "binary":
        return found
    if is_random_walk(account.structure):
        found.append("The series moves like a random walk: only jumps are reported.")
    recent = [at for _, at in account.changes if at >= account.history.tick[0]]
    if len(recent) >= 3 and _CROWDED * len(recent) > x.size:
        found.append(
            f"{len(recent)} changes in {x.size:,} ticks: the series probably has a structure that no model here "
            "describes, such as an irregular oscillation."
        )
    rest = _forecast_errors(account)
    return found + _shape_warnings(account.structure, rest) + _residual_warnings(rest)


def _shape_warnings(structure: Structure, rest: Array) -> list[str]:
    """Return the warning about noise of a shape that the models do not have: the alarms are too sure."""
    seen = rest[np.isfinite(rest)]
    if seen.size < _SHORT:
        return []
    reasons = []
    if structure.outliers > _OUTLIERS and seen.size >= _MANY:
        reasons.append(f"about {structure.outliers:.0%} of the readings are outliers")
    low, middle, high = np.quantile(seen, (0.1, 0.5, 0.9))
    skew = float(high + low - 2.0 * middle) / float(high - low) if high > low else 0.0
    if abs(skew) > max(_SKEWED, 4.0 * _SKEW_ERROR / math.sqrt(seen.size)):
        reasons.append("the noise is skewed")
    if not reasons:
        return []
    return [
        f"{' and '.join(reasons).capitalize()}: the probabilities of the alarms cannot be trusted, and many alarms "
        "may be false. Use the median of every 10 readings as one, or a higher threshold, such as alarm=0.999."
    ]


def constant(x: Array) -> float | None:
    """Return the value that all readings have; None if they differ."""
    present = x[np.isfinite(x)]
    return float(present[0]) if present.size and present.min() == present.max() else None


def is_random_walk(structure: Structure) -> bool:
    """Tell whether the noise looks like a random walk."""
    return structure.ar == AUTOCORRELATIONS[-1] or sum(structure.ar) >= 0.98


def _forecast_errors(account: Account) -> Array:
    """Return differences of readings and one-tick forecasts, NaN where a reading is missing or does not count."""
    _, fields = replay(account.structure, account.history, account.make)
    exact = replace(account.structure, step=0.0)  # a forecast is not rounded
    forecast = exact.prepared(fields["mean"][:-1], account.history.tick[1:])
    errors = np.sqrt(account.history.zeta[1:]) * (account.history.prepared(account.structure)[1:] - forecast)
    return np.asarray(errors[20:])


def _residual_warnings(rest: Array) -> list[str]:
    """Return warnings about forecast errors that are not white."""
    seen = rest[np.isfinite(rest)]
    if seen.size < _SHORT:
        return []
    middle = np.median(seen)
    bound = 4.0 * 1.4826 * float(np.median(np.abs(seen - middle)))
    if not bound > 0.0:
        return []
    found = []
    rest = np.clip(rest - middle, -bound, bound)
    correlation = _lag_one(rest)
    if abs(correlation) > max(_CLEAR, 4.0 / math.sqrt(seen.size)):
        found.append(
            f"The forecast errors are still autocorrelated ({correlation:.2f}): no model here describes the series "
            "well. Expect false alarms."
        )
    period = estimate_period(rest)
    if period.significant and period.strength > _CLEAR:
        found.append(
            f"The forecast errors still have a period of {period.period:.4g} ticks: the season is not described "
            "well. Expect false alarms."
        )
    return found


def _lag_one(rest: Array) -> float:
    both = np.isfinite(rest[1:]) & np.isfinite(rest[:-1])
    power = float(np.nanmean(rest**2))
    return float(np.mean(rest[1:][both] * rest[:-1][both])) / power if both.any() and power > 0.0 else 0.0


def _count(account: Account) -> str:
    missing = int(np.isnan(account.history.x).sum())
    kept = account.history.x.size
    text = _readings(account.ticks)
    if kept < account.ticks:
        text += f", of which the last {kept:,} are used to choose the structure"
    if missing:
        text += f"; {missing:,} of them missing"
    return text + "."


def _kind(structure: Structure, lost: dict[str, float]) -> list[str]:
    if structure.kind == "binary":
        return ["All readings are 0 or 1: a regime is a probability of 1."]
    if structure.transform == "log":
        why = _why(lost, "transform", "this")
        first = f"Positive numbers whose noise grows with their level, used as logarithms{why}"
    elif structure.transform == "sqrt":
        what = "Counts" if structure.step == 1.0 else "Numbers from 0 on"
        first = f"{what} whose variance grows with their level, used as square roots{_why(lost, 'transform', 'this')}"
    else:
        first = "Numbers, used as they are."
    rounded = (
        [f"Rounded to steps of {structure.step:.4g}."] if structure.step and structure.transform != "sqrt" else []
    )
    return [first, *rounded]


def _level(account: Account) -> str:
    """Describe the level and the noise, and whether the regime is a level or a line."""
    structure = account.structure
    level = float(replace(structure, seasons=()).restored(np.array([structure.center]), np.array([0]))[0])
    if structure.transform == "log":
        noise = f"noise of about {math.expm1(structure.noise):.2g} of the level"
    elif structure.transform == "sqrt":
        noise = f"noise variance of about {structure.noise**2:.2g} times the level"
    else:
        noise = f"noise of standard deviation {structure.noise * structure.unit:.3g}"
    text = f"Typical level {level:.4g}, {noise}."
    model = account.detector.model
    if isinstance(model.core, RobustTrend):
        stats = model.core_stats(account.detector._filter.stats)
        line, slope = model.core.slope(stats[:, ::-1])  # the shortest run first, as in run_length
        top = int(np.argmax(account.detector.run_length.weight))
        if line[top] > 0.5:
            per = "per tick"
            if structure.transform != "none":
                per += f" on the scale of the {_SCALE[structure.transform]}"
            text += f" The current regime is a line of slope {slope[top] * structure.unit:.3g} {per}."
        else:
            text += " The current regime is a level."
    return text


_SCALE = {"log": "logarithm", "sqrt": "square root"}


def _noise(structure: Structure, lost: dict[str, float]) -> list[str]:
    lines = []
    if structure.seasons:
        periods = " and ".join(f"{season.period:.4g}" for season in structure.seasons)
        one = len(structure.seasons) == 1
        why = _why(lost, "seasons", "it" if one else "them")
        lines.append(f"Season{'' if one else 's'} of {periods} ticks{why}")
    if structure.ar:
        values = ", ".join(f"{a:.2g}" for a in structure.ar)
        lines.append(f"Autocorrelated noise ({values}){_why(lost, 'ar')}")
    else:
        lines.append("No autocorrelation of the noise.")
    if "outliers" in lost:
        lines.append(f"Outliers, about {structure.outliers:.2g} of the readings{_why(lost, 'outliers', 'them')}")
    if structure.forget < 1.0:
        memory = round(1.0 / (1.0 - structure.forget))
        lines.append(f"The variance of the noise drifts, {memory} readings are remembered{_why(lost, 'forget')}")
    return lines


def _why(lost: dict[str, float], field: str, it: str = "it") -> str:
    nats = lost[field]
    if nats < 1.0:  # it was chosen from fewer readings
        return f". The evidence for {it} is weak so far."
    return f": without {it} the evidence is {nats:.0f} nat{'s' if round(nats) > 1 else ''} lower."


def _readings(count: int) -> str:
    return f"{count:,} reading{'' if count == 1 else 's'}"
