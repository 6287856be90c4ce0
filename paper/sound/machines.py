"""Machines at two fidelities: thresholds turn anomaly scores of clips into readings; streams of readings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mfbocd.calibrate import threshold_fnr_fpr
from mfbocd.datasets._held_out import Bits, equal_error_threshold
from mfbocd.datasets._labelled import draw
from mfbocd.datasets._toycar import MACS, WINDOWS, _every_second, _read
from mfbocd.models import Bernoulli

Array = NDArray[np.float64]

HAZARD = 1 / 50
PRIOR = (1.0, 1.0)
"""Of theta, Beta(alpha, beta), and of the detector."""
FLOPS = 2  # a multiply-add is two operations, as the paper counts MobileNets


@dataclass(frozen=True)
class Machine:
    """The anomaly scores of one machine's clips at two fidelities."""

    name: str
    scores: tuple[Array, Array]
    """(N, k) each, low then high: k scores per clip in order of time."""
    anomalous: Bits
    """(N,): whether the clip is of the damaged machine."""
    held_out: Bits
    """(N,): clips that set thresholds and zeta."""
    used: Bits
    """(N,): clips of the streams. Clips on which a network was trained are neither held out nor used."""
    flops: tuple[float, float]
    """Of a reading, low then high."""
    share: float
    """Share of low fidelity to which the information-based rule is tuned."""
    published: int | None = None
    """Index of the paper's machine that this one is compared with."""


@dataclass(frozen=True)
class Fidelities:
    """What is estimated on the held-out clips of a machine."""

    thresholds: tuple[float, float]
    """Where FNR = FPR, low then high; a clip with a median score above it reads 1."""
    auc: tuple[float, float]
    zeta: float
    """Of low: its true positive rate relative to high."""
    readings: Bits
    """(N, 2): every clip's reading, low then high."""


def fidelities(machine: Machine) -> Fidelities:
    """Thresholds of the median scores where FNR = FPR on held-out clips, and zeta = P(low = 1 | high = 1).

    A low fidelity no better than chance is accepted, as for the paper's machine 4.

    >>> found = fidelities(toycar(machine=4, windows=4))
    >>> round(found.zeta, 3), found.readings.shape
    (0.826, (615, 2))
    """
    held_out, label = machine.held_out, machine.anomalous
    medians = [np.median(scores, axis=1) for scores in machine.scores]
    cuts = [equal_error_threshold(median[held_out], label[held_out]) for median in medians]
    auc = [threshold_fnr_fpr(median[held_out], label[held_out]).auc for median in medians]
    low, high = (median > cut for median, cut in zip(medians, cuts, strict=True))
    zeta = float(low[held_out & high].mean())
    if zeta == 0.0:
        raise ValueError(
            f"machine {machine.name}: zeta is 0, low fidelity reads 0 on every clip on which high reads 1"
        )
    return Fidelities((cuts[0], cuts[1]), (auc[0], auc[1]), zeta, np.stack([low, high], axis=1))


@dataclass(frozen=True)
class Streams:
    """Many streams of one machine."""

    tables: Array
    """(T, n, 2): readings, low then high."""
    truth: Array
    """(T, n): whether the clip is of the damaged machine."""
    clips: NDArray[np.int64]
    """(T, n): index of the clip."""


def streams(machine: Machine, readings: Bits, ticks: int, seeds: range) -> Streams:
    """One stream per seed: theta piecewise constant, y_t ~ Bernoulli(theta_t), a clip of that kind with replacement.

    >>> machine = toycar(machine=1, windows=4)
    >>> streams(machine, fidelities(machine).readings, 200, range(3)).tables.shape
    (200, 3, 2)
    """
    pool = np.flatnonzero(machine.used)
    drawn = [draw(machine.anomalous[pool], Bernoulli(*PRIOR), HAZARD, ticks, seed) for seed in seeds]
    clips = np.stack([pool[d.item] for d in drawn], axis=1)
    return Streams(readings[clips].astype(np.float64), np.stack([d.truth for d in drawn], axis=1), clips)


def toycar(machine: int, windows: int, share: float = 0.43, published: int | None = None) -> Machine:
    """A ToyCar machine of `datasets.toycar`: `windows` of a clip's 196 at low fidelity, all of them at high.

    >>> toycar(machine=1, windows=1).flops
    (528384.0, 103563264.0)
    """
    if windows not in WINDOWS[:-1]:
        raise ValueError(f"windows must be one of {', '.join(map(str, WINDOWS[:-1]))}, not {windows!r}")
    clips = _read()
    mine = clips.machine == machine
    high = clips.score[mine].astype(np.float64)
    most = high.shape[1]
    low = high[:, ((np.arange(windows) + 0.5) * most / windows).astype(np.int64)]
    flops = (float(FLOPS * windows * MACS), float(FLOPS * most * MACS))
    label = clips.anomalous[mine]
    held_out = _every_second(label)
    return Machine(str(machine), (low, high), label, held_out, ~held_out, flops, share, published)
