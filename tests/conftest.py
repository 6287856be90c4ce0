"""Set-up every test shares."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import hypothesis

ROOT = Path(__file__).parents[1]

# numba does not notice that a kernel changed which another file's kernel calls: a cache for each state of them.
if "NUMBA_CACHE_DIR" not in os.environ:
    rooms = ROOT / "src" / "mfbocd"
    sources = sorted([*rooms.glob("_kernels/*.py"), *rooms.glob("models/*.py")])
    state = zlib.crc32(b"".join(path.read_bytes() for path in sources))
    os.environ["NUMBA_CACHE_DIR"] = str(ROOT / ".numba" / f"tests-{state:08x}")

hypothesis.settings.register_profile("mfbocd", deadline=None, derandomize=True, max_examples=60)
hypothesis.settings.load_profile("mfbocd")
