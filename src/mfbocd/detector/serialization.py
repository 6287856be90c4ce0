"""The saved format of a detector: the one writer (`Serializer`) and the one reader (`from_bytes`, `Loader`).

`belief.serialization` has the container. Its facts describe the configuration and name the numbers the policy has
learned. Its arrays are, in this order:

- ``hazard``: the hazard's table;
- ``numbers``: the cost spent so far, then what the policy has learned;
- ``head``: the header of the state (`_kernels.layout`), with the capacity set to 0, because it is not part of the
  belief;
- ``live``: the columns of the dropped hypotheses that are kept (`_kernels.dropped`) and of the live ones.

Only the last three change from tick to tick. Streams that differ only in their seed therefore begin with the same
bytes: the seed is in the header.
"""

from __future__ import annotations

import copy
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import wraps
from math import inf, isfinite
from typing import Any, NamedTuple, ParamSpec, TypeVar
from zlib import crc32

from .. import models
from .._kernels import layout
from ..belief.alarm import Alarm
from ..belief.hazard import Hazard, Learned
from ..belief.pruning import Pruning
from ..belief.serialization import contents, parse, plain, prefix, seal, split, unpack
from ..belief.state import Array, check_saved, hypotheses, state_of
from ..models import Model
from ..models.nested import saved_arguments
from ..policy import POLICIES
from ..policy.fidelity import Fidelity
from .shadow import ShadowGuard

P = ParamSpec("P")
T = TypeVar("T")
_EXACT = 2**53  # integers below are exact as floats
_ZERO = bytes(8)
_CAP, _AFTER_CAP = 8 * layout.CAP, 8 * layout.CAP + 8  # bytes of a header


class Serializer:
    """Writes the bytes of detectors that share one configuration; what they have in common is computed once.

    The configuration is that of the detector at construction. Make another `Serializer` when its policy is replaced,
    when it has shadow guards and they have seen another pair, or when it has learned a zeta or a cost: all of that
    counts as configuration.

    Parameters
    ----------
    detector : Detector
        The detector whose model, fidelities, hazard, policy, pruning, alarm and other arguments are written.

    Examples
    --------
    >>> from mfbocd import Detector, Gaussian
    >>> detector = Detector(Gaussian(0, 9, 1))
    >>> serializer = Serializer(detector)
    >>> step = detector.update(0.5)
    >>> serializer.write(detector) == detector.to_bytes()
    True
    """

    prefix: bytes
    """What precedes the numbers: the same for every stream of this configuration."""

    def __init__(self, detector: Any) -> None:
        self._facts = _configuration(detector)
        self._hazard = detector.hazard.table
        self._learned: dict[str, str | int] | None = None
        self.numbers(0.0, detector.policy.state())

    def numbers(self, spent: float, learned: Mapping[str, Any]) -> list[float]:
        """Return the numbers to write, after computing the constant part again if it does not describe them.

        Parameters
        ----------
        spent : float
            Cost of all readings so far.
        learned : mapping
            `Policy.state()`: numbers, and lists of numbers. The constant part has their names, types and lengths, so
            it holds for other values until a list has another length.

        Returns
        -------
        list of float
            `spent`, then the numbers of `learned` in order.

        Raises
        ------
        TypeError
            If something learned is not a number or a list of numbers.
        ValueError
            If an int is too large to be exact as a float.
        """
        kinds: dict[str, str | int] = {}
        values = [spent]
        for name, value in learned.items():
            if type(value) is float:
                kinds[name] = "float"
                values.append(value)
            elif type(value) is int:
                if not -_EXACT < value < _EXACT:
                    raise ValueError(f"a policy whose {name!r} is {value} cannot be saved: it must be below 2**53")
                kinds[name] = "int"
                values.append(value)
            elif type(value) is list and all(type(v) in (float, int) for v in value):
                kinds[name] = len(value)
                values.extend(value)
            else:
                raise TypeError(f"a policy's {name!r} must be a number or a list of numbers, not {value!r}")
        if kinds != self._learned:
            sizes = {"hazard": self._hazard.size, "numbers": len(values), "head": layout.HEAD, "live": 0}
            self.prefix = prefix({**self._facts, "learnt": kinds}, sizes) + plain(self._hazard)
            self._check = crc32(self.prefix)
            self._pack = struct.Struct(f"<{len(values)}d").pack
            self._learned = kinds
        return values

    def __call__(self, numbers: Sequence[float], state: Array) -> bytes:
        """Return the bytes of one stream.

        Parameters
        ----------
        numbers : sequence of float
            The cost spent and what the policy has learned, as `numbers` returns them.
        state : ndarray, 1-d, float64
            The stream's state (`_kernels.layout`), such as a row of a fleet's matrix.

        Returns
        -------
        bytes
            What `from_bytes` and `Loader` read.

        Raises
        ------
        ValueError
            If a number is not finite.
        """
        if not isfinite(sum(numbers)):
            _refuse_infinite(numbers)
        head = state[: layout.HEAD].astype("<f8", copy=False).tobytes()
        head = head[:_CAP] + _ZERO + head[_AFTER_CAP:]
        return seal(self.prefix, self._check, self._pack(*numbers), head, plain(hypotheses(state)))

    def write(self, detector: Any) -> bytes:
        """Return the bytes of a detector of this configuration: `Detector.to_bytes`."""
        numbers = self.numbers(detector.spent, detector.policy.state())
        return self(numbers, detector._filter.state)


def _configuration(detector: Any) -> dict[str, Any]:
    """Return the arguments of a detector as plain values, all but its seed and its hazard's table."""
    model, policy, hazard = detector.model, detector.policy, detector.hazard
    try:
        spec = {"kind": type(model).__name__, **model.spec()}
    except TypeError:  # it has functions, which `from_bytes` must be given again
        spec = {"kind": type(model).__name__}
    corrections = {f.name: [f.offset, f.scale] for f in detector.fidelities if f.has_correction}
    return {
        "model": spec,
        "fidelities": [[f.name, f.zeta, None if callable(f.cost) else f.cost] for f in detector.fidelities],
        "policy": {"kind": type(policy).__name__, **policy.spec()},
        "learned_hazard": [hazard.low, hazard.high, hazard.points] if isinstance(hazard, Learned) else None,
        "pruning": asdict(detector.pruning),
        "alarm": asdict(detector.alarm) if detector.alarm else None,
        "missing": detector.missing,
        "on_error": detector.on_error,
        "shadow": {name: guard.spec() for name, guard in detector.shadow.items()},
        "columns": int(detector._filter.state[layout.COLUMNS]),
        # left out where they have their defaults, which keeps the header short
        **({"surprise": True} if detector.surprise else {}),
        **({"learn": True} if detector.learn else {}),
        **({"corrections": corrections} if corrections else {}),
    }


def _refuse_infinite(numbers: Sequence[float]) -> None:
    spent, *learned = numbers
    if not isfinite(spent):
        raise ValueError(f"a detector that has spent {spent} cannot be saved: the sum of its costs must be finite")
    if not all(map(isfinite, learned)):
        raise ValueError(f"a policy that has learned {learned} cannot be saved: the numbers must be finite")


_DAMAGE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
)


def refusing(load: Callable[P, T]) -> Callable[P, T]:
    """Turn any error that inconsistent facts lead to into a ValueError: the checksum of such bytes may be right."""

    @wraps(load)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return load(*args, **kwargs)
        except _DAMAGE as error:
            raise ValueError(f"the saved detector is damaged: {type(error).__name__}: {error}") from error

    return guarded


def from_bytes(
    cls: Any,
    data: bytes,
    observers: Mapping[str, Callable[[Any], Any]],
    costs: Mapping[str, Callable[[Any], float]],
    model: Model | None,
) -> Any:
    """Build the saved detector: `Detector.from_bytes`; `cls` is the class to build."""
    facts, arrays = unpack(data)
    return _build(cls, facts, arrays, observers, costs, model)


@refusing
def _build(
    cls: Any,
    facts: Mapping[str, Any],
    arrays: Mapping[str, Array],
    observers: Mapping[str, Callable[[Any], Any]],
    costs: Mapping[str, Callable[[Any], float]],
    model: Model | None,
) -> Any:
    spec = dict(facts["model"])
    kind = spec.pop("kind")
    if model is None:
        if not spec or kind not in models.__all__ or not issubclass(getattr(models, kind), Model):
            raise ValueError(f"the saved detector's model is {kind}, which contains functions: pass model=")
        model = getattr(models, kind)(**saved_arguments(kind, spec))
    elif type(model).__name__ != kind:
        raise ValueError(f"the saved detector's model is {kind}, not {model!r}")
    names = {name for name, _, _ in facts["fidelities"]}
    for field, given in (("observers", observers), ("costs", costs)):
        for name in given:
            if name not in names:
                raise ValueError(f"{field} names {name!r}, which is none of {', '.join(sorted(names))}")
    fidelities = []
    for name, zeta, cost in facts["fidelities"]:
        if cost is None and name not in costs:
            raise ValueError(f"the cost of {name!r} was a function, which cannot be saved: pass costs=")
        correction = facts.get("corrections", {}).get(name, (0.0, 1.0))
        fidelities.append(Fidelity(name, zeta, costs.get(name, cost), observers.get(name), *correction))
    spec = dict(facts["policy"])
    policy = POLICIES[spec.pop("kind")](**spec)
    policy.shared = True  # it was checked when it was made, possibly for more streams than this one
    detector = cls(
        model,
        fidelities,
        Learned(*facts["learned_hazard"]) if facts["learned_hazard"] else Hazard(arrays["hazard"]),
        policy=policy,
        prune=Pruning(**facts["pruning"]),
        alarm=Alarm(**facts["alarm"]) if facts["alarm"] else None,
        missing=facts["missing"],
        on_error=facts["on_error"],
        shadow={name: ShadowGuard.from_spec(spec) for name, spec in facts["shadow"].items()},
        surprise=facts.get("surprise", False),
        learn=facts.get("learn", False),
    )
    saved, own = facts["columns"], int(detector._filter.state[layout.COLUMNS])
    if saved != own:
        other = own - model.columns
        counts = f"{saved - other} statistics per hypothesis, but {model!r} has {model.columns}"
        raise ValueError(f"the saved detector has {counts}")
    restore(detector, facts, arrays)
    return detector


class Saved(NamedTuple):
    """What bytes contain in addition to a configuration."""

    spent: float
    learned: dict[str, Any]
    """`Policy.state()`."""
    state: Array
    """The state (`_kernels.layout`)."""


@refusing
def read_saved(like: Any, facts: Mapping[str, Any], arrays: Mapping[str, Array]) -> Saved:
    """Return the state that bytes contain, checked.

    Parameters
    ----------
    like : Detector
        A detector of the saved configuration. It is not changed; the state has at least the capacity of its own.
    facts, arrays : mapping
        As `belief.serialization.unpack` returns them.
    """
    kind = facts["policy"]["kind"]
    if kind != type(like.policy).__name__:
        raise ValueError(f"the saved detector's policy is {kind}, not {like.policy!r}")
    spent, *numbers = arrays["numbers"].tolist()
    if not 0.0 <= spent < inf:
        raise ValueError(f"the saved detector has spent {spent!r}")
    learned: dict[str, Any] = {}
    at = 0
    for name, kind in facts["learnt"].items():
        count = kind if type(kind) is int else 1
        part = numbers[at : at + count]
        if count < 0 or len(part) != count:
            raise ValueError(f"the saved detector is damaged: {name!r} cannot be {kind!r} numbers")
        if kind == "int" and not (part[0].is_integer() and abs(part[0]) < _EXACT):
            raise ValueError(f"the saved detector is damaged: {name!r} cannot be {part[0]!r}")
        learned[name] = part if type(kind) is int else int(part[0]) if kind == "int" else part[0]
        at += count
    if at != len(numbers):
        raise ValueError(f"the saved detector is damaged: its policy has {len(numbers)} numbers, not {at}")
    live = arrays["live"].reshape(facts["columns"], -1)
    rows = int(like._filter.state[layout.CAP])
    check_saved(like.model, like._filter.setup, arrays["head"], live, rows)
    return Saved(spent, learned, state_of(like.model, arrays["head"], live, rows))


@refusing
def restore(detector: Any, facts: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Make a detector continue where another of the same configuration was saved.

    What the saved policy does not name stays as it is, so `detector` must be one before its first tick. If the bytes
    are refused, it is unchanged.

    Parameters
    ----------
    detector : Detector
        A detector of the saved configuration, before its first tick.
    facts, arrays : mapping
        As `belief.serialization.unpack` returns them.
    """
    saved = read_saved(detector, facts, arrays)
    detector.policy.restore(saved.learned)  # the last step that can fail
    detector.seed = int(saved.state[layout.SEED])
    detector._adopt(saved.state, saved.spent)


class Loader:
    """Loads many detectors; those of one configuration share everything that no tick changes.

    Parameters
    ----------
    make : callable
        Builds one detector from bytes: `Detector.from_bytes`.
    most : int
        How many configurations are remembered.

    Examples
    --------
    >>> from mfbocd import Detector, Gaussian
    >>> saved = Detector(Gaussian(0, 9, 1)).to_bytes()
    >>> load = Loader(Detector.from_bytes)
    >>> one, other = load(saved), load(saved)
    >>> one.model is other.model, one.update(0.5).tick, other.ticks
    (True, 0, 0)
    """

    def __init__(self, make: Callable[[bytes], Any], most: int = 256) -> None:
        self._make, self._most = make, most
        self._parsed: dict[bytes, tuple[dict[str, Any], dict[str, Any]]] = {}
        self._detectors: dict[tuple[bytes, bytes], Any] = {}

    def __call__(self, data: bytes) -> Any:
        """Return the saved detector."""
        text, body = contents(data)
        if text not in self._parsed:
            if len(self._parsed) >= self._most:
                self._parsed.clear()
            self._parsed[text] = parse(text)
        facts, sizes = self._parsed[text]
        arrays = split(body, sizes)
        if "hazard" not in arrays:
            return self._make(data)  # raises the error that says what is wrong
        key = text, plain(arrays["hazard"])
        like = self._detectors.get(key)
        if like is None:
            like = self._make(data)
            if like.shadow or like.learn:  # the text contains what its guards have learned, which few others share
                return like
            if len(self._detectors) >= self._most:
                self._detectors.clear()
            self._detectors[key] = like
        detector = copy.copy(like)
        restore(detector, facts, arrays)
        return detector
