"""Readings that are one of k categories, with a Dirichlet prior on their probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._kernels.compile import kernel
from .._kernels.gamma import coefficients, digamma, quotient, quotients
from .._kernels.scalar import log
from ..inputs.arguments import positive
from .base import Array, Model, Predictive, predictive_of
from .bells import Table


@kernel
def _parameter_gains(alpha: Array, zeta: float) -> Array:
    """`Categorical.parameter_gain` of alpha (k, K)."""
    c = coefficients(zeta)
    k, n = alpha.shape
    out = np.empty(n)
    for i in range(n):
        total = 0.0
        for j in range(k):
            total += alpha[j, i]
        mass = 0.0
        gain = 0.0
        for j in range(k):
            q = quotient(alpha[j, i], total, zeta, c)
            mass += q
            gain += q * (zeta * (digamma(alpha[j, i] + zeta) - digamma(total + zeta)) - log(q))
        out[i] = gain / mass
    return out


class Categorical(Model):
    """Readings that are one of k categories, with a Dirichlet prior on their probabilities.

        p ~ Dirichlet(alpha),  P(x = j | p) = p_j,  j = 0, ..., k - 1

    A reading x at fidelity zeta adds zeta to alpha_x (equation `mf_posterior`). Two categories are `Bernoulli`.

    Parameters
    ----------
    alpha : sequence of float
        Prior weight of each category, in readings; two positive numbers or more.
    predictive : {'normalized', 'paper'}, default 'normalized'
        Which probability a reading at zeta < 1 has; see Notes.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range, or there are fewer than two categories.

    Notes
    -----
    The statistics of a hypothesis are the k updated weights alpha; A below is their sum.

    At zeta < 1 there are two predictives, as in `Bernoulli`; at zeta = 1 both are alpha_x / A.

    - ``"paper"``: Gamma(alpha_x + zeta) Gamma(A) / (Gamma(alpha_x) Gamma(A + zeta)) (`mf_posterior_predictive`). Its
      k values sum to more than one.
    - ``"normalized"``: the same divided by that sum.

    The mean and variance of a reading are those of the index j, which are meaningful only if the categories are
    ordered. `parameter` returns the k probabilities.

    Examples
    --------
    >>> model = Categorical([1, 1, 1])
    >>> stats = model.update(model.prior(), x=2.0, zeta=0.5)
    >>> model.parameter(stats)[0].round(4)
    array([0.2857, 0.2857, 0.4286])
    >>> float(np.exp(model.log_predictive(stats, 2.0, 1.0)).round(4))
    0.4286
    """

    elementwise = True

    def __init__(self, alpha: Sequence[float] | Array, predictive: Predictive = "normalized") -> None:
        if isinstance(alpha, (str, bytes)) or np.ndim(alpha) != 1 or len(alpha) < 2:
            raise ValueError(f"Categorical.alpha must be two numbers or more, one per category, not {alpha!r}")
        self.alpha = np.array([positive("Categorical", "alpha", a, 1e9) for a in np.asarray(alpha).tolist()])
        self.kind = predictive_of("Categorical", predictive)
        self.columns = self.alpha.size
        self._index = np.arange(self.columns, dtype=np.float64)

    def __repr__(self) -> str:
        return f"Categorical(alpha={self.alpha.tolist()}, predictive={self.kind!r})"

    def prior(self) -> Array:
        """Return alpha."""
        return self.alpha.copy()

    def check(self, x: float) -> float:
        """Accept whole numbers from 0 to k - 1."""
        if not (0.0 <= x < self.columns and x == int(x)):
            raise self.outside(x, f"a whole number from 0 to {self.columns - 1}")
        return x

    def possible(self, x: Array) -> NDArray[np.bool_]:
        """Accept whole numbers from 0 to k - 1."""
        return (x >= 0.0) & (x < self.columns) & (x == np.floor(x))

    def update(self, stats: Array, x: float, zeta: float) -> Array:
        """Return alpha with alpha_x' = alpha_x + zeta.

        An x between two categories, such as a mean, counts for both in proportion.
        """
        share = np.maximum(1.0 - np.abs(self._index - x), 0.0)
        return stats + zeta * share.reshape((-1,) + (1,) * (stats.ndim - 1))

    def log_predictive(self, stats: Array, x: float, zeta: float) -> Array:
        """Return the log of either predictive at category x."""
        if zeta == 0.0:
            return np.zeros(stats.shape[1:])
        rows = stats.reshape(self.columns, -1)
        hit = np.ascontiguousarray(rows[int(x)])
        if self.kind == "paper":
            return np.log(quotients(hit, rows.sum(axis=0), zeta)).reshape(stats.shape[1:])
        others = np.delete(rows, int(x), axis=0)
        # Gamma(A + zeta) divides every category and cancels.
        odds = quotients(others.ravel(), np.tile(hit, self.columns - 1), zeta).reshape(others.shape)
        return -np.log1p(odds.sum(axis=0)).reshape(stats.shape[1:])

    def parameter(self, stats: Array) -> tuple[Array, Array]:
        """Return the mean and variance of each of the k probabilities."""
        total = stats.sum(axis=0)
        mean = stats / total
        return mean, mean * (1.0 - mean) / (total + 1.0)

    def predictive(self, stats: Array, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the mean and variance of the index, from the normalized predictive."""
        p = self._share(stats, zeta).reshape(stats.shape)
        mean = np.tensordot(self._index, p, axes=1)
        return mean, np.tensordot(self._index**2, p, axes=1) - mean * mean

    def predictive_cdf(self, stats: Array, x: float, zeta: float = 1.0) -> Array:
        """Return the sum of the normalized probabilities of the categories up to x."""
        p = self._share(stats, zeta).reshape(stats.shape)
        return (
            np.asarray(np.minimum(p[self._index <= x].sum(axis=0), 1.0))
            if x < self.columns - 1
            else np.ones_like(p[0])
        )

    def log_tails(self, stats: Array, x: float, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the logs of the sums of the normalized probabilities of the categories up to x, and from x on."""
        p = self._share(stats, zeta).reshape(stats.shape)
        lower, upper = (np.log(p[side].sum(axis=0)) for side in (self._index <= x, self._index >= x))
        return np.minimum(lower, 0.0), np.minimum(upper, 0.0)

    def tabulate(self, stats: Array, zeta: float) -> Table:
        """Return the probabilities of all values."""
        p = self._share(stats, zeta)
        return Table(self._index, np.ones(self.columns), p)

    def run_length_gain(self, weight: Array, stats: Array, zeta: float) -> float:
        """Return H[x] - E_r H[x | r] of the normalized predictives, a sum over k outcomes (`mi_xr`)."""
        if zeta == 0.0:
            return 0.0
        p = self._share(stats, zeta)
        mixed = p @ weight
        return max(float((p * np.log(p)).sum(axis=0) @ weight - (mixed * np.log(mixed)).sum()), 0.0)

    def parameter_gain(self, stats: Array, zeta: float) -> Array:
        """Return E_x KL(Dirichlet(alpha') || Dirichlet(alpha)), with x from the normalized predictive."""
        return _parameter_gains(stats.reshape(self.columns, -1), zeta).reshape(stats.shape[1:])

    def variance_gain(self, stats: Array, zeta: float) -> Array:
        """Return the expected reduction of the sum of the k variances; for k = 2, twice that of `Bernoulli`."""
        rows = stats.reshape(self.columns, -1)
        total, squares = rows.sum(axis=0), (rows * rows).sum(axis=0)
        # sum_j alpha_j (A - alpha_j) = A^2 - sum alpha_j^2, and x adds 2 zeta alpha_x + zeta^2 to that sum
        after = squares + zeta * zeta + 2.0 * zeta * (self._share(stats, zeta) * rows).sum(axis=0)
        now = (1.0 - squares / total**2) / (total + 1.0)
        then = (1.0 - after / (total + zeta) ** 2) / (total + zeta + 1.0)
        return (now - then).reshape(stats.shape[1:])

    def sample(self, rng: np.random.Generator, ticks: int) -> Array:
        """Draw probabilities ~ Dirichlet(alpha), then categories."""
        return rng.choice(self.columns, size=ticks, p=rng.dirichlet(self.alpha)).astype(np.float64)

    def nearest(self, x: float) -> float:
        """Return the nearest category; the upper one at a tie."""
        return float(min(max(np.floor(x + 0.5), 0.0), self.columns - 1.0))

    def spec(self) -> dict[str, Any]:
        """Return `alpha` and `predictive`."""
        return {"alpha": self.alpha.tolist(), "predictive": self.kind}

    def _values(self, stats: Array, zeta: float) -> Array:
        """The paper's k values, (k, K)."""
        rows = stats.reshape(self.columns, -1)
        total = np.broadcast_to(rows.sum(axis=0), rows.shape)
        return quotients(rows.ravel(), total.ravel(), zeta).reshape(rows.shape)

    def _share(self, stats: Array, zeta: float) -> Array:
        """The k probabilities of the next x at zeta, (k, K)."""
        values = self._values(stats, zeta)
        return values / values.sum(axis=0)
