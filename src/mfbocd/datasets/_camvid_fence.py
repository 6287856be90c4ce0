"""Fences in a driving video, seen by four networks."""

from __future__ import annotations

import csv
from typing import NamedTuple

import numpy as np

from ..models import Bernoulli
from ..policy.fidelity import Fidelity
from ._held_out import Bits, Zeta, equal_error_threshold, relative_zeta
from ._stream import Array, RealStream, shipped, switches

COST = {"0.5": 0.224, "1.0": 0.407, "1.5": 0.642, "2.0": 1.012}
"""GMAC per frame of ESPNetv2 at 384x512, by width."""
_SOURCE = """\
Fractions of pixels measured for this project: ESPNetv2 networks with Cityscapes weights, widths 0.5, 1.0, 1.5 and
2.0, run on frames of the Cambridge-driving Labeled Video Database (CamVid; Brostow, Fauqueur and Cipolla 2009) as
redistributed by the SegNet tutorial, with its 11-class human labels. The frames and labels are CC BY-NC 4.0 and are
not shipped; the table carries no image. The paper's two MobileNetV3 are in no package registry; these networks
replace them."""


class Frames(NamedTuple):
    """The shipped table, one row per frame.

    Attributes
    ----------
    stream : numpy.ndarray
        (N,): whether the frame belongs to the test stream, sequence Seq05VD.
    human : numpy.ndarray
        (N,): fraction of pixels that a person labelled as fence.
    network : numpy.ndarray
        (N, 4): fraction of pixels that each network labels as fence.
    """

    stream: Bits
    human: Array
    network: Array


def camvid_fence(zeta: Zeta = "accuracy", *, floor: float = 0.0) -> RealStream:
    """Return whether a fence is in view in the 171 frames of CamVid's Seq05VD, one per second, at four fidelities.

    A network reads 1 if the fraction of fence pixels it finds exceeds its threshold. The threshold is where FNR = FPR
    on the 163 tuning frames (0001TP and the split val), never on the stream. zeta is the `relative_zeta` of a network
    and the widest one on the same tuning frames. The hazard, 1/20, comes from the 3 switches in the 61 steps of
    0001TP, which also has one frame per second.

    Parameters
    ----------
    zeta : {"accuracy", "information", "tpr"}
        How zeta is computed (`relative_zeta`); "accuracy" by default.
    floor : float
        A frame has a fence (`truth`) if the human label covers more than this fraction of the pixels. 0, the default,
        is the paper's "in the image"; the smallest labelled fraction is 0.00047.

    Returns
    -------
    RealStream
        The stream, with a Bernoulli model.

    Raises
    ------
    ValueError
        If `zeta` is none of the three.

    Examples
    --------
    >>> stream = camvid_fence()
    >>> int(stream.truth.sum()), stream.changes.size
    (62, 19)
    >>> [round(f.zeta, 2) for f in stream.fidelities]
    [0.74, 0.73, 0.77, 1.0]
    """
    frames = _read()
    fence = frames.human > floor
    tuning = ~frames.stream
    columns = [score > equal_error_threshold(score[tuning], fence[tuning]) for score in frames.network.T]
    reference = columns[-1][tuning]
    truth = fence[frames.stream].astype(np.float64)
    return RealStream(
        table=np.stack([x[frames.stream] for x in columns], axis=1).astype(np.float64),
        fidelities=tuple(
            Fidelity(f"espnetv2-{width}", zeta=relative_zeta(x[tuning], reference, zeta), cost=cost)
            for x, (width, cost) in zip(columns, COST.items(), strict=True)
        ),
        model=Bernoulli(1, 1),
        hazard=1 / 20,
        truth=truth,
        changes=switches(truth),
        source=_SOURCE,
        note="Costs in GMAC per frame. The tuning frames are few and similar: the 101 of val are 7 seconds of one "
        "scene with a fence in every frame, so all 34 frames without one are from 0001TP, and zeta need not increase "
        "with the cost.",
    )


def _read() -> Frames:
    with shipped("camvid_fence.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return Frames(
        stream=np.array([row["frame"].startswith("Seq05VD_") for row in rows]),
        human=np.array([float(row["gt_fence"]) for row in rows]),
        network=np.array([[float(row[f"espnetv2_s{width}_fence"]) for width in COST] for row in rows]),
    )
