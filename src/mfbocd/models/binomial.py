"""The binomial with a Beta prior on its probability."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._kernels.compile import bind, kernel, scalar
from .._kernels.count_template import count_kernels, sums
from .._kernels.counts import reach
from .._kernels.gamma import digamma
from .._kernels.gamma_ratio import digamma_remainder, excess, log1p, log_gamma_ratio, stirling_remainder
from .._kernels.layout import COUNT, FIRST, STATS
from .._kernels.pointer import Pointer
from .._kernels.scalar import log
from .._kernels.template import family_kernels
from .._kernels.weights import column
from ..inputs.arguments import positive, whole
from .base import Array, Model, Predictive, predictive_of
from .bells import Table

_LEAST = 1e-3  # a probability is at least this far from 0 and 1 where two are compared
_LARGE = 1e6  # total of trials, the prior's included, beyond which terms of x log x are cancelled before rounding


# --- formulas, as `count_template` declares them -----------------------------------------------------------------


@scalar
def _value(a: float, b: float, x: float, trials: float, zeta: float) -> float:
    """log of B(a + zeta x, b + zeta (trials - x)) / B(a, b): the predictive without the binomial coefficient."""
    return (
        log_gamma_ratio(a, zeta * x) + log_gamma_ratio(b, zeta * (trials - x)) - log_gamma_ratio(a + b, zeta * trials)
    )


@scalar
def _log_binomial(x: float, trials: float) -> float:
    """log of the binomial coefficient, at real x."""
    return log_gamma_ratio(1.0, trials) - log_gamma_ratio(1.0, x) - log_gamma_ratio(1.0, trials - x)


@scalar
def _constant(x: float, trials: float, zeta: float) -> float:
    """The term of the log predictive that is the same for all hypotheses."""
    return zeta * _log_binomial(x, trials)


@scalar
def _is_large(x: float) -> bool:
    return False


@scalar
def _needs_full(x: float, trials: float) -> bool:
    return trials > _LARGE


@scalar
def _steps(x: float, trials: float, zeta: float) -> tuple[float, float]:
    return zeta * x, zeta * (trials - x)


@kernel
def _mean(a: float, b: float) -> float:
    return a / (a + b)


@scalar
def _unit(trials: float) -> float:
    return trials


@scalar
def _full_value(a: float, b: float, x: float, trials: float, zeta: float) -> float:
    """log of the predictive, binomial coefficient included, also where terms of x log x would cancel.

    They leave the distances between the means before and after the reading and the reading itself (see `Poisson`).
    """
    y = trials - x
    if a + b + zeta * trials <= _LARGE or x < 1.0 or y < 1.0:
        return _value(a, b, x, trials, zeta) + zeta * _log_binomial(x, trials)
    s, t, n = zeta * x, zeta * y, a + b
    later = n + zeta * trials
    moved = (s * b - t * a) / later
    away = (a * y - b * x) / later
    apart = a * excess(moved / a) + b * excess(-moved / b) + zeta * (x * excess(away / x) + y * excess(-away / y))
    half = math.log(a / (a + s)) + math.log(b / (b + t)) - math.log(n / later)
    half += zeta * (math.log(trials / x / y) - math.log(2.0 * math.pi))
    rest = stirling_remainder(a + s) - stirling_remainder(a) + stirling_remainder(b + t) - stirling_remainder(b)
    rest += stirling_remainder(n) - stirling_remainder(later)
    rest += zeta * (stirling_remainder(trials) - stirling_remainder(x) - stirling_remainder(y))
    return rest - apart + 0.5 * half


@scalar
def _rest(a: float, step: float) -> float:
    """step psi(a + step) - log(Gamma(a + step) / Gamma(a)) - a excess(step / a), without cancellation."""
    later = a + step
    return (
        0.5 * excess(-step / later)
        + stirling_remainder(a)
        - stirling_remainder(later)
        - step * digamma_remainder(later)
    )


@scalar
def _bell(a: float, b: float, trials: float, zeta: float) -> tuple[float, float, float, float]:
    """Approximate mean of the tempered predictive, the length over which it bends, and the counts that matter."""
    extra = 0.5 * (1.0 - zeta)
    n = a + b + 2.0 * extra
    p = (a + extra) / n
    mean = trials * p
    var = mean * (1.0 - p) * (n + zeta * trials) / (zeta * n)
    sd = math.sqrt(var)
    left, right = var / (trials - mean), var / mean
    low, high = reach(mean, sd, left, right, trials)
    return mean, max(sd, left, right), low, high  # a tail is longer where nearly all mass lies at an end


@scalar
def _divergence(a: float, b: float, x: float, trials: float, zeta: float) -> float:
    """KL of theta after x from theta before: Beta(a + zeta x, b + zeta (trials - x)) from Beta(a, b)."""
    y = trials - x
    if a + b + zeta * trials > _LARGE:
        s, t, n = zeta * x, zeta * y, a + b
        moved = (s * b - t * a) / (n + zeta * trials)
        means = a * excess(moved / a) + b * excess(-moved / b)
        return means + _rest(a, s) + _rest(b, t) - _rest(n, zeta * trials)
    slope = x * digamma(a + zeta * x) + y * digamma(b + zeta * y) - trials * digamma(a + b + zeta * trials)
    return zeta * slope - _value(a, b, x, trials, zeta)


_FORMULAS: dict[str, Callable[..., Any]] = {
    "value": _value,
    "full_value": _full_value,
    "constant": _constant,
    "grid_constant": _constant,
    "is_large": _is_large,
    "needs_full": _needs_full,
    "steps": _steps,
    "mean": _mean,
    "unit": _unit,
    "bell": _bell,
    "divergence": _divergence,
}
_sums = bind(sums, **_FORMULAS)


@scalar
def _variance_gain(a: float, b: float, trials: float, zeta: float, x: Array, share: Array) -> float:
    """Var(theta) less its expectation after a reading at zeta."""
    if zeta == 1.0:
        return trials * a * b / ((a + b) * (a + b) * (a + b + 1.0) * (a + b + trials))
    _, mean, var, _ = _sums(a, b, trials, zeta, trials, False, x, share)
    n = a + b
    m = n + zeta * trials
    after = (a + zeta * mean) * (b + zeta * (trials - mean)) - zeta * zeta * var  # E of the new a times the new b
    return a * b / (n * n * (n + 1.0)) - after / (m * m * (m + 1.0))


@scalar
def _quick_parameter_gain(a: float, b: float, trials: float, zeta: float) -> float:
    """`Binomial.quick_parameter_gain`."""
    return 0.5 * log1p(zeta * trials / (a + b))


_COUNTS = count_kernels(
    sums=_sums, quick_parameter_gain=_quick_parameter_gain, variance_gain=_variance_gain, **_FORMULAS
)


@kernel
def _moments(state: Pointer, setup: Pointer, i: int) -> tuple[float, float]:
    """`Binomial.predictive` of a full reading."""
    trials = setup[FIRST]
    if i == int(state[COUNT]):
        a, b = setup[FIRST + 1], setup[FIRST + 2]
    else:
        a, b = column(state, STATS)[i], column(state, STATS + 1)[i]
    n = a + b
    return trials * a / n, trials * a * b * (n + trials) / (n * n * (n + 1.0))


@scalar
def _log_ratio(setup: Pointer, y: float, zeta: float, before: float, after: float, variance: float) -> float:
    """`Binomial.log_ratio`."""
    trials = setup[FIRST]
    p = min(max(before / trials, _LEAST), 1.0 - _LEAST)
    q = min(max(after / trials, _LEAST), 1.0 - _LEAST)
    return zeta * (y * log(q / p) + (trials - y) * log((1.0 - q) / (1.0 - p)))


_KERNELS = family_kernels(_COUNTS.tick, _COUNTS.gain, absorb=_COUNTS.absorb, moments=_moments, log_ratio=_log_ratio)


class Binomial(Model):
    """Numbers of successes among a known number of trials, with a Beta prior on the probability of success.

        theta ~ Beta(alpha, beta),  x | theta ~ Binomial(trials, theta)

    A reading at fidelity zeta counts as zeta readings (equation `mf_posterior`). With one trial this is `Bernoulli`.

    Parameters
    ----------
    trials : int
        Trials per reading, at least 1.
    alpha : float, default 1.0
        Prior weight of successes, in trials.
    beta : float, default 1.0
        Prior weight of failures, in trials.
    predictive : {'normalized', 'paper'}, default 'normalized'
        Which probability a reading at zeta < 1 has; see Notes.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range.

    Notes
    -----
    Statistics of a hypothesis: a = alpha + sum of zeta x and b = beta + sum of zeta (trials - x), so that theta is
    Beta(a, b).

    At zeta < 1 there are two predictives, as in `Bernoulli`; at zeta = 1 both are the beta-binomial.

    - ``"paper"``: C(trials, x)^zeta B(a + zeta x, b + zeta (trials - x)) / B(a, b) (`mf_posterior_predictive`). It
      sums to more than one, by an excess that differs between run lengths.
    - ``"normalized"``: the same divided by its sum over x, for each run length.

    Examples
    --------
    >>> model = Binomial(trials=10, alpha=2, beta=3)
    >>> stats = model.update(model.prior(), x=6, zeta=0.5)
    >>> [round(float(v), 6) for v in model.parameter(stats)]  # Beta(5, 5)
    [0.5, 0.022727]
    >>> [round(float(v), 6) for v in model.predictive(stats)]
    [5.0, 4.545455]
    """

    columns = 2
    one_parameter = True
    elementwise = True
    observe = staticmethod(_KERNELS.observe)
    advance = staticmethod(_KERNELS.advance)
    gains = staticmethod(_KERNELS.gains)

    def __init__(
        self, trials: int, alpha: float = 1.0, beta: float = 1.0, predictive: Predictive = "normalized"
    ) -> None:
        self.trials = whole("Binomial", "trials", trials, 1, 10**9)
        self.alpha = positive("Binomial", "alpha", alpha, 1e9)
        self.beta = positive("Binomial", "beta", beta, 1e9)
        self.kind = predictive_of("Binomial", predictive)

    def __repr__(self) -> str:
        prior = f"alpha={self.alpha:g}, beta={self.beta:g}"
        return f"Binomial(trials={self.trials}, {prior}, predictive={self.kind!r})"

    def prior(self) -> Array:
        """Return alpha and beta."""
        return np.array([self.alpha, self.beta])

    def check(self, x: float) -> float:
        """Accept whole numbers from 0 to `trials`."""
        if not (0.0 <= x <= self.trials and x == math.floor(x)):
            raise self.outside(x, f"0, 1, ..., {self.trials}")
        return x

    def possible(self, x: Array) -> NDArray[np.bool_]:
        """Accept whole numbers from 0 to `trials`."""
        return (x >= 0.0) & (x <= self.trials) & (x == np.floor(x))

    def update(self, stats: Array, x: float, zeta: float) -> Array:
        """Return a' = a + zeta x and b' = b + zeta (trials - x)."""
        return np.stack([stats[0] + zeta * x, stats[1] + zeta * (self.trials - x)])

    def log_predictive(self, stats: Array, x: float, zeta: float) -> Array:
        """Return the log of the tempered predictive, divided by its sum over x if normalized."""
        if zeta == 0.0:
            return np.zeros_like(stats[0])
        value = _COUNTS.all_values(np.ravel(stats[0]), np.ravel(stats[1]), x, float(self.trials), zeta)
        return (value - self._log_norm(stats, zeta)).reshape(np.shape(stats[0]))

    def log_predictives(self, stats: Array, x: Array, zeta: float) -> Array:
        """As for any model; the sums over all counts are computed once."""
        a, b = np.array(stats)
        value = np.array([_COUNTS.all_values(a, b, v, float(self.trials), zeta) for v in x.tolist()])
        return value.reshape(x.size, -1) - self._log_norm(stats, zeta)

    def _log_norm(self, stats: Array, zeta: float) -> Array | float:
        return self._sums(stats, zeta)[0] if self.kind == "normalized" and zeta < 1.0 else 0.0

    def _sums(self, stats: Array, zeta: float, stop: float = math.inf, with_kl: bool = False) -> Array:
        return _COUNTS.all_sums(np.ravel(stats[0]), np.ravel(stats[1]), float(self.trials), zeta, stop, with_kl)

    def parameter(self, stats: Array) -> tuple[Array, Array]:
        """Return the mean and variance of Beta(a, b)."""
        a, b = stats
        n = a + b
        return a / n, a * b / (n * n * (n + 1.0))

    def predictive(self, stats: Array, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the moments of the beta-binomial; at zeta < 1 those of the normalized predictive, by summation."""
        a, b = stats
        n = a + b
        if zeta == 0.0:
            return self.trials * a / n, np.full_like(a, np.inf)
        if zeta == 1.0:
            return self.trials * a / n, self.trials * a * b * (n + self.trials) / (n * n * (n + 1.0))
        _, mean, var, _ = self._sums(stats, zeta)
        return mean.reshape(np.shape(a)), var.reshape(np.shape(a))

    def predictive_cdf(self, stats: Array, x: float, zeta: float = 1.0) -> Array:
        """Return P(next x <= x), by summation."""
        if x < 0.0 or x >= self.trials:
            return np.full_like(stats[0], float(x >= 0.0))
        log_share = self._sums(stats, zeta, math.floor(x))[0] - self._sums(stats, zeta)[0]
        return np.exp(np.minimum(log_share, 0.0)).reshape(np.shape(stats[0]))

    def log_tails(self, stats: Array, x: float, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the logs of sums over the counts from x outwards, of the normalized predictive."""
        tails = _COUNTS.all_tails(np.ravel(stats[0]), np.ravel(stats[1]), x, float(self.trials), zeta)
        return tails[0].reshape(np.shape(stats[0])), tails[1].reshape(np.shape(stats[0]))

    def log_ratio(self, x: float, zeta: float, before: float, after: float, variance: float) -> float:
        """Return zeta (x log(q / p) + (trials - x) log((1 - q) / (1 - p))), p and q the shares of the two means."""
        p, q = (min(max(mean / self.trials, _LEAST), 1.0 - _LEAST) for mean in (before, after))
        return zeta * (x * math.log(q / p) + (self.trials - x) * math.log((1.0 - q) / (1.0 - p)))

    def tabulate(self, stats: Array, zeta: float) -> Table:
        """Return the counts that matter, or nodes for sums over them, normalized."""
        a, b = np.array(stats)
        return Table(*_COUNTS.count_table(a, b, float(self.trials), zeta))

    def run_length_gain(self, weight: Array, stats: Array, zeta: float) -> float:
        """Return H[x] - E_r H[x | r] of the normalized predictives, a sum over counts (`mi_xr`)."""
        if zeta == 0.0:
            return 0.0
        a, b = np.array(stats[0]), np.array(stats[1])
        return float(_COUNTS.mixture_information(np.array(weight), a, b, float(self.trials), zeta))

    def parameter_gain(self, stats: Array, zeta: float) -> Array:
        """Return E_x KL(Beta(a', b') || Beta(a, b)), with x from the normalized predictive.

        With y = trials - x and psi the digamma function,

            KL = zeta (x psi(a + zeta x) + y psi(b + zeta y))
                 - zeta trials psi(a + b + zeta trials)
                 - log(B(a + zeta x, b + zeta y) / B(a, b))
        """
        if zeta == 0.0:
            return np.zeros_like(stats[0])
        return self._sums(stats, zeta, with_kl=True)[3].reshape(np.shape(stats[0]))

    def quick_parameter_gain(self, stats: Array, zeta: float) -> Array:
        """Return log(1 + zeta trials / (a + b)) / 2, exact for a normal reading with nearly these moments."""
        return np.asarray(0.5 * np.log1p(zeta * self.trials / (stats[0] + stats[1])))

    def variance_gain(self, stats: Array, zeta: float) -> Array:
        """Return Var(theta) - E_x Var(theta | x), with x from the normalized predictive."""
        if zeta == 0.0:
            return np.zeros_like(stats[0])
        a, b = stats
        if zeta == 1.0:
            n = a + b
            return np.asarray(self.trials * a * b / (n * n * (n + 1.0) * (n + self.trials)))
        mean, var = self.predictive(stats, zeta)
        m = a + b + zeta * self.trials
        after = (a + zeta * mean) * (b + zeta * (self.trials - mean)) - zeta * zeta * var
        return self.parameter(stats)[1] - after / (m * m * (m + 1.0))

    def nearest(self, x: float) -> float:
        """Return x rounded to a whole number between 0 and `trials`."""
        return min(max(float(round(x)), 0.0), float(self.trials))

    def sample(self, rng: np.random.Generator, ticks: int) -> Array:
        """Draw theta ~ Beta(alpha, beta), then the successes among `trials`."""
        return rng.binomial(self.trials, rng.beta(self.alpha, self.beta), ticks).astype(np.float64)

    def params(self) -> Array:
        """Return trials, alpha, beta, and 1 if the predictive is the paper's, else 0."""
        return np.array([self.trials, self.alpha, self.beta, float(self.kind == "paper")])

    def spec(self) -> dict[str, Any]:
        """Return `trials`, `alpha`, `beta` and `predictive`."""
        return {"trials": self.trials, "alpha": self.alpha, "beta": self.beta, "predictive": self.kind}
