"""`mfbocd detect` for people: the summary on a terminal, several columns, unclean files, and outputs that exist."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit

import mfbocd as mf
from mfbocd.calibrate import draft, recalibrate
from mfbocd.cli import output
from mfbocd.cli.common import COMPILING
from mfbocd.detector.detector import Detector
from mfbocd.report import demo

from ..parts import PATIENCE
from .program import COMMAND, WALK, mfbocd

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
PLAIN = '[model]\nkind = "gaussian"\nvar = 25.0\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    low = rng.normal(0, 1, 80) + np.repeat([0.0, 6.0], 40)
    high = rng.normal(5, 1, 80) + np.repeat([0.0, 9.0, 0.0], [20, 30, 30])
    rows = "".join(f"T{t},{a:.3f},{b:.3f}\n" for t, (a, b) in enumerate(zip(low, high, strict=True)))
    (tmp_path / "two.csv").write_text(f"at,low,high\n{rows}")
    (tmp_path / "plain.toml").write_text(PLAIN)
    (tmp_path / "walk.toml").write_text(WALK.replace("imu", "low").replace("gps", "high"))
    return tmp_path


def lines(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make stdout pass for a terminal."""
    monkeypatch.setattr(output, "on_terminal", lambda: True)


@pytest.mark.usefixtures("terminal")
def test_the_summary_on_a_terminal_has_the_numbers_of_the_json(folder: Path) -> None:
    arguments = ["detect", "two.csv", "-c", "walk.toml", "--time", "at"]
    shown = mfbocd(*arguments, cwd=folder)
    steps = lines(mfbocd(*arguments, "--json", cwd=folder))
    alarms = [step for step in steps if step["alarm"]]
    assert alarms
    assert "{" not in shown.stdout
    assert shown.stdout.startswith(f"80 ticks, {len(alarms)} change")
    found = re.findall(
        r"  (?:median )?(\S+) -> \S+ at (T\d+), (?:> )?([\d.]+) % sure, detected (at once|\d+)", shown.stdout
    )
    assert len(found) == len(alarms)
    for (before, at, sure, later), step in zip(found, alarms, strict=True):
        places = len(before.partition(".")[2])
        assert before == f"{step['before'][step['before']['statistic']]:.{places}f}"
        assert at == step["changed_at_time"]
        assert float(sure) == round(100 * min(step["confidence"], 0.999), 1)
        assert later == (str(delay) if (delay := step["tick"] - step["changed_at"]) else "at once")
    read = {name: sum(step["fidelity"] == name for step in steps) for name in ("low", "high")}
    spent = sum(step["cost"] for step in steps)
    assert (
        f"Readings: low {read['low']}, high {read['high']}. Spent {spent:g}, {spent / 80:.3g} per tick;"
        in shown.stdout
    )
    assert f"would have cost {40 * 80} ({100 * (1 - spent / 3200):.0f} % saved)" in shown.stdout
    assert mfbocd(*arguments, "-q", cwd=folder).stdout == shown.stdout


def on_terminal(arguments: list[str], cwd: Path, stdin: int = subprocess.DEVNULL) -> str:
    """Return what a command writes to stdout if that is a terminal; stderr goes elsewhere."""
    master, slave = os.openpty()
    with subprocess.Popen(
        [*COMMAND, *arguments], cwd=cwd, stdin=stdin, stdout=slave, stderr=subprocess.DEVNULL
    ) as child:
        os.close(slave)
        written = b""
        while True:
            try:
                written += os.read(master, 4096)
            except OSError:  # the end of a terminal
                break
        assert child.wait(PATIENCE) == 0
    os.close(master)
    return written.decode().replace("\r\n", "\n")


def test_a_real_terminal(folder: Path) -> None:
    shown = on_terminal(["detect", "two.csv", "-c", "plain.toml", "--column", "low"], folder)
    assert re.match(r"80 ticks, 1 change found:\n  \S+ -> \S+ at tick 40, ", shown)
    assert "{" not in shown


@pytest.mark.usefixtures("terminal")
def test_a_pipe_on_a_terminal_shows_a_change_when_it_is_found(folder: Path) -> None:
    text = (folder / "two.csv").read_text()
    done = mfbocd("detect", "-", "-c", "plain.toml", "--column", "low", cwd=folder, stdin=text)
    assert "Reading standard input. Changes are printed when they are found" in done.stderr
    assert re.match(r"\S+ -> \S+ at tick 40, .*\n80 ticks, 1 change found:\n", done.stdout)
    seen = []
    writer = output.StepWriter(
        type("Out", (), {"write": lambda _, line: seen.append(line), "flush": lambda _: seen.append("flushed")})(),
        detector := mf.Detector(mf.Gaussian(0, 25, 1), hazard=0.01),
        timed=False,
        advice="",
        format="text",
    )
    for x in [0.0] * 20 + [9.0] * 3:
        writer.write(detector.update(x))
    assert re.match(r"0\S* -> 9\S* at tick 20, > 99.9 % sure, detected at once\n", seen[0])
    assert seen[1:] == ["flushed"]


def test_csv_has_the_fields_of_the_json(folder: Path) -> None:
    arguments = ["detect", "two.csv", "-c", "walk.toml", "--time", "at", "--surprise"]
    steps = lines(mfbocd(*arguments, cwd=folder))
    done = mfbocd(*arguments, "--format", "csv", cwd=folder)
    rows = list(csv.DictReader(done.stdout.splitlines()))
    levels = [f"{side}_{end}" for side in ("before", "after") for end in ("mean", "low", "high", "median", "trusted")]
    assert any(step["alarm"] for step in steps)
    for row, step in zip(rows, steps, strict=True):
        for side in ("before", "after"):
            level = step.pop(side, None) or {}
            step |= {f"{side}_{end}": level.get(end) for end in ("mean", "low", "high", "median", "trusted")}
        expected = {
            k: "" if v is None else str(v).lower() if isinstance(v, bool) else str(v) for k, v in step.items()
        }
        assert row == expected
    names = list(rows[0])
    assert names[-13:] == [*levels, *mf.Surprise._fields]
    mfbocd(*arguments, "--out", "steps.csv", cwd=folder)
    assert (folder / "steps.csv").read_text() == done.stdout
    none = mfbocd("detect", "-", "-c", "plain.toml", "--alarms", "--format", "csv", cwd=folder, stdin="0\n0\n")
    assert none.stdout == ",".join(f for f in names if "time" not in f and "log" not in f) + "\n"
    both = mfbocd(*arguments, "--format", "csv", "--json", cwd=folder)
    assert (both.returncode, "exclude each other" in both.stderr) == (2, True)


def test_each_column_is_its_own_stream(folder: Path) -> None:
    alone = {
        name: lines(mfbocd("detect", "two.csv", "-c", "plain.toml", "--column", name, cwd=folder))
        for name in ("low", "high")
    }
    both = ["detect", "two.csv", "-c", "plain.toml", "--column", "low", "--column", "high"]
    done = mfbocd(*both, "--report", "both.html", "--plot", "both.svg", cwd=folder)
    steps = lines(done)
    for name, expected in alone.items():
        assert [step for step in steps if step["column"] == name] == [{"column": name} | step for step in expected]
    assert [step["tick"] for step in steps] == sorted(2 * list(range(80)))
    assert re.search(r"^low: 80 ticks, 1 change found:\n(?s:.*)\nhigh: 80 ticks, 2 changes found:\n", done.stderr)
    page = (folder / "both.html").read_text()
    assert re.findall(r'<h2 class="stream">(.*?)</h2>', page) == ["low", "high"]
    assert page.count("1 change was found in 80 ticks") == page.count("2 changes were found in 80 ticks") == 1
    assert {path.name for path in folder.glob("*.svg")} == {"both-low.svg", "both-high.svg"}
    families = lines(mfbocd("detect", "two.csv", "--model", "student-t", cwd=folder))
    assert {(step["column"], step["time"]) for step in families[:2]} == {("low", "T0"), ("high", "T0")}


def test_columns_of_fidelities_can_be_assigned(folder: Path) -> None:
    (folder / "other.csv").write_text((folder / "two.csv").read_text().replace("low,high", "a,b=c"))
    expected = mfbocd("detect", "two.csv", "-c", "walk.toml", cwd=folder).stdout
    renamed = ["--column", "low=a", "--column", "high=b=c"]
    assert mfbocd("detect", "other.csv", "-c", "walk.toml", *renamed, cwd=folder).stdout == expected
    done = mfbocd("detect", "other.csv", "-c", "walk.toml", "--column", "lidar=a", cwd=folder)
    assert (done.returncode, "--column NAME=COLUMN for low, high" in done.stderr) == (2, True)


def test_marks_of_missing_readings(folder: Path) -> None:
    text = "x\n1\nERROR\n-\n-999.0\n2\n"
    options = ["-c", "plain.toml", "--on-bad", "skip", "--na", "error,-", "--na", "-999"]
    done = mfbocd("detect", "-", *options, cwd=folder, stdin=text)
    assert [step["x"] for step in lines(done)] == [1.0, None, None, None, 2.0]
    assert "3 readings missing." in done.stderr
    assert "Skipped" not in done.stderr
    found = lines(mfbocd("detect", "-", "--na", "ERROR,-,-999", cwd=folder, stdin=text))
    assert [step["x"] for step in found] == [1.0, None, None, None, 2.0]


@pytest.mark.parametrize("options", [["-c", "plain.toml"], []])
def test_bad_cells_and_rows_can_be_skipped(options: list[str], folder: Path) -> None:
    text = "t,x\n0,1\n1,oops\n2\n3,1e999\n4,2\n"
    stopped = mfbocd("detect", "-", *options, "--column", "x", cwd=folder, stdin=text)
    assert stopped.returncode == 1
    assert "line 3, column 'x': 'oops' is not a number" in stopped.stderr
    assert len(stopped.stdout.splitlines()) == 1
    (folder / "bad.csv").write_text(text)
    done = mfbocd("detect", "bad.csv", *options, "--column", "x", "--on-bad", "skip", cwd=folder)
    assert [step["x"] for step in lines(done)] == [1.0, None, None, 2.0]
    assert "Skipped 3 bad cells or rows; the first: line " in done.stderr


def test_rows_can_be_sorted_by_time(folder: Path) -> None:
    rows = (folder / "two.csv").read_text().splitlines(keepends=True)[1:]
    rows = [row.replace("T", "2024-05-01T00:", 1).replace(":0", ":00", 1) for row in rows[10:60]]
    rows = [re.sub(r"00:(\d),", r"00:0\1,", row) for row in rows]
    head = "at,low,high\n"
    mixed = [rows[i] for i in np.random.default_rng(0).permutation(len(rows))]
    arguments = ["-c", "plain.toml", "--column", "low", "--time", "at"]
    expected = mfbocd("detect", "-", *arguments, cwd=folder, stdin=head + "".join(rows))
    assert "not sorted" not in expected.stderr
    done = mfbocd("detect", "-", *arguments, "--sort", cwd=folder, stdin=head + "".join(mixed))
    assert done.stdout == expected.stdout
    assert "not sorted" not in done.stderr
    warned = mfbocd("detect", "-", *arguments, cwd=folder, stdin=head + "".join(mixed))
    at = next(i for i in range(1, 50) if mixed[i] < mixed[i - 1])
    assert f"The timestamps in column 'at' are not sorted (line {at + 2}, column 'at')" in warned.stderr
    bad = mfbocd("detect", "-", *arguments, "--sort", cwd=folder, stdin=head + "".join(mixed) + "noon,1,2\n")
    assert "line 52, column 'at': 'noon' cannot be sorted" in bad.stderr
    none = mfbocd("detect", "-", "-c", "plain.toml", "--sort", cwd=folder, stdin="1\n2\n")
    assert (none.returncode, "--sort needs a column of timestamps" in none.stderr) == (2, True)


def test_no_output_is_overwritten_without_force(folder: Path) -> None:
    detect = ["detect", "two.csv", "-c", "plain.toml", "--column", "low"]
    mfbocd("init", "--out", "mf.toml", cwd=folder)
    (folder / "firmware").mkdir()
    runs = [
        ([*detect, "--out", "a.jsonl"], "a.jsonl"),
        ([*detect, "--plot", "a.svg"], "a.svg"),
        ([*detect, "--column", "high", "--plot", "b.svg"], "b-high.svg"),
        ([*detect, "--report", "a.html"], "a.html"),
        (["init", "--out", "b.toml"], "b.toml"),
        (["calibrate", f"{EXAMPLES}/walk.csv", "-c", f"{EXAMPLES}/walk.toml", "--out", "c.toml"], "c.toml"),
        (["demo", "--simulated", "--ticks", "50", "--out", "show"], "show/stream.csv"),
        (["export", "c", "-c", "mf.toml", "--out", "firmware"], "firmware/README.md"),
    ]
    for arguments, name in runs:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("mine")
        done = mfbocd(*arguments, cwd=folder)
        assert done.returncode == 2, arguments
        assert "use --force to" in done.stderr
        assert done.stdout == ""
        assert (folder / name).read_text() == "mine"
        done = mfbocd(*arguments, "--force", cwd=folder)
        assert done.returncode == 0, done.stderr
        assert (folder / name).read_text() != "mine"
    assert mfbocd(*detect, "--out", os.devnull, cwd=folder).returncode == 0
    twice = mfbocd(*detect, "--out", "same.html", "--report", "same.html", cwd=folder)
    assert (twice.returncode, "is given for two outputs" in twice.stderr) == (2, True)


@pytest.mark.parametrize("command", ["init", "calibrate", "demo", "drive"])
def test_every_command_announces_the_first_compilation(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = {
        "init": ["init", "--from", f"{EXAMPLES}/walk.csv", "--best", "gps"],
        "calibrate": ["calibrate", f"{EXAMPLES}/walk.csv", "-c", f"{EXAMPLES}/walk.toml"],
        "demo": ["demo", "--simulated", "--ticks", "50"],
        "drive": ["drive", "-c", f"{EXAMPLES}/walk.toml", "--ticks", "1", "--", "sh", "-c", "echo '{\"x\": 1}'; cat"],
    }[command]
    module, name = {
        "init": (draft, "guess_config"),
        "calibrate": (recalibrate, "recalibrate"),
        "demo": (demo, "run_demo"),
        "drive": (Detector, "choose"),
    }[command]
    mfbocd(*arguments, cwd=folder)  # the kernels themselves are compiled now
    again = ["--force"] if command == "demo" else []
    real = getattr(module, name)

    def cold(*given: Any, **more: Any) -> Any:
        njit(lambda x: x + 1)(1)
        return real(*given, **more)

    monkeypatch.setattr(module, name, cold)
    assert mfbocd(*arguments, *again, cwd=folder).stderr.count(COMPILING) == 1
