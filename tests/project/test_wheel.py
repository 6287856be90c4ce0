"""Wheel and sdist contain all files of the sources."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from ..parts import PATIENCE

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def built(kind: str, folder: Path) -> list[Path]:
    """Build wheel and sdist of this repository with hatchling."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return list(folder.iterdir())


def test_the_wheel_contains_every_file_of_the_package(tmp_path: Path) -> None:
    (wheel,) = built("wheel", tmp_path)
    with zipfile.ZipFile(wheel) as packed:
        packaged = set(packed.namelist())
        (entry,) = (name for name in packaged if name.endswith(".dist-info/entry_points.txt"))
        assert "mfbocd = mfbocd.cli:main" in packed.read(entry).decode()
        metadata = packed.read(entry.replace("entry_points.txt", "METADATA")).decode()
    assert "Provides-Extra: spark" in metadata
    assert "Provides-Extra: paper" not in metadata  # research is not part of the package
    source = ROOT / "src"
    there = {
        str(path.relative_to(source))
        for path in (source / "mfbocd").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in packaged if ".dist-info/" not in name} == there
    assert {"mfbocd/py.typed", "mfbocd/service/page/index.html"} <= packaged
    assert any(name.startswith("mfbocd/datasets/") and not name.endswith(".py") for name in packaged)
    assert not [name for name in packaged if name.startswith(("paper/", "tests/", "benchmarks/", "contrib/"))]


def test_the_sdist_contains_every_tracked_file(tmp_path: Path) -> None:
    if (ROOT / "PKG-INFO").exists():
        pytest.skip("this is an unpacked sdist: there is no list of tracked files to compare with")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    (sdist,) = built("sdist", tmp_path)
    with tarfile.open(sdist) as packed:
        packaged = {name.partition("/")[2] for name in packed.getnames()}
    tracked = {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}
    assert tracked - packaged == set()
    assert {"paper/__main__.py", "paper/targets/frontier.py", "docs/paper.md", "contrib/river/bocd.py"} <= packaged
