"""Readings kept outside of Spark, so that a micro-batch done again does not pay for them again."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, Protocol

import numpy as np


class CacheError(RuntimeError):
    """A cache that cannot be read or written. It stops the query: without it readings would be paid for again."""


class Cache(Protocol):
    """Readings by (stream, time, fidelity). It is sent to the workers, so it must be picklable.

    Whatever either method raises stops the query, as a `CacheError`.
    """

    def get(self, stream: Any, time: int, fidelity: str) -> tuple[Any] | None:
        """The reading, alone in a tuple, or None if it is not known."""

    def put(self, stream: Any, time: int, fidelity: str, x: Any) -> None:
        """Remember a reading (a float, an array of them, or None if it is missing); safe before this returns."""


class FolderCache:
    """A `Cache` in a folder that all workers see, one small file a reading.

    For readings that cost more than writing a file: a network, a paid service, a person. Old files may be removed
    once their micro-batch is committed.

    >>> import tempfile
    >>> cache = FolderCache(tempfile.mkdtemp())
    >>> cache.get("press 7", 12, "camera") is None
    True
    >>> cache.put("press 7", 12, "camera", 0.25)
    >>> cache.get("press 7", 12, "camera")
    (0.25,)
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = str(folder)

    def get(self, stream: Any, time: int, fidelity: str) -> tuple[Any] | None:
        """The reading, if its file is there."""
        path, name = self._place(stream, time, fidelity)
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            # `put` will need the folder: if it cannot be made, that must be known before the reading is paid for
            path.parent.mkdir(parents=True, exist_ok=True)
            return None
        try:
            held = json.loads(text)
            if held["of"] != name:
                raise ValueError(f"it is of {held['of']}")
            return (held["x"],)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is no reading of {name}; remove it to read again: {error}") from None

    def put(self, stream: Any, time: int, fidelity: str, x: Any) -> None:
        """Write beside, sync, rename: the file is whole or not there."""
        path, name = self._place(stream, time, fidelity)
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with beside.open("w", encoding="utf-8") as file:
                json.dump({"of": name, "x": _plain(x)}, file)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise

    def _place(self, stream: Any, time: int, fidelity: str) -> tuple[Path, str]:
        name = json.dumps([str(stream), time, fidelity])
        mark = hashlib.sha256(name.encode()).hexdigest()
        return Path(self.folder) / mark[:2] / f"{mark}.json", name


def _plain(x: Any) -> Any:
    return x.tolist() if isinstance(x, (np.ndarray, np.generic)) else x
