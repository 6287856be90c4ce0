"""Shared code of the multivariate Gaussians: the next reading of each hypothesis is normal or Student's t."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import numpy as np

from .._kernels.components import component_logs, merge_components
from .base import Array, Model
from .sampling import SAMPLED, Sources, chi_square, heavy, normal, sampled_information, sources, uniform

_NEGLIGIBLE = 1e-3
_ELONGATED = 1e-12  # smallest ratio of two eigenvalues of a matrix that can be inverted
FAR = 1e140  # standard deviations; squares of readings further off would overflow


class Components(NamedTuple):
    """The predictive of each of K hypotheses, in the model's own coordinates.

    Attributes
    ----------
    centre : ndarray
        Centres, shape (K, d).
    shape : ndarray
        Covariance of a normal or scale matrix of a Student's t, shape (K, d, d).
    degrees : ndarray
        Degrees of freedom, shape (K,); infinite for a normal.
    """

    centre: Array
    """(K, d)"""
    shape: Array
    """(K, d, d): the covariance of a normal, the scale matrix of a Student's t."""
    degrees: Array
    """(K,): of freedom; infinite for a normal."""


class Elliptical(Model):
    """Base class of the models whose next reading is, for each hypothesis, normal or Student's t."""

    @abstractmethod
    def components(self, stats: Array, zeta: float) -> Components:
        """Return the predictive of each hypothesis.

        Parameters
        ----------
        stats : ndarray
            Shape (columns, K).
        zeta : float
            Fidelity of the next reading, above 0.

        Returns
        -------
        Components
            Centres, scale matrices and degrees of freedom.
        """

    def run_length_gain(self, weight: Array, stats: Array, zeta: float) -> float:
        """Return E_x KL(P(r | x) || P(r)) over 1536 fixed points; `models.sampling` gives the accuracy."""
        if zeta == 0.0:
            return 0.0
        w, kept = heavy(weight, stats, SAMPLED)
        w, parts = _merged(w, canonical(w, self.components(kept, zeta)))
        if w.size == 1:
            return 0.0
        source = sources(w)
        return sampled_information(w, log_densities(parts, source), source)


def log_densities(parts: Components, source: Sources, first: int = 0) -> Array:
    """Return the log density under each hypothesis of points drawn from their hypothesis, shape (K, points), up to a
    constant.

    The points are drawn in the coordinates of `canonical`, so that the gain is the same in any units. `first` is the
    first column of the sequence to use.
    """
    d = parts.centre.shape[1]
    root = _root(parts.shape)
    z = normal(source.size, first + d)[:, first:]
    x = parts.centre[source] + np.einsum("nij,nj->ni", root[source], z) * _t_factors(parts.degrees, source, first + d)
    rows = (np.ascontiguousarray(v) for v in (parts.centre, root, parts.degrees, x.T))
    return np.asarray(component_logs(*rows))


def _merged(weight: Array, parts: Components) -> tuple[Array, Components]:
    """Merge neighbouring hypotheses that hardly differ."""
    rows = [np.array(v, order="C") for v in (weight, parts.centre, parts.shape, _root(parts.shape), parts.degrees)]
    n = merge_components(*rows)
    return rows[0][:n], Components(rows[1][:n], rows[2][:n], rows[4][:n])


def _t_factors(degrees: Array, source: Sources, column: int) -> Array:
    """Return the factors that turn normal points into Student's t, shape (points, 1)."""
    df = degrees[source]
    if np.isinf(df).all():
        return np.ones((source.size, 1))
    return np.sqrt(df / chi_square(uniform(source.size, column + 1)[:, column], df))[:, None]


def canonical(weight: Array, parts: Components) -> Components:
    """Transform centres and shapes so that the mean shape is 1 and the first axes separate the hypotheses most.

    The axes are the eigenvectors of sum w (c - c') (c - c')^T + sum w (S - 1)^2 / 2, whose trace is twice the
    information to second order; the newest hypothesis lies on their positive side. The last axes, which together
    carry a thousandth of it, are dropped.
    """
    centre, shape, degrees = parts
    white = np.linalg.inv(_root(np.tensordot(weight, shape, axes=1)))
    centre = (centre - weight @ centre) @ white.T
    shape = white @ shape @ white.T
    apart = shape - np.eye(centre.shape[1])
    square = np.matmul(apart, apart)
    value, axes = np.linalg.eigh((centre.T * weight) @ centre + 0.5 * np.tensordot(weight, square, axes=1))
    # the second-order information of an axis is unbounded; the true one is hardly more than a nat
    small = np.cumsum(np.maximum(value, 0.0)) < _NEGLIGIBLE * np.minimum(value, 1.0).sum()
    axes = axes[:, ~small][:, ::-1]
    axes = axes * np.where(centre[-1] @ axes < 0.0, -1.0, 1.0)
    return Components(centre @ axes, axes.T @ shape @ axes, degrees)


def _root(matrix: Array) -> Array:
    """Return the lower Cholesky factor of each matrix; of the nearest elongated one if rounding made it singular."""
    try:
        root = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        # A reading far off makes a scale matrix much longer in one direction than in the others.
        value, axes = np.linalg.eigh(matrix)
        value = np.maximum(value, _ELONGATED * value[..., -1:])
        root = np.linalg.cholesky((axes * value[..., None, :]) @ np.swapaxes(axes, -1, -2))
    return np.asarray(root, dtype=np.float64)


def matrix_of(owner: str, field: str, value: object, d: int) -> Array:
    """Return a positive definite (d, d) matrix from a matrix, a diagonal or one number, or raise an error."""
    try:
        given = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{owner}.{field} must be numbers, not {value!r}") from None
    if given.ndim == 0 or given.shape == (d,):
        given = np.diag(np.broadcast_to(given, (d,)))
    if given.shape != (d, d):
        raise ValueError(f"{owner}.{field} must be a number, {d} of them or ({d}, {d}), not of shape {given.shape}")
    if not np.isfinite(given).all():
        raise ValueError(f"{owner}.{field} must be finite, not {value!r}")
    if (np.diag(given) <= 0.0).any():
        raise ValueError(f"{owner}.{field} must be positive definite, not {value!r}")
    sd = np.sqrt(np.diag(given))
    if (np.abs(given - given.T) > 1e-9 * np.outer(sd, sd)).any():
        raise ValueError(f"{owner}.{field} must be symmetric, not {value!r}")
    given = 0.5 * (given + given.T)
    try:
        np.linalg.cholesky(given / np.outer(sd, sd))
    except np.linalg.LinAlgError:
        raise ValueError(f"{owner}.{field} must be positive definite, not {value!r}") from None
    return given


def vector_of(owner: str, field: str, value: object) -> Array:
    """Return two finite numbers or more as an array, or raise an error that names the field."""
    try:
        given = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{owner}.{field} must be numbers, not {value!r}") from None
    if given.ndim != 1 or given.size < 2:
        raise ValueError(f"{owner}.{field} must be two numbers or more, one per column, not {value!r}")
    if not np.isfinite(given).all():
        raise ValueError(f"{owner}.{field} must be finite, not {value!r}")
    return given


def standard(x: Array, mean: Array, sd: Array) -> Array:
    """Return (x - mean) / sd, limited to 1e140 either way."""
    with np.errstate(over="ignore"):
        return np.clip((x - mean) / sd, -FAR, FAR)
