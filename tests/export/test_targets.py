"""Microcontrollers: emulated Cortex-M3, Cortex-M4F and AVR choose like Python, within the limits of flash and RAM."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import mfbocd as mf
from benchmarks.firmware import AVR, M3, M4F, Target, cost_of, detector_of, emulated

from ..parts import needed
from .build import HERE, STRICT, compiled, run_python

TICKS = 240
DIFFERENT = 2
"""Choices that may differ: in float a resampling may keep another hypothesis, which moves a reading by some ticks."""


def assert_same(printed: str, expected: str) -> None:
    """The alarms are at the same ticks, and so are nearly all choices."""
    assert len(printed) == len(expected)
    assert [t for t, mark in enumerate(printed) if mark == "!"] == [expected.index("!")]
    assert sum(a != b for a, b in zip(printed, expected, strict=True)) <= DIFFERENT, printed


@pytest.fixture(scope="module")
def detector() -> mf.Detector:
    sensors = [mf.Fidelity("low", 0.25, 1), mf.Fidelity("high", 1.0, 10)]
    policy = mf.Budget(4.0, gain="variance")
    return mf.Detector(mf.Gaussian(0, 9, 1), sensors, 0.01, policy=policy, prune=mf.Resample(12), seed=3)


@pytest.fixture(scope="module")
def expected(detector: mf.Detector) -> str:
    """What target.c prints, computed by the Python detector from the same readings."""
    noise, table = 1, np.empty((TICKS, 2))
    for t in range(TICKS):
        for j in range(2):
            noise = (noise * 1664525 + 1013904223) % 2**32
            table[t, j] = (noise >> 20) / 1024 - 2 + (0 if t < TICKS // 2 else 4)
    ticks = run_python(mf.Detector.from_bytes(detector.to_bytes()), table)
    assert ticks.out[TICKS // 2 :, 3].sum() == 1
    marks = zip(ticks.choice.tolist(), ticks.out[:, 3].tolist(), strict=True)
    return "".join("!" if alarm else str(choice) for choice, alarm in marks)


@pytest.mark.parametrize("target", [M3, M4F], ids=lambda target: target.name)
def test_cortex_m(target: Target, detector: mf.Detector, expected: str, tmp_path: Path) -> None:
    needed("qemu-system-arm")
    folder = mf.export.c(detector, tmp_path)
    qemu, program = folder / "examples" / "qemu", tmp_path / "target.elf"
    options = [*STRICT, *target.flags, "-Os", "--specs=rdimon.specs", "-T", qemu / "mps2.ld", f"-I{folder / 'src'}"]
    compiled(needed(target.compiler), *options, HERE / "target.c", qemu / "startup.c", "-o", program, "-lm")
    assert_same(emulated(target, program).strip(), expected)


def test_avr(detector: mf.Detector, expected: str, tmp_path: Path) -> None:
    folder, program = mf.export.c(detector, tmp_path), tmp_path / "target.elf"
    options = [*STRICT, *AVR.flags, "-Os", f"-I{folder / 'src'}"]
    compiled(needed(AVR.compiler), *options, HERE / "target.c", "-o", program, "-lm")
    command = [needed("simavr"), "-m", "atmega2560", "-f", "16000000", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    printed = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    found = re.search(rf"[01!]{{{TICKS}}}", printed.replace("\n", ""))  # simavr prints lines of its own before it
    assert found is not None, printed
    assert_same(found[0], expected)


def test_limits() -> None:
    """Gaussian, two fidelities, K = 32, float, -Os: the sizes that docs/firmware.md promises."""
    for target, most in ((M4F, 8 * 1024), (M3, 12 * 1024)):
        needed(target.compiler)
        for gain in ("variance", "joint"):
            cost = cost_of(detector_of("Gaussian", 32, gain), target, run=False)
            assert cost.flash <= most
            assert cost.ram <= 1024


@pytest.mark.slow
def test_linear_in_k() -> None:
    """Twice the hypotheses take at most twice the instructions."""
    needed("qemu-system-arm")
    small, large = (cost_of(detector_of("Gaussian", k, "variance"), M4F) for k in (32, 64))
    counts = [(cost.choose or 0, cost.update or 0) for cost in (small, large)]
    assert min(counts[0]) > 100
    assert counts[1][0] <= 2.1 * counts[0][0]
    assert counts[1][1] <= 2.1 * counts[0][1]
    assert 0 < (large.stack or 0) < 1024
