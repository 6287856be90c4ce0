"""Kernels as plain Python (NUMBA_DISABLE_JIT=1), and kernels where nothing can be written to a cache."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mfbocd as mf

from .plain_python import results

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PACKAGE = Path(mf.__file__).parent


def python(*arguments: str, source: Path = PACKAGE.parent, **environment: str | None) -> tuple[str, str]:
    """Return stdout and stderr of a process, which must succeed."""
    known = {**os.environ, "PYTHONPATH": os.pathsep.join([str(source), str(ROOT)]), **environment}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd="/",
        env={name: value for name, value in known.items() if value is not None},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout, done.stderr


def close(one: Any, other: Any, where: str = "") -> None:
    """Check that two results are equal up to rounding."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for name in one:
            close(one[name], other[name], f"{where}/{name}")
    elif isinstance(one, list):
        assert len(one) == len(other), where
        for i, (a, b) in enumerate(zip(one, other, strict=True)):
            close(a, b, f"{where}/{i}")
    elif isinstance(one, float) and not isinstance(other, str):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-9), where
    else:
        assert one == other, where


def test_results_without_compilation_are_the_same() -> None:
    found, warned = python("-W", "always", "-m", "tests.engine.plain_python", NUMBA_DISABLE_JIT="1")
    assert warned == ""
    close(json.loads(found), json.loads(json.dumps(results())))


# --- the cache ---------------------------------------------------------------------------------------------

DRAW = "from mfbocd._kernels.random import uniform; print(uniform(1, 2, 3))"


@pytest.fixture(scope="module")
def read_only(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package without a writable cache: a file blocks the path of each cache folder."""
    source: Path = tmp_path_factory.mktemp("read_only")
    shutil.copytree(PACKAGE, source / "mfbocd", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in {path.parent for path in source.rglob("*.py")}:
        (folder / "__pycache__").write_text("")
    return source


def test_without_a_writable_cache_kernels_are_compiled_in_the_process(read_only: Path) -> None:
    nowhere = {"HOME": "/dev/null", "XDG_CACHE_HOME": None, "NUMBA_CACHE_DIR": None}
    script = (
        "import mfbocd as mf; print(mf.__file__); d = mf.Detector(mf.Trend(), hazard=0.1); print(d.update(0.5).mean)"
    )
    found, warned = python("-c", script, source=read_only, **nowhere)
    where, mean = found.split()
    assert where == str(read_only / "mfbocd" / "__init__.py")
    assert float(mean) == pytest.approx(mf.Detector(mf.Trend(), hazard=0.1).update(0.5).mean, rel=1e-12)
    assert warned.count("Set NUMBA_CACHE_DIR to a writable folder") == 1  # and once only


def test_a_folder_for_the_cache_is_used(read_only: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    given = {"HOME": "/dev/null", "XDG_CACHE_HOME": None, "NUMBA_CACHE_DIR": str(folder)}
    first = python("-c", DRAW, source=read_only, **given)
    assert first[1] == ""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".nbi", ".nbc"}
    for path in files:  # interrupted in the middle, as by a full disk
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert python("-c", DRAW, source=read_only, **given) == first
    # a folder that is removed before its kernels are saved
    gone = (
        f"import mfbocd._kernels.random, shutil; shutil.rmtree({str(folder)!r}); open({str(folder)!r}, 'w'); {DRAW}"
    )
    assert python("-c", gone, source=read_only, **given) == first
    from mfbocd._kernels.random import uniform

    assert float(first[0]) == uniform(1, 2, 3)
    assert np.isfinite(float(first[0]))
