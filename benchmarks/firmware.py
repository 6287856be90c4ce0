"""Flash, memory and instructions of exported detectors: ``python -m benchmarks.firmware``.

Each configuration is exported, compiled with -Os and run in QEMU on a Cortex-M3 (soft float) and a Cortex-M4F.
Flash is the whole program without its reading of sensors: the detector, the functions of math.h and, on the M3, the
floating-point arithmetic. RAM is one stream; the stack is needed once. For the AVR (ATmega2560) only flash and RAM
are given. The printed table is that of docs/firmware.md.

It needs gcc-arm-none-eabi, libnewlib-arm-none-eabi, qemu-system-arm, gcc-avr and avr-libc.
"""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mfbocd as mf

SOURCE = Path(__file__).with_suffix(".c")
SENSORS = [mf.Fidelity("low", zeta=0.1, cost=1), mf.Fidelity("high", zeta=1.0, cost=40)]
SEASON = mf.Transformed(
    mf.FixedSeason(mf.RobustTrend(count=(0.1, 100.0), ar=[0.3], outliers=0.001), 24.0, [0.3], [0.4]), "log"
)
FULL = [mf.Fidelity("low", zeta=1.0, cost=1), mf.Fidelity("high", zeta=1.0, cost=40)]


@dataclass(frozen=True)
class Target:
    """A processor: compiler, its flags, and the board that QEMU emulates."""

    name: str
    compiler: str
    flags: tuple[str, ...]
    board: str | None


M4F = Target(
    "Cortex-M4F",
    "arm-none-eabi-gcc",
    ("-mthumb", "-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"),
    "mps2-an386",
)
M3 = Target("Cortex-M3", "arm-none-eabi-gcc", ("-mthumb", "-mcpu=cortex-m3", "-mfloat-abi=soft"), "mps2-an385")
AVR = Target("AVR", "avr-gcc", ("-mmcu=atmega2560",), None)


@dataclass(frozen=True)
class Cost:
    """What a detector needs on a target; instructions and stack are None if it was not run."""

    flash: int
    ram: int
    choose: int | None = None
    update: int | None = None
    stack: int | None = None


def built(folder: Path, target: Target, *more: Any, size_only: bool = False) -> Path:
    """Compile the measuring program, or with `size_only` the detector's loop alone, and return its path."""
    program = folder / f"{target.name}-{int(size_only)}.elf"
    qemu = folder / "examples" / "qemu"
    options: list[Any] = ["-std=c99", "-Os", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"]
    options += [f"-I{folder / 'src'}", *target.flags, *more, SOURCE]
    if size_only:
        options += ["-DSIZE_ONLY", "-nostartfiles", "-Wl,-e,_start"]
        options += ["--specs=nosys.specs", "-Wl,-Ttext=0"] if target.board else []
    else:
        options += ["--specs=rdimon.specs", "-T", qemu / "mps2.ld", qemu / "startup.c"]
    subprocess.run([target.compiler, *map(str, options), "-o", program, "-lm"], check=True)
    return program


def size_of(target: Target, program: Path) -> tuple[int, int]:
    """Return the bytes of flash (code and initialized data) of a program, and of RAM of its detector."""
    size, nm = (target.compiler.replace("gcc", tool) for tool in ("size", "nm"))
    sections = subprocess.run([size, str(program)], check=True, capture_output=True, text=True).stdout
    text, data = map(int, sections.splitlines()[1].split()[:2])
    symbols = subprocess.run([nm, "--print-size", str(program)], check=True, capture_output=True, text=True).stdout
    (detector,) = (line.split() for line in symbols.splitlines() if line.endswith(" detector"))
    return text + data, int(detector[1], 16)


def emulated(target: Target, program: Path, stdin: str = "", *, count: bool = False) -> str:
    """Run a program on the emulated board and return what it prints."""
    command = ["qemu-system-arm", "-M", str(target.board), "-nographic", "-monitor", "none", "-serial", "none"]
    command += ["-semihosting-config", "enable=on,target=native", "-kernel", str(program)]
    command += ["-icount", "shift=0"] if count else []
    done = subprocess.run(command, input=stdin, check=True, capture_output=True, text=True, timeout=600)
    return done.stdout


def cost_of(detector: mf.Detector, target: Target, *, run: bool = True) -> Cost:
    """Export, compile and run a detector; with ``run=False`` only its flash and its program's RAM are measured."""
    with tempfile.TemporaryDirectory() as name:
        folder = mf.export.c(detector, name)
        flash, ram = size_of(target, built(folder, target, size_only=True))
        if not run or target.board is None:
            return Cost(flash, ram)
        printed = emulated(target, built(folder, target), count=True)
        choose, update, ram, *stack = map(int, printed.split())
        return Cost(flash, ram, choose, update, max(stack))


def detector_of(family: str, k: int, gain: str) -> mf.Detector:
    """Return the detector of one row of the table."""
    models: dict[str, Any] = {
        "Gaussian": mf.Gaussian(0, 9, 1),
        "GaussianUnknown": mf.GaussianUnknown(0, 0.1, 1, 1),
        "Bernoulli": mf.Bernoulli(1, 1),
        "Poisson": mf.Poisson(2, 1),
        "RobustTrend": mf.RobustTrend(count=(0.1, 100.0), outliers=0.001),
        "Transformed(FixedSeason(RobustTrend))": SEASON,
    }
    sensors = FULL if family == "Poisson" else SENSORS
    return mf.Detector(models[family], sensors, policy=mf.Budget(8.0, gain=gain), prune=mf.TopK(k))


ROWS = [
    ("Gaussian", "variance", (16, 32, 64)),
    ("Gaussian", "change", (16, 32, 64)),
    ("Gaussian", "joint", (16, 32, 64)),
    ("GaussianUnknown", "variance", (16, 32, 64)),
    ("GaussianUnknown", "change", (32,)),
    ("Bernoulli", "variance", (16, 32, 64)),
    ("Bernoulli", "change", (32,)),
    ("Bernoulli", "joint", (32,)),
    ("Poisson", "variance", (16, 32, 64)),
    ("Poisson", "change", (32,)),
    ("RobustTrend", "variance", (16, 32, 64)),
    ("RobustTrend", "change", (32,)),
    ("Transformed(FixedSeason(RobustTrend))", "variance", (32,)),
]


def table(rows: list[tuple[str, str, tuple[int, ...]]] = ROWS) -> str:
    """Return the table of docs/firmware.md."""
    lines = [
        "| model | gain | K | RAM per stream | target | flash | stack | choose | update |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for family, gain, sizes in rows:
        for k in sizes:
            for target in (M4F, M3):
                cost = cost_of(detector_of(family, k, gain), target)
                numbers = f"{cost.flash} | {cost.stack} | {cost.choose:,} | {cost.update:,}"
                lines.append(f"| `{family}` | `{gain}` | {k} | {cost.ram} | {target.name} | {numbers} |")
    return "\n".join(lines)


def main() -> None:
    print(table())
    print()
    for family, gain, _ in ROWS:
        cost = cost_of(detector_of(family, 16, gain), AVR)
        print(f"{AVR.name}, {family}, {gain}, K = 16: {cost.flash} bytes of flash, {cost.ram} of RAM")


if __name__ == "__main__":
    main()
