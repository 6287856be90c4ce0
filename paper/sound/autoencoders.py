"""Anomaly scores of a machine's clips from two autoencoders: the user's own, or two trained here on normal clips."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfbocd.adapters.network import Network
from mfbocd.adapters.onnx import OnnxObserver
from mfbocd.adapters.tflite import TfliteObserver
from mfbocd.calibrate import onnx_operations
from mfbocd.datasets._stream import extra

from .clips import INPUTS, SCORES, Folder, load
from .machines import FLOPS, Machine

Windows = NDArray[np.float32]
Reconstruct = Callable[[Windows], Windows]

SMALL = (4,)
"""Hidden units of the low-fidelity network trained here."""
LARGE = (128, 128, 8, 128, 128)
"""Of the high-fidelity one: the sizes of the MLPerf Tiny autoencoder, with two layers fewer on either side."""
BATCH = 128
UPDATES = 600  # at least, and at least EPOCHS passes
EPOCHS = 10


def scores(folder: Folder, models: tuple[Path, Path] | None, most: int) -> dict[str, Any]:
    """Every clip's 14 scores from both networks, low then high, and the use of each clip.

    A score is the mean squared reconstruction error of a fourteenth of the clip's windows. Without `models` two
    networks are trained on at most `most` windows of every second normal clip. Of the remaining clips, every second
    one of each kind is held out for thresholds and zeta.
    """
    label = np.array(folder.anomalous)
    rate: int | None = None
    inputs = []
    for path in folder.clips:
        rate, clip = load(path, rate)
        inputs.append(clip)
    training = np.zeros(label.size, dtype=np.bool_)
    if models is None:
        training[np.flatnonzero(~label)[::2]] = True
        windows = np.concatenate([clip for clip, mine in zip(inputs, training, strict=True) if mine])
        networks = [trained(windows, hidden, most) for hidden in (SMALL, LARGE)]
    else:
        networks = [given(path) for path in models]
    held_out = np.zeros(label.size, dtype=np.bool_)
    for kind in (False, True):
        held_out[np.flatnonzero((label == kind) & ~training)[::2]] = True
    each = float(np.mean([len(clip) for clip in inputs]))
    return {
        "scores": [[_fourteen(clip, rebuild) for clip in inputs] for rebuild, _ in networks],
        "held_out": held_out.tolist(),
        "used": (~held_out & ~training).tolist(),
        "flops": [FLOPS * macs * each for _, macs in networks],
        "macs": [macs for _, macs in networks],
        "windows": each,
        "rate": rate,
    }


def machine(folder: Folder, scored: dict[str, Any], share: float, published: int | None) -> Machine:
    """The result of `scores` as a machine of the experiment."""
    low, high = (np.array(s) for s in scored["scores"])
    held_out, used = np.array(scored["held_out"]), np.array(scored["used"])
    flops = (float(scored["flops"][0]), float(scored["flops"][1]))
    return Machine(folder.name, (low, high), np.array(folder.anomalous), held_out, used, flops, share, published)


def _fourteen(clip: Windows, rebuild: Reconstruct) -> list[float]:
    error = ((rebuild(clip).astype(np.float64) - clip) ** 2).mean(axis=1)
    return [float(part.mean()) for part in np.array_split(error, SCORES)]


# --- networks --------------------------------------------------------------------------------------------------


def trained(windows: Windows, hidden: Sequence[int], most: int) -> tuple[Reconstruct, int]:
    """A scikit-learn autoencoder of these windows, and its multiply-adds per window."""
    neural = extra("sklearn.neural_network")
    rng = np.random.default_rng(0)
    some = windows[np.sort(rng.permutation(len(windows))[:most])]
    mean, scale = some.mean(axis=0), float(some.std()) or 1.0
    x = (some - mean) / np.float32(scale)
    size = min(BATCH, len(x))
    network = neural.MLPRegressor(hidden_layer_sizes=tuple(hidden), batch_size=size, random_state=0)
    # one thread: more do not help with matrices this small, and sums keep their order on every machine
    with extra("threadpoolctl").threadpool_limits(1):
        for _ in range(max(EPOCHS, math.ceil(UPDATES * size / len(x)))):
            network.partial_fit(x, x)

    def rebuild(clip: Windows) -> Windows:
        return np.asarray(network.predict((clip - mean) / np.float32(scale)) * scale + mean, dtype=np.float32)

    sizes = (INPUTS, *hidden, INPUTS)
    return rebuild, sum(a * b for a, b in pairwise(sizes))


def given(path: Path) -> tuple[Reconstruct, int]:
    """A TFLite or ONNX autoencoder of 640 inputs, and its multiply-adds per window."""
    network: Network
    if path.suffix == ".tflite":
        network = TfliteObserver(path)
        count = _tflite_operations(network, path)
    elif path.suffix == ".onnx":
        network = OnnxObserver(path)
        count = onnx_operations(path, {port.name: (1, INPUTS) for port in network.inputs})
    else:
        raise ValueError(f"{path} must be a network in a .tflite or .onnx file, not {path.suffix!r}")
    ports = [*network.inputs, *network.outputs]
    if len(ports) != 2 or any(port.shape[-1] not in (INPUTS, None) or len(port.shape) != 2 for port in ports):
        raise ValueError(f"{path} must have {INPUTS} inputs and {INPUTS} outputs, not be {network!r}")

    def rebuild(clip: Windows) -> Windows:
        if network.inputs[0].shape[0] is None:
            return np.asarray(network.answer(clip))
        return np.concatenate([network.answer(window) for window in clip[:, None]])

    return rebuild, count


def _tflite_operations(network: TfliteObserver, path: Path) -> int:
    """Multiply-adds of one evaluation of a fully connected network."""
    shapes = {detail["index"]: detail["shape"] for detail in network.interpreter.get_tensor_details()}
    total = 0
    for step in network.interpreter._get_ops_details():
        if step["op_name"] == "FULLY_CONNECTED":
            total += int(np.prod(shapes[step["inputs"][1]]))
        elif "CONV" in step["op_name"] or "MATMUL" in step["op_name"] or "LSTM" in step["op_name"]:
            raise ValueError(
                f"{path}: the operations of {step['op_name']} cannot be counted, only those of dense layers"
            )
    return total
