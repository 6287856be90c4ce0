"""The output of `detect` and `drive`: steps as JSON Lines, and a summary."""

from __future__ import annotations

import json
from collections import deque
from math import isfinite
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..detector.detector import Detector
    from ..detector.step import Step
    from ..io.config import Config

Time = str | int | float | None

MAX_LISTED = 20
"""Changes listed in the summary."""
SUSPICIOUS_SPACING = 25
"""With fewer ticks per change than this, most changes are probably noise or drift: the summary suggests a remedy."""


class StepWriter:
    """Write one JSON object per step, and collect what the summary needs in constant memory.

    Parameters
    ----------
    out : text file
        Where the JSON Lines go.
    config : Config
        Supplies the unit of the costs.
    detector : Detector
        The detector before its first step of this run.
    timed : bool
        Whether every step has a timestamp, even if it is null.
    alarms : bool, default False
        Write only the steps that raise an alarm.
    live : bool, default True
        Flush after every line.
    """

    def __init__(
        self,
        out: IO[str],
        config: Config,
        detector: Detector,
        *,
        timed: bool,
        alarms: bool = False,
        live: bool = True,
    ) -> None:
        self.timed, self.alarms, self.live = timed, alarms, live
        self._out, self._config, self._detector = out, config, detector
        self._encode = json.JSONEncoder(allow_nan=False, ensure_ascii=False).encode
        within = detector.alarm.within if detector.alarm else 0
        self._times: deque[Time] = deque(maxlen=within + 1)
        self._first, self._spent = detector.ticks, detector.spent
        self._readings = {f.name: 0 for f in detector.fidelities}
        self._missing = 0
        self._changes: list[str] = []
        self._count = 0

    def write(self, step: Step, time: Time = None) -> None:
        """Write a step; with `alarms`, only if it raises one."""
        record: dict[str, Any] = {"tick": step.tick}
        timed = self.timed or time is not None
        self._times.append(time)
        if timed:
            record["time"] = time
        record |= {
            "fidelity": step.fidelity,
            "x": step.x,
            "cost": step.cost,
            "mean": step.mean,
            "run_length": step.run_length,
            "p_change": step.p_change,
            "alarm": step.alarm,
            "changed_at": step.changed_at,
        }
        if timed:
            record["changed_at_time"] = self._change_time(step)
        record["confidence"] = step.confidence
        if step.outlier is not None:
            record["outlier"] = step.outlier
        if self._detector.surprise:
            record |= _surprise_fields(step)
        if step.fidelity is not None:
            self._readings[step.fidelity] += 1
        self._missing += step.x is None
        if step.alarm:
            self._count += 1
            if self._count <= MAX_LISTED:
                self._changes.append(self._describe(step, time))
        if step.alarm or not self.alarms:
            self._out.write(self._encode(record) + "\n")
            if self.live:
                self._out.flush()

    def _change_time(self, step: Step) -> Time:
        """Return the timestamp of the tick at which the regime began, if it is among the last ones."""
        if step.changed_at is None or step.tick - step.changed_at >= len(self._times):
            return None
        return self._times[-1 - (step.tick - step.changed_at)]

    def _describe(self, step: Step, time: Time) -> str:
        began = self._change_time(step)
        changed = f"tick {step.changed_at}" + (f" ({began})" if began is not None else "")
        detected = f"tick {step.tick}" + (f" ({time})" if time is not None else "")
        confidence = min(step.confidence or 0.0, 0.999)  # never print 100 %, which rounding would do
        return f"  at {changed}, detected at {detected}, confidence {100 * confidence:.1f} %"

    def summary(self) -> str:
        """Return the changes found and the costs, as text."""
        detector, data = self._detector, self._config.data
        ticks, spent = detector.ticks - self._first, detector.spent - self._spent
        if ticks == 0:
            return "No ticks."
        lines = [f"{_count(ticks, 'tick')}, {_count(self._count, 'change')} found" + (":" if self._count else ".")]
        lines += self._changes
        if self._count > MAX_LISTED:
            lines.append(f"  ... and {self._count - MAX_LISTED} more")
        if self._count > 3 and ticks < SUSPICIOUS_SPACING * self._count:
            known = "noise_var" in self._config.model
            remedy = "a larger noise_var" if known else "a gaussian model with a large noise_var"
            lines.append(
                f"That is one change every {ticks / self._count:.0f} ticks. If that is too many: drifting or "
                f"oscillating readings look like changes; use {remedy} (see mfbocd init --from)."
            )
        if self._missing:
            lines.append(f"{_count(self._missing, 'reading')} missing.")
        if len(detector.fidelities) > 1:
            unit = f" {data.cost_unit}" if data.cost_unit else ""
            readings = ", ".join(f"{name} {count}" for name, count in self._readings.items())
            lines.append(f"Readings: {readings}. Spent {spent:g}{unit}, {spent / ticks:.3g} per tick;")
            expensive = max(detector.fidelities, key=lambda f: f.cost_of())
            alone = expensive.cost_of() * ticks
            saved = 100 * (1.0 - spent / alone)
            lines.append(f"{expensive.name} at every tick would have cost {alone:g}{unit} ({saved:.0f} % saved).")
        return "\n".join(lines)


def _surprise_fields(step: Step) -> dict[str, float | None]:
    """Return the fields of a step's surprise; null without one, or if it is minus infinity, which JSON lacks."""
    from ..belief.filter import Surprise

    values = (None,) * len(Surprise._fields) if step.surprise is None else step.surprise
    return {
        name: value if value is not None and isfinite(value) else None
        for name, value in zip(Surprise._fields, values, strict=True)
    }


def _count(n: int, what: str) -> str:
    return f"{n or 'no'} {what}{'' if n == 1 else 's'}"
