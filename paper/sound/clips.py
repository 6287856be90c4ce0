"""WAV clips as the inputs of an anomaly autoencoder: log-mel spectrograms, five frames at a time.

With numpy and scipy: librosa would add an audio stack for the thirty lines below. The parameters are those of the
MLPerf Tiny benchmark (librosa's mel scale and filters), so that its autoencoder can be used; but frames lie wholly
inside the clip, where librosa pads its ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.io import wavfile
from scipy.signal import get_window

Array = NDArray[np.float64]

FFT = 1024
HOP = 512
MELS = 128
FRAMES = 5
INPUTS = MELS * FRAMES
SCORES = 14
"""Per clip, as in the paper: its windows in 14 equal parts, one score each."""
SHORTEST = FFT + HOP * (SCORES + FRAMES - 2)
"""Samples of the shortest clip that has a window for every score."""


@dataclass(frozen=True)
class Folder:
    """The clips of one machine."""

    name: str
    """MACHINE/ID."""
    clips: tuple[Path, ...]
    """Normal ones first, in the order of their names."""
    anomalous: tuple[bool, ...]


def folders(root: Path, least: tuple[int, int]) -> list[Folder]:
    """The machines in `root`, MACHINE/ID/normal/*.wav and abnormal/*.wav; `least` clips of each kind are needed."""
    found = []
    for machine in _inside(root):
        for each in _inside(machine):
            kinds = []
            for kind, few in zip(("normal", "abnormal"), least, strict=True):
                if not (each / kind).is_dir():
                    raise ValueError(f"clips: {each} has no folder {kind!r}")
                paths = sorted(p for p in (each / kind).iterdir() if p.suffix.lower() == ".wav")
                if len(paths) < few:
                    raise ValueError(f"clips: {each / kind} must contain at least {few} WAV clips, not {len(paths)}")
                kinds.append(paths)
            labels = [False] * len(kinds[0]) + [True] * len(kinds[1])
            found.append(Folder(f"{machine.name}/{each.name}", (*kinds[0], *kinds[1]), tuple(labels)))
    if not found:
        raise ValueError(f"clips: {root} contains no folder MACHINE/ID with the folders normal and abnormal")
    return found


def _inside(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))


def read(path: Path) -> tuple[int, Array]:
    """Samples per second and the first channel, with full scale 1; errors name the file."""
    try:
        rate, samples = wavfile.read(path)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path} is not a readable WAV file: {error}") from error
    first = samples[:, 0] if samples.ndim == 2 else samples
    if first.size < SHORTEST:
        raise ValueError(f"{path} must contain at least {SHORTEST} samples, {SCORES} windows, not {first.size}")
    if first.dtype.kind == "f":
        return int(rate), first.astype(np.float64)
    half = 2.0 ** (8 * first.dtype.itemsize - 1)
    return int(rate), (first.astype(np.float64) - (half if first.dtype.kind == "u" else 0.0)) / half


def mel(hertz: ArrayLike) -> Array:
    """Slaney's scale: linear up to 1000 Hz, 15 mel, then 27 mel per factor of 6.4.

    >>> mel([0.0, 1000.0, 6400.0])
    array([ 0., 15., 42.])
    """
    f = np.asarray(hertz, dtype=float)
    return np.where(f < 1000.0, f * 0.015, 15.0 + 27.0 * np.log(np.maximum(f, 1000.0) / 1000.0) / np.log(6.4))


def hertz(mels: ArrayLike) -> Array:
    """The inverse of `mel`.

    >>> hertz([0.0, 15.0, 42.0])
    array([   0., 1000., 6400.])
    """
    m = np.asarray(mels, dtype=float)
    return np.where(m < 15.0, m / 0.015, 1000.0 * 6.4 ** ((np.maximum(m, 15.0) - 15.0) / 27.0))


def corners(rate: int) -> Array:
    """Frequencies where triangles begin, peak and end, equidistant in mel: filter i has corners i, i + 1, i + 2."""
    return hertz(np.linspace(0.0, float(mel(rate / 2)), MELS + 2))


def triangles(rate: int, at: ArrayLike) -> Array:
    """The filters' values at these frequencies, (MELS, ...): 1 at the middle corner, 0 at the outer two."""
    f = np.asarray(at, dtype=float)
    c = corners(rate)[:, None]
    up, down = (f - c[:-2]) / (c[1:-1] - c[:-2]), (c[2:] - f) / (c[2:] - c[1:-1])
    return np.asarray(np.maximum(np.minimum(up, down), 0.0))


@cache
def filters(rate: int) -> Array:
    """The mel filter bank, (MELS, FFT // 2 + 1): triangles of area 1 over frequency in hertz."""
    c = corners(rate)
    return np.asarray(triangles(rate, np.fft.rfftfreq(FFT, 1.0 / rate)) * (2.0 / (c[2:] - c[:-2]))[:, None])


def log_mel(samples: Array, rate: int) -> Array:
    """The log-mel power spectrogram in decibels, (frames, MELS)."""
    frames = np.lib.stride_tricks.sliding_window_view(samples, FFT)[::HOP]
    power = np.abs(np.fft.rfft(frames * get_window("hann", FFT), axis=1)) ** 2
    return np.asarray(10.0 * np.log10(power @ filters(rate).T + np.finfo(float).eps))


def windows(spectrogram: Array) -> NDArray[np.float32]:
    """Every FRAMES consecutive frames as one input, (frames - FRAMES + 1, INPUTS), frame after frame."""
    parts = np.lib.stride_tricks.sliding_window_view(spectrogram, FRAMES, axis=0)  # (n, MELS, FRAMES)
    return parts.transpose(0, 2, 1).reshape(len(parts), INPUTS).astype(np.float32)


def load(path: Path, rate: int | None = None) -> tuple[int, NDArray[np.float32]]:
    """A clip's samples per second and its windows; an error if it does not have the given rate."""
    own, samples = read(path)
    if rate is not None and own != rate:
        raise ValueError(
            f"{path} has {own} samples per second, the clips before it {rate}: all must have the same rate"
        )
    return own, windows(log_mel(samples, own))
