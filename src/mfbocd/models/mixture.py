"""One of several families, which is learned within every regime: model selection online."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..inputs.arguments import positive
from .base import Array, Model
from .bells import Bells, Table, family_gains, table_family_gains
from .cells import Cells, cells_of, family_information, run_length_information
from .composed import Composed, Part, parts_of
from .lattice import NEVER
from .sampling import heavy
from .table import continuous
from .tails import mixed_tails


class Mixture(Composed):
    """Readings of one of several families; which one is learned within every regime.

        P(k) = weights[k] / sum of the weights
        P(k | x_1..x_n) ~ P(k) p_k(x_1..x_n)
        p(x | x_1..x_n) = sum_k P(k | x_1..x_n) p_k(x | x_1..x_n)

    Every regime belongs to one family k, and every hypothesis weighs the families by their evidence since its regime
    began. A change of family is a change like any other. `Detector.families` returns the probabilities of the
    families of the current regime.

    Parameters
    ----------
    *models : Model
        Two families or more with readings of the same length.
    weights : sequence of float, optional
        Prior weights of the families, positive, up to a common factor; equal by default.
    parts : sequence of Model or mapping, optional
        The families as a list, of models or of tables such as ``{"kind": "Gaussian", "mean": 0, "var": 9}``. Not
        together with `models`.

    Attributes
    ----------
    names : list of str
        Names of the families: those of their classes, numbered from the second of a kind on (``"Trend 2"``).

    Raises
    ------
    TypeError, ValueError
        If there are fewer than two families, they cannot be mixed, or a weight is out of range.

    Notes
    -----
    Statistics of a hypothesis: those of the families in order, then the log probability of each family, normalized at
    every reading. The filter is exact.

    The mixture accepts what any of its families accepts. A family that cannot produce a reading has probability 0
    until the next change. The paper's predictives of readings at zeta < 1 are not densities and cannot be compared
    between families, so families with ``predictive="paper"`` are refused.

    A density and a probability are compared as they are. Mix continuous and discrete families only where the unit of
    the readings is the distance between the discrete values, so that a density approximates the probability of a
    whole number.

    The families have no common parameter: `parameter` and `Detector.parameter` return the parameters of all families,
    concatenated, each as if its family were the true one.

    The gains of readings of one number are sums over values, or integrals (`models.bells`, or `models.cells` where
    the families have no common form). With several numbers, `run_length_gain` is the average gain if the family were
    known, and `parameter_gain` leaves out the information about the family: it is a lower bound.

    Examples
    --------
    >>> from mfbocd.models import GaussianUnknown, Trend
    >>> model = Mixture(GaussianUnknown(), Trend())
    >>> stats = model.prior()
    >>> for t in range(8):
    ...     stats = model.update(stats, 1.5 * t, zeta=1.0)
    >>> model.families(stats).round(3)
    array([0.134, 0.866])
    """

    def __init__(
        self, *models: Model, weights: Sequence[float] | None = None, parts: Sequence[Part] | None = None
    ) -> None:
        given = parts_of("Mixture", models, parts)
        shares = [1.0] * len(given) if weights is None else _weights(weights, len(given))
        flat: list[Model] = []
        self.weights: list[float] = []
        for part, share in zip(given, shares, strict=True):
            if isinstance(part, Mixture):
                flat += part.parts
                self.weights += [share * w / sum(part.weights) for w in part.weights]
            else:
                flat.append(part)
                self.weights.append(share)
        if len(flat) < 2:
            raise ValueError(f"Mixture.parts must be two families or more, not {flat!r}")
        for i, part in enumerate(flat):
            _comparable(i, part, flat[0])
        self.partial = all(part.partial for part in flat)
        self._compose(flat, flat[0].dimension, len(flat))
        kinds = [type(part).__name__ for part in flat]
        found = [kinds[: i + 1].count(kind) for i, kind in enumerate(kinds)]
        self.names = [kind if n == 1 else f"{kind} {n}" for kind, n in zip(kinds, found, strict=True)]
        self._log_prior = np.log(self.weights) - np.log(sum(self.weights))

    def families(self, stats: Array) -> Array:
        """Return the probability of each family given the readings of the regime.

        Parameters
        ----------
        stats : ndarray
            Shape (columns,) or (columns, K).

        Returns
        -------
        ndarray
            Shape (F,) or (K, F) for F families.
        """
        return np.exp(stats[-len(self.parts) :]).T

    def last_outlier(self, stats: Array) -> Array:
        """Return the average over the families, by their probabilities."""
        found = np.array([part.last_outlier(own) for part, own in self._each(stats)])
        return np.asarray((np.exp(stats[-len(self.parts) :]) * found).sum(axis=0))

    def prior(self) -> Array:
        """Return the priors of the families and their log prior probabilities."""
        return np.concatenate([super().prior(), self._log_prior])

    def sound(self, stats: Array) -> bool:
        """Check the statistics of every family, and that their probabilities sum to 1."""
        logs = stats[-len(self.parts) :]
        if not ((logs >= NEVER) & (logs <= 1e-9)).all() or (np.abs(np.exp(logs).sum(axis=0) - 1.0) > 1e-9).any():
            return False
        return super().sound(stats)

    def new_regime(self, live: Array) -> Array:
        """Return the new regime of every family, and the log prior probabilities."""
        return np.concatenate([super().new_regime(live), self._log_prior])

    def skip(self, stats: Array) -> Array:
        """Skip the tick in every family; their probabilities do not change."""
        return np.concatenate([super().skip(stats), stats[-len(self.parts) :]])

    def check(self, x: Any) -> Any:
        """Accept what any family accepts; with missing numbers, what all of them accept."""
        errors = [error for part in self.parts if (error := _refusal(part, x)) is not None]
        if errors and np.isnan(x).any():
            raise errors[0]
        if len(errors) == len(self.parts):
            raise self.outside(x, f"none of its families accepts it ({errors[0]})")
        return x

    def possible(self, x: Array) -> NDArray[np.bool_]:
        """Accept what any family can produce."""
        return np.any([part.possible(x) for part in self.parts], axis=0)

    def _able(self, x: Any) -> list[bool]:
        """Return whether each family can produce x."""
        return [_refusal(part, x) is None for part in self.parts]

    def _joint(self, stats: Array, x: Any, zeta: float, able: Sequence[bool]) -> Array:
        """Return log P(k) p_k(x) of each family, (F,) or (F, K), of which those in `able` can produce x."""
        logs = stats[-len(self.parts) :].copy()
        for k, (part, own) in enumerate(self._each(stats)):
            logs[k] += part.log_predictive(own, x, zeta) if able[k] else NEVER
        return np.maximum(logs, NEVER)

    def update(self, stats: Array, x: Any, zeta: float) -> Array:
        """Update each family, or skip it if it cannot produce x, and multiply its probability by its predictive."""
        if zeta > 1.0:
            # `Budget.initialize` asks for the state after many readings, as one reading of a large zeta. That has no
            # density by which the families could be compared.
            able = self._able(x)
            return np.concatenate([*self._updated(stats, x, zeta, able), stats[-len(self.parts) :]])
        return self.assimilate(stats, x, zeta)[1]

    def update_doubtful(self, stats: Array, x: Any, zeta: float, trust: Array) -> Array:
        """Update each family with the reading in part; the odds of the families count it at zeta * trust."""
        if stats.ndim == 2:
            each = zip(stats.T, trust, strict=True)
            return np.stack([self.update_doubtful(column, x, zeta, part) for column, part in each], axis=1)
        able = self._able(x)
        odds = self.update(stats, x, float(np.maximum(zeta * trust, 1e-300)))[-len(self.parts) :]
        each_part = zip(able, self._each(stats), strict=True)
        parts = [part.update_doubtful(own, x, zeta, trust) if ok else part.skip(own) for ok, (part, own) in each_part]
        return np.concatenate([*parts, odds])

    def assimilate(self, stats: Array, x: Any, zeta: float) -> tuple[Array, Array]:
        """As for any model; the predictives of the families are computed once."""
        if zeta == 0.0:
            return np.zeros(stats.shape[1:]), self.skip(stats)
        able = self._able(x)
        logs = self._joint(stats, x, zeta, able)
        total = np.logaddexp.reduce(logs, axis=0)
        # under an impossible hypothesis, whose weight is now 0, the probabilities stay as they are
        with np.errstate(invalid="ignore"):  # -inf - -inf, not used
            shares = np.maximum(logs - total, NEVER)
        after = np.where(total > 0.5 * NEVER, shares, stats[-len(self.parts) :])
        return np.asarray(total), np.concatenate([*self._updated(stats, x, zeta, able), after])

    def _updated(self, stats: Array, x: Any, zeta: float, able: Sequence[bool]) -> list[Array]:
        each = zip(able, self._each(stats), strict=True)
        return [part.update(own, x, zeta) if ok else part.skip(own) for ok, (part, own) in each]

    def log_predictive(self, stats: Array, x: Any, zeta: float) -> Array:
        """Return log sum_k P(k) p_k(x); about -1e290 where no family can produce x."""
        if zeta == 0.0:
            return np.zeros(stats.shape[1:])
        return np.asarray(np.logaddexp.reduce(self._joint(stats, x, zeta, self._able(x)), axis=0))

    def predictive(self, stats: Array, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the moments of the mixture of the families' predictives."""
        p = np.exp(stats[-len(self.parts) :])
        pairs = [part.predictive(own, zeta) for part, own in self._each(stats)]
        mean = _averaged(p, [mean for mean, _ in pairs])
        return mean, _averaged(p, [var + (centre - mean) ** 2 for centre, var in pairs])

    def predictive_cdf(self, stats: Array, x: Any, zeta: float = 1.0) -> Array:
        """Return the average of the families' distribution functions."""
        p = np.exp(stats[-len(self.parts) :])
        return _averaged(p, [part.predictive_cdf(own, x, zeta) for part, own in self._each(stats)])

    def log_tails(self, stats: Array, x: Any, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the logs of the averages of the families' tails."""
        found = (part.log_tails(own, x, zeta) for part, own in self._each(stats))
        return mixed_tails(stats[-len(self.parts) :], found)

    def _bells(self, stats: Array, zeta: float) -> list[Bells] | None:
        """Return the bells of every family if all of them have the same kind."""
        found: list[Bells] = []
        for part, own in self._each(stats):
            bells = part.bells(own, zeta)
            if bells is None or (found and bells.kind != found[0].kind):
                return None
            found.append(bells)
        return found

    def bells(self, stats: Array, zeta: float) -> Bells | None:
        """Return the bells of all families, with the families' probabilities."""
        each = self._bells(stats, zeta)
        return None if each is None else Bells.mixed(each, list(np.exp(stats[-len(self.parts) :])))

    def _tables(self, stats: Array, zeta: float) -> list[Table] | None:
        """Return the tables of the families over the same values if all of them list values."""
        found: list[Table] = []
        for part, own in self._each(stats):
            table = None if part.dimension > 1 or continuous(part) else part.tabulate(own, zeta)
            if table is None or (table.share != 1.0).any():
                return None
            found.append(table)
        x = np.unique(np.concatenate([table.x for table in found]))
        out = []
        for table in found:
            density = np.zeros((x.size, table.density.shape[1]))
            density[np.searchsorted(x, table.x)] = table.density
            out.append(Table(x, np.ones_like(x), density))
        return out

    def tabulate(self, stats: Array, zeta: float) -> Table | None:
        """Return the average of the families' tables."""
        tables = self._tables(stats, zeta)
        if tables is None:
            return super().tabulate(stats, zeta)
        p = np.exp(stats[-len(self.parts) :])
        return tables[0]._replace(density=_averaged(p, [table.density for table in tables]))

    def _cells(self, stats: Array, zeta: float) -> Cells:
        return cells_of(list(self._each(stats)), np.exp(stats[-len(self.parts) :]), zeta)

    def run_length_gain(self, weight: Array, stats: Array, zeta: float) -> float:
        """Return h(mixture) - sum_l w_l h(mixture_l), where each hypothesis is a mixture of the families."""
        if zeta == 0.0:
            return 0.0
        bells = self.bells(stats, zeta)
        if bells is not None:
            return bells.information(weight)
        w, kept = heavy(weight, stats)
        if w.size == 1:
            return 0.0
        p = np.exp(kept[-len(self.parts) :])
        if self.dimension == 1:
            table = self.tabulate(kept, zeta)
            if table is not None:
                return table.information(w)
            return run_length_information(w, p, self._cells(kept, zeta))
        total = p @ w
        some = [(share, part, own, w * q) for share, q, (part, own) in zip(total, p, self._each(kept), strict=True)]
        return sum(float(t) * part.run_length_gain(v / t, own, zeta) for t, part, own, v in some if t > 0.0)

    def parameter_gain(self, stats: Array, zeta: float) -> Array:
        """Return I(k; x) + sum_k P(k) I(theta_k; x | k), the information about the family and its parameter."""
        if zeta == 0.0:
            return np.zeros(stats.shape[1:])
        rows = stats.reshape(self.columns, -1)
        p = np.exp(rows[-len(self.parts) :])
        gain = _averaged(p, [part.parameter_gain(own, zeta) for part, own in self._each(rows)])
        if self.dimension == 1:
            gain = gain + self._family_gain(rows, p, zeta)
        return gain.reshape(stats.shape[1:])

    def joint_gain(self, weight: Array, stats: Array, zeta: float) -> float:
        """Return the sum of both gains, of counts from one table of every family."""
        if zeta == 0.0:
            return 0.0
        tables = self._tables(stats, zeta)
        if tables is None:
            return super().joint_gain(weight, stats, zeta)
        p = np.exp(stats[-len(self.parts) :])
        densities = [table.density for table in tables]
        learned = _averaged(p, [part.parameter_gain(own, zeta) for part, own in self._each(stats)])
        learned = learned + table_family_gains(densities, p)
        both = tables[0]._replace(density=_averaged(p, densities))
        return both.information(weight) + float(weight @ learned)

    def _family_gain(self, rows: Array, p: Array, zeta: float) -> Array:
        """Return I(k; x | r) of the family for each hypothesis."""
        bells = self._bells(rows, zeta)
        if bells is not None:
            return family_gains(bells, p)
        tables = self._tables(rows, zeta)
        if tables is not None:
            return table_family_gains([table.density for table in tables], p)
        return family_information(p, self._cells(rows, zeta))

    def variance_gain(self, stats: Array, zeta: float) -> Array:
        """Return sum_k P(k) times the family's own gain, each in its own unit."""
        p = np.exp(stats[-len(self.parts) :])
        return _averaged(p, [part.variance_gain(own, zeta) for part, own in self._each(stats)])

    def nearest(self, x: Any) -> Any:
        """Return the nearest of the families' nearest values."""
        return min((part.nearest(x) for part in self.parts), key=lambda near: float(np.abs(near - x).max()))

    def sample(self, rng: np.random.Generator, ticks: int) -> Array:
        """Draw a family by its prior probability, then a regime from it."""
        return self.parts[rng.choice(len(self.parts), p=np.exp(self._log_prior))].sample(rng, ticks)

    def rescaled(self, offset: float, scale: float) -> Mixture:
        """As for any model, if every family has an offset and a scale."""
        try:
            return type(self)(*(part.rescaled(offset, scale) for part in self.parts), weights=self.weights)
        except ValueError as error:
            raise ValueError(f"Mixture: {error}") from None

    def spec(self) -> dict[str, Any]:
        """Return `parts`, each family as its kind and its arguments, and `weights`."""
        return {**super().spec(), "weights": self.weights}


def _weights(given: Sequence[float], size: int) -> list[float]:
    if isinstance(given, str) or np.ndim(given) != 1 or len(given) != size:
        raise ValueError(f"Mixture.weights must be one number per family: {size}, not {given!r}")
    return [positive("Mixture", f"weights[{i}]", weight) for i, weight in enumerate(given)]


def _comparable(i: int, part: Model, first: Model) -> None:
    """Refuse a family whose predictive cannot be compared with that of the first."""
    if part.dimension != first.dimension:
        raise ValueError(
            f"Mixture.parts[{i}] must have readings of the same length as parts[0], {first.dimension}, not "
            f"{part.dimension}: {part!r}"
        )
    if getattr(part, "covariates", 0) != getattr(first, "covariates", 0):
        raise ValueError(f"Mixture.parts[{i}] must have the same covariates as parts[0], {first!r}, not {part!r}")
    if getattr(part, "kind", "normalized") == "paper":
        raise ValueError(f"Mixture.parts[{i}] must have predictive='normalized', a density, not {part!r}")


def _refusal(part: Model, x: Any) -> ValueError | None:
    try:
        part.check(x)
    except ValueError as error:
        return error
    return None


def _averaged(p: Array, values: Sequence[Any]) -> Array:
    """Return sum_k p_k values_k; a family of probability 0 does not count, even if its value is infinite."""
    if p.all():
        return np.asarray(sum(share * value for share, value in zip(p, values, strict=True)))
    total: Any = 0.0
    with np.errstate(invalid="ignore"):
        for share, value in zip(p, values, strict=True):
            total = total + np.where(share > 0.0, share * value, 0.0)
    return np.asarray(total)
