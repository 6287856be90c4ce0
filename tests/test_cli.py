"""The command line as a whole program."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

import mfbocd as mf


def mfbocd(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mfbocd.cli", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


def test_demo_prints_what_it_found_and_writes_a_report(tmp_path: Path) -> None:
    done = mfbocd("demo", "--out", "here", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "True changes: 37, 614, 865." in done.stdout
    assert "Wrote here/report.md and here/trace.csv" in done.stdout
    with (tmp_path / "here" / "trace.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 1000
    alarms = [int(row["changed_at"]) for row in rows if row["alarm"] == "1"]
    assert [min((37, 614, 865), key=lambda c: abs(a - c)) for a in alarms] == [37, 614, 865]
    spent = sum(float(row["cost"]) for row in rows)
    assert f"Spent {spent:g}," in done.stdout
    assert spent == pytest.approx(8000, rel=0.03)
    errors = [float(line.split()[-1]) for line in done.stdout.split("predicted level")[1].splitlines()[1:4]]
    assert errors[0] < errors[1]  # chosen beats the coin
    assert errors[2] < errors[0]  # reading the dear one always beats both


def test_a_small_frontier_resumes(tmp_path: Path) -> None:
    command = ["study", "frontier", "--quick", "--streams", "6", "--family", "gaussian-half", "--jobs", "1"]
    done = mfbocd(*command, "--out", "f", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "# What choosing saves" in done.stdout
    assert "Where the default loses" in done.stdout
    assert "Wrote f/frontier.csv" in done.stderr
    with (tmp_path / "f" / "frontier.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {(row["rule"], row["gain"]) for row in rows} == {
        (r, g) for r in ("rate", "budget") for g in ("run_length", "joint")
    }
    assert len(rows) == 8
    default = [row for row in rows if row["rule"] == "budget" and row["gain"] == "joint"]
    assert all(abs(float(row["low"]) - float(row["target_low"])) < 0.1 for row in default)
    assert (tmp_path / "f" / "frontier.png").stat().st_size > 10_000
    # what was done is not done again: a part that is spoilt shows that it is read
    part = tmp_path / "f" / "groups" / "gaussian-half-budget-joint.json"
    part.write_text(part.read_text().replace('"low": 0.', '"low": 0.9', 1))
    again = mfbocd(*command, "--out", "f", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert again.stdout != done.stdout


def test_help_version_and_usage_errors(tmp_path: Path) -> None:
    assert "demo" in mfbocd("--help", cwd=tmp_path).stdout
    assert mfbocd("--version", cwd=tmp_path).stdout.strip() == f"mfbocd, version {mf.__version__}"
    bad = mfbocd("demo", "--budget", "0.5", cwd=tmp_path)
    assert bad.returncode == 2
    assert "0.5 is not in the range x>=1" in bad.stderr
    bad = mfbocd("study", "frontier", "--family", "nonsense", cwd=tmp_path)
    assert bad.returncode == 2
    assert "'nonsense' is none of gaussian-half" in bad.stderr
