"""The detectors on a real Spark in local mode: the same bits as in process, whichever process is killed."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyspark")

from docs_tools.blocks import blocks
from mfbocd import Budget, Net
from mfbocd.adapters import spark as on_spark
from mfbocd.adapters.spark import java
from mfbocd.io.config import Config
from mfbocd.policy import SharedBudget

from .spark_streams import CONFIG, FIELDS, SCHEMA, alone, expected, messages, results, streams, write

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def quick_java() -> Iterator[None]:
    """Without the optimizing compiler and a parallel collector, which cost a JVM of a minute more than they save."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        yield


@pytest.fixture(scope="module")
def spark(quick_java: None) -> Iterator[Any]:
    session = on_spark.session(
        "tests",
        "local[2]",
        spark__ui__enabled=False,
        spark__sql__shuffle__partitions=1,
        spark__ui__showConsoleProgress=False,
        spark__sql__session__timeZone="UTC",
        spark__sql__adaptive__enabled=False,
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@contextmanager
def partitions(session: Any, count: int) -> Iterator[None]:
    """Queries with `count` partitions; by default they have one, as every worker imports and loads the kernels."""
    session.conf.set("spark.sql.shuffle.partitions", count)
    try:
        yield
    finally:
        session.conf.set("spark.sql.shuffle.partitions", 1)


class Place:
    """A folder with a file source, results and a checkpoint; `go` runs the query until the source is empty."""

    def __init__(self, session: Any, folder: Path, schema: str = SCHEMA) -> None:
        self.session, self.folder, self.schema = session, folder, schema
        self.files = 0

    def send(self, rows: list[dict[str, Any]]) -> None:
        write(self.folder / "in", self.files, rows)
        self.files += 1

    def source(self) -> Any:
        files = self.session.readStream.schema(self.schema).option("maxFilesPerTrigger", 1)
        return files.json(str(self.folder / "in"))

    def finished(self) -> Any:
        return self.session.read.schema(self.schema).json(str(self.folder / "in"))

    def go(self, answer: Any, each: Callable[[Any], Any] = lambda write: write) -> list[Any]:
        """All rows written so far; a repeated micro-batch replaces its rows."""

        def write_batch(frame: Any, batch: int) -> None:
            frame.write.mode("overwrite").parquet(str(self.folder / "out" / f"batch={batch}"))

        query = answer.writeStream.foreachBatch(each(write_batch)).trigger(availableNow=True)
        query.option("checkpointLocation", str(self.folder / "checkpoint")).start().awaitTermination()
        return self.rows()

    def rows(self) -> list[Any]:
        found: list[Any] = self.session.read.parquet(str(self.folder / "out")).collect()
        return found

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


def test_many_streams_of_forty_ticks_equal_detectors_in_process_to_the_bit(place: Place) -> None:
    tables = streams(200, 40, seed=1)
    rng = np.random.default_rng(2)
    for first in (0, 25):
        rows = messages(tables, range(first, min(first + 25, 40)))
        rng.shuffle(rows)
        place.send(rows)
    answer = on_spark.detect_stream(place.source(), "stream", "at", None, CONFIG)
    assert answer.columns == ["stream", "at", *FIELDS, "problem"]
    wanted = expected(tables)
    with partitions(place.session, 2):
        streamed = results(place.go(answer))
        history = on_spark.detect_batch(place.finished(), "stream", "at", {"imu": "imu", "gps": "gps"}, CONFIG)
        assert wrong(results(history.collect()), wanted) == []
    assert wrong(streamed, wanted) == []
    assert sum(row[FIELDS.index("alarm") + 1] for rows in streamed.values() for row in rows) > 100


def test_the_example_of_the_page_writes_steps(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "detector.toml").write_text((ROOT / "examples" / "walk.toml").read_text())
    write(tmp_path / "readings", 0, messages(streams(2, 3, seed=1), range(3)))
    (block,) = (b for b in blocks((ROOT / "docs" / "scale.md").read_text()) if b.language == "python")
    # relative paths belong to the folder in which the JVM was started
    code = re.sub(r'"(readings/|out/|state")', rf'"{tmp_path}/\1', block.text)
    defined: dict[str, Any] = {}
    exec(code, defined)
    defined["query"].processAllAvailable()
    defined["query"].stop()
    assert spark.read.parquet(str(tmp_path / "out" / "steps")).count() == 6
    assert (tmp_path / "out" / "problems").exists()


@pytest.mark.parametrize("count", [1, 5])
def test_results_depend_neither_on_partitions_nor_on_the_order_of_rows(place: Place, count: int) -> None:
    config = dataclasses.replace(CONFIG, policy={"kind": "random"}, seed=3)
    tables = streams(20, 12, seed=11)
    rng = np.random.default_rng(count)
    for first in (0, 5):
        rows = messages(tables, range(first, 5 if first == 0 else 12))
        rng.shuffle(rows)
        place.send(rows)
    with partitions(place.session, count):
        streamed = results(place.go(on_spark.detect_stream(place.source(), "stream", "at", None, config)))
    assert streamed == expected(tables, config)
    if count == 1:
        history = on_spark.detect_batch(place.finished(), "stream", "at", None, config)
        assert results(history.collect()) == streamed
    read = {tuple(row[FIELDS.index("fidelity") + 1] for row in rows) for rows in streamed.values()}
    assert len(read) == 20  # each stream draws independently


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


def test_every_stream_is_right_after_two_kills_and_resumes(spark: Any, tmp_path: Path) -> None:
    tables = streams(60, 40, seed=3)
    for i in range(4):
        write(tmp_path / "in", i, messages(tables, range(10 * i, 10 * i + 10)))
    (tmp_path / "detector.toml").write_text(CONFIG.to_toml())
    command = [sys.executable, str(ROOT / "examples" / "spark_detect.py"), "--master", "local[2]"]
    command += ["--config", "detector.toml", "--input", "in", "--out", "out", "--checkpoint", "state"]
    command += ["--files-per-batch", "1", "--partitions", "2"]
    commits = tmp_path / "state" / "commits"

    def committed() -> int:
        return sum(path.name.isdigit() for path in commits.iterdir()) if commits.is_dir() else 0

    for enough in (1, 2):
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log, start_new_session=True)
        while committed() < enough:
            assert process.poll() is None, (tmp_path / "log").read_text()[-3000:]
            time.sleep(0.05)
        for pid in group_of(process):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        assert process.wait() == -signal.SIGKILL
    assert committed() < 4  # it was killed in the middle
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    # a file that the source had listed when it was killed joins the next batch: then there is one batch less
    assert committed() in (3, 4)
    assert wrong(results(spark.read.parquet(str(tmp_path / "out" / "steps")).collect()), expected(tables)) == []
    assert spark.read.parquet(str(tmp_path / "out" / "problems")).count() == 0


def test_a_repeated_row_is_ignored_and_a_late_or_conflicting_one_is_reported(place: Place) -> None:
    tables = streams(3, 10, seed=4)
    place.send(messages(tables, [0, 1, 2, 4, 4, 5]))
    other = [row | {"gps": 99.0, "imu": 99.0} for row in messages(tables, [2, 3])]  # the 2nd is new, but late
    place.send(other + messages(tables, [1, 5, 6]))
    rows = place.go(on_spark.detect_stream(place.source(), "stream", "at", None, CONFIG))
    kept = [0, 1, 2, 4, 5, 6]
    for key, table in tables.items():
        mine = sorted(
            (row for row in rows if row["stream"] == key and row["problem"] is None), key=lambda row: row["at"]
        )
        assert [row["at"] for row in mine] == kept
        assert [(row["tick"], row["mean"]) for row in mine] == [
            (step.tick, step.mean) for step in alone(key, [table[at] for at in kept])
        ]
    late = [(row["stream"], row["at"], row["problem"], row["tick"]) for row in rows if row["problem"] is not None]
    conflict = "conflict: another row of this time was applied"
    assert sorted(late) == sorted(
        row for key in tables for row in ((key, 2, conflict, None), (key, 3, "late: 5 was seen before it", None))
    )


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
    place.send(list(POISON.values()))
    place.send(good[3:])
    options: dict[str, Any] = {"observers": {"full": number}, "keys": ["s0"]}
    answer = on_spark.detect_stream(place.source(), "stream", "at", "x", config, **options)
    place.go(answer)
    frame = spark.read.parquet(str(tmp_path / "out")).drop("batch")
    side = on_spark.problems(frame)
    assert side.columns == ["stream", "at", "problem"]
    found = sorted((row["stream"] or "", row["at"] or 0, row["problem"]) for row in side.collect())
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
    mine = sorted(on_spark.steps(frame).collect(), key=lambda row: row["at"])
    assert [row["at"] for row in mine] == times
    assert [(row["tick"], row["x"], row["mean"]) for row in mine] == [(s.tick, s.x, s.mean) for s in wanted]
    history = on_spark.detect_batch(place.finished(), "stream", "at", "x", config, **options)
    again = sorted(
        (row["stream"] or "", row["at"] or 0, row["problem"]) for row in on_spark.problems(history).collect()
    )
    assert again == found


def test_a_nan_is_a_missing_reading_where_the_config_says_skip(place: Place) -> None:
    tables = streams(1, 4, seed=6)
    rows = messages(tables, range(4))
    rows[2] |= {"imu": None, "gps": None}
    place.send(rows)
    tables["s0"][2] = [float("nan"), float("nan")]
    wanted = expected(tables)
    assert wanted["s0"][2][FIELDS.index("x") + 1] is None
    assert results(place.go(on_spark.detect_stream(place.source(), "stream", "at", None, CONFIG))) == wanted
    assert results(on_spark.detect_batch(place.finished(), "stream", "at", None, CONFIG).collect()) == wanted


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


@pytest.mark.parametrize("cached", [True, False])
def test_a_replay_chooses_the_same_and_pays_twice_only_without_a_cache(
    spark: Any, tmp_path: Path, cached: bool
) -> None:
    place = Place(spark, tmp_path, "stream STRING, at TIMESTAMP, raw STRUCT<n: LONG, imu: DOUBLE, gps: DOUBLE>")
    tables = streams(4, 12, seed=7)
    for first in (0, 6):
        rows = messages(tables, range(first, first + 6))
        payload = [{"imu": row["imu"], "gps": row["gps"], "n": i + 1000 * first} for i, row in enumerate(rows)]
        at = [f"2024-05-01T00:{row['at']:02d}:00Z" for row in rows]
        place.send([{"stream": r["stream"], "at": t, "raw": p} for r, t, p in zip(rows, at, payload, strict=True)])
    paid = Paid(tmp_path / "ledger")
    cache = on_spark.FolderCache(tmp_path / "cache") if cached else None

    def answer() -> Any:
        return on_spark.detect_stream(place.source(), "stream", "at", "raw", CONFIG, paid, cache=cache)

    rows_once = place.go(answer())
    once = [line for line in paid.noted() if line[0] != "loaded"]
    assert place.forget_last_commit() == 1
    shutil.rmtree(tmp_path / "out" / "batch=1")
    assert sorted(map(repr, place.go(answer()))) == sorted(map(repr, rows_once))
    every = [line for line in paid.noted() if line[0] != "loaded"]
    assert len(once) == 48
    assert sorted(map(repr, every[48:])) == ([] if cached else sorted(repr(c) for c in once if c[1] >= 6000))
    by_stream = {key: [row for row in rows_once if row["stream"] == key] for key in tables}
    for key, table in tables.items():
        mine = sorted(by_stream[key], key=lambda row: row["at"])
        assert [(row["fidelity"], row["x"], row["mean"]) for row in mine] == [
            (step.fidelity, step.x, step.mean) for step in alone(key, table)
        ]
        assert mine[3]["at"].minute == 3
    # two queries ran, and each loads once per worker process, however many micro-batches and streams
    loads = [pid for what, pid in paid.noted() if what == "loaded"]
    assert max(loads.count(pid) for pid in loads) <= 2
    if cached:
        history = on_spark.detect_batch(place.finished(), "stream", "at", "raw", CONFIG, paid, cache=cache)
        streamed = [row.asDict() for row in rows_once]
        for row in streamed:
            del row["batch"]
        assert sorted(repr(row.asDict()) for row in history.collect()) == sorted(map(repr, streamed))


def test_a_cache_that_fails_stops_the_query(spark: Any, tmp_path: Path) -> None:
    from pyspark.errors import PythonException, StreamingQueryException

    place = Place(spark, tmp_path, "stream STRING, at LONG, raw DOUBLE")
    place.send([{"stream": "s0", "at": 0, "raw": 0.5}])
    (tmp_path / "cache").write_text("not a folder")
    given: dict[str, Any] = {"observers": {"full": float}, "cache": on_spark.FolderCache(tmp_path / "cache")}
    config = Config.parse({"model": {"kind": "gaussian"}})
    message = r"CacheError: FolderCache.get failed for stream 's0', time 0, fidelity 'full': NotADirectoryError"
    with pytest.raises(StreamingQueryException, match=message):
        place.go(on_spark.detect_stream(place.source(), "stream", "at", "raw", config, **given))
    with pytest.raises(PythonException, match=message):
        on_spark.detect_batch(place.finished(), "stream", "at", "raw", config, **given).collect()


def test_naive_times_unparsed_records_and_a_row_of_the_far_future(spark: Any, tmp_path: Path) -> None:
    """An hour that the session's time zone skips is two ticks; an unparsed value is not a missing reading."""
    place = Place(spark, tmp_path, "stream STRING, at TIMESTAMP_NTZ, imu INT, gps DOUBLE, _corrupt_record STRING")
    table = [[float(i % 3), 0.5 * i] for i in range(5)]
    times = [f"2024-03-31T0{1 + i // 2}:{30 * (i % 2):02d}:00" for i in range(5)]
    rows = [
        {"stream": "s0", "at": at, "imu": int(imu), "gps": gps} for at, (imu, gps) in zip(times, table, strict=True)
    ]
    place.send([rows[0], rows[1], rows[1] | {"at": "9000-01-01T00:00:00"}])
    damaged = {"stream": "s0", "at": "2024-03-31T01:45:00", "imu": 1, "gps": "seven"}
    place.send([damaged, rows[1] | {"gps": 77.0}, rows[2]])
    place.send(rows[3:])
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        answer = on_spark.detect_stream(place.source(), "stream", "at", None, CONFIG)
        assert dict(answer.dtypes)["at"] == "timestamp_ntz"
        found = place.go(answer)
        history = on_spark.detect_batch(place.finished(), "stream", "at", None, CONFIG).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    for answered in (found, history):
        mine = sorted((row for row in answered if row["problem"] is None), key=lambda row: row["at"])
        assert [row["at"] for row in mine] == [datetime.fromisoformat(at) for at in times]
        assert [(row["fidelity"], row["x"], row["mean"]) for row in mine] == [
            (step.fidelity, step.x, step.mean) for step in alone("s0", table)
        ]
        side = sorted((row["at"].isoformat(), row["problem"]) for row in answered if row["problem"] is not None)
        assert side == [
            ("2024-03-31T01:30:00", "conflict: another row of this time was applied"),
            ("2024-03-31T01:45:00", f"not of the schema: {json.dumps(damaged)}"),
            ("9000-01-01T00:00:00", "ahead: more than max_ahead = 1 day, 0:00:00 after the clock"),
        ]


def test_a_replay_compares_with_the_clock_of_the_first_time(spark: Any, tmp_path: Path) -> None:
    place = Place(spark, tmp_path, "stream STRING, at TIMESTAMP, imu DOUBLE, gps DOUBLE")
    place.send([{"stream": "s0", "at": f"2024-05-0{day}T00:00:00Z", "imu": 0.1, "gps": 0.2} for day in (1, 2, 3)])

    def answer() -> Any:
        return on_spark.detect_stream(place.source(), "stream", "at", None, CONFIG, max_ahead=timedelta(hours=30))

    assert [row["problem"] for row in place.go(answer())] == [None] * 3
    assert place.forget_last_commit() == 0
    noted = tmp_path / "checkpoint" / "offsets" / "0"
    noted.with_name(".0.crc").unlink()
    text, many = re.subn(r'"batchTimestampMs":\d+', '"batchTimestampMs":1714521600000', noted.read_text())
    assert many == 1  # as if the micro-batch had begun at midnight of May 1st
    noted.write_text(text)
    rows = sorted(place.go(answer()), key=lambda row: row["at"])
    late = "ahead: more than max_ahead = 1 day, 6:00:00 after the clock"
    assert [row["problem"] for row in rows] == [None, None, late]


def test_a_group_spends_one_budget_and_a_replay_is_at_the_same_price(place: Place) -> None:
    tables = streams(40, 40, seed=8)
    config = dataclasses.replace(CONFIG, policy={"kind": "budget", "per_tick": 40 * 8.0})
    for i in range(8):
        place.send(messages(tables, range(5 * i, 5 * i + 5)))
    group = on_spark.GroupBudget(place.folder / "prices", config, streams=40)

    def answer() -> Any:
        return on_spark.detect_stream(place.source(), "stream", "at", None, config, group=group)

    rows = place.go(answer(), group.each)
    prices = [group.price(batch) for batch in range(9)]
    assert len(set(prices)) == 9
    # the prices that the driver must have learned, from the rows
    one = config.detector(shared=True)
    assert isinstance(one.policy, Budget)
    budget = SharedBudget(one.policy, one.fidelities, one._filter, 40)
    for batch in range(8):
        assert budget.price == prices[batch]
        costs = [row["cost"] for row in rows if row["batch"] == batch]
        assert len(costs) == 200
        budget.record(sum(costs), 200)
    # and each stream decided at those prices
    for key, table in tables.items():
        mine = sorted((row for row in rows if row["stream"] == key), key=lambda row: row["at"])
        observers = {"imu": lambda raw: raw[0], "gps": lambda raw: raw[1]}
        detector = config.detector(observers, seed=on_spark.stream_seed(config.seed, key), shared=True)
        for at, row in enumerate(mine):
            detector.policy = Net(prices[at // 5]).bind(detector.fidelities)
            step = detector.step(table[at])
            assert (row["fidelity"], row["x"], row["mean"]) == (step.fidelity, step.x, step.mean)
    last = place.forget_last_commit()
    shutil.rmtree(place.folder / "out" / f"batch={last}")
    assert sorted(map(repr, place.go(answer(), group.each))) == sorted(map(repr, rows))
    assert group.price(8) == prices[8]


def test_a_checkpoint_of_another_config_is_refused(place: Place) -> None:
    from pyspark.errors import StreamingQueryException

    tables = streams(2, 4, seed=10)
    place.send(messages(tables, range(2)))
    place.go(on_spark.detect_stream(place.source(), "stream", "at", None, CONFIG))
    place.send(messages(tables, range(2, 4)))
    other = dataclasses.replace(CONFIG, hazard=0.01)
    with pytest.raises(StreamingQueryException, match="written with another config"):
        place.go(on_spark.detect_stream(place.source(), "stream", "at", None, other))
    group = on_spark.GroupBudget(place.folder / "prices", CONFIG, streams=2)
    group.record(0, cost=8.0, readings=1, new_streams=1)
    with pytest.raises(StreamingQueryException, match="without a group's budget and cannot be continued with one"):
        place.go(on_spark.detect_stream(place.source(), "stream", "at", None, CONFIG, group=group), group.each)
    rows = place.go(on_spark.detect_stream(place.source(), "stream", "at", None, CONFIG))
    assert results(rows) == expected(tables)


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
    spark.conf.unset(java.PROVIDER)
    try:
        spark.conf.set(java.PROVIDER, "another")
        with pytest.raises(ValueError, match=r"providerClass must be .*RocksDB.*, not another"):
            on_spark.detect_stream(streaming, "stream", "at", None, CONFIG)
    finally:
        spark.conf.set(java.PROVIDER, java.ROCKSDB)


def test_a_missing_java_has_a_clear_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"Java runtime, 17 or later, but JAVA_HOME .* apt-get install openjdk-17"):
        java.check_java()
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    old.chmod(0o755)
    with pytest.raises(RuntimeError, match="java is Java 11: install one"):
        java.check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="there is no java on the PATH"):
        java.check_java()
