"""A finished stream: the same as ticks told singly, and only the chosen column is read."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import mfbocd as mf

from .registry import CASES, Case

FIDELITIES = [mf.Fidelity("low", 0.3, 1.0), mf.Fidelity("high", 1.0, 5.0)]


class NeverRead:
    """A cell that fails the test if anybody looks at it."""

    def __float__(self) -> float:
        raise AssertionError("an unchosen reading was read")


@pytest.mark.parametrize("prune", [None, mf.TopK(20), mf.Resample(20), mf.Threshold(1e-5)])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_run_equals_single_ticks(case: Case, prune) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(0)
    ticks = 60 if case.name.startswith("family") else 300
    table = np.array([[case.draw(rng) for _ in FIDELITIES] for _ in range(ticks)])
    one, two = (
        mf.Detector(case.model(), FIDELITIES, 0.03, policy=mf.Random([0.6, 0.4]), prune=prune, seed=8) for _ in "ab"
    )
    halves = [mf.run(one, table[: ticks // 3]), mf.run(one, table[ticks // 3 :])]
    steps = [two.update(float(row[two.fidelities.index(f := two.choose())]), f) for row in table]
    for field in ("mean", "run_length", "p_change", "alarm", "x", "cost"):
        got = np.concatenate([getattr(trace, field) for trace in halves])
        np.testing.assert_array_equal(got, [getattr(s, field) for s in steps])
    assert [FIDELITIES[j].name for t in halves for j in t.choice] == [s.fidelity for s in steps]
    assert one.spent == two.spent
    assert one.to_bytes() == two.to_bytes()
    assert [c for t in halves for c in t.changes] == [(s.tick, s.changed_at, s.confidence) for s in steps if s.alarm]


@pytest.mark.parametrize("posterior", [False, True])
def test_only_the_chosen_column_is_read(posterior: bool) -> None:
    table = np.empty((50, 2), dtype=object)
    detector = mf.Detector(mf.Gaussian(), FIDELITIES, policy=mf.Random(), seed=1)
    for t, j in enumerate(detector.policy.schedule([1], 0, 50)[:, 0]):
        table[t, j] = float(t)
        table[t, 1 - j] = NeverRead()
    trace = mf.run(detector, table, posterior=posterior)
    assert trace.x.tolist() == [float(t) for t in range(50)]
    assert set(trace.choice) == {0, 1}


def test_a_frame_is_read_by_name() -> None:
    frame = pd.DataFrame({"high": [1.0, 2.0], "note": ["a", "b"], "low": [3.0, 4.0]})
    detector = mf.Detector(mf.Gaussian(), FIDELITIES, policy=mf.Always("high"))
    assert mf.run(detector, frame).x.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="table has no column 'low', only high"):
        mf.run(detector, frame[["high"]])


def test_to_frame() -> None:
    detector = mf.Detector(mf.Gaussian(0, 9, 1), FIDELITIES, policy=mf.Random(), seed=2, missing="skip")
    mf.run(detector, np.zeros((3, 2)))
    table = np.array([[0.0, 0.1]] * 20 + [[9.0, 9.1]] * 5 + [[np.nan, np.nan]])
    trace = mf.run(detector, table)
    frame = trace.to_frame()
    assert list(frame.index) == list(range(3, 29))
    assert frame.index.name == "tick"
    assert set(frame["fidelity"]) == {"low", "high"}
    assert frame["alarm"].sum() == len(trace.changes) == 1
    assert frame.loc[frame["alarm"], "changed_at"].item() == trace.changes[0].changed_at == 23
    assert np.isnan(frame["x"].iloc[-1])
    assert trace.spent == frame["cost"].sum()
    assert trace.posterior is None


@pytest.mark.parametrize("posterior", [False, True])
@pytest.mark.parametrize(
    ("table", "said"),
    [
        ([[0.0, 1.0], [0.0, np.nan]], "row 1, column 'high': x is nan"),
        ([[0.0, 1.0], [0.0, np.inf]], "row 1, column 'high': x must be finite"),
        ([[0.0, 1.0], [0.0, "x"]], "row 0, column 'high': x must be a number"),
        ([[0.0, 1.0, 2.0]], "table must have shape (T, 2), one column a fidelity, not (1, 3)"),
        ([0.0, 1.0], "table must have shape (T, 2), one column a fidelity, not (2,)"),
    ],
)
def test_bad_tables_are_named_and_change_nothing(table, said: str, posterior: bool) -> None:  # type: ignore[no-untyped-def]
    detector = mf.Detector(mf.Gaussian(), FIDELITIES, policy=mf.Always("high"))
    before = detector.to_bytes()
    with pytest.raises((ValueError, TypeError)) as error:
        mf.run(detector, table, posterior=posterior)
    assert said in str(error.value)
    assert detector.to_bytes() == before


def test_an_empty_stream_is_an_empty_trace() -> None:
    trace = mf.run(mf.Detector(mf.Gaussian()), [])
    assert len(trace) == 0
    assert trace.changes == []


def test_a_posterior_needs_a_fresh_detector() -> None:
    detector = mf.Detector(mf.Gaussian())
    detector.update(0.0)
    with pytest.raises(ValueError, match="posterior=True needs a detector that has seen nothing"):
        mf.run(detector, [0.0], posterior=True)
