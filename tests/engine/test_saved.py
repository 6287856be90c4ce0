"""Saved bytes with a valid checksum and damaged contents are refused, or give a detector that works."""

from __future__ import annotations

import base64
import json
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

import mfbocd as mf
from mfbocd._kernels import layout
from mfbocd.belief.pruning import DEFAULT, Pruning
from mfbocd.belief.serialization import unpack
from mfbocd.belief.state import check_saved, hypotheses
from mfbocd.detector.serialization import Loader, Serializer

from ..registry import CASES, Case
from .saved_examples import AFTER, EXAMPLES, FILE, feed

ROOT = Path(__file__).parents[2]
CASES_TRIED = 5_000
FIDELITIES = [mf.Fidelity("low", 0.3, 1.0), mf.Fidelity("high", 1.0, 5.0)]


@pytest.mark.slow
def test_damaged_bytes_with_a_valid_checksum_never_crash() -> None:
    """In a separate process, so that a crash fails only this test."""
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore",
            "-X",
            "faulthandler",
            "-m",
            "tests.engine.fuzz_saved",
            str(CASES_TRIED),
            "14",
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(mf.__file__).parent.parent), str(ROOT)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert sum(found.values()) == CASES_TRIED
    assert found["refused"] > CASES_TRIED // 3
    assert found["worked"] > CASES_TRIED // 20  # if the damaged part does not matter
    assert found.get("failed", 0) < CASES_TRIED // 200, done.stderr[-3000:]


@pytest.mark.parametrize("name", EXAMPLES)
def test_saved_examples_load_and_continue(name: str) -> None:
    """`saved.json` was written by this version of the format; from the first release on, later ones must read it."""
    kept = json.loads(FILE.read_text(encoding="utf-8"))[name]
    data = base64.b64decode(kept["bytes"])
    for load in (mf.Detector.from_bytes, Loader(mf.Detector.from_bytes)):
        detector = load(data)
        again = detector.to_bytes()
        assert load(again).to_bytes() == again
        if name != "cap":  # its model has an argument more since: what it was before is now written
            assert again == data
        made = EXAMPLES[name]()
        for field in ("model", "fidelities", "hazard", "policy", "pruning", "alarm", "seed", "missing", "on_error"):
            assert repr(getattr(detector, field)) == repr(getattr(made, field))
        assert detector.shadow.keys() == made.shadow.keys()
        for step, expected in zip(feed(detector, AFTER), kept["later"], strict=True):
            for field, value in expected.items():
                # relative: the last bits may differ from one type of CPU to another
                same = pytest.approx(value, rel=1e-9, abs=1e-12) if not isinstance(value, str) else value
                assert step[field] == same, field


def test_one_serializer_writes_all_streams_of_a_configuration() -> None:
    """A row of a fleet and a detector of the same configuration, with any readings and seeds."""
    streams = [mf.Detector(mf.Gaussian(0, 9, 1), FIDELITIES, 0.05, prune=mf.TopK(12), seed=seed) for seed in range(3)]
    serializer = Serializer(streams[0])
    matrix = np.zeros((3, streams[0]._filter.state.size))
    for t in range(25):
        for i, detector in enumerate(streams[: 1 + t % 3]):
            detector.update(float(t % 7 + i), detector.choose())
    for row, detector in zip(matrix, streams, strict=True):
        row[:] = detector._filter.state
        data = serializer(serializer.numbers(detector.spent, detector.policy.state()), row)
        assert data == detector.to_bytes() == serializer.write(detector)
        assert data.startswith(serializer.prefix)
        assert mf.Detector.from_bytes(data).seed == detector.seed
        assert Loader(mf.Detector.from_bytes)(data).seed == detector.seed


@pytest.mark.filterwarnings("ignore:Budget.cap")
def test_a_serializer_follows_lists_in_the_policy_state() -> None:
    detector = mf.Detector(mf.Gaussian(0, 9, 1), FIDELITIES, policy=mf.Budget(3.0, cap=(12.0, 5)))
    serializer = Serializer(detector)
    load = Loader(mf.Detector.from_bytes)
    for t in range(8):
        assert serializer.write(detector) == detector.to_bytes()
        assert load(detector.to_bytes()).policy.state() == detector.policy.state()
        detector.update(float(t), detector.choose())


def test_numbers_that_are_not_finite_are_not_saved() -> None:
    detector = mf.Detector(mf.Gaussian(0, 9, 1), FIDELITIES, policy=mf.Budget(share=0.5))
    detector.spent = np.inf
    with pytest.raises(ValueError, match="has spent inf cannot be saved"):
        detector.to_bytes()
    detector.spent = 1e308
    assert mf.Detector.from_bytes(detector.to_bytes()).spent == 1e308
    detector.policy.debt = np.nan  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="a policy that has learned"):
        detector.to_bytes()
    detector.policy.debt = None  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="'debt' must be a number or a list of numbers"):
        detector.to_bytes()


def patched(data: bytes, field: int, value: float) -> bytes:
    """The same bytes with another number in the header, and their checksum."""
    _, arrays = unpack(data)
    live = arrays["live"].size
    where = len(data) - 4 - 8 * (live + layout.HEAD - field)
    body = bytearray(data[:-4])
    struct.pack_into("<d", body, where, value)
    return bytes(body) + struct.pack("<I", zlib.crc32(bytes(body)))


def saved(prune: object = DEFAULT) -> bytes:
    detector = mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.05, prune=prune)  # type: ignore[arg-type]
    for t in range(30):
        detector.update(float(t // 10))
    return detector.to_bytes()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((layout.COUNT, v) for v in (-1.0, 0.0, 29.0, 31.0, 1e9, np.nan, np.inf, 2.0**62)),
        *((layout.COLUMNS, v) for v in (-1.0, 3.0, 5.0, 1e9, np.nan, 2.0**62)),
        *((layout.MAP_INDEX, v) for v in (-1.0, 30.0, 1e9, 0.5, np.nan, 2.0**62)),
        *((layout.LIMIT, v) for v in (-1.0, 257.0, 1e18, 0.5, np.nan)),
        *((layout.TICK, v) for v in (-2.0, -1.0, 5.0, 2.0**53, np.nan, 29.5)),
        *((layout.FIRED, v) for v in (-2.0, 30.0, np.nan)),
        *((layout.RUN, v) for v in (-1.0, 31.0, np.nan)),
        *((layout.SEED, v) for v in (-1.0, 2.0**53, 0.5, np.nan)),
        *((layout.TOTAL, v) for v in (0.0, -1.0, 1e300, np.nan)),
        *((layout.EVIDENCE, v) for v in (np.inf, np.nan)),
        *((layout.DROPPED, v) for v in (-1.0, 0.5, 1.0, 5.0, np.nan)),
        (layout.SLOPES, np.nan),
    ],
)
def test_an_impossible_header_is_refused(field: int, value: float) -> None:
    data = patched(saved(), field, value)
    for load in (mf.Detector.from_bytes, Loader(mf.Detector.from_bytes)):
        with pytest.raises(ValueError, match="the saved state is invalid"):
            load(data)
    make = Loader(mf.Detector.from_bytes)
    make(saved())  # a known kind, whose belief alone is read
    with pytest.raises(ValueError, match="the saved state is invalid"):
        make(data)


def test_the_capacity_in_a_header_is_not_part_of_the_state() -> None:
    for value in (-1.0, 0.0, 1e18, np.nan):
        detector = mf.Detector.from_bytes(patched(saved(None), layout.CAP, value))
        assert detector.to_bytes() == saved(None)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("prune", [None, mf.TopK(6)], ids=["exact", "top"])
def test_any_reachable_state_can_be_loaded(case: Case, prune: object) -> None:
    """No state that a detector can reach is refused."""
    rng = np.random.default_rng(3)
    detector = mf.Detector(case.model(), hazard=0.1, prune=prune, missing="skip")  # type: ignore[arg-type]
    belief = detector._filter
    cap = int(belief.state[layout.CAP])
    for t in range(12):
        detector.update(None if t % 5 == 3 else case.draw(rng))
        check_saved(detector.model, belief.setup, belief.state[: layout.HEAD], hypotheses(belief.state), cap)


def test_states_after_extreme_readings_can_be_loaded() -> None:
    for model, xs in (
        (mf.Gaussian(0, 1e-300, 1), (1e300, -1e300, 0.0)),
        (mf.GaussianUnknown(), (1e300, -1e300, 0.0)),
        (mf.Gamma(1, 1.5, 1), (1e-300, 1e300)),
        (mf.Exponential(1.5, 1), (0.0, 1e300)),
        (mf.Poisson(1e-3, 1e-3), (0.0, 2.0**53)),
        (mf.Categorical([1e9, 1e-9]), (0.0, 1.0)),
    ):
        detector = mf.Detector(model, hazard=0.1)
        for x in xs:
            detector.update(x)
            again = mf.Detector.from_bytes(detector.to_bytes())
            assert again.to_bytes() == detector.to_bytes()


def test_an_impossible_state_of_a_policy_or_guard_is_refused() -> None:
    budget = mf.Budget(share=0.5).bind([mf.Fidelity("a", 0.5, 1.0), mf.Fidelity("b", 1.0, 2.0)])
    for bad in (
        {"gain": 1.0},
        {"log_price": np.nan},
        {"ticks": -1},
        {"ticks": 0.5},
        {"recent": 3},
        {"recent": ["x"]},
    ):
        with pytest.raises(ValueError, match="Budget"):
            budget.restore(bad)
    guard = mf.calibrate.ShadowGuard(0.5, 10, "gaussian", noise_var=1.0)
    for bad in (
        {"pairs": -1},
        {"pairs": 1.5},
        {"evidence": [1.0]},
        {"evidence": [-1.0] * 6},
        {"evidence": [np.nan] * 6},
    ):
        spec = guard.spec()
        spec["state"] |= bad
        with pytest.raises((TypeError, ValueError), match=r"evidence|pairs"):
            mf.calibrate.ShadowGuard.from_spec(spec)
    for bad in ({"eps": -1.0}, {"most": -1}, {"most": 2.5}, {"slack": 300}, {"slack": -1}):
        with pytest.raises((TypeError, ValueError), match="Pruning"):
            Pruning(**{"eps": 0.0, "most": 256, "slack": 32, "resample": True} | bad)


@pytest.mark.filterwarnings("ignore:Budget.cap")
def test_detectors_of_one_configuration_share_constants() -> None:
    def make(policy: mf.Policy, hazard: float = 0.02) -> mf.Detector:
        detector = mf.Detector(mf.Gaussian(0, 9, 1), FIDELITIES, hazard, policy=policy, prune=mf.Resample(20))
        for x in np.random.default_rng(4).normal(size=30).tolist():
            detector.update(x, detector.choose())
        return detector

    maker = Loader(mf.Detector.from_bytes, most=3)
    capped = make(mf.Budget(3.0, cap=(12.0, 5)))
    for detector in (make(mf.Budget(share=0.3)), capped, make(mf.Net(0.01)), make(mf.Net(0.01), hazard=0.1)):
        saved = detector.to_bytes()
        one, other = maker(saved), maker(saved)
        assert one.model is other.model
        assert one._by_name is other._by_name
        assert one.to_bytes() == other.to_bytes() == saved
        steps = [one.update(x, one.choose()) for x in (0.4, 3.0, 3.1)]
        assert other.to_bytes() == saved
        assert steps == [detector.update(x, detector.choose()) for x in (0.4, 3.0, 3.1)]
        assert steps == [other.update(x, other.choose()) for x in (0.4, 3.0, 3.1)]
        assert one.to_bytes() == other.to_bytes() == detector.to_bytes()
    guarded = mf.Detector(mf.Gaussian(0, 9, 1), FIDELITIES, shadow=5).to_bytes()
    one, other = maker(guarded), maker(guarded)
    assert one.shadow["low"] is not other.shadow["low"]
