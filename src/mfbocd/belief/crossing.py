"""Where a distribution function crosses a level."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def crossing(below: Callable[[Array], Array], level: float, centre: Array, reach: Array) -> Array:
    """Return the smallest x with ``below(x) >= level``, to 1e-13 of ``abs(centre) + reach``.

    Parameters
    ----------
    below : callable
        A distribution function; several, elementwise, if the arrays have a dimension.
    level : float
        The level, between 0 and 1.
    centre, reach : ndarray
        Where to begin: the crossing is expected within a few times `reach` of `centre`.

    Returns
    -------
    ndarray
        Of the shape of `centre`.

    Examples
    --------
    >>> x = crossing(lambda x: 1 / (1 + np.exp(-x)), 0.75, np.array(0.0), np.array(1.0))
    >>> abs(float(x) - math.log(3.0)) < 1e-13
    True
    """
    searches = [_search(level, c, r) for c, r in zip(centre.ravel().tolist(), reach.ravel().tolist(), strict=True)]
    x = [next(search) for search in searches]
    running = set(range(len(x)))
    while running:
        found = below(np.array(x).reshape(centre.shape)).ravel().tolist()
        for i in list(running):
            try:
                x[i] = searches[i].send(found[i])
            except StopIteration as stop:
                x[i] = stop.value
                running.discard(i)
    return np.array(x).reshape(centre.shape)


def _search(level: float, centre: float, reach: float) -> Generator[float, float, float]:
    """Yield points at which to evaluate the function, receive its values, and return the crossing.

    A bracket is narrowed by the ITP method (Oliveira and Takahashi, 2021, https://doi.org/10.1145/3423597): secant
    steps that are moved a little past the estimate, so that both ends of the bracket approach it. It takes some ten
    evaluations of a smooth function, and at most four more than bisection of any other, such as the steps of a
    discrete distribution.
    """
    step = 2.0 * reach
    low, high, over = centre - step, math.nan, math.nan
    under = (yield low) - level
    while under > 0.0 and step < math.inf:
        high, over = low, under
        low, step = low - step, 2.0 * step
        under = (yield low) - level
    if math.isnan(high):
        high = centre + step
        over = (yield high) - level
        while over < 0.0 and step < math.inf:
            low, under = high, over
            high, step = high + step, 2.0 * step
            over = (yield high) - level
    # To 1e-13 of the scale, not to the last bit: an end at exactly 0 would take a thousand halvings.
    enough = 1e-13 * (abs(centre) + reach)
    first = width = high - low
    bound = 16.0 * first  # what bisection, begun four evaluations later, would have left
    while width > enough:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        secant = (over * low - under * high) / (over - under) if over > under else middle
        side = 1.0 if middle >= secant else -1.0
        past = max(0.2 * width * width / first, 0.4 * enough)
        x = secant + side * past if past <= abs(middle - secant) else middle
        slack = max(0.5 * (bound - width), 0.0)
        if abs(x - middle) > slack:
            x = middle - side * slack
        if not low < x < high:
            x = middle
        value = (yield x) - level
        if value < 0.0:
            low, under = x, value
        else:
            high, over = x, value
        width, bound = high - low, 0.5 * bound
    return high
