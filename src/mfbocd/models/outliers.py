"""Any family in which a reading can be an outlier without being a change."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..inputs.arguments import probability
from .base import Array, Model
from .bells import Bells, Table
from .nested import model_of, named_spec
from .sampling import heavy
from .table import mixed_table
from .tails import mixed_tails


class Outliers(Model):
    """Readings of any family, each of which is an outlier with a small probability.

        p(x) = (1 - rate) f(x) + rate g(x)

    f is the predictive of `model` given the readings of the regime. g, the density of an outlier, is by default the
    predictive of a regime that begins now: an outlier looks like one reading of another regime, after which the
    current one continues. With a hazard below `rate`, a single odd reading is therefore first taken for an outlier,
    and a second one close to it speaks for a change.

    Parameters
    ----------
    model : Model or mapping
        The family of the other readings, or a table such as ``{"kind": "Gaussian", "mean": 0, "var": 9}``. Its
        predictive must be normalized.
    rate : float, default 0.01
        Probability that a reading is an outlier, in (0, 1).
    outlier : Model or mapping, optional
        The same family with another prior, whose predictive is g; for outliers that lie further off than the levels
        of new regimes. Not for families that depend on earlier readings, such as `Autoregressive`.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range, or the model has outliers already, or its
        predictive is not normalized.

    Notes
    -----
    A reading belongs to the regime with probability rho = (1 - rate) f(x) / p(x), which differs between run lengths.
    Given the run length, the exact posterior is a mixture of 2^n terms, one for each set of outliers among n
    readings. It is approximated in fixed memory: a reading counts as one of fidelity zeta rho. The statistics are
    then those of a regime with a fraction rho of the reading (assumed-density filtering), so each of the 2^n terms is
    replaced by an average. This is the only approximation; it is exact where rho is 0 or 1. Models on a grid
    (`StudentT`, `Grid`, `Confusion`) keep the mixture itself, without approximation.

    Statistics of a hypothesis: those of `model`, then 1 - rho of the last reading, from which `Step.outlier` is
    computed.

    A model with lags (`Autoregressive`) predicts from an outlier as from any other reading. The reading after an
    outlier is then likely to count as another one.

    The run-length gain of one number is that of the contaminated predictives. For readings of several numbers, and
    for the gains of the parameter, it is (1 - rate) times the gain of `model`: what a reading would be worth if
    outliers were marked, which is an upper bound.

    Examples
    --------
    >>> from mfbocd.models import Gaussian
    >>> model = Outliers(Gaussian(mean=0, var=9, noise_var=1), rate=0.01)
    >>> stats = model.prior()
    >>> for x in (1.0, 1.2, 0.8, 20.0):
    ...     stats = model.update(stats, x, zeta=1.0)
    >>> round(float(model.parameter(stats)[0]), 2), round(float(model.last_outlier(stats)), 3)
    (0.96, 1.0)
    """

    has_outliers = True

    def __init__(
        self,
        model: Model | Mapping[str, Any],
        rate: float = 0.01,
        outlier: Model | Mapping[str, Any] | None = None,
    ) -> None:
        self.model = model_of("Outliers.model", model)
        self.rate = probability("Outliers", "rate", rate)
        if getattr(self.model, "kind", "normalized") == "paper":
            raise ValueError(f"Outliers.model must have a normalized predictive, not {self.model!r}")
        if self.model.has_outliers:
            raise ValueError(f"Outliers.model allows for outliers already: {self.model!r}")
        self.broad = None if outlier is None else _broad(self.model, model_of("Outliers.outlier", outlier))
        self.columns = self.model.columns + 1
        self.dimension, self.partial = self.model.dimension, self.model.partial
        self.ordered = self.model.ordered

    def __repr__(self) -> str:
        other = "" if self.broad is None else f", outlier={self.broad!r}"
        return f"Outliers({self.model!r}, rate={self.rate:g}{other})"

    def prior(self) -> Array:
        """Return the prior of the family, and no outlier."""
        return np.append(self.model.prior(), 0.0)

    def new_regime(self, live: Array) -> Array:
        """Return the new regime of the family, and no outlier."""
        return np.append(self.model.new_regime(live[:-1]), 0.0)

    def sound(self, stats: Array) -> bool:
        """Check the statistics of the family, and a probability."""
        return self.model.sound(stats[:-1]) and bool(((stats[-1] >= 0.0) & (stats[-1] <= 1.0)).all())

    def skip(self, stats: Array) -> Array:
        """Skip the tick in the family; nothing was an outlier."""
        return self._joined(self.model.skip(stats[:-1]), np.zeros(stats.shape[1:]))

    def _joined(self, own: Array, outlier: Array) -> Array:
        return np.concatenate([own, np.asarray(outlier)[None]])

    def check(self, x: Any) -> Any:
        """Accept what the family can produce, and the outliers' too if they have a prior of their own."""
        return self.model.check(x) if self.broad is None else self.broad.check(self.model.check(x))

    def check_zetas(self, zetas: Sequence[float]) -> None:
        """Check the fidelities for the family."""
        self.model.check_zetas(zetas)

    def possible(self, x: Array) -> NDArray[np.bool_]:
        """Accept what the family can produce, and the outliers' too if they have a prior of their own."""
        return self.model.possible(x) if self.broad is None else self.model.possible(x) & self.broad.possible(x)

    def _fresh(self, stats: Array) -> tuple[Model, Array]:
        """Return the family of the outliers and its statistics, shape (columns,) or (columns, 1)."""
        ends = (-1,) + (1,) * (stats.ndim - 1)
        if self.broad is not None:
            return self.broad, self.broad.prior().reshape(ends)
        return self.model, self.model.new_regime(stats[:-1].reshape(self.columns - 1, -1)).reshape(ends)

    def _logs(self, stats: Array, x: Any, zeta: float) -> tuple[Array, Array]:
        """Return log((1 - rate) f(x)) and log(rate g(x)) of each hypothesis."""
        broad, fresh = self._fresh(stats)
        if broad is self.model and stats.ndim == 2:  # one call is faster than two
            both = self.model.log_predictive(np.concatenate([stats[:-1], fresh], axis=1), x, zeta)
            regime, outlier = both[:-1], both[-1:]
        else:
            regime = self.model.log_predictive(stats[:-1], x, zeta)
            outlier = broad.log_predictive(fresh, x, zeta)
        return math.log1p(-self.rate) + regime, math.log(self.rate) + outlier

    def update(self, stats: Array, x: Any, zeta: float) -> Array:
        """Update the family with a reading of fidelity zeta rho."""
        if zeta == 0.0:
            return self.skip(stats)
        own = stats[:-1]
        if zeta > 1.0:
            # `Budget.initialize` asks for the state after many readings, as one reading of a large zeta.
            return self._joined(self.model.update(own, x, (1.0 - self.rate) * zeta), np.zeros(stats.shape[1:]))
        regime, outlier = self._logs(stats, x, zeta)
        total = np.logaddexp(regime, outlier)
        known = total > -np.inf  # where neither can produce x, the run length has probability 0 from now on
        trust = np.where(known, np.exp(regime - np.where(known, total, 0.0)), 1.0)
        doubt = np.where(known, np.exp(outlier - np.where(known, total, 0.0)), 0.0)
        return self._joined(self.model.update_doubtful(own, x, zeta, trust), doubt)

    def log_predictive(self, stats: Array, x: Any, zeta: float) -> Array:
        """Return log((1 - rate) f(x) + rate g(x))."""
        if zeta == 0.0:
            return np.zeros(stats.shape[1:])
        return np.asarray(np.logaddexp(*self._logs(stats, x, zeta)))

    def last_outlier(self, stats: Array) -> Array:
        """Return 1 - rho of the last reading."""
        return stats[-1]

    def parameter(self, stats: Array) -> tuple[Array, Array]:
        """Return the moments of the family's parameter."""
        return self.model.parameter(stats[:-1])

    def predictive(self, stats: Array, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the moments of the mixture of f and g."""
        broad, fresh = self._fresh(stats)
        mean, var = self.model.predictive(stats[:-1], zeta)
        far, wide = broad.predictive(fresh, zeta)
        apart = far - mean
        spread = (1.0 - self.rate) * var + self.rate * wide + self.rate * (1.0 - self.rate) * apart**2
        return mean + self.rate * apart, spread

    def predictive_cdf(self, stats: Array, x: Any, zeta: float = 1.0) -> Array:
        """Return the mixture of the two distribution functions."""
        broad, fresh = self._fresh(stats)
        below = self.model.predictive_cdf(stats[:-1], x, zeta)
        return (1.0 - self.rate) * below + self.rate * broad.predictive_cdf(fresh, x, zeta)

    def log_tails(self, stats: Array, x: Any, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the logs of (1 - rate) times the tails of f plus rate times those of g."""
        broad, fresh = self._fresh(stats)
        found = self.model.log_tails(stats[:-1], x, zeta), broad.log_tails(fresh, x, zeta)
        return mixed_tails((math.log1p(-self.rate), math.log(self.rate)), found)

    def bells(self, stats: Array, zeta: float) -> Bells | None:
        """Return the bells of the family and those of an outlier."""
        broad, fresh = self._fresh(stats)
        each = self.model.bells(stats[:-1], zeta), broad.bells(fresh, zeta)
        if each[0] is None or each[1] is None:
            return None
        return Bells.mixed((each[0], each[1]), (1.0 - self.rate, self.rate))

    def tabulate(self, stats: Array, zeta: float) -> Table | None:
        """Return the table of the family, contaminated."""
        broad, fresh = self._fresh(stats)
        if broad is not self.model:
            return super().tabulate(stats, zeta)
        both = self.model.tabulate(np.concatenate([stats[:-1], fresh], axis=1), zeta)
        if both is None:
            return None
        outlier = both.density[:, -1:]
        return both._replace(density=(1.0 - self.rate) * both.density[:, :-1] + self.rate * outlier)

    def run_length_gain(self, weight: Array, stats: Array, zeta: float) -> float:
        """Return I(r; x) of the contaminated predictives: a sum over values, or over a grid, of one number.

        For several numbers it is the upper bound (1 - rate) I(r; x) without outliers.
        """
        if zeta == 0.0:
            return 0.0
        if self.dimension > 1:
            return (1.0 - self.rate) * self.model.run_length_gain(weight, stats[:-1], zeta)
        bells = self.bells(stats, zeta)
        if bells is not None:
            return bells.information(weight)
        w, kept = heavy(weight, stats)
        if w.size == 1:
            return 0.0
        table = self.tabulate(kept, zeta)
        if table is None:
            table = mixed_table(self, kept, zeta, [(self.model, kept[:-1]), self._fresh(kept)])
        return table.information(w)

    def parameter_gain(self, stats: Array, zeta: float) -> Array:
        """Return (1 - rate) times the family's: the information of a reading if outliers were marked."""
        return (1.0 - self.rate) * self.model.parameter_gain(stats[:-1], zeta)

    def variance_gain(self, stats: Array, zeta: float) -> Array:
        """Return (1 - rate) times the family's: the reduction by a reading if outliers were marked."""
        return (1.0 - self.rate) * self.model.variance_gain(stats[:-1], zeta)

    def nearest(self, x: Any) -> Any:
        """Return the nearest value of the family."""
        return self.model.nearest(x)

    def sample(self, rng: np.random.Generator, ticks: int) -> Array:
        """Draw a regime of the family, and replace each reading with probability `rate` by the first of another."""
        x = self.model.sample(rng, ticks)
        other = self.model if self.broad is None else self.broad
        for t in np.flatnonzero(rng.random(ticks) < self.rate).tolist():
            x[t] = other.sample(rng, 1)[0]
        return x

    def rescaled(self, offset: float, scale: float) -> Outliers:
        """As for any model; the outliers are rescaled as well."""
        try:
            broad = None if self.broad is None else self.broad.rescaled(offset, scale)
            return type(self)(self.model.rescaled(offset, scale), self.rate, broad)
        except ValueError as error:
            raise ValueError(f"Outliers: {error}") from None

    def spec(self) -> dict[str, Any]:
        """Return `model` as its kind and its arguments, `rate`, and `outlier` if it was given."""
        other = {} if self.broad is None else {"outlier": named_spec(self.broad)}
        return {"model": named_spec(self.model), "rate": self.rate, **other}


def _broad(model: Model, outlier: Model) -> Model:
    """Return the family of the outliers if it describes the same readings as the model."""
    if type(outlier) is not type(model) or outlier.columns != model.columns or outlier.dimension != model.dimension:
        raise ValueError(f"Outliers.outlier must be of the same family as {model!r}, with another prior: {outlier!r}")
    if not np.array_equal(model.new_regime(np.ones((model.columns, 1))), model.prior()):
        raise ValueError(f"Outliers.outlier is not for {type(model).__name__}, which depends on earlier readings")
    return outlier
