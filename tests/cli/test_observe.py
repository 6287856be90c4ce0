"""`mfbocd drive` with one command per fidelity, its state files, and databases that are missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mfbocd.cli.observers import parse_output
from mfbocd.cli.sensor import SensorError
from mfbocd.io.config import Config

from .program import mfbocd

LAB = """
hazard = 0.01
[model]
kind = "gaussian"
var = 25.0
[[fidelity]]
name = "imu"
zeta = 0.2
cost = 1.0
offset = 2.0
observe = "echo $((MFBOCD_TICK % 3 + 2))"
[[fidelity]]
name = "lab"
zeta = 1.0
cost = 40.0
observe = "sh ./lab.sh"
[policy]
kind = "random"
"""
LAB_SH = 'test "$MFBOCD_FIDELITY:$MFBOCD_COST" = lab:40.0 && echo 1.5 >> paid && echo $MFBOCD_TICK.25'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "lab.toml").write_text(LAB)
    (tmp_path / "lab.sh").write_text(LAB_SH)
    return tmp_path


def drive(*arguments: str, cwd: Path, config: str = "lab.toml") -> subprocess.CompletedProcess[str]:
    return mfbocd("drive", "-c", config, *arguments, cwd=cwd)


def steps(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_each_fidelity_has_its_command(folder: Path) -> None:
    done = drive("--ticks", "12", cwd=folder)
    assert done.returncode == 0, done.stderr
    detector = Config.load(folder / "lab.toml").detector()
    for step in steps(done.stdout):
        tick, fidelity = step["tick"], detector.choose().name
        wanted = detector.update(tick % 3 + 2 if fidelity == "imu" else tick + 0.25, fidelity)
        assert (step["fidelity"], step["x"], step["mean"]) == (fidelity, wanted.x, wanted.mean)
    read = [step["fidelity"] for step in steps(done.stdout)]
    assert set(read) == {"imu", "lab"}
    assert len((folder / "paid").read_text().split()) == read.count("lab")  # nothing was read that was not chosen


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo warm", "at tick 0: it printed 'warm', which is not a number"),
        ("echo 1_000", "it printed '1_000', which is not a number"),
        ("echo inf", "it printed 'inf', which is not a number"),
        ("echo 1 2", "invalid reading at tick 0"),
        ("echo 7; exit 3", "the command of 'lab', 'sh ./lab.sh', exited with code 3 at tick 0"),
        ("kill -KILL $PPID", "was killed by SIGKILL at tick 0"),
        ("echo 7; exec sleep 30", "took longer than 0.3 s at tick 0"),
        ("exec yes", "printed more than 1048576 bytes: 'y"),
        ("echo '{\"y\": 1}'", "at tick 0: invalid response"),
    ],
)
def test_a_tick_whose_command_fails_is_not_applied(script: str, message: str, folder: Path) -> None:
    (folder / "always.toml").write_text(LAB.replace('kind = "random"', 'kind = "always"\nname = "lab"'))
    (folder / "lab.sh").write_text(script)
    arguments = ("--state", "lab.state", "--ticks", "2")
    failed = drive(*arguments, "--timeout", "0.3" if "sleep" in script else "10", cwd=folder, config="always.toml")
    assert failed.returncode == 1
    assert message in failed.stderr
    assert "The state after 0 ticks is saved in lab.state." in failed.stderr
    assert failed.stdout == ""
    (folder / "lab.sh").write_text("echo 2.5")
    again = drive(*arguments, cwd=folder, config="always.toml")
    assert [(step["tick"], step["x"], step["cost"]) for step in steps(again.stdout)] == [(0, 2.5, 40), (1, 2.5, 40)]


def test_a_signal_while_a_command_runs(folder: Path) -> None:
    (folder / "lab.toml").write_text(LAB.replace("sh ./lab.sh", "echo $$ > pid; kill -TERM $PPID; exec sleep 60"))
    done = drive("--state", "lab.state", cwd=folder)
    assert done.returncode == 143
    assert "Stopped. The state after" in done.stderr
    with pytest.raises(ProcessLookupError):  # the command was ended
        os.kill(int((folder / "pid").read_text()), 0)


def test_a_command_may_have_no_reading_or_say_that_it_is_the_end(folder: Path) -> None:
    ending = "[ $MFBOCD_TICK -lt 3 ] || echo '{\"end\": true}'"
    (folder / "lab.toml").write_text(LAB.replace('"sh ./lab.sh"', f"'''{ending}'''").replace('"random"', '"always"'))
    done = drive(cwd=folder)
    assert done.returncode == 0, done.stderr
    assert [(step["x"], step["cost"]) for step in steps(done.stdout)] == [(None, 40.0)] * 3


def test_commands_and_a_sensor_process_together(folder: Path) -> None:
    (folder / "lab.toml").write_text(LAB.replace('observe = "sh ./lab.sh"\n', ""))
    missing = drive("--ticks", "3", cwd=folder)
    assert missing.returncode == 2
    assert "nothing reads fidelity 'lab' of lab.toml: pass COMMAND, or set observe" in missing.stderr
    answer = "while read -r asked; do echo '{\"x\": 9}'; done"
    done = drive("--ticks", "12", "--", "sh", "-c", answer, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert {(step["fidelity"], step["x"] > 8) for step in steps(done.stdout)} == {("imu", False), ("lab", True)}
    (folder / "lab.toml").write_text(LAB)
    both = drive("--", "sensor", cwd=folder)
    assert both.returncode == 2
    assert "every fidelity of lab.toml has `observe`: leave out COMMAND, 'sensor'" in both.stderr
    (folder / "full.toml").write_text('[model]\nkind = "gaussian"\n')
    assert "nothing reads fidelity 'full'" in drive(cwd=folder, config="full.toml").stderr


def test_ticks_start_at_equal_distances(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        """Every look at it takes a second; sleeping takes as long as it should."""

        def __init__(self) -> None:
            self.now = 0.0
            self.slept: list[float] = []

        def monotonic(self) -> float:
            self.now += 1.0
            return self.now

        def sleep(self, seconds: float) -> None:
            self.now += seconds
            self.slept.append(seconds)

    clock = Clock()
    monkeypatch.setattr(sys.modules["mfbocd.cli.drive"], "time", clock)
    assert drive("--ticks", "3", "--every", "60", cwd=folder).returncode == 0
    assert clock.slept == [0.0, 57.0, 58.0]


@pytest.mark.parametrize(
    ("output", "x"),
    [(b"21.5\n", 21.5), (b" -1e3 ", -1000.0), (b"", None), (b"\n", None), (b"nan\n", None), (b"1 nan", [1.0, None])],
)
def test_outputs(output: bytes, x: Any) -> None:
    assert parse_output(output) == {"x": x}


def test_an_output_that_is_an_object_is_a_response() -> None:
    assert parse_output(b'{"x": 1.5, "time": "now"}\n') == {"x": 1.5, "time": "now"}
    assert parse_output(b'{"end": true}') is None
    with pytest.raises(SensorError, match="not a number"):
        parse_output(b"1,5")


# --- state files ---------------------------------------------------------------------------------------------------


def test_a_changed_cost_column_or_command_keeps_the_state(folder: Path) -> None:
    assert drive("--state", "lab.state", "--ticks", "6", cwd=folder).returncode == 0
    before = json.loads(mfbocd("state", "show", "lab.state", cwd=folder).stdout)
    changed = LAB.replace("cost = 40.0", 'cost = 55.0\ncolumn = "other"').replace("sh ./lab.sh", "echo 3")
    (folder / "lab.toml").write_text(changed + "[data]\nunit = 'm'\n")
    done = drive("--state", "lab.state", "--ticks", "6", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "Resuming from lab.state after 6 ticks" in done.stderr
    assert "Costs have changed: lab 40 -> 55." in done.stderr
    assert {step["cost"] for step in steps(done.stdout)} == {1.0, 55.0}
    after = json.loads(mfbocd("state", "show", "lab.state", cwd=folder).stdout)
    assert after["tick"] == 12
    assert after["spent"] == before["spent"] + sum(step["cost"] for step in steps(done.stdout))
    for old, new, key in (("zeta = 0.2", "zeta = 0.3", "fidelity"), ("hazard = 0.01", "hazard = 0.02", "hazard")):
        (folder / "lab.toml").write_text(changed.replace(old, new))
        refused = drive("--state", "lab.state", cwd=folder)
        assert refused.returncode == 1
        assert "lab.state was saved with another configuration, and its 12 ticks are only valid" in refused.stderr
        assert f"(costs may differ); another {key} was found." in refused.stderr


@pytest.mark.parametrize("command", [["drive"], ["state", "show"], ["state", "export"]])
def test_a_state_file_of_another_version_is_refused(folder: Path, command: list[str]) -> None:
    assert drive("--state", "lab.state", "--ticks", "2", cwd=folder).returncode == 0
    path = folder / "lab.state"
    first, _, rest = path.read_bytes().partition(b"\n")
    head = json.loads(first)
    for version in (1, head["version"] + 1, None):
        other = json.dumps(head | {"version": version}).encode() + b"\n" + rest
        path.write_bytes(other)
        refused = (
            drive("--state", "lab.state", cwd=folder)
            if command == ["drive"]
            else mfbocd(*command, "lab.state", cwd=folder)
        )
        assert refused.returncode == 1
        assert f"lab.state has format version {version}, and this mfbocd reads version" in refused.stderr
        assert path.read_bytes() == other


def test_a_state_file_without_its_configuration_is_damaged(folder: Path) -> None:
    assert drive("--state", "lab.state", "--ticks", "2", cwd=folder).returncode == 0
    path = folder / "lab.state"
    first, _, rest = path.read_bytes().partition(b"\n")
    head = json.loads(first)
    del head["settings"]
    path.write_bytes(json.dumps(head).encode() + b"\n" + rest)
    refused = drive("--state", "lab.state", cwd=folder)
    assert (refused.returncode, "lab.state is damaged: its first line has no 'settings'" in refused.stderr) == (
        1,
        True,
    )


def test_state_lists_shows_and_exports_state_files(folder: Path) -> None:
    assert drive("--state", "lab 1.state", "--ticks", "5", cwd=folder).returncode == 0
    shown = json.loads(mfbocd("state", "show", "lab 1.state", cwd=folder).stdout)
    config = Config.load(folder / "lab.toml")
    assert (shown["tick"], shown["config"]) == (5, config.to_dict())
    assert shown["next"]["fidelity"] in ("imu", "lab")
    listed = f"lab 1.state\t5\t{shown['spent']:g}\t-\tlab 1\n"
    assert mfbocd("state", "ls", "lab 1.state", cwd=folder).stdout == listed
    assert mfbocd("state", "ls", "--db", "lab 1.state", cwd=folder).stdout == listed
    exported = mfbocd("state", "export", "lab 1.state", cwd=folder).stdout
    done = mfbocd("state", "import", "-", "--db", "streams.db", "--create", cwd=folder, stdin=exported)
    assert (done.returncode, done.stderr.strip()) == (0, "Imported 1 stream.")
    stream = json.loads(mfbocd("state", "show", "lab-1", "--db", "streams.db", cwd=folder).stdout)
    assert (stream["tick"], stream["spent"], stream["name"]) == (5, shown["spent"], "lab 1")
    assert stream["next"]["fidelity"] == shown["next"]["fidelity"]
    confused = mfbocd("state", "show", "x", "--db", "lab 1.state", cwd=folder)
    assert (confused.returncode, "pass it as an argument, without --db" in confused.stderr) == (1, True)
    wrong = mfbocd("state", "ls", "lab.toml", cwd=folder)
    assert (wrong.returncode, "lab.toml is not a state file" in wrong.stderr) == (1, True)


@pytest.mark.parametrize(
    "command",
    [
        ["state", "ls"],
        ["state", "show", "walk"],
        ["state", "export"],
        ["state", "import", "-"],
        ["token", "add", "me"],
        ["token", "ls"],
        ["token", "revoke", "me"],
    ],
    ids=" ".join,
)
def test_a_missing_database_is_reported_and_not_created(command: list[str], tmp_path: Path) -> None:
    done = mfbocd(*command, "--db", "streams.db", cwd=tmp_path)
    assert done.returncode == 1
    assert "there is no database streams.db: check --db, or start `mfbocd serve`" in done.stderr
    assert ("--create" in done.stderr) == (command[:2] in (["state", "import"], ["token", "add"]))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "streams.db").touch()
    assert "streams.db is empty" in mfbocd(*command, "--db", "streams.db", cwd=tmp_path).stderr


def test_a_token_can_create_the_database(tmp_path: Path) -> None:
    assert mfbocd("token", "add", "me", "--create", "--db", "streams.db", cwd=tmp_path).returncode == 0
    assert mfbocd("token", "ls", "--db", "streams.db", cwd=tmp_path).stdout == "me\twrite\n"
