"""Log tail probabilities of the distributions that several families predict with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .._kernels.beta import log_beta_tails
from .._kernels.tails import log_normal_tails
from .base import Array

Tails = tuple[Array, Array]
"""log P(X <= x) and log P(X >= x)."""


def mixed_tails(log_weights: Iterable[Any], tails: Iterable[Tails]) -> Tails:
    """Return the log tails of a mixture: log sum_j w_j P_j for each side.

    Parameters
    ----------
    log_weights : iterable of array
        The log weight of each component, minus infinity for one that does not count.
    tails : iterable of tuple of ndarray
        The log tails of each component; those of all components are broadcast with their weights.

    Returns
    -------
    tuple of ndarray
        log P(X <= x) and log P(X >= x), at most 0.

    Examples
    --------
    >>> lower, upper = mixed_tails(np.log([0.9, 0.1]), [normal_tails(40.0), normal_tails(20.0)])
    >>> round(float(upper), 3)  # log(0.1) and the tail of the second
    -206.22
    """
    total: Tails | None = None
    for log_weight, (lower, upper) in zip(log_weights, tails, strict=True):
        own = log_weight + lower, log_weight + upper
        total = own if total is None else (np.logaddexp(total[0], own[0]), np.logaddexp(total[1], own[1]))
    if total is None:
        raise ValueError("a mixture must have a component")
    return np.minimum(total[0], 0.0), np.minimum(total[1], 0.0)


def normal_tails(z: Any) -> Tails:
    """Return the log tails of a standard normal at z, of any shape.

    Examples
    --------
    >>> lower, upper = normal_tails(np.array([-40.0, 0.0]))
    >>> lower.round(2).tolist(), upper.round(2).tolist()
    ([-804.61, -0.69], [-0.0, -0.69])
    """
    each = np.asarray(z, dtype=float)
    lower, upper = log_normal_tails(np.ravel(each))
    return lower.reshape(each.shape), upper.reshape(each.shape)


def beta_tails(a: Any, b: Any, odds: Any) -> Tails:
    """Return the logs of I_s(a, b) and 1 - I_s(a, b), the incomplete beta function, at s = odds / (1 + odds).

    Examples
    --------
    >>> lower, upper = beta_tails(2.0, 3.0, 2.0 / 3.0)
    >>> round(float(np.exp(lower)), 4), round(float(np.exp(upper)), 4)
    (0.5248, 0.4752)
    """
    given = np.broadcast_arrays(*(np.asarray(v, dtype=float) for v in (a, b, odds)))
    lower, upper = log_beta_tails(*(np.array(v).ravel() for v in given))
    return lower.reshape(given[0].shape), upper.reshape(given[0].shape)


def student_tails(d: Any, square: Any, df: Any) -> Tails:
    """Return the log tails of Student's t with `df` degrees of freedom, of any shape.

    The tail beyond a deviation d is I_s(df / 2, 1 / 2) / 2 with s = 1 / (1 + square).

    Parameters
    ----------
    d : ndarray
        The deviation from the centre, of which only the sign matters.
    square : ndarray
        t^2 / df.
    df : ndarray
        The degrees of freedom.

    Returns
    -------
    tuple of ndarray
        log P(X <= x) and log P(X >= x).

    Examples
    --------
    >>> lower, upper = student_tails(1.0, 1e200, 1.0)  # Cauchy: P(X > 1e100) = 1e-100 / pi
    >>> round(float(upper), 3), round(float(lower) * 1e100, 3)
    (-231.403, -0.318)
    """
    beyond = np.asarray(beta_tails(0.5, 0.5 * np.asarray(df), square)[1]) - np.log(2.0)
    inside = np.log1p(-np.exp(beyond))
    above = np.asarray(d) > 0.0
    return np.where(above, inside, beyond), np.where(above, beyond, inside)
