"""`mfbocd detect` over line protocol: results are added, nothing else changes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

import mfbocd as mf
from mfbocd.io.influx import Point

from .program import BUFFERED, COMMAND, WALK, mfbocd

pytestmark = pytest.mark.slow

START = 1_700_000_000_123_456_789
X = np.concatenate([np.random.default_rng(1).normal(20, 1, 60), np.random.default_rng(2).normal(30, 1, 20)])


def lines(count: int = 80) -> list[str]:
    """Two series; the second, whose tags come in either order, has no change."""
    found = []
    for i, x in enumerate(X[:count].round(3).tolist()):
        found.append(f'air,room=living\\ room temp={x},n={i % 3}i,ok=t,note="a, \\"b\\" {i}" {START + i}')
        tags = "host=h,room=b" if i % 2 else "room=b,host=h"
        found.append(f"air,{tags} temp={20 + i % 2}u {START + i}")
    return found


def test_results_are_added_as_fields_and_nothing_else_changes(tmp_path: Path) -> None:
    given = ["# a comment", *lines()]
    done = mfbocd("detect", "-", "--format", "influx", cwd=tmp_path, stdin="\n".join(given) + "\n")
    assert done.returncode == 0, done.stderr
    out = done.stdout.splitlines()
    assert out[0] == "# a comment"
    assert len(out) == len(given)
    for before, after in zip(lines(), out[1:], strict=True):
        fields, _, time = before.rpartition(" ")
        assert after.startswith(fields + ",")
        assert after.endswith(f" {time}")
    points = [Point.parse(line) for line in out[1:]]
    own = mf.detect(X.round(3))
    alarms = [point for point in points if any(point.fields.get(f"{name}_alarm") for name in ("temp", "n"))]
    assert [point.tags for point in alarms] == [{"room": "living room"}]
    assert alarms[0].fields["temp_changed_at"] == own.changes[0].at == 60
    assert alarms[0].fields["temp_changed_at_time"] == START + 60
    assert not any(name.startswith(("ok_", "note_")) for point in points for name in point.fields)
    assert [point.fields["temp_tick"] for point in points[1::2]] == list(
        range(80)
    )  # one series, however its tags come
    assert "Points: 160. Series: 3. Changes: 1." in done.stderr


def test_every_line_is_answered_at_once(tmp_path: Path) -> None:
    """As Telegraf's processors.execd needs it: it keeps the pipe open."""
    command = [*COMMAND, "detect", "-", "--format", "influx", "-q"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=BUFFERED
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        for line in lines(3):
            print(line, file=running.stdin, flush=True)
            assert running.stdout.readline().startswith(line.rpartition(" ")[0])
        running.stdin.close()
        assert running.wait() == 0


def test_bad_lines_stop_or_are_skipped(tmp_path: Path) -> None:
    given = "m a=1\nm a=\nm a=2,a_alarm=t\nm a=3\n"
    done = mfbocd("detect", "-", "--format", "influx", cwd=tmp_path, stdin=given)
    assert done.returncode == 1
    assert "line 2: expected the value of field 'a'" in done.stderr
    assert len(done.stdout.splitlines()) == 1
    done = mfbocd("detect", "-", "--format", "influx", "--on-bad", "skip", cwd=tmp_path, stdin=given)
    assert done.returncode == 0
    out = done.stdout.splitlines()
    assert out[1] == "m a=2,a_alarm=t"  # its own field stays
    assert Point.parse(out[2]).fields["a_tick"] == 2
    assert "Skipped 2 bad lines or fields; the first: line 2: " in done.stderr


def test_no_result_replaces_that_of_another_field(tmp_path: Path) -> None:
    """An alarm of `a` has the field `a_before_mean`, which every reading of `a_before` has."""
    given = "".join(f"m a={x},a_before=1\n" for x in X.round(3).tolist())
    done = mfbocd("detect", "-", "--format", "influx", cwd=tmp_path, stdin=given)
    assert done.returncode == 1
    assert "the line has a field 'a_before_mean' already; select other fields" in done.stderr
    done = mfbocd("detect", "-", "--format", "influx", "--on-bad", "skip", cwd=tmp_path, stdin=given)
    assert done.returncode == 0
    plain = [line for line in done.stdout.splitlines() if "_tick" not in line]
    assert len(plain) == 1
    assert plain[0] in given.splitlines()
    assert "Skipped 1 bad lines or fields" in done.stderr


def test_memory_is_bounded_by_the_number_of_series(tmp_path: Path) -> None:
    given = "".join(f"m,id={i % 4} a=1\n" for i in (0, 1, 0, 2, 0, 1))
    done = mfbocd("detect", "-", "--format", "influx", "--max-series", "2", cwd=tmp_path, stdin=given)
    ticks = [Point.parse(line).fields["a_tick"] for line in done.stdout.splitlines()]
    assert ticks == [0, 0, 1, 0, 2, 0]  # 1 was forgotten for 2, the least recently seen
    assert done.stderr.count("more than 2 series") == 1
    arguments = ["--input-format", "influx", "--format", "csv", "--max-series", "1"]
    done = mfbocd("detect", "-", *arguments, cwd=tmp_path, stdin=given)
    assert len(done.stdout.splitlines()) == 7  # the header once


def test_fields_are_selected_and_the_other_formats_name_the_series(tmp_path: Path) -> None:
    (tmp_path / "points.lp").write_text("\n".join(lines(4)) + "\n")
    done = mfbocd("detect", "points.lp", "--column", "ok", "--column", "n", "--json", cwd=tmp_path)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(step["column"], step["x"]) for step in found][:2] == [
        ("air,room=living\\ room n", 0.0),
        ("air,room=living\\ room ok", 1.0),
    ]
    assert found[0]["time"] == START
    assert mfbocd("detect", "points.lp", "--plot", "x.png", cwd=tmp_path).returncode == 2


def test_fields_can_be_fidelities_of_one_stream(tmp_path: Path) -> None:
    (tmp_path / "walk.toml").write_text(WALK)
    given = "".join(f"walk,id=1 imu={0.1 * (i % 5)},gps={0.2 * (i % 3)},other=7 {i}\n" for i in range(20))
    done = mfbocd("detect", "-", "-c", "walk.toml", "--format", "influx", cwd=tmp_path, stdin=given)
    assert done.returncode == 0, done.stderr
    points = [Point.parse(line) for line in done.stdout.splitlines()]
    assert {point.fields["mfbocd_fidelity"] for point in points} == {"imu", "gps"}
    assert {point.fields["mfbocd_cost"] for point in points} == {1.0, 40.0}


def test_a_configuration_of_one_fidelity_reads_its_field_or_all(tmp_path: Path) -> None:
    model = '[model]\nkind = "gaussian"\n[[fidelity]]\nname = "full"\nzeta = 1.0\ncost = 1.0\n'
    (tmp_path / "all.toml").write_text(model)
    (tmp_path / "one.toml").write_text(model + 'column = "a"\n')
    for config, columns, names in (
        ("all.toml", [], ["a", "b"]),
        ("one.toml", [], ["a"]),
        ("one.toml", ["--column", "b"], ["b"]),
    ):
        arguments = ["detect", "-", "-c", config, "--format", "influx", *columns]
        done = mfbocd(*arguments, cwd=tmp_path, stdin="m a=1,b=2i\n")
        fields = Point.parse(done.stdout.strip()).fields
        assert [name[0] for name in fields if name.endswith("_tick")] == names
    done = mfbocd("detect", "-", "--column", "c", "--format", "influx", cwd=tmp_path, stdin="m a=1,b=2i\n")
    assert done.stdout == "m a=1,b=2i\n"
    assert "no point had a field to analyse" in done.stderr


def test_a_table_becomes_line_protocol(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("at,a,b\n2025-03-01T08:00:00Z,1.5,2\n2025-03-01T08:00:01Z,,3\n")
    done = mfbocd("detect", "t.csv", "--format", "influx", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    points = [Point.parse(line) for line in done.stdout.splitlines()]
    assert [(point.tags["column"], point.fields.get("x")) for point in points] == [
        ("a", 1.5),
        ("b", 2.0),
        ("a", None),
        ("b", 3.0),
    ]
    assert points[0].time == 1_740_816_000 * 10**9
    assert points[3].time == 1_740_816_001 * 10**9
