"""Streams of a fleet, and a whole fleet, as bytes and back."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from .._kernels import layout
from ..belief.hazard import Learned
from ..belief.serialization import pack, unpack
from ..belief.state import Array, check_saved, hypotheses, state_of
from ..detector.detector import Detector
from ..detector.serialization import Loader, Serializer, refusing
from ..models import Model
from ..policy import Choices

if TYPE_CHECKING:
    from .fleet import Fleet

F = TypeVar("F", bound="Fleet")
_MOST = 4096  # writers and loaders that are kept, one for each offset and scale


class RowSerializer:
    """`Detector.to_bytes` and `from_bytes` for the streams of a fleet; computes once what they have in common."""

    def __init__(self) -> None:
        self._writers: dict[tuple[Any, ...], Serializer] = {}
        self._loaders: dict[tuple[float, float], Loader] = {}

    def dump(self, fleet: Fleet, rows: Choices) -> list[bytes]:
        """Return the bytes of each of these streams: those of `Detector.to_bytes` of the extracted detector."""
        own, streams = fleet._own, fleet._rows
        part = fleet.policy.for_one_stream() if own is None else None
        spec, learned = ("", {}) if part is None else (repr(part.spec()), part.state())
        spent, offset, scale = (column[rows].tolist() for column in (streams.spent, streams.offset, streams.scale))
        numbers = own.numbers[rows].tolist() if own is not None and own.numeric else None
        found = []
        for k, row in enumerate(rows.tolist()):
            write = self._writer(fleet, row, (offset[k], scale[k], spec))
            if numbers is not None:
                values = [spent[k], *numbers[k]]
            else:
                values = write.numbers(spent[k], learned if own is None else own.state(row))
            found.append(write(values, streams.states[row]))
        return found

    def _writer(self, fleet: Fleet, row: int, key: tuple[Any, ...]) -> Serializer:
        writer = self._writers.get(key)
        if writer is None:
            if len(self._writers) >= _MOST:
                self._writers.clear()
            writer = self._writers[key] = Serializer(fleet.extract(row))
        return writer

    def load(self, fleet: Fleet, data: bytes, units: tuple[float, float], model: Model) -> Detector:
        """Load a saved detector; its functions, which bytes cannot contain, are the fleet's."""
        loader = self._loaders.get(units)
        if loader is None:
            costs = {f.name: f.cost for f in fleet.fidelities if callable(f.cost)}

            def make(saved: bytes) -> Detector:
                names = {name for name, _, cost in unpack(saved)[0]["fidelities"] if cost is None}
                functions = {name: cost for name, cost in costs.items() if name in names}
                return Detector.from_bytes(saved, costs=functions, model=None if _plain(model) else model)

            if len(self._loaders) >= _MOST:
                self._loaders.clear()
            loader = self._loaders[units] = Loader(make)
        found: Detector = loader(data)
        return found


def check_same(fleet: Fleet, detector: Detector, model: Model) -> None:
    """Raise an error if a detector differs from the streams of a fleet; `model` is theirs in its units."""
    like = fleet._like
    if not _same_model(detector.model, model):
        raise ValueError(_difference("model", detector.model, model))
    if _hazard(detector) != _hazard(like):
        raise ValueError(_difference("hazard", detector.hazard, like.hazard))
    pairs: dict[str, tuple[Any, Any]] = {
        "pruning": (detector.pruning, like.pruning),
        "alarm": (detector.alarm, like.alarm),
        "fidelities": (detector.fidelities, like.fidelities),
        "missing": (detector.missing, like.missing),
        "on_error": (detector.on_error, like.on_error),
        "shadow": (bool(detector.shadow), False),
        "learn": (detector.learn, False),
    }
    if fleet._own is not None:
        pairs["policy"] = (_spec(detector.policy), _spec(like.policy))
    for field, (given, wanted) in pairs.items():
        if given != wanted:
            raise ValueError(_difference(field, given, wanted))


def _plain(model: Model) -> bool:
    try:
        model.spec()
    except TypeError:
        return False
    return True


def _same_model(model: Model, wanted: Model) -> bool:
    """Compare two models by their arguments, or only by the numbers of models with functions."""
    if model is wanted:
        return True
    if type(model) is not type(wanted):
        return False
    if _plain(model) and _plain(wanted):
        return model.spec() == wanted.spec()
    return not _plain(wanted) and model.columns == wanted.columns and np.array_equal(model.prior(), wanted.prior())


def _difference(field: str, given: Any, wanted: Any) -> str:
    """Return the error for two objects that differ; with their exact numbers where they print the same."""
    if repr(given) == repr(wanted) and _plain(given):
        given, wanted = given.spec(), wanted.spec()
    return f"the detector's {field} must equal the fleet's, {wanted!r}, not {given!r}"


def _hazard(detector: Detector) -> Any:
    return isinstance(detector.hazard, Learned), detector.hazard.table.tolist()


def _spec(policy: Any) -> Any:
    return type(policy).__name__, policy.spec()


# --- a whole fleet ---------------------------------------------------------------------------------------------


def to_bytes(fleet: Fleet) -> bytes:
    """`Fleet.to_bytes` of all streams: a detector for what they share, and arrays with one entry per stream."""
    n, streams = len(fleet), fleet._rows
    if not np.isfinite(streams.spent[:n]).all():
        raise ValueError("a fleet that has spent an infinite amount cannot be saved: costs must add up")
    learned: Any = fleet._policy.state()
    if fleet._shared is not None:
        learned = fleet._shared.state()
    elif fleet._own is not None:
        learned = None if fleet._own.numeric else [fleet._own.state(row) for row in range(n)]
    numbers = np.empty((n, 0)) if fleet._own is None else fleet._own.numbers[:n]
    heads = streams.states[:n, : layout.HEAD].copy()
    heads[:, layout.CAP] = 0.0
    facts = {
        "fleet": base64.b64encode(fleet._like.to_bytes()).decode(),
        "streams": n,
        "added": fleet._added,
        "names": None if fleet._names.default else fleet.names,
        "share_policy": fleet.share_policy,
        "learnt": learned,
    }
    arrays = {
        "seed": streams.seed[:n].astype(float),
        "spent": streams.spent[:n],
        "offset": streams.offset[:n],
        "scale": streams.scale[:n],
        "numbers": numbers.ravel(),
        "heads": heads.ravel(),
        "live": np.concatenate([np.empty(0), *(hypotheses(state).ravel() for state in streams.states[:n])]),
    }
    return pack(facts, arrays)


def from_bytes(
    cls: type[F],
    data: bytes,
    observers: Mapping[str, Callable[[Any], Any]],
    costs: Mapping[str, Callable[[Any], float]],
    model: Model | None,
    threads: int | None,
) -> F:
    """`Fleet.from_bytes`."""
    facts, arrays = unpack(data)
    if "fleet" not in facts:
        raise ValueError("these bytes are a saved detector, not a fleet: use Detector.from_bytes, or Fleet.insert")
    return _restored(cls, facts, arrays, observers, costs, model, threads)


@refusing
def _restored(
    cls: type[F],
    facts: dict[str, Any],
    arrays: dict[str, Array],
    observers: Mapping[str, Callable[[Any], Any]],
    costs: Mapping[str, Callable[[Any], float]],
    model: Model | None,
    threads: int | None,
) -> F:
    saved = base64.b64decode(facts["fleet"])
    like = Detector.from_bytes(saved, observers=dict(observers), costs=dict(costs), model=model)
    n, shared = facts["streams"], facts["share_policy"]
    if type(n) is not int or any(arrays[name].shape != (n,) for name in ("seed", "spent", "offset", "scale")):
        raise ValueError(f"the saved fleet is damaged: it cannot have {n!r} streams")
    policy = type(like.policy)(**like.policy.spec())
    policy.shared = True  # checked when it was made, possibly for another number of streams
    make: Any = cls  # `Fleet`, whose arguments these are
    fleet: F = make(
        n,
        like.model,
        like.fidelities,
        like.hazard,
        policy=policy,
        prune=like.pruning,
        alarm=like.alarm,
        seed=like.seed,
        missing=like.missing,
        threads=threads,
        names=facts["names"],
        offset=arrays["offset"],
        scale=arrays["scale"],
        share_policy=shared,
    )
    fleet._added = int(facts["added"])
    _restore_policy(fleet, facts["learnt"], arrays["numbers"])
    _restore_states(fleet, arrays, like)
    return fleet


def _restore_policy(fleet: Fleet, learned: Any, numbers: Array) -> None:
    if fleet._shared is not None:
        fleet._shared.restore(learned)
    elif fleet._own is None:
        fleet._policy.restore(learned)
    elif fleet._own.numeric:
        if numbers.size != fleet._own.numbers.size or not np.isfinite(numbers).all():
            raise ValueError("the saved fleet is damaged: its policies cannot have learned this")
        fleet._own.numbers[:] = numbers.reshape(fleet._own.numbers.shape)
    else:
        for row, state in enumerate(learned):
            fleet._own.restore(row, state)


def _restore_states(fleet: Fleet, arrays: dict[str, Array], like: Detector) -> None:
    n, streams = len(fleet), fleet._rows
    heads = arrays["heads"].reshape(n, layout.HEAD)
    if not ((arrays["spent"] >= 0.0) & (arrays["spent"] < np.inf)).all():
        raise ValueError("the saved fleet is damaged: it cannot have spent this")
    columns, start = int(streams.fresh[layout.COLUMNS]), 0
    for row, head in enumerate(heads):
        end = start + columns * int(head[layout.COUNT] + head[layout.DROPPED])
        live = arrays["live"][start:end].reshape(columns, -1)
        check_saved(fleet.model, like._filter.setup, head, live, streams.cap)
        if head[layout.SEED] != arrays["seed"][row]:
            raise ValueError("the saved fleet is damaged: its seeds differ from those of its states")
        state = streams.fitted(state_of(fleet.model, head, live, streams.cap))
        units = float(streams.offset[row]), float(streams.scale[row])
        streams.set(row, state, int(head[layout.SEED]), float(arrays["spent"][row]), units)
        start = end
    if start != arrays["live"].size:
        raise ValueError("the saved fleet is damaged: its hypotheses do not fit its streams")
