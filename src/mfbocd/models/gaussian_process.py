"""Readings that are a smooth unknown function of the readings before them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from .._kernels.cholesky import FAR
from .._kernels.compile import kernel
from ..inputs.arguments import finite, positive, whole
from .base import Array
from .lagged import Lagged
from .regression import MOST, counts_of, ratio
from .unknown_noise import Weighting

_OWNER = "GaussianProcess"
_TAIL = 4.0  # kernel (up to `reach`) and spectrum are truncated at exp(-_TAIL^2 / 2)
_REACH = {1: 8.0, 2: 4.0}  # default reach in lengths: a hypothesis of order 2 has 25 times the statistics of order 1
_MOST = 100  # features; a hypothesis then has 5000 statistics


@kernel
def _features(rates: Array, lags: Array, doubt: Array) -> Array:
    """1, and the expected cosines and sines of rates . lags, whose variances are `doubt`: (1 + 2 waves, K)."""
    waves, order = rates.shape
    n = lags.shape[1]
    out = np.empty((1 + 2 * waves, n))
    for k in range(n):
        same = k > 0  # hypotheses differ in their lags only after a tick that was not read
        for i in range(order):
            same = same and lags[i, k] == lags[i, k - 1] and doubt[i, k] == doubt[i, k - 1]
        out[0, k] = 1.0
        for j in range(waves):
            if same:
                out[1 + j, k] = out[1 + j, k - 1]
                out[1 + waves + j, k] = out[1 + waves + j, k - 1]
            else:
                phase = 0.0
                power = 0.0
                for i in range(order):
                    phase += rates[j, i] * lags[i, k]
                    power += rates[j, i] ** 2 * doubt[i, k]
                size = math.exp(-0.5 * power)
                out[1 + j, k] = size * math.cos(phase)
                out[1 + waves + j, k] = size * math.sin(phase)
    return out


@kernel
def _lost(rates: Array, power: Array, doubt: Array) -> Array:
    """The variance of f that its expected features do not have, (K,)."""
    waves, order = rates.shape
    out = np.zeros(doubt.shape[1])
    for k in range(out.size):
        known = True
        for i in range(order):
            known = known and doubt[i, k] == 0.0
        if not known:
            for j in range(waves):
                total = 0.0
                for i in range(order):
                    total += rates[j, i] ** 2 * doubt[i, k]
                out[k] -= power[j] * math.expm1(-total)
    return out


def _spectrum(order: int, reach: float) -> tuple[Array, Array]:
    """The waves, one of w and -w each, (n, order), and what share of the kernel each and the constant have, (1 + n,).

    In units of the length. If n > `_MOST` / 2 there are too many features, and not all of them are returned.
    """
    step = 2.0 * math.pi / (reach + _TAIL)
    last = int(min(_TAIL * (reach + _TAIL) / (2.0 * math.pi), _MOST))
    grid = [m for m in product(range(-last, last + 1), repeat=order) if m > (0,) * order]
    waves = step * np.array(grid, dtype=np.float64).reshape(-1, order)
    squares = (waves**2).sum(axis=1)
    kept = squares <= _TAIL**2
    share = np.append(1.0, 2.0 * np.exp(-0.5 * squares[kept]))
    return waves[kept], share / share.sum()


class GaussianProcess(Lagged):
    """Readings that are a smooth unknown function of the last one or two readings: a Gaussian process.

        x_t - mean = a + f(x_{t-1}, ..., x_{t-p}) + noise

    The dependence on the lags may be any smooth function, not only a linear one as in `Autoregressive`. The offset a
    and the function f have prior mean 0 and are learned again in every regime. The kernel of f is the squared
    exponential, exp(-d^2 / (2 length^2)) for lags at distance d. `Regression` has the formulas.

    Parameters
    ----------
    order : int, default 1
        Number p of lags: 1 or 2. Three would need hundreds of features.
    mean : float, default 0.0
        Prior mean of a reading.
    length : float, default 1.0
        Length scale of the kernel, in units of the readings: at lags further apart, f takes nearly independent
        values.
    count : float or sequence of float, default (1.0, 0.1)
        Number of readings that the priors are worth: one number, or two (for a, for f). The prior standard deviation
        of each is that of the noise divided by sqrt(count): by default that of the noise for a, and three times it
        for f.
    shape : float, optional
        Shape of the InverseGamma prior of the noise variance; 1 by default. Not with `noise_var`.
    scale : float, optional
        Scale of that prior, in squared units of the readings; 1 by default. Not with `noise_var`.
    noise_var : float, optional
        The noise variance, if it is known. By default it is learned.
    reach : float, optional
        Largest distance between two readings of one regime, in their units; at least `length`. By default 8 lengths
        with one lag (15 features, 141 statistics per hypothesis) and 4 lengths with two (81 and 3412). More than 100
        features are refused.
    weighting : {'precision', 'tempered'}, default 'precision'
        What a reading at zeta < 1 is: one whose noise variance is s2 / zeta, or a fraction zeta of a reading of
        variance s2 (the paper, docs/maths.md, "What zeta says about unknown noise").

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range, or `length` is negligible compared with the
        noise.

    Notes
    -----
    An exact process has as many statistics as readings. For a fixed number, f is a sum of waves, a cosine and a sine
    for each w or -w of a grid, with the kernel

        k(d) = sum_w s_w cos(w . d)
        s_w ~ exp(-(length |w|)^2 / 2),  sum_w s_w = 1
        w = 2 pi (m_1, ..., m_p) / (reach + 4 length),  |w| <= 4 / length

    with whole m. It is within 0.001 of the squared exponential as long as no two readings of a regime are further
    apart than `reach`; predictions are then within about 0.001 / count standard deviations of the noise of exact
    regression.

    Beyond `reach`, k is periodic with period reach + 4 length: f is then assumed to be equal at places that far
    apart, and fits worse; nothing else breaks. Only the spread of the readings within a regime matters, not where
    they lie.

    The lags are those of the stream, also across the start of a regime. A lag that was read below full fidelity has
    the mean and variance that prediction and reading give together (tempered, it enters as it was read). One that was
    not read has those that its regime predicted; before the regime or the stream it is unknown.
    Where a lag is uncertain, each wave enters with its expected value, and the prior variance of f that this omits is
    added to that of the noise: such a reading is less informative about f.

    Examples
    --------
    >>> model = GaussianProcess(noise_var=1e-4, count=1e-4)
    >>> stats, x = model.prior(), 0.3
    >>> for _ in range(50):
    ...     x = 1 - 2 * x * x
    ...     stats = model.update(stats, x, zeta=1.0)
    >>> round(float(model.predictive(stats)[0]), 2), round(1 - 2 * x * x, 2)
    (0.47, 0.47)
    """

    _unknown = (0.0, FAR)  # a lag, and its variance

    def __init__(
        self,
        order: int = 1,
        mean: float = 0.0,
        length: float = 1.0,
        count: float | Sequence[float] | Array = (1.0, 0.1),
        shape: float | None = None,
        scale: float | None = None,
        noise_var: float | None = None,
        reach: float | None = None,
        weighting: Weighting = "precision",
    ) -> None:
        self.order = whole(_OWNER, "order", order, 1, MOST)
        if self.order > 2:
            raise ValueError(f"{_OWNER}.order must be 1 or 2, not {order!r}: more lags would need hundreds of waves")
        self.mean = finite(_OWNER, "mean", mean)
        self.length = positive(_OWNER, "length", length)
        self.reach = positive(_OWNER, "reach", _REACH[self.order] * self.length if reach is None else reach)
        self.count = counts_of(_OWNER, count, 2, "of a and of f")
        waves, share = self._waves()
        level, f = self.count
        counts = np.concatenate([[1.0 / (1.0 / level + share[0] / f)], np.tile(f / share[1:], 2)])
        self._set(np.append(self.mean, np.zeros(counts.size - 1)), counts, shape, scale, noise_var, weighting)
        if not self._unit <= 1e100 * self.length:
            raise ValueError(f"{_OWNER}.length = {length!r} is negligible compared with the noise, {self._unit:g}")
        self._rates = waves * (self._unit / self.length)
        self._power = share[1:] / f

    def _waves(self) -> tuple[Array, Array]:
        lengths = self.reach / self.length
        if lengths < 1.0:
            raise ValueError(f"{_OWNER}.reach must be at least the length, {self.length:g}, not {self.reach:g}")
        waves, share = _spectrum(self.order, lengths)
        if 1 + 2 * len(waves) > _MOST:
            raise ValueError(
                f"{_OWNER}.reach = {self.reach:g} is {lengths:.3g} lengths: with order = {self.order} that needs "
                f"more than {_MOST} features; a shorter reach or a greater length needs fewer"
            )
        return waves, share

    def rescaled(self, offset: float, scale: float) -> GaussianProcess:
        """As for any model; lengths are in units of the readings too."""
        place = {"mean": offset + scale * self.mean, "length": scale * self.length, "reach": scale * self.reach}
        return type(self)(**(self.spec() | place | self._rescaled_noise(scale)))

    def spec(self) -> dict[str, Any]:
        """Return the arguments; those of an unused prior are left out."""
        prior = {"order": self.order, "mean": self.mean, "length": self.length, "count": self.count.tolist()}
        return {**prior, **self._noise(), "reach": self.reach}

    def _regressors(self, lags: Array) -> Array:
        place, doubt = np.ascontiguousarray(lags)
        return _features(self._rates, place, doubt)

    def _lag_variance(self, lags: Array) -> Array:
        return _lost(self._rates, self._power, np.ascontiguousarray(lags[1]))

    def _expected_lag(self, rows: Array) -> Array:
        centre, spread, shape, scale = self._forecast(rows, self._next_regressors(rows)[0])
        var = 1.0 / self._weight(rows, 1.0) + spread
        if self.noise_var is None:
            var = var * ratio(scale, shape - 1.0)
        return np.stack([np.clip(centre, -FAR, FAR), np.minimum(var, FAR)])
