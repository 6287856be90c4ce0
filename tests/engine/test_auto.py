"""The automatic detector: the same steps however the readings arrive, no look-ahead, saved and loaded at any tick."""

from __future__ import annotations

import copy
import threading
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import mfbocd as mf
from benchmarks.accuracy import zoo
from mfbocd.belief.serialization import pack, unpack
from mfbocd.calibrate.auto import AutoDetector, Season, Structure
from mfbocd.calibrate.auto.detector import FIRST
from mfbocd.calibrate.auto.explain import Account, cautions
from mfbocd.calibrate.auto.selection import EXTRA_COST, History, losses, replay
from mfbocd.detector.detector import Detector
from mfbocd.io.config import Config
from mfbocd.io.config.kinds import plain
from mfbocd.models import Gaussian
from mfbocd.models.nested import named_spec
from mfbocd.policy import Fidelity
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
    made: dict[str, Array] = {
        "number": rng.normal(size=n) + shift,
        "positive": np.exp(rng.normal(size=n) + shift),
        "count": rng.poisson(3.0 + shift).astype(float),
        "binary": (rng.random(n) < np.where(shift > 0, 0.9, 0.2)).astype(float),
        "rounded": np.round(rng.normal(size=n) + shift),
        "constant": np.full(n, 3.0) + shift,
    }
    x = made[kind]
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
    fields: dict[str, Any] = {f: np.concatenate([getattr(p, f) for p in parts]) for f in (*FIELDS, "cost")}
    return replace(parts[0], **fields)


@settings(max_examples=20, deadline=None)
@given(streams(), st.data())
def test_the_steps_do_not_depend_on_how_the_readings_arrive(x: Array, data: st.DataObject) -> None:
    history = data.draw(st.sampled_from([40, 2048]))
    whole, single, chunked = (AutoDetector(history=history) for _ in range(3))
    trace = whole.run(x)
    steps = [single.update(value) for value in x.tolist()]
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
    flow = Fidelity("flow", 1.0, 1.0)  # the name of a column, which its steps have
    detector = AutoDetector(hazard=0.01, history=50, seed=3, fidelities=flow)
    detector.run(x[:cut])
    saved = detector.to_bytes()
    loaded = AutoDetector.from_bytes(saved)
    assert loaded.fidelities == detector.fidelities
    assert loaded.to_bytes() == saved
    assert (loaded.explain(), loaded.warnings()) == (detector.explain(), detector.warnings())
    same(detector.run(x[cut:]), loaded.run(x[cut:]))
    assert detector.changes == loaded.changes
    assert detector.to_bytes() == loaded.to_bytes()


# --- bytes ------------------------------------------------------------------------------------------------------


@cache
def saved_after_a_change() -> bytes:
    """120 readings of a season with noise, and a change of level."""
    rng = np.random.default_rng(5)
    detector = AutoDetector()
    detector.run(2.0 * np.sin(np.arange(120) / 2.0) + rng.normal(size=120) + 8.0 * (np.arange(120) > 60))
    return detector.to_bytes()


def test_damaged_bytes_are_refused() -> None:
    saved = saved_after_a_change()
    rng = np.random.default_rng(0)
    for at in rng.integers(0, len(saved), 50).tolist():
        damaged = bytearray(saved)
        damaged[at] ^= 1 << int(rng.integers(8))
        with pytest.raises(ValueError, match=r"saved|version"):
            AutoDetector.from_bytes(bytes(damaged))
    for end in (0, 5, 20, len(saved) - 1):
        with pytest.raises(ValueError, match=r"truncated|signature"):
            AutoDetector.from_bytes(saved[:end])
    with pytest.raises(ValueError, match="not a saved AutoDetector"):
        AutoDetector.from_bytes(Detector(Gaussian(0, 9, 1)).to_bytes())
    with pytest.raises(ValueError, match="saved detector"):
        Detector.from_bytes(saved)


WRONG: dict[str, Any] = {
    "ticks": 119,
    "next": 120,
    "refresh": 120,
    "origin": 500,
    "repeats": -1,
    "reconsidered": -1,
    "surprise": 1,
    "early": 4000,
    "once": 1,
    "hazard": 2.0,
    "history": 50,
    "seed": -4,
    "alarm": {"within": 0, "threshold": 0.9},
    "changes": [[20, 30]],
    "early_mean": "much",
}
WRONG_MEMBER: dict[str, Any] = {
    "weight": 1.5,
    "report": [300, 10, 0.5],
    "learnt": {"price": "float"},
    "policy": {"kind": "Net"},
}
WRONG_STRUCTURE: dict[str, Any] = {
    "kind": "text",
    "transform": "cube",
    "noise": 0.0,
    "spread": -1.0,
    "step": -1.0,
    "ar": [2.0],
    "outliers": 1.0,
    "forget": 0.0,
    "seasons": [[0.0, [1.0], [1.0], []]],
    "center": None,
    "extra": 1,
}


WRONG_SEASONS: list[list[Any]] = [
    [[1.0], [], []],
    [[], [], []],
    [[], [], [[3.0, 1.0, 0.0], [2.0, 0.0, 0.0]]],
    [[], [], [[12.0, 1.0, 0.0]]],
    [[], [], [[1.0, 2.0]]],
    [[1.0], [1.0]],
]


@pytest.mark.parametrize(
    ("place", "field", "value"),
    [
        *((0, field, value) for field, value in WRONG.items()),
        *((1, field, value) for field, value in WRONG_MEMBER.items()),
        *((2, field, value) for field, value in WRONG_STRUCTURE.items()),
        *((2, "seasons", [[12.0, *season]]) for season in WRONG_SEASONS),
    ],
)
def test_facts_that_cannot_be_are_refused(place: int, field: str, value: Any) -> None:
    """Their checksum is right."""
    facts, arrays = unpack(saved_after_a_change())
    member = facts["members"][0]
    (facts, member, member["structure"])[place][field] = value
    with pytest.raises(ValueError, match=r"."):
        AutoDetector.from_bytes(pack(facts, arrays))


def test_arrays_that_cannot_be_are_refused() -> None:
    for name, at, value in (("0.live", 0, np.nan), ("0.head", 0, 1e6), ("readings", 3, np.inf)):
        facts, arrays = unpack(saved_after_a_change())
        AutoDetector.from_bytes(pack(facts, arrays))
        arrays[name][at] = value
        with pytest.raises(ValueError, match="saved"):
            AutoDetector.from_bytes(pack(facts, arrays))


def test_a_copy_is_independent() -> None:
    saved = saved_after_a_change()
    detector = AutoDetector.from_bytes(saved)
    for other in (copy.copy(detector), copy.deepcopy(detector)):
        other.run([50.0] * 40)
        assert detector.to_bytes() == saved != other.to_bytes()


def test_a_second_thread_is_refused() -> None:
    detector = AutoDetector()
    errors: list[Exception] = []

    def use() -> None:
        for call in (lambda: detector.update(1.0), lambda: detector.run([1.0]), detector.to_bytes, detector.explain):
            try:
                call()
            except RuntimeError as error:
                errors.append(error)

    with detector._lock:
        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
    assert len(errors) == 4
    assert detector.ticks == 0


# --- what it finds ----------------------------------------------------------------------------------------------


def noise(n: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=n)


def stepped(n: int = 150, seed: int = 0) -> Array:
    return noise(n, seed) + 6.0 * (np.arange(n) >= 100)


def alarms(trace: Trace) -> list[tuple[int, int]]:
    return [(change.tick, change.changed_at) for change in trace.changes]


@pytest.mark.parametrize("seed", range(2))
def test_a_power_of_two_changes_no_alarm(seed: int) -> None:
    x = stepped(seed=seed)
    plain = AutoDetector().run(x)
    assert plain.changes
    for factor in (2.0**-300, 0.25, 1024.0):
        scaled = AutoDetector().run(factor * x)
        np.testing.assert_array_equal(scaled.alarm, plain.alarm)
        np.testing.assert_array_equal(scaled.changed_at, plain.changed_at)
        np.testing.assert_allclose(scaled.mean / factor, plain.mean, rtol=1e-9)


@pytest.mark.parametrize(("factor", "shift"), [(0.3, 0.0), (-7.0, 0.0), (3e-5, -0.01), (1e6, 5e6)])
def test_units_and_offset_change_no_alarm(factor: float, shift: float) -> None:
    x = stepped()
    assert alarms(AutoDetector().run(factor * x + shift)) == alarms(AutoDetector().run(x)) == [(101, 100)]


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e300])
def test_huge_and_tiny_readings(scale: float) -> None:
    detector = AutoDetector()
    trace = detector.run(scale * (10.0 + stepped()))
    assert [change.changed_at for change in trace.changes] == [100]
    assert np.isfinite(trace.mean).all()
    assert AutoDetector.from_bytes(detector.to_bytes()).to_bytes() == detector.to_bytes()
    detector.explain()
    detector.warnings()


def test_numbers_of_every_size_in_one_series() -> None:
    rng = np.random.default_rng(2)
    x = rng.choice([-1.0, 1.0], 100) * 10.0 ** rng.uniform(-300, 300, 100)
    detector = AutoDetector()
    assert len(detector.run(x)) == 100
    detector.explain()
    detector.warnings()


def test_binary() -> None:
    rng = np.random.default_rng(0)
    x = (rng.random(300) < np.where(np.arange(300) < 200, 0.1, 0.8)).astype(float)
    detector = AutoDetector()
    trace = detector.run(x)
    assert [abs(change.changed_at - 200) < 10 for change in trace.changes] == [True]
    assert detector.structure == Structure(kind="binary")
    detector.update(0.5)  # impossible for 0/1: the structure is chosen again at once
    assert detector.structure is not None
    assert detector.structure.kind == "number"


@pytest.mark.parametrize("scale", [1.0, 2.0**-30])
def test_constant_series_have_no_change_until_they_move(scale: float) -> None:
    detector = AutoDetector()
    assert not detector.run([3.0 * scale] * 100).alarm.any()
    assert detector.run([4.0 * scale] * 5).alarm.any()


def test_missing_readings_only() -> None:
    """Longer than the history, where the mean of no reading must not depend on what is kept."""
    detector = AutoDetector(history=64)
    trace = detector.run(np.full(500, np.nan))
    assert not trace.alarm.any()
    assert not trace.mean.any()
    assert detector.structure is None
    assert detector.run(noise(40)).alarm.sum() == 0
    assert detector.structure is not None


def test_a_structure_needs_twenty_readings() -> None:
    """Not twenty ticks: the noise of one reading and nineteen missing ones is unknown."""
    x = np.full(80, np.nan)
    x[::4] = noise(20)
    detector = AutoDetector()
    trace = detector.run(x[:76])
    assert detector.structure is None
    assert detector.explain() == "Only 19 readings in 76 ticks so far: changes are looked for from reading 20 on."
    detector.run(x[76:])
    assert detector.structure is not None
    assert not trace.alarm.any()
    assert trace.mean[5] == pytest.approx((x[0] + x[4]) / 2)


def test_few_readings() -> None:
    detector = AutoDetector()
    assert detector.explain() == "Only 0 readings so far: changes are looked for from reading 20 on."
    detector.run([5])
    assert detector.warnings() == ["Only 1 reading so far: changes are looked for from reading 20 on."]
    assert (detector.mean, detector.p_changed(5), detector.interval()) == (5.0, 0.0, (-np.inf, np.inf))
    assert detector.run_length.weight.tolist() == [1.0]
    detector.run(noise(24))
    assert detector.warnings() == ["Only 25 readings: the estimates are rough and a season cannot be found."]


def test_a_certain_change_has_a_probability_of_at_most_1() -> None:
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.normal(0, 1, 150), rng.normal(9, 1, 150)])
    assert AutoDetector().run(x).p_change.max() <= 1.0
    detector = AutoDetector()
    found = []
    for value in x.tolist():
        detector.update(value)
        found.append(detector.p_changed(100))
    assert 0.999 < max(found) <= 1.0


@pytest.mark.parametrize("make", [np.asarray, list, tuple, pd.Series, pl.Series])
def test_inputs(make: Any) -> None:
    plain = AutoDetector().run(stepped().round().astype(int).astype(float))
    same(AutoDetector().run(make(stepped().round().astype(int))), plain)


def test_bad_readings_change_nothing() -> None:
    detector = AutoDetector()
    detector.run(noise(30))
    saved = detector.to_bytes()
    for bad in ("a", np.inf, 1j):
        with pytest.raises((TypeError, ValueError), match=r"x must be"):
            detector.update(bad)
        with pytest.raises((TypeError, ValueError), match=r"row 1, column 'full': x must be"):
            detector.run([1.0, bad])
    with pytest.raises(ValueError, match=r"table must have shape \(T, 1\)"):
        detector.run(np.zeros((3, 2)))
    assert detector.to_bytes() == saved


def test_memory_is_bounded() -> None:
    detector = AutoDetector(history=64)
    rng = np.random.default_rng(0)
    sizes = []
    for _ in range(4):
        detector.run(rng.normal(size=1500))
        sizes.append(len(detector.to_bytes()))
        assert detector._x.size == 64
    assert max(sizes) < 40_000


@pytest.mark.parametrize("kind", ["white", "ar.8", "poisson3", "repeating"])
def test_quiet_series_have_hardly_any_alarm(kind: str) -> None:
    """At most one in 300 ticks; the start, where little is known, counts most here."""
    assert AutoDetector().run(zoo.series(kind, 0).x[:300]).alarm.sum() <= 1


@pytest.mark.slow
def test_quiet_series_have_few_alarms() -> None:
    """At most one per 2,000 ticks, over nine kinds of noise."""
    kinds = ("white", "ar.8", "ar.95", "student-t3", "spikes", "sine", "poisson30", "drift", "binary")
    series = [zoo.series(kind, 0).x for kind in kinds]
    alarms = sum(int(AutoDetector().run(x).alarm.sum()) for x in series)
    assert alarms <= sum(x.size for x in series) / 2000


@pytest.mark.parametrize("kind", ["white/level2", "poisson3/level2", "spikes/level2"])
def test_changes_of_level_are_found(kind: str) -> None:
    series = zoo.series(kind, 0)
    found = [change.changed_at for change in AutoDetector().run(series.x[: series.changes[0] + 100]).changes]
    assert any(abs(at - series.changes[0]) <= 10 for at in found), (found, series.changes[0])


# --- words ------------------------------------------------------------------------------------------------------


def words(x: Array) -> tuple[str, list[str]]:
    detector = AutoDetector()
    detector.run(x)
    return detector.explain(), detector.warnings()


def autoregression(n: int, a: float, seed: int = 0) -> Array:
    x = noise(n, seed)
    for t in range(1, n):
        x[t] += a * x[t - 1]
    return x


@pytest.mark.slow
def test_the_explanation_names_what_is_there() -> None:
    rng = np.random.default_rng(3)
    season = 3.0 * np.sin(2 * np.pi * np.arange(240) / 12) + noise(240)
    text, warnings = words(season)
    assert text.startswith("240 readings.\nNumbers, used as they are.\nTypical level ")
    assert "Season of 12 ticks: without it the evidence is " in text
    assert warnings == []
    assert "Autocorrelated noise (0.8" in words(autoregression(300, 0.8))[0]
    assert "Counts whose variance grows with their level" in words(rng.poisson(2.0, 300).astype(float))[0]
    assert "used as logarithms" in words(np.exp(rng.normal(size=200)))[0]
    assert "Rounded to steps of 0.5." in words(0.5 * np.round(4.0 * noise(200) / 2.0) - 7.0)[0]
    assert "a line of slope 0.0997 per tick." in words(0.1 * np.arange(200) + 0.3 * noise(200))[0]
    spiky = noise(300) + 20.0 * (rng.random(300) < 0.04) * rng.choice([-1.0, 1.0], 300)
    assert "Outliers, about 0." in words(spiky)[0]
    again = noise(200)
    again[50:70] = again[50]
    assert "A reading that only repeats the one before is skipped: 19 so far." in words(again)[0]
    assert "1 change reported, the last at tick 100." in words(stepped())[0]
    gaps = noise(100)
    gaps[3:40] = np.nan
    text, warnings = words(gaps)
    assert text.startswith("100 readings; 37 of them missing.")
    assert warnings == ["37% of the readings are missing: alarms come later and are less certain."]


def test_the_warnings_name_what_cannot_be_handled() -> None:
    assert words(np.full(60, 2.0))[1] == [
        "The series is constant: the size of its noise is unknown, so any other value is a change."
    ]
    assert "The series moves like a random walk: only jumps are reported." in words(np.cumsum(noise(400)))[1]


def account(x: Array, structure: Structure, changes: Sequence[int] = ()) -> Account:
    history = History(x, np.arange(x.size), np.isfinite(x), np.zeros(x.size, dtype=np.int64), np.ones(x.size))
    make = AutoDetector()._make
    detector, _ = replay(structure, history, make)
    return Account(x.size, structure, detector, history, make, False, [(at + 1, at) for at in changes])


def test_structure_beyond_the_models_is_named() -> None:
    """Here by describing series with structures that do not fit them."""
    white = Structure(center=0.0, noise=1.0, spread=3.0)
    x = autoregression(400, 0.9)
    assert cautions(account(noise(400), white)) == []
    assert any("still autocorrelated" in text for text in cautions(account(x, replace(white, ar=(0.3,)))))
    season = 1.5 * np.sin(2 * np.pi * np.arange(400) / 5) + 0.5 * noise(400)
    assert any("still have a period of 5 ticks" in text for text in cautions(account(season, white)))
    skewed = np.random.default_rng(2).exponential(size=400)
    (caution,) = cautions(account(skewed, replace(white, outliers=0.3)))
    assert caution.startswith("About 30% of the readings are outliers and the noise is skewed: the probabilities of")
    assert cautions(account(noise(400), replace(white, outliers=0.05))) == []  # not more than a tenth
    crowded = cautions(account(noise(100), white, changes=range(10, 100, 10)))
    assert crowded[0].startswith("9 changes in 100 ticks")


def test_the_loss_of_a_feature_is_a_difference_of_evidence() -> None:
    x = autoregression(300, 0.8)
    structure = Structure(center=0.0, noise=1.0, spread=2.0, ar=(0.8,), outliers=0.001)
    known = account(x, structure)
    without, _ = replay(replace(structure, ar=()), known.history, known.make)
    lost = losses(structure, known.history, known.make)
    # noise without autocorrelation is preferred a little in advance
    difference = known.detector.log_evidence - without.log_evidence - EXTRA_COST
    assert lost == {"ar": pytest.approx(difference)}
    season = Season(12.0, (0.0,), (0.01,))
    seasonal = losses(replace(structure, seasons=(season,)), known.history, known.make)
    assert seasonal["seasons"] < 0.0  # it is not there: the simpler structure has more evidence
    assert set(seasonal) == {"seasons", "ar"}


def _seasonal_counts(rng: np.random.Generator, ticks: int) -> np.ndarray:
    rate = np.where(np.arange(ticks) < 200, 6.0, 20.0) * np.exp(0.5 * np.sin(2 * np.pi * np.arange(ticks) / 24))
    return rng.poisson(rate).astype(float)


def _skewed(rng: np.random.Generator, ticks: int) -> np.ndarray:
    return np.exp(np.where(np.arange(ticks) < 200, 1.0, 2.5) + 0.2 * rng.normal(size=ticks))


@pytest.mark.parametrize("series", [_seasonal_counts, _skewed, lambda rng, n: (rng.random(n) < 0.3).astype(float)])
def test_a_structure_is_an_ordinary_model(series: Callable[[np.random.Generator, int], np.ndarray]) -> None:
    """A plain detector of the structure's model, from a configuration, is the automatic detector's member."""
    x = series(np.random.default_rng(4), 400)
    x[[30, 31, 50]] = np.nan
    automatic = AutoDetector()
    automatic.run(x)
    for member in automatic._members:
        assert automatic._origin == 0
        model = member.structure.model()
        config = Config.parse({"model": plain(named_spec(model)), "hazard": automatic.hazard})
        loaded = Config.parse(tomllib.loads(config.to_toml())).detector().model
        assert loaded.spec() == model.spec()
        detector = mf.Detector(loaded, hazard=automatic.hazard, prune=mf.Resample(64), missing="skip")
        mf.run(detector, x)
        np.testing.assert_array_equal(detector.run_length.weight, member.detector.run_length.weight)
        assert detector.log_evidence == pytest.approx(member.detector.log_evidence, rel=1e-12)
        assert detector.mean == member.detector.mean
        assert detector.interval(0.8) == member.detector.interval(0.8)


def test_a_structure_begins_at_any_tick() -> None:
    """A season goes on in the phase that it has at the tick at which the model's stream begins."""
    season = Season(24.0, (1.0,), (2.0,))
    structure = Structure(seasons=(season,), step=0.5)
    whole, later = structure.model(), structure.model(start=40)
    x = np.round(2.0 * season.at(np.arange(60))) / 2.0
    ticks = np.arange(20)
    np.testing.assert_array_equal(later.inward(x[40:], ticks), whole.inward(x, np.arange(60))[40:])
    np.testing.assert_array_equal(later.inward(x[40:], ticks), structure.prepared(x, np.arange(60))[40:])
