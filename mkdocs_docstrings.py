"""For the reference pages: docstrings as they are written here, turned into Markdown.

Examples stand in the text without a heading, and parameters are explained in a line each, without their types.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_SECTION = re.compile(r"^(\w+)\n-{3,}$", re.MULTILINE)
_CODE = re.compile(r"(`+[^`]*`+)")
_ENTRY = re.compile(r"^(\w+(?:, \w+)*): ", re.MULTILINE)


def markdown(text: str) -> str:
    """Examples in fences, sections as bold words, their entries as a list; a bracket is a bracket, never a link.

    >>> markdown("Adds.\\n\\nParameters\\n----------\\na, b: x[0].\\n\\n>>> [1]\\n[1]").split("\\n\\n")
    ['Adds.', '**Parameters**', '- `a, b`: x\\\\[0].', '```pycon\\n>>> [1]\\n[1]\\n```']
    """
    paragraphs, entries = [], False
    for paragraph in re.split(r"\n{2,}", text.strip()):
        if paragraph.lstrip().startswith(">>>"):
            paragraphs.append(f"```pycon\n{paragraph}\n```")
            continue
        if heading := _SECTION.match(paragraph):
            paragraphs.append(f"**{heading[1]}**")
            paragraph, entries = paragraph[heading.end() :].strip(), True
        elif entries and not _ENTRY.match(paragraph):
            entries = False
        paragraph = _ENTRY.sub(r"- `\1`: ", paragraph) if entries else paragraph
        paragraphs.append(paragraph if paragraph.startswith("    ") else _literal(paragraph))
    return "\n\n".join(paragraphs)


def _literal(paragraph: str) -> str:
    parts = _CODE.split(paragraph)  # every second one is code
    return "".join(part if i % 2 else part.replace("[", r"\[") for i, part in enumerate(parts))


class Docstrings(griffe.Extension):
    """Every docstring of the package, as it is loaded."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite it."""
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)
