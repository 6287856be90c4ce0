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
from .bells import Table
from .sampling import heavy
from .support import Support, support_of

Function = Callable[..., Any]

_FEW = 16  # hypotheses that are not merged
_MERGED = 5e-5  # nats that may be lost by merging the others
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
        if zeta == 0.0:
            return 0.0
        w, rows = self._merged(weight, stats, zeta)
        return self._information(w, rows, zeta, *self._cells(rows, zeta))

    def joint_gain(self, weight: Array, stats: Array, zeta: float) -> float:
        """Return both gains, from the same points."""
        if zeta == 0.0:
            return 0.0
        w, rows = self._merged(weight, stats, zeta)
        x, mass, norm = self._cells(rows, zeta)
        return self._information(w, rows, zeta, x, mass, norm) + float(w @ self._learned(rows, zeta, x, mass))

    def _information(self, w: Array, rows: Array, zeta: float, x: Array, mass: Array, norm: Array) -> float:
        """I(r; x), from points, the probability of each, and the log normalizers."""
        if w.size == 1:
            return 0.0
        if self.support.discrete:
            return Table(x[0], np.ones(x.shape[1]), mass.T).information(w)
        # each hypothesis at the points of every one: (hypotheses, owners of points, points)
        each = self._log_tempered(rows, np.ascontiguousarray(x).ravel(), zeta).reshape(w.size, *x.shape)
        each = each - norm[:, None, None]
        own = np.einsum("kkn->kn", each).copy()
        each -= own
        # the mixture in units of the owner's density; a point without mass does not count
        ratio = np.tensordot(w, np.exp(np.clip(np.nan_to_num(each, nan=-700.0), -700.0, 700.0)), axes=1)
        return max(-float(w @ (mass * np.log(ratio)).sum(axis=1)), 0.0)

    def _merged(self, weight: Array, stats: Array, zeta: float) -> tuple[Array, Array]:
        """Leave out and merge hypotheses, because user functions are slow.

        The squared distance of two hypotheses in the metric of their posteriors is the product of the differences of
        their statistics and of the slopes of a2. A reading at zeta tells apart the zeta / (nu + zeta)th part of that:
        for a Gaussian this is exact. Merging loses w1 w2 / (w1 + w2) times half of it.
        """
        w, rows = heavy(weight, stats)
        if w.size <= _FEW:
            return w, rows
        slopes = np.empty_like(rows)
        for i, values in enumerate(rows):
            step = 1e-3 * np.maximum(np.abs(values), 1e-3)
            up, down = rows.copy(), rows.copy()
            up[i] += step
            down[i] -= step
            slopes[i] = (self._a2(up) - self._a2(down)) / (2.0 * step)
        square = np.abs((np.diff(rows) * np.diff(slopes)).sum(axis=0))
        nu = np.abs(np.minimum(rows[-1, :-1], rows[-1, 1:]))
        apart = np.sqrt(square * zeta / (nu + zeta))
        groups = [0]
        total, reach = float(w[0]), 0.0
        for k in range(1, w.size):
            reach += float(apart[k - 1])
            lost = 0.5 * total * float(w[k]) / (total + float(w[k])) * reach * reach
            if not lost * w.size < _MERGED:
                groups.append(k)
                total, reach = 0.0, 0.0
            total += float(w[k])
        together = np.add.reduceat(w, groups)
        return together, np.add.reduceat(w * rows, groups, axis=1) / together

    def parameter_gain(self, stats: Array, zeta: float) -> Array:
        """Return E_x KL(p(theta | x) || p(theta)), by numerical integration.

        With A(s) = a2(chi + s u(x), nu + s), KL = zeta A'(zeta) - A(zeta) + A(0).
        """
        rows = stats.reshape(self.columns, -1)
        if zeta == 0.0:
            return np.zeros(stats.shape[1:])
        x, mass, _ = self._cells(rows, zeta)
        return self._learned(rows, zeta, x, mass).reshape(stats.shape[1:])

    def _learned(self, rows: Array, zeta: float, x: Array, mass: Array) -> Array:
        step = 1e-3 * zeta

        def a(s: float) -> Array:
            return self._a2(self._updated(rows, x, s)).reshape(x.shape)

        slope = (8.0 * (a(zeta + step) - a(zeta - step)) - a(zeta + 2.0 * step) + a(zeta - 2.0 * step)) / (
            12.0 * step
        )
        divergence = zeta * slope - a(zeta) + self._a2(rows)[:, None]
        return np.asarray(np.where(mass > 0.0, mass * divergence, 0.0).sum(axis=1))

    def variance_gain(self, stats: Array, zeta: float) -> Array:
        """Return Var(theta) - E_x Var(theta | x) of the first natural parameter."""
        rows = stats.reshape(self.columns, -1)
        if zeta == 0.0:
            return np.zeros(stats.shape[1:])
        x, mass, _ = self._cells(rows, zeta)
        after = self.parameter(self._updated(rows, x, zeta))[1].reshape(x.shape)
        expected = np.where(mass > 0.0, mass * after, 0.0).sum(axis=1)
        return (self.parameter(rows)[1] - expected).reshape(stats.shape[1:])

    def nearest(self, x: float) -> float:
        """Return the nearest value of a discrete support."""
        return self.support.nearest(x)

    def _log_tempered(self, rows: Array, x: Array, zeta: float) -> Array:
        """The unnormalized log predictive at N values (or N a hypothesis: shape (K, N)), shape (K, N)."""
        base = np.asarray(self.log_h1(np.ascontiguousarray(x).ravel()), dtype=float)
        base = zeta * np.broadcast_to(base, x.size).reshape(x.shape)
        value = base + self._a2(self._updated(rows, x, zeta)).reshape(rows.shape[1], -1)
        return np.asarray(value - self._a2(rows)[:, None])

    def _updated(self, rows: Array, x: Array, s: float) -> Array:
        """Statistics after each x, of shape (N,) or (K, N), is read at fidelity s, shape (columns, K N)."""
        u = self._u(np.ascontiguousarray(x).ravel()).reshape(-1, *x.shape)
        out = np.empty((self.columns, rows.shape[1], x.shape[-1]))
        out[:-1] = rows[:-1, :, None] + s * (u[:, None] if x.ndim == 1 else u)
        out[-1] = rows[-1][:, None] + s
        return out.reshape(self.columns, -1)

    def _cells(self, rows: Array, zeta: float) -> tuple[Array, Array, Array]:
        """Points and the probability of each under each hypothesis, both (K, N), and the log normalizers, (K,)."""
        x, log_mass = self.support.gain_cells(lambda v: self._log_tempered(rows, v, zeta), rows.shape[1])
        high = log_mass.max(axis=1, keepdims=True)
        mass = np.exp(log_mass - high)
        total = mass.sum(axis=1, keepdims=True)
        return x, mass / total, (high + np.log(total))[:, 0]

    def _integrals(self, rows: Array, zeta: float) -> tuple[Array, Array, Array]:
        """log of the normalizer, mean and variance of the next x, each of shape (K,)."""
        return self.support.moments(lambda x: self._log_tempered(rows, x, zeta), rows.shape[1])
