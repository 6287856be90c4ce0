"""What Spark keeps of a stream, as one value of bytes: its schema never changes, the version in it does."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from ...belief.serialization import MAGIC as DETECTOR

MAGIC = b"MFSK"
VERSION = 2
"""1 did not say which policy decided, whether streams shared a price, nor what was read at the times seen."""
REMEMBERED = 64
"""Times that a row seen before is distinguished from a late one by."""
_HEAD = struct.Struct("<4sB32s?BH")  # magic, version, config, shared, bytes of the policy's name, times


class Record(NamedTuple):
    """One stream between two micro-batches."""

    config: str | None
    """Fingerprint of the config it was followed under; None of a detector that came from elsewhere."""
    shared: bool
    """Whether it paid the price of a group."""
    policy: str
    """The kind of policy that decided."""
    seen: tuple[int, ...]
    """The last times applied, rising."""
    marks: tuple[int, ...]
    """A 32-bit mark of the row applied at each of them."""
    blob: bytes
    """`Detector.to_bytes`."""


def pack(config: str, shared: bool, policy: str, seen: Sequence[int], marks: Sequence[int], blob: bytes) -> bytes:
    """A record as bytes.

    >>> data = pack("ab" * 32, False, "Budget", [3, 4], [7, 8], b"MFBOCD...")
    >>> unpack(data) == Record("ab" * 32, False, "Budget", (3, 4), (7, 8), b"MFBOCD...")
    True
    """
    times, of = list(seen)[-REMEMBERED:], list(marks)[-REMEMBERED:]
    name = policy.encode()
    head = _HEAD.pack(MAGIC, VERSION, bytes.fromhex(config), shared, len(name), len(times))
    return head + name + struct.pack(f"<{len(times)}q{len(times)}I", *times, *of) + blob


def unpack(data: bytes) -> Record:
    """What `pack` was given, or a saved detector with no times seen; ValueError, saying why, for anything else."""
    if data.startswith(DETECTOR):
        return Record(None, False, "", (), (), data)
    if len(data) <= len(MAGIC) or not data.startswith(MAGIC):
        raise ValueError("the state is neither a followed stream nor a saved detector: it begins with neither's mark")
    version = data[len(MAGIC)]
    if version != VERSION:
        raise ValueError(
            f"the state has version {version}; this mfbocd reads version {VERSION} and saved detectors: "
            "begin a new checkpoint"
        )
    if len(data) < _HEAD.size:
        raise ValueError(f"the state is truncated: only {len(data)} bytes")
    _, _, config, shared, length, count = _HEAD.unpack_from(data)
    begin = _HEAD.size + length
    end = begin + 12 * count
    if len(data) < end:
        raise ValueError(f"the state is truncated: only {len(data)} bytes")
    numbers = struct.unpack_from(f"<{count}q{count}I", data, begin)
    name = data[_HEAD.size : begin].decode()
    return Record(config.hex(), shared, name, numbers[:count], numbers[count:], data[end:])
