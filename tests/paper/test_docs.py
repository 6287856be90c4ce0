"""The committed pages are what the targets write."""

from __future__ import annotations

from pathlib import Path

import pytest

from paper.framework import Options, markdown
from paper.framework.page import join, split
from paper.targets import NAMES, costs, load

from .helpers import DOCS, missing, section

pytestmark = pytest.mark.slow


def test_the_page_of_the_paper_has_a_section_per_target() -> None:
    page = (DOCS / "paper.md").read_text()
    sections = split(page)
    assert list(sections) == [name for name in NAMES if load(name).page == "paper"]
    assert join(list(sections.values())) == page
    for name, text in sections.items():
        assert text.startswith(f"## {load(name).title}\n")
        assert f"`{name}` ({load(name).paper}), made by `python -m paper {name} --seed 1`." in text


def test_every_picture_of_a_page_is_there_and_no_other_file() -> None:
    pages = [(DOCS / name).read_text() for name in ("paper.md", "frontier.md", "quickest.md")]
    shown = {line.rpartition("](")[2].rstrip(")") for page in pages for line in page.splitlines() if line[:2] == "!["}
    files = {path.relative_to(DOCS).as_posix() for path in (DOCS / "paper").rglob("*") if path.is_file()}
    assert shown == files | {"frontier.png", "quickest.png"}


def test_the_posteriors_are_printed_again(tmp_path: Path) -> None:
    target, options = load("mf-posterior"), Options(tmp_path)
    made = markdown(target, target.run(options), options, folder="paper/mf-posterior/", level=2)
    assert section(target) == made


def test_the_costs_are_printed_again_but_for_the_times(tmp_path: Path) -> None:
    target, options = load("costs"), Options(tmp_path, quick=True)
    result = target.run(options)
    made = markdown(target, result, Options(tmp_path), folder="paper/costs/", level=2)
    cut = [text.partition("### Measured on this machine")[0] for text in (made, section(target))]
    assert cut[0] == cut[1]
    assert missing(target, result) == []
    assert costs.REPEATS != costs.REPEATS_QUICK
