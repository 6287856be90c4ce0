"""The models every general test runs over: a new model is one row here.

Each case carries its own truth: the log marginal likelihood of a segment in one closed form or one quadrature,
never as the product of sequential predictives the filter uses (except where the model is DEFINED by them).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special, stats

import mfbocd as mf

Readings = Sequence[tuple[float, float]]  # (x, zeta) pairs of one segment


@dataclass(frozen=True)
class Case:
    name: str
    model: Callable[[], Any]
    draw: Callable[[np.random.Generator], float]
    log_marginal: Callable[[Readings], float]
    """Of a segment, from an independent formula."""
    mean: Callable[[Readings], float]
    """E[next x | segment], from an independent formula."""
    tolerance: float = 1e-10


# --- Gaussian: the joint density of a segment is multivariate normal --------------------------------------------
MEAN, VAR, NOISE = 1.5, 4.0, 0.7


def gaussian_marginal(readings: Readings) -> float:
    x = np.array([x for x, zeta in readings if zeta > 0])
    zeta = np.array([zeta for _, zeta in readings if zeta > 0])
    if x.size == 0:
        return 0.0
    covariance = VAR + np.diag(NOISE / zeta)
    return float(stats.multivariate_normal(np.full(x.size, MEAN), covariance).logpdf(x))


def gaussian_mean(readings: Readings) -> float:
    precision = 1 / VAR + sum(zeta / NOISE for _, zeta in readings)
    return (MEAN / VAR + sum(zeta * x / NOISE for x, zeta in readings)) / precision


def gaussian_family(predictive: str) -> Any:
    return mf.ExponentialFamily(
        a2=lambda chi, nu: 0.5 * NOISE * chi**2 / nu + 0.5 * np.log(2 * np.pi * NOISE / nu),
        u=lambda x: x / NOISE,
        log_h1=lambda x: -0.5 * x**2 / NOISE - 0.5 * np.log(2 * np.pi * NOISE),
        chi=MEAN / VAR,
        nu=NOISE / VAR,
        predictive=predictive,
        x_moments=lambda chi, nu: (NOISE * chi / nu, NOISE * (1 + 1 / nu)),
    )


def gaussian_paper_marginal(readings: Readings) -> float:
    """int prod N(x | theta, noise)^zeta pi(theta); each factor is N(x | theta, noise / zeta) times a constant."""
    given = [zeta for _, zeta in readings if zeta > 0]
    constants = sum(0.5 * (1 - z) * math.log(2 * math.pi * NOISE) - 0.5 * math.log(z) for z in given)
    return gaussian_marginal(readings) + constants


# --- Bernoulli ------------------------------------------------------------------------------------------------
ALPHA, BETA = 0.6, 1.7


def beta_paper_marginal(readings: Readings) -> float:
    a = ALPHA + sum(zeta * x for x, zeta in readings)
    b = BETA + sum(zeta * (1 - x) for x, zeta in readings)
    return float(special.betaln(a, b) - special.betaln(ALPHA, BETA))


def beta_normalized_marginal(readings: Readings) -> float:
    """Defined by its sequential predictives, so that is how it is written, with scipy's rising factorial."""
    a, b, total = ALPHA, BETA, 0.0
    for x, zeta in readings:
        if zeta > 0:
            rise = (special.poch(b, zeta), special.poch(a, zeta))
            total += math.log(rise[int(x)] / sum(rise))
        a, b = a + zeta * x, b + zeta * (1 - x)
    return total


def beta_mean(readings: Readings) -> float:
    a = ALPHA + sum(zeta * x for x, zeta in readings)
    b = BETA + sum(zeta * (1 - x) for x, zeta in readings)
    return a / (a + b)


def bernoulli_family(predictive: str) -> Any:
    return mf.ExponentialFamily(
        a2=lambda chi, nu: special.betaln(chi, nu - chi),
        u=lambda x: x,
        log_h1=lambda x: 0.0 * x,
        chi=ALPHA,
        nu=ALPHA + BETA,
        support=[0, 1],
        predictive=predictive,
    )


# --- Poisson, as any family a user might bring ----------------------------------------------------------------
SHAPE, RATE = 2.5, 0.8


def poisson_marginal(readings: Readings) -> float:
    a = SHAPE + sum(z * x for x, z in readings)
    b = RATE + sum(z for _, z in readings)
    base = sum(z * special.gammaln(x + 1) for x, z in readings)
    prior = special.gammaln(SHAPE) - SHAPE * math.log(RATE)
    return float(special.gammaln(a) - a * math.log(b) - prior - base)


def poisson_mean(readings: Readings) -> float:
    return (SHAPE + sum(z * x for x, z in readings)) / (RATE + sum(z for _, z in readings))


def poisson_family() -> Any:
    return mf.ExponentialFamily(
        a2=lambda chi, nu: special.gammaln(chi) - chi * np.log(nu),
        u=lambda x: x,
        log_h1=lambda x: -special.gammaln(np.asarray(x) + 1.0),
        chi=SHAPE,
        nu=RATE,
        support="counts",
    )


def _normal(rng: np.random.Generator) -> float:
    return float(rng.normal(MEAN, 3.0))


def _bit(rng: np.random.Generator) -> float:
    return float(rng.random() < 0.4)


def _count(rng: np.random.Generator) -> float:
    return float(rng.poisson(3.0))


CASES = [
    Case("gaussian", lambda: mf.Gaussian(MEAN, VAR, NOISE), _normal, gaussian_marginal, gaussian_mean),
    Case(
        "bernoulli-paper", lambda: mf.Bernoulli(ALPHA, BETA, predictive="paper"), _bit, beta_paper_marginal, beta_mean
    ),
    Case("bernoulli", lambda: mf.Bernoulli(ALPHA, BETA), _bit, beta_normalized_marginal, beta_mean),
    Case("family-gaussian", lambda: gaussian_family("normalized"), _normal, gaussian_marginal, gaussian_mean, 1e-9),
    Case("family-gaussian-paper", lambda: gaussian_family("paper"), _normal, gaussian_paper_marginal, gaussian_mean),
    Case("family-bernoulli-paper", lambda: bernoulli_family("paper"), _bit, beta_paper_marginal, beta_mean),
    Case("family-bernoulli", lambda: bernoulli_family("normalized"), _bit, beta_normalized_marginal, beta_mean),
    Case("family-poisson", poisson_family, _count, poisson_marginal, poisson_mean, 1e-9),
]
COMPILED = [case for case in CASES if not case.name.startswith("family")]
ZETAS = (0.0, 0.1, 0.5, 0.93, 1.0)
