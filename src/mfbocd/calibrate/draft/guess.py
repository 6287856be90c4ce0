"""A whole config: from a table with a column for each fidelity, or the example to start from."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...io.config import Config
from .. import CalibrationError, bernoulli_zeta, gaussian_zeta
from ..noise import moves, noise_of
from .model import Guess, guess_model, guess_plain
from .survey import Survey

Array = NDArray[np.float64]

DEAREST = 10.0  # placeholder cost of the best fidelity; the least has 1
HAZARD = 1 / 250
SHARE = 0.35
PAIRS = 3  # rows with both readings, at least, for a look at whether one reads more than the other

_GENERAL = {
    "hazard": "P(a change) at every tick: one every 250 ticks on average. Set it to 1 / (ticks between changes).",
    "missing": 'What an empty cell means: "skip" is a tick at which nothing was read, "raise" an error.',
    "seed": "Of the draws: the same seed and the same data give the same choices.",
    "policy": "Which fidelity is read. `budget` learns a price so that the average cost a tick lies `share` "
    "of the way between the cheapest (0) and the dearest (1); per_tick = ... instead names the cost itself.",
    "alarm": "An alarm fires when P(a change within the last `within` ticks) reaches `threshold`.",
}


class GuessError(ValueError):
    """A table no config can be guessed from, and why."""


def template() -> tuple[Config, dict[str, str]]:
    """An example with two fidelities, and what each line means.

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
        "": "An example to edit: a cheap, noisy sensor and a dear, precise one.\n"
        "`mfbocd init --from data.csv` guesses all of this from a table with a column for each.",
        "model": 'What the readings look like: "gaussian" for numbers, "bernoulli" for zeros and ones, "poisson" for '
        "counts, and more.",
        "model.mean": "The level of a regime lies around `mean`, with variance `var`;",
        "model.noise_var": "readings at full fidelity scatter about it with variance `noise`.",
        "fidelity[0]": "One way to observe. Its readings stand in the column of that name (or: column = ...).",
        "fidelity[0].zeta": "How much of a full reading this one is worth, 0 to 1; for a Gaussian: the noise "
        "variance of the best over its own. `mfbocd calibrate` estimates it.",
        "fidelity[0].cost": "What a reading costs, in any unit: joules, milliseconds, euros.",
    }


def guess_config(found: Survey, best: str | None = None) -> tuple[Config, dict[str, str]]:
    """A config from the columns of a table, each a fidelity, and the reason of every guess by dotted key.

    `best` names the best column; without it the least noisy is.
    """
    if not found.readings:
        raise GuessError(f"no column of numbers among the first {found.rows} rows{_left(found)}")
    if best is not None and best not in found.readings:
        raise GuessError(f"best must be one of {', '.join(found.readings)}, not {best!r}")
    noises = {name: noise_of(values)[0] for name, values in found.readings.items()}
    # the noise of a column that never moves is a placeholder, which says nothing of how good it is
    quietest = min(noises, key=lambda name: (not moves(found.readings[name]), noises[name]))
    top = best or quietest
    binary = guess_plain(found.readings[top]).model["kind"] == "bernoulli"
    kept = {n: v for n, v in found.readings.items() if not binary or guess_plain(v).model["kind"] == "bernoulli"}
    guess = guess_model(found.readings[top]) if len(kept) == 1 else _shared(found.readings[top])
    zetas = {n: (1.0, "") if n == top else _zeta(kept[top], v, guess) for n, v in kept.items()}
    order = sorted(kept, key=lambda n: (n == top, zetas[n][0]))
    rows: list[dict[str, Any]] = []
    notes = dict(_GENERAL)
    for i, name in enumerate(order):
        cost = float(f"{DEAREST ** (i / (len(order) - 1)):.2g}") if len(order) > 1 else 1.0
        rows.append({"name": name, "zeta": zetas[name][0], "cost": cost})
        if len(order) > 1:
            notes[f"fidelity[{i}].cost"] = "A PLACEHOLDER: put in what a reading costs."
        if name != top:
            notes[f"fidelity[{i}].zeta"] = zetas[name][1]
            continue
        why = "you said so" if best else f"its noise, {noises[name]:.3g}, is the smallest of {_listed(noises)}"
        notes[f"fidelity[{i}]"] = "The only column of numbers." if len(kept) == 1 else f"The best: {why}."
    given: dict[str, Any] = {"hazard": HAZARD, "model": _rounded(guess.model), "fidelity": rows}
    if len(rows) > 1:
        given["policy"] = {"kind": "budget", "share": SHARE}
    if found.time is not None:
        given["data"] = {"time": found.time}
        notes["data.time"] = f"The timestamps: {found.reasons.get(found.time, 'you said so')}."
    notes |= {f"model.{name}": f"{_begun(why)}." for name, why in guess.reasons.items()}
    dropped = {n: "it is not all zeros and ones, as the best is" for n in found.readings if n not in kept}
    dropped |= {n: why for n, why in found.reasons.items() if n != found.time}
    notes[""] = f"Guessed from {found.rows} rows; every line is meant to be read and edited." + "".join(
        f"\nLeft out: column {name!r}, {why}." for name, why in dropped.items()
    )
    return Config.parse(given), notes


def _shared(best: Array) -> Guess:
    """The model of several fidelities: of a family whose zeta can be told from readings."""
    guess, alone = guess_plain(best), guess_model(best)
    kind = alone.model["kind"]
    if kind == guess.model["kind"]:
        return alone
    why = (
        "what a reading is worth can be told from readings of a gaussian.\nCAREFUL: by itself the best column is of "
        f"kind {kind}: {alone.reasons['kind']}"
    )
    return Guess(guess.model, guess.reasons | {"kind": why})


def _zeta(high: Array, low: Array, guess: Guess) -> tuple[float, str]:
    """A guess at zeta, and why."""
    both = np.isfinite(high) & np.isfinite(low)
    x, y = high[both], low[both]
    if guess.model["kind"] == "bernoulli":
        try:
            labels = bernoulli_zeta(x, y, "information")
        except CalibrationError as refusal:
            return 0.5, f"A PLACEHOLDER, put in your own: {refusal}."
        why = f"(2 q - 1)^2, where q is how often it agrees with the best: {labels}."
        return max(_digits(labels.value), 1e-4), why
    for column, whose in ((low, "its readings"), (high, "the best's readings")):
        if not moves(column):
            return 0.5, f"A PLACEHOLDER, put in your own: {whose} never moved, so that their noise is unknown."
    noise_var = guess.model["noise_var"]
    try:
        estimate = gaussian_zeta(x, y, noise_var=noise_var)
        why = f"The noise of the best over its own, from how far the two lie apart: {estimate}"
        value = estimate.value
    except CalibrationError as refusal:
        # rows that hold both cannot tell: each column's noise about its own level, over all readings it holds
        own, count = noise_of(low)[0], np.isfinite(low).sum()
        value = min(noise_var / own, 1.0)
        why = (
            f"The noise of the best, {noise_var:.3g}, over its own, {own:.3g} from its {count} readings: a rough "
            f"guess, as {refusal}"
        )
    if x.size < PAIRS:
        why += "; an offset from the best cannot be seen either"
    return max(_digits(value), 1e-4), f"{why}.{_offset(x, y)}"


def _offset(high: Array, low: Array) -> str:
    """A warning where the two do not read the same quantity: the filter takes every reading as unbiased."""
    if high.size < PAIRS:
        return ""
    apart = float(np.median(low - high))
    error = 1.2533 * 1.4826 * float(np.median(np.abs(low - high - apart))) / math.sqrt(high.size)  # of a median
    if abs(apart) <= 5.0 * error or error == 0.0:
        return ""
    return (
        f"\nCAREFUL: it reads {apart:.3g} more than the best (median); readings should be corrected for that first."
    )


def _rounded(model: dict[str, Any]) -> dict[str, Any]:
    """Numbers a person would write: four digits, a mean to a hundredth of the noise."""
    given = {k: _digits(v) if isinstance(v, float) else v for k, v in model.items()}
    if "mean" in model:
        places = 2 - math.floor(0.5 * math.log10(model["noise_var"] if "noise_var" in model else model["scale"]))
        given["mean"] = round(model["mean"], places)
    return given


def _begun(text: str) -> str:
    return text[0].upper() + text[1:]


def _digits(value: float) -> float:
    return float(f"{value:.4g}")


def _listed(noises: dict[str, float]) -> str:
    return ", ".join(f"{name} {noise_var:.3g}" for name, noise_var in noises.items())


def _left(found: Survey) -> str:
    left = [f"{name!r}: {why}" for name, why in found.reasons.items()]
    return f" ({'; '.join(left)})" if left else ""
