"""How each fidelity looks: colours of Okabe and Ito, which the colour-blind tell apart, and a marker each."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .shape import TraceLike

INK = "#222222"
GREY = "#8a8a8a"
BAND = "#cfe3f1"
ALARM = "#D55E00"
MEAN = "#222222"
SPEND = "#0072B2"


class Look(NamedTuple):
    """One fidelity's."""

    name: str
    colour: str
    marker: str
    """matplotlib's."""
    symbol: str
    """plotly's."""
    line: Any
    """matplotlib's."""
    dash: str
    """plotly's."""
    open: bool
    """Whether the marker is an outline."""


Style = tuple[str, str, str, Any, str, bool]
HIGH: Style = ("#0072B2", "o", "circle", "-", "solid", False)
LOW: Style = ("#E69F00", "x", "x-thin", "--", "dash", True)
BETWEEN: tuple[Style, ...] = (
    ("#009E73", "^", "triangle-up", "-.", "dashdot", True),
    ("#CC79A7", "s", "square", ":", "dot", True),
    ("#56B4E9", "D", "diamond", (0, (6, 1, 1, 1, 1, 1)), "longdashdot", True),
    ("#7A6A00", "v", "triangle-down", (0, (8, 2)), "longdash", True),
)


def looks(trace: TraceLike) -> list[Look]:
    """One a fidelity: the dearest a blue disc, the cheapest an orange cross, as in the paper, others between.

    Where costs are not known the fidelities count as listed from cheap to dear.
    """
    count = len(trace.fidelities)
    costs = trace.costs if trace.costs and np.isfinite(trace.costs).all() else tuple(range(count))
    order = np.argsort(np.asarray(costs, dtype=np.float64), kind="stable")
    between = [BETWEEN[i % len(BETWEEN)] for i in range(count - 2)]
    styles = dict(zip(order.tolist(), [LOW, *between, HIGH][-count:], strict=True))
    return [Look(name, *styles[j]) for j, name in enumerate(trace.fidelities)]
