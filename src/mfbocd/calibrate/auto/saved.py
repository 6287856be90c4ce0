"""The saved format of the automatic detector.

The container is that of `belief.serialization`. Its facts are the settings, the counters, and for each structure that
is followed: its description, its weight, the change it reported last, and how its detector's numbers are named. Its
arrays are those of the detectors without the hazard, ``0.numbers``, ``0.head``, ``0.live``, ``1.numbers``, ...
(`detector.serialization`), and last the readings that are kept. The models follow from the structures.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import numpy as np

from ..._kernels import layout
from ...belief.alarm import Alarm
from ...belief.serialization import pack, unpack
from ...detector.blocks import BlockDetector
from ...detector.serialization import refusing, restore
from ...inputs.arguments import not_negative
from ...policy import POLICIES
from ...policy.fidelity import Fidelity
from .pattern import Pattern
from .rows import Member, Report
from .season import Array
from .structure import Kind, Structure, Transform

if TYPE_CHECKING:
    from .detector import AutoDetector

_KIND = "AutoDetector"
_ARRAYS = ("numbers", "head", "live")
_COUNTERS = {
    "ticks": "_ticks",
    "next": "_next",
    "refresh": "_refresh",
    "reconsidered": "_reconsidered",
    "origin": "_origin",
    "repeats": "_repeats",
    "early": "_early",
}
"""Whole numbers: name in the facts, attribute."""


T = TypeVar("T", bound="AutoDetector")


def write(detector: AutoDetector) -> bytes:
    """Return the detector as bytes."""
    pattern = detector._pattern
    members: list[dict[str, Any]] = []
    arrays: dict[str, Array] = {}
    for i, member in enumerate(detector._members):
        facts, parts = unpack(member.detector.to_bytes())
        arrays |= {f"{i}.{name}": parts[name] for name in _ARRAYS}
        members.append(
            {
                "structure": member.structure.to_dict(),
                "weight": member.weight,
                "report": list(member.report) if member.report else None,
                "policy": facts["policy"],
                "learnt": facts["learnt"],
            }
        )
    return pack(
        {
            "kind": _KIND,
            "hazard": detector.hazard,
            "alarm": asdict(detector.alarm),
            "period": detector.period,
            "history": detector.history,
            "seed": detector.seed,
            "surprise": detector.surprise,
            "fidelities": [
                [f.name, f.zeta, None if callable(f.cost) else f.cost, f.offset, f.scale] for f in detector.fidelities
            ],
            "policy": {"kind": type(detector.policy).__name__, **detector.policy.spec()},
            "learned": detector.policy.state(),
            "spent": detector.spent,
            **{name: getattr(detector, attribute) for name, attribute in _COUNTERS.items()},
            "early_mean": detector._early_mean,
            "once": detector._once,
            "changes": detector.changes,
            "members": members,
            "pattern": None if pattern is None else [pattern.origin, b64encode(pattern.detector.to_bytes()).decode()],
        },
        {**arrays, "readings": detector._x, "choice": _choices(detector)},
    )


def _choices(detector: AutoDetector) -> Array:
    """Return the index of the fidelity of each reading that is kept; nothing if there is only one."""
    if len(detector.fidelities) == 1:
        return np.empty(0)
    return detector._choice.astype(np.float64)


def read(
    cls: type[T],
    data: bytes,
    observers: Mapping[str, Callable[[Any], Any]],
    costs: Mapping[str, Callable[[Any], float]],
) -> T:
    """Return the detector that `write` saved."""
    facts, arrays = unpack(data)
    if facts.get("kind") != _KIND:
        raise ValueError("these bytes are not a saved AutoDetector")
    return _build(cls, facts, arrays, observers, costs)


@refusing
def _build(
    cls: type[T],
    facts: Mapping[str, Any],
    arrays: Mapping[str, Array],
    observers: Mapping[str, Callable[[Any], Any]],
    costs: Mapping[str, Callable[[Any], float]],
) -> T:
    settings = {name: facts[name] for name in ("period", "history", "seed", "surprise")}
    fidelities = []
    for name, zeta, cost, offset, scale in facts["fidelities"]:
        if cost is None and name not in costs:
            raise ValueError(f"the cost of {name!r} was a function, which cannot be saved: pass costs=")
        fidelities.append(Fidelity(name, zeta, costs.get(name, cost), observers.get(name), offset, scale))
    policy = dict(facts["policy"])
    kind = policy.pop("kind")
    detector = cls(
        facts["hazard"], Alarm(**facts["alarm"]), **settings, fidelities=fidelities, policy=POLICIES[kind](**policy)
    )
    detector.policy.restore(facts["learned"])
    detector.spent = not_negative("", "spent", facts["spent"])
    for name, attribute in _COUNTERS.items():
        _require(type(facts[name]) is int and facts[name] >= -1, name)
        setattr(detector, attribute, facts[name])
    detector._once = facts["once"]
    detector._early_mean = float(facts["early_mean"])
    detector._x = arrays["readings"]
    choice = arrays["choice"].astype(np.int64)
    detector._choice = choice if len(fidelities) > 1 else np.zeros(detector._x.size, dtype=np.int64)
    _require(detector._choice.size == detector._x.size, "the number of choices")
    _require(bool(((detector._choice >= 0) & (detector._choice < len(fidelities))).all()), "a choice")
    detector.changes = [(int(tick), int(at)) for tick, at in facts["changes"]]
    ticks = detector.ticks
    _require(ticks >= 0 and detector._x.size == min(ticks, detector.history), "the number of readings")
    _require(not np.isinf(detector._x).any(), "a reading")
    _require(min(detector._next, detector._refresh) > ticks, "the next choice of a structure")
    _require(type(detector._once) is bool, "once")
    _require(0 <= detector._origin <= ticks, "a tick")
    _require(0 <= detector._repeats <= ticks and 0 <= detector._early <= ticks, "a counter")
    _require(detector._reconsidered >= 0, "a counter")
    _require(all(0 <= at <= tick < ticks for tick, at in detector.changes), "a change")
    detector._members = [
        _member(detector, one, {name: arrays[f"{i}.{name}"] for name in _ARRAYS})
        for i, one in enumerate(facts["members"])
    ]
    if facts["pattern"] is not None:
        origin, saved = facts["pattern"]
        detector._pattern = Pattern(BlockDetector.from_bytes(b64decode(saved, validate=True)), int(origin))
        _require(detector._pattern.detector.ticks == ticks - int(origin), "the tick of the pattern")
    return detector


def _member(owner: AutoDetector, facts: Mapping[str, Any], arrays: Mapping[str, Array]) -> Member:
    structure = Structure.from_dict(facts["structure"])
    known = structure.kind in get_args(Kind) and structure.transform in get_args(Transform)
    _require(known and min(structure.noise, structure.spread) > 0.0, "a structure")  # its model checks the rest
    _require(0.0 <= facts["weight"] <= 1.0, "a weight")
    detector = owner._make(structure, owner._origin)
    restore(detector, {**facts, "columns": int(detector._filter.state[layout.COLUMNS])}, arrays)
    _require(detector.ticks == owner.ticks - owner._origin, "the tick of a structure")
    report = None
    if facts["report"] is not None:
        tick, changed_at, confidence = facts["report"]
        _require(0 <= int(changed_at) <= int(tick) < owner.ticks and 0.0 <= confidence <= 1.0, "a report")
        report = Report(int(tick), int(changed_at), float(confidence))
    return Member(structure, float(facts["weight"]), detector, report)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"the saved detector is damaged: {what} is wrong")
