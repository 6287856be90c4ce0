r"""Code blocks of the documentation: without prompts, so that they run as pasted, and with output that is tested.

- A ```` ```python ```` block shows the output of a statement below it, in lines that begin with ``#>``.
- The output of a ```` ```sh ```` block is the ```` ```text ```` block that follows it directly.

``...`` stands for any text in both.
"""

from __future__ import annotations

import ast
import doctest
import re
import textwrap
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
"""How outputs are compared."""
_FENCED = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^ *```[ \t]*\n?", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A code block: its language, its text, the line of its first line, from 0, and whether one follows directly."""

    language: str
    text: str
    line: int
    following: Block | None = None


class Session(NamedTuple):
    """Shell commands, and what they print together."""

    commands: list[str]
    output: str


def blocks(page: str) -> list[Block]:
    r"""Return the code blocks of a page.

    >>> [(block.language, block.text) for block in blocks("Text\n```sh\nls\n```\n\n```text\na.csv\n```\n")]
    [('sh', 'ls\n'), ('text', 'a.csv\n')]
    """
    found: list[Block] = []
    next_start = len(page)
    for match in reversed(list(_FENCED.finditer(page))):
        follows = found and not page[match.end() : next_start].strip()
        line = page[: match.start(3)].count("\n")
        found.insert(0, Block(match[2], textwrap.dedent(match[3]), line, found[0] if follows else None))
        next_start = match.start()
    return found


def python_examples(page: str) -> list[doctest.Example]:
    r"""Return every statement in the Python blocks of a page, with the output shown below it.

    >>> (example,) = python_examples("```python\nprint(1 + 1)  # a sum\n#> 2\n```\n")
    >>> example.source, example.want
    ('print(1 + 1)  # a sum\n', '2\n')
    """
    return [example for block in blocks(page) if block.language == "python" for example in _examples(block)]


def _examples(block: Block) -> Iterator[doctest.Example]:
    lines = block.text.splitlines()
    statements = ast.parse(block.text).body
    # statements on one line, separated by semicolons, are one example
    starts = [line for line, _ in groupby(_first_line(statement) for statement in statements)]
    for start, end in zip(starts, [*starts[1:], len(lines) + 1], strict=True):
        part = lines[start - 1 : end - 1]
        wanted = [line for line in part if line.startswith("#>")]
        source = [line for line in part if not line.startswith("#>")]
        output = [line[2:].removeprefix(" ") or "<BLANKLINE>" for line in wanted]
        yield doctest.Example("\n".join(source), "\n".join(output), lineno=block.line + start - 1)


def _first_line(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])


def shell_sessions(page: str) -> Iterator[Session]:
    r"""Yield the commands of each shell block of a page, without comments, and the text block that follows directly.

    >>> list(shell_sessions("```sh\necho 'a\nb' # two lines\nls\n```\n\n```text\na\nb\n```\n"))
    [Session(commands=["echo 'a\nb'", 'ls'], output='a\nb\n')]
    """
    for block in blocks(page):
        if block.language == "sh":
            after = block.following
            output = after.text if after is not None and after.language == "text" else ""
            yield Session([command for command, _ in shell_commands(block.text)], output)


def shell_commands(text: str) -> Iterator[tuple[str, str]]:
    """Yield each command, which may span several lines, and the comment after it."""
    lines: list[str] = []
    for line in text.splitlines():
        lines.append(line)
        joined = "\n".join(lines)
        if joined.count("'") % 2 == 0 and not joined.endswith("\\"):
            command, _, remark = joined.partition(" # ")
            lines = []
            if command.strip() and not command.startswith("#"):
                yield command.strip(), remark.strip()
    if lines:
        raise ValueError(f"a quote is not closed: {lines[0]}")
