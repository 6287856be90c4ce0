"""`mfbocd detect`: output, messages, exit codes, pipes and memory."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numba import njit

import mfbocd as mf
from mfbocd.calibrate.auto import AutoDetector
from mfbocd.calibrate.draft import guess_family
from mfbocd.io.config import Config, model_kinds
from mfbocd.io.warm import NEEDED
from mfbocd.trace import recorder

from ..parts import PATIENCE
from . import program
from .program import BUFFERED, COMMAND, mfbocd, process

pytestmark = pytest.mark.slow

WALK = (
    program.WALK
    + """
[data]
time = "at"
cost_unit = "mJ"
"""
)
FIELDS = ["tick", "fidelity", "x", "cost", "mean", "run_length", "p_change", "alarm", "changed_at", "confidence"]


def steps(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Every line of stdout is JSON, or this fails."""
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def stream() -> mf.simulate.Stream:
    config = Config.parse({"model": {"kind": "gaussian", "var": 25.0}})
    fidelities = [mf.Fidelity("imu", 0.1, 1), mf.Fidelity("gps", 1.0, 40)]
    return mf.simulate.gaussian(config.detector().model, fidelities, 0.01, ticks=400, seed=5)


@pytest.fixture
def folder(tmp_path: Path, stream: mf.simulate.Stream) -> Path:
    (tmp_path / "mf.toml").write_text(WALK)
    rows = [f"T{t},{imu!r},{gps!r}" for t, (imu, gps) in enumerate(stream.table.tolist())]
    (tmp_path / "walk.csv").write_text("\n".join(["at,imu,gps", *rows, ""]))
    (tmp_path / "one.txt").write_text("".join(f"{gps!r}\n" for gps in stream.table[:, 1].tolist()))
    return tmp_path


def test_steps_equal_the_library(folder: Path, stream: mf.simulate.Stream) -> None:
    detector = Config.load(folder / "mf.toml").detector()
    trace = mf.run(detector, stream.table)
    done = mfbocd("detect", "walk.csv", "-c", "mf.toml", cwd=folder)
    found = steps(done)
    timed = [*FIELDS[:1], "time", *FIELDS[1:9], "changed_at_time", "confidence"]
    assert [list(step) for step in found] == [
        [*timed, *(["before", "after"] if step["alarm"] else [])] for step in found
    ]
    assert [step["x"] for step in found] == trace.x.tolist()
    assert [step["mean"] for step in found] == trace.mean.tolist()
    assert [step["p_change"] for step in found] == trace.p_change.tolist()
    assert [step["fidelity"] for step in found] == [trace.fidelities[j] for j in trace.choice]
    assert [step["time"] for step in found] == [f"T{t}" for t in range(400)]
    alarms = [step for step in found if step["alarm"]]
    assert [(a["tick"], a["changed_at"], a["confidence"]) for a in alarms] == [c[:3] for c in trace.changes]
    assert [a["before"] for a in alarms] == [c.to_dict()["before"] for c in trace.changes]
    assert [a["changed_at_time"] for a in alarms] == [f"T{c.changed_at}" for c in trace.changes]
    assert len(alarms) >= 2
    # the summary gives the same numbers
    assert f"400 ticks, {len(alarms)} changes found:" in done.stderr
    for change in trace.changes:  # the levels after are those of all readings, not only those up to the alarm
        assert f"\n  {change.describe(at=f'T{change.changed_at}')}\n" in done.stderr
    imu = int((trace.choice == 0).sum())
    assert f"Readings: imu {imu}, gps {400 - imu}. Spent {detector.spent:g} mJ, " in done.stderr
    assert "gps at every tick would have cost 16000 mJ" in done.stderr


def test_every_format_and_out_and_alarms(folder: Path, stream: mf.simulate.Stream) -> None:
    whole = process("detect", "walk.csv", "-c", "mf.toml", cwd=folder)
    table = pa.table({"at": [f"T{t}" for t in range(400)], "imu": stream.table[:, 0], "gps": stream.table[:, 1]})
    pq.write_table(table, folder / "walk.parquet")
    (folder / "walk.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    assert mfbocd("detect", "walk.parquet", "-c", "mf.toml", cwd=folder).stdout == whole.stdout
    assert mfbocd("detect", "walk.jsonl", "-c", "mf.toml", cwd=folder).stdout == whole.stdout
    text = (folder / "walk.csv").read_text()
    quiet = mfbocd("detect", "-", "-c", "mf.toml", "--quiet", "--alarms", "--out", "a.jsonl", cwd=folder, stdin=text)
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")
    alarms = [line for line in whole.stdout.splitlines() if json.loads(line)["alarm"]]
    assert (folder / "a.jsonl").read_text().splitlines() == alarms


@pytest.mark.parametrize("options", [["-c", "mf.toml"], ["--column", "gps"]])
def test_a_step_is_printed_before_the_next_reading(options: list[str], folder: Path) -> None:
    """Line by line through a pipe: the test would hang if either side buffered a line."""
    lines = (folder / "walk.csv").read_text().splitlines(keepends=True)
    with subprocess.Popen(
        [*COMMAND, "detect", "-", *options],
        cwd=folder,
        env=BUFFERED,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        bufsize=1,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(lines[0])
        for tick, line in enumerate(lines[1:41]):
            child.stdin.write(line)
            assert json.loads(child.stdout.readline())["tick"] == tick
        child.stdin.close()
        assert child.stdout.read() == ""
        assert child.wait(PATIENCE) == 0


def test_ctrl_c_ends_a_live_stream_with_its_summary(folder: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "detect", "-", "-c", "mf.toml"],
        cwd=folder,
        env=BUFFERED,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdin.write("at,imu,gps\nT0,1,2\n")
        child.stdout.readline()
        child.send_signal(signal.SIGINT)
        assert child.wait(PATIENCE) == 130
        stderr = child.stderr.read()
    assert "1 tick, no changes found.\n" in stderr
    assert "Traceback" not in stderr


def test_one_plain_column_needs_no_config(folder: Path, stream: mf.simulate.Stream) -> None:
    x = stream.table[:, 1]
    detector = AutoDetector()
    trace = detector.run(x)
    done = mfbocd("detect", "one.txt", cwd=folder)
    found = steps(done)
    assert [list(step) for step in found] == [FIELDS + ["before", "after"] * step["alarm"] for step in found]
    assert len(found) == 400
    assert {step["fidelity"] for step in found} == {"x"}
    for name in ("x", "mean", "run_length", "p_change", "alarm"):
        assert [step[name] for step in found] == getattr(trace, name).tolist(), name
    alarms = [(s["tick"], s["changed_at"], s["confidence"]) for s in found if s["alarm"]]
    assert alarms == [change[:3] for change in trace.changes]
    assert len(alarms) >= 2
    assert f"400 ticks, {len(alarms)} changes found:" in done.stderr
    assert detector.explain() in done.stderr
    assert "Warning:" not in done.stderr
    # unit and offset do not matter
    (folder / "moved.txt").write_text("".join(f"{1000 * v + 5!r}\n" for v in x.tolist()))
    again = steps(mfbocd("detect", "moved.txt", "-q", cwd=folder))
    assert [(s["tick"], s["changed_at"]) for s in again if s["alarm"]] == [(t, at) for t, at, _ in alarms]


def test_a_pipe_and_the_beginning_of_a_file_give_the_same_steps(folder: Path) -> None:
    """Later readings change nothing, nor does it matter how many arrive at once."""
    lines = (folder / "one.txt").read_text().splitlines(keepends=True)
    whole = mfbocd("detect", "one.txt", "-q", cwd=folder).stdout.splitlines()
    piped = mfbocd("detect", "-", "-q", cwd=folder, stdin="".join(lines)).stdout.splitlines()
    assert piped == whole
    (folder / "start.txt").write_text("".join(lines[:150]))
    assert mfbocd("detect", "start.txt", "-q", cwd=folder).stdout.splitlines() == whole[:150]


def test_a_pipe_needs_few_rows_to_find_the_column(folder: Path) -> None:
    text = "minute,level\n" + "".join(f"{i},{(i * 7919) % 13}\n" for i in range(40))
    found = steps(mfbocd("detect", "-", cwd=folder, stdin=text))
    assert [(step["time"], step["x"]) for step in found[:3]] == [("0", 0), ("1", 2), ("2", 4)]
    assert len(found) == 40
    done = mfbocd("detect", "-", cwd=folder, stdin="a,b\n" + "1,2\n5,3\n2,9\n" * 20)
    assert "standard input has 2 columns of numbers: a, b. Each is analysed as its own stream" in done.stderr
    assert [(step["column"], step["tick"], step["x"]) for step in steps(done)[:4]] == [
        ("a", 0, 1.0),
        ("b", 0, 2.0),
        ("a", 1, 5.0),
        ("b", 1, 3.0),
    ]


def test_warnings_are_printed(folder: Path) -> None:
    done = mfbocd("detect", "-", cwd=folder, stdin="5\n" * 60)
    assert len(steps(done)) == 60
    assert "Warning: The series is constant" in done.stderr
    assert mfbocd("detect", "-", "-q", cwd=folder, stdin="5\n" * 60).stderr == ""
    for days in (range(40), [*range(30), 3, *range(31, 40)]):
        rows = [f"2024-01-01T00:{day:02d},{day * 37 % 11}\n" for day in days]
        for stdin in ("", "time,x\n" + "".join(rows)):
            (folder / "days.csv").write_text("time,x\n" + "".join(rows))
            done = mfbocd("detect", "-" if stdin else "days.csv", cwd=folder, stdin=stdin)
            warned = "Warning: The timestamps in column 'time' are not sorted" in done.stderr
            assert warned == (not isinstance(days, range))


def test_surprise_adds_the_tails(folder: Path) -> None:
    (folder / "tails.csv").write_text(
        "at,gps,imu\n" + "".join(f"{t},{x},0\n" for t, x in enumerate([0.1, 0.3, "", 9.0]))
    )
    text = (
        WALK.replace("0.35", "1.0")
        .replace('kind = "budget"', 'kind = "always"')
        .replace("share = 1.0", 'name = "gps"')
    )
    (folder / "tails.toml").write_text(f"{text}".replace("hazard", 'missing = "skip"\nhazard', 1))
    found = steps(mfbocd("detect", "tails.csv", "-c", "tails.toml", "--surprise", cwd=folder))
    detector = mf.Detector(mf.Gaussian(0, 25, 1), hazard=0.01, missing="skip", surprise=True)
    for row, x in zip(found, (0.1, 0.3, None, 9.0), strict=True):
        surprise = detector.update(x).surprise
        expected = (None, None, None) if surprise is None else surprise
        assert [row[name] for name in mf.Surprise._fields] == list(expected)
    plain = steps(mfbocd("detect", "tails.csv", "-c", "tails.toml", cwd=folder))
    assert "log_density" not in plain[0]


def test_surprise_of_the_automatic_detector(folder: Path, stream: mf.simulate.Stream) -> None:
    found = steps(mfbocd("detect", "one.txt", "--surprise", cwd=folder))
    trace = AutoDetector(surprise=True).run(stream.table[:, 1])
    assert trace.surprise is not None
    for name, column in trace.surprise._asdict().items():
        assert [row[name] for row in found[:20]] == [None] * 20
        assert [row[name] for row in found[20:]] == column[20:].tolist()
    again = steps(mfbocd("detect", "-", "--surprise", cwd=folder, stdin=(folder / "one.txt").read_text()))
    assert again == found


def test_zeros_and_ones_and_the_time_column(folder: Path) -> None:
    text = "when,on,note\n" + "".join(f"day {i},{int(i >= 30)},x\n" for i in range(60))
    done = mfbocd("detect", "-", cwd=folder, stdin=text)
    found = steps(done)
    assert "All readings are 0 or 1" in done.stderr
    (alarm,) = [step for step in found if step["alarm"]]
    assert (alarm["changed_at"], alarm["changed_at_time"]) == (30, "day 30")
    # another number is no error: the structure is chosen again
    found = steps(mfbocd("detect", "-", cwd=folder, stdin="0\n1\n" * 200 + "0.5\n2\n"))
    assert [step["x"] for step in found[-2:]] == [0.5, 2.0]


@pytest.mark.parametrize("name", ["gaussian_unknown", "GaussianUnknown"])
def test_a_family_can_be_selected(name: str, folder: Path, stream: mf.simulate.Stream) -> None:
    x = stream.table[:, 1]
    model = guess_family("gaussian_unknown", x[:200]).spec
    trace = mf.run(Config.parse({"model": model, "hazard": 0.01}).detector(), x)
    done = mfbocd("detect", "one.txt", "--model", name, "--hazard", "1/100", cwd=folder)
    assert [step["mean"] for step in steps(done)] == trace.mean.tolist()
    assert "Model gaussian_unknown for column 'x', its prior from the first 200 readings:" in done.stderr
    assert "  kind = gaussian_unknown: as specified" in done.stderr
    assert len(trace.changes) >= 2


def test_every_family_of_one_number_can_be_selected(folder: Path) -> None:
    counts = "".join(f"{i % 3}\n" for i in range(30))
    for kind in sorted(set(model_kinds()) - set(NEEDED) - {"bernoulli", "gamma", "exponential"}):
        done = mfbocd("detect", "-", "--model", kind, cwd=folder, stdin=counts)
        if done.returncode:
            assert any(text in done.stderr for text in (" numbers: write a", "without a default: write a")), kind
            assert kind in done.stderr
        else:
            assert len(done.stdout.splitlines()) == 30
    done = mfbocd("detect", "-", "--model", "bernoulli", cwd=folder, stdin="1\n3\n")
    assert done.returncode == 1
    assert "3.0 is outside the support of Bernoulli" in done.stderr
    done = mfbocd("detect", "-", "--model", "binomial", cwd=folder, stdin=counts)
    assert "binomial has arguments without a default: write a configuration" in done.stderr


def test_a_hazard_may_be_a_fraction(folder: Path, stream: mf.simulate.Stream) -> None:
    trace = AutoDetector(1 / 50).run(stream.table[:, 1])
    for text in ("1/50", "0.02", "2e-2"):
        found = steps(mfbocd("detect", "one.txt", "-q", "--hazard", text, cwd=folder))
        assert [step["p_change"] for step in found] == trace.p_change.tolist()


def test_a_period_by_name_or_in_ticks(folder: Path) -> None:
    rng = np.random.default_rng(0)
    x = 3.0 * np.sin(np.arange(72) * np.pi / 12) + 0.3 * rng.normal(size=72)
    text = "at,x\n" + "\n".join(f"2024-05-{1 + t // 24:02d} {t % 24:02d}:00,{x[t]}" for t in range(72))
    for period in ("daily", "24"):
        done = mfbocd("detect", "-", "--period", period, cwd=folder, stdin=text)
        assert len(steps(done)) == 72
        assert "Season of 24" in done.stderr
    done = mfbocd("detect", "-", "--period", "nightly", cwd=folder, stdin=text)
    assert done.returncode == 2
    assert "neither a number nor one of hourly, daily, weekly, yearly" in done.stderr
    done = mfbocd("detect", "-", "--period", "24", "--model", "gaussian", cwd=folder, stdin=text)
    assert "--period is for the automatic detector" in done.stderr


def test_the_first_compilation_is_announced(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    advance = AutoDetector.advance

    def cold(detector: AutoDetector, x: Any, choice: Any) -> dict[str, Any]:
        for _ in range(2):
            njit(lambda x: x + 1)(1)
        return advance(detector, x, choice)

    mfbocd("detect", "one.txt", cwd=folder)  # the kernels themselves are compiled now
    monkeypatch.setattr(AutoDetector, "advance", cold)
    message = "Compiling kernels, once per installation"
    assert mfbocd("detect", "one.txt", cwd=folder).stderr.count(message) == 1
    assert message not in mfbocd("detect", "one.txt", "-q", cwd=folder).stderr
    monkeypatch.undo()
    assert message not in mfbocd("detect", "one.txt", cwd=folder).stderr


def test_missing_readings(folder: Path) -> None:
    done = mfbocd("detect", "-", cwd=folder, stdin="1\n2\n\nNA\n1.5\n")
    assert [step["x"] for step in steps(done)] == [1, 2, None, None, 1.5]
    assert "2 readings missing." in done.stderr
    (folder / "mf.toml").write_text('missing = "raise"\n' + WALK)
    done = mfbocd("detect", "-", "-c", "mf.toml", cwd=folder, stdin="at,imu,gps\nT0,1,1\nT1,,\n")
    assert done.returncode == 1
    assert "Error: line 3, column '" in done.stderr
    assert "the reading is missing, and the configuration has missing = 'raise'" in done.stderr


def test_only_the_chosen_column_is_read(folder: Path) -> None:
    text = WALK.replace('kind = "budget"\nshare = 0.35', 'kind = "always"\nname = "imu"')
    (folder / "mf.toml").write_text(text + "[prune]\nresample = 50\n")
    found = steps(mfbocd("detect", "-", "-c", "mf.toml", cwd=folder, stdin="at,imu,gps\na,1,oops\nb,2,\n"))
    assert [step["x"] for step in found] == [1, 2]
    done = mfbocd("detect", "-", "-c", "mf.toml", cwd=folder, stdin="at,imu,gps\na,1,2\nb,oops,2\n")
    assert done.returncode == 1
    assert "Error: line 3, column 'imu': 'oops' is not a number. --na names cells that mean a missing" in done.stderr
    assert [json.loads(line)["x"] for line in done.stdout.splitlines()] == [1]


def test_a_single_fidelity_finds_its_column(folder: Path) -> None:
    (folder / "plain.toml").write_text('[model]\nkind = "gaussian"\n')
    named = "a,b\n1,2\n3,4\n"
    found = steps(mfbocd("detect", "-", "-c", "plain.toml", "--column", "b", cwd=folder, stdin=named))
    assert [step["x"] for step in found] == [2, 4]
    assert len(steps(mfbocd("detect", "one.txt", "-c", "plain.toml", cwd=folder))) == 400
    found = steps(mfbocd("detect", "-", "-c", "plain.toml", "--time", "a", cwd=folder, stdin=named))
    assert [(step["time"], step["x"]) for step in found] == [("1", 2), ("3", 4)]
    done = mfbocd("detect", "-", "-c", "plain.toml", cwd=folder, stdin=named)
    assert done.returncode == 1
    assert "standard input has no column 'full', only 'a', 'b'" in done.stderr


@pytest.mark.parametrize(("header", "name"), [('"level\n(mm)"', "level (mm)"), ("n" * 300, "n" * 200)])
def test_a_column_with_any_name_is_analysed(header: str, name: str, folder: Path) -> None:
    """A spreadsheet breaks the lines of long headers; a name has one line and at most 200 characters."""
    (folder / "wide.csv").write_text(f"{header}\n" + (folder / "one.txt").read_text())
    automatic = steps(mfbocd("detect", "wide.csv", cwd=folder))
    family = steps(mfbocd("detect", "wide.csv", "--model", "gaussian", cwd=folder))
    assert mfbocd("init", "--from", "wide.csv", "--out", "wide.toml", cwd=folder).returncode == 0
    configured = steps(mfbocd("detect", "wide.csv", "-c", "wide.toml", cwd=folder))
    for found in automatic, family, configured:
        assert {step["fidelity"] for step in found} == {name}
        assert len(found) == 400
    assert mf.detect(folder / "wide.csv").detector.fidelities[0].name == name


def test_usage_errors_exit_2(folder: Path) -> None:
    (folder / "bad.toml").write_text('[model]\nkind = "gaussian"\nnois = 1\n')
    (folder / "wide.csv").write_text(
        ",".join(f"c{j}" for j in range(30))
        + "\n"
        + "\n".join(",".join(str(i * j % 7) for j in range(30)) for i in range(9))
    )
    cases = [
        (("wide.csv",), "wide.csv has 30 columns of numbers: c0, c1, c2, c3, c4, ... Select some with --column."),
        (("nosuch.csv",), "'nosuch.csv' does not exist"),
        ((".",), "is a directory"),
        (("walk.csv", "-c", "bad.toml"), "bad.toml: model.nois is unknown (did you mean 'noise_var'?)"),
        (("walk.csv", "-c", "mf.toml", "--hazard", "2"), "hazard must lie in (0, 1), not 2.0"),
        (("one.txt", "--hazard", "1/0"), "'1/0' is neither a number nor a fraction such as 1/500"),
        (("one.txt", "--hazard", "often"), "'often' is neither a number nor a fraction such as 1/500"),
        (("one.txt", "--model", "gausian"), "vector_autoregressive (did you mean 'gaussian'?)"),
        (("walk.csv", "-c", "mf.toml", "--model", "gaussian"), "--model selects a family without a configuration"),
        (("walk.csv", "-c", "mf.toml", "--column", "imu"), "--column needs a single fidelity"),
        (("one.txt", "--plot", "no/where.png"), "the folder of 'no/where.png' does not exist"),
        (("one.txt", "--out", "./one.txt"), "'one.txt' is the input file"),
        (("one.txt", "--plot", "picture.tiff"), "must end in .png, .svg or .pdf"),
        (("one.txt", "--time", "when", "--column", "x"), "no column 'when'"),
    ]
    for arguments, message in cases:
        done = mfbocd("detect", *arguments, cwd=folder)
        assert message in done.stderr, arguments
        assert done.returncode == (1 if "--time" in arguments else 2), arguments
        assert done.stdout == ""
        assert "Traceback" not in done.stderr
    assert (folder / "one.txt").stat().st_size > 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "standard input is empty"),
        ("a\n", "standard input has no rows"),
        ("a\nb\nc\n", "standard input has no column of numbers ('a': its cells are not numbers)"),
        ("1\n2\noops\n" + "1\n" * 40, "line 3, column 'x': 'oops' is not a number"),
        ("1\n1_000\n" + "1\n" * 40, "line 2, column 'x': '1_000' is not a number"),
        ("1\n1e999\n" + "1\n" * 40, "line 2, column 'x': '1e999' is not a finite number"),
    ],
)
def test_bad_data_exits_1_and_names_the_place(text: str, message: str, folder: Path) -> None:
    done = mfbocd("detect", "-", cwd=folder, stdin=text)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_closed_pipe_is_not_an_error(folder: Path) -> None:
    (folder / "long.txt").write_text((folder / "one.txt").read_text() * 20)
    script = f"{sys.executable} -m mfbocd.cli detect long.txt | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    first, status = done.stdout.splitlines()
    assert json.loads(first)["tick"] == 0
    assert status == "0"
    assert "Broken" not in done.stderr
    assert "Traceback" not in done.stderr


def test_plot_and_report(folder: Path) -> None:
    done = mfbocd("detect", "walk.csv", "-c", "mf.toml", "--plot", "a.png", "--report", "a.html", cwd=folder)
    assert len(steps(done)) == 400
    assert "Wrote a.png." in done.stderr
    assert "Wrote a.html." in done.stderr
    assert (folder / "a.png").read_bytes().startswith(b"\x89PNG")
    page = (folder / "a.html").read_text()
    assert "Changes in walk.csv" in page


def test_the_series_is_explained_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    explain = AutoDetector.explain
    monkeypatch.setattr(AutoDetector, "explain", lambda detector: (calls.append(1), explain(detector))[1])
    done = mfbocd("detect", "one.txt", "--report", "a.html", cwd=folder)
    assert done.returncode == 0
    assert "No autocorrelation" in done.stderr
    assert "No autocorrelation" in (folder / "a.html").read_text()
    assert len(calls) == 1


def test_plot_and_report_of_the_automatic_detector(folder: Path) -> None:
    plain = mfbocd("detect", "one.txt", cwd=folder)
    done = mfbocd("detect", "one.txt", "--plot", "a.png", "--report", "a.html", cwd=folder)
    assert done.stdout == plain.stdout
    assert (folder / "a.png").read_bytes().startswith(b"\x89PNG")
    page = (folder / "a.html").read_text()
    assert "Without a configuration: AutoDetector" in page
    assert "Expected gain" not in page  # there is one fidelity


def test_a_report_covers_all_rows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments in (["walk.csv", "-c", "mf.toml"], ["one.txt"]):
        mfbocd("detect", *arguments, "--report", "whole.html", "--force", cwd=folder)
        with monkeypatch.context() as patch:
            patch.setattr(recorder, "PACKED", 150)  # in several parts
            done = mfbocd("detect", *arguments, "--report", "parts.html", "--force", cwd=folder)
        assert done.returncode == 0, done.stderr
        page = (folder / "parts.html").read_text()
        assert "in 400 ticks" in page
        assert page == (folder / "whole.html").read_text()


def on_a_terminal(command: list[str], cwd: Path) -> str:
    """Return what a program writes to stderr if that is a terminal of 80 columns."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=slave) as child:
        os.close(slave)
        output = b""
        while True:
            try:
                output += os.read(master, 4096)
            except OSError:  # the end of a terminal
                break
        assert child.wait(PATIENCE) == 0
    os.close(master)
    return output.decode()


def test_a_terminal_sees_progress_and_the_time_left(folder: Path) -> None:
    (folder / "long.txt").write_text((folder / "one.txt").read_text() * 11)  # more than one chunk
    command = [*COMMAND, "detect", "long.txt", "--model", "gaussian_unknown"]
    output = on_a_terminal(command, folder)
    assert re.search(r"\d+%\|.*/.* \[\d\d:\d\d<\S+, .*B/s\]", output)
    assert "%|" not in on_a_terminal([*command, "--quiet"], folder)
    without = "import sys; sys.modules['tqdm'] = None; from mfbocd.cli import main; main()"
    plain = on_a_terminal([sys.executable, "-c", without, *command[3:]], folder)
    assert re.search(r"\[#*-*\] +\d+%", plain)


def test_help_has_a_purpose_and_an_example(folder: Path) -> None:
    for command in ("init", "calibrate", "detect", "drive"):
        done = mfbocd(command, "--help", cwd=folder)
        assert done.returncode == 0
        assert "Example" in done.stdout
        assert f"mfbocd {command} " in done.stdout
    code = "import sys, mfbocd.cli; print([m for m in ('numpy', 'numba', 'pyarrow', 'tqdm') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"  # the imports of --help


# A separate process: a forked child counts the memory of its parent, and the tests use much.
PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
"""


@pytest.mark.parametrize(("kind", "options"), [("csv", []), ("parquet", ["--model", "gaussian_unknown"])])
def test_memory_does_not_grow_with_the_table(kind: str, options: list[str], folder: Path) -> None:
    rng = np.random.default_rng(0)
    peaks = []
    for rows in (20_000, 120_000):
        x = np.repeat(rng.normal(0, 5, rows // 500), 500) + rng.normal(size=rows)
        path = folder / f"long.{kind}"
        if kind == "csv":
            path.write_text("x\n" + "".join(f"{v:.4f}\n" for v in x.tolist()))
        else:
            pq.write_table(pa.table({"x": x}), path, row_group_size=20_000)
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                PEAK,
                *COMMAND,
                "detect",
                path.name,
                "-q",
                "--out",
                "steps.jsonl",
                "--force",
                *options,
            ],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
        peaks.append(int(done.stdout))
        with (folder / "steps.jsonl").open("rb") as out:
            assert sum(1 for _ in out) == rows
    assert peaks[1] - peaks[0] < 15  # MB; the steps of 100 000 more rows would take 25 or more
