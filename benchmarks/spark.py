"""What detectors cost on Spark, compared with a function that keeps the same state and computes nothing.

Three jobs read the same files of JSON, shuffle, read each stream's record, write one and return a row per reading:

- plain: a function per stream that computes nothing, as one would write it for Spark;
- idle: the operator of `detect_stream`, which Spark calls once per bucket of streams, with nothing computed;
- detectors: `detect_stream`.

Every stream begins from a state of full size. The jobs take turns in one session, in another order in every second
round, and the first micro-batch of each query (workers start, kernels load) is left out. CPU seconds are those of all
processes. They depend on other load too, by less than wall time, so the least and the median are shown. Then
`detect_batch` is compared with pandas on joblib's processes, and one core is measured without Spark. The tables of
docs/scale.md are printed once more at the end. `make bench-spark`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from mfbocd import Detector, Fleet, Gaussian, Step
from mfbocd.adapters.spark import detect_batch, detect_stream, session, stream_seed
from mfbocd.adapters.spark import stream as on_spark
from mfbocd.adapters.spark import worker as follow
from mfbocd.adapters.spark.frame import OWN, inner_schema, job_of, named, values
from mfbocd.adapters.spark.record import REMEMBERED, pack
from mfbocd.adapters.spark.rows import InputRow, OutputRow
from mfbocd.io.config import Config

CONFIG = Config.parse(
    {
        "model": {"kind": "gaussian", "mean": 0, "var": 9, "noise_var": 1},
        "fidelity": [{"name": "imu", "zeta": 0.1, "cost": 1}, {"name": "gps", "zeta": 1, "cost": 40}],
        "policy": {"kind": "budget", "share": 0.35},
    }
)
SHOWN: list[str] = []
ROW = Row("key", "time", *OWN)
TICKS = (1, 10, 40)
BUCKETS = 16
WARM = 300  # ticks of a detector whose record is of full size


@cache
def a_state() -> bytes:
    """A detector after many ticks."""
    detector = CONFIG.detector({"imu": lambda raw: raw[0], "gps": lambda raw: raw[1]})
    rng = np.random.default_rng(1)
    for raw in rng.normal(size=(WARM, 2)).tolist():
        detector.step(raw)
    return detector.to_bytes()


@cache
def a_record() -> bytes:
    """A stream's record after many ticks."""
    times = range(REMEMBERED)
    return pack(CONFIG.digest(), False, "Budget", times, times, a_state())


class Plain(StatefulProcessor):
    """A function per stream that keeps the same state and computes nothing, as one would write it for Spark."""

    step = Step(0, "gps", 0.0, 40.0, 0.0, 0, 0.0, False, None, None)

    def __init__(self) -> None:
        self.record = a_record()
        self._state: Any = None

    def init(self, handle: Any) -> None:
        """Open the state."""
        self._state = handle.getValueState("record", "record BINARY")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802
        """Read, write, answer."""
        self._state.get()
        self._state.update((self.record,))
        result = [OutputRow(key[0], row["time"], self.step, None) for row in rows]
        return iter([ROW(*values(row)) for row in result])

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802
        """Store the first state."""
        self._state.update((bytes(initialState["state"]),))

    def close(self) -> None:
        """Do nothing."""


class Idle(follow.Worker):
    """The worker of the operator, with nothing computed."""

    def process_many(self, given: Any, price: Any = None) -> Any:
        """Answer a constant step for every row, and keep the records as they are."""
        return [([OutputRow(key, row.time, Plain.step, None) for row in rows], a_record()) for key, rows, _ in given]


class Idling(on_spark.Follower):
    """The operator of `detect_stream` with an idle worker."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802
        """Process the rows with the idle worker."""
        if not isinstance(follow._WORKERS.get(self.job.token), Idle):
            follow._WORKERS[self.job.token] = Idle(self.job)
        return super().handleInputRows(key, rows, timerValues)


def write(folder: Path, streams: int, batches: int, ticks: int) -> None:
    rng = np.random.default_rng(2)
    folder.mkdir()
    for batch in range(batches):
        path = folder / f"{batch:03d}.json"
        with path.open("w") as file:
            for at in range(batch * ticks, (batch + 1) * ticks):
                imu, gps = rng.normal(size=(2, streams))
                for i in range(streams):
                    file.write(json.dumps({"stream": i, "at": at, "imu": imu[i], "gps": gps[i]}) + "\n")
        os.utime(path, (1_700_000_000 + batch, 1_700_000_000 + batch))


def worked() -> float:
    """CPU seconds this process, Spark's Java and all of its Python workers have used so far."""
    used: dict[int, float] = {}
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        pid = int(stat.parent.name)
        used[pid] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")  # its own and its ended children's
        children.setdefault(int(fields[1]), []).append(pid)
    tree = [os.getpid()]
    for pid in tree:
        tree += children.get(pid, [])
    return sum(used[pid] for pid in tree)


def plain(df: DataFrame, begin: DataFrame) -> DataFrame:
    """The job with one plain function per stream."""
    _, rows = job_of(df, "stream", "at", None, CONFIG, None, None, None, None, shared=False)
    result = rows.groupBy("key").transformWithState(
        statefulProcessor=Plain(),
        outputStructType=inner_schema(df, "stream", CONFIG),
        outputMode="Append",
        timeMode="None",
        initialState=begin.withColumnRenamed("stream", "key").groupBy("key"),
    )
    return named(result, df, "stream", "at")


def idle(df: DataFrame, begin: DataFrame) -> DataFrame:
    """The job of `detect_stream` with nothing computed."""
    kept = on_spark.Follower
    on_spark.Follower = Idling  # type: ignore[misc]
    try:
        return detectors(df, begin)
    finally:
        on_spark.Follower = kept  # type: ignore[misc]


def detectors(df: DataFrame, begin: DataFrame) -> DataFrame:
    """The job of `detect_stream`."""
    return detect_stream(df, "stream", "at", None, CONFIG, start=begin, buckets=BUCKETS)


JOBS = {"plain": plain, "idle": idle, "detectors": detectors}


def took(spark: Any, folder: Path, streams: int, job: Any) -> list[tuple[float, float]]:
    """Wall and CPU seconds of each micro-batch but the first."""
    files = spark.readStream.schema("stream LONG, at LONG, imu DOUBLE, gps DOUBLE")
    df = files.option("maxFilesPerTrigger", 1).json(str(folder))
    state = bytearray(a_state())
    answer = job(df, spark.createDataFrame([(i, state) for i in range(streams)], "stream LONG, state BINARY"))
    marks = []

    def sink(frame: Any, batch: int) -> None:
        frame.write.format("noop").mode("overwrite").save()
        marks.append((time.perf_counter(), worked()))

    with tempfile.TemporaryDirectory() as checkpoint:
        writer = answer.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()
    return [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(marks)]


def show(line: str = "") -> None:
    """Print a line now, and again at the end, where nothing of Spark is between the lines."""
    print(line, flush=True)
    SHOWN.append(line)


class Seconds(NamedTuple):
    """What a micro-batch takes."""

    cpu: float
    """The median."""
    least: float
    """The least CPU seconds."""
    wall: float
    """The median."""


def seconds(times: list[tuple[float, float]]) -> Seconds:
    """Summarise wall and CPU seconds of micro-batches."""
    wall, cpu = zip(*times, strict=True)
    return Seconds(statistics.median(cpu), min(cpu), statistics.median(wall))


def rate(work: Callable[[int], Any], ticks: int, times: int) -> float:
    """Stream-ticks a CPU second, where each call makes `ticks` of them; the first few calls warm up."""
    for i in range(times // 4):
        work(i)
    begin = time.process_time()
    for i in range(times // 4, times):
        work(i)
    return ticks * (times - times // 4) / (time.process_time() - begin)


def engine() -> dict[str, float]:
    """Stream-ticks per CPU second of one core with no Spark around it."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(4000, 2)).tolist()
    detector = CONFIG.detector({"imu": lambda raw: raw[0], "gps": lambda raw: raw[1]})
    single = Detector(Gaussian(0, 9, 1))
    streams = rng.normal(size=(400, 1000))
    fleet, plain = CONFIG.fleet(1000, threads=1), Fleet(1000, Gaussian(0, 9, 1), threads=1)
    found = {
        "a fleet of 1000, one fidelity": rate(lambda i: plain.update(streams[i]), 1000, 400),
        "a fleet of 1000, two fidelities": rate(lambda i: fleet.update(streams[i], fleet.choose()), 1000, 100),
        "`detector.update`, one fidelity": rate(lambda i: single.update(x[i][0]), 1, 4000),
        "`detector.step`, two fidelities": rate(lambda i: detector.step(x[i]), 1, 4000),
    }
    for ticks in TICKS:
        worker = follow.Worker(follow.Job("bench", CONFIG.to_dict(), ("imu", "gps"), {}))
        records: list[Any] = [a_record()] * 60

        def bucket(i: int, ticks: int = ticks, worker: follow.Worker = worker, records: list[Any] = records) -> None:
            rows = [InputRow(10**6 + i * ticks + j, tuple(x[(i * ticks + j) % 4000])) for j in range(ticks)]
            records[:] = [record for _, record in worker.process_many((k, rows, r) for k, r in enumerate(records))]

        what = f"60 records: read, step {ticks} time{'s' if ticks > 1 else ''}, write; no Spark"
        found[what] = rate(bucket, 60 * ticks, 20)
    return found


def sizing(fleet: float, spark: dict[int, float]) -> None:
    """Cores for streams at 1 Hz, at full load."""
    show(f"| streams | fleet | {' | '.join(f'Spark, trigger {ticks} s' for ticks in spark)} |")
    show("|---" * (len(spark) + 2) + "|")
    for power in (5, 6, 7):
        cores = [math.ceil(float(f"{10**power / each:.2g}")) for each in (fleet, *spark.values())]
        cells = [f"{count:,} cores" if count > 1 else "1 core" for count in cores]
        show(f"| 10^{power} | {' | '.join(cells)} |")


def one_stream(key: Any, table: Any) -> Any:
    """The steps of one stream, in pandas: what a user writes without Spark."""
    import pandas as pd

    detector = CONFIG.detector({"imu": itemgetter(0), "gps": itemgetter(1)}, seed=stream_seed(CONFIG.seed, key))
    table = table.sort_values("at")
    steps = [detector.step(raw) for raw in zip(table["imu"].tolist(), table["gps"].tolist(), strict=True)]
    return pd.DataFrame(steps, columns=Step._fields).assign(stream=key, at=table["at"].to_numpy())


def history(spark: Any, streams: int, ticks: int, cores: int) -> None:
    """`detect_batch` compared with a pandas `groupby` on joblib's processes: both from one Parquet file to steps."""
    import pandas as pd
    from joblib import Parallel, delayed

    rng = np.random.default_rng(4)
    size = streams * ticks
    table = pd.DataFrame({"stream": np.repeat(np.arange(streams), ticks), "at": np.tile(np.arange(ticks), streams)})
    table["imu"], table["gps"] = rng.normal(size=(2, size))
    with tempfile.TemporaryDirectory() as name:
        path = str(Path(name) / "history.parquet")
        table.to_parquet(path)

        def by_spark() -> None:
            result = detect_batch(spark.read.parquet(path), "stream", "at", None, CONFIG)
            result.write.format("noop").mode("overwrite").save()

        def by_joblib() -> None:
            groups = pd.read_parquet(path).groupby("stream")
            warnings.simplefilter("ignore", FutureWarning)  # columns without a value
            pd.concat(Parallel(n_jobs=cores)(delayed(one_stream)(key, group) for key, group in groups))

        show(f"| {streams} streams of {ticks} ticks | stream-ticks per s | per CPU s |\n|---|---|---|")
        for what, work in (("pandas and joblib", by_joblib), ("detect_batch", by_spark)):
            work()  # workers start and load their kernels
            taken = []
            for _ in range(3):
                begin = (time.perf_counter(), worked())
                work()
                taken.append((time.perf_counter() - begin[0], worked() - begin[1]))
            wall, cpu = (statistics.median(column) for column in zip(*taken, strict=True))
            show(f"| {what} | {size / wall:,.0f} | {size / cpu:,.0f} |")
    show()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer streams and one round: to see that it runs")
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=int, default=5, help="micro-batches of a query")
    parser.add_argument("--ticks", type=int, nargs="+", default=TICKS, help="of a stream a micro-batch")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    streams, rounds, batches = (200, 1, 3) if given.quick else (given.streams, given.rounds, given.batches)
    spark = session(
        "bench",
        f"local[{given.cores}]",
        spark__ui__enabled=False,
        spark__ui__showConsoleProgress=False,
    )
    spark.sparkContext.setLogLevel("OFF")
    show(f"{streams} streams, {given.cores} cores; a stream's record has {len(a_record())} bytes\n")
    show("| ticks per stream and micro-batch | job | stream-ticks per s | per CPU s | CPU | least CPU | wall |")
    show("|---|---|---|---|---|---|---|")
    detecting = {}
    for ticks in given.ticks:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "in"
            write(folder, streams, batches, ticks)
            found: dict[str, list[tuple[float, float]]] = {job: [] for job in JOBS}
            if not detecting:
                took(spark, folder, streams, detectors)  # Java compiles what all jobs use
            for i in range(rounds):
                for job in [*JOBS] if i % 2 == 0 else reversed(JOBS):
                    found[job] += took(spark, folder, streams, JOBS[job])
        base = seconds(found["plain"])
        for job, times in found.items():
            taken = seconds(times)
            more = [f"{one / other - 1:+.0%}" for one, other in zip(taken, base, strict=True)]
            rates = [f"{streams * ticks / one:,.0f}" for one in (taken.wall, taken.cpu)]
            show(f"| {' | '.join([str(ticks), job, *rates, *more])} |")
        detecting[ticks] = streams * ticks / taken.cpu
    show()
    history(spark, streams // 5, 200, given.cores)
    spark.stop()
    alone = engine()
    show("| | stream-ticks per core second |\n|---|---|")
    of_spark = {f"Spark, {streams} streams, ticks per micro-batch: {t}": each for t, each in detecting.items()}
    for what, each in (alone | of_spark).items():
        show(f"| {what} | {float(f'{each:.3g}'):,.0f} |")
    show()
    sizing(alone["a fleet of 1000, two fidelities"], detecting)
    print(f"\n{'=' * 40} all of it again, without Spark's messages\n")
    print("\n".join(SHOWN))


if __name__ == "__main__":
    # The workers import the jobs from this module: Spark cannot send them those of the main module.
    from benchmarks import spark as module

    module.main()
