"""Blocks of readings: each block is summarized by one vector of features."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arguments import positive, whole
from .readings import floats, number

Array = NDArray[np.float64]
Feature = Callable[[Array], float]

HARMONICS = 6


class Blocks:
    """A front end that turns a stream of readings into one vector of features per block.

    A change of shape, such as another waveform at the same level, is invisible reading by reading, but it changes
    the features of a block. The vectors are readings for any model of vectors: a `Product` of `GaussianUnknown`, or a
    `MultivariateGaussianUnknown`. `BlockDetector` combines blocks with a detector and reports in ticks of readings.

    Parameters
    ----------
    every : int
        Readings per block, at least 4. For an oscillating series, one period or a few of them.
    features : sequence of str or callable
        Features of a block, in order:

        - ``"mean"``, ``"max"``, ``"min"``: in the unit of the readings;
        - ``"slope"``: of the least-squares line, per tick;
        - ``"log_sd"``, ``"log_sd_diff"``, ``"log_sd_diff2"``: log standard deviation of the readings, of their first
          and of their second differences;
        - ``"harmonics"``: log power of the first six harmonics of the block; ``"harmonics:3"`` of the first three.
        - a function of an array of readings (without the missing ones) that returns a number; blocks with such a
          feature cannot be saved.
    floor : float, default 1e-9
        Standard deviation, in the unit of the readings, that is added in quadrature before a logarithm is taken, so
        that a constant block has finite features.

    Attributes
    ----------
    every, features, floor : Any
        The arguments.
    names : list of str
        Name of every number of a vector; harmonics are ``"harmonic_1"`` and so on.
    ticks : int
        Readings so far.

    Raises
    ------
    TypeError, ValueError
        If a feature is unknown, or an argument has the wrong type or is out of range.

    Notes
    -----
    With x_1 .. x_n the readings of a block that are present, and d those differences of neighbours that are both
    present:

        log_sd = log(var(x) + floor^2) / 2,  log_sd_diff = log(var(d) + floor^2) / 2
        harmonic_k = log(2 |sum_t x_t exp(-2 pi i k t / every)|^2 / every^2 + floor^2)

    In the harmonics, missing readings are interpolated linearly. If fewer than half of the readings of a block are
    present, its vector is all NaN: a missing reading. A single number is NaN if it cannot be computed: `Product` then
    uses the others.

    Memory is one block.

    Examples
    --------
    >>> blocks = Blocks(4, ["mean", "max"])
    >>> for x in [1.0, 2.0, 3.0, 6.0, 5.0]:
    ...     vector = blocks.push(x)
    ...     if vector is not None:
    ...         print(vector)
    [3. 6.]
    >>> blocks.transform([0, 0, 4, 4, 8, 8, 8, 8]).tolist()
    [[2.0, 4.0], [8.0, 8.0]]
    """

    def __init__(self, every: int, features: Sequence[str | Feature], *, floor: float = 1e-9) -> None:
        self.every = whole("Blocks", "every", every, 4)
        self.floor = positive("Blocks", "floor", floor)
        if isinstance(features, str) or not isinstance(features, Iterable):
            raise TypeError(f"Blocks.features must be a sequence of names or functions, not {features!r}")
        self.features: tuple[str | Feature, ...] = tuple(features)
        if not self.features:
            raise ValueError("Blocks.features must contain a feature")
        self.names: list[str] = []
        self._parts: list[Callable[[Array], Any]] = []
        for feature in self.features:
            self._add(feature)
        self.ticks = 0
        self._buffer: list[float] = []

    def __repr__(self) -> str:
        return f"Blocks({self.every}, {list(self.features)!r}, floor={self.floor:g})"

    def _add(self, feature: str | Feature) -> None:
        """Append the names and the function of a feature."""
        if callable(feature):
            self.names.append(getattr(feature, "__name__", "feature"))
            self._parts.append(partial(_present, feature))
            return
        kind, _, count = feature.partition(":") if isinstance(feature, str) else ("", "", "")
        if kind == "harmonics":
            harmonics = self._harmonics(count)
            self.names += [f"harmonic_{k}" for k in range(1, harmonics + 1)]
            self._parts.append(partial(_harmonics, count=harmonics, floor=self.floor))
        elif kind in _LOGS and not count:
            self.names.append(kind)
            self._parts.append(partial(_LOGS[kind], floor=self.floor))
        elif kind in _PLAIN and not count:
            self.names.append(kind)
            self._parts.append(_PLAIN[kind])
        else:
            known = ", ".join([*_PLAIN, *_LOGS, "harmonics", "harmonics:K"])
            raise ValueError(f"Blocks.features must be functions or among {known}, not {feature!r}")

    def _harmonics(self, count: str) -> int:
        """Return the number of harmonics: six by default, fewer in a block too short for them."""
        if not count:
            return min(HARMONICS, self.every // 2)
        number = int(count) if count.isdecimal() else 0
        if not 1 <= number <= self.every // 2:
            raise ValueError(
                f"Blocks.features: harmonics:K needs K from 1 to {self.every // 2}, half of `every`, not {count!r}"
            )
        return number

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return len(self.names)

    @property
    def remaining(self) -> int:
        """Readings that complete the present block."""
        return self.every - len(self._buffer)

    def push(self, x: Any) -> Array | None:
        """Add a reading.

        Parameters
        ----------
        x : float or None
            The reading; None and NaN are a tick without a reading.

        Returns
        -------
        ndarray or None
            The vector of the block that this reading completes, shape (dimension,); None within a block.

        Raises
        ------
        TypeError, ValueError
            If it is not a number, or infinite; nothing is changed.
        """
        self._buffer.append(x if type(x) is float and abs(x) < math.inf else number(x))
        self.ticks += 1
        if len(self._buffer) < self.every:
            return None
        block = np.array(self._buffer)
        self._buffer.clear()
        return self._vector(block)

    def transform(self, readings: ArrayLike) -> Array:
        """Return the vectors of the complete blocks of an array.

        It neither uses nor changes what was pushed.

        Parameters
        ----------
        readings : ArrayLike
            Readings of shape (T,), NaN where missing.

        Returns
        -------
        ndarray
            Shape (T // every, dimension).

        Raises
        ------
        TypeError, ValueError
            If they are not numbers of one dimension.
        """
        x = floats(readings)
        if x.ndim != 1:
            raise ValueError(f"readings must have one dimension, not shape {x.shape}")
        blocks = x[: len(x) // self.every * self.every].reshape(-1, self.every)
        return np.array([self._vector(block) for block in blocks]).reshape(len(blocks), self.dimension)

    def _vector(self, block: Array) -> Array:
        """Return the features of one block."""
        if 2 * np.count_nonzero(np.isfinite(block)) < self.every:
            return np.full(self.dimension, math.nan)
        return np.concatenate([np.atleast_1d(part(block)) for part in self._parts]).astype(float)

    def to_bytes(self) -> bytes:
        """Return the arguments and the readings of the unfinished block.

        Returns
        -------
        bytes
            JSON text.

        Raises
        ------
        TypeError
            If a feature is a function.

        Examples
        --------
        >>> blocks = Blocks(4, ["mean"])
        >>> for x in [1.0, 2.0, 3.0]:
        ...     vector = blocks.push(x)
        >>> Blocks.from_bytes(blocks.to_bytes()).push(6.0)
        array([3.])
        """
        if any(callable(feature) for feature in self.features):
            raise TypeError("blocks with a function among their features cannot be saved; use named features")
        buffer = [None if math.isnan(x) else x for x in self._buffer]
        facts = {"every": self.every, "features": self.features, "floor": self.floor, "ticks": self.ticks}
        return json.dumps({**facts, "buffer": buffer}, allow_nan=False).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return blocks that continue where `to_bytes` was called.

        Parameters
        ----------
        data : bytes
            What `to_bytes` returned.

        Returns
        -------
        Blocks
            The blocks.

        Raises
        ------
        ValueError
            If the bytes are not saved blocks.
        """
        try:
            facts = json.loads(data)
            blocks = cls(facts["every"], facts["features"], floor=facts["floor"])
            ticks = whole("Blocks", "ticks", facts["ticks"], 0)
            buffer = [number(x) for x in facts["buffer"]]
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"these bytes are not saved blocks: {error}") from None
        if len(buffer) != ticks % blocks.every:
            raise ValueError(f"these bytes are not saved blocks: {len(buffer)} readings after {ticks} ticks")
        blocks.ticks, blocks._buffer = ticks, buffer
        return blocks


def _present(feature: Feature, block: Array) -> Any:
    """Apply a function to the readings that are present."""
    return feature(block[np.isfinite(block)])


def _log_sd(block: Array, floor: float, order: int = 0) -> float:
    """Log standard deviation of the differences of an order; a difference with a missing reading is left out."""
    steps = np.diff(block, order)
    known = steps[np.isfinite(steps)]
    return 0.5 * math.log(float(np.var(known)) + floor * floor) if known.size > 1 else math.nan


def _slope(block: Array) -> float:
    """Least-squares slope per tick."""
    known = np.isfinite(block)
    t = np.flatnonzero(known) - np.flatnonzero(known).mean()
    return float(t @ block[known] / (t @ t))


def _harmonics(block: Array, count: int, floor: float) -> Array:
    """Log power of the first harmonics."""
    known = np.isfinite(block)
    if not known.all():
        at = np.arange(block.size)
        block = np.interp(at, at[known], block[known])
    waves = np.fft.rfft(block)[1 : count + 1]
    return np.log(2.0 * np.abs(waves / block.size) ** 2 + floor * floor)


_PLAIN: dict[str, Callable[[Array], float]] = {
    "mean": np.nanmean,
    "max": np.nanmax,
    "min": np.nanmin,
    "slope": _slope,
}
_LOGS: dict[str, Callable[..., float]] = {
    "log_sd": _log_sd,
    "log_sd_diff": partial(_log_sd, order=1),
    "log_sd_diff2": partial(_log_sd, order=2),
}
