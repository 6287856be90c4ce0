"""The common part of observers that run a network: check the input, and convert the output to a number."""

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
    """An input or output of a network.

    A quantized port holds integers q that represent scale * (q - zero).

    Attributes
    ----------
    name : str
        Name of the tensor.
    shape : tuple[int or None, ...]
        Its shape; None for a dynamic size.
    dtype : np.dtype[Any]
        Its data type.
    scale : float
        Scale of quantized values; 0 if they are not quantized.
    zero : int
        Zero point of quantized values.
    """

    name: str
    shape: tuple[int | None, ...]
    dtype: np.dtype[Any]
    scale: float = 0.0
    zero: int = 0

    def encode(self, value: ArrayLike) -> Tensor:
        """Convert a value to what the network takes.

        Floats are quantized for a quantized port. Other values are cast if only precision is lost; integers of the
        port's own type are taken unchanged. One leading axis of size 1, the batch, may be left out.

        Parameters
        ----------
        value : ArrayLike
            The value.

        Returns
        -------
        numpy.ndarray
            The tensor.

        Raises
        ------
        ValueError
            If the shape does not fit.
        TypeError
            If the type cannot be cast.
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
            raise ValueError(f"input {self.name!r} must have shape {shape}, not {np.shape(value)}")
        if self.scale and array.dtype.kind == "f":
            bounds = np.iinfo(self.dtype)
            array = np.clip(np.rint(array / self.scale) + self.zero, bounds.min, bounds.max)
        elif not np.can_cast(array.dtype, self.dtype, casting="same_kind"):
            raise TypeError(f"input {self.name!r} must be {self.dtype}, not {array.dtype}: convert it in before=")
        return np.ascontiguousarray(array, dtype=self.dtype)

    def decode(self, array: Tensor) -> Tensor:
        """Convert a tensor of the network to its real values: dequantized if it is quantized.

        Parameters
        ----------
        array : numpy.ndarray
            The tensor.

        Returns
        -------
        numpy.ndarray
            The values.
        """
        if not self.scale:
            return array
        return np.asarray((array.astype(np.float32) - self.zero) * np.float32(self.scale))


class Network(ABC):
    """Base class of observers that run a network: raw -> `before` -> network -> `after` -> a number.

    Subclasses define `evaluate`.

    Parameters
    ----------
    inputs : Sequence[Port]
        Inputs of the network.
    outputs : Sequence[Port]
        Outputs of the network.
    before : Callable or None
        Converts raw to the input, an array or a dict of arrays by name; None takes raw itself.
    after : Callable or None
        Converts the output (a dict of arrays by name if there are several) to a number; None takes an output that
        holds exactly one number.

    Raises
    ------
    TypeError
        If `before` or `after` is not callable.

    Examples
    --------
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
        """Return the reading of a raw input.

        Parameters
        ----------
        raw : Any
            The raw input.

        Returns
        -------
        float or None
            The reading; None, a missing reading, if `after` returns None.

        Raises
        ------
        ValueError
            If the result is not one number, or the input does not fit.
        """
        answer = self.answer(raw)
        reading = answer if self.after is None else self.after(answer)
        if reading is None:
            return None
        if not isinstance(reading, Mapping) and np.size(reading) == 1:
            return float(np.asarray(reading).reshape(()))
        what = ", ".join(reading) if isinstance(reading, Mapping) else f"of shape {np.shape(reading)}"
        if self.after is None:
            raise ValueError(f"the network's output must be one number, not {what}: convert it in after=")
        raise ValueError(f"{type(self).__name__}.after must return one number, not {what}")

    def answer(self, raw: Any) -> Any:
        """Return what `after` is given: the network's output, or a dict of outputs by name if there are several.

        Call it in a function of your own if the reading needs the input too, such as the error of an autoencoder.

        Parameters
        ----------
        raw : Any
            The raw input.

        Returns
        -------
        Any
            An array, or a dict of arrays by name.
        """
        found = self.evaluate(self.prepare(raw if self.before is None else self.before(raw)))
        return found if len(self.outputs) > 1 else found[self.outputs[0].name]

    def prepare(self, given: ArrayLike | Mapping[str, ArrayLike]) -> dict[str, Tensor]:
        """Convert the input of the network to tensors.

        Parameters
        ----------
        given : ArrayLike or Mapping[str, ArrayLike]
            One array for the only input, or arrays by name.

        Returns
        -------
        dict[str, numpy.ndarray]
            The tensors by input name.

        Raises
        ------
        ValueError
            If an input is unknown or missing, or a shape does not fit.
        TypeError
            If there are several inputs and `given` is one array, or a type cannot be cast.
        """
        names = [port.name for port in self.inputs]
        if not isinstance(given, Mapping):
            if len(names) != 1:
                raise TypeError(
                    f"before= must return a dict of arrays for the inputs {', '.join(names)}, not one array"
                )
            given = {names[0]: given}
        for name in given:
            if name not in names:
                raise ValueError(f"inputs must be {', '.join(names)}, not {name!r}")
        for name in names:
            if name not in given:
                raise ValueError(f"input {name!r} is missing: before= returned {', '.join(given) or 'none'}")
        return {port.name: port.encode(given[port.name]) for port in self.inputs}

    @abstractmethod
    def evaluate(self, feeds: dict[str, Tensor]) -> dict[str, Tensor]:
        """Run the network.

        Parameters
        ----------
        feeds : dict[str, numpy.ndarray]
            Tensors by input name.

        Returns
        -------
        dict[str, numpy.ndarray]
            The outputs by name, in their own units.
        """
