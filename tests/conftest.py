"""Setup shared by all tests."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from mfbocd.io.config import model_kinds

hypothesis.settings.register_profile("mfbocd", deadline=None, derandomize=True, max_examples=40)
hypothesis.settings.register_profile("quick", deadline=None, derandomize=True, max_examples=10)
hypothesis.settings.load_profile("mfbocd")

gc.disable()  # until the tests are collected: none of this is garbage, and looking for it takes long


def pytest_collection_finish() -> None:
    """Collect garbage again, but not among what was loaded so far."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Fail a skipped test in CI, where every component is installed."""
    report = yield
    return _no_skip(report)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Fail a file that is skipped in CI."""
    report = yield
    return _no_skip(report)


def _no_skip(report: Any) -> Any:
    if report.skipped and os.environ.get("CI"):
        report.outcome, report.longrepr = "failed", f"skipped, but CI is set: {report.longrepr}"
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile the kernels of every family once, before several workers would each compile them at the same time.

    A run without workers compiles what it needs as it goes.
    """
    config = session.config
    if (
        hasattr(config, "workerinput")
        or not getattr(config.option, "numprocesses", None)
        or config.option.collectonly
    ):
        return
    halves = [sorted(model_kinds())[i::2] for i in range(2)]
    running = [
        subprocess.Popen([sys.executable, "-m", "mfbocd.cli", "warm", *kinds], stderr=subprocess.PIPE, text=True)
        for kinds in halves
    ]
    for process in running:
        _, stderr = process.communicate()
        if process.returncode:
            pytest.exit(f"kernels could not be compiled: {stderr}", returncode=1)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import a file of which every test is slow, and what it imports, if slow tests are left out."""
    if config.option.markexpr != "not slow" or collection_path.suffix != ".py" or not collection_path.is_file():
        return None
    return "\npytestmark = pytest.mark.slow\n" in collection_path.read_text(encoding="utf-8") or None


LONGEST = (
    "adapters/test_spark",
    "service/test_cli",
    "service/test_fuzz",
    "service/test_page",
    "cli/",
    "project/test_docs",
    "project/test_pages",
)
"""The slowest files, slowest first."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole files go to a worker, the long ones first, so that none is left alone with them at the end."""
    for item in items:
        # doctests cannot have marks; that of `digits` trains two networks
        if item.name == "mfbocd.datasets._digits.digits":
            item.add_marker(pytest.mark.slow)
    slow = {item.path for item in items if item.get_closest_marker("slow")}

    def rank(item: pytest.Item) -> int:
        path = item.path.as_posix()
        found = [i - len(LONGEST) for i, name in enumerate(LONGEST) if f"tests/{name}" in path]
        return found[0] if found else 0 if item.path in slow else 1

    items.sort(key=rank)
