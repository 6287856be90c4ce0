"""What observers that run a network share: what goes in is checked, and what comes out becomes a number."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Tensor = NDArray[Any]
Before = Callable[[Any], ArrayLike | Mapping[str, ArrayLike]]
After = Callable[[Any], Any]


@dataclass(frozen=True)
class Port:
    """An input or output of a network. A size of None is free; `scale` 0 means the values are not quantised.

    A quantised port holds whole numbers q that stand for scale * (q - zero).

    >>> port = Port("x", (1, 2), np.dtype(np.uint8), scale=0.5, zero=128)
    >>> port.takes([1.0, -1.0])
    array([[130, 126]], dtype=uint8)
    >>> port.gives(np.array([[130, 126]], dtype=np.uint8))
    array([[ 1., -1.]], dtype=float32)
    >>> port.takes([1.0, -1.0, 2.0])
    Traceback (most recent call last):
    ...
    ValueError: input 'x' takes the shape (1, 2), not (3,)
    """

    name: str
    shape: tuple[int | None, ...]
    dtype: np.dtype[Any]
    scale: float = 0.0
    zero: int = 0

    def takes(self, value: ArrayLike) -> Tensor:
        """The value as the network takes it: quantised, or cast where nothing is lost but precision; or an error.

        One leading axis of size 1, the batch, may be left out. Values that are already of the port's type are taken
        as they are: a quantised network is fed its own whole numbers unless it is given floats.
        """
        array = np.asarray(value)
        if array.ndim == len(self.shape) - 1 and self.shape[0] in (None, 1):
            array = array[None]
        fits = array.ndim == len(self.shape) and all(
            want in (None, size) for want, size in zip(self.shape, array.shape, strict=True)
        )
        if not fits:
            written = ", ".join("?" if s is None else str(s) for s in self.shape)
            shape = f"({written},)" if len(self.shape) == 1 else f"({written})"
            raise ValueError(f"input {self.name!r} takes the shape {shape}, not {np.shape(value)}")
        if self.scale and array.dtype.kind == "f":
            bounds = np.iinfo(self.dtype)
            array = np.clip(np.rint(array / self.scale) + self.zero, bounds.min, bounds.max)
        elif not np.can_cast(array.dtype, self.dtype, casting="same_kind"):
            raise TypeError(f"input {self.name!r} takes {self.dtype}, not {array.dtype}: convert it in before=")
        return np.ascontiguousarray(array, dtype=self.dtype)

    def gives(self, array: Tensor) -> Tensor:
        """The network's answer in its own unit: dequantised if it is quantised."""
        if not self.scale:
            return array
        return np.asarray((array.astype(np.float32) - self.zero) * np.float32(self.scale))


class Network(ABC):
    """An observer made of a network: raw -> `before` -> network -> `after` -> a number.

    Subclasses say what goes in and comes out (`inputs`, `outputs`) and how to `evaluate` it.

    >>> class Double(Network):
    ...     def evaluate(self, feeds):
    ...         return {"y": 2 * feeds["x"]}
    >>> x, y = (Port(name, (1, 2), np.dtype(np.float32)) for name in "xy")
    >>> observe = Double([x], [y], before=None, after=np.max)
    >>> observe([1.0, 3.0])
    6.0
    """

    def __init__(
        self, inputs: Sequence[Port], outputs: Sequence[Port], before: Before | None, after: After | None
    ) -> None:
        for name, function in (("before", before), ("after", after)):
            if function is not None and not callable(function):
                raise TypeError(f"{type(self).__name__}.{name} must be callable, not {function!r}")
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.before = before
        self.after = after

    def __repr__(self) -> str:
        def written(ports: Sequence[Port]) -> str:
            return ", ".join(f"{p.name} {['?' if s is None else s for s in p.shape]} {p.dtype}" for p in ports)

        return f"<{type(self).__name__}: {written(self.inputs)} -> {written(self.outputs)}>"

    def __call__(self, raw: Any) -> float | None:
        """The reading of `raw`; None if `after` says so: a reading that is missing."""
        answer = self.answer(raw)
        reading = answer if self.after is None else self.after(answer)
        if reading is None:
            return None
        if not isinstance(reading, Mapping) and np.size(reading) == 1:
            return float(np.asarray(reading).reshape(()))
        what = ", ".join(reading) if isinstance(reading, Mapping) else f"of shape {np.shape(reading)}"
        if self.after is None:
            raise ValueError(f"the network's answer is {what}: pass after= to make it one number")
        raise ValueError(f"{type(self).__name__}.after must return one number, not {what}")

    def answer(self, raw: Any) -> Any:
        """What `after` is given: the network's output, or a dict of them by name if there are several.

        For a reading that needs the input too, such as an autoencoder's error, call this in a function of your own.
        """
        found = self.evaluate(self.prepare(raw if self.before is None else self.before(raw)))
        return found if len(self.outputs) > 1 else found[self.outputs[0].name]

    def prepare(self, given: ArrayLike | Mapping[str, ArrayLike]) -> dict[str, Tensor]:
        """What the network takes, by input name: from one array for its only input, or from a mapping."""
        names = [port.name for port in self.inputs]
        if not isinstance(given, Mapping):
            if len(names) != 1:
                raise TypeError(
                    f"the network has the inputs {', '.join(names)}: before= must return a dict of arrays"
                )
            given = {names[0]: given}
        for name in given:
            if name not in names:
                raise ValueError(f"input {name!r} is none of the network's: {', '.join(names)}")
        for name in names:
            if name not in given:
                raise ValueError(f"input {name!r} is missing: before= returned only {', '.join(given) or 'none'}")
        return {port.name: port.takes(given[port.name]) for port in self.inputs}

    @abstractmethod
    def evaluate(self, feeds: dict[str, Tensor]) -> dict[str, Tensor]:
        """The network's outputs by name, in their own units."""
