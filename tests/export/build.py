"""Compile exported detectors and drive them from Python."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import mfbocd as mf

from ..parts import needed

HERE = Path(__file__).parent
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror")


def compiled(*command: Any) -> None:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


class Ticks(NamedTuple):
    choice: np.ndarray
    out: np.ndarray
    """One row per tick: mean, run length, P(change), alarm, changed at, confidence."""


class Firmware:
    """An exported detector, compiled as a shared library."""

    def __init__(
        self, detector: mf.Detector, folder: Path, *, real: str = "double", flags: Sequence[str] = ()
    ) -> None:
        mf.export.c(detector, folder, real=real)
        self._compile(folder, len(detector.fidelities), flags)

    @classmethod
    def exported(cls, folder: Path, fidelities: int) -> Firmware:
        """Compile a folder that was exported before."""
        firmware = cls.__new__(cls)
        firmware._compile(folder, fidelities)
        return firmware

    def _compile(self, folder: Path, fidelities: int, flags: Sequence[str] = ()) -> None:
        library = folder / "detector.so"
        options = [*STRICT, "-O0", "-shared", "-fPIC", "-DMFBOCD_SAVE=1", f"-I{folder / 'src'}", *flags]
        compiled(needed("gcc"), *options, HERE / "driver.c", "-o", library, "-lm")
        self.c = ctypes.CDLL(str(library))
        for name in ("spent", "log_evidence", "p_of_row"):
            getattr(self.c, name).restype = ctypes.c_double
        self.fidelities = fidelities
        self.c.start()

    def run(self, table: np.ndarray, given: Sequence[int] | None = None) -> Ticks:
        x = np.ascontiguousarray(table, dtype=np.float64)
        assert x.shape[1] == self.fidelities
        n = len(x)
        asked = np.full(n, -2, dtype=np.int32) if given is None else np.asarray(given, dtype=np.int32)
        choice, out = np.empty(n, dtype=np.int32), np.empty((n, 6))
        at = [a.ctypes.data_as(ctypes.c_void_p) for a in (x, asked, choice, out)]
        self.c.run(n, *at)
        return Ticks(choice, out)

    def gains(self) -> np.ndarray:
        out = np.empty(self.fidelities)
        self.c.gains(out.ctypes.data_as(ctypes.c_void_p))
        return out

    def save(self) -> bytes:
        buffer = ctypes.create_string_buffer(self.c.saved_bytes())
        written = self.c.save(buffer, len(buffer))
        return buffer.raw[:written]

    def load(self, data: bytes) -> int:
        return int(self.c.load(data, len(data)))


def run_python(detector: mf.Detector, table: np.ndarray, given: Sequence[int] | None = None) -> Ticks:
    """The same ticks with the Python detector."""
    index = {f.name: j for j, f in enumerate(detector.fidelities)}
    choice, out = np.empty(len(table), dtype=np.int32), np.empty((len(table), 6))
    for t, row in enumerate(table.tolist()):
        choice[t] = index[detector.choose().name]
        f = int(choice[t]) if given is None or given[t] == -2 else given[t]
        s = detector.update(None) if f < 0 else detector.update(row[f], detector.fidelities[f].name)
        out[t] = s.mean, s.run_length, s.p_change, s.alarm, s.changed_at or 0, s.confidence or 0.0
    return Ticks(choice, out)
