"""How the price of a budget moves: one tick of its controller, for one budget or for many (`policy.controller`).

Nothing is reordered or fused here: the exported C code computes the same bits.
"""

from __future__ import annotations

from .compile import exact
from .pointer import Array

# Indices of the constants of a controller. A unit is the budget per tick minus the cost of the cheapest fidelity.
RATE, SETTLE, FLOOR, CEILING, MOST_SAVED, WORST, READING, TICK_BUDGET, BEGAN, CONSTANTS = range(10)

START = 1.0  # during the first ticks the rate is START / (SETTLE + ticks): the first price is a guess
HORIZON = 200.0  # limit of the debt in ticks of the budget: 1 % of 20,000 ticks
YOUNG = 0.1  # the same, per tick of a stream of YOUNG_TICKS ticks or more
YOUNG_TICKS = 200.0
FIRST_DEBT = 60.0  # the same at the first tick, which learns the level; it falls until YOUNG_TICKS
REACH = 30.0  # largest distance of the log price from its start
BAR = 30.0  # by how much a limit moves the log price that decides, far enough that gains no longer matter
FREE, FORBIDDEN, DEMANDED = 0, 1, -1  # what the limits of the debt say about an expensive reading


@exact
def debt_limit(c: Array, ticks: float) -> float:
    """The largest debt that a reading may leave."""
    first = FIRST_DEBT - (FIRST_DEBT / YOUNG_TICKS - YOUNG) * ticks
    return c[TICK_BUDGET] * min(HORIZON, max(first, YOUNG * max(ticks, YOUNG_TICKS)))


@exact
def is_barred(c: Array, debt: float, ticks: float, reading: float) -> bool:
    """Whether the debt forbids a reading of this cost; without a debt every reading is allowed."""
    return debt > 0.0 and debt > debt_limit(c, ticks) - reading


@exact
def next_state(c: Array, log_price: float, debt: float, ticks: float, excess: float) -> tuple[float, float]:
    """Log price and debt after a tick that cost `excess` more than the budget."""
    # Readings that the debt forbids or the savings demand say nothing about the price.
    barred = is_barred(c, debt, ticks, c[READING])
    demanded = debt < -c[MOST_SAVED]
    debt = min(max(debt + excess, -c[WORST]), c[WORST])
    rate = max(c[RATE], START / (c[SETTLE] + ticks))
    moved = log_price + rate * excess + c[RATE] * c[RATE] / 8.0 * debt
    if barred:
        moved = max(moved, log_price)
    elif demanded:
        moved = min(moved, log_price)
    return min(max(moved, c[BEGAN] - REACH), c[BEGAN] + REACH), debt


@exact
def limit_of(c: Array, debt: float, ticks: float, reading: float) -> int:
    """Whether the debt forbids a reading of this cost, or the savings demand one."""
    if is_barred(c, debt, ticks, reading) or debt > c[CEILING]:
        return FORBIDDEN
    return DEMANDED if debt < c[FLOOR] else FREE


@exact
def effective_log_price(c: Array, log_price: float, debt: float, ticks: float, reading: float) -> float:
    """The log price that decides: the limits of the debt take precedence over what was learned."""
    return log_price + BAR * limit_of(c, debt, ticks, reading)


@exact
def next_states(c: Array, numbers: Array, excess: Array, out: Array) -> None:
    """Fill `out` with log price, debt and ticks after the tick, for each row of `numbers`, shape (m, 3)."""
    for k in range(len(numbers)):
        log_price, debt, ticks = numbers[k, 0], numbers[k, 1], numbers[k, 2]
        out[k, 0], out[k, 1] = next_state(c, log_price, debt, ticks, excess[k])
        out[k, 2] = ticks + 1.0


@exact
def limits_of(c: Array, numbers: Array, reading: float, out: Array) -> None:
    """Fill `out` with `limit_of` of each row of `numbers`."""
    for k in range(len(numbers)):
        out[k] = limit_of(c, numbers[k, 1], numbers[k, 2], reading)


@exact
def effective_log_prices(c: Array, numbers: Array, reading: float, out: Array) -> None:
    """Fill `out` with `effective_log_price` of each row of `numbers`."""
    for k in range(len(numbers)):
        out[k] = effective_log_price(c, numbers[k, 0], numbers[k, 1], numbers[k, 2], reading)
