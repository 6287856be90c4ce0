"""What alarms and the gain "change" need of old hypotheses remains after pruning has dropped them.

The level before a change is that of hypotheses which the readings since refute. Without pruning they are still there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import mfbocd as mf
from mfbocd._kernels import layout
from mfbocd.belief.gains import expected_gains
from mfbocd.belief.state import dropped_births, dropped_stats, hypotheses, stats_of, table
from mfbocd.detector.late import LateReadings

from ..registry import CASES, Case

Array = np.ndarray
ONE = np.array([1.0])
PRUNINGS = [mf.Resample(32), mf.TopK(32), mf.Resample(128), mf.TopK(128), mf.Threshold(1e-6)]


def levels(means: list[float], lengths: list[int], seed: int = 0) -> Array:
    """Readings with standard deviation 1 about one level after another."""
    return np.random.default_rng(seed).normal(np.repeat(means, lengths), 1.0)


def gaussian(prune: Any, alarm: mf.Alarm | None = None, hazard: float = 1 / 500) -> mf.Detector:
    return mf.Detector(mf.Gaussian(0, 100, 1), hazard=hazard, prune=prune, alarm=alarm, missing="skip")


def after_a_change(prune: Any = mf.TopK(32)) -> mf.Detector:  # noqa: B008 (frozen)
    """A detector that pruning has left without a hypothesis from before the change."""
    detector = gaussian(prune)
    for x in levels([0.0, 3.0], [100, 60]).tolist():
        detector.update(x)
    assert detector._filter.state[layout.DROPPED] > 0
    return detector


# --- the hypotheses that are kept --------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_dropped_hypotheses_take_in_every_reading(case: Case) -> None:
    """They have the statistics of the same hypotheses without pruning."""
    rng = np.random.default_rng(3)
    exact, pruned = (
        mf.Detector(case.model(), hazard=0.5, prune=prune, missing="skip", alarm=mf.Alarm(12, 1.0))
        for prune in (None, mf.TopK(4, slack=1))
    )
    seen = 0
    for t in range(40):
        x = None if t % 7 == 3 else case.draw(rng)
        exact.update(x)
        pruned.update(x)
        state, full = pruned._filter.state, exact._filter.state
        births = dropped_births(state).tolist()
        assert births == sorted(births)
        assert not births or births[-1] < table(state)[layout.BIRTH, 0]
        where = [table(full)[layout.BIRTH].tolist().index(birth) for birth in births]
        wanted = stats_of(exact.model, full)[:, where]
        np.testing.assert_allclose(dropped_stats(pruned.model, state), wanted, rtol=1e-9, atol=1e-9)
        seen += len(births)
    assert seen


# --- alarms ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prune", [None, *PRUNINGS], ids=repr)
def test_a_fall_is_no_rise_and_a_return_is_one(prune: Any) -> None:
    """A fall to a level that is higher than the first; a return; a fall soon after a rise to a higher level, which
    counts once the level before the rise is no longer that of the window."""
    for direction, means, lengths, wanted in (
        ("up", [10.0, 13.0, 11.5], [300, 200, 100], [300]),
        ("up", [0.0, -6.0, 0.0], [150, 60, 60], [210]),
        ("down", [10.0, 16.0, 14.5], [300, 40, 260], [340]),
    ):
        run = mf.run(gaussian(prune, mf.Alarm(direction=direction)), levels(means, lengths))  # type: ignore[arg-type]
        assert run.changed_at[run.alarm].tolist() == pytest.approx(wanted, abs=3)


@pytest.mark.parametrize("prune", [mf.Resample(64), mf.Resample(256), mf.TopK(256)], ids=repr)
def test_small_changes_are_found_after_pruning(prune: Any) -> None:
    for alarm in (mf.Alarm(within=600, before=0.0, at_least=1.0), mf.Alarm(at_least=1.0)):
        for seed in range(5):
            run = mf.run(gaussian(prune, alarm), levels([0.0, 1.4], [300, 100], seed))
            assert np.flatnonzero(run.alarm)[0] >= 300


def family(name: str, seed: int, steps: list[float], lengths: list[int]) -> tuple[mf.Model, Array, float]:
    """A model, readings whose mean changes by these steps, and the size of the smallest step."""
    rng = np.random.default_rng(seed)
    level = np.repeat(np.cumsum([0.0, *steps]), lengths)
    small = min(abs(step) for step in steps)
    if name == "poisson":
        rate = 20.0 + 10.0 * (level - level.min())
        return mf.Poisson(2.0, 0.02), rng.poisson(rate).astype(float), 10.0 * small
    x = rng.normal(level, 1.0)
    models = {
        "gaussian": mf.Gaussian(0, 100, 1),
        "unknown": mf.GaussianUnknown(0, 0.02, 2, 2),
        "outliers": mf.Outliers(mf.Gaussian(0, 100, 1), 0.001),
        "student": mf.StudentT(0, 100, 1, 30.0, points=4),
    }
    return models[name], x, small


@given(st.data())
def test_pruned_and_exact_filters_report_the_same_changes(data: st.DataObject) -> None:
    """Where the exact decision is clear, and at most one change lies in a window.

    With two changes in a window there is no one level before, and both filters compare with some mean of both, each
    with its own. The exact decision is clear if P(change) is low except in the ticks after a change that counts.
    """
    name = data.draw(st.sampled_from(["gaussian", "gaussian", "unknown", "poisson", "outliers", "student"]))
    within = data.draw(st.sampled_from([15, 40]))
    count = data.draw(st.integers(1, 2))
    steps = [data.draw(st.sampled_from([-1, 1])) * data.draw(st.floats(4.0, 8.0)) for _ in range(count)]
    lengths = [within + data.draw(st.integers(5, 60)) for _ in range(count + 1)]
    model, x, small = family(name, data.draw(st.integers(0, 10**6)), steps, lengths)
    direction = data.draw(st.sampled_from([None, "up", "down"]))
    at_least = data.draw(st.none() | st.floats(0.3, 0.7).map(lambda share: share * small))
    known = direction is not None and data.draw(st.booleans())
    before = x[: lengths[0] // 2].tolist() if known else None
    assume(direction or at_least)
    alarm = mf.Alarm(within, 0.9, direction, before, at_least)  # type: ignore[arg-type]
    prune = data.draw(st.sampled_from(PRUNINGS))
    exact, pruned = (mf.run(mf.Detector(model, hazard=1 / 200, prune=p, alarm=alarm), x) for p in (None, prune))
    fired = np.flatnonzero(exact.alarm)
    changes = np.cumsum(lengths)[:-1]
    counted = [c for c, step in zip(changes.tolist(), steps, strict=True) if step * {"down": -1}.get(direction, 1) > 0
               or direction is None]  # fmt: skip
    after = np.concatenate([np.arange(c, c + within) for c in counted]) if counted else np.empty(0, int)
    assume(np.delete(exact.p_change, after[after < x.size]).max() < 0.5)
    assume(len(fired) == len(counted) and all(0 <= t - c < 8 for t, c in zip(fired, counted, strict=True)))
    assert np.flatnonzero(pruned.alarm) == pytest.approx(fired, abs=3)


@pytest.mark.parametrize("prune", PRUNINGS, ids=repr)
def test_the_gain_of_a_change_that_was_not_reported_remains(prune: Any) -> None:
    exact, pruned = gaussian(None), gaussian(prune)
    for t, x in enumerate(levels([0.0, 3.0], [200, 120]).tolist()):
        exact.update(x)
        pruned.update(x)
        if t % 10 == 0:
            one, two = (float(expected_gains(d._filter, ONE, "change")[0]) for d in (exact, pruned))
            # the share of younger hypotheses, whose level moves faster, grows without pruning
            assert two == pytest.approx(one, abs=0.1)
    assert one > 0.8


def test_a_jump_that_refutes_all_others_keeps_the_level_before() -> None:
    """Their weights are then 0 also without pruning."""
    for prune in (None, mf.TopK(32)):
        run = mf.run(gaussian(prune, mf.Alarm(direction="up")), levels([100.0, 40.0, 60.0], [100, 100, 100]))
        assert not run.alarm[:200].any()  # a fall, although 40 is above the prior mean
        detector = gaussian(prune)
        for x in levels([0.0, 60.0], [100, 50]).tolist():
            detector.update(x)
        assert expected_gains(detector._filter, ONE, "change")[0] > 0.9


# --- where states go ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prune", [mf.TopK(32), mf.Threshold(1e-6)], ids=repr)
def test_dropped_hypotheses_are_part_of_the_state(prune: Any) -> None:
    """Saved, in a fleet, in a fleet's bytes, after more room was made, and after a replay."""
    detector = after_a_change(prune)
    state = hypotheses(detector._filter.state)
    saved = detector.to_bytes()
    assert mf.Detector.from_bytes(saved).to_bytes() == saved
    fleet = mf.Fleet(0, detector.model, hazard=1 / 500, prune=prune, alarm=None, missing="skip")
    fleet.insert(saved)
    again = mf.Fleet.from_bytes(fleet.to_bytes())
    late = LateReadings(mf.Detector.from_bytes(saved))
    late.apply(9.0, "full", 1.0, key="a")
    more = levels([3.0], [150], seed=1).tolist()
    for x in [9.0, *more]:
        detector.update(x)
        fleet.update([x])
        again.update([x])
    for x in more:
        late.apply(x, "full", 1.0)
    late.replace("a", 9.0, "full")
    late.catch_up()
    for other in (fleet.extract(0), again.extract(0), late.detector):
        assert np.array_equal(hypotheses(other._filter.state), hypotheses(detector._filter.state))
    assert state.shape[1] > table(after_a_change(prune)._filter.state).shape[1]


def test_they_are_kept_only_while_they_are_needed() -> None:
    """Not after an alarm, from which on all that began before it are old, and not after the window of the change."""
    for threshold in (0.9, 1.0):
        detector = gaussian(mf.TopK(32), mf.Alarm(50, threshold))
        kept = []
        for x in levels([0.0, 3.0], [100, 120]).tolist():
            detector.update(x)
            kept.append(detector._filter.state[layout.DROPPED])
        assert (max(kept) > 0.0) == (threshold == 1.0)
        assert kept[-1] == 0.0
