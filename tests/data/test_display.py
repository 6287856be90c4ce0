"""How results look in a terminal and in a notebook."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import mfbocd as mf

EVIL = "<script>alert('&')</script>"
TWO = [mf.Fidelity(EVIL, 0.1, 1), mf.Fidelity("gps", 1.0, 40)]
STREAM = [0.1, -0.2, 0.0, 0.3, -0.1, 9.0, 9.2, 8.9]


class Reader(HTMLParser):
    """The tags and the text of HTML, with every tag closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert attrs == []  # nothing is loaded, and nothing can act
        self.tags.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += f"{data} "


def detector() -> mf.Detector:
    made = mf.Detector(mf.Gaussian(0, 9, 1), TWO, hazard=0.01)
    for x in STREAM[:6]:
        made.update(x, "gps")
    return made


def fleet_step() -> Any:
    fleet = mf.Fleet(20, mf.Gaussian(0, 9, 1), TWO, hazard=0.01)
    for x in STREAM[:5]:
        fleet.update([x] * 20, ["gps"] * 20)
    return fleet.update([9.0] * 15 + [0.0] * 5, ["gps"] * 20)


def automatic() -> mf.AutoDetector:
    made = mf.AutoDetector()
    made.run(np.r_[np.zeros(40), np.full(20, 9.0)] + np.random.default_rng(0).normal(size=60))
    return made


CASES = {
    "detector": (detector, "<Detector of Gaussian(mean=0, var=9, noise_var=1) over", "6 ticks"),
    "automatic": (automatic, "<AutoDetector: 60 ticks, 1 change>", "tick 40"),
    "fresh": (mf.AutoDetector, "<AutoDetector: no ticks, no changes>", "no changes"),
    "gains": (lambda: detector().gains(), "  fidelity       zeta      cost", "chosen gps"),
    "step": (
        lambda: detector().update(9.2, "gps"),
        "<Step 6: gps = 9.2, mean 8.535, run length 1, P(change) 1>",
        "run_length 1",
    ),
    "alarm": (
        lambda: mf.run(mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.01), STREAM),
        "<Trace of 8 ticks: 1 change, spent 8>",
        "tick 5 0.02 (-0.22 to 0.26) 9.03",
    ),
    "fleet step": (fleet_step, "<FleetStep of 20 streams: 15 alarms (streams 0, 1,", "and 5 more"),
    "fleet": (lambda: mf.Fleet(2, mf.Gaussian()), "<Fleet of 2 x Gaussian(", "Fleet of 2 streams"),
    "blocks": (
        lambda: mf.BlockDetector(mf.Blocks(4, ["mean"]), mf.Detector(mf.Gaussian())),
        "BlockDetector(Blocks(",
        "no readings",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_text_and_html(name: str) -> None:
    make, start, inside = CASES[name]
    made: Any = make()
    assert repr(made).startswith(start)
    assert len(repr(made)) < 500
    read = Reader(made._repr_html_())
    assert inside in read.text
    assert set(read.tags) <= {"p", "table", "tr", "th", "td"}
    assert made._repr_html_().count("<tr>") < 14


def test_names_are_escaped() -> None:
    made = detector()
    trace = mf.run(made, np.array([STREAM, STREAM]).T)
    for thing in (made, made.gains(), made.update(9.0, EVIL)):
        assert EVIL in Reader(thing._repr_html_()).text
    assert f"({EVIL} " in repr(trace)
    assert EVIL in Reader(trace._repr_html_()).text


def test_ten_changes_are_shown() -> None:
    trace = mf.run(mf.Detector(mf.Gaussian(0, 25, 1), hazard=0.1), np.repeat([9.0, -9.0] * 7, 8))
    assert len(trace.changes) == 13
    assert trace._repr_html_().count("<tr>") == 11
    assert "and 3 more" in Reader(trace._repr_html_()).text


def test_an_alarm_is_shown_in_the_step() -> None:
    made = mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.01, missing="skip")
    steps = [made.update(x) for x in [*STREAM[:5], None, 9.0]]
    assert repr(steps[0]) == "<Step 0: full = 0.1, mean 0.0891, run length 0, P(change) 0>"
    assert repr(steps[5]).startswith("<Step 5: no reading, mean ")
    assert "alarm: changed at 6, " in repr(steps[6])
    assert repr(steps[6]._replace(failed=("a", "b"), warning="worse")).endswith("failed: a, b, warning: worse>")
    loud = mf.Detector(mf.Gaussian(0, 9, 1), surprise=True).update(1.0)
    assert "log_density" in Reader(loud._repr_html_()).text


def test_steps_still_are_tuples() -> None:
    step = detector().update(9.2, "gps")
    assert step == type(step)(*step)
    assert step._asdict()["tick"] == step[0] == 6


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_run_takes_a_frame_with_one_column(make: Any) -> None:
    ours = mf.run(mf.Detector(mf.Gaussian(0, 9, 1)), make({"volt": STREAM}))
    np.testing.assert_array_equal(ours.mean, mf.run(mf.Detector(mf.Gaussian(0, 9, 1)), STREAM).mean)
    with pytest.raises(ValueError, match="no column 'full', only volt, amp"):
        mf.run(mf.Detector(mf.Gaussian(0, 9, 1)), make({"volt": STREAM, "amp": STREAM}))
    with pytest.raises(ValueError, match="no column"):
        mf.run(mf.Detector(mf.Gaussian(0, 9, 1), TWO), make({"volt": STREAM}))
    with pytest.raises(TypeError, match="row 0, column 'full': x must be a number"):
        mf.run(mf.Detector(mf.Gaussian(0, 9, 1)), make({"volt": ["1", "x"]}))
