"""The segments of a finished series as a scikit-learn estimator (extra ``real``)."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..belief.hazard import Hazard
from ..models import Model
from .series import Array, AutomaticSegmentation, Segmentation, series_of, smooth_series, trend_model_for

try:
    from sklearn.base import BaseEstimator
    from sklearn.utils import Tags
    from sklearn.utils.validation import check_array, check_is_fitted, validate_data
except ImportError as error:
    raise ImportError("mfbocd.adapters.sklearn needs scikit-learn: pip install 'mfbocd[real]'") from error

Ticks = NDArray[np.int64]


class Segmenter(BaseEstimator):  # type: ignore[misc]
    """Find the first ticks of the segments of a series.

    Without a model, a single column is segmented by the automatic detector (`mfbocd.calibrate.auto.AutoDetector`),
    which learns scale, season, autocorrelation and outliers from the readings; it reports no change among the first
    20 readings. With a model, or with several columns, the segments are those of the most probable history
    (max-product).

    The first segment begins at 0, which is part of every result. A series is an array of shape (T, d): one row per
    tick, d = 1 for readings of one number; NaN is a missing reading. As usual in scikit-learn, an array of one
    dimension is rejected: write `x.reshape(-1, 1)`.

    There is no `predict`: where a segment begins depends on the rows before and after, whereas scikit-learn's
    `predict` treats each row by itself. As for its own estimators of this kind (`DBSCAN`), there is `fit_predict`.
    `segment` takes another series: with the fitted model, or with a new automatic detector.

    After `fit` there are `model_` (of the automatic detector, the model of its most probable structure); `starts_`,
    the first ticks; `labels_`, the number of the segment of every tick; and `changepoints_`, each start but the first
    with its probability and credible interval (`Changepoint`).

    Parameters
    ----------
    model : Model or None
        The model with its prior. By default the automatic detector for one column. For several, `fit` estimates one
        per column: a noisy straight line per segment (`Trend`) in units of the column's standard deviation; a
        Bernoulli for zeros and ones.
    hazard : float or Hazard or None
        P(change) per tick. By default 1/500 for the automatic detector, which takes a number only; otherwise learned.
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
        model = self.model
        back: Segmentation
        if model is None and x.shape[1] == 1:
            back = found = AutomaticSegmentation(x[:, 0], self.hazard, self.seed)
            structure = found.detector.structure
            model = trend_model_for(x) if structure is None else structure.model()
        else:
            model = trend_model_for(x) if model is None else model
            back = smooth_series(model, x, self.hazard, self.seed)
        # set last, so that a rejected series leaves the estimator unchanged
        validate_data(self, X, skip_check_array=True)
        self.changepoints_ = back.changepoints()
        self.starts_ = np.array([0, *(change.at for change in self.changepoints_)], dtype=np.int64)
        self.labels_ = np.searchsorted(self.starts_, np.arange(len(x)), side="right").astype(np.int64) - 1
        self.model_ = model
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
        """Return the first ticks of the segments of another series.

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
        back: Segmentation
        if self.model is None and x.shape[1] == 1:
            back = AutomaticSegmentation(x[:, 0], self.hazard, self.seed)
        else:
            back = smooth_series(self.model_, x, self.hazard, self.seed)
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
