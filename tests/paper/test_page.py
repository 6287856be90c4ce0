"""The framework: verdicts, pages, tables, and parts from which a later run resumes."""

from __future__ import annotations

import csv
import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from paper.framework import (
    Number,
    Options,
    Picture,
    Result,
    Row,
    Target,
    command,
    comparison,
    finish,
    markdown,
    publish,
    sources,
    to_csv,
    write,
)
from paper.targets import NAMES, load

from ..parts import PATIENCE
from .helpers import environment

pytestmark = pytest.mark.slow

OURS = Number(0.82, 0.03)
THEIRS = Number.printed("0.879 (0.034)")


def test_numbers_are_read_as_printed() -> None:
    assert (THEIRS.value, THEIRS.two_se, str(THEIRS)) == (0.879, 0.034, "0.879 (0.034)")
    assert THEIRS.rounding == pytest.approx(0.0005)
    assert Number.printed("465291").rounding == 0.5
    assert Number.printed("465291").two_se is None
    assert Number(0.879).rounding == 0.0  # ours was not rounded
    with pytest.raises(ValueError, match="could not convert"):
        Number.printed("about 3")


def test_the_mean_of_trials_has_two_standard_errors() -> None:
    values = [3.0, 4.5, 1.0, 2.5]
    found = Number.mean_of(values)
    assert found.value == pytest.approx(2.75)
    assert found.two_se == pytest.approx(2.0 * math.sqrt(sum((v - 2.75) ** 2 for v in values) / 3 / 4))
    assert Number.mean_of([5.0]) == Number(5.0, None)


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (Number(0.82341, 0.0312), "0.823 (0.031)"),
        (Number(287.123, 8.35), "287.1 (8.3)"),
        (Number(1234.5, 120.0), "1234 (120)"),
        (Number(0.1234567), "0.1235"),
        (Number(2.0, 0.0), "2"),
        (Number(2.0, math.nan), "2"),
    ],
)
def test_numbers_are_shown_to_the_digits_that_their_error_allows(number: Number, shown: str) -> None:
    assert str(number) == shown


def test_verdicts_count_standard_errors_of_the_difference() -> None:
    apart = (0.059 - 0.0005) / math.hypot(0.015, 0.017)
    assert Row("MSE", OURS, THEIRS).apart == pytest.approx(apart)
    assert Row("MSE", OURS, THEIRS).verdict == f"differs by {apart:.1f} se" == "differs by 2.6 se"
    assert Row("MSE", Number(0.85, 0.03), THEIRS).verdict == "agrees (1.3 se)"
    # the printed digits explain this one
    assert Row("MSE", Number(0.8794, 1e-9), THEIRS).apart == 0.0
    # one error is enough
    assert Row("MSE", Number(0.5, 0.2), Number.printed("0.9")).apart == pytest.approx(3.5)
    # at exactly two standard errors it still agrees
    assert Row("MSE", Number(3.0, 1.0), Number(2.0)).verdict == "agrees (2.0 se)"
    assert Row("MSE", Number(3.1, 1.0), Number(2.0)).verdict == "differs by 2.2 se"


def test_verdicts_without_errors_go_by_the_digits() -> None:
    assert Row("flops", Number(465290.6), Number.printed("465291")).verdict == "agrees to the digits printed"
    assert Row("flops", Number(465290.4), Number.printed("465291")).verdict == "differs by 1.3e-06 of it"
    assert Row("times", Number(128.1), Number.printed("140")).verdict == "differs by 0.085 of it"
    assert Row("mean", Number(0.2), Number.printed("0.0")).verdict == "differs"
    assert Row("mean", Number(0.2)).verdict == "not published"
    assert Row("mean", Number(0.2)).apart is None


ROWS = [
    Row("MSE", OURS, THEIRS, keys={"low, %": 60}),
    Row("MSE", Number(0.86, 0.03), THEIRS, engine="as published", keys={"low, %": 60, "rule": "random"}),
]


def test_the_table_has_a_column_per_key_and_names_the_engine_if_there_are_two() -> None:
    lines = comparison(ROWS).splitlines()
    assert lines[0] == "| low, % | rule | measure | engine | published | ours | verdict |"
    assert lines[1] == "|---|---|---|---|---|---|---|"
    assert lines[2] == "| 60 |  | MSE | library | 0.879 (0.034) | 0.820 (0.030) | differs by 2.6 se |"
    assert lines[3].startswith("| 60 | random | MSE | as published | ")
    assert "engine" not in comparison(ROWS[:1])
    assert "| - |" in comparison([Row("MSE", OURS)])


def test_the_csv_can_be_read_back(tmp_path: Path) -> None:
    to_csv(tmp_path / "x.csv", [*ROWS, Row("L1", Number(3.0))])
    with (tmp_path / "x.csv").open() as file:
        first, second, third = csv.DictReader(file)
    assert first["low, %"] == "60"
    assert (float(first["published"]), float(first["published_2se"])) == (0.879, 0.034)
    assert (float(first["ours"]), float(first["ours_2se"])) == (0.82, 0.03)
    assert float(first["apart"]) == pytest.approx(ROWS[0].apart or 0.0, rel=1e-7)
    assert second["engine"] == "as published"
    assert (third["published"], third["ours_2se"], third["verdict"]) == ("", "", "not published")


def _target(name: str = "costs") -> Target:
    return Target(name, "fig:x", "A title, of two words", lambda _: RESULT)


PICTURE = Picture("picture", "A caption", Figure())
RESULT = Result("Random wins.", ["Ten streams."], ROWS, [PICTURE], [("More", "Words.")])


def test_the_page_begins_with_the_results(tmp_path: Path) -> None:
    options = Options(tmp_path / "out", trials=7, seed=3, quick=True, as_published=True)
    page = write(_target(), RESULT, options)
    assert page == tmp_path / "out" / "costs.md"
    lines = page.read_text().splitlines()
    assert lines[0] == "# A title, of two words"
    assert lines[2] == "**Random wins.**"
    assert "`python -m paper costs --seed 3 --trials 7 --quick --as-published`" in lines[4]
    parts = ("![A caption](picture.png)", "## More", "## Protocol", "- Ten streams.", "## Numbers")
    order = [lines.index(s) for s in (*parts, comparison(ROWS).splitlines()[0])]
    assert order == sorted(order)
    assert (tmp_path / "out" / "costs.csv").exists()
    assert (tmp_path / "out" / "picture.png").read_bytes()[:4] == b"\x89PNG"
    given = replace(options, given={"clips": Path("wav"), "family": ("a", "b")})
    assert command(_target(), given).endswith("--as-published --clips wav --family a --family b")


def test_a_target_replaces_its_section_and_no_other(tmp_path: Path) -> None:
    docs = tmp_path / "docs"

    def published(name: str, result: Result) -> str:
        options, target = Options(tmp_path / name), replace(_target(name), title=f"About {name}, in short")
        write(target, result, options)
        page = publish(docs, target, result, options, ["margin", "costs", "camvid"])
        assert page == docs / "paper.md"
        inside = markdown(target, result, options, folder=f"paper/{name}/", level=2)
        assert inside in page.read_text()
        assert (docs / "paper" / name / "picture.png").exists()
        return page.read_text()

    published("camvid", RESULT)
    first = published("margin", RESULT)
    assert first.count("\n## About") == 2
    assert "\n- [About camvid, in short](#about-camvid-in-short) (fig:x). Random wins.\n" in first
    assert first.index("## About margin") < first.index("## About camvid")
    second = published("camvid", replace(RESULT, headline="Random loses."))
    assert second == "Random loses.".join(_split(first, "camvid"))
    third = published("costs", RESULT)
    titles = [line for line in third.splitlines() if line.startswith("## ")]
    assert titles == [f"## About {name}, in short" for name in ("margin", "costs", "camvid")]
    assert published("margin", RESULT) == third


def _split(page: str, name: str) -> list[str]:
    """The page without the two headlines of a target: in the list of findings and in its section."""
    head, link, rest = page.partition(f"- [About {name},")
    row, _, rest = rest.partition("Random wins.")
    between, title, section = rest.partition(f"## About {name}")
    before, _, after = section.partition("Random wins.")
    return [f"{head}{link}{row}", f"{between}{title}{before}", after]


def test_a_target_may_have_a_separate_page(tmp_path: Path) -> None:
    options, target = Options(tmp_path / "out"), replace(_target("frontier"), page="frontier")
    write(target, RESULT, options)
    page = publish(tmp_path / "docs", target, RESULT, options, [])
    assert page.read_text() == (tmp_path / "out" / "frontier.md").read_text()
    assert sorted(p.name for p in page.parent.iterdir()) == ["frontier.md", "picture.png"]


def test_every_name_is_a_target_of_that_name() -> None:
    assert [load(name).name for name in NAMES] == list(NAMES)
    with pytest.raises(ValueError, match=r"target must be one of mf-posterior, .* not 'table-9'"):
        load("table-9")


def test_the_requested_trials_are_run(tmp_path: Path) -> None:
    assert Options(tmp_path).count(200, 20) == 200
    assert Options(tmp_path, quick=True).count(200, 20) == 20
    assert Options(tmp_path, trials=5, quick=True).count(200, 20) == 5


def _noted(log: str, value: float) -> float:
    with open(log, "a") as file:
        file.write(f"{value}\n")
    return value


@pytest.mark.parametrize(
    ("changed", "trials"),
    [({"seed": 2}, 3), ({"quick": True}, 3), ({"as_published": True}, 3), ({}, 4)],
)
def test_a_changed_setting_is_computed_anew(tmp_path: Path, changed: dict[str, Any], trials: int) -> None:
    log = str(tmp_path / "log")
    work = {"one": (_noted, (log, 1.0)), "two": (_noted, (log, 2.0))}
    options = Options(tmp_path / "out", jobs=1, progress=False)
    for _ in range(2):  # the second time nothing is computed
        assert options.finish(work, {"trials": 3}) == {"one": 1.0, "two": 2.0}
        assert Path(log).read_text() == "1.0\n2.0\n"
    replace(options, **changed).finish(work, {"trials": trials})
    assert Path(log).read_text() == "1.0\n2.0\n" * 2


def test_a_part_that_other_code_made_is_computed_anew(tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    work = {"one": (_noted, (log, 1.0))}
    finish(work, tmp_path / "parts", {}, jobs=1, progress=False)
    part = tmp_path / "parts" / "one.json"
    saved = json.loads(part.read_text())
    assert saved["setting"]["sources"] == sources()
    saved["setting"]["sources"] = "0" * 16
    part.write_text(json.dumps(saved))
    finish(work, tmp_path / "parts", {}, jobs=1, progress=False)
    assert Path(log).read_text() == "1.0\n1.0\n"


SCRIPT = """
import sys, time
from pathlib import Path
from paper.framework import parts

def job(log, i, wait):
    with open(log, "a") as file:
        file.write(f"begun {i}\\n")
    if i >= 2:
        time.sleep(wait)
    return {"i": i, "square": i * i / 7}

out, log, wait = sys.argv[1:]
work = {f"part-{i}": (job, (log, i, float(wait))) for i in range(4)}
found = parts.finish(work, Path(out), {"seed": 1}, jobs=1, progress=False)
print(found)
"""


def test_a_run_killed_midway_resumes_where_it_was(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    out, log = tmp_path / "parts", tmp_path / "log"
    killed = subprocess.Popen([sys.executable, str(script), str(out), str(log), "600"], env=environment())
    try:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and not (log.exists() and "begun 2" in log.read_text()):
            time.sleep(0.02)
    finally:
        os.kill(killed.pid, signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    assert log.read_text() == "begun 0\nbegun 1\nbegun 2\n"
    assert sorted(p.name for p in out.glob("*.json")) == ["part-0.json", "part-1.json"]
    (out / "part-3.part").write_text('{"setting": {"sour')  # as after a kill in the middle of writing
    again = _finished(script, out, log)
    assert log.read_text() == "begun 0\nbegun 1\nbegun 2\nbegun 2\nbegun 3\n"
    whole = _finished(script, tmp_path / "other", tmp_path / "other-log")
    assert again == whole
    for part in (tmp_path / "other").iterdir():
        assert (out / part.name).read_bytes() == part.read_bytes()


def _finished(script: Path, out: Path, log: Path) -> str:
    arguments = [sys.executable, str(script), str(out), str(log), "0"]
    done = subprocess.run(arguments, env=environment(), capture_output=True, text=True, check=True, timeout=PATIENCE)
    return done.stdout


def test_parts_spread_over_processes_are_the_same(tmp_path: Path) -> None:
    work = {f"n-{i}": (math.sqrt, (float(i),)) for i in range(5)}
    alone = finish(work, tmp_path / "a", {}, jobs=1, progress=False)
    spread = finish(work, tmp_path / "b", {}, jobs=2, progress=False)
    assert alone == spread
    assert list(spread) == list(work)  # in the requested order, whichever finished first
    np.testing.assert_allclose(list(alone.values()), np.sqrt(np.arange(5)))
