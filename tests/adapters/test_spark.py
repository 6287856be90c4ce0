"""The detectors on a real Spark in local mode: the same bits as in process, whichever process is killed."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyspark")

from docs_tools.blocks import blocks
from mfbocd import Budget, Detector, Net
from mfbocd.adapters import spark as on_spark
from mfbocd.adapters.spark import java
from mfbocd.io.config import Config
from mfbocd.policy import SharedBudget

from ..parts import PATIENCE
from .spark_streams import (
    CONFIG,
    FIELDS,
    INTERPRETED,
    JVM_OPTIONS,
    SCHEMA,
    alone,
    expected,
    messages,
    results,
    streams,
    write,
)

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """One session for all tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_SUBMIT_OPTS", JVM_OPTIONS)
        session = on_spark.session(
            "tests",
            "local[2]",
            partitions=1,
            spark__ui__enabled=False,
            spark__ui__showConsoleProgress=False,
            spark__sql__session__timeZone="UTC",
            spark__sql__adaptive__enabled=False,
            **{key.replace(".", "__"): value for key, value in INTERPRETED.items()},
        )
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()


class Place:
    """A folder with a file source and a checkpoint; `go` runs the query until the source is empty."""

    def __init__(self, session: Any, folder: Path, schema: str = SCHEMA) -> None:
        self.session, self.folder, self.schema = session, folder, schema
        self.files = 0
        self.out: dict[int, list[Any]] = {}

    def send(self, rows: list[dict[str, Any]]) -> None:
        write(self.folder / "in", self.files, rows)
        self.files += 1

    def source(self) -> Any:
        files = self.session.readStream.schema(self.schema).option("maxFilesPerTrigger", 1)
        return files.json(str(self.folder / "in"))

    def finished(self) -> Any:
        return self.session.read.schema(self.schema).json(str(self.folder / "in"))

    def go(self, answer: Any, each: Callable[[Any], Any] = lambda write: write) -> list[Any]:
        """All rows returned so far; a repeated micro-batch replaces its rows."""

        def keep(frame: Any, batch: int) -> None:
            self.out[batch] = frame.collect()

        query = answer.writeStream.foreachBatch(each(keep)).trigger(availableNow=True)
        query.option("checkpointLocation", str(self.folder / "checkpoint")).start().awaitTermination()
        return [row for batch in sorted(self.out) for row in self.out[batch]]

    def forget_last_commit(self) -> int:
        """Simulate a crash after the last micro-batch was written and before it was committed."""
        commits = self.folder / "checkpoint" / "commits"
        last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)
        return last


@pytest.fixture
def place(spark: Any, tmp_path: Path) -> Place:
    return Place(spark, tmp_path)


def wrong(found: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """Keys whose rows differ."""
    return sorted(key for key in found.keys() | wanted.keys() if found.get(key) != wanted.get(key))


def test_many_streams_equal_detectors_in_process_to_the_bit(place: Place) -> None:
    tables = streams(60, 40, seed=1)
    rng = np.random.default_rng(2)
    for ticks in (range(25), range(25, 40)):
        rows = messages(tables, ticks)
        for row in rows[:3]:
            row |= {"imu": None, "gps": None}  # missing readings, which the configuration skips
        rng.shuffle(rows)
        place.send(rows)
    for key in ("s0", "s1", "s2"):
        for at in (0, 25):
            tables[key][at] = [float("nan"), float("nan")]
    answer = on_spark.detect_stream(place.source(), "stream", "at", None, CONFIG, buckets=7)
    assert answer.columns == ["stream", "at", *FIELDS, "problem"]
    wanted = expected(tables)
    assert wanted["s0"][0][FIELDS.index("x") + 1] is None
    place.session.conf.set("spark.sql.shuffle.partitions", 3)
    try:
        streamed = results(place.go(answer))
    finally:
        place.session.conf.set("spark.sql.shuffle.partitions", 1)
    assert wrong(streamed, wanted) == []
    assert sum(row[FIELDS.index("alarm") + 1] for rows in streamed.values() for row in rows) > 30
    history = on_spark.detect_batch(place.finished(), "stream", "at", {"imu": "imu", "gps": "gps"}, CONFIG)
    assert wrong(results(history.collect()), wanted) == []


def test_the_example_of_the_page_runs_as_a_script(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "detector.toml").write_text((ROOT / "examples" / "walk.toml").read_text())
    write(tmp_path / "readings", 0, messages(streams(2, 3, seed=1), range(3)))
    block = next(b for b in blocks((ROOT / "docs" / "spark.md").read_text()) if b.language == "python")
    (tmp_path / "example.py").write_text(block.text)
    done = subprocess.run(
        [sys.executable, "example.py"],
        cwd=tmp_path,
        env=os.environ | {"SPARK_SUBMIT_OPTS": JVM_OPTIONS},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert spark.read.parquet(str(tmp_path / "out" / "steps")).count() == 6
    assert (tmp_path / "out" / "problems").exists()


def test_a_backfill_continues_live_and_leaves_spark_as_if_it_had_run_straight_through(place: Place) -> None:
    from pyspark.errors import StreamingQueryException

    spark, tables = place.session, streams(5, 30, seed=21)
    past = spark.createDataFrame(messages(tables, range(18)), SCHEMA)
    backfill = on_spark.detect_batch(past, "stream", "at", None, CONFIG, states=True)
    begin = on_spark.final_states(backfill)
    assert begin.columns == ["stream", "state", "record"]
    assert on_spark.steps(backfill).columns == ["stream", "at", *FIELDS]
    place.send(messages(tables, range(12, 24)))  # the first ones are in the backfill too: they must be skipped
    place.send(messages(tables, range(24, 30)))

    def query(config: Config = CONFIG, buckets: int = 4) -> Any:
        options: dict[str, Any] = {"start": begin, "ttl": timedelta(days=1), "buckets": buckets}
        return on_spark.detect_stream(place.source(), "stream", "at", None, config, **options)

    live = place.go(query())
    assert [row for row in live if row["problem"] is not None] == []
    assert results(live) == {key: rows[18:] for key, rows in expected(tables).items()}
    left = {row["stream"]: row for row in on_spark.states(str(place.folder / "checkpoint"), "stream").collect()}
    assert set(left) == set(tables)
    for key, table in tables.items():
        straight = CONFIG.detector({"imu": lambda raw: raw[0], "gps": lambda raw: raw[1]}, seed=seed_of(key))
        for raw in table:
            straight.step(raw)
        assert bytes(left[key]["state"]) == straight.to_bytes()
        assert Detector.from_bytes(bytes(left[key]["state"])).ticks == 30
    place.send(messages(tables, [29]))
    with pytest.raises(StreamingQueryException, match="written with another config"):
        place.go(query(dataclasses.replace(CONFIG, hazard=0.01)))
    for buckets in (5, 64):  # in most of 64 buckets there was no stream before
        with pytest.raises(StreamingQueryException, match=rf"Existing .*buckets_4,.* and new .*buckets_{buckets},"):
            place.go(query(buckets=buckets))


def seed_of(key: str) -> int:
    return on_spark.stream_seed(CONFIG.seed, key)


def test_a_stream_is_forgotten_after_its_ttl(place: Place) -> None:
    tables = streams(1, 4, seed=22)
    place.send(messages(tables, range(2)))
    place.send(messages(tables, range(2, 4)))
    answer = on_spark.detect_stream(place.source(), "stream", "at", None, CONFIG, ttl=timedelta(milliseconds=1))
    assert [row["tick"] for row in place.go(answer)] == [0, 1, 0, 1]


def group_of(process: subprocess.Popen[bytes]) -> list[int]:
    """Kill the process and its descendants: Spark's Python workers have a separate process group."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
    found = [process.pid]
    for pid in found:
        found += parents.get(pid, [])
    return found


def test_every_stream_is_right_after_a_kill_and_a_resume(spark: Any, tmp_path: Path) -> None:
    tables = streams(20, 40, seed=3)
    for i in range(4):
        write(tmp_path / "in", i, messages(tables, range(10 * i, 10 * i + 10)))
    (tmp_path / "detector.toml").write_text(CONFIG.to_toml())
    script = str(ROOT / "examples" / "spark_detect.py")
    arguments = ["--master", "local[1]", "--files-per-batch", "1"]
    for name, path in (("config", "detector.toml"), ("input", "in"), ("out", "out"), ("checkpoint", "state")):
        arguments += [f"--{name}", str(tmp_path / path)]
    commits = tmp_path / "state" / "commits"

    def committed() -> int:
        return sum(path.name.isdigit() for path in commits.iterdir()) if commits.is_dir() else 0

    with (tmp_path / "log").open("wb") as log:
        command = [sys.executable, script, *arguments]
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    while committed() < 2:
        assert process.poll() is None, (tmp_path / "log").read_text()[-3000:]
        time.sleep(0.02)
    for pid in group_of(process):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    assert process.wait() == -signal.SIGKILL
    assert committed() < 4  # it was killed in the middle
    with pytest.MonkeyPatch.context() as patch:  # resumed in the session of the tests, another process
        patch.setattr(sys, "argv", [script, *arguments])
        runpy.run_path(script, run_name="__main__")
    # a file that the source had listed when it was killed joins the next batch: then there is one batch less
    assert committed() in (3, 4)
    assert wrong(results(spark.read.parquet(str(tmp_path / "out" / "steps")).collect()), expected(tables)) == []
    assert spark.read.parquet(str(tmp_path / "out" / "problems")).count() == 0


POISON: dict[str, Any] = {
    "NaN": {"stream": "s0", "at": 3, "x": "nan"},
    "wrong type": {"stream": "s0", "at": 4, "x": "seven"},
    "infinite": {"stream": "s0", "at": 5, "x": "inf"},
    "no reading": {"stream": "s0", "at": 6},
    "unknown key": {"stream": "s9", "at": 3, "x": "0.5"},
    "no key": {"at": 3, "x": "0.5"},
    "no time": {"stream": "s0", "x": "0.5"},
    "time of a wrong type": {"stream": "s0", "at": "soon", "x": "0.5"},
}


def number(text: Any) -> Any:
    return float(text)


def test_a_bad_row_goes_to_the_side_output_and_the_stream_continues(spark: Any, tmp_path: Path) -> None:
    config = Config.parse({"model": {"kind": "gaussian", "var": 9}, "hazard": 0.02, "missing": "raise"})
    place = Place(spark, tmp_path, "stream STRING, at LONG, x STRING")
    table = streams(1, 8, seed=5)["s0"]
    times = [0, 1, 2, 10, 11, 12, 13, 14]
    good = [{"stream": "s0", "at": at, "x": repr(row[1])} for at, row in zip(times, table, strict=True)]
    place.send(good[:3])
    place.send([*POISON.values(), *good[3:]])
    options: dict[str, Any] = {"observers": {"full": number}, "keys": ["s0"]}
    answer = on_spark.detect_stream(place.source(), "stream", "at", "x", config, **options)
    rows = place.go(answer)
    history = on_spark.detect_batch(place.finished(), "stream", "at", "x", config, **options)
    side = on_spark.problems(history)
    assert side.columns == ["stream", "at", "problem"]
    found = sorted((row["stream"] or "", row["at"] or 0, row["problem"]) for row in side.collect())
    assert found == sorted((row["stream"] or "", row["at"] or 0, row["problem"]) for row in rows if row["problem"])
    assert found == [
        ("", 3, "the key is empty"),
        ("s0", 0, "the time is empty"),
        ("s0", 0, "the time is empty"),
        ("s0", 3, "ValueError: x is nan: pass missing='skip' if a reading may be missing"),
        ("s0", 4, "ValueError: could not convert string to float: 'seven'"),
        ("s0", 5, "ValueError: x must be finite, not inf"),
        ("s0", 6, "TypeError: float() argument must be a string or a real number, not 'NoneType'"),
        ("s9", 3, "the key 's9' is none of those expected"),
    ]
    detector = config.detector(seed=on_spark.stream_seed(config.seed, "s0"))
    wanted = [detector.step(row[1]) for row in table]
    mine = sorted((row for row in rows if row["problem"] is None), key=lambda row: row["at"])
    assert [row["at"] for row in mine] == times
    assert [(row["tick"], row["x"], row["mean"]) for row in mine] == [(s.tick, s.x, s.mean) for s in wanted]


class Paid:
    """Observers that read a payload and log to a file when they are loaded and called."""

    def __init__(self, ledger: Path) -> None:
        self.ledger = str(ledger)

    def __call__(self) -> dict[str, Callable[[Any], float]]:
        self.note("loaded", os.getpid())
        return {"imu": lambda raw: self.read("imu", raw), "gps": lambda raw: self.read("gps", raw)}

    def read(self, name: str, raw: dict[str, Any]) -> float:
        self.note(name, raw["n"])
        return float(raw[name])

    def note(self, *what: Any) -> None:
        with open(self.ledger, "a") as file:
            file.write(json.dumps(what) + "\n")

    def noted(self) -> list[list[Any]]:
        return [json.loads(line) for line in Path(self.ledger).read_text().splitlines()]


def test_a_replay_chooses_the_same_by_the_same_clock_and_pays_twice_only_without_a_cache(
    spark: Any, tmp_path: Path
) -> None:
    place = Place(spark, tmp_path, "stream STRING, at TIMESTAMP, raw STRUCT<n: LONG, imu: DOUBLE, gps: DOUBLE>")
    tables = streams(4, 12, seed=7)
    for first in (0, 6):
        rows = messages(tables, range(first, first + 6))
        payload = [{"imu": row["imu"], "gps": row["gps"], "n": i + 1000 * first} for i, row in enumerate(rows)]
        at = [f"2024-05-01T00:{row['at']:02d}:00Z" for row in rows]
        place.send([{"stream": r["stream"], "at": t, "raw": p} for r, t, p in zip(rows, at, payload, strict=True)])
    paid = Paid(tmp_path / "ledger")
    cache = on_spark.FolderCache(tmp_path / "cache")

    def go(cache: Any) -> list[Any]:
        options: dict[str, Any] = {"cache": cache, "max_ahead": timedelta(hours=30)}
        return place.go(on_spark.detect_stream(place.source(), "stream", "at", "raw", CONFIG, paid, **options))

    def calls() -> list[Any]:
        return [line for line in paid.noted() if line[0] != "loaded"]

    once = go(cache)
    assert len(calls()) == 48
    for key, table in tables.items():
        mine = sorted((row for row in once if row["stream"] == key), key=lambda row: row["at"])
        assert [(row["fidelity"], row["x"], row["mean"]) for row in mine] == [
            (step.fidelity, step.x, step.mean) for step in alone(key, table)
        ]
        assert mine[3]["at"].minute == 3
    # each query loads once per worker process, however many micro-batches and streams
    loads = [pid for what, pid in paid.noted() if what == "loaded"]
    assert len(loads) == len(set(loads))
    history = on_spark.detect_batch(place.finished(), "stream", "at", "raw", CONFIG, paid, cache=cache)
    assert sorted(map(repr, history.collect())) == sorted(map(repr, once))
    assert len(calls()) == 48
    assert place.forget_last_commit() == 1
    del place.out[1]
    assert sorted(map(repr, go(None))) == sorted(map(repr, once))
    assert sorted(map(repr, calls()[48:])) == sorted(repr(call) for call in calls()[:48] if call[1] >= 6000)
    # as if the micro-batch had begun 30 hours and 8.5 minutes before midnight of May 1st: the last rows are ahead
    assert place.forget_last_commit() == 1
    noted = tmp_path / "checkpoint" / "offsets" / "1"
    noted.with_name(".1.crc").unlink()
    clock = 1714521600000 - (30 * 60 * 60 - 8 * 60 - 30) * 1000
    text, many = re.subn(r'"batchTimestampMs":\d+', f'"batchTimestampMs":{clock}', noted.read_text())
    assert many == 1
    noted.write_text(text)
    before = len(calls())
    again = [row for row in go(cache) if row["at"].minute >= 6]
    late = "ahead: more than max_ahead = 1 day, 6:00:00 after the clock"
    assert {(row["at"].minute, row["problem"]) for row in again} == {
        (minute, None if minute <= 8 else late) for minute in range(6, 12)
    }
    assert len(calls()) == before


def test_naive_times_unparsed_records_and_rows_that_are_late_or_repeated(spark: Any, tmp_path: Path) -> None:
    """An hour that the session's time zone skips is two ticks; an unparsed value is not a missing reading."""
    place = Place(spark, tmp_path, "stream STRING, at TIMESTAMP_NTZ, imu INT, gps DOUBLE, _corrupt_record STRING")
    table = [[float(i % 3), 0.5 * i] for i in range(5)]
    times = [f"2024-03-31T0{1 + i // 2}:{30 * (i % 2):02d}:00" for i in range(5)]
    rows = [
        {"stream": "s0", "at": at, "imu": int(imu), "gps": gps} for at, (imu, gps) in zip(times, table, strict=True)
    ]
    place.send([rows[0], rows[1], rows[1], rows[1] | {"at": "9000-01-01T00:00:00"}, *rows[3:]])
    rows[2:] = rows[3:]
    damaged = {"stream": "s0", "at": "2024-03-31T01:45:00", "imu": 1, "gps": "seven"}
    late = {"stream": "s0", "at": "2024-03-31T02:00:00", "imu": 1, "gps": 7.0}
    place.send([damaged, rows[1] | {"gps": 77.0}, rows[0], late])
    del table[2], times[2]
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        answer = on_spark.detect_stream(place.source(), "stream", "at", None, CONFIG)
        assert dict(answer.dtypes)["at"] == "timestamp_ntz"
        found = place.go(answer)
        history = on_spark.steps(on_spark.detect_batch(place.finished(), "stream", "at", None, CONFIG)).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert [row["at"].isoformat() for row in history] == sorted([*times, late["at"]])
    mine = sorted((row for row in found if row["problem"] is None), key=lambda row: row["at"])
    assert [row["at"] for row in mine] == [datetime.fromisoformat(at) for at in times]
    assert [(row["fidelity"], row["x"], row["mean"]) for row in mine] == [
        (step.fidelity, step.x, step.mean) for step in alone("s0", table)
    ]
    side = sorted((row["at"].isoformat(), row["problem"]) for row in found if row["problem"] is not None)
    at = int((datetime.fromisoformat(times[-1]) - datetime(1970, 1, 1)) / timedelta(microseconds=1))
    assert side == [
        ("2024-03-31T01:30:00", "conflict: another row of this time was applied"),
        ("2024-03-31T01:45:00", f"not of the schema: {json.dumps(damaged)}"),
        ("2024-03-31T02:00:00", f"late: {at} was seen before it"),
        ("9000-01-01T00:00:00", "ahead: more than max_ahead = 1 day, 0:00:00 after the clock"),
    ]


def test_a_group_spends_one_budget_and_a_replay_is_at_the_same_price(place: Place) -> None:
    tables = streams(20, 20, seed=8)
    config = dataclasses.replace(CONFIG, policy={"kind": "budget", "per_tick": 20 * 8.0})
    for i in range(4):
        place.send(messages(tables, range(5 * i, 5 * i + 5)))
    group = on_spark.GroupBudget(place.folder / "prices", config, streams=20)

    def answer() -> Any:
        return on_spark.detect_stream(place.source(), "stream", "at", None, config, group=group)

    rows = place.go(answer(), group.each)
    prices = [group.price(batch) for batch in range(5)]
    assert len(set(prices)) == 5
    # the prices that the driver must have learned, from the rows
    one = config.detector(shared=True)
    assert isinstance(one.policy, Budget)
    budget = SharedBudget(one.policy, one.fidelities, one._filter, 20)
    for batch in range(4):
        assert budget.price == prices[batch]
        costs = [row["cost"] for row in place.out[batch]]
        assert len(costs) == 100
        budget.record(sum(costs), 100)
    # and each stream decided at those prices
    for key, table in tables.items():
        mine = sorted((row for row in rows if row["stream"] == key), key=lambda row: row["at"])
        observers = {"imu": lambda raw: raw[0], "gps": lambda raw: raw[1]}
        detector = config.detector(observers, seed=seed_of(key), shared=True)
        for at, row in enumerate(mine):
            detector.policy = Net(prices[at // 5]).bind(detector.fidelities)
            step = detector.step(table[at])
            assert (row["fidelity"], row["x"], row["mean"]) == (step.fidelity, step.x, step.mean)
    assert place.forget_last_commit() == 3
    del place.out[3]
    assert sorted(map(repr, place.go(answer(), group.each))) == sorted(map(repr, rows))
    assert group.price(4) == prices[4]


def test_wrong_arguments_are_named_before_anything_runs(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "in", 0, [])
    df = spark.read.schema(f"{SCHEMA}, tick LONG, many MAP<STRING, DOUBLE>").json(str(tmp_path / "in"))
    streaming = spark.readStream.schema(SCHEMA).json(str(tmp_path / "in"))

    def refused(message: str, *given: Any, **more: Any) -> None:
        with pytest.raises(ValueError, match=message):
            on_spark.detect_batch(*given, **more)

    refused("key must name a column of the frame, stream, at, .*, not 'id'", df, "id", "at", None, CONFIG)
    refused("time must not have the name of a column of the result, as 'tick'", df, "stream", "tick", None, CONFIG)
    refused("time must be a column of whole numbers or timestamps", df, "stream", "imu", None, CONFIG)
    refused("observers must read imu, gps from it", df, "stream", "at", "imu", CONFIG)
    refused("must say in which column 'gps' stands", df, "stream", "at", {"imu": "imu"}, CONFIG)
    refused("readings names 'lidar', which is none of imu, gps", df, "stream", "at", {"lidar": "imu"}, CONFIG)
    refused("observers is for a raw payload", df, "stream", "at", None, CONFIG, {"imu": number})
    refused("must not be a map, as 'many' is", df, "stream", "at", "many", CONFIG, {"imu": number, "gps": number})
    refused("df must be a finished frame", streaming, "stream", "at", None, CONFIG)
    for kind in ("STRING", "DECIMAL(10,2)", "BINARY", "TIMESTAMP", "ARRAY<DOUBLE>"):
        typed = spark.read.schema(f"stream STRING, at LONG, imu DOUBLE, gps {kind}").json(str(tmp_path / "in"))
        shown = kind.lower()
        refused(
            rf"readings must be numbers .*'gps' is {re.escape(shown)}: cast it", typed, "stream", "at", None, CONFIG
        )
        single = Config.parse({"model": {"kind": "gaussian"}})
        refused(rf"'gps' is {re.escape(shown)}: cast it", typed, "stream", "at", "gps", single)
    several = Config.parse({"model": {"kind": "multivariate_gaussian", "mean": [0, 0]}})
    refused("readings must be arrays of numbers .*'imu' is double", df, "stream", "at", "imu", several)
    with pytest.raises(TypeError, match="max_ahead must be a whole number or None, as 'at' is bigint"):
        on_spark.detect_batch(df, "stream", "at", None, CONFIG, max_ahead=timedelta(days=1))
    refused("max_ahead must be positive, not 0", df, "stream", "at", None, CONFIG, max_ahead=0)
    with pytest.raises(ValueError, match="df must be a streaming frame"):
        on_spark.detect_stream(df, "stream", "at", None, CONFIG)
    with pytest.raises(TypeError, match=r"config must be a mfbocd\.io\.config\.Config"):
        on_spark.detect_batch(df, "stream", "at", None, CONFIG.to_dict())  # type: ignore[arg-type]
    other = on_spark.GroupBudget(tmp_path, dataclasses.replace(CONFIG, seed=1), streams=2)
    with pytest.raises(ValueError, match="group was made for another config"):
        on_spark.detect_stream(streaming, "stream", "at", None, CONFIG, group=other)
    with pytest.raises(ValueError, match="a config with a budget, not Net"):
        on_spark.GroupBudget(tmp_path, dataclasses.replace(CONFIG, policy={"kind": "net", "price": 0.1}), streams=2)
    with pytest.raises(ValueError, match="start must have the columns stream and state"):
        on_spark.detect_stream(streaming, "stream", "at", None, CONFIG, start=df)
    with pytest.raises(ValueError, match="ttl must be a positive"):
        on_spark.detect_stream(streaming, "stream", "at", None, CONFIG, ttl=timedelta(0))
    spark.conf.set(java.NO_DATA, "true")
    try:
        with pytest.raises(ValueError, match=r"noDataMicroBatches.enabled must be false with ttl"):
            on_spark.detect_stream(streaming, "stream", "at", None, CONFIG, ttl=timedelta(days=1))
    finally:
        spark.conf.set(java.NO_DATA, "false")
    refused("key must be a column of single values, but 'many' is map", df, "many", "at", None, CONFIG)
    with pytest.raises(ValueError, match=r"result must be that of detect_batch\(..., states=True\)"):
        on_spark.final_states(df)
    spark.conf.unset(java.PROVIDER)
    try:
        spark.conf.set(java.PROVIDER, "another")
        with pytest.raises(ValueError, match=r"providerClass must be .*RocksDB.*, not another"):
            on_spark.detect_stream(streaming, "stream", "at", None, CONFIG)
    finally:
        spark.conf.set(java.PROVIDER, java.ROCKSDB)
