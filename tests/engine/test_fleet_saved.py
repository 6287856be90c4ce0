"""Streams of a fleet and whole fleets as bytes and back; the likely run lengths of many streams."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mfbocd as mf
from mfbocd._kernels import layout
from mfbocd.belief.filter import table
from mfbocd.belief.serialization import pack, unpack

from ..registry import ALL
from .test_fleet_rows import FIDELITIES, POLICIES


def test_streams_of_another_configuration_are_refused_by_name() -> None:
    fleet = mf.Fleet(1, mf.Gaussian(0, 9, 1), FIDELITIES, 0.05, share_policy=False)
    good: dict[str, Any] = {"model": mf.Gaussian(0, 9, 1), "fidelities": FIDELITIES, "hazard": 0.05}
    fleet.insert(mf.Detector(**good, seed=3))
    others: dict[str, dict[str, Any]] = {
        "model": {"model": mf.Gaussian(0, 8, 1)},
        "hazard": {"hazard": 0.06},
        "pruning": {"prune": mf.TopK(9)},
        "alarm": {"alarm": None},
        "fidelities": {"fidelities": [FIDELITIES[0], mf.Fidelity("high", 1.0, 6.0)]},
        "missing": {"missing": "skip"},
        "on_error": {"on_error": "fallback"},
        "shadow": {"shadow": 5},
        "learn": {"learn": True},
        "policy": {"policy": mf.Net(0.1)},
    }
    for field, change in others.items():
        detector = mf.Detector(**(good | change))
        for form in (detector, detector.to_bytes()):
            with pytest.raises(ValueError, match=f"the detector's {field} must equal the fleet's"):
                fleet.insert(form)
    assert len(fleet) == 2
    close = mf.Gaussian(0, 9 + 1e-9, 1)  # prints like the other
    with pytest.raises(ValueError, match=r"model must .* 'var': 9\.0, .* not .* 'var': 9\.000000001, "):
        fleet.insert(mf.Detector(**(good | {"model": close})))
    sharing = mf.Fleet(1, mf.Gaussian(0, 9, 1), FIDELITIES, 0.05)
    before = sharing.policy.state()
    sharing.insert(mf.Detector(**(good | others["policy"])))  # its policy is dropped
    assert sharing.policy.state() == before


def test_models_and_costs_that_hold_functions_are_inserted_from_bytes() -> None:
    case = next(case for case in ALL if case.name == "grid-sensor")
    model = case.model()
    fidelities = [mf.Fidelity("low", 0.3, lambda raw: 1.0), mf.Fidelity("high", 1.0, 5.0)]
    fleet = mf.Fleet(1, model, fidelities, policy=mf.Always(), share_policy=False)
    other = mf.Detector(model, fidelities, policy=mf.Always(), seed=4)
    other.update(case.draw(np.random.default_rng(0)), "high")
    assert fleet.to_bytes(fleet.insert(other.to_bytes())) == other.to_bytes()
    again = mf.Fleet.from_bytes(fleet.to_bytes(), model=model, costs={"low": lambda raw: 1.0})
    assert again.to_bytes() == fleet.to_bytes()


CAPPED = {"cap": lambda: mf.Budget(share=0.4, cap=(60.0, 4))}  # of three streams together


@pytest.mark.parametrize("policy", ["default", "net", "soft", "cap"])
def test_a_saved_fleet_continues(policy: str) -> None:
    fleet = mf.Fleet(3, mf.Gaussian(0, 9, 1), FIDELITIES, 0.05, policy=(POLICIES | CAPPED)[policy]())
    rng = np.random.default_rng(5)
    for _ in range(10):
        fleet.update(rng.normal(size=3), fleet.choose())
    other = mf.Fleet.from_bytes(fleet.to_bytes())
    for _ in range(10):
        x = rng.normal(size=3)
        assert other.choose().tolist() == fleet.choose().tolist()
        assert other.update(x).mean.tolist() == fleet.update(x).mean.tolist()
    assert other.to_bytes() == fleet.to_bytes()
    assert other.add() == fleet.add()
    assert other.to_bytes() == fleet.to_bytes()


def test_damaged_bytes_of_a_fleet_are_refused() -> None:
    fleet = mf.Fleet(2, mf.Gaussian(0, 9, 1), FIDELITIES, 0.05, share_policy=False)
    fleet.update([0.1, 0.2], "high")
    saved = fleet.to_bytes()
    for data in (saved[:-1], saved[:40], b"", saved[:-9] + bytes([saved[-9] ^ 1]) + saved[-8:]):
        with pytest.raises(ValueError, match=r"saved detector|begin with its signature"):
            mf.Fleet.from_bytes(data)
    with pytest.raises(ValueError, match="not a fleet"):
        mf.Fleet.from_bytes(fleet.to_bytes(0))
    with pytest.raises(ValueError, match="damaged"):
        mf.Detector.from_bytes(saved)
    facts, arrays = unpack(saved)
    for change in (
        {"seed": arrays["seed"] + 1.0},
        {"spent": arrays["spent"] - 9.0},
        {"numbers": arrays["numbers"][:-1]},
        {"numbers": arrays["numbers"] * np.nan},
        {"heads": arrays["heads"] * 0.0},
        {"live": arrays["live"][:-1]},
        {"live": np.append(arrays["live"], 0.0)},
        {"scale": -arrays["scale"]},
    ):
        with pytest.raises(ValueError):  # noqa: PT011 (the messages differ)
            mf.Fleet.from_bytes(pack(facts, arrays | change))
    for fact in ({"streams": 3}, {"streams": "2"}, {"names": ["a"]}, {"fleet": "????"}, {"added": None}):
        with pytest.raises(ValueError):  # noqa: PT011
            mf.Fleet.from_bytes(pack(facts | fact, arrays))
    assert mf.Fleet.from_bytes(pack(facts, arrays)).to_bytes() == saved


def test_a_spend_that_is_not_finite_cannot_be_saved() -> None:
    expensive = [mf.Fidelity("low", 0.3, 1.0), mf.Fidelity("high", 1.0, 1e308)]
    fleet = mf.Fleet(2, mf.Gaussian(0, 9, 1), expensive, policy=mf.Budget(share=0.5), share_policy=False)
    fleet.update([0.5, 0.5], "high")
    fleet.update([0.5], "high", streams=[1])
    assert len(fleet.to_bytes(0)) > 0
    for save in (lambda: fleet.to_bytes(1), lambda: fleet.to_bytes_each(), lambda: fleet.to_bytes()):
        with pytest.raises(ValueError, match="spent"):
            save()


# --- likely run lengths ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("least", [0.0, 0.01, 0.2])
@pytest.mark.parametrize("most", [1, 3, 400])
def test_likely_run_lengths_equal_plain_numpy(least: float, most: int) -> None:
    rng = np.random.default_rng(2)
    fleet = mf.Fleet(8, mf.Gaussian(0, 9, 1), hazard=0.05, prune=mf.Resample(60))
    for t in range(150):
        fleet.update(rng.normal(size=7 if t < 40 else 5), streams=np.arange(7 if t < 40 else 5))
    for row in range(7):  # many are equal
        state = fleet._rows.states[row]
        weight = table(state)[layout.WEIGHT]
        weight[:] = np.ceil(8.0 * weight / weight.max()) / 8.0
        state[layout.TOTAL] = weight.sum()
    rows = [6, 0, 7, 3, 1, 2, 4, 5]  # 7 has had no tick
    for row, found in zip(rows, fleet.likely(least, most, streams=rows), strict=True):
        wanted = fleet.run_length(row)
        which = np.flatnonzero(wanted.weight >= least)
        kept = np.sort(which[np.argsort(-wanted.weight[which], kind="stable")[:most]])
        assert found == [[int(wanted.length[i]), round(float(wanted.weight[i]), 4)] for i in kept]
        assert all(type(length) is int and type(share) is float for length, share in found)
    assert fleet.likely(least, most, streams=[]) == []
    assert fleet.likely(least, most, streams=[7]) == [[]]
