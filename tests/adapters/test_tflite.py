"""Real TFLite models run by the real interpreter."""

import builtins
import os
from pathlib import Path

import numpy as np
import pytest

import mfbocd as mf
from mfbocd.adapters.network import Port
from mfbocd.adapters.tflite import TfliteObserver

pytestmark = pytest.mark.slow

MODELS = Path(__file__).parents[3] / "shared" / "data" / "models"


def found(name):
    path = MODELS / name
    if not path.is_file():
        if os.environ.get("CI"):
            pytest.fail(f"{path} is missing: CI must run this test")
        pytest.skip(f"{path} is not here")
    return path


@pytest.fixture
def autoencoder():
    """The MLPerf Tiny anomaly autoencoder: 640 floats in, 640 out."""
    return found("ad01_fp32.tflite")


@pytest.fixture
def segmenter():
    """A quantized DeepLab: 513 x 513 x 3 bytes in, one class per pixel out."""
    return found("deeplabv3_mnv2_dm05_pascal_quant.tflite")


def layers(path):
    """The autoencoder's weights and biases, read out of the file, in the order of evaluation."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(path), num_threads=1)
    interpreter.allocate_tensors()
    tensors = {d["index"]: d for d in interpreter.get_tensor_details()}
    steps = [op for op in interpreter._get_ops_details() if op["op_name"] == "FULLY_CONNECTED"]
    for op in steps:
        _, w, b = op["inputs"]
        yield interpreter.get_tensor(tensors[w]["index"]), interpreter.get_tensor(tensors[b]["index"])


def test_the_interpreter_computes_the_network(autoencoder):
    x = np.random.default_rng(0).normal(size=640).astype(np.float32)
    y = x
    network = list(layers(autoencoder))
    assert [w.shape[1] for w, _ in network] == [640, 128, 128, 128, 128, 8, 128, 128, 128, 128]
    for i, (w, b) in enumerate(network):
        y = w @ y + b
        if i < len(network) - 1:
            y = np.maximum(y, 0.0)
    observe = TfliteObserver(autoencoder, after=lambda answer: answer[0, 7])
    assert observe.answer(x)[0] == pytest.approx(y, rel=1e-3, abs=1e-3)
    assert observe(x) == pytest.approx(y[7], rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("threads", [1, 2])
def test_an_autoencoders_error_is_a_reading(autoencoder, threads):
    network = TfliteObserver(autoencoder.read_bytes(), threads=threads)

    def error(window):
        return float(np.mean((network.answer(window) - window) ** 2))

    detector = mf.Detector(mf.Gaussian(0, 100, 1), mf.Fidelity("sound", zeta=1, cost=264_192, observe=error))
    window = np.linspace(-1, 1, 640)
    step = detector.step(window)
    assert step.x == error(window)
    assert step.x > 0


def test_a_dynamic_batch_is_resized(autoencoder):
    network = TfliteObserver(autoencoder)
    windows = np.random.default_rng(1).normal(size=(3, 640))
    one_by_one = np.concatenate([network.answer(w) for w in windows])
    assert network.answer(windows) == pytest.approx(one_by_one, rel=1e-4, abs=1e-4)
    assert network.answer(windows[0]).shape == (1, 640)  # and back


def test_a_quantized_network_takes_bytes_and_floats(segmenter):
    network = TfliteObserver(segmenter, after=lambda classes: (classes == 7).mean())
    (port,) = network.inputs
    assert (port.scale, port.zero, port.dtype) == (0.0078125, 128, np.uint8)
    image = np.random.default_rng(2).integers(0, 256, size=(513, 513, 3), dtype=np.uint8)
    real = (image.astype(float) - 128.0) * 0.0078125
    assert (network.answer(image) == network.answer(real)).all()
    assert 0.0 <= network(image) <= 1.0
    with pytest.raises(TypeError, match="must be uint8, not int64: convert it in before="):
        network(image.astype(np.int64))


def test_quantizing_round_trip():
    port = Port("x", (1, 300), np.dtype(np.int8), scale=0.1, zero=-20)
    real = np.linspace(-20.0, 20.0, 300)
    whole = port.encode(real)
    assert whole.dtype == np.int8
    inside = (real > 0.1 * (-128 + 20)) & (real < 0.1 * (127 + 20))
    assert np.abs(port.decode(whole)[0] - real)[inside].max() <= 0.05 + 1e-6
    assert (whole.min(), whole.max()) == (-128, 127)  # values out of range are clipped and do not wrap


@pytest.mark.parametrize(
    ("raw", "error", "message"),
    [
        (np.zeros(641), ValueError, r"input 'input_1' must have shape \(\?, 640\), not \(641,\)"),
        (np.array(["a"] * 640), TypeError, "input 'input_1' must be float32, not <U1"),
        ({"x": np.zeros(640)}, ValueError, "inputs must be input_1, not 'x'"),
        (np.zeros(640), ValueError, r"the network's output must be one number, not of shape \(1, 640\)"),
    ],
)
def test_wrong_inputs_and_outputs(autoencoder, raw, error, message):
    with pytest.raises(error, match=message):
        TfliteObserver(autoencoder)(raw)


def test_wrong_arguments(autoencoder, tmp_path):
    with pytest.raises(ValueError, match=r"TfliteObserver\.threads must be a whole number of at least 1, not 0"):
        TfliteObserver(autoencoder, threads=0)
    with pytest.raises(TypeError, match=r"TfliteObserver\.after must be callable, not 3"):
        TfliteObserver(autoencoder, after=3)
    with pytest.raises(TypeError, match=r"TfliteObserver\.model must be a path or bytes, not 3"):
        TfliteObserver(3)
    with pytest.raises(FileNotFoundError, match=r"TfliteObserver\.model: there is no file"):
        TfliteObserver(tmp_path / "no.tflite")
    assert repr(TfliteObserver(autoencoder)) == (
        "<TfliteObserver: input_1 ['?', 640] float32 -> Identity ['?', 640] float32>"
    )


def test_without_the_extra(monkeypatch):
    whole = builtins.__import__

    def without(name, *rest):
        if name.startswith("ai_edge_litert"):
            raise ImportError(name)
        return whole(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"TfliteObserver needs ai-edge-litert: pip install 'mfbocd\[tflite\]'"):
        TfliteObserver("x.tflite")
