"""Times as files write them: what they mean, and that they are shown as they were written."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

import mfbocd as mf
from mfbocd.calibrate.draft import classify_columns
from mfbocd.inputs.times import Times, written
from mfbocd.io.tables import Chunk
from mfbocd.trace.plots.timeline import Timeline

EIGHT = "2025-03-01T08:20:00"
DAY = "2025-03-01T00:00:00"
TWO_HOURS = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("label", "at", "zone"),
    [
        ("2025-03-01T08:20", EIGHT, ""),
        ("2025-03-01 08:20:00.000", EIGHT, ""),
        ("2025-03-01T08:20+02:00", EIGHT, "UTC+02:00"),
        ("2025-03-01 08:20:00 -0330", EIGHT, "UTC-03:30"),
        ("2025-03-01T08:20Z", EIGHT, "UTC"),
        ("2025-03-01 08:20:00 UTC", EIGHT, "UTC"),
        ("2025-03-01 08:20:00 CET", EIGHT, "CET"),
        ("2025-03-01", DAY, ""),
        ("2025-03", DAY, ""),
        ("2025/03/01 08:20", EIGHT, ""),
        ("20250301", DAY, ""),
        (20250301, DAY, ""),
        ("202503010820", EIGHT, ""),
        ("20250301T082000Z", EIGHT, "UTC"),
        ("1740817200", EIGHT, "UTC"),
        (1740817200, EIGHT, "UTC"),
        (1740817200.0, EIGHT, "UTC"),
        (np.int64(1740817200000), EIGHT, "UTC"),
        ("1740817200000000", EIGHT, "UTC"),
        ("1740817200000000000", EIGHT, "UTC"),
        ("01.03.2025 08:20", EIGHT, ""),
        ("1.3.25 8:20", EIGHT, ""),
        ("13/03/2025", "2025-03-13T00:00:00", ""),
        ("03/13/2025", "2025-03-13T00:00:00", ""),
        ("03/01/2025 08:20 PM", "2025-03-01T20:20:00", ""),
        ("03/01/2025 12:20 a.m.", "2025-03-01T00:20:00", ""),
        ("10/Oct/2025:13:55:36 +0200", "2025-10-10T13:55:36", "UTC+02:00"),
        ("[10/Oct/2025:13:55:36 +0200]", "2025-10-10T13:55:36", "UTC+02:00"),
        ("01-Mar-2025 08:20", EIGHT, ""),
        ("March 1, 2025 08:20", EIGHT, ""),
        ("Sat, 01 Mar 2025 08:20:00 GMT", EIGHT, "UTC"),
        ("Sat Mar  1 08:20:00 2025", EIGHT, ""),
        (datetime(2025, 3, 1, 8, 20), EIGHT, ""),
        (datetime(2025, 3, 1, 8, 20, tzinfo=TWO_HOURS), EIGHT, "UTC+02:00"),
        (datetime(2025, 3, 1, 8, 20, tzinfo=ZoneInfo("Europe/Berlin")), EIGHT, "Europe/Berlin, UTC+01:00"),
        (pd.Timestamp("2025-03-01 08:20", tz="UTC"), EIGHT, "UTC"),
        (pd.Period("2025-03", "M"), DAY, ""),
        (np.datetime64("2025-03"), DAY, ""),
        (date(2025, 3, 1), DAY, ""),
    ],
)
def test_times_are_read(label: Any, at: str, zone: str) -> None:
    times = Times.of([label, label])
    assert times.at is not None
    assert times.at.astype("datetime64[s]").astype(str).tolist() == [at, at]
    assert (times.zone, times.warning) == (zone, "")
    assert times.text(0) == (label if isinstance(label, str) else written(label))


@pytest.mark.parametrize(
    "labels",
    [
        ["08:20", "08:21"],
        ["a", "b"],
        [True, False],
        ["2025-02-30", "2025-03-01"],
        ["13/01/2025", "01/13/2025"],
        ["2025-03-01T08:20", "2025-03-01T08:20Z"],
        ["2025-03-01 08:20 CET", "2025-03-01 08:20 EST"],
        ["13:20 PM", "1:20 PM"],
    ],
)
def test_other_labels_are_shown_but_not_drawn(labels: list[Any]) -> None:
    times = Times.of(labels)
    assert times.at is None
    assert [times.text(i) for i in range(2)] == [str(label) for label in labels]
    trace = mf.run(mf.Detector(mf.Gaussian()), [0.0, 1.0])
    timeline = Timeline(trace, times)
    assert timeline.at.tolist() == [0, 1]
    assert (timeline.axis_label("when"), timeline.labels([1])) == ("tick", [str(labels[1])])


@pytest.mark.parametrize("labels", [[1.0, None], ["2025-03-01", ""], [1.0, np.nan], [pd.Timestamp(0), pd.NaT]])
def test_missing_times_are_named(labels: list[Any]) -> None:
    times = Times.of(labels)
    assert (times.at, times.bad) == (None, 1)


def test_numbers_that_are_no_dates_stay_numbers() -> None:
    for labels in ([0, 1, 2], [0.5, 1.5], ["20250301", "20250341"], [1e12, 5e14]):
        times = Times.of(labels)
        assert times.at is not None
        assert times.at.tolist() == [float(label) for label in labels]
        assert not times.epoch
    assert written(1.7e9) == "1700000000"
    assert written(0.1) == "0.1"


def test_the_whole_column_decides_the_order_of_day_and_month() -> None:
    def first(labels: list[str]) -> tuple[str, str]:
        times = Times.of(labels)
        assert times.at is not None
        return str(times.at[0].astype("datetime64[D]")), times.warning

    assert first(["03/01/2025", "03/02/2025", "03/20/2025"]) == ("2025-03-01", "")
    assert first(["03/01/2025", "04/01/2025", "20/01/2025"]) == ("2025-01-03", "")
    assert first(["11/01/2025", "12/01/2025", "01/02/2025"]) == ("2025-01-11", "")  # else it would decrease
    hours = [f"{3 + i // 24:02d}/01/2025 {i % 24:02d}:00" for i in range(60)]
    assert first(hours) == ("2025-01-03", "")  # else there would be gaps of a month
    day, warning = first(["03/01/2025 08:20", "03/01/2025 08:21"])
    assert day == "2025-03-01"
    assert warning.startswith("Dates such as 03/01/2025 may begin with the day or the month; the month was assumed.")
    assert first(["03/01/2025", "04/01/2025", "05/01/2025"])[1] == warning  # days, or the first of months
    assert first(["03/03/2025", "03/03/2025"]) == ("2025-03-03", "")


def test_times_of_different_offsets_are_drawn_in_utc_and_shown_as_written() -> None:
    labels = ["2025-03-30T01:30+01:00", "2025-03-30T03:30+02:00"]
    times = Times.of(labels)
    assert times.at is not None
    assert times.at.astype("datetime64[m]").astype(str).tolist() == ["2025-03-30T00:30", "2025-03-30T01:30"]
    assert (times.zone, [times.text(0), times.text(1)]) == ("UTC", labels)
    moved = [datetime(2025, 10, 26, 0, 30, tzinfo=UTC) + timedelta(hours=i) for i in range(2)]
    local = Times.of([at.astimezone(ZoneInfo("Europe/Berlin")) for at in moved])  # 02:30 twice
    assert (local.zone, local.increasing) == ("UTC", True)
    assert [local.text(0), local.text(1)] == ["2025-10-26 02:30:00+02:00", "2025-10-26 02:30:00+01:00"]


def test_times_that_decrease() -> None:
    times = Times.of(["01.03.2025", "01.02.2025"])
    assert (times.increasing, times.first_decrease()) == (False, 1)
    assert Times.of([2, 2, 3]).increasing


def test_seconds() -> None:
    for labels in (["01.03.2025 08:20", "01.03.2025 08:21"], [1740817200000, 1740817260000], [0, 60.0]):
        seconds = Times.of(labels).seconds()
        assert seconds is not None
        assert seconds.tolist() == [0.0, 60.0]
    hours = [f"{i:02d}.03.2025 {h:02d}:00" for i in (1, 2) for h in range(24)]
    assert mf.calibrate.period_of("daily", hours) == 24.0
    assert mf.calibrate.period_of("daily", [1740817200000 + 3_600_000 * i for i in range(9)]) == 24.0


def test_the_zone_is_on_the_axis() -> None:
    trace = mf.run(mf.Detector(mf.Gaussian(), mf.Fidelity("voltage", 1.0, 1.0)), [0.0, 1.0])
    labels = ["2025-03-01T08:20+02:00", "2025-03-01T08:21+02:00"]
    figure = trace.plot(time=labels, unit="V", xlabel="at")
    assert figure.axes[-1].get_xlabel() == "at (UTC+02:00)"
    assert figure.axes[0].get_ylabel() == "voltage (V)"
    assert trace.plot(time=[1740817200, 1740817260]).axes[-1].get_xlabel() == "time (UTC)"
    timeline = Timeline(trace, [1740817200, 1740817260])
    assert timeline.labels([1]) == ["1740817260"]
    assert timeline.descriptions([1]) == ["1740817260 (2025-03-01 08:21:00 UTC)"]


def test_a_column_of_times_is_recognized_by_its_values() -> None:
    def found(name: str, cells: list[str]) -> str | None:
        rows = Chunk("line", [2, 3, 4], {"v": ["5", "6", "5"], name: cells})
        return classify_columns([rows], ["v", name]).time

    epochs = ["1740817200", "1740817203", "1740817209"]
    assert found("logged_at", epochs) == "logged_at"
    assert found("bytes", epochs) is None  # a counter looks the same
    assert found("day", ["20250301", "20250302", "20250307"]) == "day"
    assert found("when", ["01.03.2025 08:20", "01.03.2025 08:20", "01.03.2025 08:21"]) == "when"
    assert found("note", ["a", "a", "b"]) is None
