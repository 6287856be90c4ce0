"""How the hypotheses are kept few: choices of one filter, never other filters.

Every pruning happens once the hypotheses have grown by `slack` ticks, not at each: that is cheaper and more accurate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..models.base import finite

SLACK = 32
"""Ticks between prunings, unless a bound is too small for that."""


@dataclass(frozen=True)
class Threshold:
    """Drop hypotheses whose probability is below `eps`. Alone it does NOT bound memory: a long stable run keeps many.

    It can hide a change for good. A new regime starts from the prior and pays for it at its first readings: far from
    the prior mean its probability may be 1e-30 for hundreds of ticks before the readings outweigh that. A threshold
    drops it long before; `Resample` and `TopK` compare hypotheses with each other and keep it. It is also biased:
    many hypotheses below `eps` may be a probable change together, and all are dropped. Use it only where the prior
    covers the levels that occur and the hazard is well above `eps`.

    >>> Threshold(1e-8)
    Threshold(eps=1e-08)
    """

    eps: float = 1e-8

    def __post_init__(self) -> None:
        eps = finite("Threshold", "eps", self.eps)
        if not 0.0 < eps < 1.0:
            raise ValueError(f"Threshold.eps must lie in (0, 1), not {self.eps!r}")


@dataclass(frozen=True)
class _Bound:
    k: int
    slack: int | None = None

    def __post_init__(self) -> None:
        for name, value, least in (("k", self.k, 1), ("slack", self.slack, 0)):
            if value is None and name == "slack":
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{type(self).__name__}.{name} must be a whole number, not {value!r}")
            if value < least:
                raise ValueError(f"{type(self).__name__}.{name} must be at least {least}, not {value!r}")
        if self.slack is not None and self.slack >= self.k:
            raise ValueError(f"{type(self).__name__}.slack must be below k = {self.k}, not {self.slack!r}")

    @property
    def room(self) -> int:
        """Hypotheses given up when k is reached, so that the next pruning is `room` ticks away."""
        return min(SLACK, self.k // 4) if self.slack is None else self.slack


class TopK(_Bound):
    """Never more than `k` hypotheses: when there would be, the `k - slack` most probable stay.

    >>> TopK(256)
    TopK(k=256, slack=None)
    """


class Resample(_Bound):
    """Never more than `k`: when there would be, about `k - slack` survive by stratified optimal resampling.

    Fearnhead and Liu's resampling is unbiased: the expected weight of each hypothesis is what it was.

    >>> Resample(100, slack=0)
    Resample(k=100, slack=0)
    """


Prune = Threshold | TopK | Resample
DEFAULT: tuple[Prune, ...] = (Resample(256),)
"""Bounded memory, and no threshold: a new hypothesis may be arbitrarily improbable before the readings favour it. Of
equal size, resampling errs several times less than `TopK` in the mean and in P(change), being unbiased, at about the
same L1: `docs/pruning.md` has the figures."""


@dataclass(frozen=True)
class Pruning:
    """A combination of prunings as the numbers the kernels read; `most` 0 is unbounded, `eps` 0 drops nothing."""

    eps: float
    most: int
    slack: int
    resample: bool

    def __post_init__(self) -> None:
        # the kernels take these for lengths: saved ones are checked here too
        if not 0.0 <= finite("Pruning", "eps", self.eps) < 1.0:
            raise ValueError(f"Pruning.eps must lie in [0, 1), not {self.eps!r}")
        for name, value in (("most", self.most), ("slack", self.slack)):
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53:
                raise ValueError(f"Pruning.{name} must be a whole number of at least 0, not {value!r}")
        if self.most and self.slack >= self.most:
            raise ValueError(f"Pruning.slack must be below most = {self.most}, not {self.slack!r}")
        if not isinstance(self.resample, bool):
            raise TypeError(f"Pruning.resample must be true or false, not {self.resample!r}")

    @classmethod
    def of(cls, prune: Prune | Sequence[Prune] | Pruning | None) -> Pruning:
        """Combine at most one `Threshold` with at most one of `TopK` and `Resample`; None is exact."""
        if isinstance(prune, Pruning):
            return prune
        parts = () if prune is None else tuple(prune) if isinstance(prune, (list, tuple)) else (prune,)
        eps, most, slack, resample = 0.0, 0, SLACK, False
        for part in parts:
            if isinstance(part, Threshold) and eps == 0.0:
                eps = part.eps
            elif isinstance(part, (TopK, Resample)) and most == 0:
                most, slack, resample = part.k, part.room, isinstance(part, Resample)
            elif isinstance(part, (Threshold, TopK, Resample)):
                raise ValueError(f"prune takes one Threshold and one of TopK and Resample, not {prune!r}")
            else:
                raise TypeError(f"prune must be None, Threshold, TopK, Resample or a list of them, not {part!r}")
        return cls(eps, most, slack, resample)
