"""A detector as bytes and back."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import wraps
from math import inf, isfinite
from typing import Any, ParamSpec, TypeVar
from zlib import crc32

import numpy as np

from .. import models
from .._kernels import layout
from ..belief.filter import Array, check_saved, state_of, table
from ..belief.hazard import Hazard, Learned
from ..belief.pruning import Pruning
from ..belief.serialization import encode, pack, plain, preface, seal, unpack
from ..models import Model
from ..policy import POLICIES
from ..policy.fidelity import Fidelity
from .shadow import ShadowGuard
from .step import Alarm

P = ParamSpec("P")
T = TypeVar("T")
_WHOLE = 2**53  # whole numbers below are exact in an array


def to_bytes(detector: Any) -> bytes:
    """`Detector.to_bytes`."""
    learnt, numbers = _parted(detector.policy.state())
    return pack(
        _facts(detector, learnt, numbers),
        {
            "hazard": detector.hazard.table,
            "numbers": np.array([_checked(detector.spent), *numbers.values()]),
            **belief_of(detector),
        },
    )


def _facts(detector: Any, learnt: dict[str, Any], numbers: dict[str, float]) -> dict[str, Any]:
    """What of a detector does not move with every tick; of the numbers, which are in an array, the kinds."""
    try:
        spec = {"kind": type(detector.model).__name__, **detector.model.spec()}
    except TypeError:
        spec = {"kind": type(detector.model).__name__}
    return {
        "model": spec,
        "fidelities": [[f.name, f.zeta, None if callable(f.cost) else f.cost] for f in detector.fidelities],
        "policy": {"kind": type(detector.policy).__name__, **detector.policy.spec()},
        "learnt": learnt,
        "numbers": {name: type(value).__name__ for name, value in numbers.items()},
        "on_error": detector.on_error,
        "shadow": {name: guard.spec() for name, guard in detector.shadow.items()},
        "pruning": asdict(detector.pruning),
        "alarm": asdict(detector.alarm) if detector.alarm else None,
        "seed": detector.seed,
        "missing": detector.missing,
        "rows": table(detector.filter.state).shape[0],
        "learned": [h.low, h.high, h.points] if isinstance(h := detector.hazard, Learned) else None,
    }


def _parted(state: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, float]]:
    """What a policy has learnt: all but the plain numbers, and these; what is not finite `encode` will refuse."""
    learnt: dict[str, Any] = {}
    numbers: dict[str, float] = {}
    for name, value in state.items():
        if (type(value) is float and -inf < value < inf) or (type(value) is int and -_WHOLE < value < _WHOLE):
            numbers[name] = value
        else:
            learnt[name] = value
    return learnt, numbers


def _checked(spent: float) -> float:
    if not isfinite(spent):
        raise ValueError(f"a detector that has spent {spent} cannot be saved: costs must be such that they add up")
    return spent


def belief_of(detector: Any) -> dict[str, Array]:
    """The state without the room there happens to be."""
    state = detector.filter.state
    head = state[: layout.HEAD].copy()
    head[layout.CAP] = 0.0
    return {"head": head, "live": table(state)}


class Serializer:
    """`Detector.to_bytes` of one detector again and again: what does not change is worked out once.

    Guards of a `shadow` learn with every tick, and are refused.

    >>> from mfbocd import Detector, Gaussian
    >>> detector = Detector(Gaussian(0, 9, 1))
    >>> freeze = Serializer(detector)
    >>> step = detector.update(0.5)
    >>> freeze(detector) == detector.to_bytes()
    True
    """

    def __init__(self, detector: Any) -> None:
        if detector.shadow:
            raise ValueError(f"detector must have no shadow, not {', '.join(detector.shadow)}: use to_bytes")
        self._cut(detector, detector.policy.state())

    def _cut(self, detector: Any, state: Mapping[str, Any]) -> None:
        """Work out what stays as long as the policy does, and has learnt nothing but other numbers."""
        learnt, numbers = _parted(state)
        self.policy, self._learnt, self._names, self._size = detector.policy, learnt, tuple(numbers), len(state)
        hazard = detector.hazard.table
        sizes = {"hazard": hazard.size, "numbers": 1 + len(numbers), "head": layout.HEAD, "live": 0}
        self.begin = preface(_facts(detector, learnt, numbers), sizes) + plain(hazard)
        self.check = crc32(self.begin)
        self.width = 1 + len(numbers)
        """How many `numbers` there are."""
        self._pack = struct.Struct(f"<{self.width}d").pack

    def __call__(self, detector: Any) -> bytes:
        """The same bytes as `detector.to_bytes()`."""
        numbers = self.numbers(detector)  # before anything else is looked at: it may be cut anew
        return seal(self.begin, self.check, self._pack(*numbers), *map(plain, belief_of(detector).values()))

    def numbers(self, detector: Any) -> list[float]:
        """What stands between `begin`, of which `check` is the checksum, and the belief; all as they now are."""
        state = detector.policy.state()
        if detector.policy is not self.policy or len(state) != self._size:
            self._cut(detector, state)
        for name, value in self._learnt.items():
            if state[name] != value:
                self._cut(detector, state)
                break
        numbers = [detector.spent, *[state[name] for name in self._names]]
        if not isfinite(sum(numbers)):
            _checked(detector.spent)
            self._cut(detector, state)  # which refuses them
        return numbers


_DAMAGE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
)


def _refusing(load: Callable[P, T]) -> Callable[P, T]:
    """Raise ValueError for whatever facts that do not fit one another lead to: a checksum can be made for any."""

    @wraps(load)
    def refusing(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return load(*args, **kwargs)
        except _DAMAGE as error:
            raise ValueError(f"the saved detector is damaged: {type(error).__name__}: {error}") from error

    return refusing


def from_bytes(
    cls: Any,
    data: bytes,
    observers: Mapping[str, Callable[[Any], Any]],
    costs: Mapping[str, Callable[[Any], float]],
    model: Model | None,
) -> Any:
    """`Detector.from_bytes`; `cls` is the class to build."""
    facts, arrays = unpack(data)
    return _made(cls, facts, arrays, observers, costs, model)


@_refusing
def _made(
    cls: Any,
    facts: dict[str, Any],
    arrays: dict[str, Array],
    observers: Mapping[str, Callable[[Any], Any]],
    costs: Mapping[str, Callable[[Any], float]],
    model: Model | None,
) -> Any:
    spec = facts["model"]
    kind = spec.pop("kind")
    if model is None:
        if not spec or kind not in models.__all__ or not issubclass(getattr(models, kind), Model):
            raise ValueError(f"the saved detector's model is {kind}, which holds functions: pass model=")
        model = getattr(models, kind)(**spec)
    elif type(model).__name__ != kind:
        raise ValueError(f"the saved detector's model is {kind}, not {model!r}")
    known = {name for name, _, _ in facts["fidelities"]}
    for field, given in (("observers", observers), ("costs", costs)):
        for name in given:
            if name not in known:
                raise ValueError(f"{field} names {name!r}, which is none of {', '.join(sorted(known))}")
    fidelities = []
    for name, zeta, cost in facts["fidelities"]:
        if cost is None and name not in costs:
            raise ValueError(f"the cost of {name!r} was a function, which bytes cannot carry: pass costs=")
        fidelities.append(Fidelity(name, zeta, costs.get(name, cost), observers.get(name)))
    spec = dict(facts["policy"])
    policy = POLICIES[spec.pop("kind")](**spec)
    policy.shared = True  # it was checked when it was made, maybe for more streams than this one
    detector = cls(
        model,
        fidelities,
        Learned(*facts["learned"]) if facts.get("learned") else Hazard(arrays["hazard"]),
        policy=policy,
        prune=Pruning(**facts["pruning"]),
        alarm=Alarm(**facts["alarm"]) if facts["alarm"] else None,
        seed=facts["seed"],
        missing=facts["missing"],
        on_error=facts["on_error"],
        shadow={name: ShadowGuard.from_spec(spec) for name, spec in facts["shadow"].items()},
    )
    extra = layout.STATS + detector.filter.candidates.size
    if model.columns + extra != facts["rows"]:
        raise ValueError(f"the saved detector has {facts['rows'] - extra} statistics, {model!r} {model.columns}")
    restore(detector, facts, arrays, int(detector.filter.state[layout.CAP]))
    return detector


class Loader:
    """`Detector.from_bytes` of many: those made alike share all that no tick changes.

    `make` is `Detector.from_bytes`; it knows `most` different ones.

    >>> from mfbocd import Detector, Gaussian
    >>> saved = Detector(Gaussian(0, 9, 1)).to_bytes()
    >>> make = Loader(Detector.from_bytes)
    >>> one, other = make(saved), make(saved)
    >>> one.model is other.model, one.update(0.5).tick, other.ticks
    (True, 0, 0)
    """

    def __init__(self, make: Callable[[bytes], Any], most: int = 256) -> None:
        self._make, self._most = make, most
        self._known: dict[tuple[str, bytes], Any] = {}

    def __call__(self, data: bytes) -> Any:
        """The saved detector."""
        facts, arrays = unpack(data)
        made = {name: fact for name, fact in facts.items() if name not in ("learnt", "numbers", "spent")}
        # bytes of an earlier version may lack something learnt: another stream's must not stand in for it
        learnt, numbers = facts.get("learnt"), facts.get("numbers", {})
        if not isinstance(learnt, dict) or not isinstance(numbers, dict):
            return self._make(data)  # which refuses it, and says why
        made["names"] = sorted({**learnt, **numbers})
        key = encode(made), plain(arrays["hazard"])
        like = self._known.get(key)
        if like is None:
            like = self._make(data)
            if like.shadow:  # its guards learn too
                return like
            if len(self._known) >= self._most:
                self._known.clear()
            self._known[key] = like
        detector = like.twin()
        restore(detector, facts, arrays, int(like.filter.state[layout.CAP]))
        return detector


@_refusing
def restore(detector: Any, facts: Mapping[str, Any], arrays: Mapping[str, Array], rows: int) -> None:
    """Put a detector where another of the same making was saved (`unpack`), with room for `rows` hypotheses.

    What the saved policy's state does not name stays as it is, so `detector` must be one before its first tick.
    """
    kind = facts["policy"]["kind"]
    if kind != type(detector.policy).__name__:
        raise ValueError(f"the saved detector's policy is {kind}, not {detector.policy!r}")
    learnt, spent = dict(facts["learnt"]), facts.get("spent")
    if spent is None:  # as it is since version 2
        spent, *numbers = arrays["numbers"].tolist()
        kinds = facts["numbers"].items()
        learnt |= {name: int(v) if kind == "int" else v for (name, kind), v in zip(kinds, numbers, strict=True)}
    if not 0.0 <= spent < inf:
        raise ValueError(f"the saved detector has spent {spent!r}")
    live = arrays["live"].reshape(facts["rows"], -1)
    belief = detector.filter
    check_saved(detector.model, belief.setup, arrays["head"], live, rows)
    detector.policy.restore(learnt)  # from here on nothing fails: all of it is taken, or nothing
    detector.adopt(state_of(detector.model, arrays["head"], live, rows), float(spent))
