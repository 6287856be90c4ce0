"""Predictions of a stationary autoregression while fewer values than its order are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .base import Array


def partial_predictors(ar: Sequence[float] | Array) -> tuple[Array, Array]:
    """Return the best linear predictors of a stationary autoregression from its last 0, 1, ..., p values.

    Parameters
    ----------
    ar : sequence of float
        The p coefficients, that of the last value first.

    Returns
    -------
    predictors : ndarray
        Shape (p + 1, p); row k holds the k coefficients of order k, then zeros.
    variances : ndarray
        Variance of the error of each, in units of that of order p; shape (p + 1,).

    Raises
    ------
    ValueError
        If the autoregression is not stationary.

    Notes
    -----
    The Durbin-Levinson recursion, run downwards: with k the last coefficient of order j, the coefficients of order
    j - 1 are (a_i + k a_{j-i}) / (1 - k^2), and the variance is divided by 1 - k^2.

    Examples
    --------
    >>> predictors, variances = partial_predictors([0.5])
    >>> predictors.ravel(), variances.round(4)
    (array([0. , 0.5]), array([1.3333, 1.    ]))
    """
    p = len(ar)
    predictors, variances = np.zeros((p + 1, p)), np.ones(p + 1)
    predictors[p] = ar
    for j in range(p, 0, -1):
        last = predictors[j, j - 1]
        left = 1.0 - last * last
        if not left > 0.0:
            raise ValueError(f"RobustTrend.ar = {list(ar)!r} is not stationary: its noise would grow without bound")
        variances[j - 1] = variances[j] / left
        predictors[j - 1, : j - 1] = (predictors[j, : j - 1] + last * predictors[j, j - 2 :: -1][: j - 1]) / left
    return predictors, variances
