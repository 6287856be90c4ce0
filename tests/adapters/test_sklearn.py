"""The segmenter with the interface of scikit-learn."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

import mfbocd as mf
from mfbocd.adapters.series import model_for
from mfbocd.adapters.sklearn import Segmenter
from mfbocd.calibrate.auto import AutoDetector
from mfbocd.trace.hindsight import hindsight

pytestmark = pytest.mark.slow


def levels(*parts: tuple[int, float], seed: int, columns: int = 1) -> Any:
    rng = np.random.default_rng(seed)
    return np.concatenate([level + rng.normal(size=(ticks, columns)) for ticks, level in parts])


@pytest.fixture
def x() -> Any:
    return levels((50, 0.0), (40, 6.0), (30, -4.0), seed=1)


def test_starts_are_those_of_hindsight(x: Any) -> None:
    model = mf.Gaussian(0, 20, 1)
    back = hindsight(mf.Detector(model, hazard=0.02, alarm=None), x[:, 0])
    segmenter = Segmenter(model, hazard=0.02)
    starts = segmenter.fit_predict(x)
    assert starts.tolist() == [0, *back.segmentation()] == [0, 50, 90]
    assert starts.dtype == np.int64
    assert segmenter.changepoints_ == back.changepoints()
    assert segmenter.labels_.tolist() == [0] * 50 + [1] * 40 + [2] * 30


# No check may be skipped: the one on array namespaces needs this variable before scipy is imported.
CHECKS = """
import json
from sklearn.utils.estimator_checks import check_estimator
from mfbocd.adapters.sklearn import Segmenter
found = check_estimator(Segmenter(), on_skip=None, on_fail=None)
print(json.dumps([[f["check_name"], f["status"], repr(f["exception"])] for f in found]))
"""


def test_it_passes_every_check_of_scikit_learn() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHECKS],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert [row for row in found if row[1] != "passed"] == []
    # checks that a tag or a missing method would disable
    names = {name for name, _, _ in found}
    assert {"check_fit1d", "check_n_features_in", "check_complex_data", "check_dtype_object"} <= names
    assert {"check_methods_sample_order_invariance", "check_methods_subset_invariance"} <= names
    assert {"check_estimators_empty_data_messages", "check_array_api_input"} <= names
    assert len(found) >= 40


def test_the_one_check_that_its_tags_leave_out_does_not_apply() -> None:
    """Missing readings are accepted, so the check that NaN is refused is not run; infinity is still refused."""
    assert get_tags(Segmenter()).input_tags.allow_nan
    default = get_tags(BaseEstimator())
    tags = get_tags(Segmenter())
    tags.input_tags.allow_nan = default.input_tags.allow_nan
    assert tags == default


def test_one_column_may_come_in_any_container(x: Any) -> None:
    shapes = [x, x.tolist(), pd.DataFrame(x), x.astype(object), np.asfortranarray(x)]
    assert [Segmenter().fit_predict(s).tolist() for s in shapes] == [[0, 50, 90]] * 5


def test_the_names_of_columns_are_kept_and_compared(x: Any) -> None:
    segmenter = Segmenter().fit(pd.DataFrame({"level": x[:, 0]}))
    assert segmenter.feature_names_in_.tolist() == ["level"]
    with pytest.raises(ValueError, match="feature names"):
        segmenter.segment(pd.DataFrame({"pressure": x[:, 0]}))
    with pytest.raises(ValueError, match="X has 2 features, but Segmenter is expecting 1"):
        Segmenter().fit(x).segment(np.column_stack([x, x]))


@pytest.mark.parametrize(("offset", "unit"), [(1e6, 1e-3), (-40.0, 1e5)])
def test_units_do_not_matter(x: Any, offset: float, unit: float) -> None:
    plain, moved = Segmenter().fit(x), Segmenter().fit(offset + unit * x)
    assert moved.starts_.tolist() == plain.starts_.tolist()
    assert [c.probability for c in moved.changepoints_] == pytest.approx([c.probability for c in plain.changepoints_])


def test_of_several_columns_one_that_changes_is_enough() -> None:
    x = levels((120, 0.0), seed=2, columns=4) * [1.0, 1e3, 1e-3, 1.0]
    x[70:, 2] += 5e-3
    segmenter = Segmenter().fit(x)
    assert isinstance(segmenter.model_, mf.Product)
    assert [type(part) for part in segmenter.model_.parts] == [mf.Trend] * 4
    assert segmenter.starts_.tolist() == [0, 70]
    assert segmenter.n_features_in_ == 4


def test_zeros_and_ones() -> None:
    x = [[0]] * 40 + [[1]] * 30
    segmenter = Segmenter().fit(x)
    assert isinstance(segmenter.model_, mf.Bernoulli)
    assert segmenter.starts_.tolist() == [0, 40]


def test_missing_readings_are_ticks(x: Any) -> None:
    x[[3, 20, 60, 61]] = np.nan
    assert Segmenter().fit_predict(x).tolist() == [0, 50, 90]


def test_a_constant_series_has_one_segment() -> None:
    assert Segmenter().fit_predict([[3.0]] * 20).tolist() == [0]
    assert Segmenter().fit_predict([[3.0]]).tolist() == [0]


def test_without_a_model_the_automatic_detector_chooses_the_structure(x: Any) -> None:
    detector = AutoDetector()
    detector.run(x[:, 0])
    segmenter = Segmenter().fit(x)
    assert detector.structure is not None
    assert segmenter.structure_ == detector.structure
    assert segmenter.model_.spec() == detector.structure.model().spec()
    # autocorrelated noise is no sequence of changes, and a season is removed
    rng = np.random.default_rng(3)
    noise = np.zeros(600)
    for t in range(1, 600):
        noise[t] = 0.9 * noise[t - 1] + rng.normal()
    noise[400:] += 40.0
    assert Segmenter().fit_predict(noise[:, None]).tolist() == [0, 400]
    season = 30.0 * np.sin(2.0 * np.pi * np.arange(600) / 24.0) + rng.normal(size=600)
    season[300:] += 25.0
    assert Segmenter().fit_predict(season[:, None]).tolist() == [0, 300]
    assert Segmenter().fit(x[:10]).structure_ is None


def test_another_series_must_be_possible_for_the_fitted_structure() -> None:
    segmenter = Segmenter().fit([[0], [1]] * 20)
    with pytest.raises(ValueError, match=r"row 2: 0\.5 is impossible for the fitted series"):
        segmenter.segment([[0.0], [1.0], [0.5]])


def test_segment_uses_the_fitted_parameters(x: Any) -> None:
    segmenter = Segmenter().fit(x)
    model = segmenter.model_
    faint = 0.01 * levels((20, 0.0), (20, 8.0), seed=5)
    assert Segmenter().fit_predict(faint).tolist() == [0, 20]
    # this change is small compared with the noise of x
    assert segmenter.segment(faint).tolist() == [0]
    assert segmenter.segment(x[30:80]).tolist() == [0, 20]
    assert segmenter.model_ is model
    assert segmenter.starts_.tolist() == [0, 50, 90]


def test_it_can_be_cloned_configured_and_used_in_a_pipeline(x: Any) -> None:
    segmenter = Segmenter(hazard=0.01, seed=3).fit(x)
    fresh = clone(segmenter)
    assert fresh.get_params() == {"model": None, "hazard": 0.01, "seed": 3}
    with pytest.raises(NotFittedError):
        fresh.segment(x)
    assert fresh.set_params(hazard=0.5).hazard == 0.5
    assert make_pipeline(StandardScaler(), Segmenter()).fit_predict(x).tolist() == [0, 50, 90]


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (np.zeros((0, 1)), ValueError, r"0 sample\(s\)"),
        (np.zeros(3), ValueError, "Reshape your data"),
        (pd.Series([1.0, 2.0]), ValueError, "Expected a 2-dimensional container"),
        (np.zeros((2, 2, 2)), ValueError, "dim 3"),
        ([["a"], ["b"]], TypeError, "X must contain numbers: "),
        ([[1.0], [2.0j]], ValueError, "Complex data not supported"),
        ([[0.0], [np.inf]], ValueError, "X must be finite, not inf in row 1, column 0"),
        ([[1.0, np.nan], [2.0, np.nan]], ValueError, "but column 1 has none"),
    ],
)
def test_bad_readings_are_named_and_keep_the_fit(x: Any, X: Any, error: Any, message: str) -> None:
    segmenter = Segmenter().fit(x)
    before = dict(vars(segmenter))
    with pytest.raises(error, match=message):
        segmenter.fit(X)
    assert vars(segmenter) == before


def test_a_model_of_another_dimension_or_support_is_refused(x: Any) -> None:
    with pytest.raises(ValueError, match="X must have 2 columns, one per number of the model's readings, not 1"):
        Segmenter(mf.MultivariateGaussianUnknown([0, 0])).fit(x)
    with pytest.raises(ValueError, match=r"row 1: .*0\.5"):
        Segmenter(mf.Bernoulli(1, 1)).fit([[1], [0.5]])


def test_a_ramp_is_one_segment_and_a_kink_begins_another() -> None:
    rng = np.random.default_rng(6)
    ramp = 0.1 * np.arange(120) + 0.2 * rng.normal(size=120)
    assert Segmenter().fit_predict(ramp[:, None]).tolist() == [0]
    kink = np.concatenate([ramp[:60], ramp[60] - 0.1 * np.arange(60) + 0.2 * rng.normal(size=60)])
    starts = Segmenter().fit_predict(kink[:, None])
    assert starts.size == 2
    assert abs(starts[1] - 60) <= 10  # the lines cross there: a few ticks on either side are equally likely


def test_the_guessed_noise_is_that_of_the_data() -> None:
    x = 3.0 * levels((2000, 7.0), seed=4)
    model = model_for(x)
    assert isinstance(model, mf.GaussianUnknown)
    assert model.mean == pytest.approx(21.0, abs=0.3)
    assert model.scale / (model.shape - 1.0) == pytest.approx(9.0, rel=0.1)
    several = model_for(np.column_stack([x, x[::-1] / 3.0]))
    assert isinstance(several, mf.MultivariateGaussianUnknown)
    assert np.diag(several.scale) / (several.degrees - 3.0) == pytest.approx([9.0, 1.0], rel=0.1)


def test_without_sklearn_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    monkeypatch.delitem(sys.modules, "mfbocd.adapters.sklearn")
    with pytest.raises(ImportError, match=r"pip install 'mfbocd\[real\]'"):
        importlib.import_module("mfbocd.adapters.sklearn")
