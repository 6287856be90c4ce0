"""What an observation costs, and what deciding which one to make costs beside it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from ..detector.detector import Detector
from ..inputs.arguments import positive, whole
from .zeta import confidence_of

if TYPE_CHECKING:
    import onnx

DecisionKind = Literal["bernoulli", "bernoulli-whole"]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class CostEstimate:
    """A cost, its unit, and the interval [low, high] that holds it.

    >>> CostEstimate(36.86e9, "flop", 36.86e9, 36.86e9)
    CostEstimate(value=36860000000.0, unit='flop', low=36860000000.0, high=36860000000.0)
    """

    value: float
    unit: str
    low: float
    high: float


def declared_cost(value: float, unit: str = "flop") -> CostEstimate:
    """A cost from a data sheet: known, so its interval is a point.

    >>> declared_cost(19.48e9).unit
    'flop'
    """
    known = positive("declared_cost", "value", value)
    return CostEstimate(known, unit, known, known)


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
    """Seconds an observation takes, on average over `raws`: the median of `repeats` passes through them.

    The mean over the raws is what a stream like them pays, also where some take longer; the median over passes is
    deaf to what else the machine did meanwhile. Its interval, from the k-th fastest pass to the k-th slowest, holds
    the median with probability 1 - 2 P(Binomial(repeats, 1/2) < k), whatever the distribution of times.
    `warmup` passes go unmeasured: the first calls of a network allocate and compile.

    >>> now = iter(range(100))                      # a clock that ticks once a look: every pass takes one second
    >>> measured_time(abs, [-1, -2], clock=lambda: float(next(now)))
    CostEstimate(value=0.5, unit='s', low=0.5, high=0.5)
    """
    many = list(raws)
    if not many:
        raise ValueError("raws must hold at least one input to observe, not none")
    rank = _rank(whole("", "repeats", repeats, 1), confidence_of(level))
    for _ in range(whole("", "warmup", warmup, 0)):
        for raw in many:
            observe(raw)
    passes = []
    for _ in range(repeats):
        start = clock()
        for raw in many:
            observe(raw)
        passes.append((clock() - start) / len(many))
    passes.sort()
    middle = 0.5 * (passes[(repeats - 1) // 2] + passes[repeats // 2])
    return CostEstimate(middle, "s", passes[rank - 1], passes[-rank])


def decision_time(detector: Detector, *, calls: int = 20, repeats: int = 9, level: float = 0.95) -> CostEstimate:
    """Seconds one choice takes the detector in its present state. Nothing is read, and the state stays as it is.

    >>> from mfbocd import Bernoulli, Fidelity
    >>> detector = Detector(Bernoulli(), [Fidelity("small", zeta=0.5, cost=1), Fidelity("large", zeta=1, cost=2)])
    >>> 0 < decision_time(detector).value < 1
    True
    """

    def choose(_: object) -> int:
        return detector.policy.choose(detector._filter, detector.seed)

    return measured_time(choose, range(whole("", "calls", calls, 1)), repeats=repeats, level=level)


def _rank(repeats: int, level: float) -> int:
    """The largest k whose interval from the k-th smallest to the k-th largest pass holds the median with `level`."""
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


# --- deciding --------------------------------------------------------------------------------------------------


def decision_operations(hypotheses: int, fidelities: int = 1, kind: DecisionKind = "bernoulli") -> int:
    """Operations of one decision of the beta-Bernoulli model by equation `mi_xr`: the paper's 32 t + 1 a fidelity.

    The paper prints no derivation. One count gives its number to the unit, every operation 1, log Gamma and exp too.
    For one run length and one outcome x the predictive is exp(log B(a', b') - log B(a, b)):

        a' = a + zeta x, b' = b + zeta (1 - x)                          2   (zeta x is shared by all run lengths)
        log B(a', b'): 3 log Gamma, the sum a' + b', a plus, a minus    6
        log B(a, b): the same                                           6
        their difference, and exp                                       2
                                                                       16

    times 2 outcomes times t run lengths, and 1 for the difference of the two entropies: 32 t + 1. It leaves the
    entropies themselves out. ``kind="bernoulli-whole"`` counts them, 43 t + 3: the weighted sum over run lengths for
    each outcome, 4 t - 2; its sum of p log p, 5; p log p of every predictive, 4 t; their sum over outcomes, t, and
    weighted over run lengths, 2 t - 1.

    The paper's 465,291 flops for 171 frames of CamVid are 32 t + 1 summed over t = 0 .. 170 for ONE fidelity. Its two
    cost twice that; and the first tick has one run length to sum over, not none (t = 1 .. 171: 470,763 a fidelity):

    >>> sum(decision_operations(t) for t in range(171))
    465291
    >>> sum(decision_operations(t, fidelities=2) for t in range(1, 172))
    941526
    >>> sum(decision_operations(t, fidelities=2, kind="bernoulli-whole") for t in range(1, 172))
    1265742

    None of it matters beside 19.48e9 a frame.
    """
    if kind not in ("bernoulli", "bernoulli-whole"):
        raise ValueError(f"kind must be 'bernoulli' or 'bernoulli-whole', not {kind!r}")
    t = whole("", "hypotheses", hypotheses, 0)
    each = 32 * t + 1 if kind == "bernoulli" else 43 * t + 3
    return each * whole("", "fidelities", fidelities, 1)


# --- a network's operations ------------------------------------------------------------------------------------

# Operators whose multiplications are not counted below and are too many to leave out without a word.
_UNKNOWN = {"Attention", "DeformConv", "Einsum", "If", "Loop", "Scan", "SequenceMap"}


def onnx_operations(
    model: str | PathLike[str] | bytes | onnx.ModelProto, shapes: Mapping[str, Sequence[int]] | None = None
) -> int:
    """Multiply-adds of one evaluation of an ONNX model; a flop count is about twice that.

    Counted: convolutions (grouped, depthwise, transposed, quantised), matrix products and recurrent layers. The rest
    (activations, biases, pooling, normalisation) is left out, as is usual. An operator that would hide many
    multiplications raises. Shapes come from ONNX's own inference; inputs of dynamic shape need `shapes`, by name.

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
    _fix(proto.graph, shapes or {})
    graph = shape_inference.infer_shapes(proto, strict_mode=True, data_prop=True).graph
    known: dict[str, Shape | None] = {t.name: tuple(t.dims) for t in graph.initializer}
    for info in (*graph.input, *graph.value_info, *graph.output):
        known.setdefault(info.name, _static(info))
    total = 0
    for node in graph.node:
        if node.domain not in ("", "ai.onnx") or node.op_type in _UNKNOWN:
            where = f"{node.domain}." if node.domain else ""
            raise ValueError(f"the operations of {where}{node.op_type} (node {node.name!r}) cannot be counted")
        total += _multiply_adds(node, known)
    return total


def _fix(graph: Any, shapes: Mapping[str, Sequence[int]]) -> None:
    """Give the inputs the shapes they will have; raise where one has none."""
    constant = {t.name for t in graph.initializer}
    inputs = {info.name: info for info in graph.input if info.name not in constant}
    for name, shape in shapes.items():
        if name not in inputs:
            raise ValueError(f"shapes names {name!r}, which is none of the inputs {', '.join(inputs)}")
        dims = inputs[name].type.tensor_type.shape.dim
        fits = len(dims) == len(shape) and all(
            d.dim_value == s for d, s in zip(dims, shape, strict=True) if d.HasField("dim_value")
        )
        if not fits:
            raise ValueError(f"shapes[{name!r}] = {tuple(shape)} does not fit the input's {_written(inputs[name])}")
        for dim, size in zip(dims, shape, strict=True):
            dim.dim_value = size
    for name, info in inputs.items():
        if _static(info) is None:
            raise ValueError(
                f"input {name!r} has the dynamic shape {_written(info)}: pass shapes={{{name!r}: (...)}}, all whole"
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
        # weights (out, in / group, kernel...): every output element sums over all but the first axis
        weights = of(given[3] if kind == "QLinearConv" else given[1])
        return math.prod(of(node.output[0])) * math.prod(weights[1:])
    if kind == "ConvTranspose":
        # weights (in, out / group, kernel...): every input element is spread over all but the first axis
        return math.prod(of(given[0])) * math.prod(of(given[1])[1:])
    if kind in ("MatMul", "MatMulInteger", "QLinearMatMul"):
        return math.prod(of(node.output[0])) * of(given[0])[-1]
    if kind == "Gemm":
        turned = any(a.name == "transA" and a.i for a in node.attribute)
        return math.prod(of(node.output[0])) * of(given[0])[0 if turned else 1]
    if kind in ("LSTM", "GRU", "RNN"):
        # input and recurrent weights, (directions, gates * hidden, ...), meet every step of every sequence
        a, b = of(given[0])[:2]
        return a * b * (math.prod(of(given[1])) + math.prod(of(given[2])))
    return 0
