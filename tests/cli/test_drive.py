"""`mfbocd drive` with real sensor programs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mfbocd.io.config import Config

from ..parts import PATIENCE
from .program import BUFFERED, COMMAND, WALK, mfbocd, process

pytestmark = pytest.mark.slow

# A reading depends only on the tick and the fidelity, so an interrupted run can be compared with a complete one.
SENSOR = """
import json, random, sys, time
last, pause = int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 0
for line in sys.stdin:
    asked = json.loads(line)
    if asked["tick"] >= last:
        break
    noise = random.Random(f"{asked['tick']} {asked['fidelity']}").gauss(0, {"imu": 3, "gps": 1}[asked["fidelity"]])
    time.sleep(pause)
    print(json.dumps({"x": (6 if asked["tick"] >= 40 else 0) + noise, "time": f"T{asked['tick']}"}), flush=True)
"""
SHELL = """
while read -r asked; do
    tick=$(echo "$asked" | awk -F'[:,]' '{ print $2 + 0 }')
    [ "$tick" -ge 12 ] && { echo '{"end": true}'; exit 0; }
    echo "$asked" | awk -v t="$tick" '{ printf "{\\"x\\": %d.5}\\n", t * t % 7 }'
done
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mf.toml").write_text(WALK)
    (tmp_path / "sensor.py").write_text(SENSOR)
    (tmp_path / "sensor.sh").write_text(SHELL)
    return tmp_path


def drive(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return mfbocd("drive", "-c", "mf.toml", *arguments, cwd=cwd)


def sensor(ticks: int, pause: float = 0.0) -> list[str]:
    return ["--", sys.executable, "sensor.py", str(ticks), str(pause)]


def steps(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@contextmanager
def running(*arguments: str, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    command = [*COMMAND, "drive", "-c", "mf.toml", *arguments]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=cwd, env=BUFFERED, **pipes) as child:
        try:
            yield child
        finally:
            child.kill()


def alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def eventually(condition: Callable[[], bool]) -> bool:
    for _ in range(int(10 * PATIENCE)):
        if condition():
            return True
        time.sleep(0.1)
    return False


def test_the_loop_equals_the_library(folder: Path) -> None:
    done = drive(*sensor(80), cwd=folder)
    assert done.returncode == 0, done.stderr
    found = steps(done.stdout)
    detector = Config.load(folder / "mf.toml").detector()
    for step in found:
        assert step["fidelity"] == detector.choose().name
        twin = detector.update(step["x"], step["fidelity"])
        assert (step["tick"], step["mean"], step["run_length"]) == (twin.tick, twin.mean, twin.run_length)
        assert (step["p_change"], step["alarm"], step["changed_at"]) == (twin.p_change, twin.alarm, twin.changed_at)
        assert step["time"] == f"T{twin.tick}"
    assert len(found) == 80
    assert {step["fidelity"] for step in found} == {"imu", "gps"}
    (alarm,) = [step for step in found if step["alarm"]]
    assert alarm["changed_at_time"] == f"T{alarm['changed_at']}"
    assert "80 ticks, 1 change found:" in done.stderr
    assert f"Spent {detector.spent:g}, " in done.stderr


def test_a_sensor_in_sh_and_awk(folder: Path) -> None:
    done = drive("--", "sh", "sensor.sh", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert [step["x"] for step in steps(done.stdout)] == [t * t % 7 + 0.5 for t in range(12)]
    assert list(steps(done.stdout)[0])[:3] == ["tick", "fidelity", "x"]  # there was no time column


def test_a_run_in_parts_is_the_run_in_one(folder: Path) -> None:
    whole = drive(*sensor(60), cwd=folder)
    parts = [drive("--state", "s", "--ticks", "25", *sensor(60), cwd=folder)]
    parts.append(drive("--state", "s", "--save-every", "10", *sensor(60), cwd=folder))
    assert [part.returncode for part in parts] == [0, 0]
    assert len(steps(parts[0].stdout)) == 25
    assert "Resuming from s after 25 ticks" in parts[1].stderr
    plain = [[s | {"changed_at_time": None} for s in steps(run.stdout)] for run in (whole, *parts)]
    assert plain[1] + plain[2] == plain[0]
    over = drive("--state", "s", *sensor(60), cwd=folder)
    assert (over.returncode, over.stdout) == (0, "")
    assert "No ticks." in over.stderr


def test_kill_9_in_the_middle_and_resume(folder: Path) -> None:
    whole = steps(drive(*sensor(60), cwd=folder).stdout)
    with running("--state", "s", *sensor(60, 0.02), cwd=folder) as child:
        assert child.stdout is not None
        before = [json.loads(child.stdout.readline()) for _ in range(20)]
        child.send_signal(signal.SIGKILL)
        child.wait(PATIENCE)
        before += steps(child.stdout.read())
    assert before == whole[: len(before)]
    assert 20 <= len(before) < 60
    (folder / f".s.{child.pid}.new").write_bytes(b"half a st")  # as if it had been killed while it saved
    after = drive("--state", "s", *sensor(60), cwd=folder)
    assert after.returncode == 0, after.stderr
    resumed = steps(after.stdout)
    assert 0 <= len(before) - resumed[0]["tick"] <= 1  # at most one tick, printed and not yet saved, is repeated
    for step in resumed:
        same = whole[step["tick"]]
        assert {k: v for k, v in step.items() if k != "changed_at_time"} == {
            k: v for k, v in same.items() if k != "changed_at_time"
        }
    assert resumed[-1]["tick"] == 59
    assert [path.name for path in folder.iterdir() if ".new" in path.name] == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_terminates_the_sensor(number: signal.Signals, code: int, folder: Path) -> None:
    whole = steps(drive(*sensor(30), cwd=folder).stdout)
    stuck = (
        "if asked['tick'] == 12: open('pid', 'w').write(str(os.getpid())); os.rename('pid', 'asked'); time.sleep(600)"
    )
    slow = "import os\n" + SENSOR.replace("time.sleep(pause)", stuck)
    (folder / "slow.py").write_text(slow)
    arguments = ("--state", "s", "--save-every", "1000", "--timeout", "300", "--", sys.executable, "slow.py", "30")
    with running(*arguments, cwd=folder) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        before = [json.loads(child.stdout.readline()) for _ in range(12)]
        assert eventually((folder / "asked").exists)
        child.send_signal(number)
        assert child.wait(PATIENCE) == code
        stderr = child.stderr.read()
    assert "Stopped. The state after 12 ticks is saved in s." in stderr
    assert "Traceback" not in stderr
    assert eventually(lambda: not alive(int((folder / "asked").read_text())))
    assert (
        before + steps(drive("--state", "s", *sensor(30), cwd=folder).stdout) == whole
    )  # tick 12 was requested again


PYTHON = [sys.executable, "-c"]
READ = "import sys; sys.stdin.readline(); "


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ([*PYTHON, READ + "sys.exit(3)"], "the sensor exited with code 3."),
        ([*PYTHON, READ + "import os; os.kill(os.getpid(), 9)"], "the sensor was killed by SIGKILL."),
        (["sh", "-c", "read x; echo hello; cat"], "invalid response: 'hello'; expected {\"x\": number}"),
        (["sh", "-c", "read x; echo '{\"y\": 1}'; cat"], "invalid response: '{\"y\": 1}'; expected"),
        (["sh", "-c", 'read x; echo \'{"x": "1"}\'; cat'], "x = '1' is not a number"),
        (
            ["sh", "-c", "read x; echo '{\"x\": 1e999}'; cat"],
            "invalid reading at tick 0: x must be finite",
        ),
        (["sh", "-c", 'read x; echo \'{"x": 1, "time": []}\'; cat'], "time must be a string or a number"),
        (["sh", "-c", "read x; printf '{\"x\": 1'"], "the sensor exited in the middle of a line: '{\"x\": 1'."),
        (
            [*PYTHON, READ + "print('z' * 3000000, flush=True); sys.stdin.read()"],
            "longer than 1048576 bytes, 'zzzz",
        ),
        (
            [*PYTHON, READ + 'print(\'{"x": 1}\\n{"x": 2}\', flush=True); sys.stdin.read()'],
            "sent a line before it was asked",
        ),
        (["sh", "-c", "read x; sleep 600"], "did not respond within 1 s at tick 0; does it flush its output"),
        (["sh", "-c", "exec >&-; sleep 600"], "the sensor closed its output but did not exit"),
        (["./nosuch"], "cannot run './nosuch': No such file or directory."),
    ],
)
def test_a_sensor_that_fails_is_reported_and_the_state_saved(command: list[str], message: str, folder: Path) -> None:
    done = drive("--state", "s", "--timeout", "1", "--", *command, cwd=folder)
    assert done.returncode == 1
    assert message in done.stderr
    assert "is saved in s." in done.stderr
    assert "Traceback" not in done.stderr
    kept = len(steps(done.stdout))
    again = drive("--state", "s", "--ticks", "2", *sensor(9), cwd=folder)
    assert [step["tick"] for step in steps(again.stdout)] == [kept, kept + 1]


def test_missing_and_impossible_answers(folder: Path) -> None:
    answers = "read x; echo '{\"x\": null}'; read x; echo '{\"x\": 1}'; read x"
    done = drive("--", "sh", "-c", answers, cwd=folder)
    assert [step["x"] for step in steps(done.stdout)] == [None, 1.0]
    assert steps(done.stdout)[0]["cost"] > 0  # it was asked
    assert done.returncode == 0  # at the third request it exited successfully
    assert "1 reading missing." in done.stderr
    (folder / "mf.toml").write_text('missing = "raise"\n' + WALK)
    done = drive("--", "sh", "-c", answers, cwd=folder)
    assert done.returncode == 1
    assert "no reading at tick 0, and the configuration has missing = 'raise'" in done.stderr
    (folder / "mf.toml").write_text('[model]\nkind = "bernoulli"\n')
    done = drive("--", "sh", "-c", "read x; echo '{\"x\": 0.5}'; cat", cwd=folder)
    assert "invalid reading at tick 0: x = 0.5 is outside the support of Bernoulli" in done.stderr


def test_readings_of_several_numbers(folder: Path) -> None:
    eye = "[[1.0, 0.0], [0.0, 1.0]]"
    text = f'[model]\nkind = "multivariate_gaussian"\nmean = [0.0, 0.0]\nvar = {eye}\nnoise_var = {eye}\n'
    (folder / "mf.toml").write_text(text)
    done = drive("--", "sh", "-c", "read x; echo '{\"x\": [1, 2]}'; read x", cwd=folder)
    (step,) = steps(done.stdout)
    assert step["x"] == [1, 2]
    assert step["mean"] == pytest.approx(
        [0.5, 1.0], rel=0.01
    )  # half way from the prior, less the effect of a possible change
    done = drive("--", "sh", "-c", "read x; echo '{\"x\": [1]}'; cat", cwd=folder)
    assert done.returncode == 1
    assert "invalid reading at tick 0: " in done.stderr
    done = mfbocd("detect", "-", "-c", "mf.toml", cwd=folder, stdin="1\n2\n")
    assert done.returncode == 2
    assert "a reading of this multivariate_gaussian model has 2 numbers" in done.stderr


def test_a_sensor_that_does_not_exit_is_terminated_with_its_children(folder: Path) -> None:
    script = "sleep 600 & echo $! > pid; while read x; do echo '{\"x\": 1}'; done; wait"
    done = drive("--ticks", "2", "--", "sh", "-c", script, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert len(steps(done.stdout)) == 2
    assert eventually(lambda: not alive(int((folder / "pid").read_text())))


def test_its_stderr_passes_through(folder: Path) -> None:
    command = ["sh", "-c", "echo warming up >&2; read x; echo '{\"end\": true}'"]
    done = process("drive", "-c", "mf.toml", "--quiet", "--", *command, cwd=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "warming up\n")


def test_states_that_do_not_fit_are_refused(folder: Path) -> None:
    drive("--state", "s", "--ticks", "3", *sensor(9), cwd=folder)
    saved = (folder / "s").read_bytes()
    (folder / "mf.toml").write_text(WALK.replace("zeta = 0.1", "zeta = 0.2"))
    done = drive("--state", "s", *sensor(9), cwd=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert "s was saved with another configuration, and its 3 ticks are only valid with" in done.stderr
    (folder / "mf.toml").write_text(WALK + '[data]\nunit = "m"\n')  # which affects no decision
    assert drive("--state", "s", "--ticks", "1", *sensor(9), cwd=folder).returncode == 0
    for data, message in ((b"rubbish", "is not a state"), (saved[:-5], "truncated"), (b"", "is not a state")):
        (folder / "s").write_bytes(data)
        done = drive("--state", "s", *sensor(9), cwd=folder)
        assert done.returncode == 1
        assert message in done.stderr
        assert (folder / "s").read_bytes() == data  # and is left as it was


def test_usage(folder: Path) -> None:
    assert drive(cwd=folder).returncode == 2
    assert drive("--timeout", "0", *sensor(9), cwd=folder).returncode == 2
    (folder / "mf.toml").write_text("hazard = 3\n")
    done = drive(*sensor(9), cwd=folder)
    assert done.returncode == 2
    assert "mf.toml: model.kind is missing" in done.stderr
    (folder / "mf.toml").write_text(WALK)
    done = drive("--state", "no/where", *sensor(9), cwd=folder)
    assert done.returncode == 1
    assert "Error: cannot save the state in no/where: No such file or directory" in done.stderr


def test_no_step_is_lost_when_the_pipe_is_closed(folder: Path) -> None:
    """The step that was not read is repeated by the next run."""
    waits = "while asked['tick'] == 3 and not os.path.exists('gone'): time.sleep(0.01)"
    (folder / "waiting.py").write_text("import os\n" + SENSOR.replace("time.sleep(pause)", waits))
    with running("--state", "s", "--", sys.executable, "waiting.py", "9", cwd=folder) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        ticks = [json.loads(child.stdout.readline())["tick"] for _ in range(3)]
        child.stdout.close()
        (folder / "gone").touch()
        assert child.wait(PATIENCE) == 0
        assert child.stderr.read() == ""
    after = steps(drive("--state", "s", *sensor(9), cwd=folder).stdout)
    assert ticks + [step["tick"] for step in after] == list(range(9))
