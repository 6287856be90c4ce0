"""The saved format of a `JudgeMonitor`."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from ...belief.serialization import Array, pack, unpack
from ...detector.detector import Detector
from ...detector.late import LateReadings
from ...detector.serialization import refusing
from .errors import rates_of
from .items import Asked

CHEAP, JUDGE = "cheap", "judge"
"""Names of the two fidelities."""
_MONEY = ("per_day", "items_per_day", "cheap_cost")
_ARGUMENTS = ("cuts", "fail_rate", "audit", "learn", "memory", "points")


def write(monitor: Any) -> bytes:
    """`JudgeMonitor.to_bytes`."""
    ledger = monitor._ledger
    facts = {
        "judge": {name: getattr(monitor, name) for name in _ARGUMENTS}
        | {name: getattr(ledger, name) for name in _MONEY},
        "rates": [rates.tolist() for rates in monitor._rates],
        "cost": None if callable(ledger.cost) else ledger.cost,
        "money": ledger.spec(),
        "counts": [monitor.asked, monitor.ignored],
        "waiting": [[key, *pair] for key, pair in monitor._waiting.items()],
        "asking": monitor._asking,
        "late": monitor._late.spec(),
        "detector": base64.b64encode(monitor._late.detector.to_bytes()).decode(),
    }
    return pack(facts, {"pairs": monitor._pairs.counts.ravel()})


def read(cls: Any, data: bytes, cheap: Any, cost: Any, key: Any) -> Any:
    """`JudgeMonitor.from_bytes`; `cls` is the class to build."""
    facts, arrays = unpack(data)
    if "judge" not in facts:
        raise ValueError("these bytes are not a saved JudgeMonitor")
    if cost is None and facts.get("cost") is None:
        raise ValueError("the cost was a function, which cannot be saved: pass cost=")
    return _build(cls, facts, arrays["pairs"], cheap, facts["cost"] if cost is None else cost, key)


@refusing
def _build(cls: Any, facts: dict[str, Any], pairs: Array, cheap: Any, cost: Any, key: Any) -> Any:
    levels = len(facts["judge"]["cuts"]) + 1
    # Rates that were learned may be no better than chance, which the constructor refuses.
    start = np.eye(2, levels)
    monitor = cls(cheap, cost, **facts["judge"], cheap_errors=start, judge_errors=0.0, key=key)
    monitor._rates = rates_of("rates", facts["rates"][0], levels), rates_of("rates", facts["rates"][1])
    monitor._pairs.counts = pairs.reshape(monitor._pairs.counts.shape)
    monitor.asked, monitor.ignored = facts["counts"]
    monitor._waiting = {name: Asked(*row) for name, *row in facts["waiting"]}
    monitor._asking = facts["asking"]
    model = monitor._model()
    detector = Detector.from_bytes(base64.b64decode(facts["detector"]), model=model)
    monitor._late = LateReadings.restore(detector, facts["late"], model)
    monitor._ledger.restore(facts["money"])
    return monitor
