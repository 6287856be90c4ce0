"""Prior and hazard that maximize the evidence of the data (empirical Bayes)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..belief.hazard import Hazard
from ..detector.detector import Detector
from ..inputs.readings import floats
from ..models import Model
from ..policy import Always
from ..policy.fidelity import Fidelity
from ..trace.run import run

Array = NDArray[np.float64]

WIDE = 4.0  # distance of a logarithm from its start at which the penalty is half a nat
FIRST_HAZARD = 0.01  # start of the search


@dataclass(frozen=True)
class Fitted:
    """The model and hazard with the highest evidence, and the improvement over the start of the search.

    Attributes
    ----------
    model : Model
        The fitted model.
    hazard : Hazard
        The fitted hazard, or the given one.
    log_evidence : float
        log p(x) of the result, in nats.
    began : float
        log p(x) at the start of the search, in nats.
    evaluations : int
        Number of evaluations of the evidence.
    """

    model: Model
    hazard: Hazard
    log_evidence: float
    began: float
    evaluations: int

    def detector(self, fidelities: Any = None, **options: Any) -> Detector:
        """Return a detector with this model and hazard, before its first tick.

        Parameters
        ----------
        fidelities : Any
            The fidelities, as `Detector` takes them; one with zeta = 1 by default.
        **options : Any
            Further arguments of `Detector`.

        Returns
        -------
        Detector
            The detector.

        Examples
        --------
        >>> from mfbocd import Gaussian
        >>> Fitted(Gaussian(0, 9, 1), Hazard(0.01), -10.0, -12.0, evaluations=40).detector().ticks
        0
        """
        return Detector(self.model, fidelities, self.hazard, **options)


def fit(
    model: Model,
    x: ArrayLike,
    *,
    free: Sequence[str] | None = None,
    hazard: float | Hazard | None = None,
    zeta: ArrayLike | None = None,
    prefix: int | None = None,
    tolerance: float = 0.01,
) -> Fitted:
    """Maximise log p(x) over the model's numbers and the hazard, starting from `model` (extra ``fit``).

    A weak penalty keeps parameters that the data does not determine near their start: half a nat at a factor of e^4.
    The search is that of Nelder and Mead, because the evidence of a pruned filter has many small steps that a
    gradient would miss.

    Parameters
    ----------
    model : Model
        Start of the search; its family is kept. A prior from the data's own mean and variance is a good start, and
        makes the result independent of units.
    x : ArrayLike
        A finished stream, NaN where a reading is missing.
    free : Sequence[str] or None
        Names of the arguments to fit; all numbers of the model by default. Positive ones are searched on a log scale,
        the others in units of the standard deviation of x.
    hazard : float or Hazard or None
        A hazard to keep; by default it is fitted too, starting from 1/100.
    zeta : ArrayLike or None
        zeta of each reading; 1 by default.
    prefix : int or None
        Use only this many readings, so that the rest can serve as test data; all by default.
    tolerance : float
        The search stops when the log evidence changes by less, in nats; 0.01 by default.

    Returns
    -------
    Fitted
        The fitted model and hazard.

    Raises
    ------
    ValueError
        If there are fewer than two readings, nothing is free, `free` names no number of the model, or `zeta` has the
        wrong shape.
    ImportError
        If scipy is not installed.

    Examples
    --------
    >>> from mfbocd import Gaussian, simulate
    >>> x = simulate.gaussian(Gaussian(5, 16, 0.25), hazard=0.02, ticks=600, seed=1).table[:, 0]
    >>> found = fit(Gaussian(mean=x.mean(), var=x.var(), noise_var=x.var()), x)
    >>> found.log_evidence > found.began
    True
    >>> round(found.model.noise_var, 2)
    0.27
    """
    try:
        from scipy import optimize
    except ImportError:
        raise ImportError("fit needs scipy: pip install 'mfbocd[fit]'") from None
    values = floats(x)[:prefix]
    if values.shape[0] < 2 or not np.isfinite(values).any():
        raise ValueError(f"x must contain at least two readings, not {values.shape[0]}")
    spec = model.spec()
    names = _free(model, spec, free)
    positive = {name: spec[name] > 0.0 and name not in LINEAR for name in names}
    unit = float(np.nanstd(values)) or 1.0
    weights = np.ones(len(values)) if zeta is None else np.asarray(zeta, dtype=np.float64)[:prefix]
    if weights.shape != (len(values),):
        raise ValueError(f"zeta must have shape ({len(values)},), one per reading, not {weights.shape}")
    fidelities = [Fidelity(f"z{i}", float(z), 1.0 + i) for i, z in enumerate(np.unique(weights))]
    which = np.searchsorted([f.zeta for f in fidelities], weights)
    fitted = hazard is None

    def built(point: Array) -> tuple[Model, Any]:
        arguments = dict(spec)
        for name, step in zip(names, point, strict=False):
            arguments[name] = spec[name] * math.exp(step) if positive[name] else spec[name] + unit * step
        odds = FIRST_HAZARD / (1.0 - FIRST_HAZARD) * math.exp(point[-1]) if fitted else 0.0
        return type(model)(**arguments), odds / (1.0 + odds) if fitted else hazard

    seen: dict[tuple[float, ...], float] = {}

    def loss(point: Array) -> float:
        key = tuple(point.tolist())
        if key not in seen:
            try:
                candidate, h = built(point)
                evidence = log_evidence(candidate, h, values, fidelities, which)
            except (ValueError, OverflowError, FloatingPointError):
                return math.inf  # outside the model's range
            seen[key] = 0.5 * float((point / WIDE) @ (point / WIDE)) - evidence
        return seen[key]

    start = np.zeros(len(names) + fitted)
    if start.size == 0:
        raise ValueError("free must name at least one argument if hazard is given, not none")
    search: Any = optimize.minimize  # the stubs lack initial_simplex
    options = {"fatol": tolerance, "xatol": 1e-2, "maxfev": 200 * start.size, "initial_simplex": _simplex(start)}
    with np.errstate(invalid="ignore"):  # inf - inf between points outside the model's range
        best = search(loss, start, method="Nelder-Mead", options=options).x
    chosen, h = built(best)
    known = h if isinstance(h, Hazard) else Hazard(h)
    return Fitted(chosen, known, log_evidence(chosen, known, values, fidelities, which), -loss(start), len(seen))


LINEAR = ("mean", "level", "slope")
"""Arguments that may have either sign; they are searched in units of the data's standard deviation."""


def log_evidence(
    model: Model, hazard: Any, x: Array, fidelities: Sequence[Fidelity], which: NDArray[np.int64]
) -> float:
    """Return log p(x) of a stream whose reading t was made at fidelity which[t].

    Parameters
    ----------
    model : Model
        The model.
    hazard : Any
        The hazard.
    x : numpy.ndarray
        The readings, NaN where missing.
    fidelities : Sequence[Fidelity]
        The fidelities.
    which : numpy.ndarray
        Index of the fidelity of each reading.

    Returns
    -------
    float
        The log evidence, in nats.
    """
    detector = Detector(model, fidelities, hazard, policy=Always(fidelities[0].name), alarm=None, missing="skip")
    if len(fidelities) == 1:
        run(detector, x)
        return detector.log_evidence
    for value, j in zip(x, which, strict=True):
        detector.update(value if model.dimension > 1 else float(value), fidelities[j].name)
    return detector.log_evidence


def _free(model: Model, spec: dict[str, Any], free: Sequence[str] | None) -> list[str]:
    numbers = [name for name, value in spec.items() if isinstance(value, float)]
    if free is None:
        return numbers
    for name in free:
        if name not in numbers:
            raise ValueError(f"free must name numbers of {type(model).__name__} ({', '.join(numbers)}), not {name!r}")
    return list(free)


def _simplex(start: Array) -> Array:
    """Return a first simplex with a step of one in every direction: a factor of e, or one standard deviation."""
    return np.vstack([start, start + np.eye(start.size)])
