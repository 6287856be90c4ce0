"""The Poisson with a Gamma prior on its rate."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._kernels.beta import beta_cdfs
from .._kernels.compile import bind, kernel, scalar
from .._kernels.count_template import count_kernels, sums
from .._kernels.counts import max_nodes, reach
from .._kernels.gamma import digamma
from .._kernels.gamma_ratio import digamma_remainder, excess, log1p, log_gamma_ratio, stirling_remainder
from .._kernels.layout import COUNT, FIRST, STATS
from .._kernels.pointer import Pointer, pointer
from .._kernels.scalar import exp, log
from .._kernels.template import family_kernels
from .._kernels.weights import column
from ..inputs.arguments import positive
from .base import Array, Model, Predictive, predictive_of
from .bells import Table

_LAST = 2.0**53  # larger counts are not distinct floats
_END = 2.0**54  # sums go beyond the largest reading, so that a mean near it has both tails
_ONE_BY_ONE = 512  # counts up to here are cheaper to add than to interpolate
_LARGE = 1e5  # beyond this, terms of x log x are cancelled before rounding
_HUGE = 1e7  # the same for a reading: below this, the error of its log probability stays under 1e-7
_LEAST = 1e-9  # least rate where two rates are compared
_LOG_2PI = math.log(2.0 * math.pi)


# --- formulas, as `count_template` declares them -----------------------------------------------------------------


@scalar
def _value(a: float, b: float, x: float, last: float, zeta: float) -> float:
    """log of Gamma(a + zeta x) / Gamma(a) b^a / (b + zeta)^(a + zeta x): the predictive without x!^-zeta."""
    step = zeta * x
    return log_gamma_ratio(a, step) - step * log(b + zeta) - a * log1p(zeta / b)


@scalar
def _full_value(a: float, b: float, x: float, last: float, zeta: float) -> float:
    """log of the predictive, x!^-zeta included, to 1e-13 however large a and x are.

    Terms of x log x cancel: with m = a / b and c = (a + zeta x) / (b + zeta), the means before and after, they leave
    -b D(m, c) - zeta D(x, c), D(u, v) = u log(u / v) - u + v, and the remainders of three Stirling formulas.
    """
    if a + zeta * x < _LARGE or x < 1.0:
        return _value(a, b, x, last, zeta) - zeta * log_gamma_ratio(1.0, x)
    mean = a / b
    moved = zeta * (x - mean) / (b + zeta)
    apart = a * excess(moved / mean) + zeta * x * excess(-b * (x - mean) / (b + zeta) / x)
    later = a + zeta * x
    rest = stirling_remainder(later) - stirling_remainder(a) - zeta * stirling_remainder(x)
    return rest - apart + 0.5 * math.log(a / later) - 0.5 * zeta * (math.log(x) + _LOG_2PI)


@scalar
def _constant(x: float, last: float, zeta: float) -> float:
    """The term of the log predictive that is the same for all hypotheses."""
    return -zeta * math.lgamma(x + 1.0)


@scalar
def _grid_constant(x: float, last: float, zeta: float) -> float:
    """`_constant` at real x, vectorized."""
    return -zeta * log_gamma_ratio(1.0, x)


@scalar
def _is_large(x: float) -> bool:
    return x > _HUGE


@scalar
def _needs_full(x: float, last: float) -> bool:
    return x > _LARGE


@scalar
def _steps(x: float, last: float, zeta: float) -> tuple[float, float]:
    return zeta * x, zeta


@kernel
def _mean(a: float, b: float) -> float:
    return a / b


@scalar
def _unit(last: float) -> float:
    return 1.0


@scalar
def _bell(a: float, b: float, last: float, zeta: float) -> tuple[float, float, float, float]:
    """Approximate mean of the tempered predictive, the length over which it bends, and the counts that matter."""
    mean = (a + 0.5 * (1.0 - zeta)) / b
    sd = math.sqrt(mean * (1.0 / b + 1.0 / zeta))
    tail = 1.0 / (zeta * math.log1p(b / zeta))
    low, high = reach(mean, sd, 0.0, tail, last)
    return mean, max(sd, tail), low, high  # the tail is longer where nearly all mass lies at 0


@scalar
def _divergence(a: float, b: float, x: float, last: float, zeta: float) -> float:
    """KL of theta after x from theta before: Gamma(a + zeta x, b + zeta) from Gamma(a, b)."""
    step = zeta * x
    later = a + step
    if later < 10.0:
        return step * digamma(later) - log_gamma_ratio(a, step) - zeta * later / (b + zeta) + a * log1p(zeta / b)
    # Written like that, terms of x log x cancel. With t - log(1 + t) of the ratio of the means they do not occur.
    moved = a * excess((step * b - zeta * a) / (a * (b + zeta))) + 0.5 * excess(-step / later)
    return moved + stirling_remainder(a) - stirling_remainder(later) - step * digamma_remainder(later)


_FORMULAS: dict[str, Callable[..., Any]] = {
    "value": _value,
    "full_value": _full_value,
    "constant": _constant,
    "grid_constant": _grid_constant,
    "is_large": _is_large,
    "needs_full": _needs_full,
    "steps": _steps,
    "mean": _mean,
    "unit": _unit,
    "bell": _bell,
    "divergence": _divergence,
}
_sums = bind(sums, **_FORMULAS)


@kernel
def _norms(state: Pointer, n: int, last: float, zeta: float, norm: Array) -> None:
    """log of the sum over x of the tempered predictive, for each of n hypotheses; small counts one by one."""
    shapes = column(state, STATS)
    rates = column(state, STATS + 1)
    x = np.empty(max_nodes())
    share = np.empty(max_nodes())
    # zeta log x! for the counts that are added one by one
    factorial = np.empty(_ONE_BY_ONE)
    for j in range(_ONE_BY_ONE):
        factorial[j] = zeta * log_gamma_ratio(1.0, float(j))
    for i in range(n):
        a, b = shapes[i], rates[i]
        mean, sd, low, high = _bell(a, b, last, zeta)
        if high >= _ONE_BY_ONE:
            norm[i] = _sums(a, b, last, zeta, last, False, x, share)[0]
            continue
        slope = zeta * math.log(b + zeta)
        centre = math.floor(mean)
        top = log_gamma_ratio(a, zeta * centre) - slope * centre - factorial[int(centre)]  # close to the largest term
        total = 0.0
        start = int(low)
        while start <= int(high):
            known = pointer(factorial, start)
            part = 0.0
            for j in range(min(32, int(high) - start + 1)):
                count = float(start + j)
                part += exp(min(log_gamma_ratio(a, zeta * count) - slope * count - known[j] - top, 600.0))
            total += part
            start += 32
            if start > mean + sd and part < 1e-16 * total:
                break
        norm[i] = top + math.log(total) - a * math.log1p(zeta / b)


@scalar
def _variance_gain(a: float, b: float, last: float, zeta: float, x: Array, share: Array) -> float:
    """Var(theta) less its expectation after a reading at zeta."""
    if zeta == 1.0:
        return a / (b * b * (b + 1.0))
    after = (a + zeta * _sums(a, b, last, zeta, last, False, x, share)[1]) / ((b + zeta) * (b + zeta))
    return a / (b * b) - after


@scalar
def _quick_parameter_gain(a: float, b: float, last: float, zeta: float) -> float:
    """`Poisson.quick_parameter_gain`."""
    return 0.5 * log1p(zeta / b)


_COUNTS = count_kernels(
    sums=_sums,
    norms=_norms,
    quick_parameter_gain=_quick_parameter_gain,
    variance_gain=_variance_gain,
    **_FORMULAS,
)


@kernel
def _moments(state: Pointer, setup: Pointer, i: int) -> tuple[float, float]:
    """`Poisson.predictive` of a full reading."""
    if i == int(state[COUNT]):
        a, b = setup[FIRST + 1], setup[FIRST + 2]
    else:
        a, b = column(state, STATS)[i], column(state, STATS + 1)[i]
    return a / b, a / b * (1.0 + 1.0 / b)


@scalar
def _log_ratio(setup: Pointer, y: float, zeta: float, before: float, after: float, variance: float) -> float:
    """`Poisson.log_ratio`."""
    p = max(before, _LEAST)
    q = max(after, _LEAST)
    return zeta * (y * log(q / p) - (q - p))


_KERNELS = family_kernels(_COUNTS.tick, _COUNTS.gain, absorb=_COUNTS.absorb, moments=_moments, log_ratio=_log_ratio)


class Poisson(Model):
    """Counts 0, 1, 2, ... with a Gamma prior on their rate.

        theta ~ Gamma(shape, rate),  x | theta ~ Poisson(theta)

    A reading at fidelity zeta counts as zeta readings (equation `mf_posterior`).

    Parameters
    ----------
    shape : float, default 1.0
        Shape of the Gamma prior: the prior weight in events.
    rate : float, default 1.0
        Rate of the Gamma prior: the prior weight in readings. The prior mean of theta is shape / rate events per
        tick.
    predictive : {'normalized', 'paper'}, default 'normalized'
        Which probability a reading at zeta < 1 has; see Notes.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range.

    Notes
    -----
    Statistics of a hypothesis: a = shape + sum of zeta x and b = rate + sum of zeta, so that theta is Gamma(a, b).
    Counts may be as large as 2^53.

    At zeta < 1 there are two predictives, as in `Bernoulli`; at zeta = 1 both are the negative binomial.

    - ``"paper"``: x!^-zeta Gamma(a + zeta x) / Gamma(a) b^a / (b + zeta)^(a + zeta x) (`mf_posterior_predictive`). It
      sums to more than one, by an excess that differs between run lengths.
    - ``"normalized"``: the same divided by its sum over x, for each run length. The sum has no closed form; it is
      computed to a relative 1e-10, in a few microseconds per hypothesis however large the counts are.

    Examples
    --------
    >>> model = Poisson(shape=2, rate=1)
    >>> stats = model.update(model.prior(), x=4, zeta=0.5)
    >>> [round(float(v), 6) for v in model.parameter(stats)]  # Gamma(4, 1.5)
    [2.666667, 1.777778]
    >>> [round(float(v), 6) for v in model.predictive(stats)]
    [2.666667, 4.444444]
    """

    columns = 2
    one_parameter = True
    elementwise = True
    observe = staticmethod(_KERNELS.observe)
    advance = staticmethod(_KERNELS.advance)
    gains = staticmethod(_KERNELS.gains)

    def __init__(self, shape: float = 1.0, rate: float = 1.0, predictive: Predictive = "normalized") -> None:
        self.shape = positive("Poisson", "shape", shape, 1e9)
        self.rate = positive("Poisson", "rate", rate, 1e9, 1e-12)
        self.kind = predictive_of("Poisson", predictive)

    def __repr__(self) -> str:
        return f"Poisson(shape={self.shape:g}, rate={self.rate:g}, predictive={self.kind!r})"

    def prior(self) -> Array:
        """Return the shape and the rate."""
        return np.array([self.shape, self.rate])

    def check(self, x: float) -> float:
        """Accept whole numbers from 0 to 2^53."""
        if not (0.0 <= x <= _LAST and x == math.floor(x)):
            raise self.outside(x, "0, 1, 2, ... up to 2^53")
        return x

    def possible(self, x: Array) -> NDArray[np.bool_]:
        """Accept whole numbers from 0 to 2^53."""
        return (x >= 0.0) & (x <= _LAST) & (x == np.floor(x))

    def sound(self, stats: Array) -> bool:
        """Check also that no count was above 2^53.

        The sums over the counts that larger statistics predict would not end.
        """
        return super().sound(stats) and bool((stats[0] - self.shape <= 1.001 * _LAST * (stats[1] - self.rate)).all())

    def update(self, stats: Array, x: float, zeta: float) -> Array:
        """Return a' = a + zeta x and b' = b + zeta."""
        return np.stack([stats[0] + zeta * x, stats[1] + zeta])

    def log_predictive(self, stats: Array, x: float, zeta: float) -> Array:
        """Return the log of the tempered predictive, divided by its sum over x if normalized."""
        if zeta == 0.0:
            return np.zeros_like(stats[0])
        value = _COUNTS.all_values(np.ravel(stats[0]), np.ravel(stats[1]), x, _END, zeta)
        return (value - self._log_norm(stats, zeta)).reshape(np.shape(stats[0]))

    def log_predictives(self, stats: Array, x: Array, zeta: float) -> Array:
        """As for any model; the sums over all counts are computed once."""
        a, b = np.array(stats)
        value = np.array([_COUNTS.all_values(a, b, v, _END, zeta) for v in x.tolist()])
        return value.reshape(x.size, -1) - self._log_norm(stats, zeta)

    def _log_norm(self, stats: Array, zeta: float) -> Array | float:
        return self._sums(stats, zeta)[0] if self.kind == "normalized" and zeta < 1.0 else 0.0

    def _sums(self, stats: Array, zeta: float, stop: float = _END, with_kl: bool = False) -> Array:
        return _COUNTS.all_sums(np.ravel(stats[0]), np.ravel(stats[1]), _END, zeta, stop, with_kl)

    def parameter(self, stats: Array) -> tuple[Array, Array]:
        """Return the mean a / b and the variance a / b^2 of the rate theta."""
        return stats[0] / stats[1], stats[0] / stats[1] ** 2

    def predictive(self, stats: Array, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the moments of the negative binomial; at zeta < 1 of the normalized predictive, by summation."""
        a, b = stats
        if zeta == 0.0:
            return a / b, np.full_like(a, np.inf)
        if zeta == 1.0:
            return a / b, a / b * (1.0 + 1.0 / b)
        _, mean, var, _ = self._sums(stats, zeta)
        return mean.reshape(np.shape(a)), var.reshape(np.shape(a))

    def predictive_cdf(self, stats: Array, x: float, zeta: float = 1.0) -> Array:
        """Return P(next x <= x): an incomplete beta function at zeta = 1, a sum below."""
        a, b = np.ravel(stats[0]), np.ravel(stats[1])
        stop = min(math.floor(x), _LAST)
        if stop < 0.0:
            return np.zeros_like(stats[0])
        if zeta == 1.0:
            below = beta_cdfs(a, np.full_like(a, stop + 1.0), b / (b + 1.0), 1.0 / (b + 1.0))
        else:
            below = np.exp(np.minimum(self._sums(stats, zeta, stop)[0] - self._sums(stats, zeta)[0], 0.0))
        return below.reshape(np.shape(stats[0]))

    def log_tails(self, stats: Array, x: float, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the logs of sums over the counts from x outwards, of the normalized predictive."""
        tails = _COUNTS.all_tails(np.ravel(stats[0]), np.ravel(stats[1]), x, _END, zeta)
        return tails[0].reshape(np.shape(stats[0])), tails[1].reshape(np.shape(stats[0]))

    def log_ratio(self, x: float, zeta: float, before: float, after: float, variance: float) -> float:
        """Return zeta (x log(after / before) - (after - before)); the variance is not used."""
        before, after = max(before, _LEAST), max(after, _LEAST)
        return zeta * (x * math.log(after / before) - (after - before))

    def tabulate(self, stats: Array, zeta: float) -> Table:
        """Return the counts that matter, or nodes for sums over them, normalized."""
        a, b = np.array(stats)
        return Table(*_COUNTS.count_table(a, b, _END, zeta))

    def run_length_gain(self, weight: Array, stats: Array, zeta: float) -> float:
        """Return H[x] - E_r H[x | r] of the normalized predictives, a sum over counts (`mi_xr`)."""
        if zeta == 0.0:
            return 0.0
        a, b = np.array(stats[0]), np.array(stats[1])
        return float(_COUNTS.mixture_information(np.array(weight), a, b, _END, zeta))

    def parameter_gain(self, stats: Array, zeta: float) -> Array:
        """Return E_x KL(Gamma(a + zeta x, b + zeta) || Gamma(a, b)), with x from the normalized predictive.

        With psi the digamma function,

            KL = zeta x psi(a + zeta x) - log(Gamma(a + zeta x) / Gamma(a))
                 - zeta (a + zeta x) / (b + zeta) + a log(1 + zeta / b)
        """
        if zeta == 0.0:
            return np.zeros_like(stats[0])
        return self._sums(stats, zeta, with_kl=True)[3].reshape(np.shape(stats[0]))

    def quick_parameter_gain(self, stats: Array, zeta: float) -> Array:
        """Return log(1 + zeta / b) / 2, exact for a normal reading with these moments and this zeta."""
        return np.asarray(0.5 * np.log1p(zeta / stats[1]))

    def variance_gain(self, stats: Array, zeta: float) -> Array:
        """Return Var(theta) - E_x Var(theta | x), with x from the normalized predictive."""
        a, b = stats
        if zeta == 0.0:
            return np.zeros_like(a)
        return a / b**2 - (a + zeta * self.predictive(stats, zeta)[0]) / (b + zeta) ** 2

    def nearest(self, x: float) -> float:
        """Return x rounded to a whole number of at least 0."""
        return max(float(round(x)), 0.0)

    def sample(self, rng: np.random.Generator, ticks: int) -> Array:
        """Draw theta ~ Gamma(shape, rate), then counts."""
        return rng.poisson(rng.gamma(self.shape) / self.rate, ticks).astype(np.float64)

    def params(self) -> Array:
        """Return the largest count, the shape, the rate, and 1 if the predictive is the paper's, else 0."""
        return np.array([_END, self.shape, self.rate, float(self.kind == "paper")])

    def spec(self) -> dict[str, Any]:
        """Return `shape`, `rate` and `predictive`."""
        return {"shape": self.shape, "rate": self.rate, "predictive": self.kind}
