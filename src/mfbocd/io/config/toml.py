"""Read TOML files; write a configuration as TOML with comments, which the standard library cannot."""

from __future__ import annotations

import json
import re
import textwrap
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .kinds import ConfigError
from .maxima import TOO_DEEP

WIDTH = 100


def read_toml(path: str | Path) -> dict[str, Any]:
    """Return the contents of a TOML file.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    dict[str, Any]
        Its keys and values.

    Raises
    ------
    ConfigError
        If the file is not TOML; the message names the file.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "mf.toml"
    >>> _ = file.write_text("hazard = 0.01")
    >>> read_toml(file)
    {'hazard': 0.01}
    """
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None
    except RecursionError:
        raise ConfigError(f"{path}: {TOO_DEEP}") from None


def value(given: Any) -> str:
    """Return a plain value as TOML.

    Parameters
    ----------
    given : Any
        A bool, number, text, list or mapping.

    Returns
    -------
    str
        The TOML text.

    Raises
    ------
    TypeError
        If TOML has no such value.

    Examples
    --------
    >>> print(value({"name": "gps", "cap": [400.0, 20], "on": True}))
    { name = "gps", cap = [400.0, 20], on = true }
    """
    if isinstance(given, bool):
        return "true" if given else "false"
    if isinstance(given, (int, float)):
        return repr(given)
    if isinstance(given, str):
        return json.dumps(given, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(given, Mapping):
        inside = ", ".join(f"{key(k)} = {value(v)}" for k, v in given.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(given, list):
        return f"[{', '.join(map(value, given))}]"
    raise TypeError(f"TOML has no value for {given!r}")


def key(name: str) -> str:
    """Return a key, quoted if necessary.

    Parameters
    ----------
    name : str
        The key.

    Returns
    -------
    str
        The TOML text.

    Examples
    --------
    >>> key("zeta"), key("gps 2")
    ('zeta', '"gps 2"')
    """
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else value(name)


def comment(text: str) -> list[str]:
    """Return a comment, wrapped to 100 characters; line breaks are kept.

    Parameters
    ----------
    text : str
        The comment.

    Returns
    -------
    list[str]
        Its lines.

    Examples
    --------
    >>> comment("why")
    ['# why']
    """
    lines = []
    for line in text.splitlines():
        lines += textwrap.wrap(line, WIDTH, break_long_words=False, break_on_hyphens=False) or [""]
    return [f"# {line}".rstrip() for line in lines]


def document(given: Mapping[str, Any], notes: Mapping[str, str]) -> str:
    """Return a TOML document: plain values first, then the tables, with lists of tables as ``[[name]]``.

    A table in a table that names a kind, such as a model in a model, gets its own heading.

    Parameters
    ----------
    given : Mapping[str, Any]
        The values.
    notes : Mapping[str, str]
        Comments by dotted key, written above the key; ``""`` is the comment at the top.

    Returns
    -------
    str
        The document.
    """
    lines = [*comment(notes[""]), ""] if "" in notes else []

    def pairs(path: str, table: Mapping[str, Any]) -> None:
        for name, inner in table.items():
            lines.extend(comment(notes.get(f"{path}{name}", "")))
            lines.append(f"{key(name)} = {value(inner)}")

    def many(inner: Any) -> bool:
        return isinstance(inner, list) and bool(inner) and all(isinstance(v, Mapping) for v in inner)

    def table(path: str, heading: str, row: Mapping[str, Any]) -> None:
        lines.extend(["", *comment(notes.get(path, "")), heading])
        single = not heading.startswith("[[")
        parts = [name for name, inner in row.items() if single and isinstance(inner, Mapping) and "kind" in inner]
        pairs(f"{path}.", {name: inner for name, inner in row.items() if name not in parts})
        for name in parts:
            table(f"{path}.{name}", f"{heading[:-1]}.{key(name)}]", row[name])

    tables = {n for n, inner in given.items() if isinstance(inner, Mapping) or many(inner)}
    pairs("", {n: inner for n, inner in given.items() if n not in tables})
    for name, inner in given.items():
        if name not in tables:
            continue
        if many(inner):
            for i, row in enumerate(inner):
                table(f"{name}[{i}]", f"[[{key(name)}]]", row)
        else:
            table(name, f"[{key(name)}]", inner)
    return "\n".join(lines).strip("\n") + "\n"
