"""`mfbocd export c`, and the folder that it writes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import mfbocd as mf

from ..cli.program import WALK, mfbocd


def written(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_writes_the_configured_detector(tmp_path: Path) -> None:
    (tmp_path / "mf.toml").write_text(WALK)
    done = mfbocd("export", "c", "-c", "mf.toml", "--out", "firmware", "--hypotheses", "20", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "firmware: Gaussian over imu, gps, 20 hypotheses, float\n"
    text = (tmp_path / "firmware" / "src" / "mfbocd_model.h").read_text()
    assert "#define MFBOCD_K 20 " in text
    assert "#define MFBOCD_RESAMPLE 1 " in text
    assert "#define MFBOCD_DOUBLE 0" in text
    again = mfbocd("export", "c", "-c", "mf.toml", "--out", "firmware", cwd=tmp_path)
    assert again.returncode == 2
    assert "firmware already has an exported detector; use --force to overwrite it" in again.stderr
    options = ["--force", "-q", "--real", "double"]
    forced = mfbocd("export", "c", "-c", "mf.toml", "--out", "firmware", *options, cwd=tmp_path)
    assert (forced.returncode, forced.stderr) == (0, "")
    text = (tmp_path / "firmware" / "src" / "mfbocd_model.h").read_text()
    assert "#define MFBOCD_K 256 " in text
    assert "#define MFBOCD_DOUBLE 1" in text


def test_keeps_the_kind_of_pruning(tmp_path: Path) -> None:
    (tmp_path / "mf.toml").write_text(WALK + "[prune]\ntop_k = 64\n")
    done = mfbocd("export", "c", "-c", "mf.toml", "--out", "firmware", "--hypotheses", "16", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "#define MFBOCD_RESAMPLE 0 " in (tmp_path / "firmware" / "src" / "mfbocd_model.h").read_text()


def test_refuses_what_has_no_c_code(tmp_path: Path) -> None:
    (tmp_path / "mf.toml").write_text("[model]\nkind = 'trend'\n")
    done = mfbocd("export", "c", "-c", "mf.toml", "--out", "firmware", cwd=tmp_path)
    assert done.returncode == 2
    assert "mf.toml: Trend cannot be exported; models that can: Gaussian" in done.stderr
    assert not (tmp_path / "firmware").exists()


def test_refuses_a_threshold_also_with_another_number_of_hypotheses(tmp_path: Path) -> None:
    (tmp_path / "mf.toml").write_text(WALK + "[prune]\ntop_k = 64\nthreshold = 1e-6\n")
    done = mfbocd("export", "c", "-c", "mf.toml", "--out", "firmware", "--hypotheses", "16", cwd=tmp_path)
    assert done.returncode == 2
    assert "Threshold cannot be exported" in done.stderr


def test_the_folder_is_a_library(tmp_path: Path) -> None:
    folder = mf.export.c(mf.Detector(mf.Poisson(2, 1), prune=mf.TopK(8)), tmp_path / "out")
    files = written(folder)
    assert {
        "README.md",
        "library.properties",
        "zephyr/module.yml",
        "zephyr/Kconfig",
        "zephyr/CMakeLists.txt",
    } <= files
    assert {"examples/detector/detector.ino", "examples/qemu/main.c", "examples/qemu/mps2.ld"} <= files
    library = json.loads((folder / "library.json").read_text())
    assert (library["name"], library["version"], library["headers"]) == ("mfbocd", mf.__version__, "mfbocd.h")
    texts = {name: (folder / name).read_text() for name in files}
    assert not [name for name, text in texts.items() if "@VERSION@" in text]
    included = {found for text in texts.values() for found in re.findall(r'#include "(\w+\.h)"', text)}
    others = {"mfbocd_gaussian.h", "mfbocd_gaussian_unknown.h", "mfbocd_bernoulli.h", "mfbocd_mixture.h"}
    others |= {"mfbocd_robust_trend.h", "mfbocd_unknown_noise.h"}
    assert {f"src/{name}" for name in included - others} == {name for name in files if name.startswith("src/")}
