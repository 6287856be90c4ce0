"""The numbers of the machine-sound experiment: as printed in tab:mimii, and ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mfbocd.calibrate import decision_operations

from ..framework import Number, Row, grid
from .machines import Array, Machine

TICKS = 200
RULES = ("LF", "RN", "IG", "Budget")
MEASURES = ("MSE", "L1")
PRINTED: dict[tuple[str, str], tuple[str, str, str, str]] = {
    ("MSE", "LF"): ("0.0060 (0.0004)", "0.0195 (0.0008)", "0.0347 (0.0012)", "0.1743 (0.0042)"),
    ("MSE", "RN"): ("0.0026 (0.0002)", "0.0063 (0.0004)", "0.0126 (0.0006)", "0.0411 (0.0028)"),
    ("MSE", "IG"): ("0.0020 (0.0002)", "0.0045 (0.0003)", "0.0112 (0.0006)", "0.0393 (0.0030)"),
    ("L1", "LF"): ("101.87 (3.28)", "167.73 (3.61)", "192.49 (4.02)", "242.85 (4.63)"),
    ("L1", "RN"): ("57.61 (3.14)", "97.79 (3.66)", "132.06 (3.63)", "178.86 (4.97)"),
    ("L1", "IG"): ("61.79 (3.02)", "92.98 (3.65)", "130.17 (3.88)", "173.27 (4.95)"),
    ("Ops", "LF"): ("100", "100", "100", "100"),
    ("Ops", "RN"): ("14447.58", "16109.38", "12867.76", "13357.11"),
    ("Ops", "IG"): ("14448.22", "16110.02", "12868.40", "13357.74"),
    ("Ops", "HF"): ("24940", "24940", "24940", "24940"),
    ("LF %", "IG"): ("42", "36", "48", "46"),
}
"""tab:mimii, machines 1 to 4. Ops in millions of flops."""
SHARES = tuple(float(text) / 100.0 for text in PRINTED["LF %", "IG"])
DECIDING = "0.64"  # IG - RN on three of the four machines


@dataclass(frozen=True)
class Played:
    """A machine, and what every rule did on its streams."""

    machine: Machine
    result: Mapping[str, Any]

    @property
    def rules(self) -> list[str]:
        """Those that were run: the published code has no Budget."""
        return [rule for rule in RULES if rule in self.result]

    def of(self, rule: str, measure: str) -> Array:
        """One number per stream."""
        return np.array(self.result[rule][measure])

    def mean(self, rule: str, measure: str) -> Number:
        """With two standard errors."""
        return Number.mean_of(self.of(rule, measure))

    def against_random(self, rule: str, measure: str) -> Number:
        """The rule's error minus that of random choice with its spend on the same streams; negative is better."""
        random = "RN" if rule == "IG" else f"RN for {rule}"
        return Number.mean_of(self.of(rule, measure) - self.of(random, measure))

    def printed(self, measure: str, rule: str) -> Number | None:
        """The paper's number of this machine."""
        if self.machine.published is None or (measure, rule) not in PRINTED:
            return None
        return Number.printed(PRINTED[measure, rule][self.machine.published])


def operations(machine: Machine, low: Array | float, ticks: int = TICKS) -> Array:
    """Millions of flops of the readings of a stream with this share of low fidelity."""
    cheap, expensive = machine.flops
    return np.asarray(ticks * (np.asarray(low) * cheap + (1.0 - np.asarray(low)) * expensive) / 1e6)


def deciding(ticks: int = TICKS) -> float:
    """Millions of flops of one fidelity's gain at every tick.

    >>> deciding()
    0.637
    """
    return sum(decision_operations(t) for t in range(ticks)) / 1e6


def table_rows(played: Sequence[Played], engine: str) -> list[Row]:
    """tab:mimii, one row per number."""
    rows = []

    def add(each: Played, rule: str, measure: str, ours: Number) -> None:
        keys = {"machine": each.machine.name, "rule": rule}
        what = "Ops (million)" if measure == "Ops" else measure
        rows.append(Row(what, ours, each.printed(measure, rule), engine, keys))

    for measure in MEASURES:
        for each in played:
            for rule in each.rules:
                add(each, rule, measure, each.mean(rule, measure))
    for each in played:
        add(each, "LF", "Ops", Number(float(operations(each.machine, 1.0))))
        for rule in each.rules[1:]:
            own = deciding() if rule == "IG" else 0.0
            add(each, rule, "Ops", Number.mean_of(operations(each.machine, each.of(rule, "low")) + own))
        add(each, "HF", "Ops", Number(float(operations(each.machine, 0.0))))
    for each in played:
        for rule in each.rules[2:]:
            add(each, rule, "LF %", Number.mean_of(100.0 * each.of(rule, "low")))
    keys = {"machine": "any", "rule": "IG"}
    rows.append(Row("deciding (million)", Number(deciding()), Number.printed(DECIDING), engine, keys))
    return rows


def more_rows(played: Sequence[Played], engine: str, low: str) -> list[Row]:
    """The numbers of the sections, without published ones."""
    rows = []
    for each in played:
        for rule in each.rules:
            keys = {"low fidelity": low, "machine": each.machine.name, "rule": rule}
            rows += [Row(measure, each.mean(rule, measure), None, engine, keys) for measure in MEASURES]
            rows.append(Row("LF %", Number.mean_of(100.0 * each.of(rule, "low")), None, engine, keys))
    return rows


def compact(played: Sequence[Played]) -> str:
    """A line per machine and measure, with the paired difference of information and random."""
    rules = played[0].rules
    cells = []
    for each in played:
        for measure in MEASURES:
            line: list[object] = [each.machine.name, measure, *(each.mean(rule, measure) for rule in rules)]
            cells.append([*line, each.against_random("IG", measure), f"{100.0 * each.of('IG', 'low').mean():.0f}"])
    return grid(["machine", "measure", *rules, "IG - RN", "LF %"], cells)
