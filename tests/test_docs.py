"""The commands in the docs print what the docs say they print, and the site builds without a warning."""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def shell_sessions(page: str) -> Iterator[tuple[str, str]]:
    """Commands of the page's ```console blocks, and the output that stands below each."""
    for block in re.findall(r"^```console\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL):
        for entry in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = entry.partition("\n")
            yield command, printed


def told(command: str, folder: Path) -> str:
    """What a command says in a shell, talk and data together, the talk first."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        env=os.environ | {"PATH": path, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stderr + done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("page", ["docs/quickstart.md", "README.md"])
def test_commands_print_what_the_page_says(page: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    sessions = list(shell_sessions(page))
    assert sessions
    for command, printed in sessions:
        got = told(command, tmp_path)
        assert doctest.OutputChecker().check_output(printed, got, SAME), f"$ {command}\n{got}"


def test_every_page_is_in_the_navigation() -> None:
    listed = re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text())
    there = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert {p for p in there if not p.startswith("paper/")} - set(listed) == set()
    assert len(listed) == len(set(listed))


def test_every_family_and_policy_is_in_the_docs() -> None:
    import mfbocd as mf

    models = (ROOT / "docs" / "models.md").read_text()
    reference = "".join(path.read_text() for path in (ROOT / "docs" / "reference").glob("*.md"))
    families = [name for name in mf.models.__all__ if name != "Model"]
    assert [name for name in families if f"`{name}" not in models] == []
    assert [name for name in families if name not in reference] == []
    readme = (ROOT / "README.md").read_text()
    assert [name for name in families if f"`{name}`" not in readme] == []


def test_docstrings_become_markdown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    import mkdocs_docstrings

    assert doctest.testmod(mkdocs_docstrings) == (0, 1)
