"""Spark's operator without Spark: streams of a bucket that are advanced together, and rows as arrays."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import Row
from pyspark.sql.types import LongType, StructType

import mfbocd as mf
from mfbocd import Detector
from mfbocd.adapters.spark import record, stream_seed
from mfbocd.adapters.spark.frame import OWN, values
from mfbocd.adapters.spark.rows import InputRow
from mfbocd.adapters.spark.stream import Follower, _layout
from mfbocd.adapters.spark.worker import _WORKERS, Job, Worker

from .spark_streams import CONFIG, POLICIES, config_of, job_of, rows_of, streams

pytestmark = pytest.mark.slow


def uneven(count: int, seed: int) -> dict[str, list[list[InputRow]]]:
    """Two micro-batches per stream, of unequal lengths, with a change of level and cells that are no readings."""
    rng = np.random.default_rng(seed)
    found = {}
    for key, table in streams(count, 70, seed=seed).items():
        for cell, share in ((float("nan"), 0.1), (None, 0.05), (float("inf"), 0.05)):
            for t, j in np.argwhere(rng.random((70, 2)) < share).tolist():
                table[t][j] = cell  # type: ignore[call-overload]
        first = int(rng.integers(10, 40))
        batches = [rows_of(table, range(first)), rows_of(table, range(first, int(rng.integers(first + 8, 70))))]
        batches[1] += batches[0][-2:]  # repeated
        for batch in batches:
            rng.shuffle(batch)  # type: ignore[arg-type]
        found[key] = batches
    return found


def one_by_one(
    detector: Detector, batches: list[list[InputRow]], prices: list[float | None]
) -> list[list[mf.Step | str]]:
    """Return what `Detector.step` returns or says, one row after the other; a row is applied once."""
    found: list[list[mf.Step | str]] = []
    applied = [-1]
    for batch, price in zip(batches, prices, strict=True):
        if price is not None:
            detector.policy = mf.Net(price, gain=detector.policy.gain or "joint").bind(detector.fidelities)
        found.append([])
        for row in sorted(batch):
            if row.time <= applied[-1]:
                found[-1] += [] if row.time in applied else [f"late: {applied[-1]} was seen before it"]
                continue
            try:
                found[-1].append(detector.step(row.raw))
                applied.append(row.time)
            except ValueError as error:
                found[-1].append(f"ValueError: {error}")
    return found


@pytest.mark.parametrize("policy", [*POLICIES, "group"])
def test_streams_that_are_advanced_together_equal_detectors_that_step(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(POLICIES["budget" if policy == "group" else policy], seed=5, alarm={"threshold": 0.3})
    shared = policy == "group"
    prices = [0.003, 0.006] if shared else [None, None]
    worker = Worker(job_of(config, shared=shared))
    together = Counter[bool]()
    advance = mf.Fleet._advance

    def counted(fleet: mf.Fleet, selected: Any, *given: Any) -> Any:
        together[len(selected.rows) == len(fleet)] += 1
        return advance(fleet, selected, *given)

    monkeypatch.setattr(mf.Fleet, "_advance", counted)
    tables = uneven(30, seed=4)
    records: dict[str, bytes | None] = dict.fromkeys(tables)
    found: dict[str, list[list[mf.Step | str | None]]] = {key: [] for key in tables}
    for i, price in enumerate(prices):
        results = worker.process_many([(key, tables[key][i], records[key]) for key in tables], price)
        for key, (rows, saved) in zip(tables, results, strict=True):
            found[key].append([row.step or row.problem for row in rows])
            records[key] = saved
    assert set(together) == {True, False}  # also rounds in which a stream had no row, or none that could be read
    given = [row for batches in found.values() for batch in batches for row in batch]
    assert sum(isinstance(row, str) for row in given) > 10 or policy == "always"
    assert sum(isinstance(row, mf.Step) and row.alarm for row in given) > 10
    observers = {"imu": lambda raw: raw[0], "gps": lambda raw: raw[1]}
    for key, batches in tables.items():
        detector = config.detector(observers, shared=shared, seed=stream_seed(5, key))
        assert found[key] == one_by_one(detector, batches, prices)
        assert record.unpack(records[key] or b"").state == detector.to_bytes()


def test_streams_that_are_advanced_together_read_each_row_once_at_the_chosen_fidelity() -> None:
    class Stored(dict[Any, Any]):
        def get(self, *what: Any) -> Any:
            return super().get(what)

        def put(self, stream: Any, time: int, fidelity: str, x: Any) -> None:
            assert (stream, time, fidelity) not in self
            self[stream, time, fidelity] = (x,)

    cache = Stored()
    observers = {"imu": lambda raw: raw["imu"], "gps": lambda raw: raw["gps"]}
    worker = Worker(Job("token", CONFIG.to_dict(), None, observers, cache=cache))  # type: ignore[arg-type]
    tables = streams(24, 10, seed=2)
    rows = {
        key: [InputRow(at, {"imu": imu, "gps": gps}) for at, (imu, gps) in enumerate(table)]
        for key, table in tables.items()
    }
    results = worker.process_many([(key, rows[key], None) for key in tables])
    steps = [(key, row.time, row.step) for key, (mine, _) in zip(tables, results, strict=True) for row in mine]
    assert {(key, at, step.fidelity): (step.x,) for key, at, step in steps if step} == cache
    assert {fidelity for _, _, fidelity in cache} == {"imu", "gps"}
    assert len(cache) == 240


class Kept(dict[Any, Any]):
    """A state variable: of one value, or of values by key."""

    getValue, updateValue = dict.get, dict.__setitem__  # noqa: N815 (Spark's names)

    def get(self, *key: Any) -> Any:
        return super().get(key)

    def update(self, value: Any) -> None:  # type: ignore[override]
        self[()] = value


def test_the_rows_of_a_bucket_are_returned_as_arrays_of_bounded_length(monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_of(CONFIG)
    worker = Worker(job)
    monkeypatch.setitem(_WORKERS, job.token, worker)
    follower = Follower(job, StructType().add("key", LongType()), 1, None, None)
    follower._records = Kept()
    tables = streams(25, 90, seed=6)
    row = Row("key", "time", "raw_0", "raw_1", "rejected", "bucket")
    given = [row(key, at, *table[at], None, 0) for at in range(90) for key, table in tables.items()]
    answer = list(follower.handleInputRows((0,), iter(given), None))
    assert [len(part["tick"]) for part in answer] == [1024, 1024, 202]
    assert list(answer[0].asDict()) == ["key", "time", *OWN]
    found = [cells for part in answer for cells in zip(*part, strict=True)]
    wanted = {key: worker.process(key, rows_of(table, range(90)), None) for key, table in tables.items()}
    assert found == [values(one) for rows, _ in wanted.values() for one in rows]
    assert follower._records == {(key,): (saved,) for key, (_, saved) in wanted.items()}
    assert list(follower.handleInputRows((0,), iter(given[-1000:]), None)) == []  # all were applied before


def test_every_number_of_buckets_has_other_types() -> None:
    types = {tuple(part.split(" ", 1)[1] for part in _layout(n).split("), ")) for n in range(1, 20_001)}
    assert len(types) == 20_000
