"""Readings as clients send them."""

from __future__ import annotations

from types import NoneType
from typing import TYPE_CHECKING, Any

from ..detector.step import checked_raw
from ..inputs.readings import number
from ..models import Model
from ..policy.fidelity import Fidelity
from .cache import CachedStream
from .errors import RequestError
from .records import json_number

if TYPE_CHECKING:
    from .engine import ObserveCommand


def checked_reading(stream: CachedStream, command: ObserveCommand) -> Any:
    """The reading as the filter takes it; raises `RequestError` if it does not belong to the next tick."""
    row, wanted, model = stream.row, stream.fidelity, stream.fleet.model
    expected = {"tick": row.tick, "fidelity": wanted}
    if command.tick > row.tick:
        raise RequestError(409, f"tick {command.tick} is in the future; the next tick is {row.tick}", expected)
    if command.fidelity != wanted:
        raise RequestError(
            409, f"fidelity {command.fidelity!r} was not chosen for tick {row.tick}: {wanted!r} was", expected
        )
    if model.dimension > 1 and not isinstance(command.x, (list, tuple, NoneType)):
        raise RequestError(422, f"x must be a list of numbers, not {command.x!r}", {"x": expected_reading(model)})
    if command.x is None and stream.on_missing == "raise" and stream.fleet.fidelities[wanted].zeta > 0.0:
        raise RequestError(422, "x is null, and the config says missing = 'raise'", {"x": expected_reading(model)})
    try:
        return checked_raw(model, command.x, "skip", stream.fleet.fidelities[wanted])
    except (TypeError, ValueError, ArithmeticError) as error:
        raise RequestError(422, f"x is not valid: {error}", {"x": expected_reading(model)}) from None


def expected_reading(model: Model) -> str:
    """What the model takes, for an error."""
    d = model.dimension
    return f"a reading of {model!r}: " + ("a number" if d == 1 else f"{d} numbers")


def same_reading(stored: Any, x: Any, fidelity: Fidelity) -> bool:
    """Whether a reading equals the stored one, which is corrected; 1 and 1.0 are equal."""
    if isinstance(stored, list) != isinstance(x, list):
        return False
    if fidelity.has_correction and x is not None:
        try:
            x = fidelity.corrected(number(x))
        except (TypeError, ValueError):
            return False
    return bool(json_number(stored) == x)
