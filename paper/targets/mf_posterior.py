"""Posteriors from readings of mixed fidelity: the paper's `fig:mf_posterior_illustration`."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mfbocd.models import Gaussian

from ..framework import Number, Options, Picture, Result, Row, target

Array = NDArray[np.float64]

TICKS = 20
MODEL = Gaussian(mean=0, var=3, noise_var=1)
TRUTH = (1.0, 1.0)  # mean and variance of the samples
ZETAS = (0.0, 0.5, 0.9)
SHARES = (0, 25, 50, 75, 100)
PLACES = 6  # decimals of the table
CAPTION = (
    "Posterior of theta for three zetas of low fidelity; in each panel the share of low-fidelity samples varies. "
    "Dashed: the prior."
)


class Posterior(NamedTuple):
    """Mean and variance of theta given the readings."""

    mean: float
    variance: float


Posteriors = dict[tuple[float, int], Posterior]
"""By zeta of low fidelity and share of low fidelity in %."""


def fidelities(zeta: float, share: int, ticks: int = TICKS) -> Array:
    """The zeta of each sample: the first `share` % are low fidelity.

    >>> fidelities(0.5, 50, ticks=4)
    array([0.5, 0.5, 1. , 1. ])
    """
    return np.where(np.arange(ticks) < round(ticks * share / 100), zeta, 1.0)


def by_library(x: Array, zeta: Array) -> Posterior:
    """The library's model, updated with one sample after the other."""
    stats = MODEL.prior()
    for value, weight in zip(x.tolist(), zeta.tolist(), strict=True):
        stats = MODEL.update(stats, value, weight)
    mean, variance = MODEL.parameter(stats)
    return Posterior(float(mean), float(variance))


def by_equation(x: Array, zeta: Array) -> Posterior:
    """`mf_posterior` in natural parameters: chi + sum of zeta u(x) and nu + sum of zeta."""
    precision = 1.0 / MODEL.var + float(zeta.sum()) / MODEL.noise_var
    weighted = MODEL.mean / MODEL.var + float((zeta * x).sum()) / MODEL.noise_var
    return Posterior(weighted / precision, 1.0 / precision)


@target(
    "mf-posterior",
    paper="fig:mf_posterior_illustration",
    title="Posteriors from readings of mixed fidelity",
)
def mf_posterior(options: Options) -> Result:
    """Every posterior of the figure, by the model and by the equation."""
    mean, variance = TRUTH
    x = np.random.default_rng(options.seed).normal(mean, math.sqrt(variance), size=TICKS)
    ours = {(z, p): by_library(x, fidelities(z, p)) for z in ZETAS for p in SHARES}
    theirs = {(z, p): by_equation(x, fidelities(z, p)) for z in ZETAS for p in SHARES}
    rows = [
        Row(name, _rounded(a), _rounded(b), keys={"zeta of low fidelity": z, "low fidelity, %": p})
        for (z, p), mine in ours.items()
        for name, a, b in zip(Posterior._fields, mine, theirs[z, p], strict=True)
    ]
    protocol = [
        f"{TICKS} samples of N(1, 1), seed {options.seed}; prior N(0, 3), noise variance 1, zeta 1 of high fidelity.",
        "The paper does not say which samples are of low fidelity: here the first ones. It does not give the steps "
        f"of LF % either: here {', '.join(map(str, SHARES))}.",
        "The paper prints no numbers with this figure. The column `published` is its equation `mf_posterior` "
        f"evaluated directly, to {PLACES} decimals; `ours` is the library's model, updated sample by sample.",
        "`--as-published` changes nothing here: the posterior has a closed form.",
    ]
    return Result(headline(ours, theirs), protocol, rows, [Picture("mf-posterior", CAPTION, _figure(ours))])


def _rounded(value: float) -> Number:
    return Number(value, text=f"{value:.{PLACES}f}")


def headline(ours: Posteriors, theirs: Posteriors) -> str:
    """The difference between model and equation, and between prior and a posterior without information."""
    off = max(abs(a - b) for key in ours for a, b in zip(ours[key], theirs[key], strict=True))
    gap = max(abs(a - b) for a, b in zip(ours[0.0, 100], (MODEL.mean, MODEL.var), strict=True))
    same = "is exactly the prior (difference 0)" if gap == 0.0 else f"differs from the prior by {gap:.2g}"
    variance = np.array([[ours[z, p].variance for p in SHARES] for z in ZETAS])
    narrower = (np.diff(variance, axis=1) > 0.0).all() and (np.diff(variance[:, 1:], axis=0) < 0.0).all()
    claim = "narrows" if narrower else "does not always narrow"
    return (
        f"At zeta 0 and 100 % low fidelity the posterior {same}; elsewhere the library is within {off:.1e} of the "
        f"paper's equation. The posterior {claim} as zeta rises or the share of low fidelity falls, which is the "
        "paper's claim."
    )


def _figure(found: Posteriors) -> Figure:
    shades = LinearSegmentedColormap.from_list("fidelity", ["#0072B2", "#999999", "#E69F00"])
    figure = Figure(figsize=(10.5, 3.4), layout="constrained")
    axes = figure.subplots(1, len(ZETAS), sharey=True, sharex=True)
    theta = np.linspace(-4.0, 4.0, 801)
    for axis, z in zip(axes, ZETAS, strict=True):
        axis.plot(theta, _density(theta, Posterior(MODEL.mean, MODEL.var)), "k--", lw=1.2, label="prior", zorder=9)
        for p in SHARES:
            axis.plot(theta, _density(theta, found[z, p]), color=shades(p / 100), lw=1.8, label=f"{p} % low")
        axis.set_title(f"zeta of low fidelity = {z:g}", fontsize=10)
        axis.set_xlabel("theta")
        axis.grid(alpha=0.25)
    axes[0].set_ylabel("posterior density")
    axes[-1].legend(frameon=False, fontsize=8, loc="upper left")
    return figure


def _density(theta: Array, of: Posterior) -> Array:
    return np.exp(-0.5 * (theta - of.mean) ** 2 / of.variance) / math.sqrt(2.0 * math.pi * of.variance)
