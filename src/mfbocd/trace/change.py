"""One change: as a detector reported it, and as it looks given all readings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..inputs.display import html_table, percent_text
from .levels import arrow, describe_change, levels_to_json, show_levels


class Change(NamedTuple):
    """One alarm of a trace: what changed, when, and when it was noticed.

    Attributes
    ----------
    tick : int
        Tick at which the alarm fired.
    changed_at : int
        Tick at which the new regime most probably began.
    confidence : float
        P(a new regime began within the alarm's window), in [0, 1].
    before : Level, tuple of Level or None
        Level of the readings since the previous change, with a 95 % interval (`mfbocd.trace.regimes`). One for each
        number of a reading that has several, or for each category (their shares); None if nothing was read.
    after : Level, tuple of Level or None
        Level of the readings from `changed_at` up to the next change.

    Examples
    --------
    >>> from mfbocd import Detector, Gaussian, run
    >>> (change,) = run(Detector(Gaussian(0, 9, 1), hazard=0.01), [0.1, -0.3, 0.2, 6.0, 6.1, 5.8]).changes
    >>> print(change)
    0.0 -> 6.0 at tick 3, 99.8 % sure, detected at once
    >>> print(change.after)
    5.97 (5.62 to 6.31)
    """

    tick: int
    changed_at: int
    confidence: float
    before: Any = None
    after: Any = None

    @property
    def delay(self) -> int:
        """Number of ticks from the change to the alarm."""
        return self.tick - self.changed_at

    def __str__(self) -> str:
        return self.describe()

    def __repr__(self) -> str:
        return f"<Change: {self}>"

    def describe(self, unit: str = "", at: str | None = None) -> str:
        """Say what changed.

        Parameters
        ----------
        unit : str, default ''
            Unit of the readings.
        at : str, optional
            When it changed; the tick by default.

        Returns
        -------
        str
            Such as ``7.1 -> 7.9 V at 08:20, 99 % sure, detected 3 ticks later``.
        """
        return describe_change(
            self.before, self.after, at or f"tick {self.changed_at}", self.confidence, self.delay, unit
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and the delay as JSON can represent them.

        Returns
        -------
        dict
            Levels are dictionaries, see `Level.to_dict`.
        """
        levels = {"before": levels_to_json(self.before), "after": levels_to_json(self.after)}
        return self._asdict() | {"delay": self.delay} | levels


class Changepoint(NamedTuple):
    """A change of the most probable segmentation.

    Attributes
    ----------
    at : int
        First tick of the new regime.
    low : int
        First tick of the credible interval of the change, within the halfway points to its neighbours.
    high : int
        Last tick of the credible interval.
    probability : float
        P(at least one regime begins between the halfway points to the neighbouring changes).
    before : Level, tuple of Level or None
        Level of the readings since the previous change, as in `Change`.
    after : Level, tuple of Level or None
        Level of the readings up to the next change.
    """

    at: int
    low: int
    high: int
    probability: float
    before: Any = None
    after: Any = None

    def __str__(self) -> str:
        what = arrow(self.before, self.after) or "change"
        return f"{what} at tick {self.at} ({self.low} to {self.high}), {percent_text(self.probability)} sure"

    def __repr__(self) -> str:
        return f"<Changepoint: {self}>"


def changes_html(
    title: str, changes: Sequence[tuple[str, str, Change | Any]], notes: Sequence[str] = (), unit: str = ""
) -> str:
    """Return changes as an HTML table.

    Parameters
    ----------
    title : str
        Text above the table.
    changes : sequence of tuple
        When it changed, when that was detected, and the change itself.
    notes : sequence of str
        Texts below the table.
    unit : str, default ''
        Unit of the readings.

    Returns
    -------
    str
        The HTML.
    """
    of = f" ({unit})" if unit else ""
    heads = ("at", f"before{of}", f"after{of}", "sure", "detected")
    rows = (
        (at, show_levels(c.before), show_levels(c.after), percent_text(c.confidence), detected)
        for at, detected, c in changes
    )
    return html_table(title, heads, rows, len(changes), notes)
