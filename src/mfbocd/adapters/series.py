"""A finished series that nobody described: its model guessed, its changes found."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..belief.hazard import Hazard, Learned
from ..calibrate.draft.model import WIDE, guess_plain
from ..calibrate.noise import noise_of, present
from ..detector.detector import Detector
from ..inputs.readings import cells, numbers
from ..models import Bernoulli, GaussianUnknown, Model, MultivariateGaussianUnknown, Product, Trend
from ..trace.hindsight import Hindsight, live_for

Array = NDArray[np.float64]


def series_of(X: Any) -> Array:
    """Readings as (T, d): one row a tick, NaN where one is missing. X has shape (T,) or (T, d).

    >>> series_of([1, 2, 3]).shape
    (3, 1)
    """
    try:
        values = numbers(cells(X), where=lambda i: f"row {i}")
    except (TypeError, ValueError) as error:
        raise type(error)(f"X must hold numbers: {error}") from None
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or values.size == 0:
        raise ValueError(f"X must have shape (T,) or (T, d) and hold a reading, not {values.shape}")
    if np.isinf(values).any():
        row, column = np.argwhere(np.isinf(values))[0]
        raise ValueError(f"X must be finite, not {values[row, column]} in row {row}, column {column}")
    return values


def model_for(values: ArrayLike) -> Model:
    """A model whose prior is learnt from readings, (T,) or (T, d), whatever their offset and unit.

    Zeros and ones are a Bernoulli's. All else is a Gaussian's with unknown mean and variance (covariance, of several
    numbers), counts and waiting times too: a stream's few first readings do not tell them apart. Its level and noise
    are those of `mfbocd detect`'s Gaussian, but the noise is only expected, since what is guessed from a few readings
    is not known, and a noise taken for known too low gives false alarms without end.

    >>> model_for([20.0, 21.0, 20.5, 19.0, 20.0])
    GaussianUnknown(mean=20, count=0.111111, shape=1.5, scale=0.288951, predictive='normalized')
    >>> model_for([0, 1, 1, 0])
    Bernoulli(alpha=1, beta=1, predictive='normalized')
    """
    x = series_of(values)
    for j, column in enumerate(x.T):
        if np.isnan(column).all():
            raise ValueError(f"X must hold a reading in every column, not none in column {j}")
    if x.shape[1] == 1:
        guess = guess_plain(x[:, 0]).model
        if guess["kind"] == "bernoulli":
            return Bernoulli(guess["alpha"], guess["beta"])
        # three degrees of freedom, as few as leave the noise an expectation
        return GaussianUnknown(
            guess["mean"], guess["noise_var"] / guess["var"], shape=1.5, scale=0.5 * guess["noise_var"]
        )
    noise_var = np.array([noise_of(column)[0] for column in x.T])
    spread = np.array([np.var(present(column)) for column in x.T])
    # theta's covariance is the noise's over `count`: one number for all columns
    count = 1.0 / float(np.median(np.maximum(spread / noise_var, WIDE)))
    return MultivariateGaussianUnknown(np.nanmedian(x, axis=0), count, degrees=x.shape[1] + 2, scale=noise_var)


def lines_for(values: ArrayLike) -> Model:
    """A model of a whole series, (T,) or (T, d), whatever its offset and unit: a noisy straight line a segment.

    Real series drift; where the level may not, every drift is many changes. The prior is `Trend`'s own in units of
    the column's standard deviation: what counts as a change is measured by how much the series varies on the whole.
    A column of zeros and ones is a Bernoulli's, and several columns are independent given the changes.

    >>> lines_for([2.0, 4.0, 6.0])
    Trend(level=4.0, slope=0.0, count=[1.0, 100.0], shape=1.0, scale=2.66...)
    """
    x = series_of(values)
    parts: list[Model] = []
    for j, column in enumerate(x.T):
        known = column[~np.isnan(column)]
        if known.size == 0:
            raise ValueError(f"X must hold a reading in every column, not none in column {j}")
        if ((known == 0.0) | (known == 1.0)).all():
            parts.append(Bernoulli(1, 1))
        else:
            parts.append(Trend(level=float(known.mean()), scale=float(known.var()) or 1.0))
    return parts[0] if len(parts) == 1 else Product(*parts)


def look_back(model: Model, values: Array, hazard: float | Hazard | None, seed: int = 0) -> Hindsight:
    """Tell a series, (T, d), to a fresh detector and look back on it; a hazard of None is learnt.

    A row in which a number is missing is a tick at which nothing was learnt, unless the model takes the others.

    >>> x = series_of([0.1, -0.3, 0.2, 0.1, 8.0, 8.3, 7.9])
    >>> look_back(model_for(x), x, hazard=0.02).segmentation()
    [4]
    """
    if values.shape[1] != model.dimension:
        raise ValueError(f"X must have {model.dimension} columns, as the model's readings, not {values.shape[1]}")
    learnt = Learned() if hazard is None else hazard
    detector = Detector(model, hazard=learnt, alarm=None, seed=seed, missing="skip")
    back = Hindsight(detector, live_for(len(values)))
    for t, row in enumerate(values):
        gone = np.isnan(row)
        told = None if gone.all() or (gone.any() and not model.partial) else row
        try:
            step = detector.update(told if told is None or row.size > 1 else float(row[0]))
        except ValueError as error:
            raise ValueError(f"row {t}: {error}") from None
        back.add(step)
    return back
