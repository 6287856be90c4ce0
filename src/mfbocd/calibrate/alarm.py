"""The alarm threshold for a wanted rate of false alarms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..belief.alarm import Alarm
from ..belief.hazard import Hazard
from ..fleet.alarm import FleetAlarm
from ..fleet.fleet import Fleet
from ..inputs.arguments import positive, whole
from ..inputs.readings import floats
from ..models import Bernoulli, Gaussian, Model
from ..policy import Policy
from ..policy.fidelity import Fidelity, checked, uncorrected
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
    fidelities: Iterable[Fidelity] | Fidelity | None = None,
    policy: Policy | None = None,
    quiet: Sequence[ArrayLike] | None = None,
    alarm: Alarm | None = None,
    within: int = 200,
    seed: int = 0,
    events: int = EVENTS,
    **options: Any,
) -> AlarmFor:
    """Find the alarm threshold for a wanted mean time between false alarms (average run length).

    Streams of one regime each are drawn from the model (`Model.sample`) and run at full fidelity, or, with
    `fidelities`, at those that the policy chooses: what is read also determines how often the alarm is false. The
    threshold is bisected until the alarms, repeated ones included, are as rare as requested. The result is then
    checked on fresh streams.

    The rate holds for readings as the model describes them. If a cheap fidelity is worse than its zeta says, alarms
    are false far more often; `Detector(shadow=...)` warns of that.

    Parameters
    ----------
    every : float
        Wanted mean number of ticks between false alarms, positive.
    model : Model
        The model.
    hazard : float or Hazard
        P(change) per tick; 1/250 by default.
    fidelities : Iterable[Fidelity] or Fidelity or None
        The fidelities that the policy chooses from; one with zeta = 1 by default.
    policy : Policy or None
        The policy, of which every stream has its own copy; by default that of a detector with these fidelities.
    quiet : sequence of array_like or None
        Readings of streams without a change, (T, J) each, of equal length, to use instead of simulated ones. At least
        4; half of them find the threshold and half check it. Without them, several fidelities can be simulated only
        for a Gaussian or a Bernoulli.
    alarm : Alarm or None
        The alarm whose threshold is found, for its other arguments; it replaces `within`.
    within : int
        Window of the alarm in ticks; 200 by default.
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
        If `every` is not positive, or quiet streams are needed and not given.

    Examples
    --------
    >>> from mfbocd import Gaussian
    >>> found = alarm_for(500, Gaussian(mean=0, var=9, noise_var=1), hazard=1 / 100, seed=1)
    >>> 0.8 < found.achieved / 500 < 1.25
    True
    """
    wanted = positive("alarm_for", "every", every)
    like = Alarm(within) if alarm is None else alarm
    ways = checked(fidelities) if quiet is not None else uncorrected(checked(fidelities))
    design, fresh = _quiet_streams(model, ways, wanted, like, quiet, events, seed)

    def false_alarms(odds: float, streams: Array, first: int) -> Array:
        """Return the false alarms of each stream at a threshold with these log odds."""
        raised = replace(like, threshold=_probability(odds))
        n = streams.shape[1]
        fleet = Fleet(
            n, model, ways, hazard, policy=policy, alarm=raised, seed=first, share_policy=False,
            **{"missing": "skip"} | options,
        )  # fmt: skip
        found = np.zeros(n)
        for readings in streams:
            choice = fleet.choose()
            x = readings if len(ways) == 1 else readings[np.arange(n), choice]
            found += fleet.update(x, choice).alarm
        return found

    ticks, n = design.shape[:2]
    low, high = -HIGHEST, HIGHEST
    if (least := false_alarms(high, design, seed).sum()) * wanted > n * ticks:
        often = n * ticks / least
        raise CalibrationError(
            f"even a threshold of {_probability(high)!r} gives a false alarm every {often:.0f} ticks, not every "
            f"{every:g}: the model finds changes in its own data too easily"
        )
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        rare_enough = false_alarms(middle, design, seed).sum() * wanted <= n * ticks
        low, high = (low, middle) if rare_enough else (middle, high)
    found = false_alarms(high, fresh, seed + n)
    # alarms come in clusters, so the standard error is that over streams, which are independent
    mean, error = float(found.mean()), 2.0 * float(found.std(ddof=1)) / np.sqrt(len(found))
    rare = ticks / max(mean - error, 1e-12) if mean > error else np.inf
    best = replace(like, threshold=_probability(high))
    return AlarmFor(best, wanted, ticks / max(mean, 1e-12), ticks / max(mean + error, 1e-12), float(rare))


@dataclass(frozen=True)
class FleetAlarmFor:
    """The alarm of a whole fleet for a wanted mean time between false alarms, and its rate in a second simulation.

    Attributes
    ----------
    alarm : FleetAlarm
        The alarm.
    wanted : float
        Requested mean number of ticks of the fleet between false alarms.
    achieved : float
        Mean number of ticks between false alarms in the second simulation; infinite if there was none.
    """

    alarm: FleetAlarm
    wanted: float
    achieved: float


def fleet_alarm_for(
    every: float,
    streams: int,
    model: Model,
    hazard: float | Hazard = 1 / 250,
    *,
    fidelities: Iterable[Fidelity] | Fidelity | None = None,
    policy: Policy | None = None,
    seed: int = 0,
    events: int = 100,
    **options: Any,
) -> FleetAlarmFor:
    """Find the threshold of a `FleetAlarm` for a wanted mean time between false alarms.

    A fleet of streams without a change, drawn from the model, runs with its policy. The threshold is the one that its
    statistic passes as rarely as requested. It is checked on a second fleet.

    Parameters
    ----------
    every : float
        Wanted mean number of ticks between false alarms, positive.
    streams : int
        Number of streams of the fleet.
    model : Model
        The model.
    hazard : float or Hazard
        P(change) per tick; 1/250 by default.
    fidelities : Iterable[Fidelity] or Fidelity or None
        The fidelities; one with zeta = 1 by default.
    policy : Policy or None
        The policy that all streams share, such as ``Budget(reads=10, gain="change")``.
    seed : int
        Seed of the simulation; 0 by default.
    events : int
        False alarms to simulate; 100 by default.
    **options : Any
        Further arguments of the fleet, such as ``alarm``.

    Returns
    -------
    FleetAlarmFor
        The alarm and its achieved rate.

    Raises
    ------
    ValueError
        If `every` is not positive.

    Examples
    --------
    >>> from mfbocd import Gaussian
    >>> found = fleet_alarm_for(50, 5, Gaussian(0, 1, 1), hazard=1 / 100, events=20)
    >>> found.alarm.threshold > 0
    True
    """
    wanted = positive("fleet_alarm_for", "every", every)
    ways = uncorrected(checked(fidelities))
    n, ticks = whole("fleet_alarm_for", "streams", streams, 1), int(np.ceil(events * wanted))

    def statistics(first: int) -> Array:
        rng = np.random.default_rng(first)
        full = np.stack([model.sample(np.random.default_rng(first + i), ticks) for i in range(n)], axis=1)
        each = [full if f.zeta == 1.0 else _degraded(model, full, f.zeta, rng) for f in ways]
        fleet = Fleet(n, model, ways, hazard, policy=policy, seed=first, **{"missing": "skip"} | options)
        rows, out = np.arange(n), np.empty(ticks)
        table = np.stack(each, axis=2)
        for t in range(ticks):
            choice = fleet.choose()
            out[t] = fleet.update(table[t, rows, choice], choice).statistic
        return out

    def alarms(threshold: float, values: Array) -> int:
        alarm = FleetAlarm(threshold)
        return sum(alarm.passes(value) for value in values.tolist())

    design = statistics(seed)
    low, high = 1e-6, float(design.max()) * (1.0 + 1e-9) + 1e-6
    for _ in range(30):
        middle = 0.5 * (low + high)
        rare_enough = alarms(middle, design) * wanted <= ticks
        low, high = (low, middle) if rare_enough else (middle, high)
    found = alarms(high, statistics(seed + n))
    return FleetAlarmFor(FleetAlarm(high), wanted, ticks / found if found else np.inf)


def _probability(odds: float) -> float:
    return float(1.0 / (1.0 + np.exp(-odds)))


def _quiet_streams(
    model: Model,
    ways: Sequence[Fidelity],
    wanted: float,
    alarm: Alarm,
    quiet: Sequence[ArrayLike] | None,
    events: int,
    seed: int,
) -> tuple[Array, Array]:
    """Return readings without changes, (ticks, n, ...) with a column per fidelity if there are several, twice."""
    if quiet is not None:
        tables = [floats(table) for table in quiet]
        if len(tables) < 4 or len({table.shape for table in tables}) != 1:
            raise ValueError(f"quiet must hold at least 4 streams of equal length, not {len(tables)}")
        both = np.stack(tables, axis=1)
        if len(ways) == 1 and both.ndim == 3 and both.shape[2] == 1 and model.dimension == 1:
            both = both[..., 0]
        half = len(tables) // 2
        return both[:, :half], both[:, half:]
    ticks = int(max(2 * alarm.within, np.ceil(events * wanted / STREAMS)))
    design, fresh = (
        np.stack([model.sample(np.random.default_rng(first + i), ticks) for i in range(STREAMS)], axis=1)
        for first in (seed, seed + STREAMS)
    )
    if len(ways) == 1 and ways[0].zeta == 1.0:
        return design, fresh
    rng = np.random.default_rng(seed)
    a, b = (np.stack([_degraded(model, x, f.zeta, rng) for f in ways], axis=-1) for x in (design, fresh))
    return (a, b) if len(ways) > 1 else (a[..., 0], b[..., 0])


def _degraded(model: Model, x: Array, zeta: float, rng: np.random.Generator) -> Array:
    """Return full readings as they would have been at a lower fidelity."""
    if isinstance(model, Gaussian):
        extra = model.noise_var * (1.0 / zeta - 1.0) if zeta > 0.0 else 0.0
        return x + rng.normal(0.0, np.sqrt(extra), x.shape) if zeta > 0.0 else np.full(x.shape, np.nan)
    if isinstance(model, Bernoulli) and zeta > 0.0:
        flipped = rng.random(x.shape) < 0.5 * (1.0 - np.sqrt(zeta))  # zeta = (2 q - 1)^2
        return np.where(flipped, 1.0 - x, x)
    if zeta in (0.0, 1.0):
        return x if zeta else np.full(x.shape, np.nan)
    raise ValueError(f"quiet must be given: readings of {type(model).__name__} at zeta {zeta:g} cannot be simulated")
