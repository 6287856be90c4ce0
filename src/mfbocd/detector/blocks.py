"""A detector of block features, which reports in ticks of the readings."""

from __future__ import annotations

import struct
from typing import Any, Self

import numpy as np

from ..inputs.blocks import Blocks
from ..inputs.copies import Independent
from ..inputs.display import count_text, html_table
from .detector import Detector
from .step import Step

_LENGTH = struct.Struct("<I")


class BlockDetector(Independent):
    """A detector that reads the features of blocks instead of single readings.

    Parameters
    ----------
    blocks : Blocks
        Turns readings into vectors.
    detector : Detector
        Its model has one number per feature, and it has one fidelity. If one feature of a block is missing, a
        `Product` with ``missing="skip"`` uses the others; else the block is a tick without a reading.

    Attributes
    ----------
    blocks, detector : Any
        The arguments; their states advance with every update.

    Raises
    ------
    ValueError
        If the model has not one number per feature, if there are several fidelities, or if the two have not seen the
        same number of blocks.

    Notes
    -----
    A change within a block is reported at the beginning of that block or of the next one, so its position is known to
    half a block. The alarm's window, the hazard and `Step.cost` are per block.

    Examples
    --------
    >>> import numpy as np
    >>> from mfbocd import GaussianUnknown
    >>> t = np.arange(400)
    >>> wave = np.where(t < 240, np.sin(t / 3), np.sign(np.sin(t / 3)))  # another shape at the same level
    >>> model = GaussianUnknown(mean=-1.5, count=0.1, shape=2, scale=0.02)
    >>> watch = BlockDetector(Blocks(20, ["log_sd_diff"]), Detector(model, hazard=0.02))
    >>> for x in wave:
    ...     step = watch.update(x)
    ...     if step is not None and step.alarm:
    ...         print(step.tick, step.changed_at)
    259 240
    """

    def __init__(self, blocks: Blocks, detector: Detector) -> None:
        if detector.model.dimension != blocks.dimension:
            raise ValueError(
                f"the blocks have {blocks.dimension} features, {', '.join(blocks.names)}, but a reading of the model "
                f"has {detector.model.dimension} numbers"
            )
        if len(detector.fidelities) > 1:
            raise ValueError(f"a detector of blocks has one fidelity, not {len(detector.fidelities)}")
        if detector.ticks != blocks.ticks // blocks.every:
            raise ValueError(
                f"the detector has seen {detector.ticks} blocks, but {blocks.ticks} readings are "
                f"{blocks.ticks // blocks.every} blocks"
            )
        self.blocks = blocks
        self.detector = detector
        self._partial = detector.model.partial and detector.missing == "skip"

    def __repr__(self) -> str:
        return f"BlockDetector({self.blocks!r}, {self.detector!r})"

    def _repr_html_(self) -> str:
        title = f"BlockDetector: {count_text(self.ticks, 'reading')}, {self.blocks!r}"
        return html_table(title, (), ()) + self.detector._repr_html_()

    @property
    def ticks(self) -> int:
        """Readings so far."""
        return self.blocks.ticks

    def update(self, x: Any) -> Step | None:
        """Add a reading, and update the detector if it completes a block.

        Parameters
        ----------
        x : float or None
            The reading; None and NaN are a tick without a reading.

        Returns
        -------
        Step or None
            The record of the block, in which `tick`, `changed_at` and `run_length` count readings, and `x` is the
            vector of features; None within a block.

        Raises
        ------
        TypeError, ValueError
            If it is not a number, or infinite; nothing is changed.
        """
        vector = self.blocks.push(x)
        if vector is None:
            return None
        gone = np.isnan(vector)
        usable = not gone.all() if self._partial else not gone.any()
        step = self.detector.update((vector if vector.size > 1 else float(vector[0])) if usable else None)
        every = self.blocks.every
        return step._replace(
            tick=self.blocks.ticks - 1,
            run_length=every * step.run_length + every - 1,
            changed_at=None if step.changed_at is None else every * step.changed_at,
        )

    def to_bytes(self) -> bytes:
        """Return the blocks and the detector as bytes.

        Returns
        -------
        bytes
            What `from_bytes` takes.

        Raises
        ------
        TypeError
            If a feature of the blocks is a function.
        """
        blocks = self.blocks.to_bytes()
        return _LENGTH.pack(len(blocks)) + blocks + self.detector.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return a detector that continues where `to_bytes` was called.

        Parameters
        ----------
        data : bytes
            What `to_bytes` returned.

        Returns
        -------
        BlockDetector
            The detector.

        Raises
        ------
        ValueError
            If the bytes are not a saved detector of blocks.
        """
        if len(data) < _LENGTH.size:
            raise ValueError("these bytes are not a saved detector of blocks")
        end = _LENGTH.size + _LENGTH.unpack_from(data)[0]
        return cls(Blocks.from_bytes(data[_LENGTH.size : end]), Detector.from_bytes(data[end:]))
