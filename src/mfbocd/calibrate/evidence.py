"""Prior and hazard from data alone: those under which the data are most probable (empirical Bayes)."""

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

WIDE = 4.0  # nats a logarithm may go from where it began before a penalty of half a nat
LIKELY = 0.01  # hazard the search begins at


@dataclass(frozen=True)
class Fitted:
    """A model and a hazard that explain the data best, and by how much better than where the search began."""

    model: Model
    hazard: Hazard
    log_evidence: float
    began: float
    """The log evidence of the model and hazard the search began at."""
    evaluations: int

    def detector(self, fidelities: Any = None, **options: Any) -> Detector:
        """A detector with this model and hazard, before its first tick."""
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
    """Maximise log p(x) over the model's numbers and the hazard, from `model` on (extra ``fit``).

    Parameters
    ----------
    model: where the search begins; its family is kept. A prior made from the data's own mean and variance is a good
        start, and makes the result free of units.
    x: a finished stream, NaN where a reading is missing.
    free: names of the arguments to fit; all numbers of the model unless told. Positive ones are searched by their
        logarithms, the others in units of the standard deviation of x.
    hazard: kept if given; fitted from 1/100 on otherwise.
    zeta: of each reading; 1 unless told.
    prefix: use only so many readings: the rest can then be held against it.
    tolerance: the search stops when it moves the log evidence by less.

    A weak penalty keeps what the data say nothing about near its beginning: half a nat at a factor e^4. The search is
    Nelder and Mead's: the evidence of a pruned filter has steps too small to see and too many for a gradient.

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
        raise ValueError(f"x must hold at least two readings, not {values.shape[0]}")
    spec = model.spec()
    names = _free(model, spec, free)
    positive = {name: spec[name] > 0.0 and name not in LINEAR for name in names}
    unit = float(np.nanstd(values)) or 1.0
    weights = np.ones(len(values)) if zeta is None else np.asarray(zeta, dtype=np.float64)[:prefix]
    if weights.shape != (len(values),):
        raise ValueError(f"zeta must be one number a reading, {len(values)}, not of shape {weights.shape}")
    ways = [Fidelity(f"z{i}", float(z), 1.0 + i) for i, z in enumerate(np.unique(weights))]
    which = np.searchsorted([f.zeta for f in ways], weights)
    fitted = hazard is None

    def built(point: Array) -> tuple[Model, Any]:
        moved = dict(spec)
        for name, step in zip(names, point, strict=False):
            moved[name] = spec[name] * math.exp(step) if positive[name] else spec[name] + unit * step
        odds = LIKELY / (1.0 - LIKELY) * math.exp(point[-1]) if fitted else 0.0
        return type(model)(**moved), odds / (1.0 + odds) if fitted else hazard

    seen: dict[tuple[float, ...], float] = {}

    def loss(point: Array) -> float:
        key = tuple(point.tolist())
        if key not in seen:
            try:
                candidate, h = built(point)
                evidence = log_evidence(candidate, h, values, ways, which)
            except (ValueError, OverflowError, FloatingPointError):
                return math.inf  # the model cannot take such numbers
            seen[key] = 0.5 * float((point / WIDE) @ (point / WIDE)) - evidence
        return seen[key]

    start = np.zeros(len(names) + fitted)
    if start.size == 0:
        raise ValueError("nothing is free to be fitted: name an argument in free, or leave hazard out")
    search: Any = optimize.minimize  # its stubs know no first simplex
    options = {"fatol": tolerance, "xatol": 1e-2, "maxfev": 200 * start.size, "initial_simplex": _simplex(start)}
    with np.errstate(invalid="ignore"):  # inf - inf between points that cannot be
        best = search(loss, start, method="Nelder-Mead", options=options).x
    chosen, h = built(best)
    known = h if isinstance(h, Hazard) else Hazard(h)
    return Fitted(chosen, known, log_evidence(chosen, known, values, ways, which), -loss(start), len(seen))


LINEAR = ("mean", "level", "slope")
"""Arguments that may have either sign, and are searched in units of the data."""


def log_evidence(model: Model, hazard: Any, x: Array, ways: Sequence[Fidelity], which: NDArray[np.int64]) -> float:
    """log p(x) of a stream whose reading t was made at fidelity which[t]."""
    detector = Detector(model, ways, hazard, policy=Always(ways[0].name), alarm=None, missing="skip")
    if len(ways) == 1:
        run(detector, x)
        return detector.log_evidence
    for value, j in zip(x, which, strict=True):
        detector.update(value if model.dimension > 1 else float(value), ways[j].name)
    return detector.log_evidence


def _free(model: Model, spec: dict[str, Any], free: Sequence[str] | None) -> list[str]:
    numbers = [name for name, value in spec.items() if isinstance(value, float)]
    if free is None:
        return numbers
    for name in free:
        if name not in numbers:
            raise ValueError(
                f"free names {name!r}, which is no number of {type(model).__name__}: {', '.join(numbers)}"
            )
    return list(free)


def _simplex(start: Array) -> Array:
    """A first step of one in every direction: a factor e, or the data's standard deviation."""
    return np.vstack([start, start + np.eye(start.size)])
