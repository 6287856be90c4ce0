"""Parts of the machine that a test needs: without one it is skipped with a reason, but fails in CI."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest

PATIENCE = 300.0
"""Seconds to wait for an event that must come: only a failing test waits that long, however busy the machine."""


def absent(name: str) -> NoReturn:
    """Skip for want of a part; in CI, where all must be, fail."""
    if os.environ.get("CI"):
        pytest.fail(f"CI is set, but there is no {name}")
    pytest.skip(f"there is no {name}")


def needed(name: str) -> str:
    """Where a program is."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    return found or absent(name)
