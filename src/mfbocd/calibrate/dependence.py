"""How many independent readings a serially dependent series is worth."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..inputs.readings import floats

Array = NDArray[np.float64]

LEAST = 20
"""Fewest readings from which dependence is estimated."""


def effective_power(readings: ArrayLike) -> float:
    """Return the share of independent readings that a series is worth: its effective sample size per reading.

        power = n_eff / n = 1 / (1 + 2 sum_k rho_k)

    with rho_k the autocorrelation of the readings of one regime at lag k, summed in pairs of lags while a pair is
    positive (Geyer, 1992). For an AR(1) with coefficient phi it is about (1 - phi) / (1 + phi).

    A model of independent readings takes a slow fluctuation for a change. If each reading counts only as `power`
    readings, the evidence of a segment is about what its length is worth. A reading that counts as zeta readings is a
    reading at fidelity zeta, so the detector needs one fidelity with ``zeta=power``. Give models with unknown noise
    ``weighting="tempered", predictive="paper"``: the evidence of a segment is then exactly the integral of its
    likelihood to the power. By default a reading at zeta is a noisier one, and the noise that is learned too small.

    Parameters
    ----------
    readings : ArrayLike
        Readings of one regime, shape (T,), NaN where missing; residuals if the model has a trend or a season.

    Returns
    -------
    float
        In (0, 1]; 1 if neighbouring readings are independent, do not vary, or are negatively correlated.

    Raises
    ------
    ValueError
        If there are fewer than 20 readings, or they have several dimensions.

    Examples
    --------
    >>> from mfbocd import Detector, Fidelity, GaussianUnknown
    >>> rng = np.random.default_rng(0)
    >>> x = np.zeros(2000)
    >>> for t in range(1, 2000):
    ...     x[t] = 0.8 * x[t - 1] + rng.normal()
    >>> power = effective_power(x)
    >>> round(power, 2)  # 1/9 in the limit of a long series
    0.1
    >>> model = GaussianUnknown(0, 0.1, 2, 2, predictive="paper", weighting="tempered")
    >>> detector = Detector(model, Fidelity("full", zeta=power, cost=1))
    """
    rho = autocorrelation(readings)
    rho = rho * (1.0 - np.arange(rho.size) / rho.size)  # large lags have few pairs, hence a large error
    both = rho[: rho.size // 2 * 2].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(both <= 0.0)
    time = 2.0 * float(both[: ends[0] if ends.size else None].sum()) - 1.0
    return min(1.0, 1.0 / max(time, 1.0))


def autocorrelation(readings: ArrayLike) -> Array:
    """Return the autocorrelation of a series at every lag.

        rho_k = mean of r_t r_{t+k} over the pairs that are present / mean of r_t^2,  r = x - mean(x)

    Parameters
    ----------
    readings : ArrayLike
        Shape (T,), NaN where missing.

    Returns
    -------
    numpy.ndarray
        Shape (T,), for lags 0, 1, ...; 0 where no pair is present. All 0 if the readings do not vary.

    Raises
    ------
    ValueError
        If there are fewer than 20 readings, or they have several dimensions.

    Examples
    --------
    >>> autocorrelation([1, -1] * 10)[:3].round(6)
    array([ 1., -1.,  1.])
    """
    x = floats(readings)
    if x.ndim != 1:
        raise ValueError(f"readings must have one dimension, not shape {x.shape}")
    known = np.isfinite(x)
    if known.sum() < LEAST:
        raise ValueError(f"at least {LEAST} readings are needed, not {known.sum()}")
    residual = np.where(known, x - x[known].mean(), 0.0)
    size = 1 << (2 * x.size - 1).bit_length()  # zeros beyond the end: no lag wraps around
    sums, pairs = (
        np.fft.irfft(np.abs(np.fft.rfft(series, size)) ** 2)[: x.size] for series in (residual, known.astype(float))
    )
    if not (x[known] != x[known][0]).any():
        return np.zeros(x.size)
    mean = np.where(pairs > 0.5, sums / np.maximum(pairs, 1.0), 0.0)
    return np.asarray(mean / mean[0])
