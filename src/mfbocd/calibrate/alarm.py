"""The alarm threshold for a wanted rate of false alarms."""

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
from .checks import CalibrationError

Array = NDArray[np.float64]

EVENTS = 400  # false alarms to simulate: two standard errors of their rate are then about 10 %
STREAMS = 200
HIGHEST = 25.0  # log odds of the highest threshold tried, and minus those of the lowest
HALVINGS = 10  # bisections of the interval between them: to 0.05 in the log odds


@dataclass(frozen=True)
class AlarmFor:
    """An alarm for a wanted mean time between false alarms, and its rate in a second simulation.

    Attributes
    ----------
    alarm : Alarm
        The alarm.
    wanted : float
        Requested mean number of ticks between false alarms.
    achieved : float
        Mean number of ticks between false alarms of this alarm on fresh streams.
    low : float
        The same at a rate two standard errors higher.
    high : float
        The same at a rate two standard errors lower; infinite if that rate is not positive.
    """

    alarm: Alarm
    wanted: float
    achieved: float
    low: float
    high: float

    def __str__(self) -> str:
        return (
            f"threshold {self.alarm.threshold:.4f} within {self.alarm.within}: a false alarm every "
            f"{self.achieved:.0f} ticks ({self.low:.0f} to {self.high:.0f}), requested {self.wanted:.0f}"
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
    """Find the alarm threshold for a wanted mean time between false alarms (average run length).

    Streams of one regime each are drawn from the model (`Model.sample`) and run at full fidelity. The threshold is
    bisected until the alarms, repeated ones included, are as rare as requested. The result is then checked on fresh
    streams.

    Parameters
    ----------
    every : float
        Wanted mean number of ticks between false alarms, positive.
    model : Model
        The model.
    hazard : float or Hazard
        P(change) per tick; 1/250 by default.
    within : int
        Window of the alarm in ticks; 50 by default.
    seed : int
        Seed of the simulation; 0 by default.
    events : int
        False alarms to simulate. 400, the default, gives their rate to about 10 % (two standard errors).
    **options : Any
        Further arguments of the detector, such as ``prune``.

    Returns
    -------
    AlarmFor
        The alarm and its achieved rate.

    Raises
    ------
    CalibrationError
        If even the highest threshold gives more false alarms.
    ValueError
        If `every` is not positive.

    Examples
    --------
    >>> from mfbocd import Gaussian
    >>> found = alarm_for(500, Gaussian(mean=0, var=9, noise_var=1), hazard=1 / 100, seed=1)
    >>> found.low < 500 < found.high
    True
    """
    wanted = positive("alarm_for", "every", every)
    ticks = int(max(2 * within, np.ceil(events * wanted / STREAMS)))
    quiet = _quiet(model, ticks, seed)

    def false_alarms(odds: float, rows: Array, first: int) -> Array:
        """Return the false alarms of each stream at a threshold with these log odds."""
        fleet = Fleet(STREAMS, model, hazard=hazard, alarm=Alarm(within, _probability(odds)), seed=first, **options)
        return np.asarray(np.sum([fleet.update(row).alarm for row in rows], axis=0, dtype=np.float64))

    low, high = -HIGHEST, HIGHEST
    if (least := false_alarms(high, quiet, seed).sum()) * wanted > STREAMS * ticks:
        often = STREAMS * ticks / least
        raise CalibrationError(
            f"even a threshold of {_probability(high)!r} gives a false alarm every {often:.0f} ticks, not every "
            f"{every:g}: the model finds changes in its own data too easily"
        )
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        rare_enough = false_alarms(middle, quiet, seed).sum() * wanted <= STREAMS * ticks
        low, high = (low, middle) if rare_enough else (middle, high)
    fresh = false_alarms(high, _quiet(model, ticks, seed + STREAMS), seed + STREAMS)
    # alarms come in clusters, so the standard error is that over streams, which are independent
    mean, error = float(fresh.mean()), 2.0 * float(fresh.std(ddof=1)) / np.sqrt(STREAMS)
    rare = ticks / max(mean - error, 1e-12) if mean > error else np.inf
    return AlarmFor(
        Alarm(within, _probability(high)), wanted, ticks / max(mean, 1e-12), ticks / (mean + error), float(rare)
    )


def _probability(odds: float) -> float:
    return float(1.0 / (1.0 + np.exp(-odds)))


def _quiet(model: Model, ticks: int, seed: int) -> Array:
    """Return readings without changes, (ticks, STREAMS, ...): one regime per stream."""
    return np.stack([model.sample(np.random.default_rng(seed + i), ticks) for i in range(STREAMS)], axis=1)
