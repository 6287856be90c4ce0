"""A finished stream: the same as single updates, and only the chosen column is read."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import mfbocd as mf
from mfbocd.calibrate.auto import AutoDetector
from mfbocd.trace import recorder as recorder_module
from mfbocd.trace.recorder import Recorder

from ..registry import CASES, INTEGRATED, Case

FIDELITIES = [mf.Fidelity("low", 0.3, 1.0), mf.Fidelity("high", 1.0, 5.0)]


class NeverRead:
    """A cell that fails the test if it is read."""

    def __float__(self) -> float:
        raise AssertionError("an unchosen reading was read")


@pytest.mark.parametrize("prune", [None, mf.TopK(20), mf.Resample(20), mf.Threshold(1e-5)])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_run_equals_single_ticks(case: Case, prune) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(0)
    ticks = 60 if case.name.startswith(("family", "process")) or case.name in INTEGRATED else 150
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
    found = [c[:3] for t in halves for c in t.changes]
    assert found == [(s.tick, s.changed_at, s.confidence) for s in steps if s.alarm]


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
    ("table", "message"),
    [
        ([[0.0, 1.0], [0.0, np.nan]], "row 1, column 'high': x is nan"),
        ([[0.0, 1.0], [0.0, np.inf]], "row 1, column 'high': x must be finite"),
        ([[0.0, 1.0], [0.0, "x"]], "row 1, column 'high': x must be a number"),
        ([[0.0, 1.0, 2.0]], "table must have shape (T, 2), one column per fidelity, not (1, 3)"),
        ([0.0, 1.0], "table must have shape (T, 2), one column per fidelity, not (2,)"),
    ],
)
def test_bad_tables_are_named_and_change_nothing(table, message: str, posterior: bool) -> None:  # type: ignore[no-untyped-def]
    detector = mf.Detector(mf.Gaussian(), FIDELITIES, policy=mf.Always("high"))
    before = detector.to_bytes()
    with pytest.raises((ValueError, TypeError)) as error:
        mf.run(detector, table, posterior=posterior)
    assert message in str(error.value)
    assert detector.to_bytes() == before


def test_an_empty_stream_is_an_empty_trace() -> None:
    trace = mf.run(mf.Detector(mf.Gaussian()), [])
    assert len(trace) == 0
    assert trace.changes == []


def test_a_posterior_needs_a_fresh_detector() -> None:
    detector = mf.Detector(mf.Gaussian())
    detector.update(0.0)
    with pytest.raises(ValueError, match="posterior=True needs a detector before its first tick"):
        mf.run(detector, [0.0], posterior=True)


# --- a trace of steps, and detail ----------------------------------------------------------------------------------

POLICIES = [mf.Budget(2.0), mf.Random([0.6, 0.4]), mf.InformationRate(gain="run_length"), mf.Always("high")]
ARRAYS = ("choice", "x", "cost", "mean", "run_length", "p_change", "alarm", "changed_at", "confidence")


def _stream(ticks: int, seed: int = 4) -> NDArray[np.float64]:
    return mf.simulate.gaussian(mf.Gaussian(0, 9, 1), FIDELITIES, hazard=0.02, ticks=ticks, seed=seed).table


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
@pytest.mark.parametrize("model", [mf.Gaussian(0, 9, 1), mf.Bernoulli(1, 1)], ids=repr)
def test_detail_changes_no_step(model, policy) -> None:  # type: ignore[no-untyped-def]
    table = _stream(120)
    if isinstance(model, mf.Bernoulli):
        table = (table > 0.0).astype(float)
    one, two = (mf.Detector(model, FIDELITIES, 0.02, policy=policy, seed=3) for _ in "ab")
    plain, rich = mf.run(one, table), mf.run(two, table, detail=True)
    for field in ARRAYS:
        np.testing.assert_array_equal(getattr(plain, field), getattr(rich, field), err_msg=field)
    assert one.to_bytes() == two.to_bytes()
    assert plain.detail is None
    assert rich.detail is not None
    assert plain.costs == rich.costs == (1.0, 5.0)
    assert set(rich.to_frame().columns) == {"fidelity", *ARRAYS}


@pytest.mark.parametrize(
    "model", [mf.Gaussian(0, 9, 1), mf.Bernoulli(1, 1), mf.Bernoulli(0.3, 2, predictive="paper")], ids=repr
)
@pytest.mark.parametrize("best", [1.0, 0.6])
def test_detail_is_what_the_detector_reported_at_each_tick(model, best: float) -> None:  # type: ignore[no-untyped-def]
    fidelities = [mf.Fidelity("low", 0.3, 1.0), mf.Fidelity("high", best, 5.0)]
    table = _stream(90)
    if isinstance(model, mf.Bernoulli):
        table = (table > 0.0).astype(float)
    trace = mf.run(
        mf.Detector(model, fidelities, 0.02, policy=mf.Net(0.01, gain="variance"), prune=None), table, detail=True
    )
    detail = trace.detail
    assert detail is not None
    assert detail.gain == "variance"
    detector = mf.Detector(model, fidelities, 0.02, policy=mf.Net(0.01, gain="variance"), prune=None)
    posterior = np.zeros((90, 90))
    assert detail.tick.tolist() == list(range(90))
    for t in range(90):
        assert detail.gains[t] == pytest.approx([g.variance for g in detector.gains()], rel=1e-12)
        detector.update(table[t, trace.choice[t]], fidelities[trace.choice[t]])
        if t % 9 == 0:
            assert (detail.low[t], detail.high[t]) == pytest.approx(detector.interval(0.9, "high"), rel=1e-9)
        length, weight = detector.run_length
        posterior[t, length] = weight
    assert detail.length.tolist() == list(range(91))
    np.testing.assert_allclose(detail.weight, posterior, rtol=1e-12)


def test_gains_are_joint_if_the_policy_uses_none() -> None:
    trace = mf.run(mf.Detector(mf.Gaussian(0, 9, 1), FIDELITIES, policy=mf.Always("low")), _stream(3), detail=True)
    assert trace.detail is not None
    assert trace.detail.gain == "joint"
    fresh = mf.Detector(mf.Gaussian(0, 9, 1), FIDELITIES)
    assert trace.detail.gains[0] == pytest.approx([g.joint for g in fresh.gains()], rel=1e-12)


def test_the_interval_of_a_change_covers_the_regimes_that_its_alarm_counts() -> None:
    """Each end cuts off at most half of 1 - level, of the regimes that began after the last alarm."""
    table = _stream(400, seed=9)
    detector = mf.Detector(mf.Gaussian(0, 9, 1), FIDELITIES, 0.02, policy=mf.Budget(2.0), prune=None)
    trace = mf.run(detector, table, posterior=True, detail=True)
    assert trace.detail is not None
    assert trace.posterior is not None
    assert len(trace.detail.began) == len(trace.changes) >= 4
    assert any(low < high for low, high in trace.detail.began)
    last = 0
    for change, (low, high) in zip(trace.changes, trace.detail.began, strict=True):
        births = trace.posterior[change.tick, change.tick :: -1]  # births[b] = P(the regime began at b)
        births[: max(last, change.tick - mf.Alarm().within) + 1] = 0.0
        assert births.sum() == pytest.approx(change.confidence, abs=1e-12)
        births /= births.sum()
        assert births[:low].sum() <= 0.05 < births[: low + 1].sum()
        assert births[high + 1 :].sum() <= 0.05 + 1e-12 < births[high:].sum() + 1e-12
        assert last < low <= change.changed_at <= high or births[change.changed_at] > 0.0
        last = change.tick


def test_the_posterior_of_a_long_stream_is_thinned_and_binned() -> None:
    table = np.random.default_rng(3).normal(size=(1500, 1))
    detector = mf.Detector(mf.Gaussian(0, 9, 1), hazard=1e-4, prune=mf.TopK(100))
    trace = mf.run(detector, table, posterior=True, detail=True)
    detail = trace.detail
    assert detail is not None
    assert trace.posterior is not None
    assert detail.tick.tolist() == list(range(0, 1500, 2))
    assert len(detail.low) == len(detail.high) == 750
    width = int(detail.length[1])
    assert width == 8  # 256 bins of 4 end at 1024, and the run is longer
    assert detail.weight.shape == (750, len(detail.length) - 1)
    np.testing.assert_allclose(detail.weight.sum(axis=1), 1.0, rtol=1e-12)
    starts = np.arange(0, 1500, width)
    binned = np.add.reduceat(trace.posterior[detail.tick], starts, axis=1)[:, : detail.weight.shape[1]]
    np.testing.assert_allclose(detail.weight, binned, atol=1e-3)
    assert np.abs(detail.weight - binned).max() < 1e-3


def test_a_recorder_works_for_a_stream_of_unknown_length() -> None:
    detector = mf.Detector(mf.Gaussian(0, 9, 1), hazard=1e-4, prune=mf.TopK(20))
    detector.update(0.0)
    recorder = Recorder(detector)
    for x in np.random.default_rng(3).normal(size=1100):
        recorder.before_tick()
        recorder.after_tick(detector.update(float(x)))
    trace = recorder.trace()
    assert trace.detail is not None
    assert trace.first == 1
    assert trace.detail.tick.tolist() == list(range(1, 1101, 2))
    assert trace.detail.gains.shape == (1100, 1)
    np.testing.assert_allclose(trace.detail.weight.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.slow
def test_a_recorder_of_the_automatic_detector(at_once: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "ROWS", 256)  # thinned twice after fewer intervals
    rng = np.random.default_rng(4)
    x = np.concatenate([rng.normal(5.0, 1.0, 400), rng.normal(30.0, 1.0, 150)])
    plain = AutoDetector().run(x)
    detector = AutoDetector()
    recorder = Recorder(detector, ticks=x.size if at_once else 0)
    start = 0
    while start < x.size:
        end = start + (recorder.ticks_to_row if at_once else 1)
        recorder.after_ticks([detector.update(v) for v in x[start:end].tolist()])
        start = end
    trace = recorder.trace()
    np.testing.assert_array_equal(trace.mean, plain.mean)
    assert trace.changes == plain.changes
    assert [change.changed_at for change in trace.changes] == [400]
    detail = trace.detail
    assert detail is not None
    assert detail.tick.tolist() == list(range(0, 550, 4))
    assert detail.gains.shape == (0, 1)
    np.testing.assert_allclose(detail.weight.sum(axis=1), 1.0, rtol=1e-12)
    early = detail.tick < 19  # before the structure is chosen there is no prediction
    assert np.isnan(detail.low[early]).all()
    inside = (detail.low < x[detail.tick]) & (x[detail.tick] < detail.high)
    assert 0.8 < inside[~early].mean() < 0.98
    ((low, high),) = detail.began
    assert low <= 400 <= high <= low + 5


def test_bad_input_with_detail_changes_nothing() -> None:
    detector = mf.Detector(mf.Gaussian(), FIDELITIES)
    before = detector.to_bytes()
    with pytest.raises(ValueError, match="row 2, column"):
        mf.run(detector, [[0.0, 1.0]] * 2 + [[np.nan, np.nan]], detail=True)
    assert detector.to_bytes() == before


def test_an_empty_stream_has_empty_detail() -> None:
    detail = mf.run(mf.Detector(mf.Gaussian(), FIDELITIES), np.zeros((0, 2)), detail=True).detail
    assert detail is not None
    assert detail.gains.shape == (0, 2)
    assert detail.began.shape == (0, 2)
    assert detail.tick.shape == detail.low.shape == detail.high.shape == (0,)


def test_a_trace_of_steps_is_that_of_a_run() -> None:
    table = _stream(200)
    one, two = (mf.Detector(mf.Gaussian(0, 9, 1), FIDELITIES, 0.02, policy=mf.Budget(2.0)) for _ in "ab")
    for detector in (one, two):
        detector.update(0.0, "low")
    ran = mf.run(one, table)
    steps = []
    for row in table:
        f = two.choose()
        steps.append(two.update(float(row[two.fidelities.index(f)]), f))
    for known in (two, FIDELITIES, ["low", "high"]):
        made = mf.Trace.of(steps, known)
        for field in ARRAYS:
            np.testing.assert_array_equal(getattr(made, field), getattr(ran, field), err_msg=field)
        assert made.first == ran.first == 1
        assert made.fidelities == ran.fidelities
        assert [c[:3] for c in made.changes] == [c[:3] for c in ran.changes]
        assert (made.changes == ran.changes) == (known != ["low", "high"])  # levels are weighted by zeta, if known
        assert made.costs == (() if known == ["low", "high"] else (1.0, 5.0))


def test_a_step_without_a_fidelity() -> None:
    detector = mf.Detector(mf.Gaussian(), FIDELITIES, missing="skip")
    trace = mf.Trace.of([detector.update(1.0, "low"), detector.update(None), detector.update(2.0, "high")], detector)
    assert trace.choice.tolist() == [0, -1, 1]
    assert trace.to_frame()["fidelity"].isna().tolist() == [False, True, False]
    assert np.isnan(trace.x[1])
    assert trace.cost.tolist() == [1.0, 0.0, 5.0]


def test_a_cost_function_is_not_known_in_advance() -> None:
    fidelities = [mf.Fidelity("low", 0.3, lambda raw: raw), mf.Fidelity("high", 1.0, 5.0)]
    trace = mf.run(mf.Detector(mf.Gaussian(), fidelities, policy=mf.Net(0.1)), np.zeros((2, 2)), raws=[1.0, 2.0])
    assert np.isnan(trace.costs[0])
    assert trace.costs[1] == 5.0


def test_steps_that_do_not_form_a_trace_are_named() -> None:
    detector = mf.Detector(mf.Gaussian(), FIDELITIES)
    steps = [detector.update(1.0, "low") for _ in range(3)]
    with pytest.raises(ValueError, match="consecutive ticks: expected 1, not 2"):
        mf.Trace.of([steps[0], steps[2]], detector)
    with pytest.raises(ValueError, match="step 0: fidelity must be one of imu, gps, not 'low'"):
        mf.Trace.of(steps, ["imu", "gps"])
    assert mf.Trace.of([], detector).first == 3


# --- vector readings ----------------------------------------------------------------------------------------------


def test_a_table_of_vectors_equals_its_rows() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(60, 3))
    x[30:] += 4.0
    x[10] = np.nan
    model = mf.MultivariateGaussian([0.0, 0.0, 0.0], 9.0, 1.0)
    trace = mf.run(mf.Detector(model, hazard=0.02, missing="skip"), x)
    alone = mf.Detector(model, hazard=0.02, missing="skip")
    steps = [alone.update(None if np.isnan(row).any() else row) for row in x]
    assert trace.x.shape == trace.mean.shape == (60, 3)
    np.testing.assert_array_equal(trace.x, x)
    np.testing.assert_array_equal(trace.mean, [s.mean for s in steps])
    assert [c.changed_at for c in trace.changes] == [30]
    frame = trace.to_frame()
    np.testing.assert_array_equal(frame[["x_0", "x_1", "x_2"]].to_numpy(), x)
    np.testing.assert_array_equal(trace.number(1).x, x[:, 1])
    with pytest.raises(ValueError, match=r"one number, not 3: use trace.number\(0\)"):
        trace.plot()
    with pytest.raises(ValueError, match="number needs readings of several numbers"):
        trace.number(0).number(0)
    pandas = pytest.importorskip("pandas")
    same = mf.run(mf.Detector(model, hazard=0.02, missing="skip"), pandas.DataFrame(x, columns=list("abc")))
    np.testing.assert_array_equal(same.mean, trace.mean)


def test_vectors_at_several_fidelities() -> None:
    rng = np.random.default_rng(4)
    fidelities = [mf.Fidelity("low", 0.25, 1.0), mf.Fidelity("high", 1.0, 5.0)]
    table = rng.normal(size=(50, 2, 2)) * np.array([2.0, 1.0])[None, :, None]
    model = mf.MultivariateGaussian([0.0, 0.0], 9.0, 1.0)
    trace = mf.run(mf.Detector(model, fidelities, 0.02, policy=mf.Budget(2.5)), table)
    assert set(trace.choice.tolist()) == {0, 1}
    np.testing.assert_array_equal(trace.x, table[np.arange(50), trace.choice])
    with pytest.raises(ValueError, match=r"table must have shape \(T, 2, 2\), 2 numbers per reading, not \(50, 2\)"):
        mf.run(mf.Detector(model, fidelities, 0.02), table[:, 0])
    table[7] = np.inf
    with pytest.raises(ValueError, match="row 7, column 'low': x must be finite"):
        mf.run(mf.Detector(model, fidelities, 0.02, policy=mf.Always("low")), table)
