"""The C code and the Python kernels, tick by tick: a formula that changes on one side only fails here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mfbocd as mf
from mfbocd._kernels import layout
from mfbocd.belief.gains import expected_gains
from mfbocd.export.check import GAINS

from ..cli.program import mfbocd
from .build import Firmware, Ticks, run_python
from .configurations import FAMILIES, POLICIES, TOLERANCE, make_detector, make_model, make_table

ALARM = 3


def assert_same(c: Ticks, python: Ticks, tolerance: float = 1e-12) -> None:
    np.testing.assert_array_equal(c.choice, python.choice)
    np.testing.assert_array_equal(c.out[:, ALARM], python.out[:, ALARM])
    np.testing.assert_allclose(c.out, python.out, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("family", FAMILIES)
def test_double(family: str, policy: str, tmp_path: Path) -> None:
    rng = np.random.default_rng([FAMILIES.index(family), POLICIES.index(policy)])
    detector = make_detector(rng, family, policy)
    table = make_table(rng, detector, 400)
    firmware = Firmware(detector, tmp_path)
    python = run_python(detector, table)
    near = TOLERANCE[family]
    assert_same(firmware.run(table), python, near)
    assert python.out[:, 2].max() > 0.05  # the readings have changes
    assert firmware.c.spent() == pytest.approx(detector.spent, rel=1e-12)
    assert firmware.c.log_evidence() == pytest.approx(detector.log_evidence, rel=near)
    weight = detector.run_length.weight[::-1]
    assert [firmware.c.p_of_row(i) for i in range(weight.size)] == pytest.approx(weight.tolist(), abs=near)
    assert firmware.c.p_of_row(weight.size) == -1.0


@pytest.mark.parametrize(
    ("family", "gain"),
    [
        (family, gain)
        for family in FAMILIES
        for gain in GAINS[type(make_model(np.random.default_rng(0), family).core)]
    ],
)
def test_gains(family: str, gain: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(len(family))
    detector = make_detector(rng, family, "budget", gain)
    firmware = Firmware(detector, tmp_path)
    zeta, near = np.array([f.zeta for f in detector.fidelities]), TOLERANCE[family]
    for part in np.split(make_table(rng, detector, 300), 30):
        expected = expected_gains(detector._filter, zeta, gain)
        assert firmware.gains() == pytest.approx(expected, rel=10 * near, abs=0.1 * near)
        assert_same(firmware.run(part), run_python(detector, part), near)


@pytest.mark.parametrize("family", FAMILIES[:-1])  # a logit leaves small changes, which drop little
def test_the_gain_of_a_change_after_pruning(family: str, tmp_path: Path) -> None:
    """The hypotheses that pruning dropped are kept, saved and loaded."""
    rng = np.random.default_rng(2)
    drawn = make_detector(rng, family, "budget", "change")
    detector = mf.Detector(
        drawn.model, drawn.fidelities, 0.02, policy=drawn.policy, prune=mf.TopK(12), alarm=None, missing="skip"
    )
    firmware = Firmware(detector, tmp_path)
    zeta, near = np.array([f.zeta for f in detector.fidelities]), TOLERANCE[family]
    kept = []
    halves = np.split(np.sort(make_table(rng, detector, 400), axis=0), 2)  # small readings, then large ones
    for part in np.split(np.concatenate([rng.permuted(half, axis=0) for half in halves]), 20):
        expected = expected_gains(detector._filter, zeta, "change")
        assert firmware.gains() == pytest.approx(expected, rel=10 * near, abs=0.1 * near)
        assert_same(firmware.run(part), run_python(detector, part), near)
        kept.append(detector._filter.state[layout.DROPPED])
        assert firmware.load(detector.to_bytes()) == 0
        detector = mf.Detector.from_bytes(firmware.save())
        assert detector._filter.state[layout.DROPPED] == kept[-1]
    assert max(kept) > 1


def test_fidelity_of_the_caller(tmp_path: Path) -> None:
    """The caller may read another fidelity than the chosen one, or none: then only time passes."""
    rng = np.random.default_rng(5)
    detector = make_detector(rng, "gaussian", "cap", "variance")
    table = make_table(rng, detector, 300)
    given = rng.integers(-1, len(detector.fidelities), 300).tolist()
    firmware = Firmware(detector, tmp_path)
    assert_same(firmware.run(table, given), run_python(detector, table, given))


def test_one_fidelity(tmp_path: Path) -> None:
    detector = mf.Detector(mf.Poisson(2, 1), hazard=0.01, prune=mf.TopK(1), alarm=None, missing="skip")
    table = np.random.default_rng(0).poisson(4.0, (200, 1)).astype(float)
    firmware = Firmware(detector, tmp_path)
    c = firmware.run(table)
    assert_same(c, run_python(detector, table))
    assert not c.out[:, ALARM].any()


def test_impossible_readings_are_missing(tmp_path: Path) -> None:
    """Python raises; firmware cannot. The tick passes, and the cost is paid."""
    for k, (model, bad) in enumerate(
        [
            (mf.Gaussian(0, 9, 1), np.inf),
            (mf.GaussianUnknown(), -np.inf),
            (mf.Bernoulli(), 0.5),
            (mf.Poisson(), -1.0),
            (mf.Poisson(), 2.5),
            (mf.Transformed(mf.Gaussian(), "log", offset=-0.5), 0.5),
            (mf.Rounded(mf.Transformed(mf.RobustTrend(), "sqrt"), step=0.5), 0.25),
            (mf.Transformed(mf.Gaussian(), "logit", offset=-0.25), 1.25),
        ]
    ):
        detector = mf.Detector(model, hazard=0.01, prune=mf.TopK(8), missing="skip")
        firmware = Firmware(detector, tmp_path / str(k))
        rows = np.array([[1.0], [bad], [1.0]])
        c = firmware.run(rows)
        rows[1] = np.nan
        assert_same(c, run_python(detector, rows))
        assert firmware.c.spent() == 3.0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(14))
def test_long_streams(seed: int, tmp_path: Path) -> None:
    """10^5 ticks in all. In float, each choice is compared at the same history."""
    rng = np.random.default_rng([100, seed])
    family = FAMILIES[seed % 7]
    detector = make_detector(rng, family, POLICIES[seed % 3], None if seed < 7 else "variance")
    table = make_table(rng, detector, 1_000 if family == "poisson" else 11_000)
    firmware, single = Firmware(detector, tmp_path / "d"), Firmware(detector, tmp_path / "f", real="float")
    python = run_python(detector, table)
    assert_same(firmware.run(table), python, TOLERANCE[family])
    followed = single.run(table, python.choice.tolist())
    assert np.mean(followed.choice == python.choice) >= 0.999
    assert np.mean(followed.out[:, ALARM] == python.out[:, ALARM]) >= 0.999
    np.testing.assert_allclose(followed.out[:, 2], python.out[:, 2], atol=1e-3)


@pytest.mark.slow
def test_delays_in_float(tmp_path: Path) -> None:
    """10^4 streams with one change: single precision detects it as early as double precision."""
    sensors = [mf.Fidelity("imu", 0.2, 1), mf.Fidelity("gps", 1.0, 10)]
    policy = mf.Budget(3.0, gain="variance")
    detector = mf.Detector(mf.Gaussian(0, 9, 1), sensors, 0.01, policy=policy, prune=mf.Resample(16), alarm=0.8)
    builds = [Firmware(detector, tmp_path / real, real=real, flags=["-O2"]) for real in ("float", "double")]
    rng = np.random.default_rng(9)
    delays: list[list[float]] = [[], []]
    for _ in range(10_000):
        level = np.repeat(3.0 * rng.normal(size=2), [20, 40])
        table = level[:, None] + rng.normal(size=(60, 2)) / np.sqrt([0.2, 1.0])
        for found, build in zip(delays, builds, strict=True):
            build.c.start()
            fired = np.flatnonzero(build.run(table).out[20:, ALARM])
            found.append(float(fired[0]) if fired.size else 40.0)
    difference = np.subtract(*delays)
    assert abs(difference.mean()) < 3.0 * difference.std() / 100.0 + 1e-3
    assert np.mean(difference != 0.0) < 0.01


def test_corrected_readings(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    sensors = [mf.Fidelity("low", 0.2, 1, offset=2.0, scale=1.8), mf.Fidelity("high", 1, 20)]
    policy = mf.Budget(share=0.3, gain="variance")
    detector = mf.Detector(mf.Gaussian(0, 9, 1), sensors, 0.02, policy=policy, prune=mf.TopK(16), missing="skip")
    table = make_table(rng, detector, 200)
    firmware = Firmware(detector, tmp_path)
    assert_same(firmware.run(table), run_python(detector, table))
    assert mf.Detector.from_bytes(firmware.save()).fidelities == detector.fidelities
    with pytest.raises(ValueError, match="scale of 'low' = 1e-20 cannot be exported in single precision"):
        mf.export.c(detector.with_fidelities([mf.Fidelity("low", 1, 1, scale=1e-20)], mf.Always("low")), tmp_path)


def test_seasons(tmp_path: Path) -> None:
    """Ticks at which a piece begins or a season ends belong to the same side as in Python, also after many."""
    pieces = [(0.0, 3.0, 0.1), (3.0, -1.0, 0.0), (6.0, 0.5, -0.2)]
    curves: list[dict[str, Any]] = [
        {"period": 7.0, "pieces": pieces},
        {"period": 7.3, "pieces": pieces[1:], "start": 10**9},
        {"period": 9.0, "cosine": [1.0, 0.5, 2.0], "sine": [0.3, -0.4, 0.1], "pieces": pieces, "start": 4},
        {"period": 0.7, "cosine": [2.0], "sine": [1.0]},
    ]
    x = np.random.default_rng(4).normal(size=(3000, 1))
    for i, curve in enumerate(curves):
        detector = mf.Detector(mf.FixedSeason(mf.Gaussian(0, 9, 1), **curve), hazard=0.01, prune=mf.TopK(4))
        firmware = Firmware(detector, tmp_path / str(i))
        assert_same(firmware.run(x), run_python(detector, x), 1e-11)


def test_structures_of_the_automatic_detector(tmp_path: Path) -> None:
    """A season and a logarithm: the configuration that `init` draws up raises the same alarms in C."""
    rng = np.random.default_rng(1)
    tick = np.arange(700)
    level = np.repeat([4.0, 4.6, 3.8], [300, 200, 200])
    x = np.round(np.exp(level + 0.4 * np.sin(2 * np.pi * tick / 24) + 0.1 * rng.normal(size=700)), 1)
    (tmp_path / "x.csv").write_text("x\n" + "\n".join(map(str, x.tolist())))
    for command in (
        ("init", "--from", "x.csv", "--out", "mf.toml"),
        ("export", "c", "-c", "mf.toml", "--out", "float"),
        ("export", "c", "-c", "mf.toml", "--out", "double", "--real", "double"),
        ("detect", "x.csv", "-c", "mf.toml", "--out", "steps.jsonl"),
    ):
        done = mfbocd(*command, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    text = (tmp_path / "mf.toml").read_text()
    assert [f'kind = "{kind}"' in text for kind in ("transformed", "fixed_season", "robust_trend")] == [True] * 3
    steps = [json.loads(line) for line in (tmp_path / "steps.jsonl").read_text().splitlines()]
    expected = [(s["tick"], s["changed_at"]) for s in steps if s.get("alarm")]
    assert len(expected) == 2
    for real in ("float", "double"):
        out = Firmware.exported(tmp_path / real, 1).run(x[:, None]).out
        alarms = np.flatnonzero(out[:, ALARM])
        assert list(zip(alarms.tolist(), out[alarms, 4].tolist(), strict=True)) == expected
