"""The state that Spark stores per stream: bytes with their own version number."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from ...belief.serialization import MAGIC as DETECTOR

MAGIC = b"MFSK"
VERSION = 1
"""The only version that is read. A migration from an older version would go into `unpack`."""
REMEMBERED = 64
"""Number of applied times that are stored, to distinguish a repeated row from a late one."""
_HEAD = struct.Struct("<4sB32s?BH")  # magic, version, config, shared, bytes of the policy's name, times


class Record(NamedTuple):
    """The state of one stream between two micro-batches."""

    config: str | None
    """Digest of the configuration; None for a detector that was saved elsewhere."""
    shared: bool
    """Whether it shared a budget with others."""
    policy: str
    """Name of the policy's class."""
    times: tuple[int, ...]
    """The last applied times, in ascending order."""
    checksums: tuple[int, ...]
    """A 32-bit checksum of the row applied at each of them."""
    state: bytes
    """`Detector.to_bytes`."""


def pack(
    config: str, shared: bool, policy: str, times: Sequence[int], checksums: Sequence[int], state: bytes
) -> bytes:
    """Return a record as bytes.

    >>> data = pack("ab" * 32, False, "Budget", [3, 4], [7, 8], b"MFBOCD...")
    >>> unpack(data) == Record("ab" * 32, False, "Budget", (3, 4), (7, 8), b"MFBOCD...")
    True
    """
    last, sums = list(times)[-REMEMBERED:], list(checksums)[-REMEMBERED:]
    name = policy.encode()
    head = _HEAD.pack(MAGIC, VERSION, bytes.fromhex(config), shared, len(name), len(last))
    return head + name + struct.pack(f"<{len(last)}q{len(last)}I", *last, *sums) + state


def unpack(data: bytes) -> Record:
    """Return the record of `pack`, or of a saved detector, which has no times; raise ValueError for anything else."""
    if data.startswith(DETECTOR):
        return Record(None, False, "", (), (), data)
    if len(data) <= len(MAGIC) or not data.startswith(MAGIC):
        raise ValueError("the state is neither a record of a stream nor a saved detector")
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
