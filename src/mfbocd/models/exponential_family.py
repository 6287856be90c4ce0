"""Any member of the exponential family, defined by its log normalizer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..inputs.arguments import finite
from .base import Array, Model
from .support import Support, support_of

Function = Callable[..., Any]

_FALL = 1e-2  # relative decrease of a gain with increasing zeta that is tolerated


class ExponentialFamily(Model):
    """Any conjugate pair of the exponential family, defined by its functions.

        p(x | theta) = h1(x) exp(theta . u(x) - a1(theta))
        p(theta) ~ exp(theta . chi - nu a1(theta))

    with log normalizer a2(chi, nu) of the prior (equation `exponential_family_model`). The predictive is
    (`mf_posterior_predictive`)

        log p(x | chi, nu, zeta)
            = zeta log h1(x) + a2(chi + zeta u(x), nu + zeta) - a2(chi, nu)

    Parameters
    ----------
    a2 : callable
        Log normalizer of the prior, a function of (chi, nu). Like all functions here it is called with arrays and
        must be written with numpy: `nu` has shape (K,), `chi` (K,) for a scalar prior or (d, K) for d statistics.
    u : callable
        Sufficient statistics of N readings: returns shape (N,) or (d, N).
    log_h1 : callable
        Log of the base measure h1 of N readings, shape (N,).
    chi : float or sequence of float
        Prior sum of u(x).
    nu : float
        Number of readings that the prior is worth.
    support : tuple, sequence of float or 'counts', default (-inf, inf)
        What x can be: a tuple (low, high), a list of values, or ``"counts"`` for 0, 1, 2, ...
    predictive : {'paper', 'normalized'}, default 'paper'
        Whether the predictive at zeta < 1 is used as above or divided by its sum or integral over `support`; see
        Notes.
    x_moments : callable, optional
        Mean and variance of the next reading as a function of (chi, nu). By default they are integrated over the
        support, which takes about a millisecond per tick.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range, or `a2` is not finite at the prior.

    Notes
    -----
    The statistics of a hypothesis are chi and nu.

    At zeta = 1 the predictive is a density. At zeta < 1 it is one up to a factor, which may differ between run
    lengths and then distorts their posterior; ``predictive="normalized"`` divides it out. See `Bernoulli`.

    In a scale family (exponential, Gamma, ...) tempering only changes the unit of the readings, so that a lower
    fidelity is not less informative. Such a family is refused with more than one fidelity; use `Exponential`, `Gamma`
    or `Grid`.

    `parameter` returns the moments of the first natural parameter, which are derivatives of a2. A model with
    functions cannot be saved: pass it again when loading.

    Examples
    --------
    >>> poisson = ExponentialFamily(
    ...     a2=lambda chi, nu: np.vectorize(math.lgamma)(chi) - chi * np.log(nu),
    ...     u=lambda x: x,
    ...     log_h1=lambda x: -np.vectorize(math.lgamma)(np.asarray(x) + 1.0),
    ...     chi=2.0, nu=1.0, support="counts")
    >>> stats = poisson.update(poisson.prior(), 4.0, 0.5)
    >>> [round(float(v), 6) for v in poisson.predictive(stats)]  # Gamma(4, 1.5): 4/1.5, 4/1.5 * (1 + 1/1.5)
    [2.666667, 4.444444]
    """

    elementwise = True

    def __init__(
        self,
        a2: Function,
        u: Function,
        log_h1: Function,
        chi: float | Sequence[float],
        nu: float,
        *,
        support: tuple[float, float] | Sequence[float] | str = (-math.inf, math.inf),
        predictive: Literal["paper", "normalized"] = "paper",
        x_moments: Function | None = None,
    ) -> None:
        for name, function in (("a2", a2), ("u", u), ("log_h1", log_h1)):
            if not callable(function):
                raise TypeError(f"ExponentialFamily.{name} must be a function, not {function!r}")
        if predictive not in ("paper", "normalized"):
            raise ValueError(f"ExponentialFamily.predictive must be 'normalized' or 'paper', not {predictive!r}")
        self.a2, self.u, self.log_h1, self.kind, self.x_moments = a2, u, log_h1, predictive, x_moments
        self.scalar = np.ndim(chi) == 0
        self.chi = np.array([finite("ExponentialFamily", "chi", c) for c in np.atleast_1d(chi).tolist()])
        self.nu = finite("ExponentialFamily", "nu", nu)
        self.columns = self.chi.size + 1
        self.support: Support = support_of(support)
        start = self._a2(self.prior()[:, None])
        if start.shape != (1,) or not np.isfinite(start).all():
            raise ValueError(f"ExponentialFamily.a2 must give one finite number at the prior, not {start!r}")

    def __repr__(self) -> str:
        chi = float(self.chi[0]) if self.scalar else self.chi.tolist()
        return f"ExponentialFamily(chi={chi}, nu={self.nu:g}, predictive={self.kind!r})"

    def _a2(self, stats: Array) -> Array:
        return np.asarray(self.a2(stats[0] if self.scalar else stats[:-1], stats[-1]), dtype=float)

    def _u(self, x: Array) -> Array:
        """u at N values, shape (d, N)."""
        return np.broadcast_to(np.asarray(self.u(x), dtype=float), (self.chi.size, x.size))

    def prior(self) -> Array:
        """Return chi, then nu."""
        return np.append(self.chi, self.nu)

    def check_zetas(self, zetas: Sequence[float]) -> None:
        """Refuse a family in which a reading of higher fidelity is less informative about the parameter.

        This is the case in every scale family: tempering only changes the unit of its readings.
        """
        levels = sorted({float(zeta) for zeta in zetas if zeta > 0.0})
        if len(levels) < 2:
            return
        gains = [float(self.parameter_gain(self.prior(), zeta)) for zeta in levels]
        for (low, less), (high, more) in pairwise(zip(levels, gains, strict=True)):
            if less > more * (1.0 + _FALL):
                raise ValueError(
                    f"ExponentialFamily cannot have fidelities of zeta = {low:g} and {high:g}: tempered and "
                    f"normalized, a reading at {low:g} would say more about the parameter ({less:.3g} nats) than one "
                    f"at {high:g} ({more:.3g}), as in every scale family. Use one fidelity, or Exponential or Gamma, "
                    "whose readings have a weight, or Grid with a likelihood for each fidelity"
                )

    def check(self, x: float) -> float:
        """Accept what is in the support."""
        if not self.support.holds(x):
            raise self.outside(x, str(self.support))
        return x

    def possible(self, x: Array) -> NDArray[np.bool_]:
        """Accept what is in the support."""
        return np.isfinite(x) & np.array([self.support.holds(v) for v in x.tolist()], dtype=np.bool_)

    def update(self, stats: Array, x: float, zeta: float) -> Array:
        """Return chi' = chi + zeta u(x) and nu' = nu + zeta, equation `mf_posterior`."""
        step = np.append(self._u(np.array([x]))[:, 0], 1.0)
        return stats + zeta * step.reshape((-1,) + (1,) * (stats.ndim - 1))

    def log_predictive(self, stats: Array, x: float, zeta: float) -> Array:
        """Return zeta log h1(x) + a2(chi + zeta u(x), nu + zeta) - a2(chi, nu), normalized over x if requested."""
        rows = stats.reshape(self.columns, -1)
        if zeta == 0.0:
            return np.zeros(stats.shape[1:])
        value = self._log_tempered(rows, np.array([x]), zeta)[:, 0]
        if self.kind == "normalized" and zeta < 1.0:
            value = value - self._integrals(rows, zeta)[0]
        return value.reshape(stats.shape[1:])

    def parameter(self, stats: Array) -> tuple[Array, Array]:
        """Return the moments of the first natural parameter: the derivatives of a2 in chi, by finite differences."""
        rows = stats.reshape(self.columns, -1)
        # 1e-3 of the sd, and of the value: truncation and rounding both stay near 1e-8 of the answer
        step = 1e-3 * np.maximum(1.0, np.abs(rows[0]))

        def at(multiple: float) -> Array:
            moved = rows.copy()
            moved[0] += multiple * step
            return self._a2(moved)

        near, far, here = (at(-1.0), at(1.0)), (at(-2.0), at(2.0)), at(0.0)
        mean = (8.0 * (near[1] - near[0]) - (far[1] - far[0])) / (12.0 * step)
        var = (16.0 * (near[1] + near[0]) - (far[1] + far[0]) - 30.0 * here) / (12.0 * step * step)
        return mean.reshape(stats.shape[1:]), var.reshape(stats.shape[1:])

    def predictive(self, stats: Array, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return `x_moments` at zeta = 1 if given, else integrals over the support."""
        rows = stats.reshape(self.columns, -1)
        if self.x_moments is not None and zeta == 1.0:
            mean, var = self.x_moments(rows[0] if self.scalar else rows[:-1], rows[-1])
        else:
            _, mean, var = self._integrals(rows, zeta)
        return np.asarray(mean).reshape(stats.shape[1:]), np.asarray(var).reshape(stats.shape[1:])

    def predictive_cdf(self, stats: Array, x: float, zeta: float = 1.0) -> Array:
        """Return the normalized predictive, summed or integrated up to x."""
        rows = stats.reshape(self.columns, -1)
        below = self.support.mass_below(x, lambda v: self._log_tempered(rows, v, zeta), rows.shape[1])
        return below.reshape(stats.shape[1:])

    def log_tails(self, stats: Array, x: float, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the logs of the normalized predictive, summed or integrated from x outwards."""
        rows = stats.reshape(self.columns, -1)
        lower, upper = self.support.log_tails(x, lambda v: self._log_tempered(rows, v, zeta), rows.shape[1])
        return lower.reshape(stats.shape[1:]), upper.reshape(stats.shape[1:])

    def run_length_gain(self, weight: Array, stats: Array, zeta: float) -> float:
        """Return E_r E_x log p(x | r) / p(x) of the normalized predictives, summed or integrated over the support."""
        kept = weight > 1e-12  # the others contribute less than the rounding error of the integral
        w, rows = weight[kept] / weight[kept].sum(), stats[:, kept]
        if zeta == 0.0:
            return 0.0
        if self.support.discrete:
            _, log_p = self.support.cells(lambda x: self._log_tempered(rows, x, zeta), rows.shape[1])
            log_p = log_p - np.logaddexp.reduce(log_p, axis=1, keepdims=True)
            p = np.exp(log_p)
            mixed = w @ p
            gain = float(w @ (p * log_p).sum(axis=1) - (mixed * np.log(np.maximum(mixed, 1e-300))).sum())
            return max(gain, 0.0)
        x, mass = self._cells(rows, zeta)
        norm = self._integrals(rows, zeta)[0]
        gain = 0.0
        for k in range(w.size):
            log_p = self._log_tempered(rows, x[k], zeta) - norm[:, None]
            mixed = np.logaddexp.reduce(log_p + np.log(w)[:, None], axis=0)
            gain += w[k] * float(mass[k][mass[k] > 0] @ (log_p[k] - mixed)[mass[k] > 0])
        return max(gain, 0.0)

    def parameter_gain(self, stats: Array, zeta: float) -> Array:
        """Return E_x KL(p(theta | x) || p(theta)), by numerical integration.

        With A(s) = a2(chi + s u(x), nu + s), KL = zeta A'(zeta) - A(zeta) + A(0).
        """
        rows = stats.reshape(self.columns, -1)
        if zeta == 0.0:
            return np.zeros(stats.shape[1:])
        x, mass = self._cells(rows, zeta)
        step = 1e-3 * zeta

        def a(s: float) -> Array:
            return self._a2(self._updated(rows, x, s)).reshape(x.shape)

        slope = (8.0 * (a(zeta + step) - a(zeta - step)) - a(zeta + 2.0 * step) + a(zeta - 2.0 * step)) / (
            12.0 * step
        )
        divergence = zeta * slope - a(zeta) + self._a2(rows)[:, None]
        return np.where(mass > 0.0, mass * divergence, 0.0).sum(axis=1).reshape(stats.shape[1:])

    def variance_gain(self, stats: Array, zeta: float) -> Array:
        """Return Var(theta) - E_x Var(theta | x) of the first natural parameter."""
        rows = stats.reshape(self.columns, -1)
        if zeta == 0.0:
            return np.zeros(stats.shape[1:])
        x, mass = self._cells(rows, zeta)
        after = self.parameter(self._updated(rows, x, zeta))[1].reshape(x.shape)
        expected = np.where(mass > 0.0, mass * after, 0.0).sum(axis=1)
        return (self.parameter(rows)[1] - expected).reshape(stats.shape[1:])

    def nearest(self, x: float) -> float:
        """Return the nearest value of a discrete support."""
        return self.support.nearest(x)

    def _log_tempered(self, rows: Array, x: Array, zeta: float) -> Array:
        """The unnormalized log predictive at N values (or N a hypothesis: shape (K, N)), shape (K, N)."""
        k = rows.shape[1]
        grid = np.broadcast_to(x, (k, x.shape[-1]))
        flat = np.ascontiguousarray(grid).ravel()
        value = zeta * np.asarray(self.log_h1(flat), dtype=float) + self._a2(self._updated(rows, grid, zeta))
        return np.asarray(value.reshape(k, -1) - self._a2(rows)[:, None])

    def _updated(self, rows: Array, x: Array, s: float) -> Array:
        """Statistics after each x of the (K, N) grid is read at fidelity s, shape (columns, K N)."""
        flat = np.ascontiguousarray(x).ravel()
        return np.repeat(rows, x.shape[1], axis=1) + s * np.vstack([self._u(flat), np.ones(flat.size)])

    def _cells(self, rows: Array, zeta: float) -> tuple[Array, Array]:
        """Points and the probability of each under each hypothesis, both (K, N)."""
        x, log_mass = self.support.cells(lambda v: self._log_tempered(rows, v, zeta), rows.shape[1])
        mass = np.exp(log_mass - log_mass.max(axis=1, keepdims=True))
        return x, mass / mass.sum(axis=1, keepdims=True)

    def _integrals(self, rows: Array, zeta: float) -> tuple[Array, Array, Array]:
        """log of the normalizer, mean and variance of the next x, each of shape (K,)."""
        return self.support.moments(lambda x: self._log_tempered(rows, x, zeta), rows.shape[1])
