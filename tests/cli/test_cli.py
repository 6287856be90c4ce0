"""The command line as a whole program."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mfbocd as mf
from mfbocd.io.config.toml import value

from .program import mfbocd, process

pytestmark = pytest.mark.slow


def demo_output(done: subprocess.CompletedProcess[str], folder: Path) -> tuple[list[dict[str, str]], list[float]]:
    """The rows of the trace it wrote, and the errors it printed: chosen, random, always the expensive one."""
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    with (folder / "trace.csv").open() as file:
        rows = list(csv.DictReader(file))
    spent = sum(float(row["cost"]) for row in rows)
    assert f"Spent {spent:g}, {spent / len(rows):.2f} per tick" in done.stdout
    lines = done.stdout.split("as predicted")[1].splitlines()[1:4]
    return rows, [float(re.findall(r"\d+\.\d{3}", line)[0]) for line in lines]


def test_demo_finds_the_annotated_changes_of_a_real_run(tmp_path: Path) -> None:
    done = mfbocd("demo", "--out", "here", cwd=tmp_path)
    rows, (chosen, random, always) = demo_output(done, tmp_path / "here")
    assert len(rows) == 376
    alarms = [int(row["changed_at"]) for row in rows if row["alarm"] == "1"]
    marked = mf.datasets.run_log().changes
    assert len(marked) == 8
    assert all(min(abs(a - c) for a in alarms) <= 3 for c in marked)
    assert f"Missed of {len(marked)} known changes: none." in done.stdout
    assert always < chosen < random
    # the printed error is that of the trace: the mean against the next pace, after the warm-up
    errors = [(float(row["mean"]) - float(row["target"])) ** 2 for row in rows if row["target"]]
    assert len(errors) == 376 - 60 - 1
    assert sum(errors) / len(errors) == pytest.approx(chosen, abs=1e-3)
    assert "Report (open in a browser): here/report.html" in done.stdout
    with (tmp_path / "here" / "stream.csv").open() as file:
        assert [float(row["pace"]) for row in csv.DictReader(file)][61:] == [
            float(row["target"]) for row in rows if row["target"]
        ]
    page = (tmp_path / "here" / "report.html").read_text()
    assert f"{len(alarms)} changes were found" in page
    assert "minutes per mile" in page


def test_demo_of_a_simulated_stream(tmp_path: Path) -> None:
    done = mfbocd("demo", "--simulated", "--ticks", "900", "--out", "here", cwd=tmp_path)
    rows, (chosen, random, always) = demo_output(done, tmp_path / "here")
    assert len(rows) == 900
    assert sum(float(row["cost"]) for row in rows) == pytest.approx(900 * 8, rel=0.03)
    assert always < chosen < random
    less = mfbocd("demo", "--simulated", "--ticks", "900", "--budget", "4", "--out", "less", cwd=tmp_path)
    rows, errors = demo_output(less, tmp_path / "less")
    assert sum(float(row["cost"]) for row in rows) == pytest.approx(900 * 4, rel=0.05)
    assert errors[0] > chosen
    assert errors[2] == always


def test_demo_names_a_missing_extra(tmp_path: Path) -> None:
    def without(package: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        code = f"import sys; sys.modules[{package!r}] = None; from mfbocd.cli import main; main({list(arguments)!r})"
        return subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)

    done = without("river", "demo")
    assert done.returncode == 1
    assert "this stream needs river: pip install 'mfbocd[real]'" in done.stderr
    assert "mfbocd demo --simulated" in done.stderr
    assert not (tmp_path / "out").exists()
    done = without("plotly", "demo", "--simulated", "--ticks", "50")
    assert done.returncode == 0
    assert "No report: a report needs plotly: pip install 'mfbocd[report]'" in done.stdout
    written = sorted(p.name for p in (tmp_path / "out" / "demo").iterdir())
    assert written == ["stream.csv", "trace.csv"]


def test_help_version_and_usage_errors(tmp_path: Path) -> None:
    assert "demo" in process("--help", cwd=tmp_path).stdout
    assert mfbocd("--version", cwd=tmp_path).stdout.strip() == f"mfbocd, version {mf.__version__}"
    bad = mfbocd("demo", "--budget", "0.5", cwd=tmp_path)
    assert bad.returncode == 2
    assert "0.5 is not in the range x>=1" in bad.stderr
    bad = mfbocd("demo", "--ticks", "100", cwd=tmp_path)
    assert bad.returncode == 2
    assert "--ticks needs --simulated" in bad.stderr


FULL: dict[str, Any] = {
    "hazard": {"kind": "weibull", "shape": 2.0, "scale": 50.0},
    "missing": "skip",
    "seed": 3,
    "model": {"kind": "gaussian", "mean": 0.0, "var": 25.0, "noise_var": 1.0},
    "fidelity": [{"name": "imu", "zeta": 0.1, "cost": 1.0}, {"name": "gps", "zeta": 1.0, "cost": 40.0}],
    "policy": {"kind": "budget", "share": 0.35, "cap": [400, 20]},
    "alarm": {"threshold": 0.8, "within": 30},
    "prune": {"threshold": 1e-6, "top_k": 100},
    "data": {"unit": "m/s"},
}
READERS = {
    "detect": ("detect", "data.csv", "-c"),
    "detect line protocol": ("detect", "data.lp", "-c"),
    "drive": ("drive", "true", "-c"),
    "calibrate": ("calibrate", "data.csv", "-c"),
    "export": ("export", "c", "--out", "mf.h", "-c"),
    "warm": ("warm", "-c"),
    "serve": ("serve", "--db", "mfbocd.db", "--port", "0", "-c"),
}
"""Every command that reads a configuration."""


def spoilt(given: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The configuration with one of its keys at the top, tables or lists replaced by a number, text or list."""
    for key, part in given.items() if isinstance(given, dict) else enumerate(given):
        if not path or isinstance(part, (dict, list)):
            for wrong in (2.5, "x", [2.5], [], {"x": 1}):
                changed = given.copy()
                changed[key] = wrong
                yield (*path, key), changed
        if isinstance(part, (dict, list)):
            for where, inside in spoilt(part, (*path, key)):
                changed = given.copy()
                changed[key] = inside
                yield where, changed


@pytest.mark.parametrize("command", READERS)
def test_a_part_of_a_configuration_of_another_kind_is_named(command: str, tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("imu,gps\n" + "1,2\n" * 40)
    (tmp_path / "data.lp").write_text("air imu=1,gps=2 1\n" * 40)
    serve = {"serve": {"batch": 7, "observers": {"a": "math:fabs"}}} if command == "serve" else {}
    wrong = [
        (where, given)
        for where, given in spoilt(FULL | serve)
        if given["fidelity"] != []  # which is valid
    ]
    assert {where[0] for where, _ in wrong} == {*FULL, *serve}
    for where, given in wrong:
        (tmp_path / "mf.toml").write_text("".join(f"{key} = {value(part)}\n" for key, part in given.items()))
        done = mfbocd(*READERS[command], "mf.toml", cwd=tmp_path)
        assert done.returncode == 2, (where, given, done.stderr)
        errors = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
        assert len(errors) == 1, (where, done.stderr)
        assert str(where[0]) in errors[0], (where, given, errors)
        assert "mf.toml" in errors[0], (where, given, errors)
    assert not (tmp_path / "mfbocd.db").exists()


@pytest.mark.parametrize("text", [b"hazard = \xff", b"hazard =", b"x = " + 3000 * b"["])
@pytest.mark.parametrize("command", ["detect", "serve"])
def test_a_file_that_is_not_toml_is_named(command: str, text: bytes, tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("x\n1\n")
    (tmp_path / "mf.toml").write_bytes(text)
    done = mfbocd(*READERS[command], "mf.toml", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert re.search(r"Error: mf\.toml: (not|a config must)", done.stderr), done.stderr


@pytest.mark.parametrize("db", ["mysql://user:secret@host/db", "sqlite:///streams.db", "http://host"])
@pytest.mark.parametrize("command", [("serve", "--port", "0"), ("state", "ls"), ("warm",), ("token", "ls")])
def test_another_kind_of_database_is_not_taken_for_a_file(command: tuple[str, ...], db: str, tmp_path: Path) -> None:
    done = mfbocd(*command, "--db", db, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert f"not {db.partition(':')[0]}://" in done.stderr
    assert "secret" not in done.stderr
    assert list(tmp_path.iterdir()) == []
