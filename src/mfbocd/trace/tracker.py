"""Levels of changes at the time they are reported."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..detector.base import BaseDetector
from ..detector.level_rule import FULL, Array, LevelRule, Support, Ticks
from ..detector.step import Step
from .intervals import Noise
from .levels import Levels
from .regimes import NEAREST, Regimes, stacked_readings, support_of


class LevelTracker:
    """Compute the levels of a stream's changes when they are reported, in constant memory.

    Parameters
    ----------
    fidelities : sequence of str
        Names of the fidelities, in the order of the rule's weights.
    rule : LevelRule
        How levels follow from the readings.
    reach : int, default 2000
        How many ticks before an alarm the change may have been.
    adjusted : callable, optional
        Returns readings without their season, from readings and their ticks.

    Examples
    --------
    >>> from mfbocd import Detector, Gaussian
    >>> detector = Detector(Gaussian(0, 9, 1), hazard=0.01)
    >>> tracker = LevelTracker.of(detector)
    >>> for x in (0.1, -0.3, 0.2, 6.0, 6.1):
    ...     step = detector.update(x)
    ...     tracker.add(step)
    ...     if step.alarm:
    ...         before, after = tracker.around(step.changed_at)
    ...         print(before, after)
    0.00 (-0.66 to 0.66) 6.0 (4.9 to 7.1)
    """

    def __init__(
        self,
        fidelities: Sequence[str],
        rule: LevelRule = FULL,
        reach: int = NEAREST,
        adjusted: Callable[[Array, Ticks], Array] | None = None,
    ) -> None:
        self._index: dict[str | None, int] = {name: j for j, name in enumerate(fidelities)} | {None: -1}
        self._regimes = Regimes(rule)
        self._rows: deque[tuple[Any, int]] = deque(maxlen=NEAREST + reach)
        self._adjusted = adjusted
        self._next = self._begin = 0

    @classmethod
    def of(cls, detector: BaseDetector, reach: int = NEAREST) -> LevelTracker:
        """Return the tracker of a detector's stream.

        Parameters
        ----------
        detector : BaseDetector
            The detector.
        reach : int, default 2000
            How many ticks before an alarm the change may have been.

        Returns
        -------
        LevelTracker
            A tracker without steps.
        """
        names = [f.name for f in detector.fidelities]
        return cls(names, detector.level_rule, reach, detector.without_seasons)

    def add(self, step: Step) -> None:
        """Add the step of the next tick.

        Parameters
        ----------
        step : Step
            The step. The first may be of any tick; readings before it do not count.
        """
        self._rows.append((step.x, self._index[step.fidelity]))
        self._next = step.tick + 1

    def to_dict(self) -> dict[str, Any]:
        """Return what `restore` needs, as JSON can represent it.

        Returns
        -------
        dict
            The last readings, in binary as text, and the noise before the last change.
        """
        x, choice = stacked_readings(self._rows)
        return {
            "next": self._next,
            "begin": self._begin,
            "shape": list(x.shape),
            "x": b64encode(x.astype("<f8").tobytes()).decode(),
            "choice": b64encode(choice.astype("<i4").tobytes()).decode(),
            "noise": [[j, *noise] for j, noise in self._regimes.noise.items()],
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Continue where another tracker of the same stream was.

        Parameters
        ----------
        saved : mapping
            What `to_dict` returned.

        Raises
        ------
        ValueError
            If it is damaged.
        """
        try:
            x = np.frombuffer(b64decode(saved["x"]), "<f8").reshape(saved["shape"])
            choice = np.frombuffer(b64decode(saved["choice"]), "<i4").tolist()
            noise = {int(j): Noise(*map(float, values)) for j, *values in saved["noise"]}
            upto, begin = int(saved["next"]), int(saved["begin"])
            known = set(self._index.values())
            if len(choice) != len(x) or x.ndim > 2 or not set(choice) <= known:
                raise ValueError("its parts do not fit each other")
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the readings for levels cannot be restored: {error}") from None
        values = x.tolist() if x.ndim == 1 else list(map(tuple, x.tolist()))
        self._rows.clear()
        self._rows.extend(zip(values, choice, strict=True))
        self._regimes.noise = noise
        self._next, self._begin = upto, begin

    def around(self, changed_at: int) -> tuple[Levels, Levels]:
        """Return the levels before and after a change that has just been reported.

        Parameters
        ----------
        changed_at : int
            First tick of the new regime.

        Returns
        -------
        tuple
            The level before, since the change reported before it, and the level since.
        """
        readings = self._readings()
        begin, at, end = (self._row(tick) for tick in (self._begin, changed_at, self._next))
        self._begin = changed_at
        return self._regimes.around(*readings, (begin, at, end))

    def after(self, until: int | None = None) -> Levels:
        """Return the level after the last change that `around` was asked for, from all readings since then.

        Parameters
        ----------
        until : int, optional
            First tick that does not count, such as that of the next change; by default all readings count.

        Returns
        -------
        Level, tuple or None
            The level, as in `Trace.changes`, if no more than 2000 readings and `reach` ticks have passed since.
        """
        end = self._next if until is None else min(until, self._next)
        return self._regimes.after(*self._readings(), (self._row(self._begin), self._row(end)))

    def _row(self, tick: int) -> int:
        return min(max(tick - (self._next - len(self._rows)), 0), len(self._rows))

    def _readings(self) -> tuple[Array, Array, Support]:
        x, choice = stacked_readings(self._rows)
        rule = self._regimes.rule
        x, support = rule.corrected(x, choice, support_of(x))
        if self._adjusted is not None:
            x = self._adjusted(x, np.arange(self._next - len(self._rows), self._next))
        return x, rule.weights_of(choice), support
