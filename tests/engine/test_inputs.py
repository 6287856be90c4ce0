"""One table of what counts as a reading, run through every entry point that accepts one."""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import math
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest

import mfbocd as mf
from mfbocd.adapters import frames
from mfbocd.adapters.series import series_of, smooth_series
from mfbocd.calibrate.checks import numbers
from mfbocd.calibrate.noise import finite_values
from mfbocd.cli.sensor import SensorError, parse_response
from mfbocd.io.config import Config
from mfbocd.trace.hindsight import hindsight

from ..service.service import serving

MISSING = "missing"


class Odd:
    """An object with `__float__`."""

    def __float__(self) -> float:
        return 1.0


TABLE: dict[str, tuple[Any, Any]] = {
    # numbers
    "float": (1.5, 1.5),
    "int": (2, 2.0),
    "bool": (True, 1.0),
    "large int": (2**80, 2.0**80),
    "float16": (np.float16(0.5), 0.5),
    "float32": (np.float32(0.5), 0.5),
    "float64": (np.float64(0.25), 0.25),
    "longdouble": (np.longdouble("0.5"), 0.5),
    "int8": (np.int8(-3), -3.0),
    "uint64": (np.uint64(2**63), 2.0**63),
    "numpy bool": (np.True_, 1.0),
    "0-d float": (np.array(1.5), 1.5),
    "0-d int": (np.array(3), 3.0),
    "0-d object": (np.array(1.5, dtype=object), 1.5),
    "0-d unmasked": (np.ma.array(1.5, mask=False), 1.5),
    "denormal": (5e-324, 5e-324),
    # missing
    "None": (None, MISSING),
    "nan": (math.nan, MISSING),
    "nan float32": (np.float32("nan"), MISSING),
    "nan longdouble": (np.longdouble("nan"), MISSING),
    "0-d nan": (np.array(math.nan), MISSING),
    "0-d float32 nan": (np.array(math.nan, dtype=np.float32), MISSING),
    "0-d object None": (np.array(None, dtype=object), MISSING),
    "0-d masked": (np.ma.array(1.5, mask=True), MISSING),
    "masked": (np.ma.masked, MISSING),
    "pandas NA": (pd.NA, MISSING),
    # not numbers
    "text": ("1.5", TypeError),
    "text with spaces": (" 1e3 ", TypeError),
    "text nan": ("nan", TypeError),
    "empty text": ("", TypeError),
    "numpy text": (np.str_("1.5"), TypeError),
    "bytes": (b"1.5", TypeError),
    "numpy bytes": (np.bytes_(b"1"), TypeError),
    "bytearray": (bytearray(b"1"), TypeError),
    "Decimal": (decimal.Decimal("1.5"), TypeError),
    "Fraction": (fractions.Fraction(1, 2), TypeError),
    "complex": (1 + 0j, TypeError),
    "complex128": (np.complex128(1.0), TypeError),
    "datetime": (datetime.datetime(2024, 5, 1), TypeError),
    "date": (datetime.date(2024, 5, 1), TypeError),
    "timedelta": (datetime.timedelta(seconds=5), TypeError),
    "datetime64 ns": (np.datetime64("2024-05-01", "ns"), TypeError),
    "datetime64 day": (np.datetime64("2024-05-01"), TypeError),
    "timedelta64": (np.timedelta64(5, "s"), TypeError),
    "timedelta64 ns": (np.timedelta64(5, "ns"), TypeError),
    "numpy NaT": (np.datetime64("NaT"), TypeError),
    "pandas NaT": (pd.NaT, TypeError),
    "Timestamp": (pd.Timestamp("2024-05-01"), TypeError),
    "object": (Odd(), TypeError),
    "dict": ({"x": 1.0}, TypeError),
    "set": ({1.0}, TypeError),
    "0-d text": (np.array("1.5"), TypeError),
    "0-d complex": (np.array(1j), TypeError),
    "0-d date": (np.array("2024-05-01", dtype="M8[ns]"), TypeError),
    # numbers that are not valid readings
    "inf": (math.inf, ValueError),
    "-inf": (-math.inf, ValueError),
    "0-d inf": (np.array(math.inf), ValueError),
    "huge int": (10**400, ValueError),
    "huge longdouble": (np.longdouble("1e400"), ValueError),
}

EntryPoint = Callable[[Any, str], Any]
GAUSSIAN = mf.Gaussian(0, 9, 1)
PAIR = mf.Product(mf.Gaussian(0, 9, 1), mf.Gaussian(0, 9, 1))  # vectors with single missing numbers


def detector(missing: Any, model: mf.Model = GAUSSIAN, **more: Any) -> mf.Detector:
    return mf.Detector(model, hazard=0.01, missing=missing, **more)


def objects(*values: Any) -> np.ndarray[Any, Any]:
    out = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        out[i] = value
    return out


def frame(x: Any) -> pd.DataFrame:
    return pd.DataFrame({"full": pd.Series(objects(0.5, x), dtype=object)})


def observed(x: Any, missing: Any) -> Any:
    return detector(missing, fidelities=mf.Fidelity("full", 1.0, 1.0, observe=lambda raw: raw)).step(x).x


def shadowed(x: Any, missing: Any) -> Any:
    guard = mf.calibrate.ShadowGuard(0.5, every=1, method="gaussian", noise_var=1.0)
    guard.observe(0.5, x)
    return x if missing == "skip" and guard.pairs == 0 else mf.Detector(GAUSSIAN, missing=missing).update(x).x


def looked_back(x: Any, missing: Any) -> Any:
    return hindsight(detector(missing), [0.5, x]).trace.x[1]


def serialized(x: Any, missing: Any) -> Any:
    series = series_of([0.5, x])
    smooth_series(GAUSSIAN, series, hazard=0.01)
    if missing == "raise" and math.isnan(series[1, 0]):
        raise ValueError("a series may always have gaps")
    return series[1, 0]


ENTRY_POINTS: dict[str, EntryPoint] = {
    "update": lambda x, missing: detector(missing).update(x).x,
    "step": observed,
    "shadow guard": shadowed,
    "run, a list": lambda x, missing: mf.run(detector(missing), [0.5, x]).x[1],
    "run, a tuple": lambda x, missing: mf.run(detector(missing), (0.5, x)).x[1],
    "run, a deque": lambda x, missing: mf.run(detector(missing), collections.deque([0.5, x])).x[1],
    "run, rows": lambda x, missing: mf.run(detector(missing), [[0.5], [x]]).x[1],
    "run, rows of arrays": lambda x, missing: mf.run(detector(missing), [np.array([0.5]), objects(x)]).x[1],
    "run, an object array": lambda x, missing: mf.run(detector(missing), objects(0.5, x)).x[1],
    "run, a frame": lambda x, missing: mf.run(detector(missing), frame(x)).x[1],
    "run, tick by tick": lambda x, missing: mf.run(detector(missing), [0.5, x], posterior=True).x[1],
    "run, a frame tick by tick": lambda x, missing: mf.run(detector(missing), frame(x), posterior=True).x[1],
    "hindsight": looked_back,
    "fleet, a list": lambda x, missing: mf.Fleet(2, GAUSSIAN, missing=missing).update([0.5, x]).x[1],
    "fleet, an object array": lambda x, missing: mf.Fleet(2, GAUSSIAN, missing=missing).update(objects(0.5, x)).x[1],
    "several, update": lambda x, missing: detector(missing, PAIR).update([0.5, x]).x[1],
    "several, update by an array": lambda x, missing: detector(missing, PAIR).update(objects(0.5, x)).x[1],
    "several, run": lambda x, missing: mf.run(detector(missing, PAIR), [[0.5, 0.5], [0.5, x]]).x[1, 1],
    "several, run of arrays": lambda x, missing: mf.run(detector(missing, PAIR), [objects(0.5, x)]).x[0, 1],
    "several, run of a frame": lambda x, missing: mf.run(
        detector(missing, PAIR), frame(x).assign(other=0.5)[["other", "full"]]
    ).x[1, 1],
    "several, fleet": lambda x, missing: mf.Fleet(2, PAIR, missing=missing).update([[0.5, 0.5], [0.5, x]]).x[1, 1],
    "a frame of narwhals": lambda x, missing: frames.run(detector(missing), frame(x))["x"].iloc[1],
    "a series": serialized,
}


@pytest.mark.parametrize("entry", ENTRY_POINTS)
@pytest.mark.parametrize("missing", ["raise", "skip"])
def test_every_entry_point_accepts_the_same(entry: str, missing: str) -> None:
    """Numbers are accepted, missing values are missing and everything else is an error, at every entry point."""
    for name, (x, expected) in TABLE.items():
        if expected is MISSING and missing == "raise":
            expected = ValueError
        if isinstance(expected, type):
            with pytest.raises(expected):
                print(name, "is taken as", ENTRY_POINTS[entry](x, missing))
            continue
        found = ENTRY_POINTS[entry](x, missing)
        if expected is MISSING:
            assert found is None or found is x or math.isnan(found), name
        else:
            assert found == expected, name
            assert type(found) in (float, np.float64) or entry == "shadow guard", name


def test_a_bad_reading_changes_nothing() -> None:
    one, fleet = detector("skip"), mf.Fleet(2, GAUSSIAN, missing="skip")
    one.update(0.5)
    fleet.update([0.5, 0.5])
    before, states = one.to_bytes(), fleet.extract(1).to_bytes()
    for x, expected in TABLE.values():
        if isinstance(expected, type):
            for act in (lambda x: one.update(x), lambda x: mf.run(one, [0.5, x]), lambda x: fleet.update([0.5, x])):
                with pytest.raises(expected):
                    act(x)
    assert one.to_bytes() == before
    assert fleet.extract(1).to_bytes() == states


@pytest.mark.parametrize("missing", ["raise", "skip"])
def test_a_nan_in_a_zero_dimensional_array_changes_nothing(missing: Any) -> None:
    one, other = detector(missing), detector(missing)
    if missing == "raise":
        with pytest.raises(ValueError, match="pass missing='skip'"):
            one.update(np.array(np.nan))
    else:
        assert one.update(np.array(np.nan), "full").x is None
        other.update(None, "full")
    assert one.to_bytes() == other.to_bytes()
    assert one.update(0.3) == other.update(0.3)
    assert math.isfinite(one.mean)


# --- typed arrays -------------------------------------------------------------------------------------------------

MASKED = np.ma.array([0.5, 7.0], mask=[False, True])
ARRAYS: dict[str, tuple[Any, Any]] = {
    "float16": (np.array([0.5, 1.5], dtype=np.float16), [0.5, 1.5]),
    "float32": (np.array([0.5, np.nan], dtype=np.float32), [0.5, np.nan]),
    "longdouble": (np.array([0.5, 1.5], dtype=np.longdouble), [0.5, 1.5]),
    "big endian": (np.array([0.5, 1.5], dtype=">f8"), [0.5, 1.5]),
    "backwards": (np.array([1.5, 0.5])[::-1], [0.5, 1.5]),
    "uint8": (np.array([0, 255], dtype=np.uint8), [0.0, 255.0]),
    "bool": (np.array([False, True]), [0.0, 1.0]),
    "masked": (MASKED, [0.5, np.nan]),
    "masked ints": (np.ma.array([3, 7], mask=[False, True]), [3.0, np.nan]),
    "masked objects": (np.ma.array([3, "seven"], mask=[False, True], dtype=object), [3.0, np.nan]),
    "nullable ints": (pd.Series([3, None], dtype="Int64"), [3.0, np.nan]),
    "nullable floats": (pd.Series([0.5, None], dtype="Float64"), [0.5, np.nan]),
    "nullable bools": (pd.Series([True, None], dtype="boolean"), [1.0, np.nan]),
    "objects": (np.array([1, 2.5], dtype=object), [1.0, 2.5]),
    "huge longdouble": (np.array(["0.5", "1e400"], dtype=np.longdouble), ValueError),
    "inf": (np.array([0.5, np.inf]), ValueError),
    "text": (np.array(["0.5", "1.5"]), TypeError),
    "bytes": (np.array([b"0.5", b"1.5"]), TypeError),
    "complex": (np.array([0.5, 1.5 + 0j]), TypeError),
    "dates in ns": (np.array(["2024-05-01", "2024-05-02"], dtype="M8[ns]"), TypeError),
    "dates": (np.array(["2024-05-01", "NaT"], dtype="M8[D]"), TypeError),
    "times": (np.array([5, 6], dtype="m8[ns]"), TypeError),
    "records": (np.array([(1.0,), (2.0,)], dtype=[("x", float)]), TypeError),
    "zoned dates": (pd.Series(pd.date_range("2024-05-01", periods=2, tz="UTC")), TypeError),
    "categories": (pd.Series(["1", "2"], dtype="category"), TypeError),
    "text of pandas": (pd.Series(["1", "2"], dtype="string"), TypeError),
    "masked text": (np.ma.array(["1", "2"], mask=[False, True]), TypeError),
}

ARRAY_ENTRY_POINTS: dict[str, Callable[[Any], Any]] = {
    "run": lambda x: mf.run(detector("skip"), x).x,
    "run, tick by tick": lambda x: mf.run(detector("skip"), x, posterior=True).x,
    "run, as a column": lambda x: mf.run(detector("skip"), pd.DataFrame({"full": x})).x,
    "fleet": lambda x: mf.Fleet(2, GAUSSIAN, missing="skip").update(x).x,
    "several, update": lambda x: detector("skip", PAIR).update(x).x,
    "several, run of one row": lambda x: mf.run(detector("skip", PAIR), [x]).x[0],
    "several, fleet": lambda x: mf.Fleet(2, PAIR, missing="skip").update([x, x]).x[1],
    "a series": lambda x: [row[0] for row in finite(series_of(x))],
}


def finite(series: Any) -> Any:
    smooth_series(GAUSSIAN, series, hazard=0.01)
    return series


@pytest.mark.parametrize("entry", ARRAY_ENTRY_POINTS)
def test_arrays_are_accepted_by_their_type(entry: str) -> None:
    for name, (x, expected) in ARRAYS.items():
        if entry == "run, as a column" and name in ("records", "masked objects", "huge longdouble"):
            continue  # pandas has no such columns
        if isinstance(expected, type):
            with pytest.raises(expected):
                print(name, "is taken as", ARRAY_ENTRY_POINTS[entry](x))
        else:
            np.testing.assert_array_equal(np.array(ARRAY_ENTRY_POINTS[entry](x), dtype=float), expected, name)


def test_a_masked_value_is_never_used() -> None:
    rows = np.ma.array([[0.5, 7.0], [7.0, 0.5]], mask=[[False, True], [True, False]])
    for table in (rows, list(rows), [list(row) for row in rows]):
        np.testing.assert_array_equal(
            mf.run(detector("skip", PAIR), table).x, [[0.5, np.nan], [np.nan, 0.5]], str(type(table))
        )
        two = mf.Detector(GAUSSIAN, [mf.Fidelity("a", 0.5, 1), mf.Fidelity("b", 1, 2)], policy=mf.Always("b"))
        with pytest.raises(ValueError, match=r"row 0, column 'b': x is .*: pass missing='skip'"):
            mf.run(two, table)
        assert two.ticks == 0


def test_a_vector_reading_may_be_missing_entirely() -> None:
    gone = [None, math.nan, pd.NA, np.ma.masked]
    for x in gone:
        assert detector("skip", PAIR).update(x).x is None
        assert np.isnan(mf.run(detector("skip", PAIR), [[0.5, 0.5], x]).x[1]).all()
        assert np.isnan(mf.Fleet(2, PAIR, missing="skip").update([x, [0.5, 0.5]]).x[0]).all()
        with pytest.raises(ValueError, match="pass missing='skip'"):
            detector("raise", PAIR).update(x)
    for x in (1.0, [1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]]):
        with pytest.raises(ValueError, match="x must be 2 numbers, not of shape"):
            detector("skip", PAIR).update(x)
    for x in ("12", {"a": 1}, ["1", "2"]):
        with pytest.raises(TypeError, match="x must be 2 numbers, not"):
            detector("skip", PAIR).update(x)
    with pytest.raises(ValueError, match="the same shape in every row"):
        mf.run(detector("skip", PAIR), [[0.5, 0.5], [0.5]])


# --- adapters -------------------------------------------------------------------------------------------------------


def test_river_accepts_the_same() -> None:
    pytest.importorskip("river")
    from mfbocd.adapters.river import BOCD, SurpriseScore

    for name, (x, expected) in TABLE.items():
        drift, surprise = BOCD(model=GAUSSIAN), SurpriseScore(model=GAUSSIAN)
        if isinstance(expected, type):
            for act in (lambda x, one=drift: one.update(x), lambda x, one=surprise: one.learn_one({"a": x})):
                with pytest.raises(expected):
                    act(x)
        elif expected is MISSING:
            with pytest.raises(ValueError, match="leave out missing readings"):
                drift.update(x)
            surprise.learn_one({"a": x})
            assert surprise.score_one({"a": x}) == 0.0, name
        else:
            drift.update(x)
            assert drift._detector.ticks == 1, name
            surprise.learn_one({"a": x})
            assert surprise._streams["a"].detector.ticks == 1, name


def test_the_segmenter_accepts_the_same() -> None:
    pytest.importorskip("sklearn")
    from mfbocd.adapters.sklearn import Segmenter

    noise = [0.1, -0.2, 0.3, 0.0]
    for name, (x, expected) in TABLE.items():
        column = np.empty((len(noise) + 1, 1), dtype=object)
        column[:, 0] = [*noise, None]
        column[-1, 0] = x
        if isinstance(expected, type):
            with pytest.raises((TypeError, ValueError)):
                Segmenter(GAUSSIAN, hazard=0.01).fit(column)
        elif expected is MISSING:
            assert Segmenter(GAUSSIAN, hazard=0.01).fit(column).starts_.tolist() == [0], name


def test_spark_rows_accept_the_same() -> None:
    pytest.importorskip("pyspark")
    from mfbocd.adapters.spark import worker as worker_module

    config = Config.parse({"model": {"kind": "gaussian", "mean": 0, "var": 9, "noise_var": 1}, "missing": "skip"})
    worker = worker_module.Worker(worker_module.Job("token", config.to_dict(), ("full",), {}))
    for name, (x, expected) in TABLE.items():
        (result,), record = worker.process(name, [worker_module.InputRow(0, [x])], None)
        if isinstance(expected, type):
            assert result.step is None, name
            assert result.problem.startswith(expected.__name__), name
            assert record is None
        else:
            assert result.problem is None, name
            assert result.step.x == (None if expected is MISSING else expected), name


def test_labelled_arrays_are_arrays() -> None:
    xr = pytest.importorskip("xarray")
    assert mf.run(detector("skip"), xr.DataArray([0.5, np.nan])).x.tolist()[0] == 0.5
    with pytest.raises(TypeError, match="row 0, column 'full': x must be a number"):
        mf.run(detector("skip"), xr.DataArray(np.array(["2024-05-01"], dtype="M8[ns]")))


def test_columns_of_other_frames() -> None:
    pl = pytest.importorskip("polars")
    given = pl.DataFrame({"full": [0.5, None]})
    assert frames.run(detector("skip"), given)["x"].to_list()[0] == 0.5
    for bad in ([decimal.Decimal("0.5")], ["0.5"], [datetime.date(2024, 5, 1)]):
        with pytest.raises(TypeError, match="column 'full' must contain numbers"):
            frames.run(detector("skip"), pl.DataFrame({"full": bad}))
        with pytest.raises(TypeError):
            mf.run(detector("skip"), pl.DataFrame({"full": bad}))


def test_calibration_accepts_the_same() -> None:
    for bad in (["1", "2", "3"], np.array(["2024-05-01"] * 3, dtype="M8[ns]"), [1, 2, 3 + 0j]):
        with pytest.raises(TypeError):
            finite_values(bad)
        with pytest.raises(TypeError):
            numbers("high", bad)
    masked = np.ma.array([0.0, 1.0, 50.0], mask=[False, False, True])
    assert finite_values(masked).tolist() == [0.0, 1.0]
    with pytest.raises(ValueError, match="high must be finite, not nan"):
        numbers("high", masked)


# --- JSON -----------------------------------------------------------------------------------------------------------

JSON: dict[str, Any] = {
    "1": 1.0,
    "1.5": 1.5,
    "-2e3": -2000.0,
    "123456789012345678901234567890": 123456789012345678901234567890.0,
    "null": MISSING,
    "true": TypeError,
    "false": TypeError,
    '"1.5"': TypeError,
    '" 1e3 "': TypeError,
    '"NaN"': TypeError,
    "NaN": ValueError,
    "Infinity": ValueError,
    "1e400": ValueError,
    "1" + "0" * 400: ValueError,
    "[1]": TypeError,
    "{}": TypeError,
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    path: Path = tmp_path_factory.mktemp("inputs") / "mfbocd.db"
    with serving(path) as client:
        yield client


def test_the_service_accepts_numbers_and_null(service: httpx.Client) -> None:
    config = {"model": {"kind": "gaussian", "mean": 0, "var": 9, "noise_var": 1}, "missing": "skip"}
    assert service.post("/streams", json={"id": "one", "config": config}).status_code == 201
    tick = 0
    for text, expected in JSON.items():
        body = f'{{"tick": {tick}, "fidelity": "full", "x": {text}}}'
        answer = service.post("/streams/one/observe", content=body, headers={"content-type": "application/json"})
        if isinstance(expected, type):
            assert answer.status_code in (400, 422), (text, answer.text)
        else:
            assert answer.status_code == 200, (text, answer.text)
            assert answer.json()["x"] == (None if expected is MISSING else expected)
            tick += 1
    assert service.get("/streams/one").json()["tick"] == tick


def test_the_service_accepts_vectors(service: httpx.Client) -> None:
    config = {"model": {"kind": "multivariate_gaussian", "mean": [0, 0], "var": 9, "noise_var": 1}}
    assert service.post("/streams", json={"id": "two", "config": config}).status_code == 201
    for text, expected in JSON.items():
        if isinstance(expected, type):
            body = f'{{"tick": 0, "fidelity": "full", "x": [0.5, {text}]}}'
            answer = service.post("/streams/two/observe", content=body, headers={"content-type": "application/json"})
            assert answer.status_code in (400, 422), (text, answer.text)
    assert service.get("/streams/two").json()["tick"] == 0


def test_a_child_process_returns_numbers_and_null() -> None:
    for text, expected in JSON.items():
        line = f'{{"x": {text}}}'.encode()
        if expected is TypeError and text != "[1]":
            with pytest.raises(SensorError):
                parse_response(line)
        elif not isinstance(expected, type):
            found = parse_response(line)
            assert found is not None
            assert found["x"] == (None if expected is MISSING else pytest.approx(expected, rel=1e-15))
    with pytest.raises(SensorError):
        parse_response(b'{"x": [true]}')


def test_no_warnings_are_raised() -> None:
    """A masked or overflowing element is missing or an error of mfbocd, without a numpy warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mf.run(detector("skip"), [0.5, np.ma.masked]).x[0] == 0.5
        with pytest.raises(ValueError, match="must be finite"):
            mf.run(detector("skip"), np.array(["1e400"], dtype=np.longdouble))
