"""The configuration of one column: the model of the structure that the automatic detector chooses."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...belief.alarm import Alarm
from ...io.config.kinds import plain
from ...models.nested import named_spec
from ..auto import AutoDetector, Structure
from ..auto.structure import scales
from ..noise import finite_values
from .model import Guess, guess_basic_model

Array = NDArray[np.float64]


class Draft(NamedTuple):
    """A model with its reasons, and the hazard and alarm that it was chosen with."""

    guess: Guess
    found: str
    """The structure of the series in words, several lines."""
    hazard: float
    alarm: Alarm


def draft_model(x: Array) -> Draft:
    """Run the automatic detector over the readings and describe its most probable structure as a model.

    Parameters
    ----------
    x : ndarray
        The readings, NaN where missing; at least one.

    Returns
    -------
    Draft
        `Bernoulli` for 0/1, otherwise the composed model of the structure (`Structure.model`).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> draft = draft_model(rng.normal(20, 2, 300))
    >>> draft.guess.spec["kind"]
    'robust_trend'
    """
    detector = AutoDetector()
    detector.run(x)
    structure = detector.structure
    found = detector.explain()
    values = finite_values(x)
    if structure is None or structure.kind == "binary":
        basic = guess_basic_model(values)
        if basic.spec["kind"] == "bernoulli":
            return Draft(basic, found, detector.hazard, detector.alarm)
        structure = _plain(structure or Structure(), values)
    return Draft(_guess(structure, values.size), found, detector.hazard, detector.alarm)


def _plain(structure: Structure, x: Array) -> Structure:
    """Return the structure of the readings as they are, without a transform, seasons and autocorrelation."""
    center, noise, spread = scales(x)
    plain = replace(structure, kind="number", transform="none", seasons=(), ar=(), unit=1.0, step=0.0)
    return replace(plain, center=center, noise=noise, spread=spread)


def _guess(structure: Structure, count: int) -> Guess:
    """Return the model with the reason for each argument, by its path in the table."""
    spec = plain(named_spec(structure.model()))
    levels = f"noise variance over the variance of levels, {structure.spread**2:.3g}, and the same for slopes"
    known = {
        "robust_trend.level": f"typical level of {count} readings",
        "robust_trend.count": levels,
        "transformed.kind": f"the noise grows with the level: the {structure.transform} of the readings is used",
    }
    reasons: dict[str, str] = {}
    path, part = "", spec
    while True:
        part.pop("weighting", None)  # it matters only where readings have several fidelities
        of_kind = {name: f"{part['kind']}.{name}" for name in part}
        why = {**_REASONS, **known}
        reasons |= {path + name: why[key] for name, key in of_kind.items() if key in why}
        if "model" not in part:
            return Guess(spec, reasons)
        path, part = f"{path}model.", part["model"]


_REASONS = {
    "robust_trend.kind": "a level or a line per regime, with outliers",
    "robust_trend.shape": "the noise variance of a regime is unknown: readings that its prior is worth, halved",
    "robust_trend.scale": "variance of the noise about local lines",
    "robust_trend.line": "probability that a regime is a line and not a level",
    "robust_trend.ar": "autocorrelation of the noise, that of the last reading first",
    "robust_trend.outliers": "probability of an outlier",
    "robust_trend.forget": "below 1 if the variance of the noise drifts",
    "fixed_season.kind": "a season that is the same in every regime",
    "fixed_season.period": "ticks per season",
    "fixed_season.cosine": "coefficients of the harmonics",
    "fixed_season.pieces": "phase in ticks, value there and slope of each piece of a line",
    "fixed_season.start": "tick of the season at which the stream begins: 0 if it begins with the first row",
    "transformed.offset": "added before the function",
    "rounded.kind": "readings are rounded",
    "rounded.step": "distance between rounded readings",
    "scaled.scale": "unit of the numbers below; the squares of the readings cannot be represented",
}
"""Reasons by kind and argument, for those that do not depend on the readings."""
