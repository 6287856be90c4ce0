"""Frames in, steps as a frame of the same kind out."""

from __future__ import annotations

import datetime
import sys
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import mfbocd as mf
from mfbocd.adapters import frames

pytestmark = pytest.mark.slow

KINDS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
LOW = mf.Fidelity("low", zeta=0.2, cost=1)
HIGH = mf.Fidelity("high", zeta=1.0, cost=10)


def detector(**more: Any) -> mf.Detector:
    return mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.02, **more)


def listed(frame: Any) -> dict[str, list[Any]]:
    if isinstance(frame, pd.DataFrame):
        return {str(name): frame[name].tolist() for name in frame.columns}
    found: dict[str, list[Any]] = frame.to_pydict() if isinstance(frame, pa.Table) else frame.to_dict(as_series=False)
    return found


@pytest.fixture
def readings() -> dict[str, Any]:
    stream = mf.simulate.gaussian(mf.Gaussian(0, 9, 1), [LOW, HIGH], hazard=0.05, ticks=60, seed=1)
    first = datetime.datetime(2024, 5, 1)
    when = [first + datetime.timedelta(hours=t) for t in range(60)]
    return {"when": when, "low": stream.table[:, 0].tolist(), "high": stream.table[:, 1].tolist()}


@pytest.mark.parametrize("kind", KINDS)
def test_the_steps_are_those_of_run(kind: str, readings: dict[str, Any]) -> None:
    make = KINDS[kind]
    frame = make(readings)
    steps = frames.run(detector(fidelities=[HIGH, LOW]), frame, time="when")
    assert type(steps) is type(frame)
    found = listed(steps)
    trace = mf.run(detector(fidelities=[HIGH, LOW]), np.column_stack([readings["high"], readings["low"]]))
    expected = trace.to_frame()
    assert list(found) == ["when", "tick", *expected.columns]
    assert found.pop("when") == readings["when"]
    assert found.pop("tick") == list(range(60))
    assert any(found["alarm"])
    assert len(set(found["fidelity"])) == 2
    for name, values in found.items():
        wanted = expected[name].tolist()
        assert [None if v is None or v != v else v for v in values] == [None if v != v else v for v in wanted], name


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_reading_is_a_missing_one(kind: str) -> None:
    values = [0.1, -0.2, None, 0.3, 6.0, 6.2]
    frame = KINDS[kind]({"level": values})
    steps = listed(frames.run(detector(missing="skip"), frame))
    trace = mf.run(detector(missing="skip"), [np.nan if v is None else v for v in values])
    assert steps["mean"] == trace.mean.tolist()
    with pytest.raises(ValueError, match="row 2"):
        frames.run(detector(), frame)


@pytest.mark.parametrize("kind", KINDS)
def test_integers_with_a_missing_cell_and_booleans_are_numbers(kind: str) -> None:
    bernoulli = mf.Detector(mf.Bernoulli(1, 1), missing="skip")
    twin = mf.Detector(mf.Bernoulli(1, 1), missing="skip")
    means = listed(frames.run(bernoulli, KINDS[kind]({"x": [1, 0, None, 1]})))["mean"]
    assert means == mf.run(twin, [1, 0, np.nan, 1]).mean.tolist()
    more = listed(frames.run(bernoulli, KINDS[kind]({"x": [True, False]})))
    assert more["mean"] == mf.run(twin, [1, 0]).mean.tolist()
    assert more["tick"] == [4, 5]


def test_a_nullable_column_of_pandas_is_read() -> None:
    frame = pd.DataFrame({"x": pd.array([1, 0, None, 1], dtype="Int64")})
    means = frames.run(mf.Detector(mf.Bernoulli(1, 1), missing="skip"), frame)["mean"].tolist()
    assert means == mf.run(mf.Detector(mf.Bernoulli(1, 1), missing="skip"), [1, 0, np.nan, 1]).mean.tolist()


def test_any_index_is_kept() -> None:
    index = pd.Index(["b", "a", "a"], name="key")
    frame = pd.DataFrame({"day": [3, 1, 2], "x": [0.1, 0.2, 5.0]}, index=index)
    steps = frames.run(detector(), frame, columns="x", time="day")
    assert steps.index.equals(index)
    assert steps.index.name == "key"
    assert steps["day"].tolist() == [3, 1, 2]
    assert steps["x"].tolist() == [0.1, 0.2, 5.0]
    assert frame.columns.tolist() == ["day", "x"]


def test_columns_map_fidelities_to_columns(readings: dict[str, Any]) -> None:
    renamed = pl.DataFrame({"when": readings["when"], "A": readings["low"], "high": readings["high"]})
    steps = frames.run(detector(fidelities=[LOW, HIGH]), renamed, columns={"low": "A"})
    plain = frames.run(detector(fidelities=[LOW, HIGH]), pl.DataFrame(readings))
    assert steps.equals(plain)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"columns": "x"}, ValueError, "columns must map each of low, high to a column, not be 'x'"),
        ({"columns": {"mid": "x"}}, ValueError, "columns must name fidelities, low, high, not 'mid'"),
        ({"columns": {"low": "x"}}, ValueError, "frame has no column 'x' for 'low', only when, low, high"),
        ({"columns": {"low": "when"}}, TypeError, "column 'when' must contain numbers, not Datetime"),
        ({"time": "hour"}, ValueError, "time must name a column of the frame, when, low, high, not 'hour'"),
    ],
)
def test_bad_arguments_are_named_and_change_nothing(
    readings: dict[str, Any], arguments: dict[str, Any], error: Any, message: str
) -> None:
    fresh = detector(fidelities=[LOW, HIGH])
    with pytest.raises(error, match=message):
        frames.run(fresh, pl.DataFrame(readings), **arguments)
    assert fresh.ticks == 0


def test_a_time_that_would_be_lost_is_refused() -> None:
    with pytest.raises(ValueError, match="must not have the name of a result column, 'tick'"):
        frames.run(detector(), pd.DataFrame({"tick": [0], "y": [1.0]}), columns="y", time="tick")


def test_only_in_memory_frames_are_accepted() -> None:
    with pytest.raises(TypeError, match="frame must be an in-memory data frame that narwhals supports, not"):
        frames.run(detector(), [1.0, 2.0])
    with pytest.raises(TypeError, match="LazyFrame"):
        frames.run(detector(), pl.LazyFrame({"x": [1.0]}))


def test_readings_of_several_numbers_are_refused() -> None:
    several = mf.Detector(mf.MultivariateGaussianUnknown([0, 0]))
    with pytest.raises(ValueError, match="detector must have one number per reading, not 2"):
        frames.run(several, pd.DataFrame({"a": [1.0], "b": [2.0]}))


def test_without_narwhals_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "narwhals", None)
    with pytest.raises(ImportError, match=r"pip install 'mfbocd\[frames\]'"):
        frames.run(detector(), pd.DataFrame({"x": [1.0]}))
