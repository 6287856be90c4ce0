"""Find the changes of a series in one call."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..belief.alarm import Alarm
from ..calibrate.auto import HAZARD, AutoDetector
from ..calibrate.draft import guess_family
from ..calibrate.draft.series import GivenSeries, is_sorted, read_series, times_of
from ..calibrate.intervals import period_in
from ..detector.base import BaseDetector
from ..detector.detector import Detector
from ..detector.level_rule import Array
from ..inputs.display import SHOWN, count_text
from ..inputs.times import Times
from ..io.config import model_kinds
from ..io.config.kinds import snake
from ..io.tables import Format
from ..models import Model
from ..policy.fidelity import Fidelity, name_from
from ..trace.change import changes_html
from ..trace.levels import describe_change, level_warnings, levels_to_json
from ..trace.run import run
from ..trace.trace import Trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HAZARD = 1 / 250
_LOOK = 2000  # readings that the prior of a family is estimated from
_DETAILED = 5_000  # ticks up to which the posterior is recorded for plots


class FoundChange(NamedTuple):
    """One change of a series.

    Attributes
    ----------
    at : Any
        Label of the first reading of the new regime: its index, timestamp or tick.
    detected_at : Any
        Label of the reading at which the alarm fired.
    confidence : float
        P(there was a change), in [0, 1].
    before, after : Level or None
        Level of the readings before and after, with a 95 % interval, as in `Change`. Seasons are removed.
    tick, detected_tick : int
        The same as `at` and `detected_at`, counted from 0.
    """

    at: Any
    detected_at: Any
    confidence: float
    before: Any
    after: Any
    tick: int
    detected_tick: int

    @property
    def delay(self) -> int:
        """Number of ticks from the change to the alarm."""
        return self.detected_tick - self.tick

    def __str__(self) -> str:
        return self.describe()

    def __repr__(self) -> str:
        return f"<FoundChange: {self}>"

    def describe(self, unit: str = "") -> str:
        """Say what changed.

        Parameters
        ----------
        unit : str, default ''
            Unit of the readings.

        Returns
        -------
        str
            Such as ``7.1 -> 7.9 V at 08:20, 99 % sure, detected 3 ticks later``.
        """
        return describe_change(
            self.before, self.after, Times.of([self.at]).describe(0), self.confidence, self.delay, unit
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and the delay as JSON can represent them.

        Returns
        -------
        dict
            Labels are numbers or text; levels are dictionaries, see `Level.to_dict`.
        """
        levels = {"before": levels_to_json(self.before), "after": levels_to_json(self.after)}
        labels = {"at": _plain(self.at), "detected_at": _plain(self.detected_at), "delay": self.delay}
        return self._asdict() | labels | levels


class Detection:
    """The changes of a series, as `detect` found them.

    Parameters
    ----------
    series : GivenSeries
        The readings and their labels.
    trace : Trace
        The steps of the detector over these readings.
    detector : BaseDetector
        The detector after the last reading.
    fresh : BaseDetector
        The detector before the first reading, which plots replay.
    unit : str, default ''
        Unit of the readings, for plots and reports.

    Attributes
    ----------
    detector : BaseDetector
        Pass it further readings with ``update``.
    trace : Trace
        One row per reading.
    changes : list of FoundChange
        The changes, in order.
    name : str
        Name of the column; empty if there is none.
    labels : sequence or None
        The index or timestamps; None if readings are only numbered.

    Examples
    --------
    >>> import mfbocd as mf
    >>> found = mf.detect([0.1, -0.2, 0.0, 0.3, -0.1] * 20 + [6.1, 5.8, 6.0, 6.3, 5.9] * 20)
    >>> [(change.at, change.detected_at) for change in found.changes]
    [(100, 101)]
    """

    def __init__(
        self, series: GivenSeries, trace: Trace, detector: BaseDetector, fresh: BaseDetector, unit: str = ""
    ) -> None:
        self.detector, self.trace = detector, trace
        self._fresh = fresh
        self.name, self.labels, self.unit = series.name, series.labels, unit
        self.changes = [
            FoundChange(
                self._label(change.changed_at),
                self._label(change.tick),
                change.confidence,
                change.before,
                change.after,
                change.changed_at,
                change.tick,
            )
            for change in trace.changes
        ]

    def __len__(self) -> int:
        return len(self.changes)

    def __repr__(self) -> str:
        lines = [self._headline(), *(f"  {change.describe(self.unit)}" for change in self.changes[:SHOWN])]
        if len(self.changes) > SHOWN:
            lines.append(f"  and {len(self.changes) - SHOWN} more")
        return "\n".join([*lines, *(f"Warning: {text}" for text in self.warnings)])

    def _repr_html_(self) -> str:
        changes = [(str(c.at), str(c.detected_at), c) for c in self.changes]
        notes = [f"Warning: {text}" for text in self.warnings]
        return changes_html(self._headline(), changes, notes, self.unit)

    @property
    def warnings(self) -> list[str]:
        """What may make the result unreliable; empty if there is nothing to say."""
        return self._cautions() + level_warnings([(change.before, change.after) for change in self.changes])

    def _cautions(self) -> list[str]:
        """Return the warnings about the series and its labels."""
        found = self.detector.warnings()
        if self.labels is not None and not is_sorted(self.labels):
            found.append("The labels are not sorted: the readings were used in the order given.")
        if (times := times_of(self.labels)) is not None and times.warning:
            found.append(times.warning)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON can represent it.

        Returns
        -------
        dict
            ``readings``, ``changes`` (`FoundChange.to_dict`), ``warnings``, ``name`` and ``unit``.

        Examples
        --------
        >>> import mfbocd as mf
        >>> mf.detect([5.0] * 50).to_dict()["changes"]
        []
        """
        return {
            "name": self.name,
            "unit": self.unit,
            "readings": len(self.trace),
            "changes": [change.to_dict() for change in self.changes],
            "warnings": self.warnings,
        }

    def explain(self) -> str:
        """Explain in words which structure the series has, and why.

        Returns
        -------
        str
            The explanation of `AutoDetector.explain`; the model if one was given.
        """
        return self.detector.explain()

    def plot(self, **options: Any) -> Figure:
        """Draw the readings and the changes (extra ``plot``).

        Up to 5,000 readings, the prediction band and the run-length posterior are drawn as well.

        Parameters
        ----------
        **options : Any
            Options of `mfbocd.plots.figure`.

        Returns
        -------
        matplotlib.figure.Figure
            The figure, not yet shown or saved.
        """
        given = {"time": times_of(self.labels), "unit": self.unit}
        return self._detailed().plot(**(given | options))

    def report(self, path: str | Path, **options: Any) -> Path:
        """Write a report as one HTML file (extra ``report``).

        Parameters
        ----------
        path : str or Path
            The file to write; an existing one is replaced.
        **options : Any
            Options of `mfbocd.report.page`.

        Returns
        -------
        Path
            The path of the file.
        """
        from .page import write

        given = {
            "time": times_of(self.labels),
            "unit": self.unit,
            "title": f"Changes in {self.name or 'a series'}",
            "config_text": self.explain(),
            "notes": self._cautions(),  # the table of changes says which levels cannot be trusted
        }
        return write(path, self._detailed(), **(given | options))

    def _detailed(self) -> Trace:
        """Return the trace with its detail: the detector is run once more, since this takes longer."""
        if self.trace.detail is None and len(self.trace) <= _DETAILED:
            again = run(copy.copy(self._fresh), self.trace.x, detail=True)
            self.trace = replace(self.trace, detail=again.detail)
        return self.trace

    def _headline(self) -> str:
        of = f" of {name_from(self.name)}" if self.name else ""
        return f"{count_text(len(self.changes), 'change')} in {count_text(len(self.trace), 'reading')}{of}"

    def _label(self, tick: int) -> Any:
        return tick if self.labels is None else self.labels[tick]


def detect(
    data: Any,
    *,
    column: str | None = None,
    time: str | None = None,
    model: Model | str | None = None,
    hazard: float | None = None,
    alarm: Alarm | float | None = None,
    period: float | str | None = None,
    unit: str = "",
    format: Format | None = None,
    seed: int = 0,
) -> Detection:
    """Find the changes of a series, as the command ``mfbocd detect`` does.

    Nothing needs to be known about the series. Every alarm uses only readings up to its own tick.

    Parameters
    ----------
    data : Any
        The readings: a list, an array, a pandas or polars Series, a frame, or the path of a table (CSV, JSON Lines,
        Parquet or Arrow).
    column : str, optional
        The column of a frame or table; it may be omitted if there is only one column of readings.
    time : str, optional
        The column of labels or timestamps. By default the index of a pandas object, or a column that looks like one.
    model : Model or str, optional
        A model, or the name of a family, such as ``"poisson"``, whose prior is estimated from the first readings. By
        default the structure of the series is estimated while it is read (`AutoDetector`).
    hazard : float, optional
        P(change) per tick; by default 1/500, or 1/250 with `model`.
    alarm : Alarm or float, optional
        When a change is reported; by default as in `AutoDetector`, or as in `Detector` with `model`.
    period : float or str, optional
        Ticks per season, if it is known, or ``"hourly"``, ``"daily"``, ``"weekly"`` or ``"yearly"`` for series with
        timestamps. By default seasons are found in the readings. Not with `model`.
    unit : str, default ''
        Unit of the readings, for plots and reports.
    format : {"csv", "jsonl", "parquet", "arrow"}, optional
        Format of a file; by default that of its name.
    seed : int, default 0
        Seed of the resampling of hypotheses.

    Returns
    -------
    Detection
        The changes with the levels before and after, plots, a report, and the detector to continue with.

    Raises
    ------
    TypeError, ValueError
        If there is not one series of numbers, or the model cannot produce them.
    OSError
        If a file cannot be opened.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> result = detect(np.concatenate([rng.normal(5, 1, 200), rng.normal(9, 1, 100)]))
    >>> result
    1 change in 300 readings
      4.9 -> 8.8 at 200, 99.6 % sure, detected 1 tick later
    >>> print(result.changes[0].after)
    8.84 (8.66 to 9.02)
    >>> result.detector.update(9.2).alarm
    False
    """
    series = read_series(data, column, time, format)
    if series.x.size == 0:
        raise ValueError("data must contain at least one reading, not none")
    if model is not None and period is not None:
        raise ValueError("period is for the automatic detector: with a model, use Seasonal")
    fidelity = Fidelity(name_from(series.name), 1.0, 1.0)  # plots and reports name the column
    detector: BaseDetector
    if model is None:
        ticks = period_in(period, times_of(series.labels)) if isinstance(period, str) else period
        hazard = HAZARD if hazard is None else hazard
        detector = AutoDetector(hazard, alarm, period=ticks, seed=seed, fidelities=fidelity)
    else:
        detector = _modelled(model, series.x, hazard, alarm, seed, fidelity)
    fresh = copy.copy(detector)
    return Detection(series, run(detector, series.x), detector, fresh, unit)


def _plain(label: Any) -> Any:
    """Return a label as JSON can represent it."""
    return label if isinstance(label, (int, float)) else str(label)


def _family(name: str, x: Array) -> Model:
    """Return a model of the family with that name, with a prior estimated from the first readings."""
    kinds = model_kinds()
    kind = snake(name.strip())
    if kind not in kinds:
        raise ValueError(f"model must be one of {', '.join(sorted(kinds))}, not {name!r}")
    return guess_family(kind, x[:_LOOK]).model


def _modelled(
    model: Model | str, x: Array, hazard: float | None, alarm: Alarm | float | None, seed: int, fidelity: Fidelity
) -> Detector:
    """Return the detector of a model, or of a family by name."""
    return Detector(
        _family(model, x) if isinstance(model, str) else model,
        fidelity,
        _HAZARD if hazard is None else hazard,
        alarm=Alarm() if alarm is None else alarm,
        seed=seed,
        missing="skip",
    )
