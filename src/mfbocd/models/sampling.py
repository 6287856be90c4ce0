"""I(r; x) by fixed sample points, where there is neither a formula nor a grid.

With x drawn from hypothesis l with probability w_l, I(r; x) = E_x KL(P(r | x) || w). The contribution of every point
is at least zero, so the sum is too; and because the points are the same at every call, the errors of different
fidelities are similar.

The points are a Kronecker sequence of the square roots of primes, in antithetic pairs. They are distributed over the
hypotheses by weight, by the square root of the weight (an unlikely hypothesis contributes much where it is true), and
most of them to the hypothesis of a change now, which differs most from the others. A point counts for every
hypothesis that could have produced it.

Measured with 1536 points and merged hypotheses on 312 states of detectors in 2, 3 and 10 dimensions, each at two
fidelities, against 16 384 points or more and all hypotheses: the median error is 0.6 % of the gain, 90 % are below
1.8 %, and the largest is 4.6 %, or 0.009 nats.
"""

from __future__ import annotations

from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from .._kernels import tables as kernels
from .._kernels.components import chi_square_quantiles
from .base import Array

Sources = NDArray[np.int64]

POINTS = 1536
LIGHT = 1e-9  # hypotheses below this weight are dropped: a thousand of them are worth 2e-5 nats
SAMPLED = 1e-6  # the same for sums over sample points: a hundred of them carry at most 1.4e-3 nats


def uniform(n: int, d: int) -> Array:
    """Return n points in (0, 1)^d: u_j = frac(1/2 + i sqrt(p_j)) for the j-th prime p_j, and 1 - u after each u.

    Examples
    --------
    >>> uniform(4, 2).round(3)
    array([[0.914, 0.232],
           [0.086, 0.768],
           [0.328, 0.964],
           [0.672, 0.036]])
    """
    return _uniform(_room(n), d)[:n]


def normal(n: int, d: int) -> Array:
    """Return the points of `uniform` as standard normal numbers."""
    return _normal(_room(n), d)[:n]


def _room(n: int) -> int:
    """Round up to a power of two, so that few sequences are cached: each begins with every shorter one."""
    return max(POINTS, 1 << (n - 1).bit_length())


@lru_cache(maxsize=16)
def _uniform(n: int, d: int) -> Array:
    steps = np.sqrt(np.array(_primes(d), dtype=np.float64))
    u = np.clip((0.5 + np.arange(1, n // 2 + 1)[:, None] * steps) % 1.0, 1e-12, 1.0 - 1e-12)
    return _frozen(np.stack([u, 1.0 - u], axis=1).reshape(n, d))


@lru_cache(maxsize=16)
def _normal(n: int, d: int) -> Array:
    inverse = NormalDist().inv_cdf
    return _frozen(np.array([[inverse(v) for v in row] for row in _uniform(n, d).tolist()]))


def _frozen(points: Array) -> Array:
    points.flags.writeable = False  # one copy serves every model
    return points


def _primes(n: int) -> list[int]:
    found: list[int] = []
    candidate = 2
    while len(found) < n:
        if all(candidate % p for p in found if p * p <= candidate):
            found.append(candidate)
        candidate += 1
    return found


def heavy(weight: Array, stats: Array, least: float = LIGHT) -> tuple[Array, Array]:
    """Return the hypotheses that matter, renormalized."""
    kept = weight > least
    if kept.all():
        return weight, stats
    return weight[kept] / weight[kept].sum(), stats[:, kept]


def sources(weight: Array, points: int = POINTS) -> Sources:
    """Return the hypothesis that each point is drawn from, an even number of points each; the last is a change now.

    Examples
    --------
    >>> np.bincount(sources(np.array([0.81, 0.18, 0.01]), 20)).tolist()
    [10, 4, 6]
    """
    share = 0.5 * weight + 0.5 * np.sqrt(weight) / np.sqrt(weight).sum()
    share[-1] += 0.3
    pairs = np.ceil(0.5 * points * share / share.sum()).astype(np.int64)
    while pairs.sum() > points // 2 and pairs.max() > 1:  # rounding up gave too many: take from the largest
        pairs[np.argmax(pairs)] -= 1
    return np.repeat(np.arange(weight.size), 2 * pairs)


def sampled_information(weight: Array, logs: Array, source: Sources) -> float:
    """Return I(r; x) from the log density of each sampled point under each hypothesis, shape (K, points).

    A point has weight p(x) / sum_l n_l p_l(x): it counts for every hypothesis that could have produced it.
    """
    drawn = np.bincount(source, minlength=weight.size).astype(np.float64)
    return float(kernels.sampled_information(weight, drawn, np.ascontiguousarray(logs)))


def _shares(weight: Array, logs: Array) -> tuple[Array, Array, Array]:
    """Return KL(P(r | x) || w) of each x, and p(x) and p_k(x) in units of the largest p_k(x)."""
    logs = logs - logs.max(axis=1, keepdims=True)
    density = np.exp(logs)
    mixed = density @ weight
    # KL = sum_k P(k | x) log(p_k / p) = sum_k w_k p_k log p_k / p - log p, and 0 log 0 is 0
    logs[density == 0.0] = 0.0
    return np.einsum("nk,nk,k->n", density, logs, weight) / mixed - np.log(mixed), mixed, density


def posterior_divergence(weight: Array, logs: Array) -> Array:
    """Return KL(P(r | x) || P(r)) of each x from the log density of x under each hypothesis, shape (points, K)."""
    return _shares(weight, logs)[0]


def chi_square(u: Array, degrees: Array) -> Array:
    """Return quantiles of chi-square with one number of degrees per point, from sums over 512 steps of log x.

    Examples
    --------
    >>> chi_square(np.array([0.5, 0.95]), np.array([3.0, 3.0])).round(2)
    array([2.37, 7.82])
    """
    return np.asarray(chi_square_quantiles(np.ascontiguousarray(u), np.ascontiguousarray(degrees)))
