"""The commands in the docs print what the docs say they print, and the site builds without a warning."""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ..parts import PATIENCE, needed
from ..service.service import free_port

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
ENV = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "100"}
SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def shell_sessions(page: str) -> Iterator[tuple[str, str]]:
    """Commands of the page's ```console blocks, and the output that stands below each."""
    for block in re.findall(r"^```console\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL):
        for entry in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = entry.partition("\n")
            yield command, printed


def told(command: str, folder: Path) -> str:
    """What a command says in a shell, talk and data together, the talk first."""
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        env=ENV,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stderr + done.stdout


def shell_commands(page: str) -> Iterator[tuple[str, str]]:
    """Commands of the page's ```sh blocks, which may go over several lines, and the remark behind each."""
    for block in re.findall(r"^```sh\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL):
        lines: list[str] = []
        for line in block.splitlines():
            lines.append(line)
            if "\n".join(lines).count("'") % 2 == 0:
                command, _, remark = "\n".join(lines).partition("  # ")
                yield command.strip(), remark.strip()
                lines = []
        assert not lines, "a quote is not closed"


@contextmanager
def served(command: str, folder: Path) -> Iterator[None]:
    """A service that has said that it serves."""
    with subprocess.Popen(["bash", "-c", f"exec {command}"], cwd=folder, env=ENV, stderr=subprocess.PIPE) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            assert said.startswith(b"Serving http"), said
            yield
        finally:
            process.terminate()


def test_the_service_can_be_followed_on_its_page(tmp_path: Path) -> None:
    needed("curl")
    port = str(free_port())
    before, seen = "", []
    with ExitStack() as services:
        for command, remark in shell_commands("docs/service.md"):
            command = command.replace("8000", port)
            seen.append(" ".join(command.split()[:2]))
            if command.startswith("pip install"):
                continue
            if command.startswith("mfbocd serve"):
                services.enter_context(served(f"{command} --port {port}", tmp_path))
            elif re.match(r"\w+=", command):
                before += f"{command}\n"
            elif command.startswith("curl -N"):  # it ends when it is told to
                got = told(f"{before}{command} -s --max-time 2 || test $? = 28", tmp_path)
                assert "event: step\ndata: {" in got
            else:
                got = told(before + command.replace("curl", "curl -s"), tmp_path)
                assert '"error"' not in got, f"{command}: {got}"
                if remark.startswith("{"):
                    assert doctest.OutputChecker().check_output(remark, got, SAME), f"{command}\n{got}"
    assert seen.count("mfbocd state") == 3
    assert seen.count("mfbocd token") == 3
    assert seen.count("curl -X") == 3
    assert "walk" in (tmp_path / "all.jsonl").read_text()


def test_the_limits_of_the_service_are_on_its_page() -> None:
    from mfbocd.service.limits import Limits

    page = (ROOT / "docs/service.md").read_text()
    said = dict(re.findall(r"^\| `(\w+)` \| ([\d.]+) \|", page, re.MULTILINE))
    assert {name: float(value) for name, value in said.items()} == vars(Limits())


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
