"""`mf.detect`: every kind of input, labels, levels before and after, plots and reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.typing import NDArray

import mfbocd as mf
from mfbocd.calibrate.auto import AutoDetector
from mfbocd.calibrate.draft.series import read_series, times_of
from mfbocd.cli.tasks import steps_of
from mfbocd.report import Detection
from mfbocd.trace.recorder import Recorder

Array = NDArray[np.float64]
AT = 50


def readings(n: int = 70, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=n) + np.where(np.arange(n) < AT, 20.0, 30.0)


HOURS = pd.date_range("2024-05-01", periods=70, freq="h")


def found(result: Detection) -> list[tuple[Any, Any]]:
    return [(change.at, change.detected_at) for change in result.changes]


@pytest.fixture(scope="module")
def plain() -> Detection:
    return mf.detect(readings())


def test_the_change_has_its_levels(plain: Detection) -> None:
    (change,) = plain.changes
    assert (change.at, change.tick) == (AT, AT)
    assert change.detected_at == change.detected_tick >= AT
    assert change.confidence > 0.9
    assert change.before.mean == pytest.approx(readings()[:AT].mean())
    assert change.after.mean == pytest.approx(readings()[AT:].mean())
    assert change.before.low < 20.0 < change.before.high < 21.0
    assert change.after.low < 30.0 < change.after.high < 31.0
    assert len(plain) == 1


def test_the_detector_continues(plain: Detection) -> None:
    live, whole = mf.detect(readings()[:60]), mf.auto()
    trace = whole.run(readings())
    steps = [live.detector.update(x) for x in readings()[60:].tolist()]
    assert [step.mean for step in steps] == trace.mean[60:].tolist()
    assert isinstance(whole, mf.AutoDetector)


@pytest.mark.parametrize(
    "make",
    [
        list,
        tuple,
        lambda x: x[:, None],
        lambda x: x.astype(np.float64).tolist(),
        pl.Series,
        pd.Series,
        lambda x: pd.Series(x).astype("Float64"),
        lambda x: pl.DataFrame({"x": x}),
        lambda x: pd.DataFrame({"x": x}),
    ],
)
def test_inputs(make: Any, plain: Detection) -> None:
    result = mf.detect(make(readings()))
    assert result.changes == plain.changes
    assert result.labels is None


def test_the_index_is_kept(plain: Detection) -> None:
    frame = pd.DataFrame({"volt": readings(), "other": 1.0, "when": HOURS})
    tick = plain.changes[0].detected_tick
    expected = [(HOURS[AT], HOURS[tick])]
    assert found(mf.detect(pd.Series(readings(), index=HOURS, name="volt"))) == expected
    assert found(mf.detect(frame.set_index("when"), column="volt")) == expected
    assert found(mf.detect(frame, column="volt", time="when")) == expected
    assert found(mf.detect(frame[["volt", "when"]], time="when")) == expected
    text = frame.assign(site="north", other=["a", "b"] * 35)
    for given in (frame[["volt", "when"]], text, text.rename(columns={"volt": 7}), text.set_index("when")):
        assert found(mf.detect(given)) == expected  # one column of numbers, one of times
    naive = pl.DataFrame({"volt": readings(), "when": HOURS.to_numpy(), "site": ["north"] * 70})
    for polar in (naive, naive.lazy()):
        assert found(mf.detect(polar)) == [(HOURS[AT].to_pydatetime(), HOURS[tick].to_pydatetime())]
    lazy = pl.DataFrame({"volt": readings(), "n": np.arange(70) * 10})
    assert found(mf.detect(lazy, column="volt", time="n")) == [(10 * AT, 10 * tick)]
    shifted = mf.detect(pd.Series(readings(), index=range(5, 75)))
    assert found(shifted) == [(AT + 5, tick + 5)]


@pytest.mark.parametrize("format", ["csv", "parquet", "jsonl"])
def test_files(tmp_path: Path, format: str, plain: Detection) -> None:
    frame = pd.DataFrame({"time": HOURS.astype(str), "volt": readings()})
    path = tmp_path / f"volts.{format}"
    if format == "csv":
        frame.to_csv(path, index=False)
    elif format == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_json(path, orient="records", lines=True, double_precision=15)
    for given in (path, str(path)):
        result = mf.detect(given)
        assert found(result) == [(str(HOURS[AT]), str(HOURS[plain.changes[0].detected_tick]))]
        assert result.name == "volt"
        assert result.warnings == []
    assert mf.detect(path, column="volt").changes == result.changes


def test_bad_input(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, 2.5], "c": ["x", "y"]})
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (frame, {}, "several columns of numbers: 'a', 'b': select one"),
        (frame[["c", "c"]].set_axis(["c", "d"], axis=1), {}, "no column of numbers"),
        (None, {}, "a frame or the path of a table, not NoneType"),
        (7, {}, "not int"),
        ({"a": [1.0]}, {}, "not dict"),
        (frame, {"column": "z"}, "no column 'z'"),
        (frame, {"column": "c"}, "must be a number"),
        ([1.0], {"column": "a"}, "single series"),
        (np.zeros((3, 2)), {}, "one series"),
        ([], {}, "at least one reading"),
        ([1.0, np.inf], {}, "finite"),
        (["1", "2"], {}, "must be a number"),
        ([1.0], {"model": "nonsense"}, "model must be one of autoregressive"),
        ([-1.0, 2.0], {"model": "poisson"}, "."),
        (path, {}, "several columns of numbers: a, b: select one with column="),
        (path, {"column": "c"}, "'c'"),
    ]
    for data, options, message in cases:
        with pytest.raises((TypeError, ValueError), match=message):
            mf.detect(data, **options)
    with pytest.raises(OSError, match="missing"):
        mf.detect(tmp_path / "missing.csv")


@pytest.mark.parametrize("model", [mf.GaussianUnknown(20, 0.1, 1, 1), "gaussian_unknown", "GaussianUnknown"])
def test_one_family(model: Any) -> None:
    result = mf.detect(pd.Series(readings(), name="volt"), model=model, hazard=0.01)
    assert [change.at for change in result.changes] == [AT]
    assert isinstance(result.detector, mf.Detector)
    assert isinstance(result.detector.model, mf.GaussianUnknown)
    assert result.detector.hazard.table.tolist() == [0.01]
    assert result.detector.fidelities[0].name == "volt"
    assert result.explain().startswith("The model is GaussianUnknown(mean=")
    assert result.warnings == []
    result.plot()
    assert result.trace.detail is not None


def test_settings(plain: Detection) -> None:
    result = mf.detect(readings(), hazard=0.01, alarm=0.999, seed=4)
    assert isinstance(result.detector, mf.AutoDetector)
    assert (result.detector.hazard, result.detector.alarm.threshold, result.detector.seed) == (0.01, 0.999, 4)
    assert isinstance(plain.detector, mf.AutoDetector)
    assert plain.detector.hazard == mf.AutoDetector().hazard


@pytest.mark.parametrize(("given", "name"), [(" level ", " level "), ("a\nb", "a b"), (0, "0"), ("", "full")])
def test_the_fidelity_has_the_name_of_the_column(given: Any, name: str) -> None:
    result = mf.detect(pd.Series(np.zeros(10), name=given), model="gaussian")
    assert result.detector.fidelities[0].name == name


def test_a_period_is_given_in_ticks_or_by_name() -> None:
    hours = pd.date_range("2024-05-01", periods=72, freq="h")
    x = 3.0 * np.sin(2.0 * np.pi * np.arange(72) / 24.0) + np.random.default_rng(0).normal(0.0, 0.3, 72)
    for data, period in ((x, 24.0), (pd.Series(x, index=hours), "daily")):
        detector = mf.detect(data, period=period).detector
        assert isinstance(detector, mf.AutoDetector)
        assert detector.period == 24.0
        assert detector.structure is not None
        assert [season.period for season in detector.structure.seasons] == [24.0]
        assert mf.AutoDetector.from_bytes(detector.to_bytes()).period == 24.0
    with pytest.raises(ValueError, match="needs readings with timestamps"):
        mf.detect(x, period="daily")
    with pytest.raises(ValueError, match="with a model, use Seasonal"):
        mf.detect(x, period=24.0, model=mf.Gaussian())
    with pytest.raises(ValueError, match="must exceed 2 ticks"):
        mf.auto(period=2.0)


def test_text(plain: Detection) -> None:
    text = repr(plain)
    assert text.startswith("1 change in 70 readings\n  20.1 -> 30.0 at 50, ")
    assert "% sure, detected" in text
    html = mf.detect(pd.Series(readings(), name="<b>"), alarm=0.9)._repr_html_()
    assert "1 change in 70 readings of &lt;b&gt;" in html
    assert html.count("<tr>") == 2
    few = mf.detect([1.0, 2.0])
    assert repr(few) == (
        "no changes in 2 readings\nWarning: Only 2 readings so far: changes are looked for from reading 20 on."
    )
    assert "<table>" not in few._repr_html_()
    assert plain.explain().startswith("70 readings.")


def test_unsorted_labels_are_reported() -> None:
    mixed = HOURS.to_numpy().copy()
    mixed[[3, 7]] = mixed[[7, 3]]
    result = mf.detect(pd.Series(readings(), index=mixed))
    assert any("not sorted" in text for text in result.warnings)
    result.plot()  # by tick


def test_plot_and_report(tmp_path: Path) -> None:
    result = mf.detect(pd.Series(readings(), index=HOURS, name="volt"), unit="V")
    steps = result.trace
    figure = result.plot()
    assert figure.axes[-1].get_xlabel() == "time"
    assert len(figure.axes) == 3  # readings, run length, changes
    for field in ("mean", "alarm", "changed_at", "x", "cost", "confidence", "run_length", "p_change", "choice"):
        np.testing.assert_array_equal(getattr(result.trace, field), getattr(steps, field))
    assert (result.trace.costs, result.trace.fidelities) == (steps.costs, steps.fidelities)
    assert mf.detect(readings()).plot().axes[-1].get_xlabel() == "tick"
    text = result.report(tmp_path / "report.html").read_text()
    assert "1 change was found" in text
    assert "Changes in volt" in text
    assert "70 readings." in text
    assert "2024-05-03 02:00:00" in text  # HOURS[AT]


def test_a_recorded_automatic_detector_has_levels_without_the_season() -> None:
    t = np.arange(240)
    x = 5.0 * np.sin(2.0 * np.pi * t / 24.0) + np.random.default_rng(5).normal(0.0, 0.3, 240) + 4.0 * (t >= 180)
    detector = AutoDetector(period=24)
    recorder = Recorder(detector)
    plain = detector.run(x)
    assert plain.season is not None
    recorder.after_ticks(steps_of(plain))
    assert recorder.trace().changes == plain.changes
    assert plain.changes


def test_times() -> None:
    numbers = times_of(["1", "2.5"])
    assert numbers is not None
    assert numbers.at is not None
    assert numbers.at.tolist() == [1.0, 2.5]
    assert times_of(None) is None
    assert read_series(pd.Series([1, None], index=["a", "b"])).labels == ["a", "b"]


def test_levels_are_without_the_season() -> None:
    t = np.arange(200)
    x = 4.0 * np.sin(2 * np.pi * t / 24) + 0.5 * readings(200)
    result = mf.detect(x)
    (change,) = [change for change in result.changes if abs(change.tick - AT) < 5]
    assert change.after.high - change.after.low < 0.4  # with the season in the noise: 1.5
    assert change.after.mean == pytest.approx(15.0, abs=0.3)
