"""Frames, labels and two segmentation networks in files: the fractions of pixels, and the cost of each network."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mfbocd.adapters.network import Network
from mfbocd.adapters.onnx import OnnxObserver
from mfbocd.adapters.tflite import TfliteObserver
from mfbocd.calibrate import measured_time, onnx_operations

from ..framework import Options, finish
from .scene import Fractions, Scene, folder_scene

Pixels = NDArray[np.uint8]
Mask = NDArray[np.int64]

IMAGES = (".png", ".jpg", ".jpeg")
BLOCK = 16  # frames per part
TIMED = 3  # frames a network is timed on
TAKES = ("frames", "labels", "low-model", "high-model", "label-class", "model-class", "label-floor")
FENCE = 7  # of CamVid's 11 classes


def given_scene(options: Options) -> Scene:
    """The stream of a user's own frames; writes the measured fractions to ``fractions.csv`` in ``options.out``."""
    given = options.given
    for name in ("frames", "labels", "low-model", "high-model"):
        if name not in given:
            raise ValueError(f"--{name} is missing: frames, labels, low-model and high-model are needed together")
    low, high = Path(given["low-model"]), Path(given["high-model"])
    label_class = int(given.get("label-class", FENCE))
    model_class = int(given.get("model-class", label_class))
    floor = float(given.get("label-floor", 0.0))
    frames, labels = paired(Path(given["frames"]), Path(given["labels"]))
    fractions = measure(options, frames, labels, (low, high), label_class, model_class)
    fractions.to_csv(options.out / "fractions.csv")
    costs, unit, how = price(options, frames, (low, high))
    names = (low.stem, high.stem) if low.stem != high.stem else (f"low {low.stem}", f"high {high.stem}")
    protocol = (
        f"Frames and labels are the user's own, read in the order of their names: {len(frames)} frames, class "
        f"{label_class} of the labels, class {model_class} of the networks {low.name} (low) and {high.name} (high), "
        "each run on every frame, which is resized to the network's input. The fractions are in fractions.csv.",
        how,
    )
    return folder_scene(fractions, f"class {label_class}", names, costs, unit, floor, protocol)


def paired(frames: Path, labels: Path) -> tuple[list[Path], list[Path]]:
    """The frames in the order of their names, and for each the label of the same stem."""
    found = _images(frames)
    by_stem = {path.stem: path for path in _images(labels)}
    if not found:
        raise ValueError(f"frames: {str(frames)!r} contains no PNG or JPG")
    missing = [path.name for path in found if path.stem not in by_stem]
    if missing:
        raise ValueError(f"labels: {str(labels)!r} has no label for {missing[0]!r} ({len(missing)} are missing)")
    return found, [by_stem[path.stem] for path in found]


def _images(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in IMAGES)


def measure(
    options: Options,
    frames: Sequence[Path],
    labels: Sequence[Path],
    models: tuple[Path, Path],
    label_class: int,
    model_class: int,
) -> Fractions:
    """Both networks on every frame, in blocks that an interrupted run keeps, whatever the seed and trials."""
    mark = {
        "models": [digest(path) for path in models],
        "frames": [[path.name, path.stat().st_size] for path in (*frames, *labels)],
        "classes": [label_class, model_class],
    }
    work = {}
    for start in range(0, len(frames), BLOCK):
        part = slice(start, start + BLOCK)
        arguments = ([str(p) for p in frames[part]], [str(p) for p in labels[part]], tuple(map(str, models)))
        work[f"frames-{start:05d}"] = (block, (*arguments, label_class, model_class))
    made = finish(work, options.out / ".parts", mark, jobs=options.jobs, progress=options.progress)
    rows = np.array([row for name in work for row in made[name]], dtype=np.float64)
    return Fractions(tuple(path.stem for path in frames), *rows.T)


def block(
    frames: Sequence[str], labels: Sequence[str], models: Sequence[str], label_class: int, model_class: int
) -> list[list[float]]:
    """For each frame the fractions by the label, the low and the high network."""
    networks = [load(Path(path)) for path in models]
    rows = []
    for frame, label in zip(frames, labels, strict=True):
        image = picture(Path(frame))
        seen = [fraction(mask(network, image), model_class) for network in networks]
        rows.append([fraction(classes(Path(label)), label_class), *seen])
    return rows


def fraction(found: NDArray[Any], wanted: int) -> float:
    """Share of the pixels that are of this class.

    >>> fraction(np.array([[7, 0], [7, 8]]), 7)
    0.5
    """
    return float((found == wanted).mean())


def digest(path: Path) -> str:
    """Of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def picture(path: Path) -> Pixels:
    """A frame, (height, width, 3)."""
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def classes(path: Path) -> NDArray[Any]:
    """A label image, (height, width): the class of each pixel, from a grey or palette image."""
    with Image.open(path) as image:
        if image.mode not in ("L", "P", "I", "I;16", "1"):
            raise ValueError(
                f"labels: {path.name!r} must have one channel, a class per pixel, not mode {image.mode!r}"
            )
        return np.asarray(image)


def load(path: Path) -> Network:
    """A network, by the suffix of its file."""
    if path.suffix == ".tflite":
        return TfliteObserver(path)
    if path.suffix == ".onnx":
        return OnnxObserver(path)
    raise ValueError(f"model: {path.name!r} must end in .tflite or .onnx")


def fed(network: Network, image: Pixels) -> NDArray[Any]:
    """The frame as input of the network: resized, channels in its order, bytes or floats in -1..1.

    An input of bytes gets the pixels unchanged; any other gets pixel / 127.5 - 1, as MobileNets are trained. A
    network that needs other numbers must contain the conversion.
    """
    if len(network.inputs) != 1:
        raise ValueError(f"model: one input, a picture, is expected, not {len(network.inputs)}")
    port = network.inputs[0]
    if len(port.shape) != 4 or 3 not in (port.shape[1], port.shape[3]):
        raise ValueError(f"model: its input must be (1, height, width, 3) or (1, 3, height, width), not {port.shape}")
    first = channels_first(network)
    height, width = port.shape[2:] if first else port.shape[1:3]
    size = (width or image.shape[1], height or image.shape[0])
    if size != (image.shape[1], image.shape[0]):
        image = np.asarray(Image.fromarray(image).resize(size, Image.Resampling.BILINEAR))
    values = image if port.dtype == np.uint8 else (image / 127.5 - 1.0).astype(np.float32)
    return values.transpose(2, 0, 1) if first else values


def channels_first(network: Network) -> bool:
    """Whether colours, and so classes, come before the pixels."""
    return network.inputs[0].shape[3] != 3


def mask(network: Network, image: Pixels) -> Mask:
    """The class of each pixel, (height, width), from a mask or scores per class; the first of several outputs."""
    answer = network.answer(fed(network, image))
    found = np.asarray(next(iter(answer.values())) if isinstance(answer, Mapping) else answer)
    axis = -3 if channels_first(network) else -1
    if found.ndim == 4 and found.shape[axis] > 1:
        found = found.argmax(axis=axis)
    elif found.ndim == 4:
        found = found.squeeze(axis=axis)
    if found.ndim == 3 and found.shape[0] == 1:
        found = found[0]
    if found.ndim != 2:
        raise ValueError(f"model: its output must be a class or scores per pixel, not of shape {found.shape}")
    return np.asarray(np.rint(found), dtype=np.int64)


def price(
    options: Options, frames: Sequence[Path], models: tuple[Path, Path]
) -> tuple[tuple[float, float], str, str]:
    """Cost per frame of each network, the unit, and its origin: multiply-adds if both can be counted, else time."""
    few = [str(path) for path in frames[:TIMED]]
    work = {f"time-{i}-{digest(path)}": (milliseconds, (str(path), few)) for i, path in enumerate(models)}
    # one after the other: two at once would slow each other
    made = finish(work, options.out / ".parts", {"timed": few}, jobs=1, progress=False)
    low, high = made.values()
    time = f"{low:.3g} and {high:.3g} ms per frame on this machine, one thread (median of 9 passes)"
    counts = [operations(path, picture(frames[0]).shape) for path in models]
    if counts[0] is not None and counts[1] is not None:
        gmac = (counts[0] / 1e9, counts[1] / 1e9)
        return gmac, "GMAC", f"Costs are {gmac[0]:.3g} and {gmac[1]:.3g} GMAC per frame, counted; {time}."
    return (low, high), "ms", f"Costs are times: {time}. Multiply-adds are only counted in ONNX models."


def milliseconds(model: str, frames: Sequence[str]) -> float:
    """Time of one frame, with resizing, without reading the file."""
    network = load(Path(model))
    images = [picture(Path(frame)) for frame in frames]
    return 1e3 * measured_time(lambda image: mask(network, image), images).value


def operations(path: Path, shape: Sequence[int]) -> int | None:
    """Multiply-adds per frame, None if they cannot be counted."""
    if path.suffix != ".onnx":
        return None
    port = load(path).inputs[0]
    free = dict(zip(range(4), (1, 3, *shape[:2]) if port.shape[3] != 3 else (1, *shape[:2], 3), strict=True))
    whole = tuple(free[i] if size is None else size for i, size in enumerate(port.shape))
    try:
        return onnx_operations(path, shapes={port.name: whole}) or None
    except ValueError:
        return None
