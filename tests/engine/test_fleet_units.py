"""Streams with different units share a prior: each is a detector of the model in its own units."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mfbocd as mf

from ..registry import ALL, INTEGRATED, Case
from .test_fleet_rows import FIDELITIES

SCALABLE = [
    *("gaussian", "unknown-variance", "student", "trend", "trend-known"),
    *("season", "season-known"),
    *("autoregressive", "autoregressive-known", "process", "process-known"),
    *("student-unknown", "outliers-gaussian", "outliers-unknown", "robust-trend", "robust-trend-plain"),
    *("mixture-gaussian", "mixture-trend", "scaled", "rounded", "fixed-season"),
    *("unknown-variance-tempered", "trend-tempered", "robust-trend-tempered"),
]


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in ALL if case.name in SCALABLE], ids=lambda c: c.name)
def test_a_stream_in_its_own_units_is_a_detector_of_the_rescaled_model(case: Case) -> None:
    """The first stream, in the model's units, has the same bits as without units."""
    rng = np.random.default_rng(1)
    units = [(0.0, 1.0), (-40.0, 0.01), (1e6, 250.0), (3.0, 2.0)]
    options: dict[str, Any] = {"hazard": 0.05, "prune": mf.TopK(12), "missing": "skip", "policy": mf.Net(0.01)}
    fleet = mf.Fleet(
        3, case.model(), FIDELITIES, **options, offset=[o for o, _ in units[:3]], scale=[s for _, s in units[:3]]
    )
    fleet.add(offset=units[3][0], scale=units[3][1])
    models = [case.model().rescaled(*u) if i else case.model() for i, u in enumerate(units)]
    alone = [mf.Detector(m, FIDELITIES, **options, seed=i) for i, m in enumerate(models)]
    fresh = [np.float64(d.mean) for d in alone]
    np.testing.assert_allclose(fleet.mean, fresh, rtol=1e-12)
    ticks = 12 if case.name in INTEGRATED else 25
    for t in range(ticks):
        z = float(case.draw(rng)) + 6.0 * (t > 3 * ticks // 5)
        some = [i for i in range(4) if (t + i) % 4]
        xs = [None if t % 7 == 3 and i != 2 else units[i][0] + units[i][1] * z for i in some]
        choice = fleet.choose(streams=some)
        assert choice.tolist() == [FIDELITIES.index(alone[i].choose()) for i in some]
        step = fleet.update(xs, choice, streams=some)
        for k, (i, x, j) in enumerate(zip(some, xs, choice.tolist(), strict=True)):
            wanted = alone[i].update(x, FIDELITIES[j])
            found = step.steps()[k]
            assert found[:4] == wanted[:4]  # tick, fidelity, x as it was read, cost
            assert found.mean == pytest.approx(wanted.mean, rel=1e-9, abs=1e-7 * units[i][1])
            assert (found.run_length, found.alarm) == (wanted.run_length, wanted.alarm)
            assert found.p_change == pytest.approx(wanted.p_change, abs=1e-7)
    np.testing.assert_allclose(fleet.mean, [d.mean for d in alone], rtol=1e-9)
    np.testing.assert_allclose(fleet.log_evidence, [d.log_evidence for d in alone], rtol=1e-7)
    assert fleet.to_bytes(0) == alone[0].to_bytes()
    again = mf.Fleet.from_bytes(fleet.to_bytes())
    assert again.to_bytes() == fleet.to_bytes()
    for i, d in enumerate(alone):
        one = fleet.extract(i)
        assert one.to_bytes() == fleet.to_bytes(i) == again.to_bytes(i)
        assert one.model.spec() == d.model.spec()
        np.testing.assert_allclose(one.interval(0.9), d.interval(0.9), rtol=1e-7)
        taken = fleet.insert(one, f"copy {i}", offset=units[i][0], scale=units[i][1])
        assert fleet.to_bytes(taken) == one.to_bytes()
        saved = fleet.insert(one.to_bytes(), f"saved {i}", offset=units[i][0], scale=units[i][1])
        x = units[i][0] + 0.5 * units[i][1]
        step = fleet.update([x] * 3, "high", streams=[i, taken, saved])
        assert len(set(step.mean.tolist())) == 1
        assert step.mean[0] == pytest.approx(one.update(x, "high").mean, rel=1e-9)


def test_families_without_units_are_refused_by_name() -> None:
    for case in ALL:
        if case.name in SCALABLE:
            continue
        with pytest.raises(ValueError, match=rf"{type(case.model()).__name__}.* has no offset and scale"):
            mf.Fleet(2, case.model(), scale=2.0)
        fleet = mf.Fleet(1, case.model())
        with pytest.raises(ValueError, match="has no offset and scale"):
            fleet.add("other", offset=1.0)
        assert len(fleet) == 1


def test_units_must_be_numbers_one_per_stream() -> None:
    for bad, message in (
        ([1.0], "one per stream: 2, not 1"),
        (0.0, "positive"),
        (np.inf, "finite"),
        ("1", "a number"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            mf.Fleet(2, mf.Gaussian(), scale=bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"Fleet\.offset must be finite"):
        mf.Fleet(2, mf.Gaussian(), offset=[0.0, np.nan])
    fleet = mf.Fleet(2, mf.Gaussian(), offset=[0.0, -1e308], names=["a", "b"])
    with pytest.raises(ValueError, match=r"stream b: x = 1\.7e\+308 is too large for its offset and scale"):
        fleet.update([0.0, 1.7e308])
    assert fleet.ticks.tolist() == [0, 0]
