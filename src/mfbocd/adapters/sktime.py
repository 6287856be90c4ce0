"""A changepoint detector for sktime (extra ``sktime``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ..belief.hazard import Hazard
from ..models import Gaussian, Model
from .series import AutomaticSegmentation, Segmentation, series_of, smooth_series, trend_model_for

try:
    from sktime.detection.base import BaseDetector
except ImportError as error:
    raise ImportError("mfbocd.adapters.sktime needs sktime: pip install 'mfbocd[sktime]'") from error

if TYPE_CHECKING:
    import pandas as pd


class BOCD(BaseDetector):  # type: ignore[misc]
    """Find the changes of a series by Bayesian online changepoint detection.

    Without a model, a single column is followed by a new automatic detector (`mfbocd.calibrate.auto.AutoDetector`) in
    every call of `predict`: it learns scale, season, autocorrelation and outliers from the readings so far and
    reports no change among the first 20. With a model, or with several columns, the changes are the most probable
    ones given the whole series (smoothing); `fit` estimates the prior.

    `predict` returns the first tick of every regime after the first, `predict_scores` the probability of each change,
    and `transform_scores` P(change) at every tick: P(a regime begins there), given the whole series, or for the
    automatic detector P(a change within the last 200 ticks), given the readings so far.

    Parameters
    ----------
    model : mfbocd.Model, optional
        The model with its prior. By default the automatic detector for one column. For several, `fit` estimates one
        per column: a noisy straight line per segment (`Trend`) in units of the column's standard deviation; a
        Bernoulli for zeros and ones.
    hazard : float or mfbocd.Hazard, optional
        P(change) per tick. By default 1/500 for the automatic detector, which takes a number only; otherwise learned.
    seed : int, default=0
        Seed of the detector's pruning.

    Examples
    --------
    >>> import pandas as pd
    >>> from mfbocd.adapters.sktime import BOCD
    >>> noise = [0.1, -0.3, 0.2, 0.1, -0.2] * 4
    >>> x = pd.Series(noise + [8.0 + e for e in noise])
    >>> detector = BOCD()
    >>> detector.fit_predict(x)
       ilocs
    0     20
    >>> detector.predict_scores(x).round(3)
       probability
    0          1.0
    """

    _tags: ClassVar[dict[str, Any]] = {
        "authors": "mfbocd",
        "maintainers": "mfbocd",
        "task": "change_point_detection",
        "learning_type": "unsupervised",
        "capability:multivariate": True,
        "capability:missing_values": True,
        "X_inner_mtype": "pd.DataFrame",
    }

    def __init__(self, model: Model | None = None, hazard: float | Hazard | None = None, seed: int = 0) -> None:
        self.model = model
        self.hazard = hazard
        self.seed = seed
        super().__init__()

    def _fit(self, X: pd.DataFrame, y: Any = None) -> BOCD:
        self.model_ = trend_model_for(series_of(X)) if self.model is None else self.model
        return self

    def _back(self, X: Any) -> Segmentation:
        x = series_of(X)
        if self.model is None and x.shape[1] == self.model_.dimension == 1:
            return AutomaticSegmentation(x[:, 0], self.hazard, self.seed)
        return smooth_series(self.model_, series_of(X), self.hazard, self.seed)

    def _predict(self, X: pd.DataFrame) -> pd.Series[int]:
        import pandas as pd

        return pd.Series(self._back(X).segmentation(), dtype="int64")

    def _predict_scores(self, X: pd.DataFrame) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame(
            {"probability": [change.probability for change in self._back(X).changepoints()]}, dtype=float
        )

    def _transform_scores(self, X: pd.DataFrame) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame({"scores": self._back(X).smoothed}, index=X.index)

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return arguments for sktime's own tests.

        Parameters
        ----------
        parameter_set : str
            Name of the set; there is only one.

        Returns
        -------
        list[dict[str, Any]]
            Arguments of the constructor.
        """
        return [{}, {"model": Gaussian(mean=0.0, var=9.0, noise_var=1.0), "hazard": 0.05, "seed": 1}]
