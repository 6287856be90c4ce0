"""The configuration of one column: the structure that the automatic detector chooses, where a file can express it."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...belief.alarm import Alarm
from ...models import RobustTrend
from ..auto import AutoDetector, Structure
from ..auto.structure import scales
from ..noise import finite_values
from .model import Guess, guess_basic_model

Array = NDArray[np.float64]


class Draft(NamedTuple):
    """A model with its reasons, what it leaves out, and the hazard and alarm that it was chosen with."""

    guess: Guess
    found: str
    """The structure of the series in words, several lines."""
    left_out: str
    """The parts that a configuration cannot express; empty if there are none."""
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
        `Bernoulli` for 0/1, otherwise `RobustTrend`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> draft = draft_model(rng.normal(20, 2, 300))
    >>> draft.guess.spec["kind"], draft.left_out
    ('robust_trend', '')
    """
    detector = AutoDetector()
    detector.run(x)
    structure = detector.structure
    found = detector.explain()
    values = finite_values(x)
    if structure is None or structure.kind == "binary":
        basic = guess_basic_model(values)
        if basic.spec["kind"] == "bernoulli":
            return Draft(basic, found, "", detector.hazard, detector.alarm)
    structure = structure or _plain(Structure(), values)
    left_out = _not_expressible(structure)
    if left_out:
        structure = _plain(structure, values)
    return Draft(_guess(structure, values.size), found, left_out, detector.hazard, detector.alarm)


def _plain(structure: Structure, x: Array) -> Structure:
    """Return the structure of the readings as they are, without a transform, seasons and autocorrelation."""
    center, noise, spread = scales(x)
    plain = replace(structure, kind="number", transform="none", seasons=(), ar=(), unit=1.0, step=0.0)
    return replace(plain, center=center, noise=noise, spread=spread)


def _not_expressible(structure: Structure) -> str:
    parts = [f"a season of {season.period:.4g} ticks" for season in structure.seasons]
    if structure.transform != "none":
        parts.append(f"a noise that grows with the level ({structure.transform} of the readings)")
    if structure.step and structure.transform == "none":
        parts.append(f"readings rounded to steps of {structure.step:.4g}")
    if structure.unit != 1.0:
        parts.append(f"readings in units of {structure.unit:.4g}")
    return " and ".join(parts)


def _guess(structure: Structure, count: int) -> Guess:
    model = structure.model()
    assert isinstance(model, RobustTrend)
    reasons = {
        "kind": "a level or a line per regime, with outliers",
        "level": f"typical level of {count} readings",
        "count": f"noise variance over the variance of levels, {structure.spread**2:.3g}, and the same for slopes",
        "shape": "the noise variance of a regime is unknown: readings that its prior is worth, halved",
        "scale": "variance of the noise about local lines",
        "line": "probability that a regime is a line and not a level",
        "ar": "autocorrelation of the noise, that of the last reading first",
        "outliers": "probability of an outlier",
        "forget": "below 1 if the variance of the noise drifts",
    }
    spec = {name: value for name, value in model.spec().items() if name in reasons}
    return Guess({"kind": "robust_trend", **spec}, reasons)
