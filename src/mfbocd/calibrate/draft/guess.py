"""A complete configuration: from a table with one column per fidelity, or an example to edit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...io.config import Config
from ...policy.fidelity import name_from
from ..checks import CalibrationError
from ..correction import LEAST, CorrectionEstimate, estimate_correction
from ..noise import noise_of, varies
from ..zeta import bernoulli_zeta, gaussian_zeta
from .automatic import Draft, draft_model
from .columns import TableColumns
from .model import Guess, guess_basic_model, guess_with_reasons

Array = NDArray[np.float64]

HIGHEST_COST = 10.0  # placeholder cost of the best fidelity; the worst has 1
HAZARD = 1 / 250
SHARE = 0.35
PAIRS = 3  # rows with both readings that are needed to detect an offset

_GENERAL = {
    "hazard": "P(change) per tick: one change every 250 ticks on average. Set it to 1 / (ticks between changes).",
    "missing": 'What an empty cell means: "skip" is a tick without a reading, "raise" is an error.',
    "seed": "Seed of random choices: the same seed and data give the same choices.",
    "policy": "How the fidelity is chosen. `budget` learns a price so that the average cost per tick lies `share` of "
    "the way from the cheapest fidelity (0) to the most expensive (1); per_tick = ... sets the cost itself instead.",
    "alarm": "An alarm fires when P(change within the last `within` ticks) reaches `threshold`.",
}


class GuessError(ValueError):
    """No configuration can be estimated from a table; the message says why."""


def template() -> tuple[Config, dict[str, str]]:
    """Return an example configuration with two fidelities.

    Returns
    -------
    tuple[Config, dict[str, str]]
        The configuration, and a comment for each dotted key.

    Examples
    --------
    >>> config, notes = template()
    >>> [f.name for f in config.fidelities]
    ['imu', 'gps']
    """
    config = Config.parse(
        {
            "hazard": HAZARD,
            "model": {"kind": "gaussian", "mean": 0.0, "var": 9.0, "noise_var": 1.0},
            "fidelity": [{"name": "imu", "zeta": 0.1, "cost": 1.0}, {"name": "gps", "zeta": 1.0, "cost": 40.0}],
            "policy": {"kind": "budget", "share": SHARE},
        }
    )
    return config, _GENERAL | {
        "": "An example to edit: a cheap, noisy sensor and an expensive, precise one.\n"
        "`mfbocd init --from data.csv --fidelity imu --fidelity gps` estimates all of this from columns of a table.",
        "model": 'The distribution of readings: "gaussian" for numbers, "bernoulli" for zeros and ones, "poisson" '
        "for counts, and others.",
        "model.mean": "The level of a regime lies around `mean`, with variance `var`;",
        "model.noise_var": "readings at full fidelity vary about it with variance `noise_var`.",
        "fidelity[0]": "A way to observe. Its readings are in the column of that name (or set column = ...).",
        "fidelity[0].zeta": "Value of a reading relative to a full one, 0 to 1; for a Gaussian, the noise variance "
        "of the best fidelity divided by its own. `mfbocd calibrate` estimates it.",
        "fidelity[0].cost": "Cost of a reading, in any unit: joules, milliseconds, euros.\nOptional: offset = 2.0 "
        'for a sensor that reads 2 too high; observe = "./imu.sh", a command that prints a reading (`mfbocd drive`).',
    }


def guess_config(found: TableColumns, best: str | None = None) -> tuple[Config, dict[str, str]]:
    """Estimate a configuration from the columns of a table, each of which is a fidelity.

    Parameters
    ----------
    found : TableColumns
        The columns.
    best : str or None
        The column of the best fidelity; the one with the least noise by default.

    Returns
    -------
    tuple[Config, dict[str, str]]
        The configuration, and the reason for each value by dotted key.

    Raises
    ------
    GuessError
        If there is no column of numbers, or `best` is none of them.
    """
    if not found.readings:
        raise GuessError(f"no column of numbers in the first {found.rows} rows{_reasons(found)}")
    if best is not None and best not in found.readings:
        raise GuessError(f"best must be one of {', '.join(found.readings)}, not {best!r}")
    noises = {name: noise_of(values)[0] for name, values in found.readings.items()}
    # the noise of a constant column is a placeholder, which says nothing about its quality
    quietest = min(noises, key=lambda name: (not varies(found.readings[name]), noises[name]))
    top = best or quietest
    binary = guess_basic_model(found.readings[top]).spec["kind"] == "bernoulli"
    kept = {n: v for n, v in found.readings.items() if not binary or guess_basic_model(v).spec["kind"] == "bernoulli"}
    draft = draft_model(found.readings[top]) if len(kept) == 1 else None
    guess = _shared(found.readings[top]) if draft is None else draft.guess
    wrong = (
        {} if binary else {n: e for n, v in kept.items() if n != top and (e := _correction(kept[top], v)).detected}
    )
    right = {n: (v - wrong[n].offset) / wrong[n].scale if n in wrong else v for n, v in kept.items()}
    zetas = {n: (1.0, "") if n == top else _zeta(kept[top], v, guess) for n, v in right.items()}
    order = sorted(kept, key=lambda n: (n == top, zetas[n][0]))
    rows: list[dict[str, Any]] = []
    notes = dict(_GENERAL)
    for i, name in enumerate(order):
        cost = float(f"{HIGHEST_COST ** (i / (len(order) - 1)):.2g}") if len(order) > 1 else 1.0
        rows.append({"name": name_from(name), "column": name, "zeta": zetas[name][0], "cost": cost})
        if name in wrong:
            error = {"offset": wrong[name].offset, "scale": wrong[name].scale}
            rows[-1] |= {"offset": error["offset"]} if error["scale"] == 1.0 else error
            notes[f"fidelity[{i}].offset"] = f"It {wrong[name]}, compared with {top}: (x - offset) / scale is used."
        if len(order) > 1:
            notes[f"fidelity[{i}].cost"] = "A PLACEHOLDER: set the cost of a reading."
        if name != top:
            notes[f"fidelity[{i}].zeta"] = zetas[name][1]
            continue
        why = (
            "as specified"
            if best
            else f"its noise variance, {noises[name]:.3g}, is the smallest of {_listed(noises)}"
        )
        notes[f"fidelity[{i}]"] = "The only column of numbers." if len(kept) == 1 else f"The best: {why}."
    given: dict[str, Any] = {"hazard": HAZARD, "model": _rounded(guess.spec), "fidelity": rows}
    if draft is not None:
        given |= {"hazard": draft.hazard, "alarm": {"within": draft.alarm.within, "threshold": draft.alarm.threshold}}
        notes |= _automatic_notes(draft)
    if len(rows) > 1:
        given["policy"] = {"kind": "budget", "share": SHARE}
    if found.time is not None:
        given["data"] = {"time": found.time}
        notes["data.time"] = f"The timestamps: {found.reasons.get(found.time, 'as specified')}."
    notes |= {f"model.{name}": f"{_capitalized(why)}." for name, why in guess.reasons.items()}
    dropped = {n: "it is not all zeros and ones, unlike the best" for n in found.readings if n not in kept}
    dropped |= {n: why for n, why in found.reasons.items() if n != found.time}
    notes[""] = f"Estimated from {found.rows} rows; check and edit every line." + "".join(
        f"\nLeft out: column {name!r}, {why}." for name, why in dropped.items()
    )
    return Config.parse(given), notes


def _automatic_notes(draft: Draft) -> dict[str, str]:
    """Return the comments on the choice of the automatic detector."""
    often = f"one change every {1 / draft.hazard:.0f} ticks on average"
    return {
        "model": draft.found,
        "hazard": _GENERAL["hazard"].replace("one change every 250 ticks on average", often),
    }


def _shared(best: Array) -> Guess:
    """Return a model for several fidelities, of a family whose zeta can be estimated from readings."""
    guess, alone = guess_basic_model(best), guess_with_reasons(best)
    kind = alone.spec["kind"]
    if kind == guess.spec["kind"]:
        return alone
    why = (
        "a gaussian, because its zeta can be estimated from readings.\nCAREFUL: by itself the best column is of kind "
        f"{kind}: {alone.reasons['kind']}"
    )
    return Guess(guess.spec, guess.reasons | {"kind": why})


def _zeta(high: Array, low: Array, guess: Guess) -> tuple[float, str]:
    """Return an estimate of zeta, and its reason."""
    both = np.isfinite(high) & np.isfinite(low)
    x, y = high[both], low[both]
    if guess.spec["kind"] == "bernoulli":
        try:
            labels = bernoulli_zeta(x, y, "information")
        except CalibrationError as error:
            return 0.5, f"A PLACEHOLDER, set your own: {error}."
        why = f"(2 q - 1)^2, where q is the fraction of agreement with the best: {labels}."
        return max(_digits(labels.value), 1e-4), why
    for column, whose in ((low, "its readings"), (high, "the best's readings")):
        if not varies(column):
            return 0.5, f"A PLACEHOLDER, set your own: {whose} never vary, so that their noise is unknown."
    noise_var = guess.spec["noise_var"]
    try:
        estimate = gaussian_zeta(x, y, noise_var=noise_var)
        why = f"Noise variance of the best divided by its own, from their differences: {estimate}"
        value = estimate.value
    except CalibrationError as error:
        # too few rows with both readings: use the noise of each column separately
        own, count = noise_of(low)[0], np.isfinite(low).sum()
        value = min(noise_var / own, 1.0)
        why = (
            f"Noise variance of the best, {noise_var:.3g}, divided by its own, {own:.3g} from {count} readings: a "
            f"rough estimate, because {error}"
        )
    if x.size < PAIRS:
        why += "; an offset from the best cannot be detected either"
    return max(_digits(value), 1e-4), f"{why}.{_offset(x, y)}"


def _correction(high: Array, low: Array) -> CorrectionEstimate:
    """Return the systematic error of a column compared with the best; none where it cannot be estimated."""
    both = np.isfinite(high) & np.isfinite(low)
    if both.sum() < LEAST or not varies(low) or not varies(high):
        return CorrectionEstimate(0.0, 1.0, math.inf, math.inf, int(both.sum()))
    return estimate_correction(high[both], low[both])


def _offset(high: Array, low: Array) -> str:
    """Return a warning if there are too few pairs to correct an offset: the filter takes readings as unbiased."""
    if not PAIRS <= high.size < LEAST:
        return ""
    offset = float(np.median(low - high))
    error = (
        1.2533 * 1.4826 * float(np.median(np.abs(low - high - offset))) / math.sqrt(high.size)
    )  # standard error of a median
    if abs(offset) <= 5.0 * error or error == 0.0:
        return ""
    return f"\nCAREFUL: it reads {offset:.3g} more than the best (median); correct the readings for that first."


def _rounded(model: dict[str, Any]) -> dict[str, Any]:
    """Round numbers as a person would write them: four digits, and the mean to a hundredth of the noise."""
    given = {name: _shortened(name, value) for name, value in model.items()}
    for name in ("mean", "level"):
        if name in model:
            places = 2 - math.floor(0.5 * math.log10(model["noise_var"] if "noise_var" in model else model["scale"]))
            given[name] = round(model[name], places)
    return given


def _shortened(name: str, value: Any) -> Any:
    """Return an argument of a model with the digits that matter."""
    if isinstance(value, dict):
        return _rounded(value)
    if isinstance(value, list):
        return [_shortened(name, each) for each in value]
    if not isinstance(value, float):
        return value
    # after a thousand seasons, four digits of their period would be half a season wrong
    return float(f"{value:.9g}") if name == "period" else _digits(value)


def _capitalized(text: str) -> str:
    return text[0].upper() + text[1:]


def _digits(value: float) -> float:
    return float(f"{value:.4g}")


def _listed(noises: dict[str, float]) -> str:
    return ", ".join(f"{name} {noise_var:.3g}" for name, noise_var in noises.items())


def _reasons(found: TableColumns) -> str:
    reasons = [f"{name!r}: {why}" for name, why in found.reasons.items()]
    return f" ({'; '.join(reasons)})" if reasons else ""
