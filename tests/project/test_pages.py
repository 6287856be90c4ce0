"""The Python examples of the pages print what the pages say, and every block runs as it is copied."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from docs_tools.blocks import SAME, blocks, python_examples

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ELSEWHERE = "scale.md"
"""Its example needs Spark: `tests/adapters/test_spark.py` runs it."""


def with_python() -> list[object]:
    """Pages with Python blocks; all but the README are slow."""
    found = [p for p in PAGES if p.name != ELSEWHERE and python_examples(p.read_text())]
    marks = {path: () if path.name == "README.md" else pytest.mark.slow for path in found}
    return [pytest.param(path, marks=marks[path], id=path.name) for path in found]


@pytest.mark.parametrize("page", with_python())
def test_python_blocks_print_the_output_of_the_page(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # pages read examples/
    example = doctest.DocTest(
        python_examples(page.read_text()), {"__name__": "__main__"}, page.name, str(page), 0, None
    )
    report: list[str] = []
    failed, run = doctest.DocTestRunner(optionflags=SAME).run(example, out=report.append)
    assert run > 0
    assert failed == 0, "".join(report)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_have_no_prompts(page: Path) -> None:
    for block in blocks(page.read_text()):
        where = f"{page.name}, line {block.line}"
        assert block.language not in ("pycon", "console"), f"{where}: see docs_tools/blocks.py"
        assert not re.search(r"^(>>>|\$) ", block.text, re.MULTILINE), where


def test_a_wrong_output_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\nprint(x)\n#> 1\n```\n")
    test_python_blocks_print_the_output_of_the_page(page, monkeypatch)
    page.write_text(page.read_text().replace("#> 1", "#> 2"))
    with pytest.raises(AssertionError, match=r"Expected:\s+2\s+Got:\s+1"):
        test_python_blocks_print_the_output_of_the_page(page, monkeypatch)
    page.write_text("```python\nprint(1)\n```\n")  # output that the page does not show
    with pytest.raises(AssertionError, match=r"Expected nothing\s+Got:\s+1"):
        test_python_blocks_print_the_output_of_the_page(page, monkeypatch)
