"""Colours and markers of fidelities: those of Okabe and Ito, which colour-blind readers can distinguish."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..trace import Trace

INK = "#222222"
GREY = "#8a8a8a"
BAND = "#cfe3f1"
ALARM = "#D55E00"
MEAN = "#222222"
SPEND = "#0072B2"


class FidelityStyle(NamedTuple):
    """How readings at one fidelity are drawn.

    Attributes
    ----------
    name : str
        Name of the fidelity.
    colour : str
        Colour as a hexadecimal code.
    marker : str
        Marker, as matplotlib names it.
    symbol : str
        Marker, as plotly names it.
    line : Any
        Line style, as matplotlib names it.
    dash : str
        Line style, as plotly names it.
    open : bool
        Whether the marker is an outline.
    """

    name: str
    colour: str
    marker: str
    symbol: str
    line: Any
    dash: str
    open: bool


Style = tuple[str, str, str, Any, str, bool]
HIGH: Style = ("#0072B2", "o", "circle", "-", "solid", False)
LOW: Style = ("#E69F00", "x", "x-thin", "--", "dash", True)
BETWEEN: tuple[Style, ...] = (
    ("#009E73", "^", "triangle-up", "-.", "dashdot", True),
    ("#CC79A7", "s", "square", ":", "dot", True),
    ("#56B4E9", "D", "diamond", (0, (6, 1, 1, 1, 1, 1)), "longdashdot", True),
    ("#7A6A00", "v", "triangle-down", (0, (8, 2)), "longdash", True),
)


def fidelity_styles(trace: Trace) -> list[FidelityStyle]:
    """Return a style for every fidelity of a trace.

    As in the paper, the most expensive fidelity is a blue disc and the cheapest an orange cross. If costs are not
    known, the fidelities are taken to be listed from cheap to expensive.

    Parameters
    ----------
    trace : Trace
        The trace.

    Returns
    -------
    list[FidelityStyle]
        One style per fidelity, in their order.
    """
    count = len(trace.fidelities)
    costs = trace.costs if trace.costs and np.isfinite(trace.costs).all() else tuple(range(count))
    order = np.argsort(np.asarray(costs, dtype=np.float64), kind="stable")
    between = [BETWEEN[i % len(BETWEEN)] for i in range(count - 2)]
    styles = dict(zip(order.tolist(), [LOW, *between, HIGH][-count:], strict=True))
    return [FidelityStyle(name, *styles[j]) for j, name in enumerate(trace.fidelities)]
