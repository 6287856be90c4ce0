"""Names of the streams of a fleet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Streams = Sequence[str] | Sequence[int] | NDArray[np.int64]
"""Names or indices of some streams, all different."""


class Names:
    """The name of each stream and the stream of each name.

    While no name was given and no stream removed, the names are the indices as text, and take no memory.

    Parameters
    ----------
    n : int
        Number of streams.
    names : iterable of str, optional
        Their names, all different.
    """

    def __init__(self, n: int, names: Iterable[str] | None = None) -> None:
        self.n = n
        self._list: list[str] | None = None
        self._index: dict[str, int] = {}
        if names is not None:
            given = [names] if isinstance(names, str) else list(names)
            for name in given:
                _checked(name)
            if len(given) != n:
                raise ValueError(f"names must name all {n} streams, not {len(given)}")
            self._set(given)

    def _set(self, names: list[str]) -> dict[str, int]:
        index = {name: i for i, name in enumerate(names)}
        if len(index) < len(names):
            twice = next(name for i, name in enumerate(names) if index[name] != i)
            raise ValueError(f"names must be different, but {twice!r} appears twice")
        self._list, self._index = names, index
        return index

    def _known(self) -> tuple[list[str], dict[str, int]]:
        if self._list is None:
            self._set([str(i) for i in range(self.n)])
        assert self._list is not None
        return self._list, self._index

    def copy(self) -> Names:
        """Return an independent copy."""
        other = Names(self.n)
        if self._list is not None:
            other._set(list(self._list))
        return other

    @property
    def default(self) -> bool:
        """Whether no names were given, so that every name is the index as text."""
        return self._list is None

    def all(self) -> list[str]:
        """Return the names in the order of the streams."""
        return [str(i) for i in range(self.n)] if self._list is None else list(self._list)

    def of(self, row: int) -> str:
        """Return the name of one stream."""
        return str(row) if self._list is None else self._list[row]

    def find(self, name: str) -> int | None:
        """Return the stream of this name, None if there is none."""
        if self._list is not None:
            return self._index.get(name)
        row = int(name) if name.isdecimal() and len(name) < 17 else self.n
        return row if row < self.n and str(row) == name else None

    def free(self, first: int) -> str:
        """Return a name that no stream has: the first number from `first` on that is free."""
        while self.find(str(first)) is not None:
            first += 1
        return str(first)

    def check_new(self, name: Any) -> str:
        """Return the name of a new stream, or raise an error if it cannot be used."""
        if self.find(_checked(name)) is not None:
            raise ValueError(f"the fleet already has a stream {name!r}")
        return str(name)

    def append(self, name: str) -> None:
        """Name one more stream."""
        if self._list is not None or name != str(self.n):
            names, index = self._known()
            index[name] = len(names)
            names.append(name)
        self.n += 1

    def remove(self, row: int) -> None:
        """Forget a stream; the last one takes its place."""
        names, index = self._known()
        del index[names[row]]
        last = names.pop()
        if row < len(names):
            names[row] = last
            index[last] = row
        self.n -= 1

    def row(self, stream: Any) -> int:
        """Return the index of a stream given by name or index, or raise an error."""
        if isinstance(stream, str):
            row = self.find(stream)
            if row is None:
                raise KeyError(f"the fleet has no stream {stream!r}")
            return row
        if isinstance(stream, bool) or not isinstance(stream, (int, np.integer)):
            raise TypeError(f"a stream is given by name or index, not {stream!r}")
        if not 0 <= stream < self.n:
            raise IndexError(f"stream must lie in [0, {self.n}), not {stream}")
        return int(stream)

    def rows(self, streams: Sequence[Any] | NDArray[Any] | None) -> NDArray[np.int64]:
        """Return the indices of streams given by names or indices, all of them for None; an error if one is twice."""
        if streams is None:
            return np.arange(self.n)
        if isinstance(streams, (str, bytes)) or not hasattr(streams, "__len__"):
            raise TypeError(f"streams must be a list of names or indices, not {streams!r}")
        if isinstance(streams, np.ndarray) and streams.ndim == 1 and streams.dtype.kind in "iu":
            found = streams.astype(np.int64)
            outside = found.view(np.uint64) >= self.n  # one comparison: a negative number is a large one there
            if outside.any():
                raise IndexError(f"stream must lie in [0, {self.n}), not {found[outside][0]}")
        else:
            found = np.array([self.row(stream) for stream in streams], dtype=np.int64)
        if len(set(found.tolist())) < len(found):
            once, counts = np.unique(found, return_counts=True)
            twice = self.of(int(once[counts > 1][0]))
            raise ValueError(f"streams must be different, but {twice!r} appears twice")
        return found


def _checked(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise TypeError(f"the name of a stream must be a non-empty string, not {name!r}")
    return name
