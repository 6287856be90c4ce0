"""Peers from the theory of quickest detection, each from its definition.

All of them are given the distributions before and after the change, which the filter does not know. Their input is a
table of log-likelihood ratios ``ratio[d, t, j] = log f1_d(x) / f0(x)`` of the reading at tick t and fidelity j, for
each alternative d (for example up and down); they look at the fidelity they choose and at no other. A stream ends at
``stop``, or at the first alarm from tick ``after`` on. An alarm restarts the statistics.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]
Run = tuple[NDArray[np.bool_], NDArray[np.int64]]
"""Alarm and chosen fidelity at each tick; -1 where nothing was read."""


@njit(cache=True)
def suspicious_cusum(ratio: Array, after: int, suspicion: float, threshold: float) -> Run:
    """CUSUM that reads the best fidelity while suspicious, and the cheapest otherwise.

    W_d = max(W_d + log f1_d/f0(x), 0); the last fidelity is read while max W_d > `suspicion`, else the first; alarm
    when max W_d > `threshold`. It knows both levels; `suspicion` sets what is spent before a change.
    """
    kinds, ticks, fidelities = ratio.shape
    alarm, choice = np.zeros(ticks, dtype=np.bool_), np.full(ticks, -1)
    w = np.zeros(kinds)
    for t in range(ticks):
        j = fidelities - 1 if w.max() > suspicion else 0
        choice[t] = j
        for d in range(kinds):
            w[d] = max(w[d] + ratio[d, t, j], 0.0)
        if w.max() > threshold:
            alarm[t] = True
            w[:] = 0.0
            if t >= after:
                break
    return alarm, choice


@njit(cache=True)
def suspicious_shiryaev(ratio: Array, after: int, suspicion: float, threshold: float) -> Run:
    """Shiryaev's statistic for rare changes, which reads the best fidelity while suspicious.

    R_d = (R_d + 1) f1_d/f0(x): R = sum R_d is the odds of a change divided by the hazard. The last fidelity is read
    while R > `suspicion`, else the first; alarm when log R > `threshold`. For one alternative no rule has a shorter
    mean delay at the same spend and false alarms: value iteration finds a rule of this form
    (`test_no_rule_is_quicker_than_one_that_reads_above_a_level`). It knows both levels; `suspicion` sets what is
    spent before a change.
    """
    kinds, ticks, fidelities = ratio.shape
    alarm, choice = np.zeros(ticks, dtype=np.bool_), np.full(ticks, -1)
    odds = np.zeros(kinds)
    for t in range(ticks):
        j = fidelities - 1 if odds.sum() > suspicion else 0
        choice[t] = j
        for d in range(kinds):
            odds[d] = (odds[d] + 1.0) * np.exp(ratio[d, t, j])
        if np.log(odds.sum()) > threshold:
            alarm[t] = True
            odds[:] = 0.0
            if t >= after:
                break
    return alarm, choice


@njit(cache=True)
def data_efficient_cusum(ratio: Array, after: int, step: float, depth: float, threshold: float) -> Run:
    """DE-CuSum (Banerjee and Veeravalli, arXiv 1211.3729), with one statistic per alternative.

    A reading of the last fidelity is taken iff D_d >= 0 for some d. D_d = max(D_d + log f1_d/f0(x), -`depth`) if it
    is taken, min(D_d + `step`, 0) if not; alarm when max D_d > `threshold`. It knows both levels; `step` and `depth`
    set the share of ticks that are read before a change.
    """
    kinds, ticks, fidelities = ratio.shape
    alarm, choice = np.zeros(ticks, dtype=np.bool_), np.full(ticks, -1)
    statistic = np.zeros(kinds)
    for t in range(ticks):
        if statistic.max() >= 0.0:
            choice[t] = fidelities - 1
            for d in range(kinds):
                statistic[d] = max(statistic[d] + ratio[d, t, fidelities - 1], -depth)
        else:
            for d in range(kinds):
                statistic[d] = min(statistic[d] + step, 0.0)
        if statistic.max() > threshold:
            alarm[t] = True
            statistic[:] = 0.0
            if t >= after:
                break
    return alarm, choice


@njit(cache=True)
def two_experiment_cusum(ratio: Array, after: int, scale: float, threshold: float) -> Run:
    """2E-CUSUM (Lubenia and Banerjee, arXiv 2509.14186), as far as its abstract defines it.

    The abstract names the parts: two experiments, one statistic, undershoots that are scaled. This is our reading of
    it, not the paper's text. While D >= 0 the better experiment is performed and D += log f1/f0(x). When D falls
    below 0, the undershoot is scaled, D = floor = `scale` * D, and the cheaper experiment is performed with
    D = max(D + log f1/f0(x), floor) until D >= 0 again. Alarm when D > `threshold`. With several alternatives there
    is one statistic each, and the better experiment is performed while any of them is at least 0. It knows both
    levels; `scale` sets the share of the better experiment before a change.
    """
    kinds, ticks, fidelities = ratio.shape
    alarm, choice = np.zeros(ticks, dtype=np.bool_), np.full(ticks, -1)
    statistic, floor = np.zeros(kinds), np.zeros(kinds)
    for t in range(ticks):
        j = fidelities - 1 if statistic.max() >= 0.0 else 0
        choice[t] = j
        for d in range(kinds):
            moved = statistic[d] + ratio[d, t, j]
            if statistic[d] >= 0.0 > moved:
                moved = floor[d] = scale * moved
            statistic[d] = moved if moved >= 0.0 else max(moved, floor[d])
        if statistic.max() > threshold:
            alarm[t] = True
            statistic[:] = 0.0
            if t >= after:
                break
    return alarm, choice


@njit(cache=True)
def top_r_adaptive(
    x: Array, after: int, size: float, compensation: float, reads: int, top: int, threshold: float, breaks: Array
) -> Run:
    """TRAS (Liu, Mei and Shi 2015): monitor many streams of N(0, 1), `reads` of them at a time.

    Each stream has W+ and W-: max(W +- size x - size^2 / 2, 0) if it is read, W + `compensation` if not. The streams
    with the largest max(W+, W-) are read next (`breaks` decides ties); alarm when the `top` largest add up to more
    than `threshold`. It knows the level before the change and the size of the change.

    Returns
    -------
    Run
        Alarm at each tick, and at each tick the index of the first stream that was read.
    """
    ticks, streams = x.shape
    alarm, first = np.zeros(ticks, dtype=np.bool_), np.full(ticks, -1)
    up, down = np.zeros(streams), np.zeros(streams)
    local = breaks.copy()
    drift = size * size / 2.0
    for t in range(ticks):
        order = np.argsort(-local)
        first[t] = order[0]
        for k in range(streams):
            i = order[k]
            if k < reads:
                up[i] = max(up[i] + size * x[t, i] - drift, 0.0)
                down[i] = max(down[i] - size * x[t, i] - drift, 0.0)
            else:
                up[i] += compensation
                down[i] += compensation
            local[i] = max(up[i], down[i])
        if np.sort(local)[-top:].sum() > threshold:
            alarm[t] = True
            up[:] = 0.0
            down[:] = 0.0
            if t >= after:
                break
        for i in range(streams):
            local[i] = max(up[i], down[i]) + breaks[i]
    return alarm, first
