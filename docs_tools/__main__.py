"""``python -m docs_tools``: write the generated pages of ``docs/reference``."""

from __future__ import annotations

from pathlib import Path

from . import commands, configuration

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
PAGES = {"commands.md": commands.page, "configuration.md": configuration.page}
"""The function that generates each page."""


def main() -> None:
    """Write every page."""
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
