"""Estimate a model for a finished series and find its changes."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..belief.hazard import Hazard, Learned
from ..calibrate.auto import AutoDetector
from ..calibrate.draft.model import PRIOR_WIDTH, guess_basic_model
from ..calibrate.noise import finite_values, noise_of
from ..detector.detector import Detector
from ..inputs.readings import cells, numbers
from ..models import Bernoulli, GaussianUnknown, Model, MultivariateGaussianUnknown, Product, Trend
from ..trace.hindsight import Changepoint, Hindsight, live_for
from ..trace.recorder import change_interval

Array = NDArray[np.float64]

LEVEL = 0.9
"""Probability of the intervals of changes."""
_PIECE = 64  # readings at once: intervals of changes use the posterior at the end of the piece


class Segmentation(Protocol):
    """The changes found in a series."""

    @property
    def smoothed(self) -> Array:
        """P(change) at every tick."""
        ...

    def changepoints(self) -> list[Changepoint]:
        """Return the changes with their intervals and probabilities."""
        ...

    def segmentation(self) -> list[int]:
        """Return the first tick of every regime after the first."""
        ...


def series_of(X: Any) -> Array:
    """Return readings as an array of shape (T, d), NaN where missing.

    Parameters
    ----------
    X : Any
        Readings of shape (T,) or (T, d).

    Returns
    -------
    numpy.ndarray
        One row per tick.

    Raises
    ------
    ValueError
        If the shape is wrong, there is no reading, or one is infinite.
    TypeError
        If one is not a number.

    Examples
    --------
    >>> series_of([1, 2, 3]).shape
    (3, 1)
    """
    try:
        values = numbers(cells(X), where=lambda i: f"row {i}")
    except (TypeError, ValueError) as error:
        raise type(error)(f"X must contain numbers: {error}") from None
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or values.size == 0:
        raise ValueError(f"X must have shape (T,) or (T, d) and hold a reading, not {values.shape}")
    if np.isinf(values).any():
        row, column = np.argwhere(np.isinf(values))[0]
        raise ValueError(f"X must be finite, not {values[row, column]} in row {row}, column {column}")
    return values


def model_for(values: ArrayLike) -> Model:
    """Return a model whose prior is estimated from readings, whatever their offset and unit.

    Zeros and ones are a Bernoulli. All others are a Gaussian with unknown mean and variance (covariance for several
    numbers), even counts and waiting times, because the first few readings of a stream do not distinguish them. Level
    and noise are those of the Gaussian of `mfbocd detect`, but the noise variance is unknown: an estimate from a few
    readings is uncertain, and one that is too low gives many false alarms.

    Parameters
    ----------
    values : ArrayLike
        Readings of shape (T,) or (T, d), NaN where missing.

    Returns
    -------
    Model
        The model.

    Raises
    ------
    ValueError
        If a column has no readings, or as in `series_of`.

    Examples
    --------
    >>> model_for([20.0, 21.0, 20.5, 19.0, 20.0])
    GaussianUnknown(mean=20, count=0.111111, shape=1.5, scale=0.288951, predictive='normalized')
    >>> model_for([0, 1, 1, 0])
    Bernoulli(alpha=1, beta=1, predictive='normalized')
    """
    x = series_of(values)
    for j, column in enumerate(x.T):
        if np.isnan(column).all():
            raise ValueError(f"X must contain a reading in every column, but column {j} has none")
    if x.shape[1] == 1:
        guess = guess_basic_model(x[:, 0]).model
        if guess["kind"] == "bernoulli":
            return Bernoulli(guess["alpha"], guess["beta"])
        # three degrees of freedom: the fewest with a finite expected noise variance
        return GaussianUnknown(
            guess["mean"], guess["noise_var"] / guess["var"], shape=1.5, scale=0.5 * guess["noise_var"]
        )
    noise_var = np.array([noise_of(column)[0] for column in x.T])
    spread = np.array([np.var(finite_values(column)) for column in x.T])
    # the prior covariance of the mean is the noise covariance over `count`, one number for all columns
    count = 1.0 / float(np.median(np.maximum(spread / noise_var, PRIOR_WIDTH)))
    return MultivariateGaussianUnknown(np.nanmedian(x, axis=0), count, degrees=x.shape[1] + 2, scale=noise_var)


def trend_model_for(values: ArrayLike) -> Model:
    """Return a model of a whole series, whatever its offset and unit: a noisy straight line per segment.

    Real series drift; if the level of a segment were constant, every drift would be many changes. The prior is that
    of `Trend` in units of the column's standard deviation, so that the size of a change is measured by the variation
    of the whole series. A column of zeros and ones is a Bernoulli, and several columns are independent given the
    changes.

    Parameters
    ----------
    values : ArrayLike
        Readings of shape (T,) or (T, d), NaN where missing.

    Returns
    -------
    Model
        The model.

    Raises
    ------
    ValueError
        If a column has no readings, or as in `series_of`.

    Examples
    --------
    >>> trend_model_for([2.0, 4.0, 6.0])
    Trend(level=4.0, slope=0.0, count=[1.0, 100.0], shape=1.0, scale=2.66...)
    """
    x = series_of(values)
    parts: list[Model] = []
    for j, column in enumerate(x.T):
        known = column[~np.isnan(column)]
        if known.size == 0:
            raise ValueError(f"X must contain a reading in every column, but column {j} has none")
        if ((known == 0.0) | (known == 1.0)).all():
            parts.append(Bernoulli(1, 1))
        else:
            parts.append(Trend(level=float(known.mean()), scale=float(known.var()) or 1.0))
    return parts[0] if len(parts) == 1 else Product(*parts)


class AutomaticSegmentation:
    """The changes that a new automatic detector reports in a series of one number per tick.

    Parameters
    ----------
    x : numpy.ndarray
        Readings of shape (T,), NaN where missing.
    hazard : float or Hazard or None
        P(change) per tick, a number; the detector's default if None.
    seed : int
        Seed of the detector's pruning.

    Raises
    ------
    TypeError
        If `hazard` is not a number.
    ValueError
        If there is no reading.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = AutomaticSegmentation(np.append(rng.normal(0, 1, 100), rng.normal(9, 1, 50)), None, 0)
    >>> found.segmentation()
    [100]
    """

    def __init__(self, x: Array, hazard: float | Hazard | None, seed: int) -> None:
        if isinstance(hazard, Hazard):
            raise TypeError(f"hazard must be a number without a model, not {hazard!r}")
        if np.isnan(x).all():
            raise ValueError("X must contain a reading in every column, but column 0 has none")
        self.detector = AutoDetector(seed=seed) if hazard is None else AutoDetector(hazard, seed=seed)
        self.smoothed = np.zeros(x.size)
        self._changes: list[Changepoint] = []
        last = -1
        for start in range(0, x.size, _PIECE):
            trace = self.detector.run(x[start : start + _PIECE])
            self.smoothed[start : start + _PIECE] = trace.p_change
            for tick, at, confidence in trace.changes:
                stretch = max(tick - self.detector.alarm.within, last, 0), tick
                found = change_interval(self.detector.run_length, self.detector.ticks - 1, stretch, LEVEL) or (at, at)
                self._changes.append(Changepoint(at, min(found[0], at), max(found[1], at), confidence))
                last = tick

    def changepoints(self) -> list[Changepoint]:
        """Return the changes with their intervals and the confidence of their alarms.

        Returns
        -------
        list[Changepoint]
            In order of their ticks.
        """
        return list(self._changes)

    def segmentation(self) -> list[int]:
        """Return the first tick of every regime after the first.

        Returns
        -------
        list[int]
            In order.
        """
        return [change.at for change in self._changes]


def smooth_series(model: Model, values: Array, hazard: float | Hazard | None, seed: int = 0) -> Hindsight:
    """Run a fresh detector over a series and smooth the result.

    A row with a missing number is a tick without a reading, unless the model can use the other numbers.

    Parameters
    ----------
    model : Model
        The model.
    values : numpy.ndarray
        Readings of shape (T, d), NaN where missing.
    hazard : float or Hazard or None
        P(change) per tick; None learns it.
    seed : int
        Seed of the detector's pruning; 0 by default.

    Returns
    -------
    Hindsight
        The smoothed series.

    Raises
    ------
    ValueError
        If the number of columns does not fit the model, or a reading is not valid.

    Examples
    --------
    >>> x = series_of([0.1, -0.3, 0.2, 0.1, 8.0, 8.3, 7.9])
    >>> smooth_series(model_for(x), x, hazard=0.02).segmentation()
    [4]
    """
    if values.shape[1] != model.dimension:
        raise ValueError(
            f"X must have {model.dimension} columns, one per number of the model's readings, not {values.shape[1]}"
        )
    detector = Detector(model, hazard=Learned() if hazard is None else hazard, alarm=None, seed=seed, missing="skip")
    back = Hindsight(detector, live_for(len(values)))
    for t, row in enumerate(values):
        missing = np.isnan(row)
        reading = None if missing.all() or (missing.any() and not model.partial) else row
        try:
            step = detector.update(reading if reading is None or row.size > 1 else float(row[0]))
        except ValueError as error:
            raise ValueError(f"row {t}: {error}") from None
        back.add(step)
    return back
