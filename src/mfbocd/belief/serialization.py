"""The container of the saved format: magic, version, facts as JSON, arrays, checksum. Never pickle.

All integers and floats are little-endian:

==========  =================================================================================
bytes       content
==========  =================================================================================
6           ``MAGIC``
2           ``VERSION``, unsigned
4           length of the JSON text, unsigned
...         JSON text: the facts, and under ``"arrays"`` the name and size of every array
...         the arrays as float64, in that order; the last has size null: it takes what is left
4           CRC-32 of everything before it
==========  =================================================================================

The JSON text does not contain the size of the last array, which is the one that grows. Everything before the first
array that changes is therefore constant for a detector, and is computed once (`prefix`).
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MAGIC = b"MFBOCD"
VERSION = 2
"""The only version that is read. Version 1 was never released. From the first release on, whoever raises it also adds
the migration: `contents` is the place for it."""
_HEAD = struct.Struct("<6sHI")  # magic, version, length of the JSON text
_CHECK = struct.Struct("<I")
# zlib releases the GIL for more bytes than this, and waiting to get it back takes longer than the checksum
_WITHOUT_RELEASE = 5120
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def prefix(facts: Mapping[str, Any], sizes: Mapping[str, int]) -> bytes:
    """Return everything that precedes the arrays.

    Parameters
    ----------
    facts : mapping
        Plain JSON values; numbers must be finite.
    sizes : mapping of str to int
        Length of every array, in order. The length of the last one is not written.
    """
    *fixed, last = sizes
    text = _encode({**facts, "arrays": {**{name: sizes[name] for name in fixed}, last: None}}).encode()
    return _HEAD.pack(MAGIC, VERSION, len(text)) + text


def plain(array: Array) -> bytes:
    """Return the numbers of an array as little-endian bytes."""
    return array.astype("<f8", copy=False).tobytes()


def seal(begin: bytes, check: int, *parts: bytes) -> bytes:
    """Join `begin`, whose CRC-32 is `check`, and the parts after it, and append the CRC-32 of all of them."""
    for part in parts:
        for at in range(0, len(part), _WITHOUT_RELEASE):
            check = zlib.crc32(part[at : at + _WITHOUT_RELEASE], check)
    return b"".join([begin, *parts, _CHECK.pack(check)])


def pack(facts: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
    """Return facts and arrays as bytes; `unpack` is the inverse, except that it returns flat arrays."""
    begin = prefix(facts, {name: array.size for name, array in arrays.items()})
    return seal(begin, zlib.crc32(begin), *map(plain, arrays.values()))


def contents(data: bytes) -> tuple[bytes, memoryview]:
    """Return the JSON text and the bytes of the arrays, after checking magic, version, length and checksum.

    Raises
    ------
    TypeError
        If `data` is not bytes.
    ValueError
        If it is not a saved detector, has another version, is truncated or was altered.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"a saved detector is bytes, not {type(data).__name__}")
    data = bytes(data)
    if data[: len(MAGIC)] != MAGIC[: len(data)] or not data:
        raise ValueError("these bytes are not a saved detector: they do not begin with its signature")
    if len(data) < _HEAD.size + _CHECK.size:
        raise ValueError(f"the saved detector is truncated: only {len(data)} bytes")
    _, version, length = _HEAD.unpack_from(data)
    # The first change of the format adds its migration here: a function that turns the contents of one version into
    # those of the next, applied until the version is VERSION.
    if version != VERSION:
        raise ValueError(
            f"the saved detector has format version {version}; this version of mfbocd reads only version {VERSION}"
        )
    if len(data) < _HEAD.size + length + _CHECK.size:
        raise ValueError(f"the saved detector is truncated: only {len(data)} bytes")
    (check,) = _CHECK.unpack_from(data, len(data) - _CHECK.size)
    if check != zlib.crc32(data[: -_CHECK.size]):
        raise ValueError("the saved detector is truncated or was altered: its checksum does not match")
    start = _HEAD.size + length
    return data[_HEAD.size : start], memoryview(data)[start : -_CHECK.size]


def parse(text: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the facts and the sizes of the arrays that the JSON text contains."""
    try:
        facts = json.loads(text)
    except RecursionError:
        raise ValueError("the saved detector is damaged: its facts are nested too deeply") from None
    sizes = facts.pop("arrays", None) if isinstance(facts, dict) else None
    if not isinstance(sizes, dict):
        raise ValueError("the saved detector is damaged: it does not say which arrays it has")
    return facts, sizes


def split(body: memoryview, sizes: Mapping[str, Any]) -> dict[str, Array]:
    """Return the arrays by name; they are copies."""
    arrays: dict[str, Array] = {}
    offset, end = 0, len(body)
    for name, size in sizes.items():
        count = (end - offset) // 8 if size is None else size
        if type(count) is not int or not 0 <= 8 * count <= end - offset:
            raise ValueError(f"the saved detector is damaged: {name} cannot have {size!r} numbers")
        arrays[name] = np.frombuffer(body, dtype="<f8", count=count, offset=offset).astype(np.float64)
        offset += 8 * count
    if offset != end:
        raise ValueError(f"the saved detector is damaged: there are {end - offset} bytes after its arrays")
    return arrays


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the facts and arrays that `pack` was given; a ValueError says what is wrong with other bytes."""
    text, body = contents(data)
    facts, sizes = parse(text)
    return facts, split(body, sizes)
