"""Estimate a model for a finished series and find its changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..belief.hazard import Hazard, Learned
from ..calibrate.auto import HAZARD, AutoDetector, Structure
from ..calibrate.auto.repeats import counted
from ..calibrate.draft.model import PRIOR_WIDTH, guess_basic_model
from ..calibrate.noise import finite_values, noise_of
from ..detector.detector import Detector
from ..inputs.readings import cells, numbers
from ..models import Bernoulli, GaussianUnknown, Model, MultivariateGaussianUnknown, Product, Trend
from ..trace.hindsight import Hindsight, live_for

Array = NDArray[np.float64]


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
        guess = guess_basic_model(x[:, 0]).spec
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


@dataclass(frozen=True)
class SeriesModel:
    """A model of a finished series, and how readings are prepared for it.

    Attributes
    ----------
    model : Model
        The model.
    structure : Structure or None
        What the automatic detector took the series to be; None if the model was given or the series has several
        columns or fewer than 20 readings.
    once : bool
        Whether a reading that only repeats the one before is skipped.
    """

    model: Model
    structure: Structure | None = None
    once: bool = False

    @classmethod
    def fit(cls, values: Array, hazard: float | Hazard | None = None, seed: int = 0) -> Self:
        """Choose a model of a series.

        Parameters
        ----------
        values : numpy.ndarray
            Readings of shape (T, d), NaN where missing.
        hazard : float or Hazard or None
            P(change) per tick.
        seed : int
            Seed of the detector's pruning; 0 by default.

        Returns
        -------
        SeriesModel
            Of one column, the structure that the automatic detector finds most probable after the last reading; of
            several, `trend_model_for`.

        Raises
        ------
        ValueError
            If a column has no readings.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> type(SeriesModel.fit(rng.normal(size=(100, 1))).model).__name__
        'RobustTrend'
        """
        plain = trend_model_for(values)
        if values.shape[1] > 1:
            return cls(plain)
        detector = AutoDetector(hazard if isinstance(hazard, float) else HAZARD, seed=seed)
        detector.run(values[:, 0])
        structure = detector.structure
        return cls(plain) if structure is None else cls(structure.model(), structure, detector._once)

    def smooth(self, values: Array, hazard: float | Hazard | None, seed: int = 0) -> Hindsight:
        """Find the changes of a series; see `smooth_series`.

        Parameters
        ----------
        values : numpy.ndarray
            Readings of shape (T, d), NaN where missing.
        hazard : float or Hazard or None
            P(change) per tick. By default 1/500 with a structure, otherwise it is learned.
        seed : int
            Seed of the detector's pruning; 0 by default.

        Returns
        -------
        Hindsight
            The smoothed series.

        Raises
        ------
        ValueError
            As in `smooth_series`, or if the structure cannot describe a reading.
        """
        structure = self.structure
        if structure is None or values.shape[1] > 1:
            return smooth_series(self.model, values, hazard, seed)
        x = values[:, 0]
        for row in np.flatnonzero(~structure.possible(x)).tolist():
            raise ValueError(f"row {row}: {float(x[row])!r} is impossible for the fitted series: fit this one")
        used, _ = counted(x, self.once)
        return smooth_series(
            self.model, np.where(used, x, np.nan)[:, None], HAZARD if hazard is None else hazard, seed
        )


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
