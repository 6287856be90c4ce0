"""A detector as bytes and back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from . import models
from ._kernels import layout as at
from .fidelity import Fidelity
from .filter import Array, state_of, table
from .hazard import Hazard, Learned
from .models import Model
from .policy import POLICIES
from .prune import Pruning
from .saving import assemble, encode, pack, unpack
from .shadow import ShadowGuard
from .tick import Alarm


def to_bytes(detector: Any) -> bytes:
    """`Detector.to_bytes`."""
    try:
        spec = {"kind": type(detector.model).__name__, **detector.model.spec()}
    except TypeError:
        spec = {"kind": type(detector.model).__name__}
    facts = {
        "model": spec,
        "fidelities": [[f.name, f.zeta, None if callable(f.cost) else f.cost] for f in detector.fidelities],
        "policy": _rule(detector.policy),
        "learnt": detector.policy.state(),
        "on_error": detector.on_error,
        "shadow": {name: guard.spec() for name, guard in detector.shadow.items()},
        "pruning": asdict(detector.pruning),
        "alarm": asdict(detector.alarm) if detector.alarm else None,
        "seed": detector.seed,
        "missing": detector.missing,
        "spent": detector.spent,
        "rows": table(detector.filter.state).shape[0],
        "learned": [h.low, h.high, h.points] if isinstance(h := detector.hazard, Learned) else None,
    }
    return pack(facts, arrays_of(detector))


def arrays_of(detector: Any) -> dict[str, Array]:
    """What of the bytes moves with every tick, and the hazard beside it."""
    state = detector.filter.state
    head = state[: at.HEAD].copy()
    head[at.CAP] = 0.0  # how much room there happens to be is no part of the state
    return {"hazard": detector.hazard.table, "head": head, "live": table(state)}


class Freezer:
    """`Detector.to_bytes` of one detector again and again: what does not change is worked out once.

    Guards of a `shadow` learn with every tick, and are refused.

    >>> from mfbocd import Detector, Gaussian
    >>> detector = Detector(Gaussian(0, 9, 1))
    >>> freeze = Freezer(detector)
    >>> step = detector.update(0.5)
    >>> freeze(detector) == detector.to_bytes()
    True
    """

    def __init__(self, detector: Any) -> None:
        if detector.shadow:
            raise ValueError(f"detector must have no shadow, not {', '.join(detector.shadow)}: use to_bytes")
        facts, arrays = unpack(detector.to_bytes())
        names = list(facts)
        policy, learnt, spent = (names.index(name) for name in ("policy", "learnt", "spent"))
        assert learnt == policy + 1
        parts = names[:policy], names[learnt + 1 : spent], names[spent + 1 :]
        self._before, self._between, self._after = (encode({n: facts[n] for n in part})[1:-1] for part in parts)
        self._after += f',"arrays":{{"hazard":{arrays["hazard"].size},"head":{at.HEAD},"live":'
        self._hazard = arrays["hazard"].astype("<f8", copy=False).tobytes()
        self._policy: Any = None
        self._rule = ""

    def __call__(self, detector: Any, saved: bytes | memoryview | None = None) -> bytes:
        """The same bytes as `detector.to_bytes()`; `saved` is what `together` gives of its belief."""
        if saved is None:
            arrays = arrays_of(detector)
            saved = b"".join([arrays[name].astype("<f8", copy=False).tobytes() for name in ("head", "live")])
        policy = detector.policy
        if policy is not self._policy:
            self._policy = policy
            self._rule = encode(_rule(policy))
        learnt = ",".join([f'"{name}":{_written(value)}' for name, value in policy.state().items()])
        text = (
            f'{{{self._before},"policy":{self._rule},"learnt":{{{learnt}}},{self._between},'
            f'"spent":{_written(detector.spent)},{self._after}{len(saved) // 8 - at.HEAD}}}}}'
        )
        return assemble(text.encode(), self._hazard, saved)


def _rule(policy: Any) -> dict[str, Any]:
    return {"kind": type(policy).__name__, **policy.spec()}


def _written(value: Any) -> str:
    """As `encode`, which takes longer for a plain number."""
    if type(value) is int or (type(value) is float and -math.inf < value < math.inf):
        return repr(value)
    return encode(value)


def from_bytes(
    cls: Any,
    data: bytes,
    observers: Mapping[str, Callable[[Any], Any]],
    costs: Mapping[str, Callable[[Any], float]],
    model: Model | None,
) -> Any:
    """`Detector.from_bytes`; `cls` is the class to build."""
    facts, arrays = unpack(data)
    spec = facts["model"]
    kind = spec.pop("kind")
    if model is None:
        if not spec or not hasattr(models, kind):
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
    policy = dict(facts["policy"])
    detector = cls(
        model,
        fidelities,
        Learned(*facts["learned"]) if facts.get("learned") else Hazard(arrays["hazard"]),
        policy=POLICIES[policy.pop("kind")](**policy),
        prune=Pruning(**facts["pruning"]),
        alarm=Alarm(**facts["alarm"]) if facts["alarm"] else None,
        seed=facts["seed"],
        missing=facts["missing"],
        on_error=facts["on_error"],
        shadow={name: ShadowGuard.from_spec(spec) for name, spec in facts["shadow"].items()},
    )
    extra = at.STATS + detector.filter.candidates.size
    if model.columns + extra != facts["rows"]:
        raise ValueError(f"the saved detector has {facts['rows'] - extra} statistics, {model!r} {model.columns}")
    thaw(detector, facts, arrays, int(detector.filter.state[at.CAP]))
    return detector


def thaw(detector: Any, facts: Mapping[str, Any], arrays: Mapping[str, Array], rows: int) -> None:
    """Put a detector where another of the same making was saved (`unpack`), with room for `rows` hypotheses."""
    detector.policy.restore(facts["learnt"])
    live = arrays["live"].reshape(facts["rows"], -1)
    detector.adopt(state_of(detector.model, arrays["head"], live, rows), facts["spent"])
