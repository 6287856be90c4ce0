"""Readings stored outside Spark, so that a repeated micro-batch does not pay for them again."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, Protocol

import numpy as np


class CacheError(RuntimeError):
    """A cache cannot be read or written; the query stops, because readings would otherwise be paid for again."""


class Cache(Protocol):
    """Interface of a store of readings by stream, time and fidelity.

    It is sent to the workers, so it must be picklable. Any exception of either method stops the query, as a
    `CacheError`.
    """

    def get(self, stream: Any, time: int, fidelity: str) -> tuple[Any] | None:
        """Return a stored reading.

        Parameters
        ----------
        stream : Any
            Key of the stream.
        time : int
            Time of the row.
        fidelity : str
            Name of the fidelity.

        Returns
        -------
        tuple[Any] or None
            The reading in a tuple of length 1; None if it is not stored.
        """

    def put(self, stream: Any, time: int, fidelity: str, x: Any) -> None:
        """Store a reading durably before returning.

        Parameters
        ----------
        stream : Any
            Key of the stream.
        time : int
            Time of the row.
        fidelity : str
            Name of the fidelity.
        x : Any
            The reading: a float, an array, or None if it is missing.
        """


class FolderCache:
    """A `Cache` in a folder that all workers can access, with one small file per reading.

    It is meant for readings that cost more than writing a file: a network, a paid service, a person. Files may be
    deleted once their micro-batch is committed.

    Parameters
    ----------
    folder : str or Path
        The folder; it is created if it does not exist.

    Examples
    --------
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
        """Return a stored reading.

        Parameters
        ----------
        stream : Any
            Key of the stream.
        time : int
            Time of the row.
        fidelity : str
            Name of the fidelity.

        Returns
        -------
        tuple[Any] or None
            The reading in a tuple of length 1; None if there is no file.

        Raises
        ------
        ValueError
            If the file does not contain this reading.
        """
        path, name = self._path(stream, time, fidelity)
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            # `put` needs the folder: if it cannot be created, fail before the reading is paid for
            path.parent.mkdir(parents=True, exist_ok=True)
            return None
        try:
            stored = json.loads(text)
            if stored["of"] != name:
                raise ValueError(f"it belongs to {stored['of']}")
            return (stored["x"],)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path} does not contain the reading of {name}; delete it to read again: {error}"
            ) from None

    def put(self, stream: Any, time: int, fidelity: str, x: Any) -> None:
        """Store a reading atomically: written to a temporary file, synced and renamed.

        Parameters
        ----------
        stream : Any
            Key of the stream.
        time : int
            Time of the row.
        fidelity : str
            Name of the fidelity.
        x : Any
            The reading: a float, an array, or None if it is missing.
        """
        path, name = self._path(stream, time, fidelity)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with temporary.open("w", encoding="utf-8") as file:
                json.dump({"of": name, "x": _plain(x)}, file)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def _path(self, stream: Any, time: int, fidelity: str) -> tuple[Path, str]:
        name = json.dumps([str(stream), time, fidelity])
        mark = hashlib.sha256(name.encode()).hexdigest()
        return Path(self.folder) / mark[:2] / f"{mark}.json", name


def _plain(x: Any) -> Any:
    return x.tolist() if isinstance(x, (np.ndarray, np.generic)) else x
