"""Upper bounds of the memory and time of a stream, computed from plain values before anything is allocated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..._kernels import layout
from ...belief.pruning import DEFAULT, Pruning
from ...belief.state import START
from ...models.cost import HUGE, cost_bound_of

DEPTH = 16
"""How deep the tables and lists of a config may be nested."""
NUMBER = 8
"""Bytes of a number."""
TEXT = 25
"""Bytes of a number that is stored as text."""


class Cost(NamedTuple):
    """Upper bounds for one stream."""

    state: float
    """Bytes of its state."""
    state_by: str
    """The dotted keys of the config that decide the size of the state."""
    work: float
    """Operations per tick."""
    work_by: str
    """The dotted keys of the config that decide the work."""


def depth(given: Any) -> int:
    """How deep tables and lists are nested, counted without recursion and only to just beyond `DEPTH`.

    >>> depth({"model": {"alpha": [1, 2]}}), depth(3)
    (3, 0)
    """
    level, deep = [given], 0
    while deep <= DEPTH:
        level = [
            inner
            for one in level
            if isinstance(one, (Mapping, list, tuple))
            for inner in (one.values() if isinstance(one, Mapping) else one)
        ]
        if not level:
            break
        deep += 1
    return deep


def cost(config: Mapping[str, Any], largest: float) -> Cost:
    """Upper bounds for a stream of this config; a state that no pruning bounds may have `largest` bytes.

    Wrong values count as small: `Config.parse` reports what is wrong.

    >>> found = cost({"model": {"kind": "autoregressive", "order": 1000}}, largest=2**20)
    >>> f"{found.state:.1e} bytes by {found.state_by}"
    '1.2e+09 bytes by model.order and prune'
    """
    size = cost_bound_of(config.get("model"))
    fidelities = config.get("fidelity")
    ways = len(fidelities) if isinstance(fidelities, (list, tuple)) and fidelities else 1
    hazard = config.get("hazard")
    table, learned = _hazard(hazard)
    columns = layout.STATS + size.columns + learned
    most = _hypotheses(config.get("prune"))
    rows: float
    if most is None:  # as many as fit
        rows = max(largest / (NUMBER * columns), START)
        own = NUMBER * columns * START
    else:
        rows = -(-(most + 2) // layout.LANES) * layout.LANES
        own = NUMBER * columns * rows
    window = TEXT * _window(config.get("policy"))
    parts = {
        f"model.{size.field} and prune": own,
        "hazard": NUMBER * table,
        "policy.cap": window,
    }
    keys = {
        f"model.{size.field} and prune": rows * (size.tick + 20.0 * learned),
        f"model.{size.field}, prune and fidelity": rows * ways * size.gain,
    }
    state = NUMBER * (2 * layout.HEAD + layout.KEPT * columns) + sum(parts.values())
    return Cost(state, max(parts, key=parts.__getitem__), sum(keys.values()), max(keys, key=keys.__getitem__))


def _hypotheses(prune: Any) -> int | None:
    """The largest number of hypotheses; None if it is not bounded."""
    if prune is None:
        return Pruning.of(DEFAULT).most or None
    if not isinstance(prune, Mapping):
        return None
    found = [prune[name] for name in ("resample", "top_k") if isinstance(prune.get(name), int)]
    return min(max(*found, 0), HUGE) if found else None


def _hazard(hazard: Any) -> tuple[int, int]:
    """The length of its table, and the number of candidates if it is learned."""
    if isinstance(hazard, (list, tuple)):
        return len(hazard), 0
    if not isinstance(hazard, Mapping):
        return 1, 0
    points = hazard.get("points", 12)
    if hazard.get("kind") == "learned" and isinstance(points, int):
        points = min(points, 64)  # more are refused by name
        return 2 * points, points
    horizon, lengths = hazard.get("horizon", 10_000), hazard.get("probabilities", ())
    table = min(horizon, HUGE) if hazard.get("kind") == "weibull" and isinstance(horizon, int) else 0
    return max(table, len(lengths) if isinstance(lengths, (list, tuple)) else 0), 0


def _window(policy: Any) -> int:
    """Ticks whose spend a policy remembers."""
    cap = policy.get("cap") if isinstance(policy, Mapping) else None
    if not isinstance(cap, (list, tuple)) or len(cap) != 2 or not isinstance(cap[1], int):
        return 0
    return min(cap[1], HUGE)
