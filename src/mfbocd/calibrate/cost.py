"""The cost of an observation, and of deciding which one to make."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from ..detector.detector import Detector
from ..inputs.arguments import positive, probability, whole

if TYPE_CHECKING:
    import onnx

DecisionKind = Literal["bernoulli", "bernoulli-whole"]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class CostEstimate:
    """A cost with its unit and confidence interval.

    Attributes
    ----------
    value : float
        The estimate.
    unit : str
        Its unit, such as "flop" or "s".
    low : float
        Lower end of the interval.
    high : float
        Upper end of the interval.

    Examples
    --------
    >>> CostEstimate(36.86e9, "flop", 36.86e9, 36.86e9)
    CostEstimate(value=36860000000.0, unit='flop', low=36860000000.0, high=36860000000.0)
    """

    value: float
    unit: str
    low: float
    high: float


def declared_cost(value: float, unit: str = "flop") -> CostEstimate:
    """Return a cost from a data sheet; it is exact, so that its interval is a point.

    Parameters
    ----------
    value : float
        The cost, positive.
    unit : str
        Its unit; "flop" by default.

    Returns
    -------
    CostEstimate
        The cost.

    Raises
    ------
    ValueError
        If `value` is not positive.

    Examples
    --------
    >>> declared_cost(19.48e9).unit
    'flop'
    """
    exact = positive("declared_cost", "value", value)
    return CostEstimate(exact, unit, exact, exact)


# --- time ------------------------------------------------------------------------------------------------------


def measured_time(
    observe: Callable[[Any], object],
    raws: Iterable[Any],
    *,
    repeats: int = 9,
    warmup: int = 1,
    level: float = 0.95,
    clock: Callable[[], float] = time.perf_counter,
) -> CostEstimate:
    """Measure the time of an observation in seconds, averaged over inputs.

    The inputs are observed in `repeats` passes; the estimate is the median over passes of the mean time per input.
    The mean over inputs is what a similar stream pays, even if some inputs take longer. The median over passes is
    robust to other load on the machine. Its interval, from the k-th fastest to the k-th slowest pass, contains the
    median with probability 1 - 2 P(Binomial(repeats, 1/2) < k), whatever the distribution of times.

    Parameters
    ----------
    observe : Callable[[Any], object]
        The observer.
    raws : Iterable[Any]
        Raw inputs to observe, at least one.
    repeats : int
        Measured passes; 9 by default.
    warmup : int
        Passes before the measurement, in which a network allocates and compiles; 1 by default.
    level : float
        Confidence of the interval, in (0, 1); 0.95 by default.
    clock : Callable[[], float]
        Returns the time in seconds; `time.perf_counter` by default.

    Returns
    -------
    CostEstimate
        The time in seconds ("s").

    Raises
    ------
    ValueError
        If there are no inputs, too few repeats for an interval of that level, or a number is out of range.
    TypeError
        If a number has the wrong type.

    Examples
    --------
    >>> now = iter(range(100))  # a clock that advances by one second per call: every pass takes one second
    >>> measured_time(abs, [-1, -2], clock=lambda: float(next(now)))
    CostEstimate(value=0.5, unit='s', low=0.5, high=0.5)
    """
    inputs = list(raws)
    if not inputs:
        raise ValueError("raws must contain at least one input, not none")
    rank = _rank(whole("", "repeats", repeats, 1), probability("", "level", level))
    for _ in range(whole("", "warmup", warmup, 0)):
        for raw in inputs:
            observe(raw)
    passes = []
    for _ in range(repeats):
        start = clock()
        for raw in inputs:
            observe(raw)
        passes.append((clock() - start) / len(inputs))
    passes.sort()
    middle = 0.5 * (passes[(repeats - 1) // 2] + passes[repeats // 2])
    return CostEstimate(middle, "s", passes[rank - 1], passes[-rank])


def decision_time(detector: Detector, *, calls: int = 20, repeats: int = 9, level: float = 0.95) -> CostEstimate:
    """Measure the time of one choice by a detector in its current state, in seconds.

    Nothing is read, and the state does not change.

    Parameters
    ----------
    detector : Detector
        The detector.
    calls : int
        Choices per pass; 20 by default.
    repeats : int
        Measured passes; 9 by default.
    level : float
        Confidence of the interval, in (0, 1); 0.95 by default.

    Returns
    -------
    CostEstimate
        The time per choice in seconds ("s").

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument is not a number.

    Examples
    --------
    >>> from mfbocd import Bernoulli, Fidelity
    >>> detector = Detector(Bernoulli(), [Fidelity("small", zeta=0.5, cost=1), Fidelity("large", zeta=1, cost=2)])
    >>> 0 < decision_time(detector).value < 1
    True
    """

    def choose(_: object) -> int:
        return detector.policy.choose(detector._filter, detector.seed)

    return measured_time(choose, range(whole("", "calls", calls, 1)), repeats=repeats, level=level)


def _rank(repeats: int, level: float) -> int:
    """Return the largest k for which the k-th smallest to the k-th largest pass has confidence `level`."""
    tail, rank = 0.0, 0
    while rank <= repeats // 2:
        tail += math.comb(repeats, rank) / 2.0**repeats
        if 1.0 - 2.0 * tail < level:
            break
        rank += 1
    if rank == 0:
        least = math.ceil(1.0 - math.log2(1.0 - level))
        raise ValueError(f"repeats must be at least {least} for an interval of level {level:g}, not {repeats}")
    return rank


# --- decision --------------------------------------------------------------------------------------------------


def decision_operations(hypotheses: int, fidelities: int = 1, kind: DecisionKind = "bernoulli") -> int:
    """Count the operations of one decision with the beta-Bernoulli model: the paper's 32 t + 1 per fidelity.

    The count is that of equation `mi_xr`. The paper prints no derivation; this count reproduces its number exactly,
    with every operation counted as 1, log Gamma and exp included. For one run length and one outcome x the predictive
    is exp(log B(a', b') - log B(a, b))::

        a' = a + zeta x, b' = b + zeta (1 - x)                          2   (zeta x is shared by all run lengths)
        log B(a', b'): 3 log Gamma, the sum a' + b', a plus, a minus    6
        log B(a, b): the same                                           6
        their difference, and exp                                       2
                                                                       16

    This is multiplied by 2 outcomes and t run lengths, plus 1 for the difference of the two entropies: 32 t + 1. It
    leaves out the entropies themselves. ``kind="bernoulli-whole"`` includes them, 43 t + 3: the weighted sum over run
    lengths for each outcome, 4 t - 2; its sum of p log p, 5; p log p of every predictive, 4 t; their sum over
    outcomes, t, and the weighted sum over run lengths, 2 t - 1.

    The paper's 465,291 flops for 171 frames of CamVid are 32 t + 1 summed over t = 0 .. 170 for ONE fidelity. Its two
    fidelities cost twice that, and the first tick has one run length to sum over, not none (t = 1 .. 171: 470,763 per
    fidelity). All of this is negligible compared with 19.48e9 per frame.

    Parameters
    ----------
    hypotheses : int
        Number of run lengths t, at least 0.
    fidelities : int
        Number of fidelities, at least 1; 1 by default.
    kind : {"bernoulli", "bernoulli-whole"}
        The paper's count (default), or the complete one.

    Returns
    -------
    int
        The number of operations.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument is not a number.

    Examples
    --------
    >>> sum(decision_operations(t) for t in range(171))
    465291
    >>> sum(decision_operations(t, fidelities=2) for t in range(1, 172))
    941526
    >>> sum(decision_operations(t, fidelities=2, kind="bernoulli-whole") for t in range(1, 172))
    1265742
    """
    if kind not in ("bernoulli", "bernoulli-whole"):
        raise ValueError(f"kind must be 'bernoulli' or 'bernoulli-whole', not {kind!r}")
    t = whole("", "hypotheses", hypotheses, 0)
    each = 32 * t + 1 if kind == "bernoulli" else 43 * t + 3
    return each * whole("", "fidelities", fidelities, 1)


# --- a network's operations ------------------------------------------------------------------------------------

# Operators with many multiplications that are not counted below; a model that has one is rejected.
_UNCOUNTED = {"Attention", "DeformConv", "Einsum", "If", "Loop", "Scan", "SequenceMap"}


def onnx_operations(
    model: str | PathLike[str] | bytes | onnx.ModelProto, shapes: Mapping[str, Sequence[int]] | None = None
) -> int:
    """Count the multiply-adds of one evaluation of an ONNX model (extra ``onnx``); flops are about twice that.

    Convolutions (grouped, depthwise, transposed, quantized), matrix products and recurrent layers are counted.
    Activations, biases, pooling and normalization are left out, as is usual. Shapes come from ONNX's own inference.

    Parameters
    ----------
    model : str or PathLike[str] or bytes or onnx.ModelProto
        A path, the model's bytes, or the model.
    shapes : Mapping[str, Sequence[int]] or None
        Shapes of inputs with a dynamic shape, by name; None by default.

    Returns
    -------
    int
        The number of multiply-adds.

    Raises
    ------
    ValueError
        If a shape is missing or does not fit, or the model has an operator that cannot be counted.
    ImportError
        If onnx is not installed.

    Examples
    --------
    >>> from onnx import TensorProto, helper
    >>> x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])
    >>> y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])
    >>> w = helper.make_tensor("w", TensorProto.FLOAT, [4, 3], [0.0] * 12)
    >>> graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [w])
    >>> onnx_operations(helper.make_model(graph))
    12
    """
    try:
        import onnx
        from onnx import inliner, shape_inference
    except ImportError as error:
        raise ImportError("onnx_operations needs onnx: pip install 'mfbocd[onnx]'") from error
    if isinstance(model, bytes):
        proto = onnx.load_model_from_string(model)
    elif isinstance(model, onnx.ModelProto):
        proto = onnx.ModelProto()
        proto.CopyFrom(model)
    else:
        proto = onnx.load(model)
    if proto.functions:
        proto = inliner.inline_local_functions(proto)
    _set_shapes(proto.graph, shapes or {})
    graph = shape_inference.infer_shapes(proto, strict_mode=True, data_prop=True).graph
    known: dict[str, Shape | None] = {t.name: tuple(t.dims) for t in graph.initializer}
    for info in (*graph.input, *graph.value_info, *graph.output):
        known.setdefault(info.name, _static(info))
    total = 0
    for node in graph.node:
        if node.domain not in ("", "ai.onnx") or node.op_type in _UNCOUNTED:
            where = f"{node.domain}." if node.domain else ""
            raise ValueError(f"cannot count the operations of {where}{node.op_type} (node {node.name!r})")
        total += _multiply_adds(node, known)
    return total


def _set_shapes(graph: Any, shapes: Mapping[str, Sequence[int]]) -> None:
    """Set the shapes of the inputs; raise an error if one remains dynamic."""
    constant = {t.name for t in graph.initializer}
    inputs = {info.name: info for info in graph.input if info.name not in constant}
    for name, shape in shapes.items():
        if name not in inputs:
            raise ValueError(f"shapes must name inputs of the model ({', '.join(inputs)}), not {name!r}")
        dims = inputs[name].type.tensor_type.shape.dim
        fits = len(dims) == len(shape) and all(
            d.dim_value == s for d, s in zip(dims, shape, strict=True) if d.HasField("dim_value")
        )
        if not fits:
            raise ValueError(
                f"shapes[{name!r}] must fit the input's shape {_written(inputs[name])}, not be {tuple(shape)}"
            )
        for dim, size in zip(dims, shape, strict=True):
            dim.dim_value = size
    for name, info in inputs.items():
        if _static(info) is None:
            raise ValueError(
                f"input {name!r} has the dynamic shape {_written(info)}: pass shapes={{{name!r}: (...)}}"
            )


def _static(info: Any) -> Shape | None:
    tensor = info.type.tensor_type
    if not tensor.HasField("shape") or not all(d.HasField("dim_value") and d.dim_value > 0 for d in tensor.shape.dim):
        return None
    return tuple(d.dim_value for d in tensor.shape.dim)


def _written(info: Any) -> str:
    if not info.type.tensor_type.HasField("shape"):
        return "(unknown)"
    dims = info.type.tensor_type.shape.dim
    return f"({', '.join(str(d.dim_value) if d.HasField('dim_value') else d.dim_param or '?' for d in dims)})"


def _multiply_adds(node: Any, known: Mapping[str, Shape | None]) -> int:
    def of(name: str) -> Shape:
        shape = known.get(name)
        if shape is None:
            raise ValueError(
                f"{node.op_type} (node {node.name!r}) needs the shape of {name!r}, which ONNX cannot infer"
            )
        return shape

    kind, given = node.op_type, node.input
    if kind in ("Conv", "ConvInteger", "QLinearConv"):
        # weights (out, in / group, kernel...): every output element is a sum over all but the first axis
        weights = of(given[3] if kind == "QLinearConv" else given[1])
        return math.prod(of(node.output[0])) * math.prod(weights[1:])
    if kind == "ConvTranspose":
        # weights (in, out / group, kernel...): every input element is spread over all but the first axis
        return math.prod(of(given[0])) * math.prod(of(given[1])[1:])
    if kind in ("MatMul", "MatMulInteger", "QLinearMatMul"):
        return math.prod(of(node.output[0])) * of(given[0])[-1]
    if kind == "Gemm":
        transposed = any(a.name == "transA" and a.i for a in node.attribute)
        return math.prod(of(node.output[0])) * of(given[0])[0 if transposed else 1]
    if kind in ("LSTM", "GRU", "RNN"):
        # input and recurrent weights, (directions, gates * hidden, ...), are used at every step of every sequence
        a, b = of(given[0])[:2]
        return a * b * (math.prod(of(given[1])) + math.prod(of(given[2])))
    return 0
