"""An alarm that is false as seldom as wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..belief.hazard import Hazard
from ..detector.step import Alarm
from ..fleet.fleet import Fleet
from ..inputs.arguments import positive
from ..models import Model
from .zeta import CalibrationError

Array = NDArray[np.float64]

EVENTS = 400  # false alarms wanted in the simulation: their rate is then known to a tenth, at two standard errors
STREAMS = 200
HIGHEST = 25.0  # log odds of the highest threshold tried, and of the lowest
HALVINGS = 10  # of the interval between them: to 0.05 in the log odds


@dataclass(frozen=True)
class AlarmFor:
    """A threshold for a wanted mean time between false alarms, and what a second simulation made of it."""

    alarm: Alarm
    wanted: float
    """Mean ticks between false alarms that was asked for."""
    achieved: float
    """And what it was on fresh streams, under the alarm itself."""
    low: float
    """At a rate two standard errors higher."""
    high: float
    """At a rate two standard errors lower; infinite if that is none."""

    def __str__(self) -> str:
        return (
            f"threshold {self.alarm.threshold:.4f} within {self.alarm.within}: a false alarm every "
            f"{self.achieved:.0f} ticks ({self.low:.0f} to {self.high:.0f}), {self.wanted:.0f} wanted"
        )


def alarm_for(
    every: float,
    model: Model,
    hazard: float | Hazard = 1 / 250,
    *,
    within: int = 50,
    seed: int = 0,
    events: int = EVENTS,
    **options: Any,
) -> AlarmFor:
    """The threshold at which a stream with no change raises a false alarm every so many ticks (average run length).

    Streams of one regime each are drawn from the model (`Model.sample`) and followed at full fidelity; the threshold
    is bisected until the alarms, second ones and all, are as seldom as wanted. It is then checked on fresh streams.
    `options` go to the detector (prune, ...).

    >>> from mfbocd import Gaussian
    >>> found = alarm_for(500, Gaussian(mean=0, var=9, noise_var=1), hazard=1 / 100, seed=1)
    >>> found.low < 500 < found.high
    True
    """
    wanted = positive("alarm_for", "every", every)
    ticks = int(max(2 * within, np.ceil(events * wanted / STREAMS)))
    quiet = _quiet(model, ticks, seed)

    def counted(odds: float, rows: Array, first: int) -> Array:
        """False alarms of each stream at a threshold with these log odds."""
        fleet = Fleet(STREAMS, model, hazard=hazard, alarm=Alarm(within, _share(odds)), seed=first, **options)
        return np.asarray(np.sum([fleet.update(row).alarm for row in rows], axis=0, dtype=np.float64))

    low, high = -HIGHEST, HIGHEST
    if (least := counted(high, quiet, seed).sum()) * wanted > STREAMS * ticks:
        often = STREAMS * ticks / least
        raise CalibrationError(
            f"even a threshold of {_share(high)!r} gives a false alarm every {often:.0f} ticks, not every {every:g}: "
            "the model is too easily surprised by its own data"
        )
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        seldom = counted(middle, quiet, seed).sum() * wanted <= STREAMS * ticks
        low, high = (low, middle) if seldom else (middle, high)
    fresh = counted(high, _quiet(model, ticks, seed + STREAMS), seed + STREAMS)
    # alarms come in clusters: streams, not alarms, are independent
    mean, error = float(fresh.mean()), 2.0 * float(fresh.std(ddof=1)) / np.sqrt(STREAMS)
    rare = ticks / max(mean - error, 1e-12) if mean > error else np.inf
    return AlarmFor(
        Alarm(within, _share(high)), wanted, ticks / max(mean, 1e-12), ticks / (mean + error), float(rare)
    )


def _share(odds: float) -> float:
    return float(1.0 / (1.0 + np.exp(-odds)))


def _quiet(model: Model, ticks: int, seed: int) -> Array:
    """(ticks, STREAMS, ...): one regime a stream."""
    return np.stack([model.sample(np.random.default_rng(seed + i), ticks) for i in range(STREAMS)], axis=1)
