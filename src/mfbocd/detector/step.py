"""One tick: checks of its reading, and its record; checks of the arguments `alarm` and `seed`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..belief.alarm import Alarm
from ..belief.records import Surprise
from ..inputs.arguments import finite, whole
from ..inputs.display import html_facts, number_text, percent_text
from ..inputs.readings import cells, number, numbers
from ..models import Model
from ..policy.fidelity import Fidelity

Array = NDArray[np.float64]
Missing = Literal["raise", "skip"]


class Step(NamedTuple):
    """The record of one tick.

    Parameters
    ----------
    tick : int
        Index of the tick; 0 for the first.
    fidelity : str or None
        Name of the fidelity that was read; None if only time passed.
    x : float, tuple of float or None
        The reading, corrected by the offset and scale of its fidelity; a tuple if readings have several numbers, None
        if it was missing.
    cost : float
        Cost of the tick.
    mean : float or tuple of float
        E[x_{t+1}] after this tick.
    run_length : int
        The most probable r_t: number of ticks since the first of the current regime.
    p_change : float
        P(change within the alarm's window).
    alarm : bool
        Whether an alarm fires at this tick.
    changed_at : int or None
        At an alarm, the tick at which the new regime most probably began.
    confidence : float or None
        At an alarm, P(a regime began after the last alarm, within the window).
    failed : tuple of str
        With ``on_error="fallback"``, the fidelities that were asked and gave no reading; `cost` includes theirs.
    warning : str or None
        What a shadow reading shows, if it shows that a fidelity is worse than declared.
    outlier : float or None
        P(this reading was an outlier), averaged over the run lengths after the update; None if the model has no
        outliers (`Outliers`).
    surprise : Surprise or None
        With ``surprise=True``, the log predictive and both log tail probabilities of the reading, from before the
        update; None if nothing was read.

    Examples
    --------
    >>> from mfbocd import Detector, Gaussian
    >>> step = Detector(Gaussian(0, 9, 1)).update(0.5)
    >>> step.tick, step.x, step.alarm
    (0, 0.5, False)
    """

    tick: int
    fidelity: str | None
    x: Any
    cost: float
    mean: Any
    run_length: int
    p_change: float
    alarm: bool
    changed_at: int | None
    confidence: float | None
    failed: tuple[str, ...] = ()
    warning: str | None = None
    outlier: float | None = None
    surprise: Surprise | None = None

    def __repr__(self) -> str:
        read = "no reading" if self.x is None else f"{self.fidelity} = {number_text(self.x)}"
        parts = [read, f"mean {number_text(self.mean)}", f"run length {self.run_length}"]
        if self.alarm:
            parts.append(f"alarm: changed at {self.changed_at}, {percent_text(self.confidence or 0.0)} sure")
        else:
            parts.append(f"P(change) {self.p_change:.3g}")
        parts += [f"failed: {', '.join(self.failed)}"] if self.failed else []
        parts += [f"warning: {self.warning}"] if self.warning else []
        return f"<Step {self.tick}: {', '.join(parts)}>"

    def _repr_html_(self) -> str:
        facts = {name: value for name, value in self._asdict().items() if value not in (None, ())}
        if self.surprise is not None:
            facts |= {"surprise": None} | self.surprise._asdict()
        return html_facts(f"Step {self.tick}", facts.items())


def reading(model: Model, x: Any, missing: Missing, fidelity: Fidelity | None = None) -> Any:
    """Return a reading that the model can have produced, or raise an error.

    This function and `readings` are where readings are corrected, whichever way they come in.

    Parameters
    ----------
    model : Model
        The family of the readings.
    x : Any
        The reading; `inputs.readings` lists the accepted types.
    missing : {"raise", "skip"}
        What a missing reading does.
    fidelity : Fidelity, optional
        What `x` was read at: its correction is applied. Without it the reading is used as it is.

    Returns
    -------
    float, ndarray or None
        An array if the model's readings have several numbers; None if the reading is missing and may be.
    """
    if fidelity is not None and fidelity.zeta == 0.0:
        missing = "skip"  # nothing was asked for
    if model.dimension > 1:
        return _several(model, x, missing)
    value = number(x)
    if math.isnan(value):
        if missing == "skip":
            return None
        raise ValueError(f"x is {x!r}: pass missing='skip' if a reading may be missing")
    if fidelity is None or not fidelity.has_correction:
        return model.check(value)
    try:
        return model.check(fidelity.corrected(value))
    except ValueError as error:
        raise ValueError(f"{error}; it was read as {x!r}, before the correction of {fidelity.name!r}") from None


def checked_raw(model: Model, x: Any, missing: Missing, fidelity: Fidelity) -> Any:
    """Return a reading as `reading` does, but not corrected: the detector that it is passed on to corrects it.

    Parameters
    ----------
    model : Model
        The family of the readings.
    x : Any
        The reading.
    missing : {"raise", "skip"}
        What a missing reading does.
    fidelity : Fidelity
        What `x` was read at.

    Returns
    -------
    float, ndarray or None
        The reading itself; an error is raised if its corrected value is impossible.
    """
    value = reading(model, x, missing, fidelity)
    return number(x) if fidelity.has_correction and value is not None else value


def _several(model: Model, x: Any, missing: Missing) -> Array | None:
    d = model.dimension
    given = cells(x)
    if given.ndim == 0:
        try:
            nothing_given = math.isnan(number(given))
        except TypeError:
            raise TypeError(f"x must be {d} numbers, not {x!r}") from None
        if nothing_given and missing == "skip":
            return None
        if nothing_given:
            raise ValueError(f"x is {x!r}: pass missing='skip' if a reading may be missing")
    if given.shape != (d,):
        raise ValueError(f"x must be {d} numbers, not of shape {given.shape}: {x!r}")
    try:
        values = numbers(given)
    except TypeError:
        raise TypeError(f"x must be {d} numbers, not {x!r}") from None
    if np.isinf(values).any():
        raise ValueError(f"x must be finite, not {x!r}")
    absent = np.isnan(values)
    if not absent.any() or (model.partial and not absent.all()):
        if absent.any() and missing == "raise":
            raise ValueError(f"x is {x!r}: pass missing='skip' if a number may be missing")
        checked: Array = model.check(values)
        return checked
    if missing == "raise":
        raise ValueError(f"x is {x!r}: pass missing='skip' if a reading may be missing")
    if not absent.all():
        raise ValueError(f"x is {x!r}: {type(model).__name__} takes all of its {d} numbers or none")
    return None


def readings(
    model: Model,
    given: NDArray[Any],
    missing: Missing,
    where: Callable[[int], str],
    fidelities: Sequence[Fidelity] = (),
    choice: NDArray[np.int64] | None = None,
) -> Array:
    """Return many readings as floats, NaN if missing: the same as `reading` for each.

    They are converted in bulk; only those that the model cannot have produced are checked one by one.

    Parameters
    ----------
    model : Model
        The family of the readings.
    given : ndarray
        The readings along the first axis, as `cells` returns them.
    missing : {"raise", "skip"}
        What a missing reading does.
    where : callable
        Returns how an error names the i-th reading.
    fidelities : sequence of Fidelity
        What the readings were read at, whose corrections are applied: one for all, or several with `choice`. By
        default nothing is corrected.
    choice : ndarray of int, optional
        The index of a fidelity for each reading.

    Returns
    -------
    ndarray of float
        The corrected readings.
    """
    values = numbers(given, where)
    if any(f.has_correction for f in fidelities):
        at = np.zeros(len(values), dtype=np.int64) if choice is None else choice
        offset, scale = (
            np.array(column)[at] for column in zip(*((f.offset, f.scale) for f in fidelities), strict=True)
        )
        with np.errstate(over="ignore"):  # infinity is refused below, by name
            values = (values - offset) / scale
    for i in np.flatnonzero(~model.possible(values)).tolist():
        x = given[i]
        try:
            fidelity = fidelities[0 if choice is None else int(choice[i])] if fidelities else None
            checked = reading(model, float(x) if isinstance(x, np.floating) else x, missing, fidelity)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{where(i)}: {error}") from None
        values[i] = np.nan if checked is None else checked
    return values


def report_fields(report: Array) -> dict[str, Any]:
    """Return what the kernels report of n ticks or streams, (FIELDS, n), as fields of a trace or a fleet's step."""
    mean, run_length, p_change, alarm, changed_at, confidence = report
    fired = alarm != 0.0
    when, sure = np.full(len(fired), -1), np.full(len(fired), np.nan)
    if fired.any():
        when[fired], sure[fired] = changed_at[fired], confidence[fired]
    return {
        "mean": mean,
        "run_length": run_length.astype(np.int64),
        "p_change": p_change,
        "alarm": fired,
        "changed_at": when,
        "confidence": sure,
    }


def alarm_of(alarm: Alarm | float | None) -> Alarm | None:
    """Return an alarm: the argument itself, one with that threshold, or None."""
    if alarm is None or isinstance(alarm, Alarm):
        return alarm
    return Alarm(threshold=finite("Detector", "alarm", alarm))


def seed_of(seed: int) -> int:
    """Return a seed that the kernels can represent, or raise an error that names it."""
    return whole("", "seed", seed, 0)
