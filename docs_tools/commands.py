"""The reference of the command line: click's own description of every command, and a tested example."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from mfbocd.cli import main

EXAMPLES = Path(__file__).parent / "examples.md"
"""Examples by command. The tests run them as part of the generated page."""

INTRODUCTION = """# Commands

This page is generated from the command line's own help by `make reference`; `mfbocd COMMAND --help` prints the same.
The tests run every example of this page.
"""


def examples() -> dict[str, str]:
    """Return the text below each heading of the file of examples."""
    _, *parts = re.split(r"^## (.+)\n", EXAMPLES.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {name: text.strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}


def commands(group: click.Group = main, path: str = "mfbocd") -> Iterator[tuple[str, click.Command]]:
    """Yield every command with its full name, a group before its members."""
    for name, command in sorted(group.commands.items()):
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")


def help_text(command: click.Command) -> str:
    r"""Return the help of a command as Markdown: a paragraph after ``\b`` is preformatted.

    >>> print(help_text(click.Command("add", help="Add A to B.\n\n\b\nExample:\n  add 1 2")))
    Add A to B.
    <BLANKLINE>
    ```text
    Example:
      add 1 2
    ```
    """
    parts = []
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith("\b\n"):
            parts.append(f"```text\n{textwrap.dedent(paragraph[2:])}\n```")
        else:
            parts.append(" ".join(paragraph.split()))
    return "\n\n".join(parts)


def value_type(kind: dict[str, Any]) -> str:
    """Describe the type of a parameter from click's information about it."""
    if kind["param_type"] == "Choice":
        return " or ".join(f"`{choice}`" for choice in kind["choices"])
    if "min" not in kind:
        return {"String": "text", "Path": "path", "File": "file", "Float": "number", "Int": "integer"}.get(
            kind["param_type"], "text"
        )
    name = "integer" if kind["param_type"] == "IntRange" else "number"
    low, high = kind["min"], kind["max"]
    if low is not None and high is not None:
        return f"{name} in {'(' if kind['min_open'] else '['}{low}, {high}{')' if kind['max_open'] else ']'}"
    return f"{name} {'>' if kind['min_open'] else '>='} {low}"


def options(command: click.Command) -> str:
    """Return the options of a command as a table; empty if there are none."""
    rows = []
    for option in command.params:
        if not isinstance(option, click.Option) or option.hidden:
            continue
        info = option.to_info_dict()
        notes = [info["help"] or ""]
        if info["default"] is not None and not option.is_flag:
            notes.append(f"Default: `{info['default']}`.")
        if info["required"]:
            notes.append("Required.")
        if info["envvar"]:
            notes.append(f"Environment variable: `{info['envvar']}`.")
        kind = "flag" if option.is_flag else value_type(info["type"])
        cells = (", ".join(f"`{name}`" for name in info["opts"]), kind, " ".join(note for note in notes if note))
        rows.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(["| option | value | |", "|---|---|---|", *rows]) if rows else ""


def page() -> str:
    """Return the page as Markdown."""
    shown = examples()
    found = dict(commands())
    groups = {name for name, command in found.items() if isinstance(command, click.Group)}
    if set(shown) != set(found) - groups:
        raise ValueError(f"{EXAMPLES.name} must have one example per command: {set(shown) ^ (set(found) - groups)}")
    parts = [INTRODUCTION + "\n" + help_text(main)]
    for name, command in found.items():
        level = "#" * len(name.split())
        parts.append(f"{level} `{name}`")
        if name in groups:
            parts.append(help_text(command))
            continue
        with click.Context(command, info_name=name) as context:
            usage = " ".join([name, *command.collect_usage_pieces(context)])
        parts += [f"```text\n{usage}\n```", help_text(command), options(command), shown[name]]
    return "\n\n".join(part for part in parts if part) + "\n"
