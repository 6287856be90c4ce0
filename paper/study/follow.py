"""Run one policy over many streams beside the all-high run, and score it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mfbocd._kernels import layout
from mfbocd.fleet.fleet import Fleet
from mfbocd.policy import Always, Policy
from mfbocd.trace.metrics import detection

from .families import Drawn, Family

Array = NDArray[np.float64]
Chooser = Callable[[Fleet], NDArray[np.int64]]
"""Says what each stream of a fleet reads next, where no policy does."""
WITHIN = 50  # ticks after a change in which an alarm counts as its own


@dataclass(frozen=True)
class Scores:
    """One number a stream for each measure."""

    low: Array
    """Share of ticks read at low fidelity."""
    mse: Array
    """Of the predicted mean to the all-high run's."""
    l1: Array
    """Of the run-length posterior to the all-high run's, summed over ticks."""
    truth: Array
    """Mean squared error of the predicted mean to the truth; NaN where it is not known."""
    delay: Array
    """Mean ticks from a change to its alarm; missed ones count as WITHIN."""
    false: Array
    """False alarms in 1000 ticks."""

    MEASURES = ("mse", "l1", "truth", "delay", "false")


def follow(
    family: Family, policy: Policy | Sequence[Policy] | Chooser, streams: Sequence[Drawn], seed: int
) -> Scores:
    """Exact filters of all streams, advanced together: one under `policy`, one always at high fidelity.

    A sequence of policies gives every stream its own (a `Budget` would otherwise be shared); then they are chosen one
    by one. A function of the fleet chooses for all of them.
    """
    n, ticks = len(streams), len(streams[0].table)
    tables = np.stack([s.table for s in streams], axis=1)
    rows = np.arange(n)

    def fleet(p: Policy) -> Fleet:
        ways = family.fidelities
        return Fleet(n, family.model, ways, family.hazard, policy=p, prune=None, seed=seed, threads=1)

    high = fleet(Always(family.fidelities[1].name))
    shared = policy if isinstance(policy, Policy) else Always()
    tested = fleet(shared)
    choose: Chooser
    if isinstance(policy, Policy):
        choose = Fleet.choose
    elif callable(policy):
        choose = policy
    else:
        own = [p.bind(family.fidelities) for p in policy]
        for p in own:
            p.initialize(tested.detector(0)._filter)
        choose = partial(_each, own=own)
    means = np.empty((2, ticks, n))
    l1 = np.zeros(n)
    low = np.zeros(n)
    alarms: list[list[int]] = [[] for _ in range(n)]
    first = streams[0].warmup
    for t in range(ticks):
        reference = high.update(tables[t, :, 1], np.ones(n, dtype=np.int64))
        choice = choose(tested)
        step = tested.update(tables[t, rows, choice], choice)
        means[0, t], means[1, t] = step.mean, reference.mean
        if t < first:
            continue
        low += choice == 0
        weights = [f._states[:, layout.HEAD : layout.HEAD + t + 1] for f in (tested, high)]
        a, b = (w / w.sum(axis=1, keepdims=True) for w in weights)  # exact: the same births in the same order
        l1 += np.abs(a - b).sum(axis=1)
        for i in np.flatnonzero(step.alarm):
            alarms[i].append(t)
    changes = [[c for c in s.changes.tolist() if c >= first] for s in streams]
    found = [detection(a, c, WITHIN) for a, c in zip(alarms, changes, strict=True)]
    truth = [np.full(ticks, np.nan) if s.truth is None else s.truth for s in streams]
    return Scores(
        low=low / (ticks - first),
        mse=((means[0] - means[1])[first:] ** 2).mean(axis=0),
        l1=l1,
        truth=((means[0] - np.stack(truth, axis=1))[first:] ** 2).mean(axis=0),
        delay=np.array([d.delay for d in found]),
        false=np.array([1000.0 * d.false_alarms / (ticks - first) for d in found]),
    )


def _each(fleet: Fleet, own: list[Policy]) -> NDArray[np.int64]:
    """The choice of each stream's own policy, which also learns what the tick before cost."""
    costs = np.array([f.cost_of() for f in fleet.fidelities])
    gains = fleet.gains(own[0].gain or "joint")
    chosen = []
    for i, p in enumerate(own):
        j = int(p.pick(gains[i : i + 1], costs[None], np.zeros(1))[0])
        p.record_cost(costs[[j]])
        chosen.append(j)
    return np.array(chosen, dtype=np.int64)
