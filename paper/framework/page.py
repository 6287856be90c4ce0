"""A finished target as a Markdown page and a CSV file, and as part of the documentation."""

from __future__ import annotations

import csv
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from .numbers import Row
from .target import Options, Result, Target

INTRODUCTION = """\
# The paper, reproduced

Every table and figure of [the paper](https://arxiv.org/abs/2103.14224), by `make paper`. What came out, target by
target; each section below begins with the same finding and its numbers, and ends with the table of all of them.
"Library" is this package, "as published" the paper's code, and "published, correct updates" that code without its
mistake in updating the means.
"""

NUMBERS = """\
Brackets hold two standard errors; two numbers agree if they are at most two standard errors of their difference
apart. With this many comparisons a few are expected to fail by chance."""


def command(target: Target, options: Options) -> str:
    """The command that makes this page again.

    >>> from pathlib import Path
    >>> command(Target("costs", "", "", None), Options(Path("out"), quick=True))
    'python -m paper costs --seed 1 --quick'
    """
    words = ["python -m paper", target.name, f"--seed {options.seed}"]
    words += [f"--trials {options.trials}"] if options.trials else []
    words += ["--quick"] if options.quick else []
    words += ["--as-published"] if options.as_published else []
    for name, value in options.given.items():
        words += [f"--{name} {each}" for each in (value if isinstance(value, tuple) else (value,))]
    return " ".join(words)


def grid(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table.

    >>> print(grid(["a", "b"], [[1, 2.5]]))
    | a | b |
    |---|---|
    | 1 | 2.5 |
    """
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(map(str, cells)) + " |" for cells in rows)])


def comparison(rows: Sequence[Row]) -> str:
    """Published, ours and the verdict, side by side."""
    keys = list(dict.fromkeys(key for row in rows for key in row.keys))
    several = len({row.engine for row in rows}) > 1
    heads = [*keys, "measure", *(["engine"] if several else []), "published", "ours", "verdict"]
    cells = []
    for row in rows:
        mine = [*(row.keys.get(key, "") for key in keys), row.what, *([row.engine] if several else [])]
        cells.append([*mine, "-" if row.published is None else row.published, row.ours, row.verdict])
    return grid(heads, cells)


def markdown(target: Target, result: Result, options: Options, *, folder: str = "", level: int = 1) -> str:
    """The page; `folder` is the folder of its figures, seen from the page."""
    head = "#" * level
    lines = [f"{head} {target.title}", "", f"**{result.headline}**", ""]
    lines += [f"`{target.name}` ({target.paper}), made by `{command(target, options)}`.", ""]
    for picture in result.figures:
        lines += [f"![{picture.caption}]({folder}{picture.stem}.png)", "", f"*{picture.caption}*", ""]
    for title, text in result.sections:
        lines += [f"{head}# {title}", "", text.strip(), ""]
    lines += [f"{head}# Protocol", "", *(f"- {line}" for line in result.protocol), ""]
    if result.rows:
        lines += [f"{head}# Numbers", "", NUMBERS, "", comparison(result.rows), ""]
    return "\n".join(lines)


def to_csv(path: Path, rows: Sequence[Row]) -> None:
    """One line per number."""
    keys = list(dict.fromkeys(key for row in rows for key in row.keys))
    heads = ("measure", "engine", "published", "published_2se", "ours", "ours_2se", "apart", "verdict")
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*keys, *heads])
        for row in rows:
            theirs = (None, None) if row.published is None else (row.published.value, row.published.two_se)
            numbers = (*theirs, row.ours.value, row.ours.two_se, row.apart)
            shown = ["" if n is None else f"{n:.8g}" for n in numbers]
            writer.writerow([*(row.keys.get(key, "") for key in keys), row.what, row.engine, *shown, row.verdict])


def write(target: Target, result: Result, options: Options) -> Path:
    """The target's figures, table and page in ``options.out``; returns the page."""
    options.out.mkdir(parents=True, exist_ok=True)
    for picture in result.figures:
        picture.save(options.out)
    to_csv(options.out / f"{target.name}.csv", [*result.rows, *result.more])
    page = options.out / f"{target.name}.md"
    page.write_text(markdown(target, result, options))
    return page


def publish(docs: Path, target: Target, result: Result, options: Options, order: Sequence[str]) -> Path:
    """Put a written target into the documentation folder `docs`; returns the page.

    On the page of the paper it replaces its own section; those of other targets stay as they are, in the given
    order. So one target can be run again without the others.
    """
    shared = target.page == "paper"
    page = docs / f"{target.page}.md"
    pictures = docs / "paper" / target.name if shared else docs
    pictures.mkdir(parents=True, exist_ok=True)
    for picture in result.figures:
        shutil.copyfile(options.out / f"{picture.stem}.png", pictures / f"{picture.stem}.png")
    if shared:
        sections = split(page.read_text()) if page.exists() else {}
        sections[target.name] = markdown(target, result, options, folder=f"paper/{target.name}/", level=2)
        page.write_text(join([sections[name] for name in order if name in sections]))
    else:
        page.write_text(markdown(target, result, options))
    return page


def split(page: str) -> dict[str, str]:
    """The sections of the page of the paper, by the name of their target."""
    parts = re.split(r"^(?=## )", page, flags=re.MULTILINE)[1:]
    return {_about(part)[0]: part.rstrip() + "\n" for part in parts}


def join(sections: Sequence[str]) -> str:
    """The page of the paper: an introduction, the finding of each section, and the sections."""
    findings = []
    for section in sections:
        (_, label), (heading, _, headline) = _about(section), section.splitlines()[:3]
        title = heading.removeprefix("## ")
        findings.append(f"- [{title}](#{_anchor(title)}) ({label}). {finding(headline.strip('*'))}")
    return "\n".join([INTRODUCTION, *findings, "", *sections])


def finding(headline: str) -> str:
    """A headline in words: without the brackets that hold numbers or explain them.

    >>> finding("Ours is better (MSE 0.1 (0.02) against 0.2 (0.03)) on all streams (simulated ones).")
    'Ours is better on all streams (simulated ones).'
    """
    innermost, count = re.compile(r" \((?!as published)(?:[^()]*\d|in brackets:)[^()]*\)"), 1
    while count:
        headline, count = innermost.subn("", headline)
    return headline


def _about(section: str) -> tuple[str, str]:
    """Name and label in the paper of a section's target."""
    found = re.search(r"^`([a-z-]+)` \((.*)\), made by ", section, flags=re.MULTILINE)
    assert found, section[:200]
    return found[1], found[2]


def _anchor(title: str) -> str:
    """As Markdown renderers make it from a heading."""
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c in "-_")
