"""Steps as JSON Lines, and what they come to: what `detect` and `drive` print."""

from __future__ import annotations

import json
from collections import deque
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..detector.detector import Detector
    from ..detector.step import Step
    from ..io.config import Config

Time = str | int | float | None

SHOWN = 20
"""Changes the summary lists."""
MANY = 25
"""Fewer ticks a change than this are hardly changes: the noise is set too small, or readings resemble the last."""


class Steps:
    """Writes a JSON object for each step and keeps the little a summary needs, however long the stream."""

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

    def add(self, step: Step, time: Time = None) -> None:
        """Write a step, unless only alarms are wanted and it is none."""
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
            record["changed_at_time"] = self._time_of(step)
        record["confidence"] = step.confidence
        if step.fidelity is not None:
            self._readings[step.fidelity] += 1
        self._missing += step.x is None
        if step.alarm:
            self._count += 1
            if self._count <= SHOWN:
                self._changes.append(self._told(step, time))
        if step.alarm or not self.alarms:
            self._out.write(self._encode(record) + "\n")
            if self.live:
                self._out.flush()

    def _time_of(self, step: Step) -> Time:
        """The timestamp of the tick a regime began at, if it is one of the last."""
        if step.changed_at is None or step.tick - step.changed_at >= len(self._times):
            return None
        return self._times[-1 - (step.tick - step.changed_at)]

    def _told(self, step: Step, time: Time) -> str:
        began = self._time_of(step)
        when = f"tick {step.changed_at}" + (f" ({began})" if began is not None else "")
        seen = f"tick {step.tick}" + (f" ({time})" if time is not None else "")
        sure = min(step.confidence or 0.0, 0.999)  # never quite sure, and no rounding to it
        return f"  at {when}, noticed at {seen}, {100 * sure:.1f} % sure"

    def summary(self) -> str:
        """What was found and what it cost."""
        detector, data = self._detector, self._config.data
        ticks, spent = detector.ticks - self._first, detector.spent - self._spent
        if ticks == 0:
            return "No ticks."
        lines = [f"{_count(ticks, 'tick')}, {_count(self._count, 'change')} found" + (":" if self._count else ".")]
        lines += self._changes
        if self._count > SHOWN:
            lines.append(f"  ... and {self._count - SHOWN} more")
        if self._count > 3 and ticks < MANY * self._count:
            larger = "A larger `noise`" if "noise_var" in self._config.model else "A gaussian with a large `noise`"
            lines.append(
                f"That is a change every {ticks / self._count:.0f} ticks. If there are not so many: readings that "
                f"drift or swing look like changes. {larger} in a config bridges them (mfbocd init --from)."
            )
        if self._missing:
            lines.append(f"{_count(self._missing, 'reading')} missing.")
        if len(detector.fidelities) > 1:
            unit = f" {data.cost_unit}" if data.cost_unit else ""
            read = ", ".join(f"{name} {count}" for name, count in self._readings.items())
            lines.append(f"Readings: {read}. Spent {spent:g}{unit}, {spent / ticks:.3g} a tick;")
            dearest = max(detector.fidelities, key=lambda f: f.cost_of())
            alone = dearest.cost_of() * ticks
            saved = 100 * (1.0 - spent / alone)
            lines.append(f"{dearest.name} at every tick would have cost {alone:g}{unit} ({saved:.0f} % saved).")
        return "\n".join(lines)


def _count(n: int, what: str) -> str:
    return f"{n or 'no'} {what}{'' if n == 1 else 's'}"
