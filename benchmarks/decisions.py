"""Time of an update and of a choice by each gain, for every family: ``python -m benchmarks.decisions``.

Two fidelities, 64 hypotheses. CPU time, the least of several repetitions: noise only ever adds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

import mfbocd as mf
from mfbocd.belief.gains import GAINS

Draw = Callable[[np.random.Generator], Any]


def level(rng: np.random.Generator) -> float:
    return float(rng.normal(1.5, 1.0))


def count(rng: np.random.Generator) -> float:
    return float(rng.poisson(4.0))


def bit(rng: np.random.Generator) -> float:
    return float(rng.random() < 0.3)


def pair(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=2)


def normal() -> mf.Model:
    return mf.ExponentialFamily(
        a2=lambda chi, nu: 0.5 * chi**2 / nu - 0.5 * np.log(nu),
        u=lambda x: x,
        log_h1=lambda x: -0.5 * x**2 - 0.5 * np.log(2.0 * np.pi),
        chi=0.0,
        nu=0.1,
        x_moments=lambda chi, nu: (chi / nu, 1.0 + 1.0 / nu),
    )


def poisson() -> mf.Model:
    return mf.ExponentialFamily(
        a2=lambda chi, nu: special.gammaln(chi) - chi * np.log(nu),
        u=lambda x: x,
        log_h1=lambda x: -special.gammaln(x + 1.0),
        chi=2.0,
        nu=0.5,
        support="counts",
        x_moments=lambda chi, nu: (chi / nu, chi / nu * (1.0 + 1.0 / nu)),
    )


FAMILIES: dict[str, tuple[Callable[[], mf.Model], Draw]] = {
    "Gaussian": (lambda: mf.Gaussian(0, 9, 1), level),
    "GaussianUnknown": (mf.GaussianUnknown, level),
    "StudentT": (lambda: mf.StudentT(0, 9, 1), level),
    "StudentT, vague": (lambda: mf.StudentT(0, 900, 1), level),
    "StudentTUnknown": (mf.StudentTUnknown, level),
    "RobustTrend": (mf.RobustTrend, level),
    "Trend": (mf.Trend, level),
    "Seasonal": (lambda: mf.Seasonal(12, 3), level),
    "Autoregressive": (lambda: mf.Autoregressive(2), level),
    "GaussianProcess": (mf.GaussianProcess, level),
    "Gamma": (lambda: mf.Gamma(2, 2, 2), lambda rng: float(rng.exponential())),
    "Exponential": (mf.Exponential, lambda rng: float(rng.exponential())),
    "Poisson": (lambda: mf.Poisson(2, 0.5), count),
    "Binomial": (lambda: mf.Binomial(20, 1, 1), lambda rng: float(rng.binomial(20, 0.3))),
    "Binomial, 20,000 trials": (lambda: mf.Binomial(20_000, 1, 1), lambda rng: float(rng.binomial(20_000, 0.3))),
    "Bernoulli": (lambda: mf.Bernoulli(1, 1), bit),
    "Categorical": (lambda: mf.Categorical([1] * 5), lambda rng: float(rng.integers(5))),
    "Confusion": (lambda: mf.Confusion({0.1: [[0.7, 0.3], [0.2, 0.8]]}), bit),
    "Outliers(Gaussian)": (lambda: mf.Outliers(mf.Gaussian(0, 9, 1)), level),
    "Outliers(GaussianUnknown)": (lambda: mf.Outliers(mf.GaussianUnknown()), level),
    "Outliers(StudentT)": (lambda: mf.Outliers(mf.StudentT(0, 9, 1)), level),
    "Outliers(Poisson)": (lambda: mf.Outliers(mf.Poisson(2, 0.5)), count),
    "Outliers(MultivariateGaussian)": (lambda: mf.Outliers(mf.MultivariateGaussian([0, 0], 9, 1)), pair),
    "Mixture(Gaussian, Trend)": (lambda: mf.Mixture(mf.Gaussian(0, 9, 1), mf.Trend()), level),
    "Mixture(Poisson, Binomial)": (lambda: mf.Mixture(mf.Poisson(2, 0.5), mf.Binomial(20, 1, 1)), count),
    "Product(Gaussian, Gaussian)": (
        lambda: mf.Product(mf.Gaussian(0, 9, 1), mf.Gaussian(0, 9, 1)),
        pair,
    ),
    "Product(Gaussian, Bernoulli)": (
        lambda: mf.Product(mf.Gaussian(0, 9, 1), mf.Bernoulli(1, 1)),
        lambda rng: np.array([level(rng), bit(rng)]),
    ),
    "Product(GaussianUnknown, Poisson, Bernoulli)": (
        lambda: mf.Product(mf.GaussianUnknown(), mf.Poisson(2, 0.5), mf.Bernoulli(1, 1)),
        lambda rng: np.array([level(rng), count(rng), bit(rng)]),
    ),
    "Product(Gaussian, Categorical, MultivariateGaussian)": (
        lambda: mf.Product(mf.Gaussian(0, 9, 1), mf.Categorical([1] * 3), mf.MultivariateGaussian([0, 0], 9, 1)),
        lambda rng: np.array([level(rng), rng.integers(3), *pair(rng)]),
    ),
    "MultivariateGaussian": (lambda: mf.MultivariateGaussian([0, 0], 9, 1), pair),
    "MultivariateGaussianUnknown": (lambda: mf.MultivariateGaussianUnknown([0, 0]), pair),
    "VectorAutoregressive": (lambda: mf.VectorAutoregressive(1, [0, 0]), pair),
    "ExponentialFamily, real numbers": (normal, level),
    "ExponentialFamily, counts": (poisson, count),
}


def least(call: Callable[[], Any], repeats: int) -> float:
    """The least CPU time of a call, in milliseconds."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return 1e3 * min(times)


def row(make: Callable[[], mf.Model], draw: Draw, ticks: int = 150, repeats: int = 20) -> list[float]:
    """Return the time of an update and of a choice by each gain, in milliseconds."""
    out: list[float] = []
    for gain in GAINS:
        rng = np.random.default_rng(0)
        ways = [mf.Fidelity("low", 0.1, 1.0), mf.Fidelity("high", 1.0, 10.0)]
        policy = mf.Net(0.01, gain=gain)
        detector = mf.Detector(make(), ways, 1 / 50, policy=policy, prune=mf.TopK(64, slack=0))
        for _ in range(ticks):
            detector.update(draw(rng), ways[int(rng.random() < 0.4)])
        if not out:
            values = [draw(rng) for _ in range(repeats)]
            step = iter(values)
            out.append(least(lambda: detector.update(next(step), "high"), repeats))  # noqa: B023
        detector.choose()
        out.append(least(detector.choose, repeats))
    return out


def main() -> None:
    """Print the table."""
    print(f"{'ms, 64 hypotheses':54s}{'update':>9s}" + "".join(f"{gain:>12s}" for gain in GAINS))
    for name, (make, draw) in FAMILIES.items():
        update, *choices = row(make, draw)
        print(f"{name:54s}{update:9.3f}" + "".join(f"{value:12.3f}" for value in choices), flush=True)


if __name__ == "__main__":
    main()
