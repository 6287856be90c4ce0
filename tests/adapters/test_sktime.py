"""sktime's checks, and the results of the detector."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sktime.transformations.difference import Differencer
from sktime.utils.estimator_checks import check_estimator

import mfbocd as mf
from mfbocd.adapters.sktime import BOCD
from mfbocd.trace.hindsight import hindsight

pytestmark = pytest.mark.slow


def levels(*parts: tuple[int, float], seed: int, columns: int = 1) -> Any:
    rng = np.random.default_rng(seed)
    return np.concatenate([level + rng.normal(size=(ticks, columns)) for ticks, level in parts])


def test_it_passes_every_check_of_sktime() -> None:
    results = check_estimator(BOCD, verbose=False)
    assert {name: why for name, why in results.items() if why != "PASSED"} == {}
    ran = {name.split("[")[0] for name in results}
    assert {"test_predict_points", "test_predict_segments", "test_clone", "test_doctest_examples"} <= ran


def test_changes_are_those_of_hindsight() -> None:
    x = levels((80, 0.0), (60, 4.0), (70, -3.0), seed=1)[:, 0]
    index = pd.date_range("2024-01-01", periods=len(x), freq="h")
    model = mf.Gaussian(0, 9, 1)
    back = hindsight(mf.Detector(model, hazard=0.01, alarm=None), x)
    detector = BOCD(model, hazard=0.01)
    series = pd.Series(x, index=index)
    found = detector.fit_predict(series)
    assert found["ilocs"].tolist() == [c.at for c in back.changepoints()] == [80, 140]
    assert found["ilocs"].dtype == np.int64
    expected = [c.probability for c in back.changepoints()]
    assert detector.predict_scores(series)["probability"].tolist() == pytest.approx(expected, abs=1e-6)
    scores = detector.transform_scores(series)
    assert scores.index.equals(index)
    np.testing.assert_allclose(scores["scores"], back.smoothed, atol=1e-12)
    segments = detector.predict_segments(series)["ilocs"]
    assert [(s.left, s.right) for s in segments] == [(0, 80), (80, 140), (140, 210)]


@pytest.mark.parametrize(("offset", "unit"), [(0.0, 1.0), (1e6, 1e-3)])
def test_no_prior_is_needed_whatever_the_unit(offset: float, unit: float) -> None:
    x = offset + unit * levels((80, 0.0), (60, 5.0), seed=2)
    assert BOCD().fit_predict(pd.DataFrame(x))["ilocs"].tolist() == [80]


def test_several_columns_and_missing_readings() -> None:
    x = levels((60, 0.0), (60, 4.0), seed=3, columns=3)
    x[10:15, 1] = np.nan
    x[70] = np.nan
    assert BOCD().fit_predict(pd.DataFrame(x, columns=["a", "b", "c"]))["ilocs"].tolist() == [60]


def test_a_series_with_no_change_has_none() -> None:
    found = BOCD().fit_predict(pd.Series(levels((100, 0.0), seed=4)[:, 0]))
    assert found.columns.tolist() == ["ilocs"]
    assert len(found) == 0


def test_it_ends_a_pipeline() -> None:
    trend = np.concatenate([np.arange(60) * 0.1, 6.0 + np.arange(60) * 3.0])
    series = pd.Series(trend + 0.2 * np.random.default_rng(5).normal(size=120))
    found = (Differencer() * BOCD()).fit_predict(series)["ilocs"].tolist()
    # the slope's first step of 3 leads from tick 60 to 61
    assert found == [61]


def test_another_number_of_columns_is_refused() -> None:
    detector = BOCD().fit(pd.DataFrame(levels((30, 0.0), seed=6)))
    with pytest.raises(ValueError, match="X must have 1 columns, one per number of the model's readings, not 2"):
        detector.predict(pd.DataFrame(levels((30, 0.0), seed=6, columns=2)))


def test_without_sktime_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sktime.detection.base", None)
    monkeypatch.delitem(sys.modules, "mfbocd.adapters.sktime")
    with pytest.raises(ImportError, match=r"pip install 'mfbocd\[sktime\]'"):
        importlib.import_module("mfbocd.adapters.sktime")
