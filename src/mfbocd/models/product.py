"""Several families side by side: readings of mixed columns that are independent given the regime."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._kernels.tables import drawn_rows
from .base import Array, Model
from .bells import product_gain
from .composed import Composed, parts_of, stacked
from .elliptical import Elliptical, canonical, log_densities
from .sampling import heavy, sampled_information, sources, uniform
from .table import table_of

_CELLS = 200_000  # combinations of values that are summed; more are sampled


class Product(Composed):
    """Readings made of columns of different families that change together.

        log p(x) = sum over the families of log p(their columns)

    A reading is the concatenation of the readings of the families, which are independent given the regime.

    Parameters
    ----------
    *models : Model
        Two families or more: families of one number each, multivariate Gaussians, or products of those.
    parts : sequence of Model or mapping, optional
        The same as a list, of models or of tables such as ``{"kind": "Gaussian", "mean": 0, "var": 9}``. Not together
        with `models`.

    Raises
    ------
    TypeError, ValueError
        If there are fewer than two families, or one of them cannot be a part.

    Notes
    -----
    Statistics, moments and parameters are concatenated in the order of the families.

    A family whose number is missing (NaN, with ``missing="skip"``) contributes nothing at that tick; the others do.
    Of a family with several numbers, all must be present or all missing.

    The parameter gain and the variance gain are sums over the families, the latter each in its own unit. The
    run-length gain is not a sum, because the columns may carry the same information. Up to 200 000 combinations of
    the families' values (nodes where they are continuous) are summed; beyond that it uses 1536 fixed points
    (`models.sampling`). Gains assume that nothing will be missing.

    Examples
    --------
    >>> from mfbocd.models import Bernoulli, Gaussian
    >>> model = Product(Gaussian(0, 9, 1), Bernoulli(1, 1))
    >>> stats = model.update(model.prior(), np.array([2.0, np.nan]), zeta=1.0)
    >>> model.predictive(stats)[0]
    array([1.8, 0.5])
    """

    partial = True

    def __init__(self, *models: Model, parts: Sequence[Model | Mapping[str, Any]] | None = None) -> None:
        given = parts_of("Product", models, parts)
        for i, part in enumerate(given):
            if part.dimension > 1 and not isinstance(part, (Elliptical, Product)):
                raise ValueError(
                    f"Product.parts[{i}] must be of one number, a multivariate Gaussian or a Product, not {part!r}"
                )
        flat = [one for part in given for one in (part.parts if isinstance(part, Product) else [part])]
        if len(flat) < 2:
            raise ValueError(f"Product.parts must be two families or more, not {flat!r}")
        ends = np.cumsum([0, *(part.dimension for part in flat)]).tolist()
        self._cells = [slice(a, b) for a, b in pairwise(ends)]
        self._compose(flat, ends[-1])

    def check(self, x: Array) -> Array:
        """Check the numbers of every family; an error names the position of the first bad one."""
        for part, cells in zip(self.parts, self._cells, strict=True):
            own = x[cells]
            gone = np.isnan(own)
            if gone.any() and not gone.all():
                raise ValueError(f"x[{cells.start}:{cells.stop}] = {own}: {part!r} takes all of its numbers or none")
            if not gone.any():
                try:
                    part.check(_own(part, own))
                except ValueError as error:
                    raise ValueError(f"x[{cells.start}]: {error}") from None
        return x

    def possible(self, x: Array) -> NDArray[np.bool_]:
        """Accept what every family can produce."""
        ok = np.ones(len(x), dtype=np.bool_)
        for part, cells in zip(self.parts, self._cells, strict=True):
            ok &= part.possible(x[:, cells] if part.dimension > 1 else x[:, cells.start])
        return ok

    def update(self, stats: Array, x: Array, zeta: float) -> Array:
        """Update each family with its own numbers, or skip it where they are missing."""
        return self._updated(stats, x, lambda part, rows, own: part.update(rows, own, zeta))

    def update_doubtful(self, stats: Array, x: Array, zeta: float, trust: Array) -> Array:
        """Update each family; the reading as a whole belongs to the regime or not."""
        return self._updated(stats, x, lambda part, rows, own: part.update_doubtful(rows, own, zeta, trust))

    def _updated(self, stats: Array, x: Array, update: Callable[[Model, Array, Any], Array]) -> Array:
        out = []
        for part, rows, cells in zip(self.parts, self._rows, self._cells, strict=True):
            own = x[cells]
            missing = np.isnan(own).any()
            out.append(part.skip(stats[rows]) if missing else update(part, stats[rows], _own(part, own)))
        return np.concatenate(out)

    def last_outlier(self, stats: Array) -> Array:
        """Return the probability that the number of at least one family was an outlier."""
        parts = zip(self.parts, self._rows, strict=True)
        return 1.0 - np.prod([1.0 - part.last_outlier(stats[rows]) for part, rows in parts], axis=0)

    def log_predictive(self, stats: Array, x: Array, zeta: float) -> Array:
        """Return the sum over the families that were read."""
        total = np.zeros(stats.shape[1:])
        for part, rows, cells in zip(self.parts, self._rows, self._cells, strict=True):
            own = x[cells]
            if not np.isnan(own).any():
                total = total + part.log_predictive(stats[rows], _own(part, own), zeta)
        return total

    def predictive(self, stats: Array, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the moments of the families, concatenated."""
        pairs = [part.predictive(own, zeta) for part, own in self._each(stats)]
        return stacked([mean for mean, _ in pairs], stats), stacked([var for _, var in pairs], stats)

    def predictive_cdf(self, stats: Array, x: Array, zeta: float = 1.0) -> Array:
        """Return the distribution function of each number on its own."""
        found = [
            part.predictive_cdf(stats[rows], _own(part, x[cells]), zeta)
            for part, rows, cells in zip(self.parts, self._rows, self._cells, strict=True)
        ]
        return stacked(found, stats)

    def log_tails(self, stats: Array, x: Array, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the log tails of each number on its own; NaN for a number that is missing."""
        found = [
            part.log_tails(stats[rows], _own(part, x[cells]), zeta)
            if not np.isnan(x[cells]).any()
            else (np.full((part.dimension, *stats.shape[1:]), np.nan),) * 2
            for part, rows, cells in zip(self.parts, self._rows, self._cells, strict=True)
        ]
        return stacked([lower for lower, _ in found], stats), stacked([upper for _, upper in found], stats)

    def run_length_gain(self, weight: Array, stats: Array, zeta: float) -> float:
        """Return I(r; x) of all columns together: a sum over their combined values, or over fixed points."""
        if zeta == 0.0:
            return 0.0
        w, kept = heavy(weight, stats)
        if w.size == 1:
            return 0.0
        own = list(self._each(kept))
        tables = []
        for part, rows in own:
            if isinstance(part, Elliptical):
                break
            tables.append(table_of(part, rows, zeta))
        if len(tables) == len(own) and math.prod(table.x.size for table in tables) <= _CELLS:
            return product_gain(w, tables)
        source = sources(w)
        logs = np.zeros((w.size, source.size))
        column = 0
        for part, rows in own:
            if isinstance(part, Elliptical):
                logs += log_densities(canonical(w, part.components(rows, zeta)), source, column)
                column += part.dimension + 1
            else:
                table = table_of(part, rows, zeta)
                u = uniform(source.size, column + 1)[:, column]
                drawn = drawn_rows(table.share, np.ascontiguousarray(table.density), u, source)
                with np.errstate(divide="ignore"):
                    logs += np.take(np.log(table.density.T), drawn, axis=1)
                column += 1
        return sampled_information(w, logs, source)

    def parameter_gain(self, stats: Array, zeta: float) -> Array:
        """Return the sum over the families, which are independent given the regime."""
        return np.sum(
            [part.parameter_gain(own, zeta) for part, own in self._each(stats)],
            axis=0,
        )

    def variance_gain(self, stats: Array, zeta: float) -> Array:
        """Return the sum over the families, each in its own unit."""
        return np.sum([part.variance_gain(own, zeta) for part, own in self._each(stats)], axis=0)

    def nearest(self, x: Array) -> Array:
        """Return the nearest value of each family."""
        near = [part.nearest(_own(part, x[cells])) for part, cells in zip(self.parts, self._cells, strict=True)]
        return np.concatenate([np.atleast_1d(value) for value in near])

    def sample(self, rng: np.random.Generator, ticks: int) -> Array:
        """Draw from each family."""
        return np.hstack([part.sample(rng, ticks).reshape(ticks, -1) for part in self.parts])


def _own(part: Model, x: Array) -> Any:
    return float(x[0]) if part.dimension == 1 else x
