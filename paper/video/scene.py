"""Whether an object is in view, frame by frame: from fractions of pixels to a stream at two fidelities."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfbocd import datasets
from mfbocd.datasets._held_out import equal_error_threshold, relative_zeta
from mfbocd.datasets._stream import shipped, switches
from mfbocd.policy.fidelity import Fidelity

Array = NDArray[np.float64]
Bits = NDArray[np.bool_]
HEADS = ("frame", "gt_fraction", "low_fraction", "high_fraction")


class Fractions(NamedTuple):
    """The fraction of each frame that the object covers, by the human label and by each network."""

    frame: tuple[str, ...]
    label: Array
    low: Array
    high: Array

    def to_csv(self, path: Path) -> None:
        """One row per frame, in order."""
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(HEADS)
            for name, *values in zip(*self, strict=True):
                writer.writerow([name, *(f"{v:.6f}" for v in values)])


@dataclass(frozen=True)
class Scene:
    """A stream of readings, 1 where a network sees the object, with the settings found on other frames."""

    thing: str
    frame: tuple[str, ...]
    table: Array
    """(T, 2): low, high."""
    truth: Array
    """(T,): by the label."""
    tuning: tuple[Array, ...]
    """The readings of frames that are not scored, one table per uninterrupted sequence."""
    fidelities: tuple[Fidelity, Fidelity]
    hazard: float
    unit: str
    """Of the fidelities' costs per frame."""
    protocol: tuple[str, ...]
    """How readings, zeta, hazard and costs were found, one item per sentence."""

    @property
    def changes(self) -> list[int]:
        """Frames at which the label differs from the frame before."""
        return [int(t) for t in switches(self.truth)]

    @property
    def half(self) -> float:
        """Average cost per frame with half of them read at low fidelity."""
        low, high = self.fidelities
        return 0.5 * (low.cost_of() + high.cost_of())


def binarised(fractions: Fractions, tuning: Bits, floor: float) -> tuple[Array, Array, tuple[float, float]]:
    """Readings (N, 2) of all frames, their labels (N,), and each network's threshold.

    A label is 1 above the fraction `floor`, a reading above the network's threshold, at which FNR = FPR on the frames
    in `tuning`.

    >>> seen = Fractions(("a", "b", "c"), *np.array([[0.0, 0.2, 0.2], [0.1, 0.3, 0.0], [0.0, 0.1, 0.4]]))
    >>> table, truth, cuts = binarised(seen, np.array([True, True, False]), 0.0)
    >>> table.tolist(), truth.tolist()
    ([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0]], [0.0, 1.0, 1.0])
    """
    there = fractions.label > floor
    known = int(there[tuning].sum())
    if not 0 < known < tuning.sum():
        raise ValueError(
            f"label floor {floor:g}: the label class covers more than that in {known} of the {int(tuning.sum())} "
            "tuning frames, but a threshold at FNR = FPR needs frames with and without it"
        )
    cuts = []
    for name, score in (("low", fractions.low), ("high", fractions.high)):
        if np.unique(score[tuning]).size == 1:
            same = score[tuning][0]
            raise ValueError(
                f"{name} model: its class covers {same:g} of every tuning frame, which carries no information"
            )
        cuts.append(equal_error_threshold(score[tuning], there[tuning]))
    table = np.stack([fractions.low > cuts[0], fractions.high > cuts[1]], axis=1).astype(np.float64)
    return table, there.astype(np.float64), (cuts[0], cuts[1])


def pair(table: Array, names: tuple[str, str], costs: tuple[float, float]) -> tuple[Fidelity, Fidelity]:
    """The two fidelities; the low one's zeta is its accuracy relative to the high one on these held-out readings."""
    bits = table.astype(bool)
    zeta = relative_zeta(bits[:, 0], bits[:, 1], "accuracy")
    if zeta == 0.0:
        agree = int((bits[:, 0] == bits[:, 1]).sum())
        raise ValueError(
            f"low model: it agrees with the high model on {agree} of {len(bits)} tuning frames, no better than chance"
        )
    return Fidelity(names[0], zeta=zeta, cost=costs[0]), Fidelity(names[1], zeta=1.0, cost=costs[1])


def shipped_scene() -> Scene:
    """The paper's stream, fences in the 171 frames of Seq05VD, seen by ESPNetv2 0.5 and 2.0.

    >>> scene = shipped_scene()
    >>> scene.table.shape, len(scene.changes), [len(t) for t in scene.tuning]
    ((171, 2), 19, [62, 101])
    """
    stream = datasets.camvid_fence()
    with shipped("camvid_fence.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = ("gt_fence", "espnetv2_s0.5_fence", "espnetv2_s2.0_fence")
    frames = tuple(row["frame"] for row in rows)
    fractions = Fractions(frames, *(np.array([float(row[c]) for row in rows]) for c in columns))
    sequence = np.array([name.partition("_")[0] for name in frames])
    scored = sequence == "Seq05VD"
    table, truth, cuts = binarised(fractions, ~scored, 0.0)
    cheap, expensive = stream.fidelities[0], stream.fidelities[-1]
    low, high = pair(table[~scored], (cheap.name, expensive.name), (cheap.cost_of(), expensive.cost_of()))
    others = [str(name) for name in dict.fromkeys(sequence[~scored])]
    return Scene(
        thing="fence",
        frame=tuple(name for name, use in zip(frames, scored, strict=True) if use),
        table=table[scored],
        truth=truth[scored],
        tuning=tuple(table[sequence == name] for name in others),
        fidelities=(low, high),
        hazard=stream.hazard,
        unit="GMAC",
        protocol=(
            "The stream is the paper's: fence in view or not, in the 171 frames of CamVid's Seq05VD, one per second. "
            "The networks are not: the paper's two MobileNetV3 (fastseg) are on no package registry, and ESPNetv2 of "
            f"width 0.5 ({low.cost_of():g} GMAC per frame) and 2.0 ({high.cost_of():g}) stand in for them. So the "
            "MSE, L1 and costs of this page are those of other networks than the paper's.",
            f"A network says fence where the fraction of fence pixels exceeds {cuts[0]:.4g} (low) or {cuts[1]:.4g} "
            f"(high): FNR = FPR on the {int((~scored).sum())} other frames ({' and '.join(others)}), never on the "
            "stream. The paper does not give its thresholds.",
            f"zeta of the low fidelity is {low.zeta:.3g}, the share of those other frames on which the two "
            "networks agree. The paper's 0.95 is 1 minus the difference in mean IoU of its own networks.",
            f"Hazard 1/{1 / stream.hazard:g} (the switches of the label in 0001TP, which also has one frame per "
            "second) and prior Beta(1, 1): the paper states neither.",
        ),
    )


def folder_scene(
    fractions: Fractions,
    thing: str,
    names: tuple[str, str],
    costs: tuple[float, float],
    unit: str,
    floor: float,
    protocol: Sequence[str] = (),
) -> Scene:
    """A user's own frames: the first third is for tuning threshold, zeta, hazard and weights, the rest the stream."""
    count = len(fractions.frame)
    first = count // 3
    if first < 2:
        raise ValueError(f"frames: {count} are too few, at least 6 are needed (the first third is for tuning)")
    if not 0.0 < costs[0] < costs[1]:
        raise ValueError(f"low model: its cost {costs[0]:g} {unit} must be below the high model's {costs[1]:g}")
    tuning = np.arange(count) < first
    table, truth, cuts = binarised(fractions, tuning, floor)
    low, high = pair(table[tuning], names, costs)
    turns = switches(truth[:first]).size
    return Scene(
        thing=thing,
        frame=fractions.frame[first:],
        table=table[first:],
        truth=truth[first:],
        tuning=(table[:first],),
        fidelities=(low, high),
        hazard=max(turns, 1) / (first - 1) if turns < first - 1 else 0.5,
        unit=unit,
        protocol=(
            *protocol,
            f"The first {first} of the {count} frames are for tuning and are not scored: each network's threshold "
            f"({cuts[0]:.4g} low, {cuts[1]:.4g} high) is where FNR = FPR there, zeta of the low fidelity "
            f"({low.zeta:.3g}) is how often the two networks agree there, and the hazard is the {turns} switches "
            "of the label in those frames, at least one.",
            f"The label says {thing} where it covers more than {floor:g} of the frame. Prior Beta(1, 1).",
        ),
    )
