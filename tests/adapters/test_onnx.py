"""Real ONNX models run by the real ONNX Runtime; their operations counted by hand."""

import builtins
import itertools

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from scipy import special

import mfbocd as mf
from mfbocd.adapters.onnx import OnnxObserver
from mfbocd.adapters.recurrent import Recurrent
from mfbocd.calibrate import measured_time, onnx_operations

pytestmark = pytest.mark.slow

FLOAT = TensorProto.FLOAT


def tensor(name, *shape):
    return numpy_helper.from_array(np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32), name)


def model(nodes, inputs, outputs, weights=(), kind=FLOAT):
    """Inputs and outputs are {name: shape}; an output's shape of None is left to inference."""
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in outputs.items()],
        list(weights),
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made)
    return made


def node(kind, inputs, outputs, **attributes):
    return helper.make_node(kind, inputs.split(), outputs.split(), name=f"a {kind}", **attributes)


def linear(batch=1):
    """y = x w + b, a dense layer of 3 inputs and 2 outputs."""
    w, b = tensor("w", 3, 2), tensor("b", 2)
    made = model([node("Gemm", "x w b", "y")], {"x": [batch, 3]}, {"y": [batch, 2]}, [w, b])
    return made, numpy_helper.to_array(w), numpy_helper.to_array(b)


def test_a_detector_touches_only_the_network_it_chose():
    made, _, _ = linear()
    seen = []

    def network(name):
        def before(raw):
            seen.append(name)
            return raw

        return OnnxObserver(made.SerializeToString(), before=before, after=lambda y: y[0, 0])

    fidelities = [mf.Fidelity("small", 0.3, 1.0, network("small")), mf.Fidelity("large", 1.0, 5.0, network("large"))]
    detector = mf.Detector(mf.Gaussian(0, 9, 1), fidelities, policy=mf.Random([0.5, 0.5]), seed=1)
    # a list of numbers has the network's shape only after `before`: nothing else may read it
    raws = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    read = [detector.step(raw).fidelity for raw in raws]
    assert seen == read
    assert set(read) == {"small", "large"}
    other = mf.Detector(mf.Gaussian(0, 9, 1), fidelities, policy=mf.Always("small"))
    fidelities[1].observe.prepare = None  # would raise if it were called
    assert other.step(raws[0]).fidelity == "small"


# --- observing -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["path", "str", "bytes", "proto"])
def test_the_session_computes_the_model(tmp_path, source):
    made, w, b = linear()
    path = tmp_path / "linear.onnx"
    onnx.save(made, path)
    given = {"path": path, "str": str(path), "bytes": made.SerializeToString(), "proto": made}[source]
    observe = OnnxObserver(given, before=lambda raw: raw * 2.0, after=lambda y: y[0, 1] - y[0, 0])
    x = np.random.default_rng(0).normal(size=3)
    y = (2.0 * x) @ w + b
    reading = observe(x)
    assert type(reading) is float
    assert reading == pytest.approx(y[1] - y[0], rel=1e-5)
    assert observe.answer(x) == pytest.approx(y[None], rel=1e-5)


def test_a_detector_reads_through_networks():
    small = model([node("ReduceMean", "x", "y", axes=[1])], {"x": [1, 4]}, {"y": [1, 1]})
    calls = []

    def before(raw):
        calls.append(raw)
        return raw

    detector = mf.Detector(
        mf.Gaussian(0, 9, 1),
        [
            mf.Fidelity("small", zeta=0.5, cost=1, observe=OnnxObserver(small, before)),
            mf.Fidelity("large", zeta=1.0, cost=4, observe=OnnxObserver(small, before)),
        ],
        policy=mf.Always("small"),
    )
    step = detector.step([1.0, 2.0, 3.0, 6.0])
    assert (step.x, step.fidelity, len(calls)) == (3.0, "small", 1)


def test_a_classifier_with_two_outputs():
    w, b = tensor("w", 4, 3), tensor("b", 3)
    made = model(
        [
            node("Gemm", "x w b", "score"),
            node("Softmax", "score", "probabilities"),
            node("ReduceMax", "probabilities", "sureness", keepdims=0),
        ],
        {"x": [1, 4]},
        {"probabilities": [1, 3], "sureness": []},
        [w, b],
    )
    x = np.random.default_rng(1).normal(size=4)
    p = special.softmax(x @ numpy_helper.to_array(w) + numpy_helper.to_array(b))
    assert OnnxObserver(made, outputs=["probabilities"], after=lambda p: p[0, 1])(x) == pytest.approx(p[1], rel=1e-5)
    assert OnnxObserver(made, outputs=["sureness"])(x) == pytest.approx(p.max(), rel=1e-5)
    assert OnnxObserver(made, after=lambda a: a["sureness"] - a["probabilities"][0, 0])(x) == pytest.approx(
        p.max() - p[0], rel=1e-4, abs=1e-6
    )
    with pytest.raises(
        ValueError, match="the network's output must be one number, not probabilities, sureness: convert it in after="
    ):
        OnnxObserver(made)(x)


def test_after_may_return_a_missing_reading():
    made, _, _ = linear()
    assert OnnxObserver(made, after=lambda y: None)(np.zeros(3)) is None


def test_threads_and_a_clock():
    made, _, _ = linear()
    found = measured_time(OnnxObserver(made, after=np.max, threads=2), [np.zeros(3)] * 20)
    assert 0 < found.low <= found.value < 0.1


@pytest.mark.parametrize(
    ("raw", "error", "message"),
    [
        (np.zeros(4), ValueError, r"input 'x' must have shape \(1, 3\), not \(4,\)"),
        (np.zeros((2, 3)), ValueError, r"input 'x' must have shape \(1, 3\), not \(2, 3\)"),
        (np.zeros(()), ValueError, r"input 'x' must have shape \(1, 3\), not \(\)"),
        (np.array(["a", "b", "c"]), TypeError, "input 'x' must be float32, not <U1: convert it in before="),
        ({"z": np.zeros(3)}, ValueError, "inputs must be x, not 'z'"),
        ({}, ValueError, "input 'x' is missing: before= returned none"),
    ],
)
def test_wrong_inputs(raw, error, message):
    made, _, _ = linear()
    with pytest.raises(error, match=message):
        OnnxObserver(made, after=np.max)(raw)


def test_a_dynamic_batch_and_integers():
    made, w, b = linear("batch")
    observe = OnnxObserver(made, after=np.sum)
    assert "x ['?', 3] float32" in repr(observe)
    assert observe([1, 2, 3]) == pytest.approx(float(([1, 2, 3] @ w + b).sum()), rel=1e-5)
    assert observe(np.ones((5, 3))) == pytest.approx(float((np.ones((5, 3)) @ w + b).sum()), rel=1e-5)


def test_an_input_of_bytes_refuses_floats():
    made = model(
        [node("Cast", "x", "f", to=FLOAT), node("ReduceSum", "f", "y")],
        {"x": [1, 2]},
        {"y": [1, 1]},
        kind=TensorProto.UINT8,
    )
    observe = OnnxObserver(made)
    assert observe(np.array([3, 200], dtype=np.uint8)) == 203.0
    with pytest.raises(TypeError, match="input 'x' must be uint8, not float64"):
        observe([3.0, 200.0])


def test_two_inputs_need_names():
    made = model([node("Add", "a b", "y")], {"a": [1], "b": [1]}, {"y": [1]})
    assert OnnxObserver(made)({"a": [1.5], "b": [2.0]}) == 3.5
    with pytest.raises(TypeError, match="before= must return a dict of arrays for the inputs a, b"):
        OnnxObserver(made)([1.5])
    with pytest.raises(ValueError, match="input 'b' is missing: before= returned a"):
        OnnxObserver(made)({"a": [1.5]})


def test_wrong_outputs_and_arguments(tmp_path):
    made, _, _ = linear()
    with pytest.raises(
        ValueError, match=r"the network's output must be one number, not of shape \(1, 2\): convert it in after="
    ):
        OnnxObserver(made)(np.zeros(3))
    with pytest.raises(ValueError, match=r"OnnxObserver\.after must return one number, not of shape \(1, 2\)"):
        OnnxObserver(made, after=lambda y: y)(np.zeros(3))
    with pytest.raises(ValueError, match=r"OnnxObserver\.outputs must be some of y, not 'z'"):
        OnnxObserver(made, outputs=["z"])
    with pytest.raises(ValueError, match=r"OnnxObserver\.outputs must name at least one output"):
        OnnxObserver(made, outputs=[])
    with pytest.raises(
        ValueError, match=r"OnnxObserver\.providers must be some of .*CPUExecutionProvider.*, not 'Abacus'"
    ):
        OnnxObserver(made, providers=["Abacus"])
    with pytest.raises(ValueError, match=r"OnnxObserver\.threads must be a whole number of at least 1, not 0"):
        OnnxObserver(made, threads=0)
    with pytest.raises(TypeError, match=r"OnnxObserver\.before must be callable, not 3"):
        OnnxObserver(made, before=3)
    with pytest.raises(TypeError, match=r"OnnxObserver\.model must be a path, bytes or an onnx ModelProto, not 3"):
        OnnxObserver(3)
    with pytest.raises(FileNotFoundError, match=r"OnnxObserver\.model: there is no file"):
        OnnxObserver(tmp_path / "no.onnx")


@pytest.mark.parametrize(("package", "call"), [("onnxruntime", OnnxObserver), ("onnx", onnx_operations)])
def test_without_the_extra(monkeypatch, package, call):
    whole = builtins.__import__

    def without(name, *rest):
        if name.split(".")[0] == package:
            raise ImportError(name)
        return whole(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=rf"needs {package}: pip install 'mfbocd\[onnx\]'"):
        call(b"")


# --- counting --------------------------------------------------------------------------------------------------


def count(made, **shapes):
    return onnx_operations(made, shapes or None)


def test_dense_layers():
    made, _, _ = linear()
    assert count(made) == 3 * 2
    turned = model([node("Gemm", "x w", "y", transA=1)], {"x": [3, 5]}, {"y": [5, 2]}, [tensor("w", 3, 2)])
    assert count(turned) == 5 * 3 * 2
    batched = model([node("MatMul", "x w", "y")], {"x": [7, 5, 3]}, {"y": [7, 5, 2]}, [tensor("w", 3, 2)])
    assert count(batched) == 7 * 5 * 3 * 2
    vector = model([node("MatMul", "x w", "y")], {"x": [3]}, {"y": [2]}, [tensor("w", 3, 2)])
    assert count(vector) == 3 * 2


def test_a_known_network():
    """The MLPerf Tiny anomaly autoencoder's layers: 264,192 multiply-adds, as in its paper and our data sheet."""
    sizes = [640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640]
    weights = [tensor(f"w{i}", a, b) for i, (a, b) in enumerate(itertools.pairwise(sizes))]
    nodes = []
    for i in range(len(weights)):
        nodes += [node("MatMul", f"x{i} w{i}", f"a{i}"), node("Relu", f"a{i}", f"x{i + 1}")]
    assert count(model(nodes, {"x0": [1, 640]}, {"x10": [1, 640]}, weights)) == 264_192


def test_convolutions():
    image = {"x": [1, 8, 10, 12]}
    plain = model(
        [node("Conv", "x w", "y", pads=[1, 1, 1, 1])], image, {"y": [1, 6, 10, 12]}, [tensor("w", 6, 8, 3, 3)]
    )
    assert count(plain) == 10 * 12 * 6 * 8 * 9
    strided = model([node("Conv", "x w", "y", strides=[2, 2])], image, {"y": [1, 6, 4, 5]}, [tensor("w", 6, 8, 3, 3)])
    assert count(strided) == 4 * 5 * 6 * 8 * 9
    depthwise = model([node("Conv", "x w", "y", group=8)], image, {"y": [1, 8, 8, 10]}, [tensor("w", 8, 1, 3, 3)])
    assert count(depthwise) == 8 * 10 * 8 * 9
    grouped = model([node("Conv", "x w", "y", group=2)], image, {"y": [1, 6, 8, 10]}, [tensor("w", 6, 4, 3, 3)])
    assert count(grouped) == 8 * 10 * 6 * 4 * 9


def test_transposed_convolution_is_counted_as_its_mirror():
    """It has exactly the operations of the convolution in the other direction."""
    w = tensor("w", 8, 6, 3, 3)
    up = model([node("ConvTranspose", "x w", "y", strides=[2, 2])], {"x": [1, 8, 4, 5]}, {"y": [1, 6, 9, 11]}, [w])
    down = model([node("Conv", "x w", "y", strides=[2, 2])], {"x": [1, 6, 9, 11]}, {"y": [1, 8, 4, 5]}, [w])
    assert count(up) == count(down) == 4 * 5 * 8 * 6 * 9


@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_layers(kind, gates):
    steps, batch, inputs, hidden = 7, 2, 5, 6
    made = model(
        [node(kind, "x w r", "y", hidden_size=hidden)],
        {"x": [steps, batch, inputs]},
        {"y": [steps, 1, batch, hidden]},
        [tensor("w", 1, gates * hidden, inputs), tensor("r", 1, gates * hidden, hidden)],
    )
    assert count(made) == steps * batch * gates * hidden * (inputs + hidden)


def test_shapes_in_the_middle_are_inferred_and_the_rest_is_free():
    made = model(
        [
            node("Conv", "x w", "a"),
            node("Relu", "a", "b"),
            node("MaxPool", "b", "c", kernel_shape=[2, 2], strides=[2, 2]),
            node("Flatten", "c", "d"),
            node("Gemm", "d v", "y", transB=1),
        ],
        {"x": [1, 3, 10, 10]},
        {"y": [1, 5]},
        [tensor("w", 4, 3, 3, 3), tensor("v", 5, 64)],
    )
    assert count(made) == 8 * 8 * 4 * 27 + 64 * 5
    assert np.isfinite(OnnxObserver(made, after=np.max)(np.zeros((3, 10, 10))))  # the model is a real one


def test_weights_from_a_constant_node():
    made = model(
        [node("Constant", "", "w", value=tensor("w", 3, 2)), node("MatMul", "x w", "y")], {"x": [1, 3]}, {"y": [1, 2]}
    )
    made.graph.node[0].ClearField("input")
    assert count(made) == 6


def test_dynamic_shapes(tmp_path):
    made = model(
        [node("Conv", "x w", "y")], {"x": ["n", 3, "h", "w"]}, {"y": ["n", 4, "hh", "ww"]}, [tensor("w", 4, 3, 3, 3)]
    )
    path = tmp_path / "dynamic.onnx"
    onnx.save(made, path)
    with pytest.raises(
        ValueError, match=r"input 'x' has the dynamic shape \(n, 3, h, w\): pass shapes=\{'x': \(\.\.\.\)\}"
    ):
        count(path)
    assert count(path, x=(1, 3, 10, 12)) == 8 * 10 * 4 * 27
    assert count(made, x=(2, 3, 10, 12)) == 2 * count(made, x=(1, 3, 10, 12))  # the caller's model is unchanged
    with pytest.raises(
        ValueError, match=r"shapes\['x'\] must fit the input's shape \(n, 3, h, w\), not be \(1, 4, 10, 12\)"
    ):
        count(made, x=(1, 4, 10, 12))
    with pytest.raises(ValueError, match=r"shapes\['x'\] must fit the input's shape \(n, 3, h, w\), not be \(1, 3\)"):
        count(made, x=(1, 3))
    with pytest.raises(ValueError, match=r"shapes must name inputs of the model \(x\), not 'z'"):
        count(made, z=(1,))


def test_an_uncountable_network_is_refused():
    made = model([node("Einsum", "x x", "y", equation="ij,kj->ik")], {"x": [3, 4]}, {"y": [3, 3]})
    with pytest.raises(ValueError, match=r"cannot count the operations of Einsum \(node 'a Einsum'\)"):
        count(made)
    trees = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml")
    graph = made.graph
    del graph.node[:]
    graph.node.append(trees)
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    with pytest.raises(ValueError, match=r"the operations of ai\.onnx\.ml\.TreeEnsembleRegressor"):
        count(made)


def test_a_local_function_is_looked_into():
    body = helper.make_function(
        "mine",
        "Dense",
        ["a", "w"],
        ["b"],
        [helper.make_node("MatMul", ["a", "w"], ["b"])],
        [helper.make_opsetid("", 17)],
    )
    made, _, _ = linear()
    del made.graph.node[:]
    made.graph.node.append(helper.make_node("Dense", ["x", "w"], ["y"], domain="mine"))
    made.functions.append(body)
    made.opset_import.append(helper.make_opsetid("mine", 1))
    assert count(made) == 6


# --- memory ----------------------------------------------------------------------------------------------------


class Gru:
    """A GRU cell whose state is an input and output of an ONNX model: an observer with memory."""

    hidden = 4

    def __init__(self):
        gates = np.random.default_rng(1)
        self.seen = 0
        weights = [
            numpy_helper.from_array(gates.normal(size=shape).astype(np.float32), name)
            for name, shape in [("w", (1, 12, 2)), ("r", (1, 12, 4))]
        ]
        # X, W, R, no bias, no lengths, the state
        cell = helper.make_node("GRU", ["x", "w", "r", "", "", "h"], ["", "g"], hidden_size=4, name="gru")
        made = model([cell], {"x": [1, 1, 2], "h": [1, 1, 4]}, {"g": [1, 1, 4]}, weights)
        self.network = OnnxObserver(made, before=lambda raw: {"x": raw[None, None], "h": self.state}, after=self.keep)
        self.clear()

    def clear(self):
        self.state = np.zeros((1, 1, 4), dtype=np.float32)

    def keep(self, answer):
        self.state = answer
        return answer.sum()

    def __call__(self, raw):
        self.seen += 1
        return self.network(raw)


def test_a_recurrent_network_read_intermittently_gives_the_same_readings():
    raws = np.random.default_rng(2).normal(size=(60, 2))
    always, memory = Gru(), Gru()
    every = [always(raw) for raw in raws]
    now_and_then = Recurrent(memory, warmup=12, cost=5.0, warmup_cost=2.0, reset=memory.clear)
    paid = 0.0
    for tick, raw in enumerate(raws):
        if tick % 10 == 9:
            cost = now_and_then.cost_of(raw)
            assert cost == 5.0 + 9 * 2.0
            paid += cost
            reading = now_and_then(raw)
            if tick < 12:
                assert reading is None
            else:
                assert reading == every[tick]
        else:
            now_and_then.feed(raw)
    assert memory.seen == 60  # no gap was longer than the warm-up: it saw every input, and each was paid for
    assert paid == 6 * 5.0 + 54 * 2.0


def test_a_gap_longer_than_the_warm_up_resets_the_state():
    raws = np.random.default_rng(3).normal(size=(50, 2))
    memory, fresh = Gru(), Gru()
    wrapped = Recurrent(memory, warmup=5, cost=1.0, warmup_cost=1.0, reset=memory.clear)
    for raw in raws[:6]:
        wrapped(raw)
    for raw in raws[6:49]:
        wrapped.feed(raw)
    assert wrapped.missed == 5
    assert wrapped.cost_of(raws[49]) == 6.0
    expected = [fresh(raw) for raw in raws[44:]][-1]
    assert wrapped(raws[49]) == expected
    assert memory.seen == 6 + 6


def test_readings_are_missing_until_warm_and_none_is_seen_twice():
    seen = []
    wrapped = Recurrent(lambda raw: seen.append(raw) or len(seen), warmup=3, cost=1, warmup_cost=0)
    assert [wrapped(raw) for raw in "abcde"] == [None, None, None, 4.0, 5.0]
    wrapped.feed("f")
    assert wrapped("g") == 7.0
    assert "".join(seen) == "abcdefg"


def test_a_missing_reading_stays_missing():
    assert Recurrent(lambda raw: None, warmup=0, cost=1, warmup_cost=0)(1) is None


def test_without_memory_nothing_is_stored():
    wrapped = Recurrent(float, warmup=0, cost=1, warmup_cost=9)
    wrapped.feed(1)
    assert (wrapped.missed, wrapped.cost_of(2), wrapped(2)) == (0, 1.0, 2.0)


def test_a_failure_while_catching_up_loses_nothing():
    seen = []
    broken = [True]

    def observe(raw):
        if raw == "c" and broken:
            broken.pop()
            raise OSError("camera")
        seen.append(raw)
        return 0.0

    wrapped = Recurrent(observe, warmup=4, cost=1, warmup_cost=1)
    for raw in "xabcd":
        wrapped.feed(raw)
    with pytest.raises(OSError, match="camera"):
        wrapped("e")
    assert wrapped.missed == 2
    assert wrapped("e") == 0.0
    assert "".join(seen) == "abcde"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"observe": 3}, TypeError, "Recurrent.observe must be callable, not 3"),
        ({"reset": 3}, TypeError, "Recurrent.reset must be callable, not 3"),
        ({"warmup": -1}, ValueError, "Recurrent.warmup must be a whole number of at least 0, not -1"),
        ({"cost": 0}, ValueError, "Recurrent.cost must be positive, not 0"),
        ({"warmup_cost": -1}, ValueError, "Recurrent.warmup_cost must be at least 0, not -1"),
    ],
)
def test_recurrent_arguments(change, error, message):
    with pytest.raises(error, match=message):
        Recurrent(**({"observe": abs, "warmup": 1, "cost": 1, "warmup_cost": 1} | change))
