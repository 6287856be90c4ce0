"""Observers that run a TFLite model (extra ``tflite``)."""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from ..inputs.arguments import whole
from .network import After, Before, Network, Port, Tensor


class TfliteObserver(Network):
    """A TFLite interpreter as `Fidelity.observe`: raw -> `before` -> interpreter -> `after` -> a number.

    A quantized model takes floats, which are quantized by the input's scale and zero point, or its own integers
    unchanged; its outputs are dequantized before `after`. An interpreter holds the tensors of one evaluation, so it
    must not be shared between threads.

    The reading of an autoencoder is its reconstruction error, which needs the input too::

        network = TfliteObserver("ad01_fp32.tflite")
        Fidelity("sound", zeta=1, cost=264_192, observe=lambda x: np.mean((network.answer(x) - x) ** 2))

    Parameters
    ----------
    model : str or PathLike[str] or bytes
        A path, or the model's bytes.
    before : Callable or None
        Converts raw to the input, an array or a dict of arrays by name; raw itself by default. A batch axis of 1 may
        be left out.
    after : Callable or None
        Converts the output (a dict of arrays by name if there are several) to a number. By default the output must
        hold exactly one number.
    threads : int
        Threads per evaluation. 1, the default, makes times comparable and leaves the other cores to other streams.

    Raises
    ------
    ValueError
        If the number of threads is not valid, or an input is quantized by channel.
    FileNotFoundError
        If there is no such file.
    ImportError
        If ai-edge-litert is not installed.

    Examples
    --------
    >>> TfliteObserver("no-such.tflite")
    Traceback (most recent call last):
    ...
    FileNotFoundError: TfliteObserver.model: there is no file 'no-such.tflite'
    """

    def __init__(
        self,
        model: str | PathLike[str] | bytes,
        before: Before | None = None,
        after: After | None = None,
        *,
        threads: int = 1,
    ) -> None:
        try:
            from ai_edge_litert.interpreter import Interpreter
        except ImportError as error:
            raise ImportError("TfliteObserver needs ai-edge-litert: pip install 'mfbocd[tflite]'") from error
        count = whole("TfliteObserver", "threads", threads, 1)
        if isinstance(model, bytes):
            self.interpreter = Interpreter(model_content=model, num_threads=count)
        elif isinstance(model, str | PathLike):
            path = Path(model)
            if not path.is_file():
                raise FileNotFoundError(f"TfliteObserver.model: there is no file {fspath(path)!r}")
            self.interpreter = Interpreter(model_path=fspath(path), num_threads=count)
        else:
            raise TypeError(f"TfliteObserver.model must be a path or bytes, not {model!r}")
        self.interpreter.allocate_tensors()
        entries, exits = self.interpreter.get_input_details(), self.interpreter.get_output_details()
        self._at = {detail["name"]: int(detail["index"]) for detail in (*entries, *exits)}
        self._shapes = {detail["name"]: tuple(map(int, detail["shape"])) for detail in entries}
        super().__init__([_port(d) for d in entries], [_port(d) for d in exits], before, after)

    def evaluate(self, feeds: dict[str, Tensor]) -> dict[str, Tensor]:
        """Run the interpreter; outputs are dequantized."""
        if any(array.shape != self._shapes[name] for name, array in feeds.items()):
            for name, array in feeds.items():
                self.interpreter.resize_tensor_input(self._at[name], array.shape, strict=True)
                self._shapes[name] = array.shape
            self.interpreter.allocate_tensors()
        for name, array in feeds.items():
            self.interpreter.set_tensor(self._at[name], array)
        self.interpreter.invoke()
        return {port.name: port.decode(self.interpreter.get_tensor(self._at[port.name])) for port in self.outputs}


def _port(detail: dict[str, Any]) -> Port:
    parameters = detail["quantization_parameters"]
    scales, zeros = parameters["scales"], parameters["zero_points"]
    if len(scales) > 1:
        raise ValueError(f"{detail['name']!r} is quantized by channel, which is not supported for inputs and outputs")
    shape = tuple(None if s < 0 else int(s) for s in detail["shape_signature"])
    scale, zero = (float(scales[0]), int(zeros[0])) if len(scales) else (0.0, 0)
    return Port(detail["name"], shape, np.dtype(detail["dtype"]), scale, zero)
