"""A small versioned binary: magic, version, plain facts as JSON, arrays, checksum. Never pickle."""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MAGIC = b"MFBOCD"
VERSION = 2
"""1 had every number of the facts, and every array's size, in the JSON, which so was another at every tick."""
_HEAD = struct.Struct("<6sHI")  # magic, version, bytes of JSON
_CHECK = struct.Struct("<I")
_HOLD = 5120  # bytes of which zlib makes a checksum without letting other threads in: waiting for them takes longer
encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
"""Facts as they stand in the bytes."""


def pack(facts: dict[str, Any], arrays: dict[str, Array]) -> bytes:
    """Facts (plain JSON values) and arrays, which come back flat, as bytes."""
    begin = preface(facts, {name: array.size for name, array in arrays.items()})
    return seal(begin, zlib.crc32(begin), *(plain(array) for array in arrays.values()))


def plain(array: Array) -> bytes:
    """An array's bytes."""
    return array.astype("<f8", copy=False).tobytes()


def preface(facts: dict[str, Any], sizes: dict[str, int]) -> bytes:
    """What stands before the arrays. It does not hang on the size of the last: that is whatever there is."""
    *known, last = sizes
    text = encode({**facts, "arrays": {**{name: sizes[name] for name in known}, last: None}}).encode()
    return _HEAD.pack(MAGIC, VERSION, len(text)) + text


def seal(begin: bytes, check: int, *parts: bytes | memoryview) -> bytes:
    """All there is with its checksum, which begins with `check`, that of `begin`."""
    for part in parts:
        for at in range(0, len(part), _HOLD):
            check = zlib.crc32(part[at : at + _HOLD], check)
    return b"".join([begin, *parts, _CHECK.pack(check)])


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, Array]]:
    """What `pack` was given; ValueError, saying why, for anything else."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"a saved detector is bytes, not {type(data).__name__}")
    data = bytes(data)
    if data[: len(MAGIC)] != MAGIC[: len(data)] or not data:
        raise ValueError("these bytes are not a saved detector: they do not begin with its mark")
    if len(data) < _HEAD.size + _CHECK.size:
        raise ValueError(f"the saved detector is truncated: only {len(data)} bytes")
    _, version, length = _HEAD.unpack_from(data)
    if not 1 <= version <= VERSION:
        raise ValueError(
            f"the saved detector has format version {version}; this mfbocd reads versions 1 to {VERSION}"
        )
    if len(data) < _HEAD.size + length + _CHECK.size:
        raise ValueError(f"the saved detector is truncated: only {len(data)} bytes")
    (check,) = _CHECK.unpack_from(data, len(data) - _CHECK.size)
    if check != zlib.crc32(data[: -_CHECK.size]):
        raise ValueError("the saved detector is truncated or was altered: its checksum does not match")
    try:
        facts = json.loads(data[_HEAD.size : _HEAD.size + length])
    except RecursionError:
        raise ValueError("the saved detector is damaged: its facts are nested too deeply") from None
    sizes = facts.pop("arrays", None) if isinstance(facts, dict) else None
    if not isinstance(sizes, dict):
        raise ValueError("the saved detector is damaged: it does not say which arrays it has")
    arrays: dict[str, Array] = {}
    offset, end = _HEAD.size + length, len(data) - _CHECK.size
    for name, size in sizes.items():
        count = (end - offset) // 8 if size is None else size
        if type(count) is not int or not 0 <= 8 * count <= end - offset:
            raise ValueError(f"the saved detector is damaged: {name} cannot have {size!r} numbers")
        arrays[name] = np.frombuffer(data, dtype="<f8", count=count, offset=offset).astype(np.float64)
        offset += 8 * count
    if offset != end:
        raise ValueError(f"the saved detector is damaged: there are {end - offset} bytes after its arrays")
    return facts, arrays
