"""A level with heavy-tailed noise, under which an outlier is not a change."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._kernels.beta import beta_cdfs
from .._kernels.lattice import WIDE, coarse_moments, coarse_weights, convolve, stencil
from .._kernels.tables import table_entropies
from ..inputs.arguments import finite, positive, whole
from .base import Array
from .bells import Table
from .lattice import KEPT, Lattice, panels
from .regression import MOST
from .tails import student_tails

_FAR = 1e140  # noise scales from the prior mean; squares of readings further off would overflow
_REACH = 8.0  # prior standard deviations on either side that the grid covers
_MOST = 4001  # points of the grid
_EDGES = np.concatenate([-np.exp2(np.arange(60.0, -2.0, -1.0)), [0.0], np.exp2(np.arange(-1.0, 61.0))])
_STEP = 0.38  # noise scales between the points of the coarse lattice
_STRIDE = 2  # of these between the nodes of a gain
_PAD = 12.0  # noise scales that the nodes of the lattice go beyond its ends


class _Convolution(NamedTuple):
    """The grids on which the gains at one fidelity are integrated, in units of the noise at zeta = 1."""

    stencil: Array
    """Weights that move the posterior to the coarse lattice."""
    place: Array
    """The points of the coarse lattice."""
    noise: Array
    """Density of the noise at differences of points, `lattice.convolve`."""
    start: int
    """The place in it of the difference of the first node and the first point."""
    x: Array
    """The nodes: those on the lattice, then those in the tails."""
    share: Array
    inner: int
    """How many are on the lattice."""
    zeta: float

    @classmethod
    def of(cls, model: StudentT, zeta: float) -> _Convolution:
        """Choose the grids, so that steps are small compared with the noise."""
        width = 1.0 / math.sqrt(zeta)
        fine = model._z[1] - model._z[0]
        resolved = width * min(1.0, 0.5 * math.sqrt(model.degrees))
        ratio = max(int(_STEP * resolved / fine), 1)
        step = ratio * fine
        size = (model._z.size - 1) // ratio + WIDE
        place = model._z[0] + step * (np.arange(size) - 2.0)
        stride = max(1, min(_STRIDE, int(1.001 * resolved / step)))
        pad = math.ceil(_PAD * width / step)
        inner = (size + 2 * pad) // stride + 1
        x = place[0] + step * (stride * np.arange(inner) - pad)
        # rows of every stride-th difference; node 0 is `pad` steps below point 0, which is `size` above the last
        length = math.ceil((size + pad) / stride) + inner + 1
        start = size + stride
        differences = np.arange(stride)[:, None] + stride * np.arange(length) - (start + pad)
        noise = np.exp(model._log_density(step * differences, zeta))
        share = np.full(inner, stride * step)
        share[[0, -1]] *= 0.5
        # a tail beyond R scales holds about R^-degrees
        further = np.exp2(np.arange(0.0, math.ceil(30.0 / model.degrees) + 2.0))
        centre = 0.5 * (x[0] + x[-1])
        half = 0.5 * (x[-1] - x[0])
        right, lengths = panels(half * further)
        nodes = np.concatenate([x, centre - right[::-1], centre + right])
        shares = np.concatenate([share, lengths[::-1], lengths])
        return cls(stencil(ratio, model._z.size), place, noise, start, nodes, shares, inner, zeta)

    def densities(self, model: StudentT, stats: Array, with_moved: bool) -> tuple[Array, Array]:
        """Return the density at the nodes, and that times E(theta | x) - E(theta), or nothing."""
        coarse = coarse_weights(np.ascontiguousarray(stats.reshape(model.columns, -1)), self.stencil)
        mean, sd = coarse_moments(coarse, self.place)
        density = np.empty((self.x.size, mean.size))
        moved = np.empty((self.x.size if with_moved else 0, mean.size))
        convolve(coarse, self.place, mean, self.noise, self.start, self.inner, density, moved)
        tail = self.x[self.inner :, None]
        low = np.exp(model._log_density(tail - (mean - sd), self.zeta))
        high = np.exp(model._log_density(tail - (mean + sd), self.zeta))
        density[self.inner :] = 0.5 * (low + high)
        if with_moved:
            moved[self.inner :] = 0.5 * sd * (high - low)
        return density, moved


class StudentT(Lattice):
    """Readings with heavy-tailed noise, Student's t, about a level with a normal prior.

        theta ~ N(mean, var)
        x = theta + sqrt(noise_var / zeta) t,  t ~ Student(degrees)

    The likelihood of a level far from x falls like a power of the distance. One outlier is therefore attributed to
    the noise, and only several in a row to a change.

    Parameters
    ----------
    mean : float, default 0.0
        Prior mean of a regime's level, in units of the readings.
    var : float, default 1.0
        Prior variance of the level. Set it to the size by which levels really differ; see Notes.
    noise_var : float, default 1.0
        Squared scale of the noise at zeta = 1. Its variance is noise_var * degrees / (degrees - 2).
    degrees : float, default 4.0
        Degrees of freedom, above 1. Fewer degrees mean heavier tails.
    points : int, default 8
        Grid points per sqrt(noise_var).

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range, `degrees` is at most 1, or the noise is so
        small that the grid of theta would be too large.

    Notes
    -----
    There is no conjugate prior, so the posterior is computed on a grid of levels that covers 8 prior standard
    deviations on either side, with `points` per sqrt(noise_var) and at least 2 per prior standard deviation. The
    statistics of a hypothesis are the log posterior weights of the grid. A level beyond the grid is treated as its
    end.

    Sums over the grid are accurate until the posterior is narrower than its step. With 8 points the log evidence of a
    regime was measured to be exact to 1e-6 nats up to 100 readings, to 0.001 up to 200, to 0.05 up to 400 and to 0.5
    up to 1000.

    A reading at fidelity zeta has noise with squared scale noise_var / zeta, as for `Gaussian`, and the same degrees.
    (The density to the power zeta would be Student's t with zeta (degrees + 1) - 1 degrees, so that a low-fidelity
    reading would have heavier tails.) The predictive is normalized at every zeta.

    A vague prior makes an outlier a likely first reading of a new regime. Measured with a hazard of 1/200 and one
    reading 20 scales off after 100 normal ones: P(change) peaks at 0.1 up to var = 25 noise_var, at 0.3 for 36 and at
    0.9 for 100.

    Examples
    --------
    >>> model = StudentT(mean=0, var=9, noise_var=1)
    >>> stats = model.prior()
    >>> for x in (1.0, 1.2, 0.8, 20.0):
    ...     stats = model.update(stats, x, zeta=1.0)
    >>> round(float(model.parameter(stats)[0]), 2)
    1.05
    """

    def __init__(
        self, mean: float = 0.0, var: float = 1.0, noise_var: float = 1.0, degrees: float = 4.0, points: int = 8
    ) -> None:
        self.mean = finite("StudentT", "mean", mean)
        self.var = positive("StudentT", "var", var)
        self.noise_var = positive("StudentT", "noise_var", noise_var)
        self.degrees = positive("StudentT", "degrees", degrees, 1e6)
        if self.degrees <= 1.0:
            raise ValueError(f"StudentT.degrees must exceed 1, not {degrees!r}: readings would have no mean")
        self.points = whole("StudentT", "points", points, 1, MOST)
        self._unit = math.sqrt(self.noise_var)
        ratio = math.sqrt(self.var / self.noise_var)
        half = math.ceil(_REACH * ratio * max(self.points, 2.0 / ratio))
        if 2 * half + 1 > _MOST:
            size = f"{points} points to each noise scale make {2 * half + 1} over the prior, more than {_MOST}"
            raise ValueError(
                f"StudentT.var = {var!r} is {ratio**2:.3g} times noise_var = {noise_var!r}: {size}; "
                "give fewer, or less var"
            )
        self._z = np.linspace(-_REACH * ratio, _REACH * ratio, 2 * half + 1)
        v = self.degrees
        self._front = math.lgamma(0.5 * (v + 1.0)) - math.lgamma(0.5 * v) - 0.5 * math.log(math.pi * v)
        self._start(self.mean + self._unit * self._z, -0.5 * (self._z / ratio) ** 2)
        self._grids: dict[float, _Convolution] = {}
        node, share = panels(_EDGES)
        logs = self._log_density(node, 1.0)
        self._entropy = -float(share @ (np.exp(logs) * logs))

    def __repr__(self) -> str:
        prior = f"mean={self.mean:g}, var={self.var:g}, noise_var={self.noise_var:g}"
        return f"StudentT({prior}, degrees={self.degrees:g}, points={self.points})"

    def check(self, x: float) -> float:
        """Accept every finite number."""
        return x

    def _log_density(self, z: Array, zeta: float) -> Array:
        """At z from the level, standardized; of the standardized reading."""
        power = 0.5 * (self.degrees + 1.0)
        return np.asarray(self._front + 0.5 * math.log(zeta) - power * np.log1p(zeta * z * z / self.degrees))

    def _log_likelihood(self, x: float, zeta: float) -> Array:
        return self._log_density(self._distance(x), zeta) - math.log(self._unit)

    def _distance(self, x: float) -> Array:
        """Return the distance of x from each level, standardized."""
        return min(max((x - self.mean) / self._unit, -_FAR), _FAR) - self._z

    def _moments(self, zeta: float) -> tuple[Array, Array]:
        v = self.degrees
        var = self.noise_var / zeta * v / (v - 2.0) if v > 2.0 else math.inf
        return self.theta, np.full(self.theta.size, var)

    def _below(self, x: float, zeta: float) -> Array:
        z = self._distance(x)
        t = zeta * z * z / self.degrees
        half = np.full(z.size, 0.5)
        tail = 0.5 * beta_cdfs(self.degrees * half, half, 1.0 / (1.0 + t), t / (1.0 + t))
        return np.where(z > 0.0, 1.0 - tail, tail)

    def _log_tails(self, x: float, zeta: float) -> tuple[Array, Array]:
        z = self._distance(x)
        return student_tails(z, zeta * z * z / self.degrees, np.full(z.size, self.degrees))

    def _convolution(self, zeta: float) -> _Convolution:
        """Return the grids of the gains at zeta; a policy uses the same few at every tick."""
        known = self._grids.get(zeta)
        if known is None:
            known = _Convolution.of(self, zeta)
            if len(self._grids) >= KEPT:
                self._grids.pop(next(iter(self._grids)))
            self._grids[zeta] = known
        return known

    def _table(self, stats: Array, zeta: float) -> Table:
        """Return the convolution of the posterior with the noise, in units of the noise."""
        grid = self._convolution(zeta)
        return Table(grid.x, grid.share, grid.densities(self, stats, False)[0])

    def parameter_gain(self, stats: Array, zeta: float) -> Array:
        """Return I(theta; x), the entropy of x minus that of the noise."""
        if zeta == 0.0:
            return np.zeros(stats.shape[1:])
        return self._learned(self._table(stats, zeta), zeta).reshape(stats.shape[1:])

    def _learned(self, table: Table, zeta: float) -> Array:
        noise = self._entropy - 0.5 * math.log(zeta)
        return np.maximum(table_entropies(table.share, table.density) - noise, 0.0)

    def joint_gain(self, weight: Array, stats: Array, zeta: float) -> float:
        """Return both gains, from one table."""
        if zeta == 0.0:
            return 0.0
        table = self._table(stats, zeta)
        return table.information(weight) + float(weight @ self._learned(table, zeta))

    def variance_gain(self, stats: Array, zeta: float) -> Array:
        """Return Var(theta) - E_x Var(theta | x) in units of `noise_var`, as for `Gaussian`."""
        if zeta == 0.0:
            return np.zeros(stats.shape[1:])
        grid = self._convolution(zeta)
        each, moved = grid.densities(self, stats, True)
        gain = grid.share @ (moved**2 / np.where(each > 0.0, each, 1.0))
        return np.asarray(gain).reshape(stats.shape[1:])

    def sample(self, rng: np.random.Generator, ticks: int) -> Array:
        """Draw theta ~ N(mean, var), then add Student's t noise."""
        theta = rng.normal(self.mean, math.sqrt(self.var))
        return np.asarray(theta + self._unit * rng.standard_t(self.degrees, ticks))

    def rescaled(self, offset: float, scale: float) -> StudentT:
        """As for any model; the grid of levels moves along."""
        square = scale * scale
        prior = offset + scale * self.mean, square * self.var, square * self.noise_var
        return type(self)(*prior, self.degrees, self.points)

    def spec(self) -> dict[str, Any]:
        """Return the five arguments."""
        prior = {"mean": self.mean, "var": self.var, "noise_var": self.noise_var}
        return {**prior, "degrees": self.degrees, "points": self.points}
