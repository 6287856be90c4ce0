"""Each script of examples/ runs from top to bottom, prints the expected results and writes its figure."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ..parts import PATIENCE

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"


def ran(name: str, folder: Path) -> str:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), "out"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def numbers(line: str) -> list[float]:
    return [float(x) for x in re.findall(r"\d+\.?\d*", line)]


def test_every_script_is_run_by_a_test() -> None:
    tests = "".join(path.read_text() for path in Path(__file__).parents[1].rglob("test_*.py"))
    scripts = [script.name for script in EXAMPLES.glob("*.py")]
    assert len(scripts) >= 4
    assert [name for name in scripts if f'"{name}"' not in tests] == []


def test_run_pace(tmp_path: Path) -> None:
    printed = ran("run_pace.py", tmp_path)
    rows = [numbers(line) for line in printed.split("false alarms")[1].splitlines()[1:5]]
    spent, delay = [row[1] for row in rows], [row[5] for row in rows]
    assert spent == sorted(spent)
    assert spent[-1] == 376 * 4
    assert all(row[3] == row[4] == 7 for row in rows)  # every annotated change after the warm-up is found
    assert delay == sorted(delay, reverse=True)  # a larger budget detects sooner
    assert (tmp_path / "out" / "run_pace.png").stat().st_size > 10_000


def test_machine_sound(tmp_path: Path) -> None:
    printed = ran("machine_sound.py", tmp_path)
    chosen, baseline, always = (numbers(line)[-2:] for line in printed.split("all windows\n")[1].splitlines()[:3])
    assert always[1] == 0.0
    assert chosen[1] < baseline[1]
    assert "40 streams, for 3" in printed
    assert "Does the machine sound damaged?" in (tmp_path / "out" / "machine_sound.html").read_text()


def test_llm_judge(tmp_path: Path) -> None:
    printed = ran("llm_judge.py", tmp_path)
    days = [numbers(line) for line in printed.splitlines() if line.startswith("day")]
    assert [row[0] for row in days] == [1, 2, 3]
    spent = [row[-1] for row in days]
    assert all(1.2 * day + 1e-9 >= total for day, total in enumerate(spent, 1))
    detected, changed = numbers(next(line for line in printed.splitlines() if line.startswith("answer")))[:2]
    assert 600 < detected < 800
    assert abs(changed - 600) < 80
    assert printed.count("restarted with") == 1


def test_digits_networks(tmp_path: Path) -> None:
    printed = ran("digits_networks.py", tmp_path)
    changed = [int(numbers(line)[1]) for line in printed.splitlines() if line.startswith("tick")]
    assert len(changed) == 2
    assert abs(changed[0] - 100) < 10
    small, large, saved = numbers(printed.split("runs:")[1])[:3]
    assert small + large == 300  # one network per image
    assert 60 < saved < 80
    assert (tmp_path / "out" / "digits_networks.png").stat().st_size > 10_000
