"""Streams and the frontier: metrics, tuning, and scores that equal those of single detectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mfbocd as mf
from mfbocd import calibrate
from mfbocd.trace import metrics
from paper.framework import Options
from paper.streams.families import FAMILIES
from paper.streams.follow import follow
from paper.streams.tuning import at_levels, policies_for
from paper.targets.frontier import SHARES, at_share, frontier, random_runs

from .helpers import missing

pytestmark = pytest.mark.slow

FIDELITIES = [mf.Fidelity("low", 0.1, 1.0), mf.Fidelity("high", 1.0, 10.0)]


def test_detection() -> None:
    assert metrics.detection([], [], 10)[:2] == (0, 0)
    assert metrics.detection([5, 6], [5], 10) == (1, 0, 0.0, 1)
    assert metrics.detection([4], [5], 10) == (0, 1, 10.0, 1)  # before the change: not a detection of it
    assert metrics.detection([15], [5], 10) == (0, 1, 10.0, 1)  # too late: neither
    assert metrics.detection([7, 9], [5, 8], 10) == (2, 0, 1.5, 0)
    assert metrics.l1([[1, 0]], [[0, 1]]) == 2.0
    assert metrics.mse([1, 2], [1, 4]) == 2.0


@pytest.mark.parametrize("gain", ["joint", "run_length", "variance"])
def test_a_price_is_found_for_a_wanted_spend(gain) -> None:  # type: ignore[no-untyped-def]
    model = mf.Gaussian(0, 9, 1)
    held_out = [mf.simulate.gaussian(model, FIDELITIES, 1 / 50, ticks=200, seed=s).table for s in range(12)]
    tuned_ = calibrate.price_for(4.0, model, FIDELITIES, 1 / 50, held_out, gain=gain)
    assert tuned_.achieved == pytest.approx(4.0, rel=0.02)
    assert tuned_.achieved == calibrate.average_spend(tuned_.policy, model, FIDELITIES, 1 / 50, held_out)
    fresh = [mf.simulate.gaussian(model, FIDELITIES, 1 / 50, ticks=200, seed=100 + s).table for s in range(30)]
    assert calibrate.average_spend(tuned_.policy, model, FIDELITIES, 1 / 50, fresh) == pytest.approx(4.0, rel=0.15)


def test_spend_of_a_fleet_equals_that_of_detectors() -> None:
    model = mf.Gaussian(0, 9, 1)
    tables = [mf.simulate.gaussian(model, FIDELITIES, 1 / 50, ticks=100, seed=s).table for s in range(4)]
    policy = mf.Net(0.01)
    together = calibrate.average_spend(policy, model, FIDELITIES, 1 / 50, tables)
    uneven = calibrate.average_spend(policy, model, FIDELITIES, 1 / 50, [*tables[:3], tables[3][:99]])
    alone = []
    for i, table in enumerate(tables):
        detector = mf.Detector(model, FIDELITIES, 1 / 50, policy=policy, seed=i)
        mf.run(detector, table)
        alone.append(detector.spent / 100)
    assert together == pytest.approx(np.mean(alone), rel=1e-12)
    assert uneven == pytest.approx(together, rel=0.02)


def test_weights_and_refusals() -> None:
    model = mf.Gaussian(0, 9, 1)
    tables = [mf.simulate.gaussian(model, FIDELITIES, 1 / 50, ticks=150, seed=s).table for s in range(8)]
    found = calibrate.weights_for(5.0, model, FIDELITIES, 1 / 50, tables)
    assert isinstance(found.policy, mf.InformationRate)
    assert found.achieved == calibrate.average_spend(found.policy, model, FIDELITIES, 1 / 50, tables)
    with pytest.raises(
        ValueError, match="per_tick must lie between the lowest and the highest cost, 1 and 10, not 11"
    ):
        calibrate.price_for(11.0, model, FIDELITIES, 1 / 50, tables)
    with pytest.raises(ValueError, match="at least one stream"):
        calibrate.price_for(5.0, model, FIDELITIES, 1 / 50, [])


def test_scores_equal_those_of_single_detectors() -> None:
    family = FAMILIES["bernoulli-flip"]()
    streams = family.streams(3, first=7)
    policy = mf.Net(0.004)
    scores = follow(family, policy, streams, seed=2)
    for i, drawn in enumerate(streams):
        runs = []
        for p in (policy, mf.Always("high")):
            detector = mf.Detector(family.model, family.fidelities, family.hazard, policy=p, prune=None, seed=2 + i)
            runs.append(mf.run(detector, drawn.table, posterior=True))
        mine, high = runs
        assert scores.low[i] == (mine.choice == 0).mean()
        assert scores.mse[i] == pytest.approx(metrics.mse(mine.mean, high.mean), rel=1e-9)
        assert scores.l1[i] == pytest.approx(metrics.l1(mine.posterior, high.posterior), rel=1e-9)
        assert scores.truth[i] == pytest.approx(metrics.mse(mine.mean, drawn.truth), rel=1e-9)
        expected = metrics.detection([c.tick for c in mine.changes], drawn.changes.tolist(), 50)
        assert scores.false[i] == pytest.approx(1000 * expected.false_alarms / 300)
        assert scores.delay[i] == pytest.approx(expected.delay, nan_ok=True)


def test_a_learning_policy_runs_for_each_stream_alone() -> None:
    family = FAMILIES["gaussian-half"]()
    streams = family.streams(3, first=4)
    scores = follow(family, [mf.Budget(1.35) for _ in streams], streams, seed=0)
    for i, drawn in enumerate(streams):
        detector = mf.Detector(family.model, family.fidelities, family.hazard, policy=mf.Budget(1.35), prune=None)
        assert scores.low[i] == (mf.run(detector, drawn.table).choice == 0).mean()


def test_random_choice_is_interpolated_stream_by_stream() -> None:
    runs = random_runs("gaussian-half", streams=4, seed=1)
    assert len(runs) == len(SHARES)
    assert [np.mean(r["low"]) for r in runs] == pytest.approx(SHARES, abs=0.05)
    first, second = runs[:2]
    share = 0.5 * (np.mean(first["low"]) + np.mean(second["low"]))
    middle = 0.5 * np.add(first["mse"], second["mse"])
    np.testing.assert_allclose(at_share(runs, share, "mse"), middle, rtol=1e-9)


def test_rules_are_tuned_to_the_level() -> None:
    family = FAMILIES["gaussian-tenth"]()
    for rule in ("net", "soft", "margin"):
        (policy,) = at_levels(family, rule, "variance", [0.65])  # the gain that is quickest to compute
        scores = follow(family, policy, family.streams(40, first=1), seed=1)
        assert scores.low.mean() == pytest.approx(0.65, abs=0.1)
    assert len(policies_for(family, "budget", "joint", [0.5], 3)[0]) == 3


@pytest.mark.parametrize("name", ["gaussian-half", "gaussian-tenth", "bernoulli-flip", "bernoulli-paper"])
def test_the_default_beats_random_choice_of_equal_spend(name: str) -> None:
    """The default is better on streams that the study does not use: paired, by more than four standard errors."""
    family = FAMILIES[name]()
    streams = family.streams(60, first=50_000)
    low, high = (f.cost_of() for f in family.fidelities)
    per_tick = 0.65 * low + 0.35 * high
    scores = follow(family, [mf.Budget(per_tick) for _ in streams], streams, seed=9)
    p = float(scores.low.mean())
    other = follow(family, mf.Random([p, 1 - p]), streams, seed=9)
    gap = other.mse - scores.mse
    assert gap.mean() > 4 * gap.std(ddof=1) / np.sqrt(gap.size)
    assert scores.mse.mean() < 0.75 * other.mse.mean()


def test_the_page_of_the_frontier_is_that_of_the_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paper.streams.tuning.TUNING", 4)
    family = {"family": ("gaussian-half",)}
    result = frontier.run(Options(tmp_path, trials=3, quick=True, jobs=1, progress=False, given=family))
    # a quick run has fewer rules, so the head of the first table is shorter
    assert [line[:10] for line in missing(frontier, result)] == ["| stream |"]
    with pytest.raises(ValueError, match=r"family must be one of gaussian-half, .* not 'nonsense'"):
        frontier.run(Options(tmp_path, given={"family": ("nonsense",)}))
