"""Shared by the tests of the targets: the committed pages, the large files, options of small runs."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from paper.framework import Options, Result, Target
from paper.framework.page import split

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
DATA = ROOT.parent / "shared" / "data"


def environment() -> dict[str, str]:
    """The environment of a program that imports `paper`, which is not installed."""
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}


def large_file(*names: str) -> Path:
    """A file that is not in the repository; without it the test is skipped, but not in CI."""
    path = DATA.joinpath(*names)
    if not path.exists():
        if os.environ.get("CI"):
            pytest.fail(f"{path} is missing: CI must run this test")
        pytest.skip(f"{path} is not here")
    return path


def small(out: Path, **more: Any) -> Options:
    """Options of a run in this process, without a progress bar."""
    return Options(out, **{"jobs": 1, "progress": False, **more})


def section(target: Target) -> str:
    """The section of a target in the documentation."""
    text = (DOCS / f"{target.page}.md").read_text()
    return split(text)[target.name] if target.page == "paper" else text


def masked(text: str) -> str:
    """Mask numbers, which depend on the number of trials.

    >>> masked("500 streams, seeds 1 to 1,500")
    '# streams, seeds # to #'
    """
    return re.sub(r"\d[\d,.]*(?<=\d)(e-\d+)?", "#", text)


def missing(target: Target, result: Result) -> list[str]:
    """Protocol, captions, section titles and table heads of a small run that are missing on the page."""
    prose = [f"- {line}\n" for line in result.protocol]
    prose += [f"\n*{picture.caption}*\n" for picture in result.figures]
    for title, text in result.sections:
        heads = [line for line in text.splitlines() if line.startswith("| ")][:1]
        prose += [f"# {title}\n", *(f"{line}\n" for line in heads)]
    page = masked(section(target)) + "\n"
    return [line for line in map(masked, prose) if line not in page]
