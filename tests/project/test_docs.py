"""The commands in the docs print what the docs say they print, and the site builds without a warning."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from docs_tools import blocks, commands, configuration, docstrings, types
from docs_tools.__main__ import PAGES, REFERENCE
from mfbocd.io.config import Config, model_kinds, policy_kinds
from mfbocd.io.config.validation import KEYS
from mfbocd.service.settings import Settings

from ..cli.program import mfbocd
from ..parts import PATIENCE, needed
from ..service.service import free_port

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
ENV = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "100"}
NOT_HERE = ("apt-get ", "pip install", "make ", "source ")
"""Beginnings of commands that install, or that other tests run."""


def printed(command: str, folder: Path) -> str:
    """Return what a command prints, stderr before stdout; run it in this process if it needs no shell."""
    if re.fullmatch(r"mfbocd [^|&;<>$`]+", command):
        done = mfbocd(*shlex.split(command)[1:], cwd=folder)
    else:
        done = in_shell(command, folder)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    compiling = re.compile(r"^Compiling kernels, once .*\n", re.MULTILINE)  # depends on what ran before
    return compiling.sub("", done.stderr) + done.stdout


def in_shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in bash."""
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        env=ENV,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@contextmanager
def served(command: str, folder: Path) -> Iterator[str]:
    """Run a service; yields its first message, which means that it is ready."""
    with subprocess.Popen(["bash", "-c", f"exec {command}"], cwd=folder, env=ENV, stderr=subprocess.PIPE) as process:
        try:
            assert process.stderr is not None
            message = process.stderr.readline().decode()
            assert message.startswith("Serving http"), message
            yield message
        finally:
            process.terminate()


def test_the_commands_of_the_service_page_work(tmp_path: Path) -> None:
    needed("curl")
    port = str(free_port())
    before, seen = "", []
    with ExitStack() as services:
        page = blocks.blocks((ROOT / "docs/service.md").read_text())
        listed = [line for block in page if block.language == "sh" for line in blocks.shell_commands(block.text)]
        for command, remark in listed:
            command = command.replace("8000", port)
            seen.append(" ".join(command.split()[:2]))
            if command.startswith("pip install"):
                continue
            if command.startswith("mfbocd serve"):
                services.enter_context(served(f"{command} --port {port}", tmp_path))
            elif re.match(r"\w+=", command):
                before += f"{command}\n"
            elif command.startswith("curl -N"):  # it runs until the time limit
                got = printed(f"{before}{command} -s --max-time 2 || test $? = 28", tmp_path)
                assert "event: step\ndata: {" in got
            else:
                got = printed(before + command.replace("curl", "curl -s"), tmp_path)
                assert '"error"' not in got, f"{command}: {got}"
                if remark.startswith("{"):
                    assert doctest.OutputChecker().check_output(remark, got, blocks.SAME), f"{command}\n{got}"
    assert seen.count("mfbocd state") == 3
    assert seen.count("mfbocd token") == 3
    assert seen.count("curl -X") == 3
    assert "walk" in (tmp_path / "all.jsonl").read_text()


ELSEWHERE = {
    "service.md": "its commands share a service, see above",
    "scale.md": "a cluster; `tests/adapters/test_spark.py` and `tests/paper` run what it describes",
    "operations.md": "containers and clusters; `tests/service` and `test_deploy.py` check the files in deploy/",
    "peers.md": "benchmarks of hours; `test_accuracy_benchmarks.py` runs short ones",
}
"""Pages whose commands are not run as they are."""


def pages_with_commands() -> list[str]:
    """Pages with shell blocks."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    listed = [path for path in pages if any(blocks.shell_sessions(path.read_text()))]
    assert {path.name for path in listed} >= ELSEWHERE.keys()
    return [str(path.relative_to(ROOT)) for path in listed if path.name not in ELSEWHERE]


@pytest.mark.parametrize("page", pages_with_commands())
def test_commands_print_the_output_of_the_page(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if page == "docs/firmware.md":
        needed("arm-none-eabi-gcc")
        needed("qemu-system-arm")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.setenv("PATH", ENV["PATH"])
    port = str(free_port())
    sessions = list(blocks.shell_sessions((ROOT / page).read_text().replace(":8000", f":{port}")))
    with ExitStack() as services:
        for commands, expected in sessions:
            got = ""
            for command in commands:
                if command.startswith("mfbocd serve"):
                    got += services.enter_context(served(f"{command.rstrip(' &')} --port {port}", tmp_path))
                elif not command.startswith(NOT_HERE):
                    got += printed(command, tmp_path)
            assert doctest.OutputChecker().check_output(expected, got, blocks.SAME), f"{commands}\n{got}"


@pytest.mark.parametrize("module", [blocks, commands, docstrings, types])
def test_the_generators_own_examples(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("name", PAGES)
def test_generated_pages_are_up_to_date(name: str) -> None:
    assert (REFERENCE / name).read_text(encoding="utf-8") == PAGES[name](), "run `make reference`"


def test_every_configuration_key_has_a_description() -> None:
    assert configuration.undescribed() == set()


def test_every_accepted_key_is_in_the_reference() -> None:
    documented = {section.path: {key.name for key in section.keys} for section in configuration.sections()}
    assert documented[""] == set(KEYS)
    assert {path.partition(".")[2] for path in documented if path.startswith("model.")} == set(model_kinds())
    assert {path.partition(".")[2] for path in documented if path.startswith("policy.")} == set(policy_kinds())


def test_examples_of_the_configuration_load(tmp_path: Path) -> None:
    blocks = re.findall(
        r"^```toml\n(.*?)^```", (REFERENCE / "configuration.md").read_text(), re.MULTILINE | re.DOTALL
    )
    assert len(blocks) == sum(bool(section.example) for section in configuration.sections()) + 1
    rest = tomllib.loads(blocks[0])
    for block in blocks:
        given = tomllib.loads(block)
        if "serve" in given:
            (tmp_path / "serve.toml").write_text(block)
            settings = Settings.load(tmp_path / "serve.toml")
            assert set(settings.observers) >= set(given["serve"]["observers"])
            continue
        Config.parse(given if "model" in given else rest | given)
    assert set(model_kinds()) == {b["model"]["kind"] for block in blocks if "model" in (b := tomllib.loads(block))}


def test_every_page_is_in_the_navigation() -> None:
    listed = re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text())
    there = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert {p for p in there if not p.startswith("paper/")} - set(listed) == set()
    assert len(listed) == len(set(listed))


def test_files_and_packages_in_the_contributors_guide_exist() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"`((?:\w+/)+(?:\w+\.\w+)?)`", guide))
    assert len(named) > 40
    assert [name for name in named if not (ROOT / name).exists() and not (ROOT / "src/mfbocd" / name).exists()] == []
    packages = {path.parent.name for path in (ROOT / "src/mfbocd").glob("*/__init__.py")}
    assert [name for name in packages if f"| `{name}/` |" not in guide] == []


def test_every_family_and_policy_is_in_the_docs() -> None:
    import mfbocd as mf

    models = (ROOT / "docs" / "models.md").read_text()
    reference = "".join(path.read_text() for path in (ROOT / "docs" / "reference").glob("*.md"))
    families = [name for name in mf.models.__all__ if name != "Model"]
    assert [name for name in families if f"`{name}" not in models] == []
    assert [name for name in families if name not in reference] == []
    readme = (ROOT / "README.md").read_text()
    assert [name for name in families if f"`{name}`" not in readme] == []


def test_the_reference_has_every_method_of_the_main_classes() -> None:
    import mfbocd as mf

    pages = {"detector.md": {"Detector": mf.Detector, "Fleet": mf.Fleet}, "models.md": {"models.Model": mf.Model}}
    for page, kinds in pages.items():
        text = (ROOT / "docs" / "reference" / page).read_text()
        for name, kind in kinds.items():
            inherits = any(base.__module__.startswith("mfbocd") for base in kind.__mro__[1:])
            entry = text.partition(f"::: mfbocd.{name}\n")[2].partition(":::")[0]
            assert not inherits or "inherited_members: true" in entry
