"""Floating point operations of one gain of the Bernoulli, counted while it is computed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

UNARY = {"lgamma": math.lgamma, "exp": math.exp, "log": math.log}


class Counted:
    """A number whose every addition, subtraction, multiplication and division is told to a tally, by part.

    >>> tally = Tally()
    >>> with tally.part("sum"):
    ...     total = tally.number(2.0) * 3.0 + 1.0
    >>> total.value, tally.count
    (7.0, Counter({('sum', 'mul'): 1, ('sum', 'add'): 1}))
    """

    __slots__ = ("tally", "value")

    def __init__(self, value: float, tally: Tally) -> None:
        self.value = value
        self.tally = tally

    def __add__(self, other: Counted | float) -> Counted:
        return self._of("add", self.value + _plain(other))

    def __sub__(self, other: Counted | float) -> Counted:
        return self._of("sub", self.value - _plain(other))

    def __mul__(self, other: Counted | float) -> Counted:
        return self._of("mul", self.value * _plain(other))

    def __truediv__(self, other: Counted | float) -> Counted:
        return self._of("div", self.value / _plain(other))

    def _of(self, kind: str, value: float) -> Counted:
        self.tally.note(kind)
        return Counted(value, self.tally)


def _plain(number: Counted | float) -> float:
    return number.value if isinstance(number, Counted) else number


class Tally:
    """What was counted: operations by part of the computation and by kind. A log, exp or lgamma counts as one."""

    def __init__(self) -> None:
        self.count: Counter[tuple[str, str]] = Counter()
        self._part = ""

    def number(self, value: float) -> Counted:
        """A number to be counted."""
        return Counted(value, self)

    def part(self, name: str) -> Tally:
        """What follows in the ``with`` block is counted under this name."""
        self._part = name
        return self

    def __enter__(self) -> Tally:
        return self

    def __exit__(self, *error: object) -> None:
        self._part = ""

    def note(self, kind: str) -> None:
        """One operation."""
        self.count[self._part, kind] += 1

    def call(self, name: str, x: Counted) -> Counted:
        """One of the functions, as one operation."""
        self.note(name)
        function: Callable[[float], float] = UNARY[name]
        return Counted(function(x.value), self)

    def of(self, part: str) -> int:
        """Operations of one part."""
        return sum(n for (where, _), n in self.count.items() if where == part)


PARTS = ("predictive", "mixture", "entropy", "rest")


def gain(tally: Tally, weight: Sequence[float], a: Sequence[float], b: Sequence[float], zeta: float) -> float:
    """`mi_xr` of the paper's beta-Bernoulli written out: H[x] - E_r H[x | r], one hypothesis after the other.

    The predictive of outcome x is exp(log B(a + zeta x, b + zeta (1 - x)) - log B(a, b)) with log B(u, v) =
    lgamma(u) + lgamma(v) - lgamma(u + v). zeta x and zeta (1 - x) are the same for all hypotheses: not counted.

    >>> tally = Tally()
    >>> value = gain(tally, [0.99, 0.01], [5.0, 1.0], [2.0, 1.0], 0.5)
    >>> [tally.of(part) for part in PARTS]
    [64, 6, 13, 6]
    """
    w = [tally.number(v) for v in weight]
    alphas, betas = [tally.number(v) for v in a], [tally.number(v) for v in b]
    with tally.part("predictive"):
        p = [
            [_predictive(tally, u, v, zeta * x, zeta * (1.0 - x)) for u, v in zip(alphas, betas, strict=True)]
            for x in (0.0, 1.0)
        ]
    with tally.part("mixture"):
        mixed = [_sum([each * v for each, v in zip(of, w, strict=True)]) for of in p]
    with tally.part("entropy"):
        inner = [one * tally.call("log", one) + two * tally.call("log", two) for one, two in zip(*p, strict=True)]
        within = _sum([each * v for each, v in zip(inner, w, strict=True)])
    with tally.part("rest"):
        outer = [each * tally.call("log", each) for each in mixed]
        return (within - (outer[0] + outer[1])).value


def _predictive(tally: Tally, a: Counted, b: Counted, more_a: float, more_b: float) -> Counted:
    return tally.call("exp", _log_beta(tally, a + more_a, b + more_b) - _log_beta(tally, a, b))


def _log_beta(tally: Tally, u: Counted, v: Counted) -> Counted:
    return tally.call("lgamma", u) + tally.call("lgamma", v) - tally.call("lgamma", u + v)


def _sum(terms: Sequence[Counted]) -> Counted:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def count(hypotheses: int, zeta: float = 0.5) -> Tally:
    """The operations of one gain of so many hypotheses; none hangs on the values.

    >>> tally = count(10)
    >>> tally.of("predictive"), tally.count["predictive", "lgamma"]
    (320, 120)
    """
    tally = Tally()
    even = [1.0 / hypotheses] * hypotheses
    gain(tally, even, [1.0 + i for i in range(hypotheses)], [2.0] * hypotheses, zeta)
    return tally
