"""How the number of hypotheses is bounded: options of one filter, not separate filters.

Pruning happens once every `slack` ticks rather than at each: that is cheaper and more accurate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..inputs.arguments import boolean, probability, whole

SLACK = 32
"""Ticks between prunings by default, if the bound is large enough."""


@dataclass(frozen=True)
class Threshold:
    """Drop hypotheses whose probability is below `eps`; alone it does not bound memory.

    A threshold can hide a change permanently. A new regime starts from the prior: if its level is far from the prior
    mean, its probability may be 1e-30 for hundreds of ticks before the readings outweigh that. A threshold drops it
    long before; `Resample` and `TopK` compare hypotheses with each other and keep it. A threshold is also biased:
    many hypotheses below `eps` may together be a probable change, and all are dropped. Use it only where the prior
    covers the levels that occur and the hazard is well above `eps`.

    Parameters
    ----------
    eps : float
        The smallest probability that is kept, in (0, 1).

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range.

    Examples
    --------
    >>> Threshold(1e-8)
    Threshold(eps=1e-08)
    """

    eps: float = 1e-8

    def __post_init__(self) -> None:
        object.__setattr__(self, "eps", probability("Threshold", "eps", self.eps))


@dataclass(frozen=True)
class _Bound:
    k: int
    slack: int | None = None

    def __post_init__(self) -> None:
        owner = type(self).__name__
        object.__setattr__(self, "k", whole(owner, "k", self.k, 1))
        if self.slack is not None:
            object.__setattr__(self, "slack", whole(owner, "slack", self.slack, 0))
            if self.slack >= self.k:
                raise ValueError(f"{owner}.slack must be below k = {self.k}, not {self.slack!r}")

    @property
    def room(self) -> int:
        """How many hypotheses are dropped when k is reached, and so the ticks until the next pruning."""
        return min(SLACK, self.k // 4) if self.slack is None else self.slack


class TopK(_Bound):
    """Keep at most `k` hypotheses: when there would be more, the `k - slack` most probable stay.

    Parameters
    ----------
    k : int
        The largest number of hypotheses, at least 1.
    slack : int, optional
        How many are dropped at once, below `k`; 32 or a quarter of `k` by default, whichever is less.

    Examples
    --------
    >>> TopK(256)
    TopK(k=256, slack=None)
    """


class Resample(_Bound):
    """Keep at most `k` hypotheses: when there would be more, about `k - slack` survive a stratified resampling.

    The optimal resampling of Fearnhead and Liu is unbiased: the expected weight of each hypothesis is its weight.

    Parameters
    ----------
    k : int
        The largest number of hypotheses, at least 1.
    slack : int, optional
        How many are dropped at once, below `k`; 32 or a quarter of `k` by default, whichever is less.

    Examples
    --------
    >>> Resample(100, slack=0)
    Resample(k=100, slack=0)
    """


Prune = Threshold | TopK | Resample
DEFAULT: tuple[Prune, ...] = (Resample(256),)
"""Bounded memory without a threshold: a new hypothesis may be arbitrarily improbable before the readings favour it.
At equal size, resampling is unbiased and its error in the mean and in P(change) is several times smaller than that of
`TopK`, at about the same L1 error (docs/pruning.md)."""


@dataclass(frozen=True)
class Pruning:
    """A combination of prunings as the numbers that the kernels read.

    Parameters
    ----------
    eps : float
        Threshold; 0 drops nothing.
    most : int
        The largest number of hypotheses; 0 is unbounded.
    slack : int
        Ticks between prunings.
    resample : bool
        Whether to resample rather than to keep the most probable.
    """

    eps: float
    most: int
    slack: int
    resample: bool

    def __post_init__(self) -> None:
        # The kernels use these as lengths, so those of saved detectors are checked as well.
        probability("Pruning", "eps", self.eps, "[0, 1)")
        whole("Pruning", "most", self.most, 0)
        whole("Pruning", "slack", self.slack, 0)
        if self.most and self.slack >= self.most:
            raise ValueError(f"Pruning.slack must be below most = {self.most}, not {self.slack!r}")
        boolean("Pruning", "resample", self.resample)

    @classmethod
    def of(cls, prune: Prune | Sequence[Prune] | Pruning | None) -> Pruning:
        """Combine at most one `Threshold` with at most one of `TopK` and `Resample`.

        Parameters
        ----------
        prune : Threshold, TopK, Resample, a sequence of them, Pruning or None
            None is exact filtering.

        Returns
        -------
        Pruning
            The combination.

        Raises
        ------
        TypeError, ValueError
            If it is something else, or two of a kind.
        """
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
