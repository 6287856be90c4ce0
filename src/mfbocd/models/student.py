"""A level under noise with heavy tails: an outlier is no change."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._kernels.beta import beta_shares
from ..inputs.arguments import finite, positive, whole
from .base import Array
from .cost import CostBound, whole_number
from .lattice import Lattice, Nodes, panels
from .regression import MOST

_FAR = 1e140  # noise scales from the prior mean; squares of readings further off would overflow
_REACH = 8.0  # prior standard deviations on either side that the grid covers
_MOST = 4001  # points of the grid


class StudentT(Lattice):
    """A level with a N(mean, var) prior under Student's t noise with known `degrees` and squared scale `noise`.

    The likelihood of a level far from x falls like a power, not like a Gaussian's square: one wild reading is put
    down to the noise, and only several of them to a change. It has no conjugate prior, so the posterior lives on a
    grid of levels over 8 prior standard deviations either side, `points` to each sqrt(noise) (and to half a prior
    standard deviation at least). Sums over such a grid converge faster than any power of its step, until the
    posterior is narrower than that: with 8 points the evidence of a regime was measured to be exact to 1e-6 nats up
    to 100 readings, to 0.001 up to 200, 0.05 up to 400 and 0.5 up to 1000; the level is then as if known to lie on
    the grid. A level beyond its ends is taken for the end.

    At fidelity zeta the reading's noise has the squared scale noise / zeta, as for `Gaussian`, and the same degrees.
    (The power zeta of the density would be Student's t with zeta (degrees + 1) - 1 degrees, if that is positive: a
    poor reading would have to be a wild one.) The predictive is normalised at every zeta.

    A vague prior expects levels far away, and a reading far off is then a likely first one of a new regime. Measured
    with a hazard of 1/200, one reading 20 scales off after 100 quiet ones: P(change) peaks at some 0.1 up to
    var = 25 noise, 0.3 at 36, 0.9 at 100. Give var the size levels really differ by.

    Parameters
    ----------
    mean, var: of the level's prior.
    noise: squared scale of the noise; its variance is noise * degrees / (degrees - 2).
    degrees: of freedom, above 1; the fewer, the wilder.
    points: of the grid to each sqrt(noise).

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

    def __repr__(self) -> str:
        prior = f"mean={self.mean:g}, var={self.var:g}, noise_var={self.noise_var:g}"
        return f"StudentT({prior}, degrees={self.degrees:g}, points={self.points})"

    def check(self, x: float) -> float:
        """Every finite number is possible."""
        return x

    def _log_density(self, z: Array, zeta: float) -> Array:
        """At z from the level, standardised; of the standardised reading."""
        power = 0.5 * (self.degrees + 1.0)
        return np.asarray(self._front + 0.5 * math.log(zeta) - power * np.log1p(zeta * z * z / self.degrees))

    def _log_likelihood(self, x: float, zeta: float) -> Array:
        y = min(max((x - self.mean) / self._unit, -_FAR), _FAR)
        return self._log_density(y - self._z, zeta) - math.log(self._unit)

    def _moments(self, zeta: float) -> tuple[Array, Array]:
        v = self.degrees
        var = self.noise_var / zeta * v / (v - 2.0) if v > 2.0 else math.inf
        return self.theta, np.full(self.theta.size, var)

    def _below(self, x: float, zeta: float) -> Array:
        z = min(max((x - self.mean) / self._unit, -_FAR), _FAR) - self._z
        t = zeta * z * z / self.degrees
        half = np.full(z.size, 0.5)
        tail = 0.5 * beta_shares(self.degrees * half, half, 1.0 / (1.0 + t), t / (1.0 + t))
        return np.where(z > 0.0, 1.0 - tail, tail)

    def _make_nodes(self, zeta: float) -> Nodes:
        """In units of the noise scale: panels of two scales where the grid lies, then ever longer ones."""
        width = 1.0 / math.sqrt(zeta)
        core = math.ceil(self._z[-1] / (2.0 * width)) + 2
        inner = 2.0 * width * np.arange(-core, core + 1)
        # a tail beyond R scales holds about R^-degrees
        further = np.exp2(np.arange(1.0, math.ceil(40.0 / self.degrees) + 2.0))
        edges = np.concatenate([inner[0] * further[::-1], inner, inner[-1] * further])
        x, share = panels(edges)
        return Nodes.of(x, share, np.exp(self._log_density(x[:, None] - self._z, zeta)))

    def variance_gain(self, stats: Array, zeta: float) -> Array:
        """Var(theta) - E_x Var(theta | x), in units of `noise`, as for `Gaussian`."""
        return super().variance_gain(stats, zeta) / self.noise_var

    def sample(self, rng: np.random.Generator, ticks: int) -> Array:
        """theta ~ N(mean, var), then theta plus Student-t noise."""
        theta = rng.normal(self.mean, math.sqrt(self.var))
        return np.asarray(theta + self._unit * rng.standard_t(self.degrees, ticks))

    @classmethod
    def cost_bound(cls, arguments: Mapping[str, Any]) -> CostBound:
        """Grows with `points` and with the standard deviation of the prior in units of the noise's."""
        var, noise_var, degrees = (
            float(arguments.get(name, value)) for name, value in (("var", 1), ("noise_var", 1), ("degrees", 4))
        )
        reach = _REACH * math.sqrt(var / noise_var)
        columns = 2 * math.ceil(max(reach * whole_number(arguments, "points", 8), 2.0 * _REACH)) + 1
        panels = 2 * (math.ceil(0.5 * reach) + 2) + 2 * (math.ceil(40.0 / degrees) + 1)  # at zeta = 1, the most
        return CostBound(columns, 30 * columns, 5 * columns * 8 * panels, "points, model.var and model.noise_var")

    def spec(self) -> dict[str, Any]:
        """The five arguments."""
        prior = {"mean": self.mean, "var": self.var, "noise_var": self.noise_var}
        return {**prior, "degrees": self.degrees, "points": self.points}
