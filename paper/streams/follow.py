"""Run one policy on many streams, next to the run that always reads high fidelity, and score it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mfbocd._kernels import layout
from mfbocd.detector import Detector
from mfbocd.fleet.fleet import Fleet
from mfbocd.policy import Always, Policy
from mfbocd.trace.metrics import detection

from .families import Drawn, Family

Array = NDArray[np.float64]
Choices = NDArray[np.int64]
Chooser = Callable[[Fleet], Choices]
"""Chooses the fidelity of every stream of a fleet, where a policy cannot."""
WITHIN = 50  # ticks after a change within which an alarm detects it


@dataclass(frozen=True)
class Scores:
    """The choices, and one number per stream for each measure."""

    choice: Choices
    """(T, n): index of the fidelity read."""
    low: Array
    """Share of ticks read at low fidelity."""
    mse: Array
    """Of the predicted mean, to that of the all-high run."""
    l1: Array
    """Of the run-length posterior, to that of the all-high run, summed over ticks."""
    truth: Array
    """Mean squared error of the predicted mean to the truth; NaN if that is unknown."""
    delay: Array
    """Mean ticks from a change to its alarm; a missed change counts as WITHIN."""
    false: Array
    """False alarms in 1000 ticks."""

    MEASURES = ("mse", "l1", "truth", "delay", "false")


def follow(
    family: Family, policy: Policy | Sequence[Policy] | Chooser, streams: Sequence[Drawn], seed: int
) -> Scores:
    """Advance exact filters of all streams together: one under `policy`, one always at high fidelity.

    A sequence of policies gives every stream its own, where one policy would be shared (a `Budget`). A function of
    the fleet chooses for all streams.
    """
    n, ticks = len(streams), len(streams[0].table)
    tables = np.stack([s.table for s in streams], axis=1)
    rows = np.arange(n)

    def fleet(p: Policy) -> Fleet:
        fidelities = family.fidelities
        return Fleet(n, family.model, fidelities, family.hazard, policy=p, prune=None, seed=seed, threads=1)

    high = fleet(Always(family.fidelities[1].name))
    tested = fleet(policy if isinstance(policy, Policy) else Always())
    choose: Chooser
    if isinstance(policy, Policy):
        choose = Fleet.choose
    elif callable(policy):
        choose = policy
    else:
        own = [Detector(family.model, family.fidelities, family.hazard, policy=p).policy for p in policy]
        choose = partial(_each, own=own)
    means = np.empty((2, ticks, n))
    l1 = np.zeros(n)
    choice = np.empty((ticks, n), dtype=np.int64)
    alarms: list[list[int]] = [[] for _ in range(n)]
    first = streams[0].warmup
    for t in range(ticks):
        reference = high.update(tables[t, :, 1], np.ones(n, dtype=np.int64))
        choice[t] = choose(tested)
        step = tested.update(tables[t, rows, choice[t]], choice[t])
        means[0, t], means[1, t] = step.mean, reference.mean
        if t < first:
            continue
        weights = [f._rows.states[:n, layout.HEAD : layout.HEAD + t + 1] for f in (tested, high)]
        a, b = (w / w.sum(axis=1, keepdims=True) for w in weights)  # exact filters hold the same hypotheses
        l1 += np.abs(a - b).sum(axis=1)
        for i in np.flatnonzero(step.alarm):
            alarms[i].append(t)
    changes = [[c for c in s.changes.tolist() if c >= first] for s in streams]
    found = [detection(a, c, WITHIN) for a, c in zip(alarms, changes, strict=True)]
    truth = [np.full(ticks, np.nan) if s.truth is None else s.truth for s in streams]
    return Scores(
        choice=choice,
        low=(choice[first:] == 0).sum(axis=0) / (ticks - first),
        mse=((means[0] - means[1])[first:] ** 2).mean(axis=0),
        l1=l1,
        truth=((means[0] - np.stack(truth, axis=1))[first:] ** 2).mean(axis=0),
        delay=np.array([d.delay for d in found]),
        false=np.array([1000.0 * d.false_alarms / (ticks - first) for d in found]),
    )


def planned(choice: Choices) -> Chooser:
    """Choices made beforehand, (T, n)."""
    return lambda fleet: np.asarray(choice[int(fleet.ticks[0])])


def _each(fleet: Fleet, own: list[Policy]) -> Choices:
    """The choice of each stream's own policy, which also learns what the choice costs."""
    costs = np.array([f.cost_of() for f in fleet.fidelities])
    gains = fleet.gains(own[0].gain or "joint")
    chosen = []
    for i, p in enumerate(own):
        j = int(p.pick(gains[i : i + 1], costs[None], np.zeros(1))[0])
        p.record_cost(costs[[j]])
        chosen.append(j)
    return np.array(chosen, dtype=np.int64)
