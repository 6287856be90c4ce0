"""The state file of `mfbocd drive`: written atomically, and loaded only with the configuration it was saved with."""

from __future__ import annotations

import glob
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..detector.detector import Detector
    from ..io.config import Config

_KIND = "mfbocd-drive"
_VERSION = 1


def save(path: Path, detector: Detector, config: Config) -> None:
    """Write a temporary file, sync it and rename it, so that a crash leaves either the old or the new state."""
    head = {"kind": _KIND, "version": _VERSION, "config": config.digest(), "ticks": detector.ticks}
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with temporary.open("wb") as file:
            file.write(json.dumps(head).encode() + b"\n" + detector.to_bytes())
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise ValueError(f"cannot save the state in {path}: {error.strerror}") from None
    folder = os.open(path.absolute().parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _remove_leftovers(path: Path) -> None:
    """Remove temporary files of processes that were killed while they saved."""
    for temporary in path.parent.glob(f".{glob.escape(path.name)}.*.new"):
        writer = temporary.name.split(".")[-2]
        try:
            os.kill(int(writer), 0)
        except ProcessLookupError:
            temporary.unlink(missing_ok=True)
        except (ValueError, OSError):  # not one of these files, or its process is alive
            continue


def load(path: Path, config: Config) -> Detector:
    """Load a detector; raises ValueError if the file is not a state or belongs to another configuration."""
    from ..detector.detector import Detector

    _remove_leftovers(path)
    first, _, rest = path.read_bytes().partition(b"\n")
    try:
        head = json.loads(first)
        is_state = head["kind"] == _KIND
    except (ValueError, TypeError, KeyError):
        is_state = False
    if not is_state:
        raise ValueError(f"{path} is not a state file of `mfbocd drive`")
    if head["version"] != _VERSION:
        raise ValueError(f"{path} has format version {head['version']}; this mfbocd reads version {_VERSION}")
    if head["config"] != config.digest():
        raise ValueError(
            f"{path} was saved with another configuration, and its {head['ticks']} ticks are only valid with the "
            "same model, fidelities, hazard, policy, alarm and seed. Use that configuration, or another --state file."
        )
    try:
        return Detector.from_bytes(rest)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
