"""Systematic errors of a cheap sensor, from readings of it and of the best one: estimated, written and used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mfbocd as mf
from mfbocd.calibrate import CalibrationError, estimate_correction
from mfbocd.calibrate.recalibrate import recalibrate
from mfbocd.io.config import Config

from ..cli.program import mfbocd

BY_HAND = """\
# written by hand
hazard = 0.01   # one in 100

[model]
kind = "gaussian"
mean = 0.0  # unknown
var = 9.0
noise_var = 3.0

# the cheap one
[[fidelity]]
name = "imu"
zeta = 0.1  # a guess
cost = 1.0

[[fidelity]]
name = "gps"
zeta = 1.0
cost = 40.0   # cents

[policy]
# agreed with the customer
kind = "budget"
per_tick = 8.0
"""


def pair(
    seed: int, offset: float = 0.0, scale: float = 1.0, *, ticks: int = 600, noise: float = 2.0, spread: float = 4.0
) -> tuple[Any, Any]:
    """Readings of a good sensor, and of a cheap one that shows offset + scale * signal."""
    rng = np.random.default_rng(seed)
    signal = np.repeat(rng.normal(20, spread, ticks // 50 + 1), 50)[:ticks]
    return signal + rng.normal(size=ticks), offset + scale * (signal + noise * rng.normal(size=ticks))


@pytest.mark.parametrize("seed", range(5))
def test_an_offset_is_found(seed: int) -> None:
    found = estimate_correction(*pair(seed, offset=2.0))
    assert found.scale == 1.0
    assert abs(found.offset - 2.0) < 4.0 * found.offset_error < 1.0
    assert found.detected


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("scale", [1.8, 0.4])
def test_a_scale_is_found_although_the_best_has_errors_too(seed: int, scale: float) -> None:
    high, low = pair(seed, 32.0, scale, noise=1.0)
    found = estimate_correction(high, low)
    assert abs(found.scale - scale) < 4.0 * found.scale_error < 0.2 * scale
    level = float(np.mean(high))
    assert (found.offset + found.scale * level) == pytest.approx(32.0 + scale * level, abs=0.5)
    regression = np.cov(high, low)[0, 1] / np.var(high, ddof=1)
    assert regression < scale


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    estimates = [estimate_correction(*pair(seed)) for seed in range(200)]
    assert not any(estimate.detected for estimate in estimates)
    assert str(estimates[0]) == "no systematic error was detected in 600 pairs"


def test_dependent_errors_are_not_an_offset() -> None:
    """A sensor that drifts about the truth reads too high for a while, again and again."""
    rng = np.random.default_rng(1)
    detected = 0
    for seed in range(40):
        high, low = pair(seed, noise=0.0)
        drift = np.zeros(600)
        for t in range(1, 600):
            drift[t] = 0.95 * drift[t - 1] + rng.normal()
        detected += estimate_correction(high, low + drift).detected
    assert detected <= 1


def test_outliers_and_a_stuck_sensor_do_not_make_a_scale() -> None:
    high, low = pair(3, offset=2.0, noise=0.5)
    low[::50] += 400.0
    found = estimate_correction(high, low)
    assert (found.scale, round(found.offset)) == (1.0, 2)
    high, low = pair(3, 32.0, 1.8, noise=0.5)
    low[::50] += 400.0
    assert estimate_correction(high, low).scale == pytest.approx(1.8, abs=0.1)  # nor do they hide one
    stuck = estimate_correction(high, 7.0 + 0.01 * np.random.default_rng(0).normal(size=600))
    assert stuck.scale == 1.0
    flat = estimate_correction(*pair(4, offset=2.0, spread=0.0))
    assert (flat.scale, flat.scale_error) == (1.0, np.inf)
    assert flat.offset == pytest.approx(2.0, abs=0.5)
    with pytest.raises(CalibrationError, match="29 paired readings are too few for a correction: at least 30"):
        estimate_correction(high[:29], low[:29])


def table(path: Path, columns: dict[str, Any]) -> None:
    rows = zip(*columns.values(), strict=True)
    path.write_text(",".join(columns) + "\n" + "".join(",".join(f"{x:.5f}" for x in row) + "\n" for row in rows))


@pytest.mark.parametrize(("offset", "scale"), [(2.0, 1.0), (32.0, 1.8)])
def test_init_corrects_and_says_so(offset: float, scale: float, tmp_path: Path) -> None:
    high, low = pair(1, offset, scale, ticks=2000, noise=2.0)
    table(tmp_path / "walk.csv", {"imu": low, "gps": high})
    done = mfbocd("init", "--from", "walk.csv", "--best", "gps", "--out", "mf.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    imu = Config.load(tmp_path / "mf.toml").fidelities[0]
    assert (imu.name, imu.scale == 1.0) == ("imu", scale == 1.0)
    assert f"imu: it reads {imu.offset:g} more" in done.stderr or f"imu: it reads {imu.scale:g} times" in done.stderr
    assert "compared with gps: (x - offset) / scale is used." in done.stderr
    assert imu.zeta == pytest.approx(0.25, abs=0.06)  # of corrected readings
    level = float(np.mean(high))
    assert (offset + scale * level - imu.offset) / imu.scale == pytest.approx(level, abs=0.3)
    found = mfbocd("detect", "walk.csv", "-c", "mf.toml", cwd=tmp_path)
    steps = [json.loads(line) for line in found.stdout.splitlines()]
    error = [step["x"] - high[step["tick"]] for step in steps if step["fidelity"] == "imu"]
    assert abs(np.mean(error)) < 5.0 * np.std(error) / np.sqrt(len(error))


def test_calibrate_corrects_keeps_comments_and_the_budget(tmp_path: Path) -> None:
    high, low = pair(1, offset=2.0)
    table(tmp_path / "walk.csv", {"imu": low, "gps": high})
    (tmp_path / "mf.toml").write_text(BY_HAND)
    done = mfbocd("calibrate", "walk.csv", "-c", "mf.toml", "--budget", "0.3", "--out", "new.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "new.toml").read_text()
    config = Config.load(tmp_path / "new.toml")
    assert config.policy == {"kind": "budget", "per_tick": 12.7, "gain": "joint"}
    assert config.fidelities[0].offset == pytest.approx(2.0, abs=0.5)
    assert config.fidelities[0].zeta == pytest.approx(0.25, abs=0.06)
    assert "offset of imu   0  " in done.stderr
    assert f"it reads {config.fidelities[0].offset:g} more" in done.stderr
    added = ("# Calibrated", "#   ", "offset")
    keys = [line.partition("=")[0] for line in text.splitlines() if line.strip() and not line.startswith(added)]
    assert keys == [line.partition("=")[0] for line in BY_HAND.splitlines() if line.strip()]
    for comment in (
        "# written by hand",
        "   # one in 100",
        "  # unknown",
        "  # a guess",
        "# agreed with the customer",
    ):
        assert comment in text
    again = mfbocd("calibrate", "walk.csv", "-c", "new.toml", "--budget", "0.2", cwd=tmp_path)
    assert "per_tick = 8.8\n" in again.stdout
    assert again.stdout.count("# Calibrated") == text.count("# Calibrated")  # replaced, not repeated
    # without the error the correction is taken back
    table(tmp_path / "walk.csv", {"imu": low - 2.0, "gps": high})
    back = mfbocd("calibrate", "walk.csv", "-c", "new.toml", "--out", "back.toml", cwd=tmp_path)
    assert back.returncode == 0, back.stderr
    assert Config.load(tmp_path / "back.toml").fidelities[0].offset == 0.0


def test_a_file_that_cannot_be_edited_loses_its_comments_with_a_message(tmp_path: Path) -> None:
    high, low = pair(1)
    table(tmp_path / "walk.csv", {"imu": low, "gps": high})
    inline = BY_HAND.replace('[policy]\n# agreed with the customer\nkind = "budget"\nper_tick = 8.0\n', "")
    inline = 'policy = { kind = "margin", delta = 0.01 } # odd\n' + inline
    (tmp_path / "mf.toml").write_text(inline)
    done = mfbocd("calibrate", "walk.csv", "-c", "mf.toml", "--budget", "0.3", "--out", "new.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "The comments of mf.toml are left out: policy.delta cannot be removed" in done.stderr
    new = Config.load(tmp_path / "new.toml")
    assert new.policy is not None
    assert new.policy["kind"] == "net"
    detector = new.detector()
    mf.run(detector, np.stack([low, high], axis=1))
    assert detector.spent / 600 == pytest.approx(12.7, rel=0.1)


@pytest.mark.parametrize(
    ("policy", "after"),
    [
        (None, {"kind": "budget", "share": 0.3, "gain": "joint"}),
        ({"kind": "budget", "share": 0.1, "gain": "change"}, {"kind": "budget", "share": 0.3, "gain": "change"}),
        (
            {"kind": "budget", "per_tick": 3, "cap": [900, 9]},
            {"kind": "budget", "per_tick": 12.7, "cap": [900.0, 9], "gain": "joint"},
        ),
    ],
)
def test_a_budget_stays_a_budget(policy: dict[str, Any] | None, after: dict[str, Any]) -> None:
    high, low = pair(1)
    given = {
        "model": {"kind": "gaussian", "mean": 20, "var": 16},
        "fidelity": [{"name": "imu", "zeta": 0.2, "cost": 1}, {"name": "gps", "zeta": 1, "cost": 40}],
    }
    config = Config.parse(given if policy is None else given | {"policy": policy})
    new = recalibrate(config, {"imu": low, "gps": high}, share=0.3)
    assert new.config.policy == after
    assert "the target, 0.3 of the way from 1 to 40, is 12.7" in new.changes[-1].why


def test_a_correction_of_the_best_and_of_other_families_is_used() -> None:
    high, low = pair(1, offset=2.0)
    rows = [
        {"name": "imu", "zeta": 0.2, "cost": 1},
        {"name": "gps", "zeta": 1, "cost": 40, "offset": 100, "scale": 10},
    ]
    config = Config.parse({"model": {"kind": "student_t_unknown"}, "fidelity": rows})
    new = recalibrate(config, {"imu": low, "gps": 100 + 10 * high})
    assert [change.key for change in new.changes] == ["fidelity[0].offset"]
    assert new.config.fidelities[0].offset == pytest.approx(2.0, abs=0.5)
    few = recalibrate(config, {"imu": np.where(np.arange(600) < 10, low, np.nan), "gps": 100 + 10 * high})
    assert "offset and scale of imu: 10 paired readings, at least 30 are needed" in few.kept
    counts = Config.parse(
        {"model": {"kind": "poisson"}, "fidelity": [*rows[:1], rows[1] | {"offset": 0, "scale": 1}]}
    )
    assert recalibrate(counts, {"imu": low, "gps": high}).changes == []


def test_a_corrected_sensor_detects_what_an_uncorrected_one_invents() -> None:
    """Switching between sensors that differ by 4 looks like changes; with the offset it does not."""
    high, low = pair(2, offset=4.0, ticks=400, noise=1.0, spread=0.0)
    readings = np.stack([low, high], axis=1)
    model, gps = mf.Gaussian(20, 16, 1), mf.Fidelity("gps", 1, 10)
    found = []
    for offset in (0.0, 4.0):
        ways = [mf.Fidelity("imu", 0.5, 1, offset=offset), gps]
        found.append(len(mf.run(mf.Detector(model, ways, policy=mf.Random(), seed=1), readings).changes))
    assert found[0] > 5
    assert found[1] == 0
