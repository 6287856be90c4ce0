"""The automatic detector: the same steps however the readings arrive, no look-ahead, saved and loaded at any tick."""

from __future__ import annotations

import copy
import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchmarks.accuracy import zoo
from mfbocd.belief.serialization import pack, unpack
from mfbocd.calibrate.auto import AutoDetector, Season, Structure
from mfbocd.calibrate.auto.detector import FIRST
from mfbocd.calibrate.auto.selection import History, losses
from mfbocd.trace.trace import Trace

Array = NDArray[np.float64]
FIELDS = ("x", "mean", "run_length", "p_change", "alarm", "changed_at", "confidence", "choice")


@st.composite
def streams(draw: st.DrawFn, most: int = 90) -> Array:
    """Noise, counts or 0/1, with a change, gaps, repeated readings and readings that the start makes impossible."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = draw(st.integers(1, most))
    kind = draw(st.sampled_from(["number", "positive", "count", "binary", "rounded", "constant"]))
    shift = np.where(np.arange(n) >= draw(st.integers(0, n)), draw(st.sampled_from([0.0, 5.0])), 0.0)
    x: Array = {
        "number": lambda: rng.normal(size=n) + shift,
        "positive": lambda: np.exp(rng.normal(size=n) + shift),
        "count": lambda: rng.poisson(3.0 + shift).astype(float),
        "binary": lambda: (rng.random(n) < np.where(shift > 0, 0.9, 0.2)).astype(float),
        "rounded": lambda: np.round(rng.normal(size=n) + shift),
        "constant": lambda: np.full(n, 3.0) + shift,
    }[kind]()
    if draw(st.booleans()):
        again = rng.random(n) < 0.3
        x = x[np.maximum.accumulate(np.where(again, 0, np.arange(n)))]
    if draw(st.booleans()):
        x[rng.integers(0, n)] = -2.5  # impossible for 0/1, counts and positive numbers
    x[rng.random(n) < draw(st.sampled_from([0.0, 0.0, 0.1, 0.7, 1.0]))] = np.nan
    return x


def same(one: Trace, other: Trace, rows: slice = slice(None)) -> None:
    for field in FIELDS:
        np.testing.assert_array_equal(getattr(one, field)[rows], getattr(other, field)[rows], err_msg=field)


def joined(parts: list[Trace]) -> Trace:
    return replace(parts[0], **{f: np.concatenate([getattr(p, f) for p in parts]) for f in (*FIELDS, "cost")})


@settings(max_examples=20, deadline=None)
@given(streams(), st.data())
def test_the_steps_do_not_depend_on_how_the_readings_arrive(x: Array, data: st.DataObject) -> None:
    whole, single, chunked = AutoDetector(), AutoDetector(), AutoDetector()
    trace = whole.run(x)
    steps = [single.update(None if np.isnan(value) else value) for value in x.tolist()]
    same(trace, Trace.of(steps, ["full"]))
    cuts = sorted(data.draw(st.lists(st.integers(0, x.size), max_size=5)))
    same(trace, joined([chunked.run(part) for part in np.split(x, cuts)]))
    assert whole.changes == single.changes == chunked.changes
    assert whole.to_bytes() == single.to_bytes() == chunked.to_bytes()
    assert whole.explain() == single.explain()


@settings(max_examples=20, deadline=None)
@given(streams(), st.data())
def test_no_look_ahead(x: Array, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, x.size))
    other = x.copy()
    other[at:] = 7.0 + 100.0 * np.arange(x.size - at)
    same(AutoDetector().run(x), AutoDetector().run(other), slice(at))


@settings(max_examples=20, deadline=None)
@given(streams(), st.data())
def test_saving_changes_no_later_bit(x: Array, data: st.DataObject) -> None:
    """Also before the first structure, and just before and after a structure is chosen."""
    near = [t for t in (FIRST - 1, FIRST, 24, 25, 26, 32) if t <= x.size]
    cut = data.draw(st.sampled_from(near) | st.integers(0, x.size) if near else st.integers(0, x.size))
    detector = AutoDetector(hazard=0.01, history=50, seed=3)
    detector.run(x[:cut])
    saved = detector.to_bytes()
    loaded = AutoDetector.from_bytes(saved)
    assert loaded.to_bytes() == saved
    assert (loaded.explain(), loaded.warnings()) == (detector.explain(), detector.warnings())
    same(detector.run(x[cut:]), loaded.run(x[cut:]))
    assert detector.changes == loaded.changes
    assert detector.to_bytes() == loaded.to_bytes()
