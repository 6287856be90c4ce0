"""A detector on disk: saved whole or not at all, and only taken up again by the config it was saved under."""

from __future__ import annotations

import glob
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..detector.detector import Detector
    from ..io.config import Config

_MARK = "mfbocd-drive"
_VERSION = 1


def save(path: Path, detector: Detector, config: Config) -> None:
    """Write beside, sync, rename: a crash leaves the last state or this one, nothing between."""
    head = {"kind": _MARK, "version": _VERSION, "config": config.digest(), "ticks": detector.ticks}
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with beside.open("wb") as file:
            file.write(json.dumps(head).encode() + b"\n" + detector.to_bytes())
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise ValueError(f"cannot save the state in {path}: {error.strerror}") from None
    folder = os.open(path.absolute().parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _sweep(path: Path) -> None:
    """Remove what a process that was killed while it saved has left beside."""
    for beside in path.parent.glob(f".{glob.escape(path.name)}.*.new"):
        writer = beside.name.split(".")[-2]
        try:
            os.kill(int(writer), 0)
        except ProcessLookupError:
            beside.unlink(missing_ok=True)
        except (ValueError, OSError):  # not ours, or alive
            continue


def load(path: Path, config: Config) -> Detector:
    """The saved detector; ValueError, saying why, if this is no state or belongs to another config."""
    from ..detector.detector import Detector

    _sweep(path)
    first, _, rest = path.read_bytes().partition(b"\n")
    try:
        head = json.loads(first)
        known = head["kind"] == _MARK
    except (ValueError, TypeError, KeyError):
        known = False
    if not known:
        raise ValueError(f"{path} is not a state `mfbocd drive` saved")
    if head["version"] != _VERSION:
        raise ValueError(f"{path} has format version {head['version']}; this mfbocd reads version {_VERSION}")
    if head["config"] != config.digest():
        raise ValueError(
            f"{path} was saved under another config: model, fidelities, hazard, policy, alarm and seed must be as "
            f"they were for its {head['ticks']} ticks to mean anything. Use that config, or another --state file."
        )
    try:
        return Detector.from_bytes(rest)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
