"""For the reference pages: rewrites docstrings that are not yet numpydoc; delete it once all of them are."""

from __future__ import annotations

import re
from typing import Any

import griffe

_PARAMETERS = re.compile(r"^Parameters\n-{3,}\n(?:.+\n?)*", re.MULTILINE)
_ENTRY = re.compile(r"^(\w+(?:, \w+)*): (?=\S)", re.MULTILINE)
_EXAMPLE = re.compile(r"(?:\A|\n\n)(?=>>>)")


def numpydoc(text: str) -> str:
    """Put parameters as ``name`` lines with indented descriptions, and examples in a section.

    >>> numpydoc("Adds.\\n\\nParameters\\n----------\\na, b: terms.\\n\\n>>> 1 + 1\\n2").split("\\n\\n")
    ['Adds.', 'Parameters\\n----------\\na, b\\n    terms.', 'Examples\\n--------\\n>>> 1 + 1\\n2']
    """
    text = _PARAMETERS.sub(lambda section: _ENTRY.sub(r"\1\n    ", section[0]), text)
    return text if "Examples\n---" in text else _EXAMPLE.sub("\n\nExamples\n--------\n", text, count=1)


class Docstrings(griffe.Extension):
    """Rewrite every docstring of the package as it is loaded."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = numpydoc(obj.docstring.value)
