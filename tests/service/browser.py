"""A real headless Chromium, for pages that must work in one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ..parts import PATIENCE, absent


@dataclass
class Visit:
    """An open page, its console messages and its network requests."""

    page: Any
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")  # closed before the next file's tests: Playwright's event loop bars any other
def browser() -> Iterator[Any]:
    """Chromium; without it the tests are skipped, but fail on CI, where it must be."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        absent("chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Visit]]:
    """Opens a file, or an address, in a window so wide, and listens from the beginning."""
    opened = []

    def open_page(target: Path | str, width: int = 1200) -> Visit:
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.set_default_timeout(1000 * PATIENCE)  # milliseconds: a browser is slow next to busy processes
        opened.append(page)
        seen = Visit(page)
        page.on("console", lambda message: seen.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: seen.said.append(f"error: {error}"))
        page.on("request", lambda asked: seen.asked.append(asked.url))
        page.goto(target.as_uri() if isinstance(target, Path) else target)
        return seen

    yield open_page
    for page in opened:
        page.close()
