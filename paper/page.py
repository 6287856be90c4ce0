"""A finished target as a Markdown page and a CSV, and all pages as one."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from .target import Options, Result, Row, Target


def command(target: Target, options: Options) -> str:
    """What to type to get this page again.

    >>> from pathlib import Path
    >>> command(Target("costs", "", "", None), Options(Path("out"), quick=True))
    'mfbocd reproduce costs --seed 1 --quick'
    """
    words = ["mfbocd reproduce", target.name, f"--seed {options.seed}"]
    words += [f"--trials {options.trials}"] if options.trials else []
    words += ["--quick"] if options.quick else []
    words += ["--as-published"] if options.as_published else []
    words += [f"--{name} {path}" for name, path in options.given.items()]
    return " ".join(words)


def markdown(target: Target, result: Result, options: Options, *, folder: str = "", level: int = 1) -> str:
    """The page; `folder` is where its figures lie, seen from the page."""
    head = "#" * level
    lines = [f"{head} {target.title}", "", f"**{result.headline}**", ""]
    where = f" ({target.paper})" if target.paper else ""
    lines += [f"`{target.name}`{where}, made by `{command(target, options)}`.", ""]
    for stem, caption in result.figures:
        lines += [f"![{caption}]({folder}{stem}.png)", "", f"*{caption}*", ""]
    if result.rows:
        lines += [*table(result.rows), ""]
    for title, text in result.sections:
        lines += [f"{head}# {title}", "", text.strip(), ""]
    lines += [f"{head}# Protocol", "", *(f"- {line}" for line in result.protocol), ""]
    return "\n".join(lines)


def table(rows: Sequence[Row]) -> list[str]:
    """Published, ours and the verdict, side by side."""
    keys = list(dict.fromkeys(key for row in rows for key in row.keys))
    several = len({row.engine for row in rows}) > 1
    heads = [*keys, "measure", *(["engine"] if several else []), "published", "ours", "verdict"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for row in rows:
        cells = [str(row.keys.get(key, "")) for key in keys]
        cells += [row.what, *([row.engine] if several else [])]
        cells += ["-" if row.published is None else str(row.published), str(row.ours), row.verdict]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def to_csv(path: Path, rows: Sequence[Row]) -> None:
    """One row a number."""
    keys = list(dict.fromkeys(key for row in rows for key in row.keys))
    heads = ("measure", "engine", "published", "published_2se", "ours", "ours_2se", "apart", "verdict")
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*keys, *heads])
        for row in rows:
            theirs = (None, None) if row.published is None else (row.published.value, row.published.two_se)
            numbers = (*theirs, row.ours.value, row.ours.two_se, row.apart)
            told = ["" if n is None else f"{n:.8g}" for n in numbers]
            writer.writerow([*(row.keys.get(key, "") for key in keys), row.what, row.engine, *told, row.verdict])


def write(target: Target, result: Result, options: Options) -> Path:
    """The target's page and table under ``options.out``; returns the page."""
    options.out.mkdir(parents=True, exist_ok=True)
    to_csv(options.out / f"{target.name}.csv", result.rows)
    page = options.out / f"{target.name}.md"
    page.write_text(markdown(target, result, options))
    return page


def together(out: Path, made: Sequence[tuple[Target, Result, Options]]) -> Path:
    """All pages as one, beside the folder `out` that holds their figures."""
    lines = [
        "# The paper, reproduced",
        "",
        "Every table and figure of [the paper](https://arxiv.org/abs/2103.14224), by `mfbocd reproduce all`.",
        "Brackets hold two standard errors; two numbers agree if they are at most two standard errors of their",
        "difference apart. Of many agreements at this level a few are bound to fail by chance.",
        "",
        "| target | the paper's | what came out |",
        "|---|---|---|",
    ]
    for target, result, _ in made:
        lines.append(f"| [{target.name}](#{_anchor(target.title)}) | {target.paper} | {result.headline} |")
    lines.append("")
    for target, result, options in made:
        lines.append(markdown(target, result, options, folder=f"{out.name}/{target.name}/", level=2))
    page = out.with_suffix(".md")
    page.write_text("\n".join(lines))
    return page


def _anchor(title: str) -> str:
    """As Markdown renderers make it from a heading."""
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c in "-_")
