"""`python -m paper` as a whole program."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from paper.__main__ import main
from paper.streams.families import FAMILIES
from paper.targets import NAMES

from ..cli.program import call
from ..parts import PATIENCE
from .helpers import environment

pytestmark = pytest.mark.slow


def paper(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in this process: a separate one imports and loads the kernels for seconds."""
    return call(main, "python -m paper", *arguments, cwd=cwd)


def process(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as a separate process."""
    command = [sys.executable, "-m", "paper", *arguments]
    return subprocess.run(
        command, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def test_the_targets_are_listed_in_the_papers_order(tmp_path: Path) -> None:
    done = process("--list", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(NAMES)
    assert "fig:mf_posterior_illustration" in lines[0]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table-9"], "'table-9' is none of mf-posterior, "),
        ([], "name a target, or `all`: mf-posterior, "),
        (["costs", "--clips", "."], "--clips is not for costs"),
        (["all", "--clips", "."], "--clips is not for all"),
        (["costs", "--trials", "1"], "1 is not in the range x>=2"),
        (["costs", "--seed", "-1"], "-1 is not in the range x>=0"),
    ],
)
def test_a_wrong_call_is_explained_and_writes_nothing(tmp_path: Path, arguments: list[str], message: str) -> None:
    done = paper(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
    assert list(tmp_path.iterdir()) == []


def test_a_quick_target_writes_its_figure_table_and_page_and_prints_the_page(tmp_path: Path) -> None:
    done = process("mf-posterior", "--quick", "--out", "here", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "here" / "mf-posterior"
    assert sorted(p.name for p in folder.iterdir()) == [f"mf-posterior.{end}" for end in ("csv", "md", "pdf", "png")]
    page = (folder / "mf-posterior.md").read_text()
    assert done.stdout == page + "\n"
    assert page.splitlines()[2].startswith("**At zeta 0 and 100 % low fidelity the posterior is exactly the prior")
    assert "made by `python -m paper mf-posterior --seed 1 --quick`" in page
    assert "wrote here/mf-posterior/mf-posterior.md" in done.stderr
    assert (folder / "mf-posterior.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert (folder / "mf-posterior.pdf").read_bytes()[:5] == b"%PDF-"
    with (folder / "mf-posterior.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 30
    assert {row["verdict"] for row in rows} == {"agrees to the digits printed"}


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(tmp_path: Path) -> None:
    command = ["mi-illustration", "--quick", "--trials", "2", "--as-published", "--jobs", "1"]
    folders = []
    for run, out, seed in ((paper, "one", "5"), (process, "two", "5"), (paper, "three", "6")):
        done = run(*command, "--seed", seed, "--out", out, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        folders.append(tmp_path / out / "mi-illustration")
    one, two, three = folders
    names = sorted(p.name for p in one.iterdir() if p.is_file())
    ends = ("csv", "md")
    assert names == sorted(
        [f"mi-illustration.{e}" for e in ends] + [f"mi-illustration-as-published.{e}" for e in ("pdf", "png")]
    )
    for name in names:
        assert (one / name).read_bytes() == (two / name).read_bytes(), name
        assert (one / name).read_bytes() != (three / name).read_bytes(), name
    # finished parts are loaded, not computed: a modified one shows
    part = one / ".parts" / "as-published-5.json"
    part.write_text(part.read_text().replace('"MSE": 0.', '"MSE": 9.', 1))
    again = paper(*command, "--seed", "5", "--out", "one", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert (one / "mi-illustration.csv").read_bytes() != (two / "mi-illustration.csv").read_bytes()


def test_a_small_frontier_resumes(tmp_path: Path) -> None:
    command = ["frontier", "--quick", "--trials", "6", "--family", "gaussian-half", "--jobs", "1"]
    done = paper(*command, "--out", "f", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "# What choosing saves" in done.stdout
    assert "## Where the default is worse than random" in done.stdout
    folder = tmp_path / "f" / "frontier"
    with (folder / "frontier.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["measure"] == "mse"]
    assert {(row["rule"], row["gain"]) for row in rows} == {
        (r, g) for r in ("rate", "budget") for g in ("run_length", "joint")
    }
    assert len(rows) == 8
    default = [row for row in rows if row["rule"] == "budget" and row["gain"] == "joint"]
    assert all(abs(float(row["low"]) - float(row["target_low"])) < 0.1 for row in default)
    assert (folder / "frontier.png").stat().st_size > 10_000
    # finished parts are not computed again: a modified part shows in the page
    part = folder / ".parts" / "gaussian-half-budget-joint.json"
    part.write_text(part.read_text().replace('"low": 0.', '"low": 0.9', 1))
    again = paper(*command, "--out", "f", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert again.stdout != done.stdout


def test_an_unknown_family_is_named(tmp_path: Path) -> None:
    done = paper("frontier", "--family", "nonsense", cwd=tmp_path)
    assert done.returncode == 1
    assert f"family must be one of {', '.join(FAMILIES)}, not 'nonsense'" in " ".join(done.stderr.split())


def test_docs_are_updated_on_request(tmp_path: Path) -> None:
    done = paper("mf-posterior", "--out", "out", "--docs", "docs", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "wrote docs/paper.md" in done.stderr
    assert (tmp_path / "docs" / "paper" / "mf-posterior" / "mf-posterior.png").exists()
    assert (tmp_path / "docs" / "paper.md").read_text().startswith("# The paper, reproduced\n")
