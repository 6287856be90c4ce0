"""Spectra of noise without a season, fitted by their likelihood: white noise, plus one autocorrelated component."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_PHI = np.array([-0.9, -0.7, -0.4, 0.3, 0.5, 0.7, 0.8, 0.87, 0.92, 0.95, 0.975, 0.99, 1.0])
_SHARES = np.concatenate([[0.0], np.logspace(-4.0, 4.0, 17)])
_LEAST = 1e-20  # variance, relative to that of the series: a season without noise has a finite likelihood


class Fit(NamedTuple):
    """The spectrum with the highest likelihood.

    Attributes
    ----------
    log_likelihood : float
        Log density of the coefficients, up to a constant.
    root : numpy.ndarray
        Square root of the spectrum at each coefficient.
    """

    log_likelihood: float
    root: Array


class RedNoise:
    """The cosine transform of series of n readings, and noise spectra fitted to it.

    The coefficients of the orthonormal DCT-II of white noise, of a random walk and of their sum are independent (for
    an AR(1) nearly so): unlike in a periodogram, the step from the last reading to the first leaks no power. With w =
    pi k / n, their variances are

        S_k = v (1 + r h_k),  h_k = 1 / (1 + phi^2 - 2 phi cos w)  or  h_k = 1 / (2 - 2 cos w)^2

    The first h is AR(1), with phi = 1 the random walk, which also stands for changes of level. The second is a random
    walk of the slope, which stands for smooth curves. v is fitted exactly, r and h by search over a grid.

    Parameters
    ----------
    n : int
        Number of readings, at least 2.
    """

    def __init__(self, n: int) -> None:
        self.n = n
        k = np.arange(n)
        self._turn = np.exp(-0.5j * math.pi * k / n)
        self._cos = np.cos(math.pi * k[1:] / n)
        # Spectra are smooth: beyond the 16th, coefficients are pooled into bins of equal ratio.
        edges = np.unique(np.concatenate([np.arange(1, 17), np.geomspace(16.0, max(n, 16), 40).astype(int), [n]]))
        edges = edges[edges <= n]
        self._starts, sizes = edges[:-1] - 1, np.diff(edges).astype(float)
        middle = np.add.reduceat(self._cos, self._starts) / sizes
        shapes = np.stack([_shape(kind, middle) for kind in range(_PHI.size + 1)])
        self._levels = np.exp(np.log(shapes) @ sizes / (n - 1))
        spectra = (1.0 + _SHARES[:, None, None] * (shapes / self._levels[:, None])).reshape(-1, sizes.size)
        self._inverse = 1.0 / spectra
        self._log_determinant = np.log(spectra) @ sizes

    def forward(self, x: Array) -> Array:
        """Return the DCT-II of x."""
        mirrored = np.fft.rfft(np.concatenate([x, x[::-1]]))[: self.n]
        return np.asarray((mirrored * self._turn).real) / math.sqrt(2.0 * self.n)

    def backward(self, coefficients: Array) -> Array:
        """Return the series with this DCT-II, except its mean, which is 0."""
        z = np.zeros(self.n + 1, dtype=complex)
        z[1:-1] = coefficients[1:] * self._turn[1:].conj()
        return np.fft.irfft(z, 2 * self.n)[: self.n] * math.sqrt(2.0 * self.n)

    def fit(self, coefficients: Array) -> Fit:
        """Return the spectrum that is most likely for these coefficients; the first, the mean, is ignored."""
        power = np.add.reduceat(coefficients[1:] ** 2, self._starts)
        var = np.maximum(self._inverse @ power / (self.n - 1), _LEAST)
        fits = -0.5 * ((self.n - 1) * np.log(var) + self._log_determinant)
        best = int(np.argmax(fits))
        share, kind = divmod(best, self._levels.size)
        root = np.ones(self.n)
        shape = _shape(kind, self._cos) / self._levels[kind]
        root[1:] = np.sqrt(var[best] * (1.0 + _SHARES[share] * shape))
        return Fit(float(fits[best]), root)


def _shape(kind: int, cos: Array) -> Array:
    """Return h of one kind at each cos w."""
    if kind == _PHI.size:
        return np.asarray(1.0 / (2.0 - 2.0 * cos) ** 2)
    phi = float(_PHI[kind])
    return np.asarray(1.0 / (1.0 + phi**2 - 2.0 * phi * cos))
