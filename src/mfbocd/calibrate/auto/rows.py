"""Records of the automatic detector: the structures it follows, and the fields of its trace."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...detector.detector import Detector
from ...detector.step import Step
from ...policy.fidelity import Fidelity
from .season import Array, Ticks
from .structure import Flags, Structure

_VOTE = 0.5  # share of the posterior probability of the structures that must report a change
_LIVE = 200  # ticks for which a structure's report of a change counts
_EARLIEST = 10  # an earlier change leaves too few readings before it


class Report(NamedTuple):
    """A change that one structure reported."""

    tick: int
    changed_at: int
    confidence: float


@dataclass
class Member:
    """One structure with its posterior probability, its detector, and the change it reported last."""

    structure: Structure
    weight: float
    detector: Detector
    report: Report | None


def agreed(members: Sequence[Member], tick: int, after: int) -> Report | None:
    """Return the change after tick `after` that members with enough weight report at `tick`, if any."""
    voters = [
        (member.weight, member.report)
        for member in members
        if member.report is not None
        and min(member.report.tick, member.report.changed_at) > after
        and member.report.changed_at >= _EARLIEST
        and member.report.tick >= tick - _LIVE
    ]
    return max(voters)[1] if voters and sum(weight for weight, _ in voters) >= _VOTE else None


class Rows(NamedTuple):
    """The fields of a trace that depend on the belief, one entry per tick."""

    mean: Array
    run_length: Ticks
    p_change: Array
    alarm: Flags
    changed_at: Ticks
    confidence: Array

    @classmethod
    def empty(cls, size: int) -> Rows:
        """Return the fields of ticks without an alarm."""
        return cls(
            np.zeros(size),
            np.zeros(size, dtype=np.int64),
            np.zeros(size),
            np.zeros(size, dtype=np.bool_),
            np.full(size, -1, dtype=np.int64),
            np.full(size, np.nan),
        )

    def put(self, start: int, part: Rows) -> None:
        """Copy the fields of some ticks, the first of them to row `start`."""
        for whole_column, column in zip(self, part, strict=True):
            whole_column[start : start + column.size] = column

    def step(self, i: int, tick: int, x: float, fidelity: Fidelity | None, cost: float) -> Step:
        """Return row i as a step; `x` is the reading at the fidelity, NaN if it is missing."""
        fired = bool(self.alarm[i])
        return Step(
            tick=tick,
            fidelity=None if fidelity is None else fidelity.name,
            x=None if math.isnan(x) else x,
            cost=cost,
            mean=float(self.mean[i]),
            run_length=int(self.run_length[i]),
            p_change=float(self.p_change[i]),
            alarm=fired,
            changed_at=int(self.changed_at[i]) if fired else None,
            confidence=float(self.confidence[i]) if fired else None,
        )
