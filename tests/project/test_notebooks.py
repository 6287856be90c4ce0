"""Notebooks print what they are stored with, and are pages of the site."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from docs_tools import notebooks

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
STORED = sorted(notebooks.FOLDER.glob("*.ipynb"))


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("default")  # of Jupyter, not of the cells, which run in another process
def test_a_new_execution_gives_the_stored_output(path: Path) -> None:
    stored, done = notebooks.read(path), notebooks.execute(path)
    assert notebooks.texts(done) == notebooks.texts(stored), f"run `python -m docs_tools.notebooks {path}`"
    assert len(notebooks.page(done, "x").pictures) == len(notebooks.page(stored, "x").pictures)


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_stored_notebooks_are_small_pages_of_the_site(path: Path) -> None:
    assert path.stat().st_size < 400_000
    stored = notebooks.read(path)
    assert str(ROOT) not in path.read_text()
    assert f"notebooks/{path.stem}.md" in (ROOT / "mkdocs.yml").read_text()
    shown = notebooks.page(stored, path.stem)
    assert shown.text.startswith("# ")
    assert "Traceback" not in shown.text
    for target in re.findall(r"\]\(([\w./-]+)\)", shown.text):
        local = (notebooks.FOLDER / target).exists()
        assert local or target in shown.pictures, target


def test_output_is_joined_shown_and_linked() -> None:
    assert doctest.testmod(notebooks).failed == 0
    printed = [{"output_type": "stream", "name": "stdout", "text": [text]} for text in ("a\n", "b\n")]
    other = {"output_type": "stream", "name": "stderr", "text": ["c\n"]}
    joined = notebooks._joined([*printed, other, *printed])
    assert [output["text"] for output in joined] == [["a\n", "b\n"], ["c\n"], ["a\n", "b\n"]]
    cell = {"cell_type": "code", "source": ["f()"], "outputs": [*joined]}
    picture = {"output_type": "display_data", "data": {"image/png": "iVBORw==", "text/plain": ["<Figure>"]}}
    table = {"output_type": "display_data", "data": {"text/html": ["<table></table>"], "text/plain": ["Frame"]}}
    shown = notebooks.page({"cells": [cell, cell | {"outputs": [picture, table]}]}, "walk")
    assert shown.pictures == {"walk-0.png": b"\x89PNG"}
    assert "```text\na\nb\n```" in shown.text
    assert "![output of the cell above](walk-0.png)\n\n<table></table>" in shown.text
    link = notebooks.on_page_markdown("[a](notebooks/series.ipynb#next) and [b](series.ipynb), `c.ipynb`")
    assert link == "[a](notebooks/series.md#next) and [b](series.md), `c.ipynb`"
