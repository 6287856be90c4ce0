"""How `Detector.step` reads: the chosen fidelity, another one where that fails, and shadow readings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..inputs.arguments import not_negative
from ..policy.fidelity import Fidelity
from .learning import learn_cost, learn_zeta
from .step import reading

if TYPE_CHECKING:
    from .detector import Detector


class Observation(NamedTuple):
    """What one tick read, and what it cost."""

    value: Any
    """A reading that the model accepts; None if it is missing."""
    fidelity: Fidelity
    cost: float
    """Of all fidelities that were asked."""
    failed: tuple[str, ...]
    """Those that were asked and raised an error."""
    warning: str | None
    """Set if a pair of readings shows that a fidelity is worse than declared."""
    asked: frozenset[str]
    """Names of all that were asked."""


def read(detector: Detector, fidelity: Fidelity, raw: Any) -> Any:
    """Return what a fidelity reads from `raw`, checked; None for a skip, or if it is missing and may be.

    With ``on_error="fallback"`` a missing reading is an error, so that another fidelity is asked.
    """
    if fidelity.observe is not None:
        raw = fidelity.observe(raw)
    elif fidelity.zeta == 0.0:
        return None
    elif len(detector.fidelities) > 1:
        raise TypeError(
            f"fidelity {fidelity.name!r} has no observe: give it one, or use choose() and update(x, fidelity)"
        )
    if detector.on_error == "raise":
        return detector._accept(raw, fidelity)
    return reading(detector.model, raw, "raise", fidelity)


def observe(detector: Detector, raw: Any) -> Observation:
    """Read one tick.

    If a shadow guard is due, the best fidelity and the guarded one are read; otherwise the chosen one is. With
    ``on_error="fallback"`` the others follow, best first, until one gives a reading or the policy cannot afford the
    next.
    """
    quoted = _shadow_costs(detector, raw)
    if not quoted:
        chosen = detector._choose(raw)
        quoted = {chosen.name: detector._cost_of(chosen, raw)}
    wanted = [detector._by_name[name] for name in quoted]
    others = detector.fidelities if detector.on_error == "fallback" else ()
    spare = [f for f in sorted(others, key=lambda f: -f.zeta) if f not in wanted]
    asked: set[str] = set()
    found: list[tuple[Fidelity, Any]] = []
    failed: list[str] = []
    cost = 0.0
    first: Exception | None = None
    paid: dict[str, float] = {}
    for f in (*wanted, *spare):
        # The cost is computed once, before the reading, which may change what the next one costs.
        extra = quoted[f.name] if f in wanted else f.cost_of(raw)
        if f in spare and (found or not detector.policy.affords(cost + extra)):
            continue
        cost += extra
        asked.add(f.name)
        try:
            value = read(detector, f, raw)
            if detector.learn and (actual := _reported_cost(f)) is not None:
                cost += actual - extra
                paid[f.name] = actual
            found.append((f, value))
        except Exception as error:
            if detector.on_error == "raise":
                raise
            first = first or error
            failed.append(f.name)
    if not found and first is not None and detector.missing == "raise":
        raise first
    for name, actual in paid.items():  # only now, because an error changes nothing
        learn_cost(detector, name, actual)
    warning = _compare(detector, found) if len(found) == 2 else None
    present = (pair for pair in found if pair[1] is not None)
    fidelity, value = next(present, found[0] if found else (wanted[0], None))
    return Observation(value, fidelity, cost, tuple(failed), warning, frozenset(asked))


def shadow_pair(detector: Detector, raw: Any, value_of: Callable[[Fidelity], Any]) -> Observation | None:
    """Read a pair from a table if a guard is due and both are affordable; None otherwise."""
    quoted = _shadow_costs(detector, raw)
    if not quoted:
        return None
    pair = [detector._by_name[name] for name in quoted]
    found = [(f, reading(detector.model, value_of(f), detector.missing, f)) for f in pair]
    warning = _compare(detector, found)
    fidelity, value = next((one for one in found if one[1] is not None), found[0])
    return Observation(value, fidelity, sum(quoted.values()), (), warning, frozenset(quoted))


def _compare(detector: Detector, found: list[tuple[Fidelity, Any]]) -> str | None:
    """Let the guard see a pair, the best fidelity first, and learn from it; return its warning."""
    (_, high), (low, value) = found
    guard = detector.shadow[low.name]
    given = guard.observe(high, value)
    if detector.learn:
        learn_zeta(detector, low.name, guard.zeta)
    return None if given is None else f"{low.name}: {given}"


def _reported_cost(fidelity: Fidelity) -> float | None:
    """Return the cost that the observer reports for its last reading; None if it reports none."""
    reported = getattr(fidelity.observe, "last_cost", None)
    return None if reported is None else not_negative("", f"last_cost of {fidelity.name!r}", reported)


def _shadow_costs(detector: Detector, raw: Any) -> dict[str, float]:
    """Return the costs of the best fidelity and of a guarded one, if that one's guard is due and both are affordable.

    Where several guards are due, they take turns.
    """
    tick = detector.ticks
    due = [name for name, guard in detector.shadow.items() if guard.due(tick)]
    if not due:
        return {}
    low = detector._by_name[due[tick // detector.shadow[due[0]].every % len(due)]]
    pair = {f.name: f.cost_of(raw) for f in (max(detector.fidelities, key=lambda f: f.zeta), low)}
    return pair if detector.policy.affords(sum(pair.values())) else {}
