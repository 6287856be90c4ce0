"""The Python examples of the pages print what the pages say, and every block runs as it is copied."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from docs_tools.blocks import SAME, blocks, python_examples

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ELSEWHERE = "spark.md"
"""Its first example needs Spark: `tests/adapters/test_spark.py` runs it."""


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


def _words(path: Path) -> str:
    return " ".join(path.read_text().split())


def test_the_savings_on_the_first_pages_are_those_of_the_study() -> None:
    """The README and the home page repeat numbers of docs/quickest.md, which `make study` writes."""
    study = (ROOT / "docs" / "quickest.md").read_text()
    table = study.partition("## Prior N(0, 1): delay against spend\n")[2].partition("\n## ")[0]
    head, _, *rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line[:1] == "|"
    ]
    delays = {row[0]: dict(zip(head, (cell.split(" ")[0] for cell in row), strict=True)) for row in rows}

    def delay(rule: str, spend: str) -> str:
        return str(int(float(delays[rule][spend]) + 0.5))

    always = re.search(r"Always high: ([\d.]+)", table)
    assert always is not None
    best = f"{float(always[1]):.0f}"
    claim = (
        f"of one standard deviation is found after {delay('budget, joint', '20%')} ticks. The expensive sensor at "
        f"every tick needs {best}, a random choice for the same money {delay('random', '20%')}"
    )
    readme, home = _words(ROOT / "README.md"), _words(ROOT / "docs" / "index.md")
    assert claim in readme
    assert claim in home
    assert f"the expensive sensor at every tick, which needs {best}." in readme
    shown = {
        "random choice": "random",
        "`Budget`, the default": "budget, joint",
        '`Budget(gain="change")`': "budget, change",
        "optimal rule that knows both levels": "optimal rule, both levels known",
    }
    for name, rule in shown.items():
        assert f"| {name} | {' | '.join(delay(rule, spend) for spend in head[1:])} |" in readme


def test_the_cost_below_the_first_figure_is_that_of_the_demo() -> None:
    demo = _words(ROOT / "docs" / "quickstart.md")
    spent, alone = re.search(r"Spent (\d+)", demo), re.search(r"alone would have cost (\d+)", demo)
    assert spent is not None
    assert alone is not None
    share = f"at {int(spent[1]) / int(alone[1]):.0%} of the cost of the smoothed pace alone".replace("%", " %")
    assert share in _words(ROOT / "README.md")
    assert share in _words(ROOT / "docs" / "index.md")
