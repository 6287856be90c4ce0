"""Change values in a TOML text and keep everything else: comments, order and layout."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import toml

Path = tuple[str | int, ...]
MARK = "# Calibrated: "
"""Beginning of the comments that `edited` writes above values; the next edit replaces such comments."""
_BLANK = re.compile(r"[ \t]*")
_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(r'"""(?:\\.|[^\\])*?"{3,5}|' r"'''.*?'{3,5}|" r'"(?:\\.|[^"\\\n])*"|' r"'[^'\n]*'", re.DOTALL)
_BARE_VALUE = re.compile(r"[^,\]}#\r\n]+")


class EditError(ValueError):
    """A text cannot be edited in place."""


class Span(NamedTuple):
    """Where a value is in the text."""

    start: int
    end: int
    line: int
    """Start of the line of its key; -1 inside an array or an inline table."""


class Scanner:
    """Finds the values and tables of a TOML text.

    Parameters
    ----------
    text : str
        A valid document: `tomllib` has read it.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.values: dict[Path, Span] = {}
        self.ends: dict[Path, int] = {(): 0}
        """Where a key can be added to a table: the end of its last line."""
        self._counts: dict[Path, int] = {}
        self._scan()

    def _scan(self) -> None:
        at = 0
        table: Path = ()
        while (at := self._skip(_SPACE, at)) < len(self.text):
            line = self.text.rfind("\n", 0, at) + 1
            if self.text[at] == "[":
                many = self.text.startswith("[[", at)
                names, at = self._key(at + 1 + many)
                table = self._table(names, many)
            else:
                names, at = self._key(at)
                at = self._value((*table, *names), self._skip(_BLANK, at + 1), line)
            at = self.line_end(at)
            self.ends[table] = at

    def _table(self, names: tuple[str, ...], many: bool) -> Path:
        path: Path = ()
        for i, name in enumerate(names):
            path = (*path, name)
            if many and i == len(names) - 1:
                self._counts[path] = self._counts.get(path, 0) + 1
            if path in self._counts:
                path = (*path, self._counts[path] - 1)
        return path

    def _skip(self, what: re.Pattern[str], at: int) -> int:
        found = what.match(self.text, at)
        if found is None:
            raise EditError(f"not understood: {self.text[at : at + 40]!r}")
        return found.end()

    def beside(self, table: Path) -> Span | None:
        """Return a value of a table that is written with dotted keys and has no heading; None if there is none."""
        if table in self.ends:
            return None
        inside = [s for path, s in self.values.items() if path[:-1] == table and s.line >= 0]
        return inside[-1] if inside else None

    def line_end(self, at: int) -> int:
        """Return the start of the next line."""
        end = self.text.find("\n", at)
        return len(self.text) if end < 0 else end + 1

    def _key(self, at: int) -> tuple[tuple[str, ...], int]:
        """Return a dotted key, and the position after it and the blanks that follow."""
        names: list[str] = []
        while True:
            at = self._skip(_BLANK, at)
            pattern = _STRING if self.text[at] in "\"'" else _BARE_KEY
            end = self._skip(pattern, at)
            part = self.text[at:end]
            names.append(part if pattern is _BARE_KEY else tomllib.loads(f"x = {part}")["x"])
            at = self._skip(_BLANK, end)
            if self.text[at] != ".":
                return tuple(names), at
            at += 1

    def _value(self, path: Path, at: int, line: int) -> int:
        """Note a value and those inside it; returns the position after it."""
        start, first = at, self.text[at]
        if first in "[{":
            close = "]" if first == "[" else "}"
            at, i = self._skip(_SPACE, at + 1), 0
            while self.text[at] != close:
                names: Path = (i,)
                if first == "{":
                    names, at = self._key(at)
                    at = self._skip(_SPACE, at + 1)
                at, i = self._skip(_SPACE, self._value((*path, *names), at, -1)), i + 1
                if self.text[at] == ",":
                    at = self._skip(_SPACE, at + 1)
            at += 1
        elif first in "\"'":
            at = self._skip(_STRING, at)
        else:
            at = self._skip(_BARE_VALUE, at)
            at -= len(self.text[start:at]) - len(self.text[start:at].rstrip())
        self.values[path] = Span(start, at, line)
        return at


def edited(text: str, wanted: Mapping[Path, Any], notes: Mapping[Path, str]) -> str:
    """Return a TOML text with other values.

    Parameters
    ----------
    text : str
        The document.
    wanted : mapping
        New values by path, such as ``("fidelity", 0, "zeta")``; None removes a key; a mapping is a table, of which
        only the keys that differ are changed.
    notes : mapping
        Reasons by path, written as comments above the values in place of those of an earlier edit.

    Returns
    -------
    str
        The document with these changes and no other.

    Raises
    ------
    EditError
        If a value cannot be put into this text without changing more of it.

    Examples
    --------
    >>> print(edited("# by hand\\n[model]\\nmean = 3  # metres\\n", {("model", "mean"): 4.5}, {}), end="")
    # by hand
    [model]
    mean = 4.5  # metres
    """
    found, before = Scanner(text), tomllib.loads(text)
    changes: list[tuple[int, int, str]] = []
    for path, value in _leaves(before, wanted).items():
        _change(found, path, value, notes.get(path, notes.get(path[:-1], "")), changes)
    out = text
    # from the end, so that positions stay valid; what is inserted at one place keeps its order
    order = sorted(range(len(changes)), key=lambda i: (*changes[i][:2], i), reverse=True)
    for start, end, new in (changes[i] for i in order):
        out = out[:start] + new + out[end:]
    after = tomllib.loads(out)
    for path, value in wanted.items():
        if _at(after, path) != value:
            raise EditError(f"{'.'.join(map(str, path))} cannot be set without rewriting the file")
    return out


def _leaves(before: Any, wanted: Mapping[Path, Any]) -> dict[Path, Any]:
    """Return the changes of single keys; a table that is new stays whole."""
    found: dict[Path, Any] = {}
    for path, value in wanted.items():
        old = _at(before, path)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            found |= {(*path, k): value.get(k) for k in {**old, **value} if value.get(k) != old.get(k)}
        elif value != old:
            found[path] = value
    # new tables come last: a key after the heading of another table would be part of that
    return dict(sorted(found.items(), key=lambda change: isinstance(change[1], Mapping)))


def _at(tables: Any, path: Path) -> Any:
    for part in path:
        try:
            tables = tables[part]
        except (KeyError, IndexError, TypeError):
            return None
    return tables


def _change(found: Scanner, path: Path, value: Any, note: str, changes: list[tuple[int, int, str]]) -> None:
    text, span, parent = found.text, found.values.get(path), path[:-1]
    if span is not None and value is not None:
        changes.append((span.start, span.end, toml.value(value)))
        if note and span.line >= 0:
            changes.append((_old_note(text, span.line), span.line, _comment(note)))
    elif span is not None and span.line >= 0:
        changes.append((_old_note(text, span.line), found.line_end(span.end), ""))
    elif value is None:
        raise EditError(f"{'.'.join(map(str, path))} cannot be removed from a table that is written in one line")
    elif parent in found.values:
        inside = text[: found.values[parent].end - 1].rstrip()
        separator = " " if inside.endswith("{") else ", "
        changes.append((len(inside), len(inside), f"{separator}{toml.key(str(path[-1]))} = {toml.value(value)}"))
    elif (beside := found.beside(parent)) is not None:
        at = found.line_end(beside.end)
        before_name = text[beside.line : beside.start].rpartition(".")[0]
        changes.append((at, at, f"{_comment(note)}{before_name}.{toml.key(str(path[-1]))} = {toml.value(value)}\n"))
    elif parent in found.ends:
        at = found.ends[parent]
        lead = "" if at == 0 or text[at - 1] == "\n" else "\n"
        if isinstance(value, Mapping):  # a new table, at the end
            at = len(text)
            lead = "\n" if text.endswith("\n") else "\n\n"
            body = toml.document({str(path[-1]): value}, {})
        else:
            body = f"{toml.key(str(path[-1]))} = {toml.value(value)}\n"
        changes.append((at, at, lead + _comment(note) + body))
    else:
        raise EditError(f"{'.'.join(map(str, path))} has no place in this file")


def _comment(note: str) -> str:
    """Return a comment whose further lines are indented, so that it can be found again."""
    if not note:
        return ""
    first, *rest = toml.comment(MARK.removeprefix("# ") + note)
    return "".join(f"{line}\n" for line in [first, *(line.replace("# ", "#   ", 1) for line in rest)])


def _old_note(text: str, line: int) -> int:
    """Return where the comment of an earlier edit above a line begins; the line itself if there is none."""
    at = line
    while at > 0:
        above = text.rfind("\n", 0, at - 1) + 1
        if text.startswith(MARK, above):
            return above
        if not text.startswith("#   ", above):
            return line
        at = above
    return line
