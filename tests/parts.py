"""Programs that a test needs: without one it is skipped with a reason, but fails in CI."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest

PATIENCE = 300.0
"""Seconds to wait for an expected event; long, because only a failing test waits so long."""


def absent(name: str) -> NoReturn:
    """Skip because a component is missing; in CI, fail."""
    if os.environ.get("CI"):
        pytest.fail(f"CI is set, but there is no {name}")
    pytest.skip(f"there is no {name}")


def needed(name: str) -> str:
    """Return the path of a program; skip, or fail in CI, if it is not installed."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    return found or absent(name)
