"""What Spark keeps of a stream, as one value of bytes: its schema never changes, the version in it does."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from ...saving import MAGIC as DETECTOR

MAGIC = b"MFSK"
VERSION = 1
REMEMBERED = 64
"""Times that a row seen before is told from a late one by."""
_HEAD = struct.Struct("<4sB32sH")


class Record(NamedTuple):
    """One stream between two micro-batches."""

    config: str | None
    """Fingerprint of the config it was followed under; None of a detector that came from elsewhere."""
    seen: tuple[int, ...]
    """The last times applied, rising."""
    blob: bytes
    """`Detector.to_bytes`."""


def pack(config: str, seen: Sequence[int], blob: bytes) -> bytes:
    """A record as bytes.

    >>> data = pack("ab" * 32, [3, 4], b"MFBOCD...")
    >>> unpack(data) == Record("ab" * 32, (3, 4), b"MFBOCD...")
    True
    """
    times = list(seen)[-REMEMBERED:]
    head = _HEAD.pack(MAGIC, VERSION, bytes.fromhex(config), len(times))
    return head + struct.pack(f"<{len(times)}q", *times) + blob


def unpack(data: bytes) -> Record:
    """What `pack` was given, or a saved detector with no times seen; ValueError, saying why, for anything else."""
    if data.startswith(DETECTOR):
        return Record(None, (), data)
    if len(data) < _HEAD.size or not data.startswith(MAGIC):
        raise ValueError("the state is neither a followed stream nor a saved detector: it begins with neither's mark")
    _, version, config, count = _HEAD.unpack_from(data)
    if version != VERSION:
        raise ValueError(f"the state has version {version}; this mfbocd reads version {VERSION} and saved detectors")
    end = _HEAD.size + 8 * count
    return Record(config.hex(), struct.unpack_from(f"<{count}q", data, _HEAD.size), data[end:])
