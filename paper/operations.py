"""The cost of a decision: floating point operations of one gain, counted while it is computed, and its time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from time import perf_counter_ns
from typing import Any, NamedTuple

import numpy as np

from mfbocd.belief.gains import expected_gains
from mfbocd.datasets import simulate
from mfbocd.detector.detector import Detector
from mfbocd.models import Bernoulli, Gaussian, Model

UNARY = {"lgamma": math.lgamma, "exp": math.exp, "log": math.log}


class Counted:
    """A number that reports every addition, subtraction, multiplication and division to a tally.

    >>> tally = Tally()
    >>> with tally.part("sum"):
    ...     total = tally.number(2.0) * 3.0 + 1.0
    >>> total.value, tally.count
    (7.0, Counter({('sum', 'mul'): 1, ('sum', 'add'): 1}))
    """

    __slots__ = ("tally", "value")

    def __init__(self, value: float, tally: Tally) -> None:
        self.value = value
        self.tally = tally

    def __add__(self, other: Counted | float) -> Counted:
        return self._of("add", self.value + _plain(other))

    def __sub__(self, other: Counted | float) -> Counted:
        return self._of("sub", self.value - _plain(other))

    def __mul__(self, other: Counted | float) -> Counted:
        return self._of("mul", self.value * _plain(other))

    def __truediv__(self, other: Counted | float) -> Counted:
        return self._of("div", self.value / _plain(other))

    def _of(self, kind: str, value: float) -> Counted:
        self.tally.note(kind)
        return Counted(value, self.tally)


def _plain(number: Counted | float) -> float:
    return number.value if isinstance(number, Counted) else number


class Tally:
    """Operations by part of the computation and by kind. A log, exp or lgamma counts as one."""

    def __init__(self) -> None:
        self.count: Counter[tuple[str, str]] = Counter()
        self._part = ""

    def number(self, value: float) -> Counted:
        """A number whose operations are counted."""
        return Counted(value, self)

    def part(self, name: str) -> Tally:
        """Count the ``with`` block under this name."""
        self._part = name
        return self

    def __enter__(self) -> Tally:
        return self

    def __exit__(self, *error: object) -> None:
        self._part = ""

    def note(self, kind: str) -> None:
        """One operation."""
        self.count[self._part, kind] += 1

    def call(self, name: str, x: Counted) -> Counted:
        """One of the functions, as one operation."""
        self.note(name)
        function: Callable[[float], float] = UNARY[name]
        return Counted(function(x.value), self)

    def of(self, part: str) -> int:
        """Operations of one part."""
        return sum(n for (where, _), n in self.count.items() if where == part)


PARTS = ("predictive", "mixture", "entropy", "rest")


def gain(tally: Tally, weight: Sequence[float], a: Sequence[float], b: Sequence[float], zeta: float) -> float:
    """`mi_xr` of the paper's beta-Bernoulli, H[x] - E_r H[x | r], one hypothesis after the other.

    The predictive of outcome x is exp(log B(a + zeta x, b + zeta (1 - x)) - log B(a, b)) with log B(u, v) =
    lgamma(u) + lgamma(v) - lgamma(u + v). zeta x and zeta (1 - x) are the same for all hypotheses: not counted.

    >>> tally = Tally()
    >>> value = gain(tally, [0.99, 0.01], [5.0, 1.0], [2.0, 1.0], 0.5)
    >>> [tally.of(part) for part in PARTS]
    [64, 6, 13, 6]
    """
    w = [tally.number(v) for v in weight]
    alphas, betas = [tally.number(v) for v in a], [tally.number(v) for v in b]
    with tally.part("predictive"):
        p = [
            [_predictive(tally, u, v, zeta * x, zeta * (1.0 - x)) for u, v in zip(alphas, betas, strict=True)]
            for x in (0.0, 1.0)
        ]
    with tally.part("mixture"):
        mixed = [_sum([each * v for each, v in zip(of, w, strict=True)]) for of in p]
    with tally.part("entropy"):
        inner = [one * tally.call("log", one) + two * tally.call("log", two) for one, two in zip(*p, strict=True)]
        within = _sum([each * v for each, v in zip(inner, w, strict=True)])
    with tally.part("rest"):
        outer = [each * tally.call("log", each) for each in mixed]
        return (within - (outer[0] + outer[1])).value


def _predictive(tally: Tally, a: Counted, b: Counted, more_a: float, more_b: float) -> Counted:
    return tally.call("exp", _log_beta(tally, a + more_a, b + more_b) - _log_beta(tally, a, b))


def _log_beta(tally: Tally, u: Counted, v: Counted) -> Counted:
    return tally.call("lgamma", u) + tally.call("lgamma", v) - tally.call("lgamma", u + v)


def _sum(terms: Sequence[Counted]) -> Counted:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def count(hypotheses: int, zeta: float = 0.5) -> Tally:
    """The operations of one gain with this number of hypotheses; they do not depend on the values.

    >>> tally = count(10)
    >>> tally.of("predictive"), tally.count["predictive", "lgamma"]
    (320, 120)
    """
    tally = Tally()
    even = [1.0 / hypotheses] * hypotheses
    gain(tally, even, [1.0 + i for i in range(hypotheses)], [2.0] * hypotheses, zeta)
    return tally


# --- time --------------------------------------------------------------------------------------------------------


HYPOTHESES = (1, 4, 16, 64, 256, 1024, 4096)
LAYERS = (640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640)
"""Widths of the MLPerf Tiny anomaly autoencoder, whose scores the library ships."""
ZETA = 0.5
HAZARD = 1 / 250
BATCH = 20  # calls per repeat, so that the time of the clock is negligible


class Timed(NamedTuple):
    """A median time."""

    what: str
    hypotheses: int | None
    ns: float


def multiply_adds() -> int:
    """Of one evaluation of the autoencoder.

    >>> multiply_adds()
    264192
    """
    return sum(a * b for a, b in pairwise(LAYERS))


def times(repeats: int, seed: int) -> list[Timed]:
    """A gain at every number of hypotheses, for both models, and the autoencoder if ONNX Runtime is installed."""
    found = []
    for model in (Bernoulli(1, 1), Gaussian(1, 3, 1)):
        for k in HYPOTHESES:
            call = gain_of(model, k, seed)
            found.append(Timed(f"gain, {type(model).__name__}", k, median_ns(call, repeats)))
    network = autoencoder()
    if network is not None:
        found.append(Timed(f"autoencoder, {multiply_adds():,} multiply-adds", None, median_ns(network, repeats)))
    return found


def gain_of(model: Model, hypotheses: int, seed: int) -> Callable[[], Any]:
    """A call that computes a gain with this number of hypotheses, including a change at the next tick."""
    detector = Detector(model, hazard=HAZARD, prune=None, alarm=None)
    ticks = hypotheses - 1
    if ticks:
        draw: Any = simulate.bernoulli if isinstance(model, Bernoulli) else simulate.gaussian
        for x in draw(model, hazard=HAZARD, ticks=ticks, seed=seed).table[:, 0]:
            detector.update(float(x))
    zeta = np.array([ZETA])
    return lambda: expected_gains(detector._filter, zeta, "run_length")


def autoencoder() -> Callable[[], Any] | None:
    """One evaluation with random weights, which do not affect its time; None without ONNX Runtime."""
    try:
        import onnxruntime  # noqa: F401
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        return None
    from mfbocd.adapters.onnx import OnnxObserver

    rng = np.random.default_rng(0)
    nodes, weights = [], []
    for i, (a, b) in enumerate(pairwise(LAYERS)):
        values = (rng.normal(size=(a, b)) / np.sqrt(a)).astype(np.float32)
        weights.append(numpy_helper.from_array(values, f"w{i}"))
        nodes.append(helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"y{i}"]))
        nodes.append(helper.make_node("Relu", [f"y{i}"], [f"x{i + 1}"]))
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, LAYERS[0]])
        for name in ("x0", f"x{len(LAYERS) - 1}")
    ]
    graph = helper.make_graph(nodes, "autoencoder", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    observe = OnnxObserver(model, after=lambda out: float(out.mean()))
    window = rng.normal(size=LAYERS[0]).astype(np.float32)
    return lambda: observe(window)


def median_ns(call: Callable[[], Any], repeats: int) -> float:
    """Nanoseconds per call, the median over batches; without the first call, which may compile."""
    call()
    found = []
    for _ in range(repeats):
        start = perf_counter_ns()
        for _ in range(BATCH):
            call()
        found.append((perf_counter_ns() - start) / BATCH)
    return float(np.median(found))
