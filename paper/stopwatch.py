"""How long a gain takes on this machine, and a small network for scale."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from time import perf_counter_ns
from typing import Any, NamedTuple

import numpy as np

from mfbocd.belief.gains import expected_gains
from mfbocd.datasets import simulate
from mfbocd.detector.detector import Detector
from mfbocd.models import Bernoulli, Gaussian, Model

HYPOTHESES = (1, 4, 16, 64, 256, 1024, 4096)
LAYERS = (640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640)
"""Widths of the MLPerf Tiny anomaly autoencoder, whose scores the library ships."""
ZETA = 0.5
HAZARD = 1 / 250
BATCH = 20  # calls a repeat, so that the clock's own time does not show


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
    """A gain at every number of hypotheses, for both models, and the autoencoder if ONNX Runtime is here."""
    told = []
    for model in (Bernoulli(1, 1), Gaussian(1, 3, 1)):
        for k in HYPOTHESES:
            call = gain_of(model, k, seed)
            told.append(Timed(f"gain, {type(model).__name__}", k, median_ns(call, repeats)))
    network = autoencoder()
    if network is not None:
        told.append(Timed(f"autoencoder, {multiply_adds():,} multiply-adds", None, median_ns(network, repeats)))
    return told


def gain_of(model: Model, hypotheses: int, seed: int) -> Callable[[], Any]:
    """A call that weighs so many hypotheses, the one of a change at the coming tick among them."""
    detector = Detector(model, hazard=HAZARD, prune=None, alarm=None)
    ticks = hypotheses - 1
    if ticks:
        draw: Any = simulate.bernoulli if isinstance(model, Bernoulli) else simulate.gaussian
        for x in draw(model, hazard=HAZARD, ticks=ticks, seed=seed).table[:, 0]:
            detector.update(float(x))
    zeta = np.array([ZETA])
    return lambda: expected_gains(detector._filter, zeta, "run_length")


def autoencoder() -> Callable[[], Any] | None:
    """One evaluation with weights drawn at random, which its time does not hang on; None without ONNX Runtime."""
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
    """Nanoseconds a call, the median over batches of calls; the first call, which may compile, is left out."""
    call()
    found = []
    for _ in range(repeats):
        start = perf_counter_ns()
        for _ in range(BATCH):
            call()
        found.append((perf_counter_ns() - start) / BATCH)
    return float(np.median(found))
