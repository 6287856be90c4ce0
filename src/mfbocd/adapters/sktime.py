"""A changepoint detector for sktime (extra ``sktime``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ..belief.hazard import Hazard
from ..models import Gaussian, Model
from ..trace.hindsight import Hindsight
from .series import SeriesModel, series_of

try:
    from sktime.detection.base import BaseDetector
except ImportError as error:
    raise ImportError("mfbocd.adapters.sktime needs sktime: pip install 'mfbocd[sktime]'") from error

if TYPE_CHECKING:
    import pandas as pd


class BOCD(BaseDetector):  # type: ignore[misc]
    """Find the most probable changes of a series by Bayesian online changepoint detection with smoothing.

    `fit` chooses the model: without one, the automatic detector (`mfbocd.calibrate.auto.AutoDetector`) chooses scale,
    season, autocorrelation and outliers of a single column. `predict` returns the first tick of every regime after
    the first, `predict_scores` the probability of each change, and `transform_scores` P(a regime begins) at every
    tick, given the whole series.

    Parameters
    ----------
    model : mfbocd.Model, optional
        The model with its prior. By default one column gets that of the automatic detector. Of several columns, or
        of fewer than 20 readings, `fit` estimates one per column: a noisy straight line per segment (`Trend`) in
        units of the column's standard deviation; a Bernoulli for zeros and ones.
    hazard : float or mfbocd.Hazard, optional
        P(change) per tick. By default 1/500 with the automatic detector, otherwise learned.
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
        model = self.model
        self._fitted = SeriesModel.fit(series_of(X), self.hazard, self.seed) if model is None else SeriesModel(model)
        self.model_ = self._fitted.model
        return self

    def _back(self, X: Any) -> Hindsight:
        return self._fitted.smooth(series_of(X), self.hazard, self.seed)

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
