"""Strict compilers, sanitizers, extreme readings and long streams."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import mfbocd as mf
from mfbocd._kernels import layout

from ..parts import needed
from .build import HERE, STRICT, Firmware, compiled, run_python
from .configurations import FAMILIES, make_detector, make_table
from .test_same_answers import assert_same

SANITIZE = ("-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def small(family: str, gain: str = "variance") -> mf.Detector:
    sensors = [mf.Fidelity("skip", 0, 0), mf.Fidelity("low", 0.3, 1), mf.Fidelity("high", 1, 9)]
    models = {
        "gaussian": mf.Gaussian(1, 9, 0.5),
        "unknown": mf.GaussianUnknown(0, 0.5, 0.6, 2),
        "bernoulli": mf.Bernoulli(0.5, 2),
        "poisson": mf.Poisson(2, 0.5),
        "trend": mf.RobustTrend(0, (0.5, 10), 0.6, 2, ar=(0.5, -0.2), outliers=0.02, forget=0.98),
        "share": mf.Transformed(mf.Gaussian(0, 9, 1), "logit"),
    }
    harmonics, pieces = ((1.0, -0.5), (0.3, 2.0)), ((0.0, 0.5, 0.0), (4.5, -0.5, 0.1))
    season = mf.FixedSeason(mf.RobustTrend(weighting="tempered"), 7.3, *harmonics, pieces)
    models["season"] = mf.Rounded(mf.Transformed(mf.Scaled(season, 2.0), "sqrt", offset=1.0), step=0.5)
    policy = mf.Budget(3.0, cap=(40, 8), gain=gain)
    return mf.Detector(models[family], sensors, 0.02, policy=policy, prune=mf.Resample(6, slack=1), missing="skip")


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("compiler", "real"), [("gcc", "float"), ("clang", "double")])
def test_fuzz(compiler: str, real: str, family: str, tmp_path: Path) -> None:
    """More than 10^6 cases in all, under the address and undefined-behaviour sanitizers."""
    gain = {"bernoulli": "joint", "poisson": "variance"}.get(family, "change")
    folder = mf.export.c(small(family, gain), tmp_path, real=real)
    program = tmp_path / "fuzz"
    options = [*STRICT, *SANITIZE, "-DMFBOCD_SAVE=1", f"-I{folder / 'src'}"]
    compiled(needed(compiler), *options, HERE / "fuzz.c", "-o", program, "-lm")
    # Poisson readings below full fidelity are summed over counts, hundreds of times slower than the others.
    cases = "1000" if family == "poisson" else "170000"
    done = subprocess.run([program, "1", cases], capture_output=True, text=True)
    assert done.stdout == f"{cases} cases\n", done.stderr


@pytest.mark.parametrize("family", FAMILIES)
def test_both_compilers_and_cpp(family: str, tmp_path: Path) -> None:
    folder = mf.export.c(small(family), tmp_path)
    for compiler in ("gcc", "clang"):
        for double in (0, 1):
            options = [
                *STRICT,
                "-fsyntax-only",
                "-DMFBOCD_SAVE=1",
                f"-DMFBOCD_DOUBLE={double}",
                f"-I{folder / 'src'}",
            ]
            compiled(needed(compiler), *options, HERE / "driver.c")
    options = ["-x", "c++", "-std=c++11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{folder / 'src'}"]
    compiled(needed("g++"), *options, HERE / "fuzz.c", "-DMFBOCD_SAVE=1")


@pytest.mark.parametrize("real", ["float", "double"])
@pytest.mark.parametrize("family", ["gaussian", "unknown", "trend"])
def test_extreme_readings(family: str, real: str, tmp_path: Path) -> None:
    """Readings of 1e30, constant readings (no variance at all) and both together: every number stays finite."""
    detector = small(family, "change")
    firmware = Firmware(detector, tmp_path, real=real)
    x = np.zeros((3000, 3))
    x[1000:1010] = 1e30
    x[1500::7] = -1e30
    x[2000::50] = 3e38
    out = firmware.run(x).out
    assert np.isfinite(out).all()
    assert np.isfinite(firmware.c.log_evidence())
    assert out[999, 1] > 900  # one regime of constant readings
    assert out[:1000, 3].sum() == 0


def test_after_many_ticks(tmp_path: Path) -> None:
    """Past 2^32 ticks the clock, the resampling and the alarm go on as in Python."""
    rng = np.random.default_rng(2)
    detector = make_detector(rng, "gaussian", "budget", "variance")
    table = make_table(rng, detector, 700)
    run_python(detector, table[:200])
    state = detector._filter.state
    count, cap = int(state[layout.COUNT]), int(state[layout.CAP])
    birth = state[layout.HEAD + cap : layout.HEAD + cap + count]
    for field in (layout.TICK, layout.FIRED, layout.CHANGED_AT):
        state[field] += 2.0**32 - 300.0
    birth[1:] += 2.0**32 - 300.0  # the oldest hypothesis is as old as the stream
    detector = mf.Detector.from_bytes(detector.to_bytes())
    for real, tolerance in (("double", 1e-12), ("float", 1e-3)):
        firmware = Firmware(detector, tmp_path / real, real=real)
        assert firmware.load(detector.to_bytes()) == 0
        given = run_python(mf.Detector.from_bytes(detector.to_bytes()), table[200:]).choice.tolist()
        c, python = (
            firmware.run(table[200:], given),
            run_python(mf.Detector.from_bytes(detector.to_bytes()), table[200:]),
        )
        assert python.out[:, 3].any()
        assert_same(c, python, tolerance)
        assert mf.Detector.from_bytes(firmware.save()).ticks == 2**32 - 300 + 700


def test_ages_stop_growing(tmp_path: Path) -> None:
    """A regime of more than 2^32 ticks stays one: its age does not start again from 0."""
    detector = mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.001, prune=mf.TopK(4), missing="skip")
    run_python(detector, np.zeros((10, 1)))
    state = detector._filter.state
    state[layout.TICK] = 2.0**33
    cap = int(state[layout.CAP])
    state[layout.HEAD + cap : layout.HEAD + cap + 4] = [0.0, 1.0, 2.0**33 - 1.0, 2.0**33][: int(state[layout.COUNT])]
    state[layout.RUN] = 2.0**33
    firmware = Firmware(detector, tmp_path)
    assert firmware.load(detector.to_bytes()) == 0
    out = firmware.run(np.zeros((50, 1))).out
    assert (out[:, 1] == 2.0**32 - 1.0).all()
    assert not out[:, 3].any()
    assert mf.Detector.from_bytes(firmware.save()).ticks == 2**33 + 51
