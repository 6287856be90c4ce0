"""One tick of many detectors at once, each with ticks, seed and policy of its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ._kernels import layout as at
from ._kernels.told import SCALE, compact, likely
from .detector import Detector
from .information import CODE, expected_gains

Array = NDArray[np.float64]
T = TypeVar("T", bound=np.generic)


class Moved(NamedTuple):
    """What became of one detector's belief; the detector itself is told by `Detector.passed`."""

    report: Sequence[float]
    gains: list[float]
    """Of each fidelity at the coming tick, if the policy weighs any."""
    likely: list[list[float]]
    """[run length, probability], rounded, of the likely run lengths, shortest first."""
    saved: memoryview
    """`snapshot.belief_of` it as bytes, for a `Freezer`; only until the next move."""


class Mover:
    """Moves the beliefs of detectors by one tick: those made alike in one pass of the kernels.

    Parameters
    ----------
    least: the probability from which a run length is told.
    rows: how many are told at most, the most probable.

    >>> from mfbocd import Gaussian
    >>> detectors = [Detector(Gaussian(0, 9, 1)) for _ in range(2)]
    >>> moved = Mover(least=0.01, rows=16).move(detectors, [0.3, 0.5], [1.0, 1.0])
    >>> [m.likely for m in moved], [d.ticks for d in detectors]
    ([[[0, 1.0]], [[0, 1.0]]], [0, 0])
    >>> detectors[0].passed(moved[0].report, 0.3, detectors[0].fidelities[0], 1.0).tick
    0
    """

    def __init__(self, least: float, rows: int) -> None:
        self.least, self.rows = least, rows
        # Used again and again: as much memory as many states take is new to the process each time, and slow.
        self._states, self._kept, self._share = np.empty(0), np.empty(0), np.empty(0)
        self._length, self._ends = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        self._used = 0

    def move(
        self, detectors: Sequence[Detector], values: Sequence[Any], zetas: Sequence[float]
    ) -> list[Moved | Exception]:
        """Readings as `Detector.taken` gives them; an error where one could not be, and that belief is as it was."""
        found: list[Moved | Exception] = [ValueError("not moved")] * len(detectors)
        alike: dict[Any, list[int]] = defaultdict(list)
        self._used = 0
        missed = [value is None for value in values]
        values = [d.nothing if gone else v for d, v, gone in zip(detectors, values, missed, strict=True)]
        zetas = [0.0 if gone else zeta for zeta, gone in zip(zetas, missed, strict=True)]
        for i, detector in enumerate(detectors):
            if detector.model.advance is None or detector.model.dimension > 1 or len(detectors) == 1:
                found[i] = self._one(detector, values[i], zetas[i])
                continue
            detector.filter.make_room(1)
            alike[detector.kind, detector.weighed, detector.filter.state.size].append(i)
        for many in alike.values():
            moved = self._many([detectors[i] for i in many], [values[i] for i in many], [zetas[i] for i in many])
            for i, one in zip(many, moved, strict=True):
                found[i] = one
        return found

    def _one(self, detector: Detector, value: Any, zeta: float) -> Moved | Exception:
        belief, weighed = detector.filter, detector.weighed
        before = belief.state.copy()
        try:
            report = belief.observe(value, zeta)
            gains = [] if weighed is None else expected_gains(belief, detector.policy.zeta, weighed).tolist()
        except Exception as error:
            belief.adopt(before)
            return error
        (told,), (saved,) = self._told(belief.state[None])
        return Moved(report, gains, told, saved)

    def _many(self, detectors: list[Detector], values: list[float], zetas: list[float]) -> list[Moved]:
        n, like = len(detectors), detectors[0]
        beliefs = [detector.filter for detector in detectors]
        self._states = _room(self._states, n * beliefs[0].state.size)
        room = self._states[: n * beliefs[0].state.size]
        states = np.concatenate([b.state for b in beliefs], out=room).reshape(n, -1)
        setup = like.filter.setup
        report = np.empty((1, at.FIELDS, n))
        advance = like.model.advance
        assert advance is not None
        advance(states, setup, np.array([values]), np.array([zetas]), report, _board())
        gains: list[list[float]] = [[]] * n
        if like.weighed is not None:
            out = np.empty((n, like.policy.zeta.size))
            assert like.model.gains is not None
            like.model.gains(states, setup, like.policy.zeta, CODE[like.weighed], out, _board())
            gains = out.tolist()
        told, saved = self._told(states)
        for belief, state in zip(beliefs, states, strict=True):
            belief.state[:] = state
        return list(map(Moved, report[0].T.tolist(), gains, told, saved))

    def _told(self, states: Array) -> tuple[list[list[list[float]]], list[memoryview]]:
        """The likely run lengths of each state, and its `Moved.saved`."""
        n = len(states)
        self._length, self._share = _room(self._length, n * self.rows), _room(self._share, n * self.rows)
        self._ends = _room(self._ends, n)
        likely(states, self.least, self.rows, self._length, self._share, self._ends)
        places = self._ends[:n].tolist()
        found = zip(self._length[: places[-1]].tolist(), self._share[: places[-1]].tolist(), strict=True)
        pairs = [[length, share / SCALE] for length, share in found]
        told = [pairs[low:high] for low, high in zip([0, *places], places, strict=False)]
        if self._kept.size < self._used + states.size:  # what was given out of the old one stays with it
            self._kept, self._used = np.empty(max(2 * self._kept.size, states.size)), 0
        numbers = self._kept[self._used : self._used + states.size]
        self._used += states.size
        compact(states, numbers, self._ends)
        kept = numbers.astype("<f8", copy=False).data.cast("B")
        places = [8 * end for end in self._ends[:n].tolist()]
        return told, [kept[low:high] for low, high in zip([0, *places], places, strict=False)]


def _board() -> NDArray[np.int64]:
    """Of kernels that threads could share (`_kernels.share`): here one does all."""
    return np.zeros(2, dtype=np.int64)


def _room(array: NDArray[T], size: int) -> NDArray[T]:
    """The array, or another of at least this size."""
    return array if array.size >= size else np.empty(2 * size, dtype=array.dtype)
