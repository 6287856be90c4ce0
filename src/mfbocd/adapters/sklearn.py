"""The segments of a finished series, with scikit-learn's manners (extra ``real``)."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..belief.hazard import Hazard
from ..models import Model
from .series import Array, lines_for, look_back, series_of

try:
    from sklearn.base import BaseEstimator
    from sklearn.utils import Tags
    from sklearn.utils.validation import check_array, check_is_fitted, validate_data
except ImportError as error:
    raise ImportError("mfbocd.adapters.sklearn needs scikit-learn: pip install 'mfbocd[real]'") from error

Ticks = NDArray[np.int64]


class Segmenter(BaseEstimator):  # type: ignore[misc]
    """First ticks of the segments of a series, in the most probable history of all (max-product).

    The first segment begins at 0, which is in every answer. A finished series is an array of shape (T, d): one row a
    tick, d = 1 for readings of one number; NaN is a missing reading. As everywhere in scikit-learn an array of one
    dimension is refused: write `x.reshape(-1, 1)`.

    There is no `predict`. Where a segment begins depends on the rows before and after, whereas scikit-learn's
    `predict` answers each row by itself, in any order; as for its own estimators of this kind (`DBSCAN`) there is
    `fit_predict`. `segment` takes another series with the model that was fitted.

    Parameters
    ----------
    model: the conjugate family with its prior. Without one `fit` makes it from the readings: a noisy straight line a
        segment (`Trend`) in units of the series' own spread; a Bernoulli of zeros and ones; of several columns one
        each.
    hazard: P(change) a tick, or a `Hazard`; learned by default.
    seed: of the draws of the detector's pruning.

    After `fit`: `model_`; `starts_`, the first ticks; `labels_`, the number of its segment for every tick;
    `changepoints_`, each start but the first with its probability and credible interval (`Changepoint`).

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
        """Learn the model's prior from X, if none was given, and find the segments of X; y is ignored."""
        x = _rows(X)
        model = lines_for(x) if self.model is None else self.model
        back = look_back(model, x, self.hazard, self.seed)
        # nothing is kept of a series that is refused: the number of columns, too, is set at the end
        validate_data(self, X, skip_check_array=True)
        self.changepoints_ = back.changepoints()
        self.starts_ = np.array([0, *(change.at for change in self.changepoints_)], dtype=np.int64)
        self.labels_ = np.searchsorted(self.starts_, np.arange(len(x)), side="right").astype(np.int64) - 1
        self.model_ = model
        return self

    def fit_predict(self, X: Any, y: Any = None) -> Ticks:
        """First ticks of the segments of X, its model learned from X too."""
        starts: Ticks = self.fit(X).starts_
        return starts

    def segment(self, X: Any) -> Ticks:
        """First ticks of the segments of another series, with the model that was fitted."""
        check_is_fitted(self)
        x = _rows(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        back = look_back(self.model_, x, self.hazard, self.seed)
        return np.array([0, *back.segmentation()], dtype=np.int64)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _rows(X: Any) -> Array:
    """X as (T, d): the shape and kind by scikit-learn's rules, each number by this library's."""
    check_array(X, dtype=None, ensure_all_finite=False)
    try:
        return series_of(X)
    except TypeError as error:
        # scikit-learn's checks ask for these words
        raise TypeError(f"{error} (an argument must be a number: no string is read as a number)") from None
