"""Streams of a micro-batch that are advanced together, by the kernels of a `Fleet`: one call for a row of each."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...detector.detector import Detector
from ...fleet import Fleet
from ...fleet.rows import Selected
from ...policy import Fidelity
from .cache import CacheError
from .rows import InputRow, StreamRows

FEW = 24
"""With fewer streams, a call for all of them takes longer than `Detector.step` of each."""
FEW_ROWS = 8
"""With fewer rows per stream, moving the states into a fleet and back takes longer than it saves."""

Read = Callable[[StreamRows, InputRow, Fidelity], Any]


def fleet_of(detector: Detector) -> Fleet | None:
    """Return a fleet without streams that advances detectors like this one; None if it cannot, or not faster."""
    model = detector.model
    if model.advance is None or model.gains is None or model.dimension > 1 or detector.policy.priced:
        return None
    if detector.on_error != "raise" or detector.shadow or detector.learn or detector.surprise:
        return None
    return Fleet(
        0,
        model,
        detector.fidelities,
        detector.hazard,
        policy=detector.policy,
        prune=detector.pruning,
        alarm=detector.alarm,
        missing=detector.missing,
        threads=1,
        share_policy=False,
    )


def advance_together(like: Fleet, streams: Sequence[tuple[StreamRows, Detector]], read: Read) -> None:
    """Apply the rows of streams, the next one of each at a time, as long as that is faster than one by one.

    Parameters
    ----------
    like : Fleet
        From `fleet_of`.
    streams : sequence of tuple of StreamRows and Detector
        The rows and the detector of each stream. Rows that are left have to be applied one by one; the state of the
        detector is that after `Detector.step` with the others.
    read : callable
        Returns the checked reading of a stream's row at a fidelity; None if it is missing. An error concerns this row
        only.
    """
    if len(streams) < FEW or sum(stream.size for stream, _ in streams) < FEW_ROWS * len(streams):
        return
    fleet = copy.copy(like)
    for _, detector in streams:
        fleet._put(detector)
    waiting = [(k, stream, row) for k, (stream, _) in enumerate(streams) if (row := stream.row) is not None]
    while len(waiting) >= FEW:
        choice, _ = fleet._decide(_selected(fleet, waiting), None)
        read_now, chosen, values = [], [], []
        for one, j in zip(waiting, choice.tolist(), strict=True):
            _, stream, row = one
            try:
                value = read(stream, row, fleet.fidelities[j])
            except CacheError:
                raise
            except Exception as error:
                stream.failed(row, error)
            else:
                read_now.append(one)
                chosen.append(j)
                values.append(math.nan if value is None else value)
        choice = np.array(chosen, dtype=np.int64)
        step = fleet._advance(_selected(fleet, read_now), np.array(values), choice, fleet._paid(None, choice))
        for (_, stream, row), done in zip(read_now, step.steps(), strict=True):
            stream.applied(row, done)
        waiting = [(k, stream, row) for k, stream, _ in waiting if (row := stream.row) is not None]
    for k, (_, detector) in enumerate(streams):
        fleet._take(k, detector)


def _selected(fleet: Fleet, streams: Sequence[tuple[int, StreamRows, InputRow]]) -> Selected:
    """Return the rows of these streams in the fleet."""
    return fleet._selected(
        None if len(streams) == len(fleet) else np.array([k for k, _, _ in streams], dtype=np.int64)
    )
