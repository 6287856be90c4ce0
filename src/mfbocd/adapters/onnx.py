"""Observers that run an ONNX model (extra ``onnx``)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..inputs.arguments import whole
from .network import After, Before, Network, Port, Tensor

if TYPE_CHECKING:
    from onnx import ModelProto

# ONNX Runtime's type names that differ from numpy's; only `after` can use what is not a tensor of numbers
_DTYPES = {"float": "float32", "double": "float64", "string": "object", "bfloat16": "object"}


class OnnxObserver(Network):
    """An ONNX Runtime session as `Fidelity.observe`: raw -> `before` -> session -> `after` -> a number.

    Parameters
    ----------
    model : str or PathLike[str] or bytes or onnx.ModelProto
        A path, the model's bytes, or the model.
    before : Callable or None
        Converts raw to the session's input, an array or a dict of arrays by name; raw itself by default. Floats are
        cast to the precision of the model, and a batch axis of 1 may be left out.
    after : Callable or None
        Converts the output (a dict of arrays by name if there are several) to a number. By default the output must
        hold exactly one number.
    outputs : Sequence[str] or None
        Names of the outputs to compute; all by default.
    providers : Sequence[str] or None
        ONNX Runtime's execution providers, in order; the CPU by default.
    threads : int
        Threads per evaluation. 1, the default, makes times comparable and leaves the other cores to other streams.

    Raises
    ------
    ValueError
        If a provider, an output or the number of threads is not valid.
    FileNotFoundError
        If there is no such file.
    ImportError
        If onnxruntime is not installed.

    Examples
    --------
    >>> from onnx import TensorProto, helper
    >>> x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])
    >>> y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1])
    >>> graph = helper.make_graph([helper.make_node("ReduceSum", ["x"], ["y"])], "sum", [x], [y])
    >>> model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    >>> observe = OnnxObserver(model, before=lambda frame: frame / 255.0)
    >>> observe
    <OnnxObserver: x [1, 3] float32 -> y [1, 1] float32>
    >>> observe(np.array([51, 102, 51]))
    0.800000011920929
    """

    def __init__(
        self,
        model: str | PathLike[str] | bytes | ModelProto,
        before: Before | None = None,
        after: After | None = None,
        *,
        outputs: Sequence[str] | None = None,
        providers: Sequence[str] | None = None,
        threads: int = 1,
    ) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise ImportError("OnnxObserver needs onnxruntime: pip install 'mfbocd[onnx]'") from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = whole("OnnxObserver", "threads", threads, 1)
        options.inter_op_num_threads = 1
        chosen = ["CPUExecutionProvider"] if providers is None else list(providers)
        available = onnxruntime.get_available_providers()
        for provider in chosen:
            # ONNX Runtime would only warn, and run at another speed than was measured.
            if provider not in available:
                raise ValueError(f"OnnxObserver.providers must be some of {', '.join(available)}, not {provider!r}")
        self.session = onnxruntime.InferenceSession(_source(model), options, providers=chosen)
        found = [_port(node) for node in self.session.get_outputs()]
        if outputs is not None:
            known = {port.name: port for port in found}
            for name in outputs:
                if name not in known:
                    raise ValueError(f"OnnxObserver.outputs must be some of {', '.join(known)}, not {name!r}")
            found = [known[name] for name in outputs]
        if not found:
            raise ValueError("OnnxObserver.outputs must name at least one output, not none")
        super().__init__([_port(node) for node in self.session.get_inputs()], found, before, after)

    def evaluate(self, feeds: dict[str, Tensor]) -> dict[str, Tensor]:
        """Run the session."""
        names = [port.name for port in self.outputs]
        return dict(zip(names, self.session.run(names, feeds), strict=True))


def _source(model: str | PathLike[str] | bytes | ModelProto) -> str | bytes:
    if isinstance(model, bytes):
        return model
    if isinstance(model, str | PathLike):
        path = Path(model)
        if not path.is_file():
            raise FileNotFoundError(f"OnnxObserver.model: there is no file {fspath(path)!r}")
        return fspath(path)
    if hasattr(model, "SerializeToString"):
        return bytes(model.SerializeToString())
    raise TypeError(f"OnnxObserver.model must be a path, bytes or an onnx ModelProto, not {model!r}")


def _port(node: Any) -> Port:
    inner = re.fullmatch(r"tensor\((\w+)\)", node.type)
    dtype = _DTYPES.get(inner[1], inner[1]) if inner else "object"
    return Port(node.name, tuple(s if isinstance(s, int) else None for s in node.shape), np.dtype(dtype))
