"""What `copy.copy` does with an object that has a state: the copy shares nothing that changes."""

from __future__ import annotations

from collections import deque
from typing import Any, Self

import numpy as np


def copied(value: Any) -> Any:
    """Return a copy of a container or of an `Independent`; anything else never changes, and is returned itself."""
    if isinstance(value, dict):
        return {name: copied(each) for name, each in value.items()}
    if isinstance(value, list):
        return [copied(each) for each in value]
    if isinstance(value, (Independent, deque, np.ndarray)):
        return value.__copy__()
    return value


class Independent:
    """Mix-in: `copy.copy` gives an object with a state of its own; it shares functions and what never changes."""

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __copy__(self) -> Self:
        other = object.__new__(type(self))
        other.__setstate__({name: copied(value) for name, value in self.__getstate__().items()})
        return other
