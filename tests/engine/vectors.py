"""Truths of the families with vector readings and of the categorical: the registry's formulas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import special, stats

Vectors = Sequence[tuple[Any, float]]  # (x, zeta) pairs of one segment

# --- multivariate Gaussian: the joint density of a segment is one multivariate normal ----------------------------
CENTRE = np.array([1.0, -2.0, 0.5])
PRIOR = np.array([[4.0, 1.0, 0.3], [1.0, 2.0, -0.5], [0.3, -0.5, 3.0]])
KNOWN = np.array([[0.7, 0.2, 0.0], [0.2, 0.5, 0.1], [0.0, 0.1, 1.3]])


def given(readings: Vectors) -> tuple[np.ndarray, np.ndarray]:
    """The readings that are not missing, (n, d), and their zetas."""
    kept = [(np.asarray(x, dtype=float), zeta) for x, zeta in readings if zeta > 0]
    return np.array([x for x, _ in kept]), np.array([zeta for _, zeta in kept])


def multivariate_marginal(readings: Vectors, centre=CENTRE, prior=PRIOR, noise=KNOWN) -> float:  # type: ignore[no-untyped-def]
    x, zeta = given(readings)
    if zeta.size == 0:
        return 0.0
    covariance = np.kron(np.ones((zeta.size, zeta.size)), prior) + np.kron(np.diag(1 / zeta), noise)
    return float(stats.multivariate_normal(np.tile(centre, zeta.size), covariance).logpdf(x.ravel()))


def multivariate_mean(readings: Vectors) -> np.ndarray:
    x, zeta = given(readings)
    if zeta.size == 0:
        return CENTRE
    prior, noise = np.linalg.inv(PRIOR), np.linalg.inv(KNOWN)
    return np.linalg.solve(prior + zeta.sum() * noise, prior @ CENTRE + noise @ (zeta @ x))


def three(rng: np.random.Generator) -> np.ndarray:
    return CENTRE + rng.normal(0.0, 2.0, 3)


# --- Normal-inverse-Wishart ---------------------------------------------------------------------------------------
PLACE, COUNT, DEGREES = np.array([0.5, -1.0]), 0.8, 4.6
SCALE = np.array([[2.0, 0.6], [0.6, 0.9]])


def wishart_posterior(readings: Vectors, place=PLACE, count=COUNT, degrees=DEGREES, scale=SCALE):  # type: ignore[no-untyped-def]
    """mean, count, degrees and scale after a segment, from its weighted mean and scatter at once."""
    x, zeta = given(readings)
    if zeta.size == 0:
        return place, count, degrees, scale
    total = zeta.sum()
    centre = zeta @ x / total
    scatter = (x - centre).T @ ((x - centre) * zeta[:, None])
    apart = np.outer(centre - place, centre - place) * count * total / (count + total)
    return (count * place + total * centre) / (count + total), count + total, degrees + total, scale + scatter + apart


def _log_normalizer(count: float, degrees: float, scale: np.ndarray) -> float:
    d = len(scale)
    front = 0.5 * d * math.log(2 * math.pi / count) + 0.5 * degrees * d * math.log(2)
    return float(front + special.multigammaln(0.5 * degrees, d) - 0.5 * degrees * np.linalg.slogdet(scale)[1])


def wishart_paper_marginal(readings: Vectors, place=PLACE, count=COUNT, degrees=DEGREES, scale=SCALE) -> float:  # type: ignore[no-untyped-def]
    """int prod N(x | theta, C)^zeta over the prior: a ratio of normalizers."""
    after = wishart_posterior(readings, place, count, degrees, scale)[1:]
    tempered = -0.5 * len(place) * math.log(2 * math.pi) * sum(zeta for _, zeta in readings)
    return tempered + _log_normalizer(*after) - _log_normalizer(count, degrees, scale)


def wishart_student(readings: Vectors, zeta: float, *prior: Any, tempered: bool = False) -> Any:
    """The normalized predictive after a segment."""
    place, count, degrees, scale = wishart_posterior(readings, *prior)
    df = degrees + zeta - len(place)
    if not tempered:
        df += sum(1 - z for _, z in readings if z > 0) + 1 - zeta
    return stats.multivariate_t(place, scale * (count + zeta) / (zeta * count * df), df=df)


def wishart_marginal(readings: Vectors, tempered: bool = False) -> float:
    """The model is defined by its sequential predictives: their product, with scipy's multivariate t."""
    read = [(x, zeta) for x, zeta in readings if zeta > 0]
    return float(
        sum(wishart_student(read[:i], zeta, tempered=tempered).logpdf(x) for i, (x, zeta) in enumerate(read))
    )


def wishart_mean(readings: Vectors) -> np.ndarray:
    return np.asarray(wishart_posterior(readings)[0])


def two(rng: np.random.Generator) -> np.ndarray:
    return PLACE + rng.normal(0.0, 1.5, 2)


# --- categorical --------------------------------------------------------------------------------------------------
DIRICHLET = np.array([0.6, 1.7, 2.2, 0.4])


def _counts(readings: Vectors) -> np.ndarray:
    alpha = DIRICHLET.copy()
    for x, zeta in readings:
        alpha[int(x)] += zeta
    return alpha


def dirichlet_paper_marginal(readings: Vectors) -> float:
    after = _counts(readings)
    parts = special.gammaln(after) - special.gammaln(DIRICHLET)
    return float(parts.sum() - special.gammaln(after.sum()) + special.gammaln(DIRICHLET.sum()))


def dirichlet_marginal(readings: Vectors) -> float:
    """The model is defined by its sequential predictives, like the Bernoulli."""
    total = 0.0
    for i, (x, zeta) in enumerate(readings):
        if zeta > 0:
            rise = special.poch(_counts(readings[:i]), zeta)
            total += math.log(rise[int(x)] / rise.sum())
    return total


def dirichlet_mean(readings: Vectors) -> float:
    alpha = _counts(readings)
    return float(alpha @ np.arange(4) / alpha.sum())


def category(rng: np.random.Generator) -> float:
    return float(rng.choice(4, p=[0.2, 0.2, 0.5, 0.1]))


# --- product: columns 0 a Gaussian, 1 a category, 2 to 4 a multivariate Gaussian -----------------------------------
def column(readings: Vectors, cells: int | slice) -> list[tuple[Any, float]]:
    """The readings of one family that are not missing."""
    own = [(x[cells], zeta) for x, zeta in readings]
    return [(x, zeta) for x, zeta in own if not np.isnan(x).any()]


def mixed(rng: np.random.Generator) -> np.ndarray:
    return np.concatenate([[rng.normal(1.5, 3.0), category(rng)], three(rng)])
