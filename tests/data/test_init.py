"""Configurations guessed from data, which must run; calibration as a program."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import mfbocd as mf
from mfbocd.calibrate import CalibrationError
from mfbocd.calibrate.draft import GuessError, classify_columns, guess_config, guess_with_reasons, template
from mfbocd.calibrate.noise import noise_of
from mfbocd.calibrate.recalibrate import recalibrate
from mfbocd.io.config import Config
from mfbocd.io.tables import Chunk, open_table

from ..cli.program import mfbocd

pytestmark = pytest.mark.slow

FIDELITIES = ["--fidelity", "imu", "--fidelity", "gps"]

Columns = dict[str, list[str]]


def walk(seed: int = 1, ticks: int = 1000, regime: int = 100) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    level = np.repeat(rng.normal(20, 6, ticks // regime), regime)
    return {"imu": level + rng.normal(0, 2, ticks), "gps": level + rng.normal(0, 1, ticks)}


def csv(path: Path, columns: dict[str, object]) -> Path:
    rows = zip(*columns.values(), strict=True)  # type: ignore[call-overload]
    path.write_text(",".join(columns) + "\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))
    return path


def seen(columns: Columns) -> Chunk:
    return Chunk("line", range(2, 2 + len(next(iter(columns.values())))), columns)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_noise_is_found_through_changes_of_level(scale: float) -> None:
    rng = np.random.default_rng(3)
    values = np.repeat(rng.normal(0, 50, 20), 100) + rng.normal(0, 2, 2000)
    noise_var, _ = noise_of(scale * values + 7 * scale)
    assert noise_var == pytest.approx(4 * scale**2, rel=0.12)
    assert noise_var == pytest.approx(scale**2 * noise_of(values)[0], rel=1e-9)


def test_noise_of_nearly_constant_readings() -> None:
    noise_var, why = noise_of([5, 5, 5, 7, 5, 5, 5, 5, 5])
    assert noise_var == pytest.approx((2 * 2 + 2 * 2) / 8 / 2)
    assert "most readings equal the previous one" in why
    noise_var, why = noise_of([30.0] * 5)
    assert noise_var == pytest.approx(0.09)
    assert "placeholder" in why


def test_the_model_follows_the_data() -> None:
    assert guess_with_reasons([0, 1, np.nan, 1]).spec == {"kind": "bernoulli", "alpha": 1.0, "beta": 1.0}
    x = walk()["gps"]
    guess = guess_with_reasons(x)
    assert guess.spec["mean"] == np.median(x)
    assert guess.spec["var"] == pytest.approx(np.var(x))
    assert set(guess.reasons) == {"kind", "mean", "var", "noise_var"}
    calm = guess_with_reasons(x[:100])  # one regime: others may be further off than its variation
    assert calm.spec["var"] == pytest.approx(9 * calm.spec["noise_var"])
    moved = guess_with_reasons(1000 * x + 5).spec
    assert moved["noise_var"] == pytest.approx(1e6 * guess.spec["noise_var"], rel=1e-9)
    assert moved["var"] == pytest.approx(1e6 * guess.spec["var"], rel=1e-9)
    assert moved["mean"] == pytest.approx(1000 * guess.spec["mean"] + 5, rel=1e-12)


def test_the_guess_is_a_model() -> None:
    assert isinstance(mf.calibrate.guess_model([0, 1, np.nan, 1]), mf.Bernoulli)
    x = walk()["gps"]
    guess = guess_with_reasons(x)
    model = mf.calibrate.guess_model(x)
    assert model.spec() == guess.model.spec()
    assert isinstance(model, mf.Gaussian)
    assert (model.mean, model.var, model.noise_var) == tuple(guess.spec[n] for n in ("mean", "var", "noise_var"))
    mf.Detector(model).update(float(x[0]))
    with pytest.raises(ValueError, match="at least one reading"):
        mf.calibrate.guess_model([])


def test_which_columns_are_readings() -> None:
    count = [str(i) for i in range(30)]
    noisy = [f"{v:.3f}" for v in np.random.default_rng(0).normal(size=30)]
    found = classify_columns([seen({"n": count, "a": noisy, "who": ["ann", "bob"] * 15})], ["n", "a", "who"])
    assert (found.time, set(found.readings)) == ("n", {"a"})
    assert found.reasons == {"n": "it increases by equal steps", "who": "its cells are not numbers"}
    cells = {"Time": count, "tick": count, "a": noisy, "e": [""] * 30}
    found = classify_columns([seen(cells)], list(cells))
    assert (found.time, set(found.readings)) == ("Time", {"a"})
    assert found.reasons["tick"] == "by its name it is not a reading"
    assert found.reasons["e"] == "it is empty"
    found = classify_columns([seen({"t": noisy, "a": noisy})], ["t", "a"])  # a decreasing column is not a time
    assert (found.time, set(found.readings)) == (None, {"t", "a"})
    found = classify_columns([seen({"when": [f"day {i}" for i in range(30)], "a": noisy})], ["when", "a"])
    assert found.time == "when"
    found = classify_columns([seen({"a": [*noisy[:-1], "oops"], "b": count})], ["a", "b"], time="b")
    assert (found.time, set(found.readings)) == ("b", {"a"})
    assert np.isnan(found.readings["a"][-1])  # one bad cell: named when it is read, not now


def test_a_config_from_two_columns() -> None:
    columns = {name: list(map(str, values)) for name, values in walk().items()}
    config, notes = guess_config(classify_columns([seen(columns)], list(columns)))
    assert [f.name for f in config.fidelities] == ["imu", "gps"]
    assert config.fidelities[0].zeta == pytest.approx(0.25, abs=0.06)
    assert [f.cost for f in config.fidelities] == [1, 10]
    assert "PLACEHOLDER" in notes["fidelity[0].cost"]
    assert "95 % interval" in notes["fidelity[0].zeta"]
    assert notes["fidelity[1]"].startswith("The best: its noise variance, ")
    assert config.model["noise_var"] == pytest.approx(1.0, rel=0.2)
    forced, notes = guess_config(classify_columns([seen(columns)], list(columns)), best="imu")
    assert [f.name for f in forced.fidelities] == ["gps", "imu"]
    assert notes["fidelity[1]"] == "The best: as specified."
    with pytest.raises(GuessError, match="best must be one of imu, gps, not 'lidar'"):
        guess_config(classify_columns([seen(columns)], list(columns)), best="lidar")


def test_three_columns_an_offset_and_too_few_rows() -> None:
    data = walk()
    data = {"far": data["imu"] * 1.0 + 40 + np.random.default_rng(5).normal(0, 3, 1000)} | data
    columns = {name: list(map(str, values)) for name, values in data.items()}
    config, notes = guess_config(classify_columns([seen(columns)], list(columns)))
    assert [f.name for f in config.fidelities] == ["far", "imu", "gps"]
    assert [f.cost for f in config.fidelities] == [1, 3.2, 10]
    assert config.fidelities[0].offset == pytest.approx(40, abs=0.5)
    assert notes["fidelity[0].offset"].startswith(f"It reads {config.fidelities[0].offset:g} more (standard error 0.")
    assert (config.fidelities[1].offset, config.fidelities[2].offset) == (0.0, 0.0)
    few = {name: cells[:12] for name, cells in columns.items() if name != "imu"}
    config, notes = guess_config(classify_columns([seen(few)], list(few)))
    assert "CAREFUL: it reads 38.9 more" in notes["fidelity[0].zeta"]  # too few pairs for a correction
    assert config.fidelities[0].offset == 0.0
    few = {name: cells[:12] for name, cells in columns.items() if name != "far"}
    config, notes = guess_config(classify_columns([seen(few)], list(few)))
    assert "CAREFUL" not in notes["fidelity[0].zeta"]
    assert "a rough estimate, because 12 paired readings are too few" in notes["fidelity[0].zeta"]


def apart(overlap: int, *, seed: int = 3, ticks: int = 4000) -> Columns:
    """A cheap sensor with four times the noise; each row has one reading, except `overlap` rows that have both."""
    rng = np.random.default_rng(seed)
    level = np.repeat(rng.normal(20, 3, ticks // 200), 200)
    high, low = level + 0.15 * rng.normal(size=ticks), level + 0.6 * rng.normal(size=ticks)
    which = rng.random(ticks) < 0.5
    both = np.zeros(ticks, dtype=bool)
    both[rng.choice(np.flatnonzero(~which), overlap, replace=False)] = True
    return {
        "rough": ["" if gone else str(x) for x, gone in zip(low, ~which & ~both, strict=True)],
        "fine": ["" if gone else str(x) for x, gone in zip(high, which, strict=True)],
    }


@pytest.mark.parametrize("overlap", [0, 1, 2, 3, 10, 29])
def test_columns_that_rarely_overlap_are_estimated_separately(overlap: int) -> None:
    cells = apart(overlap)
    config, notes = guess_config(classify_columns([seen(cells)], list(cells)))
    assert [f.name for f in config.fidelities] == ["rough", "fine"]
    assert config.fidelities[0].zeta == pytest.approx(0.0625, rel=0.15)
    why = notes["fidelity[0].zeta"]
    assert f"a rough estimate, because {overlap} paired readings are too few for zeta" in why
    assert ("an offset from the best cannot be detected either" in why) == (overlap < 3)


def test_enough_overlap_is_used_as_pairs() -> None:
    cells = apart(200)
    config, notes = guess_config(classify_columns([seen(cells)], list(cells)))
    assert "differences of 200 readings" in notes["fidelity[0].zeta"]
    assert config.fidelities[0].zeta == pytest.approx(0.0625, rel=0.25)


@pytest.mark.parametrize("constant", [1, 3, 400])
def test_a_column_whose_noise_cannot_be_estimated_gets_a_placeholder(constant: int) -> None:
    fine = [str(x) for x in np.random.default_rng(1).normal(7.0, 0.1, 400)]
    cells = {"rough": ["7.0"] * constant + [""] * (400 - constant), "fine": fine}
    config, notes = guess_config(classify_columns([seen(cells)], list(cells)))
    assert [f.name for f in config.fidelities] == ["rough", "fine"]  # and its placeholder does not make it the best
    assert config.fidelities[0].zeta == 0.5
    assert notes["fidelity[0].zeta"].startswith("A PLACEHOLDER, set your own: its readings never vary")
    forced, notes = guess_config(classify_columns([seen(cells)], list(cells)), best="rough")
    assert forced.fidelities[0].zeta == 0.5
    assert notes["fidelity[0].zeta"].startswith("A PLACEHOLDER, set your own: the best's readings never vary")


def test_labels_that_never_overlap_get_a_placeholder_and_calibrate_refuses() -> None:
    rng = np.random.default_rng(2)
    bit = (rng.random(600) < 0.4).astype(int)
    cells = {
        "small": [str(b) if i % 2 else "" for i, b in enumerate(bit)],
        "large": ["" if i % 2 else str(b) for i, b in enumerate(bit)],
    }
    config, notes = guess_config(classify_columns([seen(cells)], list(cells)), best="large")
    assert config.fidelities[0].zeta == 0.5
    assert notes["fidelity[0].zeta"].startswith("A PLACEHOLDER, set your own: 0 paired readings are too few")
    readings = classify_columns([seen(cells)], list(cells)).readings
    with pytest.raises(CalibrationError, match="zeta of 'small': 0 paired readings are too few for zeta"):
        recalibrate(config, readings)


@pytest.mark.parametrize("overlap", [0, 10])
def test_calibrate_refuses_too_few_pairs(overlap: int) -> None:
    cells = apart(overlap)
    found = classify_columns([seen(cells)], list(cells))
    config, _ = guess_config(found)
    with pytest.raises(CalibrationError, match=f"zeta of 'rough': {overlap} paired readings are too few for zeta"):
        recalibrate(config, found.readings)


def test_zeros_and_ones() -> None:
    rng = np.random.default_rng(2)
    high = (rng.random(600) < np.repeat([0.1, 0.8, 0.3], 200)).astype(int)
    low = np.where(rng.random(600) < 0.1, 1 - high, high)
    columns = {
        "small": list(map(str, low)),
        "large": list(map(str, high)),
        "heat": list(map(str, rng.normal(size=600))),
    }
    config, notes = guess_config(classify_columns([seen(columns)], list(columns)))
    assert config.model["kind"] == "bernoulli"
    assert [f.name for f in config.fidelities] == ["small", "large"]
    assert config.fidelities[0].zeta == pytest.approx((2 * (low == high).mean() - 1) ** 2, rel=1e-3)
    assert "Left out: column 'heat', it is not all zeros and ones" in notes[""]


def test_the_example_runs_unchanged(tmp_path: Path) -> None:
    config, notes = template()
    path = tmp_path / "mf.toml"
    path.write_text(config.to_toml(notes))
    assert Config.load(path) == config
    assert all(key in path.read_text() for key in ("[model]", "[[fidelity]]", "[policy]", "[alarm]"))


# --- as programs --------------------------------------------------------------------------------------------------


def test_init_detect_and_calibrate_one_after_the_other(tmp_path: Path) -> None:
    data = walk()
    csv(tmp_path / "walk.csv", {"at": [f"09:{i // 60:02d}:{i % 60:02d}" for i in range(1000)]} | data)
    done = mfbocd("init", "--from", "walk.csv", *FIDELITIES, "--out", "mf.toml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "Wrote mf.toml. Edit the costs, then run: mfbocd detect walk.csv -c mf.toml" in done.stderr
    config = Config.load(tmp_path / "mf.toml")
    assert config.data.time == "at"
    done = mfbocd("detect", "walk.csv", "-c", "mf.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 1000
    trace = mf.run(config.detector(), np.stack([data["imu"], data["gps"]], axis=1))
    assert len(trace.changes) > 5
    assert f"1000 ticks, {len(trace.changes)} changes found:" in done.stderr
    again = mfbocd("init", "--from", "walk.csv", *FIDELITIES, "--out", "mf.toml", cwd=tmp_path)
    assert again.returncode == 2
    assert "mf.toml already exists; use --force to overwrite it" in again.stderr
    assert mfbocd("init", "--out", "mf.toml", "--force", cwd=tmp_path).returncode == 0
    assert Config.load(tmp_path / "mf.toml").fidelities[1].cost == 40

    done = mfbocd("calibrate", "walk.csv", "-c", "mf.toml", "--budget", "0.3", "--out", "new.toml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    lines = done.stderr.splitlines()
    assert lines[0].split() == ["before", "after"]
    assert any(line.startswith("zeta of imu") and "95 % interval" in line for line in lines)
    new = Config.load(tmp_path / "new.toml")
    assert new.fidelities[0].zeta == pytest.approx(0.25, abs=0.06)
    assert new.model["noise_var"] == pytest.approx(1.0, rel=0.15)
    assert new.model["mean"] == pytest.approx(data["gps"].mean(), rel=1e-3)
    assert new.policy is not None
    assert (new.policy["kind"], new.policy["share"]) == ("budget", 0.3)
    trace = mf.run(new.detector(), np.stack([data["imu"], data["gps"]], axis=1))
    assert trace.spent / 1000 == pytest.approx(1 + 0.3 * 39, rel=0.1)
    assert mfbocd("calibrate", "walk.csv", "-c", "mf.toml", "--out", "new.toml", cwd=tmp_path).returncode == 2


def test_several_columns_are_fidelities_only_on_request(tmp_path: Path) -> None:
    csv(tmp_path / "walk.csv", {"at": [f"09:{i // 60:02d}:{i % 60:02d}" for i in range(1000)]} | walk())
    done = mfbocd("init", "--from", "walk.csv", "--out", "mf.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert "walk.csv has several columns of numbers: imu, gps. Select one with --column." in done.stderr
    assert "--fidelity imu --fidelity gps" in done.stderr
    assert not (tmp_path / "mf.toml").exists()
    for options, names in (
        (["--column", "imu"], ["imu"]),
        (["--fidelity", "imu", "--fidelity", "gps"], ["imu", "gps"]),
        (["--best", "gps"], ["imu", "gps"]),
        (["--fidelity", "imu", "--best", "gps"], ["imu", "gps"]),
    ):
        done = mfbocd("init", "--from", "walk.csv", *options, "--out", "mf.toml", "--force", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert [f.name for f in Config.load(tmp_path / "mf.toml").fidelities] == names
    for options, message in (
        (["--column", "imu", "--best", "gps"], "--column is for one fidelity"),
        (["--column", "lidar"], "no column 'lidar'"),
        (["--fidelity", "at"], "column 'at' has no numbers"),
    ):
        done = mfbocd("init", "--from", "walk.csv", *options, cwd=tmp_path)
        assert done.returncode in (1, 2)
        assert message in done.stderr


def test_init_and_calibrate_print_only_toml(tmp_path: Path) -> None:
    csv(tmp_path / "walk.csv", dict(walk()))
    text = (tmp_path / "walk.csv").read_text()
    done = mfbocd("init", "--from", "-", *FIDELITIES, cwd=tmp_path, stdin=text)
    assert done.returncode == 0, done.stderr
    (tmp_path / "mf.toml").write_text(done.stdout)
    assert len(Config.load(tmp_path / "mf.toml").fidelities) == 2
    done = mfbocd("calibrate", "-", "-c", "mf.toml", cwd=tmp_path, stdin=text)
    (tmp_path / "new.toml").write_text(done.stdout)
    assert Config.load(tmp_path / "new.toml").policy == Config.load(tmp_path / "mf.toml").policy


def test_refusals_have_clear_messages(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    data = walk()
    csv(tmp_path / "stuck.csv", {"imu": rng.normal(0, 1, 1000), "gps": data["gps"]})
    mfbocd("init", "--out", "mf.toml", cwd=tmp_path)
    done = mfbocd("calibrate", "stuck.csv", "-c", "mf.toml", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("Error: zeta of 'imu': the low fidelity is no better than chance: its slope")
    done = mfbocd("calibrate", "stuck.csv", "-c", "mf.toml", "--budget", "0", cwd=tmp_path)
    assert done.returncode == 2
    (tmp_path / "words.csv").write_text("a,b\nx,y\nx,z\n")
    done = mfbocd("init", "--from", "words.csv", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: no column of numbers in the first 2 rows (")
    done = mfbocd("init", "--from", "stuck.csv", "--best", "lidar", cwd=tmp_path)
    assert done.returncode == 2
    assert "no column 'lidar'; expected one of imu, gps" in done.stderr
    for wrong in (done, mfbocd("init", "--from", os.devnull, cwd=tmp_path)):
        assert wrong.returncode in (1, 2)
        assert "Traceback" not in wrong.stderr


# --- calibration of a config ---------------------------------------------------------------------------------------


def test_a_bernoulli_prior_of_largest_evidence() -> None:
    rng = np.random.default_rng(4)
    level = np.repeat(rng.beta(0.5, 0.5, 40), 100)
    high = (rng.random(4000) < level).astype(float)
    low = np.where(rng.random(4000) < 0.15, 1 - high, high)
    given = {
        "hazard": 0.01,
        "model": {"kind": "bernoulli", "alpha": 20, "beta": 20},
        "fidelity": [{"name": "small", "zeta": 0.9, "cost": 1}, {"name": "large", "zeta": 1, "cost": 10}],
        "policy": {"kind": "information_rate"},
    }
    new = recalibrate(Config.parse(given), {"small": low, "large": high}, share=0.4)
    assert new.config.model["alpha"] + new.config.model["beta"] == pytest.approx(1.0, rel=0.7)
    assert new.config.fidelities[0].zeta == pytest.approx(0.49, abs=0.05)
    assert new.config.policy is not None
    assert set(new.config.policy["weights"]) == {"large"}  # the paper's rule keeps its kind
    evidence = []
    for config in (Config.parse(given), new.config):
        detector = config.detector(policy=mf.Always())
        mf.run(detector, np.stack([low, high], axis=1))
        evidence.append(detector.log_evidence)
    assert evidence[1] > evidence[0]


def test_what_cannot_be_estimated_is_kept_or_refused() -> None:
    rng = np.random.default_rng(4)
    config = Config.parse({"model": {"kind": "gaussian"}, "fidelity": [{"name": "a", "zeta": 1, "cost": 1}]})
    flat = recalibrate(config, {"a": rng.normal(3, 2, 500)})
    assert [c.label for c in flat.changes] == ["noise_var"]
    assert flat.kept[0].startswith("the prior: the level hardly varies")
    assert flat.config.model["mean"] == 0.0
    with pytest.raises(CalibrationError, match="the best fidelity, 'a', must have at least 2 readings, not 0"):
        recalibrate(config, {"a": np.full(5, np.nan)})
    bits = Config.parse({"model": {"kind": "bernoulli"}, "fidelity": [{"name": "a", "zeta": 1, "cost": 1}]})
    assert recalibrate(bits, {"a": np.zeros(50)}).kept == ["the prior: every reading of the best fidelity is 0"]
    with pytest.raises(CalibrationError, match=r"must be 0 or 1 for a bernoulli model, not 0\.5"):
        recalibrate(bits, {"a": np.array([0.0, 1.0, 0.5])})


def test_columns_of_real_tables_are_classified(tmp_path: Path) -> None:
    csv(tmp_path / "walk.csv", {"at": [f"day {i}" for i in range(1000)]} | walk())
    with open_table(tmp_path / "walk.csv") as table:
        found = classify_columns(table.chunks(), table.columns)
    assert (found.rows, found.time, set(found.readings)) == (1000, "at", {"imu", "gps"})
