"""One alarm for a whole fleet, from the sum of the evidence for a change in each stream."""

from __future__ import annotations

from dataclasses import dataclass

from ..inputs.arguments import positive
from .step import FleetStep

REARM = 1.0  # nats by which the statistic must fall below the threshold before the next alarm


@dataclass
class FleetAlarm:
    """Fire when the evidence for a change, summed over the streams of a fleet, reaches a threshold.

    The statistic is `FleetStep.statistic`, the sum of log(1 + odds of a change). It detects changes that several
    streams share sooner than the alarms of the single streams do.

    Parameters
    ----------
    threshold : float
        The statistic that must be reached, positive; `calibrate.fleet_alarm_for` finds it for a rate of false alarms.
    armed : bool, default True
        Whether the next alarm may fire. After an alarm it is False until the statistic has fallen 1 nat below the
        threshold. (The statistic of many quiet streams is far from 0: each has some probability of a change.)

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range.

    Examples
    --------
    >>> from mfbocd import Fleet, Gaussian
    >>> fleet = Fleet(3, Gaussian(0, 9, 1), hazard=0.01)
    >>> alarm = FleetAlarm(threshold=4.0)
    >>> for x in ([0.0, 0.1, 5.0], [0.2, 0.0, 5.1], [0.1, 9.0, 0.2]):
    ...     fired = alarm.update(fleet.update(x))
    >>> fired
    True
    """

    threshold: float
    armed: bool = True

    def __post_init__(self) -> None:
        self.threshold = positive("FleetAlarm", "threshold", self.threshold)

    def update(self, step: FleetStep) -> bool:
        """Tell whether the alarm fires at this tick of all streams.

        Parameters
        ----------
        step : FleetStep
            One tick of every stream of the fleet.

        Returns
        -------
        bool
            Whether it fires.

        Raises
        ------
        ValueError
            If the step is one of a part of the streams, whose evidence is not that of the fleet.
        """
        if len(step) != step.fleet_size:
            raise ValueError(
                f"FleetAlarm.update needs a tick of all {step.fleet_size} streams of the fleet, not of {len(step)}"
            )
        return self.passes(step.statistic)

    def passes(self, statistic: float) -> bool:
        """Tell whether the alarm fires at this value of the statistic.

        Parameters
        ----------
        statistic : float
            A value of `FleetStep.statistic`.

        Returns
        -------
        bool
            Whether it fires.
        """
        fires = self.armed and statistic >= self.threshold
        self.armed = not fires and (self.armed or statistic < self.threshold - REARM)
        return bool(fires)
