"""The command line as a whole program."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import mfbocd as mf


def mfbocd(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mfbocd.cli", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


def test_demo_prints_what_it_found_and_writes_a_report(tmp_path: Path) -> None:
    done = mfbocd("demo", "--out", "here", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "True changes: 37, 614, 865." in done.stdout
    assert "saved" in done.stdout
    assert "Wrote here/report.md and here/trace.csv" in done.stdout
    with (tmp_path / "here" / "trace.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 1000
    alarms = [int(row["changed_at"]) for row in rows if row["alarm"] == "1"]
    assert all(min(abs(a - c) for c in (37, 614, 865)) <= 10 for a in alarms)
    assert len(alarms) == 3
    spent = sum(float(row["cost"]) for row in rows)
    assert f"Spent {spent:g};" in done.stdout


def test_help_version_and_usage_errors(tmp_path: Path) -> None:
    assert "demo" in mfbocd("--help", cwd=tmp_path).stdout
    assert mfbocd("--version", cwd=tmp_path).stdout.strip() == f"mfbocd, version {mf.__version__}"
    bad = mfbocd("demo", "--low", "2", cwd=tmp_path)
    assert bad.returncode == 2
    assert "2.0 is not in the range 0<=x<=1" in bad.stderr
