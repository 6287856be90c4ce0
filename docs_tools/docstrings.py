"""Descriptions of parameters, read from docstrings."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any

_SECTION = re.compile(r"^(?:Parameters|Attributes)\n-{3,}\n(.*?)(?=^\w[\w ]*\n-{3,}\n|\Z)", re.MULTILINE | re.DOTALL)
_ENTRY = re.compile(r"^([\w*]+(?:, [\w*]+)*) : ", re.MULTILINE)


def parameters(thing: Callable[..., Any]) -> dict[str, str]:
    """Return the description of each parameter of a class or function.

    They are taken from the numpydoc section `Parameters` or `Attributes`, else from the string below each field of a
    class.

    >>> parameters(textwrap.wrap)
    {}
    """
    section = _SECTION.search(inspect.getdoc(thing) or "")
    described: dict[str, str] = {}
    if section is not None:
        _, *parts = _ENTRY.split(section[1])
        for names, entry in zip(parts[::2], parts[1::2], strict=True):
            text = " ".join(entry.partition("\n")[2].split()).replace("``", "`")
            described |= dict.fromkeys((name.lstrip("*") for name in names.split(", ")), text)
    if inspect.isclass(thing):
        return fields(thing) | described
    return described


def summary(thing: Callable[..., Any]) -> str:
    """Return the first paragraph of a docstring, on one line."""
    return " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())


def fields(kind: type) -> dict[str, str]:
    """Return the string below each annotated field in the body of a class."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(body, ast.ClassDef)
    described = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            described[field.target.id] = " ".join(str(below.value.value).split())
    return described
