"""What a fleet returns: the record of one tick of many streams, and a decision for the next."""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..belief.filter import Array
from ..detector.step import Step
from ..inputs.display import SHOWN, count_text, html_table, percent_text
from ..policy import Choices


@dataclass(slots=True, repr=False)
class FleetStep:
    """One tick of each of m streams of a fleet, as arrays of length m in the order of the readings.

    Attributes
    ----------
    streams : ndarray of int
        Index of each stream in the fleet, at the time of the update.
    tick : ndarray of int
        Index of the tick in the stream's own clock; 0 for the first.
    choice : ndarray of int
        Index of the fidelity that was read.
    x : ndarray
        The readings, shape (m,) or (m, d); NaN if missing.
    cost : ndarray
        Cost of each reading.
    mean : ndarray
        E[x_{t+1}] after this tick, shape (m,) or (m, d).
    run_length : ndarray of int
        Most probable run length r_t: ticks since the first of the current regime.
    p_change : ndarray
        P(change within the alarm's window).
    alarm : ndarray of bool
        Whether an alarm was raised.
    changed_at : ndarray of int
        At an alarm, the most probable first tick of the new regime; else -1.
    confidence : ndarray
        At an alarm, P(a regime began after the last alarm, within the window); else NaN.
    fidelities : tuple of str
        Names of the fidelities, which `choice` indexes.
    fleet_size : int
        Number of streams of the fleet, of which these m are some or all.
    outlier : ndarray or None
        P(the reading was an outlier), averaged over the run lengths; None if the model has no outliers.

    Examples
    --------
    >>> from mfbocd import Fleet, Gaussian
    >>> step = Fleet(3, Gaussian(0, 9, 1)).update([0.5, 0.1], streams=[2, 0])
    >>> step.streams, step.tick, step.x
    (array([2, 0]), array([0, 0]), array([0.5, 0.1]))
    >>> step.steps()[1].x
    0.1
    """

    streams: NDArray[np.int64]
    tick: NDArray[np.int64]
    choice: Choices
    x: Array
    cost: Array
    mean: Array
    run_length: NDArray[np.int64]
    p_change: Array
    alarm: NDArray[np.bool_]
    changed_at: NDArray[np.int64]
    confidence: Array
    fidelities: tuple[str, ...]
    fleet_size: int
    outlier: Array | None = None

    def __len__(self) -> int:
        return len(self.streams)

    def __repr__(self) -> str:
        fired = self.streams[self.alarm].tolist()
        which = f" (streams {', '.join(map(str, fired[:SHOWN]))}{', ...' if len(fired) > SHOWN else ''})"
        return f"<{self._title()}{which if fired else ''}, cost {float(self.cost.sum()):g}>"

    def _repr_html_(self) -> str:
        rows = np.flatnonzero(self.alarm)
        heads = ("stream", "tick", "fidelity", "x", "mean", "changed at", "confidence")
        steps = [(int(self.streams[i]), self._row(int(i))) for i in rows[:SHOWN]]
        cells = [
            (at, s.tick, s.fidelity, s.x, s.mean, s.changed_at, percent_text(s.confidence or 0.0)) for at, s in steps
        ]
        return html_table(self._title(), heads, cells, rows.size)

    def _title(self) -> str:
        streams, alarms = count_text(len(self), "stream"), count_text(int(self.alarm.sum()), "alarm")
        return f"FleetStep of {streams}: {alarms}"

    def _row(self, i: int) -> Step:
        """Return the step of one stream."""
        names = [f.name for f in fields(self) if f.name not in ("fidelities", "fleet_size")]
        one: dict[str, Any] = {
            name: None if (value := getattr(self, name)) is None else value[i : i + 1] for name in names
        }
        return FleetStep(**one, fidelities=self.fidelities, fleet_size=self.fleet_size).steps()[0]

    @property
    def statistic(self) -> float:
        """Sum over these streams of log(1 + odds of a change), for `FleetAlarm`."""
        return float(-np.log1p(-np.minimum(self.p_change, 1.0 - 1e-16)).sum())

    def steps(self) -> list[Step]:
        """Return the same as one `Step` per stream, as returned by `Detector.update`.

        Returns
        -------
        list of Step
            In the same order.
        """
        fired = self.alarm.tolist()
        when: Any = repeat(None)
        sure: Any = repeat(None)
        if True in fired:
            when = [at if f else None for at, f in zip(self.changed_at.tolist(), fired, strict=True)]
            sure = [p if f else None for p, f in zip(self.confidence.tolist(), fired, strict=True)]
        x, mean = self.x.tolist(), self.mean.tolist()
        if self.x.ndim > 1:
            x, mean = [tuple(row) for row in x], [tuple(row) for row in mean]
        gone = np.isnan(self.x) if self.x.ndim == 1 else np.isnan(self.x).all(axis=1)
        for i in np.flatnonzero(gone).tolist():
            x[i] = None
        names = [self.fidelities[j] for j in self.choice.tolist()]
        columns = (self.tick.tolist(), names, x, self.cost.tolist(), mean, self.run_length.tolist())
        known = (*columns, self.p_change.tolist(), fired, when, sure)
        if self.outlier is None:
            return list(map(Step, *known))
        return list(map(Step, *known, repeat(()), repeat(None), self.outlier.tolist()))


class Decision(NamedTuple):
    """The fidelities that streams should read next, and the reasons.

    Attributes
    ----------
    streams : ndarray of int
        Index of each stream in the fleet.
    choice : ndarray of int
        Index of the fidelity to read.
    gains : ndarray
        Expected gain of each fidelity, shape (m, J); (m, 0) where the policy uses none, or there is only one
        fidelity.
    price : ndarray or None
        Units of gain that one unit of cost must buy, shape (m,); None where the policy has no price.
    limit : ndarray of str
        Which limit of a budget's debt decides in place of the price, shape (m,): ``"forbidden"`` or
        ``"demanded"``, as `Budget.limit`; empty where the price decides.
    """

    streams: NDArray[np.int64]
    choice: Choices
    gains: Array
    price: Array | None
    limit: NDArray[np.str_]
