"""Readings that arrive late: a provisional reading of a past tick is replaced, and the ticks since are replayed."""

from __future__ import annotations

import base64
from typing import Any

from ..belief.state import Array
from ..inputs.arguments import whole
from ..inputs.copies import Independent
from ..models import Model
from ..policy import Always
from .detector import Detector
from .serialization import Serializer
from .step import Step

Key = str | int
_MOST_ALARMS = 1000


class LateReadings(Independent):
    """Feeds a detector with readings that may be replaced later.

    A tick with a `key` is provisional. `replace` gives it another reading, possibly of another fidelity, at any later
    time and in any order. The belief then is what it would be if the last reading of every tick had arrived on time:
    it is replayed from the tick before the oldest provisional one. Choices and costs stay as they were made. A tick
    that is still provisional after `window` later ticks becomes final, which bounds memory and time.

    Parameters
    ----------
    detector : Detector
        The detector; only this object may update it.
    window : int, default 1000
        How many ticks later, at least, a provisional reading can be replaced.

    Attributes
    ----------
    alarms : list of Step
        The alarms of the belief as it is now, oldest first; at most the last 1000.

    Examples
    --------
    >>> from mfbocd import Bernoulli, Fidelity
    >>> ways = [Fidelity("rule", zeta=0.2, cost=1), Fidelity("person", zeta=1.0, cost=50)]
    >>> late, direct = LateReadings(Detector(Bernoulli(), ways)), Detector(Bernoulli(), ways)
    >>> late.apply(0.0, "rule", cost=51.0, key="a")
    >>> late.apply(1.0, "rule", cost=1.0)
    >>> late.replace("a", 1.0, "person")
    True
    >>> late.catch_up()
    >>> steps = direct.update(1.0, "person"), direct.update(1.0, "rule")
    >>> late.detector.mean == direct.mean
    True
    """

    def __init__(self, detector: Detector, window: int = 1000) -> None:
        self.detector = detector
        self.window = whole("LateReadings", "window", window, 1)
        self.alarms: list[Step] = []
        self._fresh: list[Step] = []
        self._base: Array | None = None  # the state before the first of `_ticks`
        self._ticks: list[tuple[Any, str]] = []  # reading and fidelity since then
        self._open: dict[Key, int] = {}  # provisional ticks, counted from the start of the stream, oldest first
        self._first = 0  # the tick of `_ticks[0]`
        self._stale = False

    @property
    def open(self) -> tuple[Key, ...]:
        """Keys of the ticks that can be replaced, oldest first."""
        return tuple(self._open)

    def apply(self, x: Any, fidelity: str, cost: float, key: Key | None = None) -> None:
        """Advance the detector by one tick.

        Parameters
        ----------
        x : Any
            The reading; None if there is none.
        fidelity : str
            Name of the fidelity it was read at.
        cost : float
            What the tick cost in total.
        key : str or int, optional
            Makes the tick provisional; none of `open` may have it.
        """
        self.catch_up()
        detector = self.detector
        read_at = detector._by_name[fidelity]
        value = detector._accept(x, read_at)
        if key is not None:
            if self._base is None:
                self._base, self._first = detector._filter.state.copy(), detector.ticks
            self._open[key] = detector.ticks
        step = detector._apply(value, read_at, cost)
        if self._base is not None:
            self._ticks.append((value, fidelity))
        if step.alarm:
            self._report(step)
        # A replay takes as long as the window, so it is not worth one per tick.
        if len(self._ticks) > self.window + self.window // 4:
            last = detector.ticks - self.window
            self._open = {k: tick for k, tick in self._open.items() if tick >= last}
            self._stale = True

    def replace(self, key: Key, x: Any, fidelity: str) -> bool:
        """Replace the reading of a provisional tick, which becomes final.

        Parameters
        ----------
        key : str or int
            The key of the tick.
        x : Any
            The reading; None keeps the provisional one.
        fidelity : str
            Name of the fidelity it was read at.

        Returns
        -------
        bool
            Whether the tick was provisional; otherwise nothing is changed.
        """
        if key not in self._open:
            return False
        if x is not None:
            value = self.detector._accept(x, self.detector._own_fidelity(fidelity))
            self._ticks[self._open[key] - self._first] = value, fidelity
        del self._open[key]
        self._stale = True
        return True

    def catch_up(self) -> None:
        """Replay what has been replaced since the last call; every other method that needs the belief calls it."""
        if not self._stale or self._base is None:
            return
        detector, ticks, first = self.detector, self._ticks, self._first
        policy, spent = detector.policy, detector.spent
        oldest = min(self._open.values(), default=None)
        before = [step for step in self.alarms if step.tick >= first]
        self.alarms = [step for step in self.alarms if step.tick < first]
        self._stale = False
        detector._adopt(self._base, spent)
        self._base = None
        # Choices and costs are facts: the policy must not learn from them again.
        detector.policy = Always(detector.fidelities[0].name).bind(detector.fidelities)
        try:
            for i, (value, fidelity) in enumerate(ticks):
                if first + i == oldest:
                    self._base, self._first, self._ticks = detector._filter.state.copy(), first + i, ticks[i:]
                step = detector._apply(value, detector._by_name[fidelity], 0.0)
                if step.alarm:
                    # An alarm that fired after this change began has already reported it.
                    self._report(step, new=not any(other.tick >= (step.changed_at or 0) for other in before))
        finally:
            detector.policy, detector.spent = policy, spent
        if oldest is None:
            self._ticks = []

    def new_alarms(self) -> list[Step]:
        """Return the alarms that have not been returned yet.

        Returns
        -------
        list of Step
            Oldest first. A replay can cause an alarm at a past tick, and can remove one that was returned before.
        """
        self.catch_up()
        fresh, self._fresh = self._fresh, []
        return fresh

    def _report(self, step: Step, new: bool = True) -> None:
        self.alarms = [*self.alarms, step][-_MOST_ALARMS:]
        if new:
            self._fresh = [*self._fresh, step][-_MOST_ALARMS:]

    def spec(self) -> dict[str, Any]:
        """Return everything but the detector as plain values, for saving.

        Returns
        -------
        dict
            What `restore` takes.
        """
        self.catch_up()
        base = None
        if self._base is not None:
            write = Serializer(self.detector)
            saved = write(write.numbers(0.0, self.detector.policy.state()), self._base)
            base = base64.b64encode(saved).decode()
        return {
            "window": self.window,
            "base": base,
            "first": self._first,
            "ticks": self._ticks,
            "open": list(self._open.items()),
            "alarms": [list(step) for step in self.alarms],
            "fresh": [list(step) for step in self._fresh],
        }

    @classmethod
    def restore(cls, detector: Detector, spec: dict[str, Any], model: Model | None = None) -> LateReadings:
        """Return an object that continues where `spec` was called.

        Parameters
        ----------
        detector : Detector
            The loaded detector.
        spec : dict
            As `spec` returns it.
        model : Model, optional
            The model, needed if it contains functions.

        Returns
        -------
        LateReadings
            The same readings, some of them provisional.
        """
        late = cls(detector, spec["window"])
        if spec["base"] is not None:
            late._base = Detector.from_bytes(base64.b64decode(spec["base"]), model=model)._filter.state
        late._first = whole("LateReadings", "first", spec["first"], 0)
        late._ticks = [(x, str(fidelity)) for x, fidelity in spec["ticks"]]
        late._open = {key: whole("LateReadings", "open", tick, 0) for key, tick in spec["open"]}
        late.alarms, late._fresh = ([_step(row) for row in spec[name]] for name in ("alarms", "fresh"))
        return late


def _step(row: list[Any]) -> Step:
    return Step(*row)._replace(failed=tuple(row[Step._fields.index("failed")]))
