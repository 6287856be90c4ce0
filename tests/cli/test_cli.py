"""The command line as a whole program."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mfbocd as mf

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
