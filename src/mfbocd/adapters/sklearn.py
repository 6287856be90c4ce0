"""The segments of a finished series as a scikit-learn estimator (extra ``real``)."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..belief.hazard import Hazard
from ..models import Model
from .series import Array, SeriesModel, series_of

try:
    from sklearn.base import BaseEstimator
    from sklearn.utils import Tags
    from sklearn.utils.validation import check_array, check_is_fitted, validate_data
except ImportError as error:
    raise ImportError("mfbocd.adapters.sklearn needs scikit-learn: pip install 'mfbocd[real]'") from error

Ticks = NDArray[np.int64]


class Segmenter(BaseEstimator):  # type: ignore[misc]
    """Find the first ticks of the segments of a series, in its most probable history (max-product).

    Without a model, the automatic detector (`mfbocd.calibrate.auto.AutoDetector`) chooses scale, season,
    autocorrelation and outliers of a single column.

    The first segment begins at 0, which is part of every result. A series is an array of shape (T, d): one row per
    tick, d = 1 for readings of one number; NaN is a missing reading. As usual in scikit-learn, an array of one
    dimension is rejected: write `x.reshape(-1, 1)`.

    There is no `predict`: where a segment begins depends on the rows before and after, whereas scikit-learn's
    `predict` treats each row by itself. As for its own estimators of this kind (`DBSCAN`), there is `fit_predict`.
    `segment` takes another series with the fitted model.

    After `fit` there are `model_`; `structure_`, what the automatic detector took the series to be, or None;
    `starts_`, the first ticks; `labels_`, the number of the segment of every tick; and `changepoints_`, each start
    but the first with its probability and credible interval (`Changepoint`).

    Parameters
    ----------
    model : Model or None
        The model with its prior. By default one column gets that of the automatic detector. Of several columns, or
        of fewer than 20 readings, `fit` estimates one per column: a noisy straight line per segment (`Trend`) in
        units of the column's standard deviation; a Bernoulli for zeros and ones.
    hazard : float or Hazard or None
        P(change) per tick. By default 1/500 with the automatic detector, otherwise learned.
    seed : int
        Seed of the detector's pruning; 0 by default.

    Examples
    --------
    >>> noise = [0.1, -0.3, 0.2, 0.1, -0.2] * 4
    >>> x = np.array(noise + [8.0 + e for e in noise]).reshape(-1, 1)
    >>> segmenter = Segmenter()
    >>> segmenter.fit_predict(x)
    array([ 0, 20])
    >>> segmenter.labels_[18:22]
    array([0, 0, 1, 1])
    >>> segmenter.segment(np.concatenate([x[20:], x[:20], x[20:]]))
    array([ 0, 20, 40])
    """

    def __init__(self, model: Model | None = None, hazard: float | Hazard | None = None, seed: int = 0) -> None:
        self.model = model
        self.hazard = hazard
        self.seed = seed

    def fit(self, X: Any, y: Any = None) -> Self:
        """Estimate the model from a series, if none was given, and find the segments of that series.

        Parameters
        ----------
        X : Any
            The series, (T, d).
        y : Any
            Ignored.

        Returns
        -------
        Segmenter
            The fitted estimator.

        Raises
        ------
        ValueError
            If the series is not valid.
        TypeError
            If it does not contain numbers.
        """
        x = _rows(X)
        fitted = SeriesModel.fit(x, self.hazard, self.seed) if self.model is None else SeriesModel(self.model)
        back = fitted.smooth(x, self.hazard, self.seed)
        # set last, so that a rejected series leaves the estimator unchanged
        validate_data(self, X, skip_check_array=True)
        self.changepoints_ = back.changepoints()
        self.starts_ = np.array([0, *(change.at for change in self.changepoints_)], dtype=np.int64)
        self.labels_ = np.searchsorted(self.starts_, np.arange(len(x)), side="right").astype(np.int64) - 1
        self.model_, self.structure_ = fitted.model, fitted.structure
        self._fitted = fitted
        return self

    def fit_predict(self, X: Any, y: Any = None) -> Ticks:
        """Fit a series and return the first ticks of its segments.

        Parameters
        ----------
        X : Any
            The series, (T, d).
        y : Any
            Ignored.

        Returns
        -------
        numpy.ndarray
            First ticks, starting with 0.
        """
        starts: Ticks = self.fit(X).starts_
        return starts

    def segment(self, X: Any) -> Ticks:
        """Return the first ticks of the segments of another series, with the fitted model.

        Parameters
        ----------
        X : Any
            The series, (T, d), with as many columns as the fitted one.

        Returns
        -------
        numpy.ndarray
            First ticks, starting with 0.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If `fit` was not called.
        ValueError
            If the series is not valid.
        """
        check_is_fitted(self)
        x = _rows(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        back = self._fitted.smooth(x, self.hazard, self.seed)
        return np.array([0, *back.segmentation()], dtype=np.int64)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _rows(X: Any) -> Array:
    """Return X as (T, d): its shape and type checked by scikit-learn, its numbers by this library."""
    check_array(X, dtype=None, ensure_all_finite=False)
    try:
        return series_of(X)
    except TypeError as error:
        # scikit-learn's own checks expect these words
        raise TypeError(f"{error} (an argument must be a number: no string is read as a number)") from None
