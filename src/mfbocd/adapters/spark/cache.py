"""Readings kept outside of Spark, so that a micro-batch done again does not pay for them again."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, Protocol

import numpy as np


class Cache(Protocol):
    """Readings by (stream, time, fidelity). It is sent to the workers, so it must be picklable."""

    def get(self, stream: Any, time: int, fidelity: str) -> tuple[Any] | None:
        """The reading, alone in a tuple, or None if it is not known."""

    def put(self, stream: Any, time: int, fidelity: str, x: Any) -> None:
        """Remember a reading; it must be safe before this returns."""


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
        path, _ = self._place(stream, time, fidelity)
        try:
            return (json.loads(path.read_text(encoding="utf-8"))["x"],)
        except FileNotFoundError:
            return None

    def put(self, stream: Any, time: int, fidelity: str, x: Any) -> None:
        """Write beside, sync, rename: the file is whole or not there."""
        path, name = self._place(stream, time, fidelity)
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        with beside.open("w", encoding="utf-8") as file:
            json.dump({"of": name, "x": _plain(x)}, file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)

    def _place(self, stream: Any, time: int, fidelity: str) -> tuple[Path, str]:
        name = json.dumps([str(stream), time, fidelity])
        mark = hashlib.sha256(name.encode()).hexdigest()
        return Path(self.folder) / mark[:2] / f"{mark}.json", name


def _plain(x: Any) -> Any:
    return x.tolist() if isinstance(x, (np.ndarray, np.generic)) else x
