"""The state file of `mfbocd drive`: written atomically, and loaded only with the configuration it was saved with."""

from __future__ import annotations

import glob
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ..detector.detector import Detector
    from ..io.config import Config
    from ..trace.tracker import LevelTracker

MAX_HEAD = 1 << 20
"""Maximum length of the first line, in bytes."""
_KIND = "mfbocd-drive"
_VERSION = 2
"""The only version that is read. A migration from an older version would go into `read`."""


def save(path: Path, detector: Detector, config: Config, tracker: LevelTracker | None = None) -> None:
    """Write a temporary file, sync it and rename it, so that a crash leaves either the old or the new state.

    With the tracker, the levels of later changes are those of a run without interruption.
    """
    head = {"kind": _KIND, "version": _VERSION, "config": config.digest(), "ticks": detector.ticks}
    head["settings"] = config.to_dict()  # for readers of the file who lack the configuration
    if tracker is not None:
        head["levels"] = tracker.to_dict()
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


class Saved(NamedTuple):
    """The contents of a state file."""

    digest: str
    """Fingerprint of the configuration (`Config.digest`)."""
    settings: dict[str, Any]
    """The configuration as plain values."""
    detector: Detector
    levels: dict[str, Any] | None
    """What `LevelTracker.restore` takes, if it was saved."""


def read(path: Path) -> Saved:
    """Read a state file; raises ValueError if it is none."""
    from ..detector.detector import Detector

    first, _, rest = path.read_bytes().partition(b"\n")
    head = _head(first)
    if head is None:
        raise ValueError(f"{path} is not a state file of `mfbocd drive`")
    if head.get("version") != _VERSION:
        raise ValueError(
            f"{path} has format version {head.get('version')}, and this mfbocd reads version {_VERSION}: "
            "use the mfbocd that wrote it, or another --state file"
        )
    try:
        return Saved(head["config"], head["settings"], Detector.from_bytes(rest), head.get("levels"))
    except KeyError as missing:
        raise ValueError(f"{path} is damaged: its first line has no {missing}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def is_state(path: str) -> bool:
    """Return whether a path is a state file, of whatever version."""
    try:
        with open(path, "rb") as file:
            return _head(file.readline(MAX_HEAD)) is not None
    except (OSError, ValueError):  # a name may contain characters that no path has
        return False


def _head(line: bytes) -> dict[str, Any] | None:
    try:
        head = json.loads(line)
        return head if head["kind"] == _KIND else None
    except (ValueError, TypeError, KeyError):
        return None


def describe(path: Path) -> dict[str, Any]:
    """Return what a state file contains as plain values."""
    saved = read(path)
    detector = saved.detector
    length, weight = detector.run_length
    alarm = detector.alarm
    return {
        "file": str(path),
        "tick": detector.ticks,
        "spent": detector.spent,
        "mean": detector.mean if detector.model.dimension == 1 else list(detector.mean),
        "run_length": int(length[weight.argmax()]),
        "p_change": None if alarm is None else detector.p_changed(within=alarm.within),
        "next": {"fidelity": detector.choose().name},
        "detector": repr(detector),
        "config": saved.settings,
    }


def load(path: Path, config: Config) -> tuple[Detector, str, dict[str, Any] | None]:
    """Load a detector, a remark if costs have changed, and what the levels of later changes need.

    The detector continues with the costs of the configuration.

    Raises ValueError if the file is not a state or belongs to another configuration.
    """
    _remove_leftovers(path)
    saved = read(path)
    detector = saved.detector
    if saved.digest != config.digest():
        raise ValueError(
            f"{path} was saved with another configuration, and its {detector.ticks} ticks are only valid with the "
            "same model, fidelities, hazard, policy, alarm and seed (costs may differ)"
            f"{_difference(saved.settings, config)}. Use that configuration, or another --state file."
        )
    fidelities = config.detector(missing="skip").fidelities
    if detector.fidelities == fidelities:
        return detector, "", saved.levels
    changed = (
        f"{new.name} {old.cost_of():g} -> {new.cost_of():g}"
        for old, new in zip(detector.fidelities, fidelities, strict=True)
        if old.cost != new.cost
    )
    return detector.with_fidelities(fidelities), f"Costs have changed: {', '.join(changed)}.", saved.levels


def _difference(before: dict[str, Any], config: Config) -> str:
    """Return the keys that differ, as a remark."""
    from ..io.config import Config, ConfigError

    try:
        old, new = (one.lasting() for one in (Config.parse(before), config))
    except ConfigError:  # the first line was edited
        return ""
    return f"; another {', '.join(k for k in {**old, **new} if old.get(k) != new.get(k))} was found"
