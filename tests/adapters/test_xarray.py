"""The posterior as labelled arrays."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import mfbocd as mf
from mfbocd.adapters.xarray import STEPS, posterior

pytestmark = pytest.mark.slow

LOW = mf.Fidelity("low", zeta=0.2, cost=1)
HIGH = mf.Fidelity("high", zeta=1.0, cost=10)


@pytest.fixture
def trace() -> mf.Trace:
    table = np.random.default_rng(2).normal(size=(40, 2))
    table[20:] += 6.0
    detector = mf.Detector(mf.Gaussian(0, 9, 1), [LOW, HIGH], hazard=0.05)
    return mf.run(detector, table, posterior=True)


def test_the_dataset_contains_the_posterior_and_the_steps(trace: mf.Trace) -> None:
    data = posterior(trace)
    assert trace.posterior is not None
    assert dict(data.sizes) == {"tick": 40, "run_length": 40}
    assert data["posterior"].dims == ("tick", "run_length")
    assert np.array_equal(data["posterior"].values, trace.posterior)
    assert data["posterior"].sum("run_length").values == pytest.approx(1.0)
    assert set(data.data_vars) == {"posterior", *STEPS}
    for name in STEPS:
        expected = trace.run_length if name == "map_run_length" else getattr(trace, name)
        assert np.array_equal(data[name].values, expected, equal_nan=expected.dtype == np.float64)
        assert data[name].attrs["long_name"] == STEPS[name]
    assert trace.alarm.any()
    assert data["fidelity"].values.tolist() == [trace.fidelities[j] for j in trace.choice]
    assert len(set(data["fidelity"].values)) == 2
    assert data.attrs == {"fidelities": "low, high", "costs": [1.0, 10.0], "spent": trace.spent}


def test_ticks_and_times_are_coordinates(trace: mf.Trace) -> None:
    when = np.datetime64("2024-05-01", "ns") + np.arange(40) * np.timedelta64(1, "h")
    later = posterior(replace(trace, first=100), time=when)
    assert later["tick"].values.tolist() == list(range(100, 140))
    assert (later["time"].values == when).all()
    by_time = later.swap_dims(tick="time").sel(time="2024-05-01T07:00")
    assert trace.posterior is not None
    assert by_time["posterior"].values.tolist() == trace.posterior[7].tolist()


def test_the_shortest_run_lengths_alone(trace: mf.Trace) -> None:
    assert trace.posterior is not None
    short = posterior(trace, lengths=5)
    assert np.array_equal(short["posterior"].values, trace.posterior[:, :5])
    assert short["run_length"].values.tolist() == [0, 1, 2, 3, 4]
    assert posterior(trace, lengths=1000).sizes["run_length"] == 40


def test_a_tick_without_a_reading_has_no_fidelity() -> None:
    detector = mf.Detector(mf.Gaussian(0, 9, 1))
    steps = [detector.update(0.5), detector.wait(1)]
    trace = mf.Trace.of(steps, detector, posterior=np.array([[1.0, 0.0], [0.004, 0.996]]))
    assert posterior(trace)["fidelity"].values.tolist() == ["full", ""]


def test_it_goes_to_netcdf_and_back(trace: mf.Trace, tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    path = tmp_path / "posterior.nc"
    data = posterior(trace)
    data.to_netcdf(path, engine="scipy")
    with xr.open_dataset(path, engine="scipy") as back:
        xr.testing.assert_equal(back.load(), data)
        assert back["posterior"].attrs == data["posterior"].attrs
        assert back.attrs["spent"] == trace.spent
        assert back.attrs["fidelities"] == "low, high"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lengths": 0}, "lengths must be a whole number of at least 1, not 0"),
        ({"lengths": 2.0}, "lengths must be a whole number of at least 1, not 2.0"),
        ({"time": [1, 2]}, r"time must have shape \(40,\), not \(2,\)"),
    ],
)
def test_bad_arguments_are_named(trace: mf.Trace, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        posterior(trace, **arguments)


def test_a_trace_without_it_is_refused() -> None:
    trace = mf.run(mf.Detector(mf.Gaussian(0, 9, 1)), [0.1, 0.2])
    with pytest.raises(ValueError, match=r"trace\.posterior is None: use"):
        posterior(trace)


def test_without_xarray_the_extra_is_named(trace: mf.Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(ImportError, match=r"pip install 'mfbocd\[xarray\]'"):
        posterior(trace)
