"""Set-up every test shares."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import hypothesis

ROOT = Path(__file__).parents[1]

# numba does not notice that a kernel changed which another file's kernel calls: a cache for each state of those that
# are called so. A model's own file it does watch.
if "NUMBA_CACHE_DIR" not in os.environ:
    sources = sorted((ROOT / "src" / "mfbocd" / "_kernels").glob("*.py"))
    state = zlib.crc32(b"".join(path.read_bytes() for path in sources))
    os.environ["NUMBA_CACHE_DIR"] = str(ROOT / ".numba" / f"tests-{state:08x}")

hypothesis.settings.register_profile("mfbocd", deadline=None, derandomize=True, max_examples=60)
hypothesis.settings.load_profile("mfbocd")
