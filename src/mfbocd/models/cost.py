"""Upper bounds of the memory and time of a model, from plain arguments, before anything of that size is allocated."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .base import Model

HUGE = 10**12
"""Stands for all larger numbers: sums and products of it are still ordinary numbers."""


class CostBound(NamedTuple):
    """Upper bounds for one hypothesis of a model.

    Attributes
    ----------
    columns : float
        Number of statistics.
    tick : float
        Operations per tick; about nanoseconds, as measured.
    gain : float
        Operations for the gain of one fidelity.
    field : str
        The argument that determines the bound.
    """

    columns: float
    tick: float
    gain: float
    field: str = "kind"


SMALL = CostBound(4, 500, 20_000)


def families() -> dict[str, type[Model]]:
    """Return the exported model classes by name."""
    package = import_module(__package__)
    return {name: getattr(package, name) for name in package.__all__ if name != "Model"}


def family(kind: Any) -> type[Model] | None:
    """Return the model class of this name, in any case and with or without underscores; None if there is none.

    Examples
    --------
    >>> family("gaussian_process").__name__
    'GaussianProcess'
    """
    wanted = str(kind).replace("_", "").lower()
    return next((found for name, found in families().items() if name.lower() == wanted), None)


def cost_bound_of(table: Any) -> CostBound:
    """Return the bound for a table such as ``{"kind": "gaussian", "mean": 0}``.

    A table with wrong values gets a small bound: building the model reports the error.

    Examples
    --------
    >>> cost_bound_of({"kind": "categorical", "alpha": [1, 1, 1]})
    CostBound(columns=3, tick=600, gain=750, field='alpha')
    """
    try:
        found = family(table["kind"])
        return SMALL if found is None else found.cost_bound(table)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError):
        return SMALL


def whole_number(arguments: Mapping[str, Any], field: str, default: int | None = None) -> int:
    """Return an integer argument, clipped to 0 .. HUGE; raise TypeError if it is not an integer."""
    value = arguments[field] if default is None else arguments.get(field, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{field} = {value!r} is not a whole number")
    return min(max(value, 0), HUGE)
