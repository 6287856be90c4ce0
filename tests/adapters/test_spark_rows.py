"""The Spark worker without Spark: plain functions on rows and records."""

from __future__ import annotations

import datetime
import errno
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyspark")

import mfbocd as mf
from mfbocd import Detector
from mfbocd.adapters.spark import CacheError, FolderCache, GroupBudget, record, stream_seed
from mfbocd.adapters.spark.rows import NO_TIME, InputRow, OutputRow
from mfbocd.adapters.spark.worker import Job, Worker
from mfbocd.belief.serialization import pack, unpack
from mfbocd.calibrate import ShadowGuard
from mfbocd.detector.serialization import Loader, restore
from mfbocd.io.config import Config

from .spark_streams import CONFIG, POLICIES, config_of, job_of, rows_of, streams

pytestmark = pytest.mark.slow


def run(
    job: Job, tables: dict[str, list[list[float]]], keys: list[str], partitions: int, start: dict[str, bytes]
) -> tuple[dict[str, list[OutputRow]], dict[str, bytes]]:
    """Three micro-batches; each partition has its own worker, and a micro-batch has a price if it is shared."""
    workers = [Worker(job) for _ in range(partitions)]
    records = dict(start)
    results: dict[str, list[OutputRow]] = {key: [] for key in keys}
    for batch, ticks in enumerate((range(10), range(10, 11), range(11, 25))):
        price = 0.003 * (batch + 1) if job.shared else None
        for i, key in enumerate(keys):
            worker = workers[i % partitions]
            rows, saved = worker.process(key, rows_of(tables[key], ticks), records.get(key), price)
            results[key] += rows
            assert saved is not None
            records[key] = saved
    return results, records


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("policy", [*POLICIES, "group"])
def test_results_depend_neither_on_the_order_of_keys_nor_on_partitions(policy: str, seed: int) -> None:
    config = config_of(POLICIES["budget" if policy == "group" else policy], seed=seed)
    job = job_of(config, shared=policy == "group")
    tables = streams(8, 25, seed=seed)
    keys = list(tables)
    start = {}
    for key in keys[::4]:  # detectors from elsewhere, each with its own seed and history
        detector = config.detector({"imu": lambda raw: raw[0], "gps": lambda raw: raw[1]}, seed=len(start) + 50)
        for raw in tables[key][:7]:
            detector.step(raw)
        start[key] = detector.to_bytes()
    wanted = run(job, tables, keys, 1, start)
    assert all(row.problem is None for rows in wanted[0].values() for row in rows)
    rng = np.random.default_rng(seed)
    for partitions in (1, 3):
        shuffled = [keys[i] for i in rng.permutation(len(keys))]
        assert run(job, tables, shuffled, partitions, start) == wanted
    for key in keys:  # and each stream by itself is the same
        alone, saved = run(job, tables, [key], 1, start)
        assert (alone[key], saved[key]) == (wanted[0][key], wanted[1][key])


@pytest.mark.parametrize("policy", POLICIES)
def test_a_stream_equals_a_detector_in_process_with_its_seed(policy: str) -> None:
    config = config_of(POLICIES[policy], seed=5)
    tables = streams(4, 25, seed=1)
    results, records = run(job_of(config), tables, list(tables), 2, {})
    for key, table in tables.items():
        observers = {"imu": lambda raw: raw[0], "gps": lambda raw: raw[1]}
        detector = config.detector(observers, seed=stream_seed(5, key))
        assert [row.step for row in results[key]] == [detector.step(raw) for raw in table]
        assert record.unpack(records[key]).state == detector.to_bytes()


@pytest.mark.parametrize(("before", "after"), [(True, False), (False, True)])
def test_a_record_with_a_shared_budget_is_refused_without_one_and_vice_versa(before: bool, after: bool) -> None:
    table = streams(1, 4, seed=2)["s0"]
    prices = {True: 0.01, False: None}
    _, saved = Worker(job_of(CONFIG, shared=before)).process("s0", rows_of(table, range(2)), None, prices[before])
    assert saved is not None
    kept = record.unpack(saved)
    assert (kept.shared, kept.policy) == (before, "Net" if before else "Budget")
    was, now = ("with", "without") if before else ("without", "with")
    with pytest.raises(ValueError, match=f"was written {was} a group's budget and cannot be continued {now} one"):
        Worker(job_of(CONFIG, shared=after)).process("s0", rows_of(table, range(2, 4)), saved, prices[after])


def test_a_backfill_with_a_share_is_continued_by_a_group_without_its_record(tmp_path: Path) -> None:
    config = config_of({"kind": "budget", "share": 0.35})
    table = streams(1, 8, seed=2)["s0"]
    _, saved = Worker(job_of(config)).process("s0", rows_of(table, range(4)), None)
    assert saved is not None
    price = GroupBudget(tmp_path, config, streams=20).effective_price(0)
    worker = Worker(job_of(config, shared=True))
    with pytest.raises(ValueError, match="was written without a group's budget"):
        worker.process("s0", rows_of(table, range(4, 8)), saved, price)
    rows, _ = worker.process("s0", rows_of(table, range(3, 8)), record.unpack(saved).state, price)
    # without the record the times are unknown: the last row of the backfill is processed again
    assert [(row.time, row.step.tick) for row in rows if row.step] == [(3, 4), (4, 5), (5, 6), (6, 7), (7, 8)]


def test_the_cost_per_tick_of_a_group_is_not_that_of_a_backfill(tmp_path: Path) -> None:
    one, all_streams = (config_of({"kind": "budget", "per_tick": cost}) for cost in (8, 160))
    table = streams(1, 8, seed=2)["s0"]
    with pytest.raises(ValueError, match="per_tick must be at most 40"):
        Worker(job_of(all_streams))
    with pytest.raises(ValueError, match="per_tick must be at least 20"):
        GroupBudget(tmp_path, one, streams=20)
    _, saved = Worker(job_of(one)).process("s0", rows_of(table, range(4)), None)
    assert saved is not None
    worker = Worker(job_of(all_streams, shared=True))
    with pytest.raises(ValueError, match="the saved detector has another policy"):
        worker.process("s0", rows_of(table, range(4, 8)), record.unpack(saved).state, 0.01)


def test_a_record_decided_by_another_policy_is_refused() -> None:
    table = streams(1, 4, seed=2)["s0"]
    worker = Worker(job_of(CONFIG))
    _, saved = worker.process("s0", rows_of(table, range(2)), None)
    assert saved is not None
    kept = record.unpack(saved)
    assert kept.config is not None
    other = record.pack(kept.config, False, "Random", kept.times, kept.checksums, kept.state)
    with pytest.raises(ValueError, match="was written with the policy Random, not Budget"):
        worker.process("s0", rows_of(table, range(2, 4)), other)


def test_a_record_of_another_version_or_cut_short_is_refused() -> None:
    saved = record.pack(CONFIG.digest(), False, "Budget", range(100), range(100), CONFIG.detector().to_bytes())
    found = record.unpack(saved)
    assert found.config == CONFIG.digest()
    assert found.times == found.checksums == tuple(range(100 - record.REMEMBERED, 100))
    assert Detector.from_bytes(found.state).ticks == 0
    with pytest.raises(ValueError, match="neither a record of a stream nor a saved detector"):
        record.unpack(b"pickle")
    for version in (2, 9):
        other = saved[:4] + bytes([version]) + saved[5:]
        with pytest.raises(ValueError, match=f"the state has version {version}; this mfbocd reads version 1"):
            record.unpack(other)
    for size in (5, 30, 200):
        with pytest.raises(ValueError, match=f"the state is truncated: only {size} bytes"):
            record.unpack(saved[:size])


def test_a_detector_from_elsewhere_keeps_its_own_seed_in_every_micro_batch() -> None:
    config = config_of({"kind": "random"})
    table = streams(1, 40, seed=3)["s0"]
    observers = {"imu": lambda raw: raw[0], "gps": lambda raw: raw[1]}
    detector = config.detector(observers, seed=1234)
    saved: bytes | None = detector.to_bytes()
    worker = Worker(job_of(config))
    results: list[OutputRow] = []
    for first in range(0, 40, 8):
        rows, saved = worker.process("s0", rows_of(table, range(first, first + 8)), saved)
        results += rows
    assert [row.step for row in results] == [detector.step(raw) for raw in table]


@pytest.mark.parametrize(
    ("field", "more"),
    [
        ("shadow", {"shadow": {"imu": ShadowGuard(0.1, 5, "gaussian", noise_var=1.0)}}),
        ("on_error", {"on_error": "fallback"}),
        ("hazard", {"hazard": mf.Learned()}),
        ("policy", {"policy": mf.Random()}),
    ],
)
@pytest.mark.parametrize("shared", [False, True])
def test_a_detector_from_elsewhere_that_the_config_would_not_have_made_is_refused(
    field: str, more: dict[str, Any], shared: bool
) -> None:
    worker = Worker(job_of(CONFIG, shared=shared))
    saved = CONFIG.detector(**more).to_bytes()
    with pytest.raises(ValueError, match=f"the saved detector has another {field} than the config"):
        worker.process("s0", [InputRow(0, (0.1, 0.2))], saved, 0.01 if shared else None)


def test_streams_draw_independently_and_the_seed_is_the_same_everywhere() -> None:
    config = config_of({"kind": "random"})
    tables = streams(30, 25, seed=4)
    results, _ = run(job_of(config), tables, list(tables), 1, {})
    read = {tuple(row.step.fidelity for row in rows if row.step) for rows in results.values()}
    assert len(read) == 30
    seeds = [stream_seed(seed, key) for seed in (0, 1) for key in range(2000)]
    assert len(set(seeds)) == 4000
    assert max(seeds) < 2**53
    import pandas as pd

    when = datetime.datetime(2024, 5, 1, 12, 30, 0, 250_000)
    assert stream_seed(0, when) == stream_seed(0, pd.Timestamp(when))
    assert stream_seed(0, b"\x01") == stream_seed(0, bytearray(b"\x01"))
    assert stream_seed(0, "7") == stream_seed(0, 7) == 4953521852907338  # of sha256sum


def test_another_row_of_a_time_is_reported_and_the_same_row_is_passed_over() -> None:
    worker = Worker(job_of(CONFIG))
    results, saved = worker.process(
        "s", [InputRow(0, (0.5, 0.0)), InputRow(0, (0.5, -0.0)), InputRow(0, (9.0, 9.0))], None
    )
    assert [(row.time, row.problem) for row in results] == [
        (0, None),
        (0, "conflict: another row of this time was applied"),
    ]
    assert results[0].step is not None
    later = [InputRow(t, (0.1 * t, None)) for t in range(1, 6)]
    results, saved = worker.process("s", later, saved)
    again = [InputRow(0, (0.5, 0.0)), InputRow(3, (0.1 * 3, float("nan"))), InputRow(4, (0.1 * 4, 1.0))]
    results, same = worker.process("s", [*again, InputRow(-1, (0.0, 0.0))], saved)
    assert same is None
    assert [(row.time, row.problem) for row in results] == [
        (-1, "late: 5 was seen before it"),
        (4, "conflict: another row of this time was applied"),
    ]


def test_the_same_numbers_in_another_form_are_the_same_row() -> None:
    worker = Worker(job_of(CONFIG))
    _, saved = worker.process("s", [InputRow(0, (0.5, 0.25))], None)
    for kind in (np.float64, np.longdouble, np.float32, np.array):
        assert worker.process("s", [InputRow(0, (kind(0.5), kind(0.25)))], saved) == ([], None)


def test_a_row_too_far_ahead_is_reported_and_later_rows_are_not_late() -> None:
    worker = Worker(job_of(CONFIG, max_ahead=100))
    rows = [
        InputRow(0, (0.1, 0.1)),
        InputRow(1, (0.2, 0.1)),
        InputRow(10**15, (0.3, 0.1)),
        InputRow(NO_TIME, (0.3, 0.1)),
    ]
    results, saved = worker.process("s", rows, None)
    assert [(row.time, row.problem) for row in results] == [
        (None, "the time is empty"),
        (0, None),
        (1, None),
        (10**15, "ahead: 999999999999999 after 1, more than max_ahead = 100"),
    ]
    results, _ = worker.process("s", [InputRow(t, (0.1, 0.1)) for t in (2, 102, 203)], saved)
    assert [(row.time, row.problem) for row in results] == [
        (2, None),
        (102, None),
        (203, "ahead: 101 after 102, more than max_ahead = 100"),
    ]


class Full:
    """A cache on a disk with no space."""

    def get(self, stream: Any, time: int, fidelity: str) -> tuple[Any] | None:
        return None

    def put(self, stream: Any, time: int, fidelity: str, x: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def payloads(cache: Any, asked: list[Any], config: Config = CONFIG) -> Worker:
    def reader(name: str) -> Callable[[Any], Any]:
        def read(raw: Any) -> Any:
            asked.append((name, raw))
            return raw

        return read

    return Worker(Job("token", config.to_dict(), None, {name: reader(name) for name in ("imu", "gps")}, cache=cache))


def test_a_cache_with_no_space_stops_the_query() -> None:
    with pytest.raises(CacheError, match=r"Full.put failed for stream 's', time 3, .* No space left on device"):
        payloads(Full(), []).process("s", [InputRow(3, 0.5)], None)


def test_an_unusable_folder_stops_the_query_before_anything_is_paid_for(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    asked: list[Any] = []
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(CacheError, match=r"FolderCache.get failed for stream 's', time 0"):
            payloads(FolderCache(folder), asked).process("s", [InputRow(0, 0.5)], None)
    assert asked == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"of": "another", "x": 1.0}', '{"x": 1.0}', "null"])
def test_a_damaged_file_stops_the_query(tmp_path: Path, text: str) -> None:
    cache = FolderCache(tmp_path / "cache")
    asked: list[Any] = []
    worker = payloads(cache, asked)
    worker.process("s", [InputRow(0, 0.5)], None)
    assert len(asked) == 1
    (path,) = (tmp_path / "cache").rglob("*.json")
    path.write_text(text)
    with pytest.raises(CacheError, match=r"does not contain the reading of .*; delete it to read again"):
        worker.process("s", [InputRow(0, 0.5)], None)
    assert len(asked) == 1


def test_a_failed_write_leaves_no_partial_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    cache = FolderCache(tmp_path)
    monkeypatch.setattr(json, "dump", full)
    with pytest.raises(OSError, match="No space"):
        cache.put("s", 0, "imu", 0.5)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_an_invalid_reading_is_reported_per_row_with_and_without_a_cache(tmp_path: Path) -> None:
    rows = [
        InputRow(0, 0.5),
        InputRow(1, "seven"),
        InputRow(2, object),
        InputRow(3, float("inf")),
        InputRow(4, None),
        InputRow(5, 1),
    ]
    asked: list[Any] = []
    cached = payloads(FolderCache(tmp_path), asked)
    results, _ = cached.process("s", rows, None)
    plain, _ = payloads(None, []).process("s", rows, None)
    assert results == plain
    assert [row.problem is None for row in results] == [True, False, False, False, True, True]
    again, _ = cached.process("s", rows, None)
    assert again == results
    paid = [raw for _, raw in asked]
    assert [paid.count(row.raw) for row in rows] == [1, 2, 2, 2, 1, 1]  # valid readings were cached


# --- loading: nothing of one stream remains in the detector of the next -------------------------------------------


def test_a_state_is_restored_only_into_a_policy_of_its_kind() -> None:
    fidelities = [mf.Fidelity("imu", 0.1, 1.0), mf.Fidelity("gps", 1.0, 40.0)]
    net = Detector(mf.Gaussian(0, 9, 1), fidelities, policy=mf.Net(0.01)).to_bytes()
    budget = Detector(mf.Gaussian(0, 9, 1), fidelities, policy=mf.Budget(8.0))
    with pytest.raises(ValueError, match=r"the saved detector's policy is Net, not Budget\(8"):
        restore(budget, *unpack(net))


def test_a_value_missing_in_the_bytes_is_not_taken_from_another_stream() -> None:
    """The saved state of the budget has no debt."""
    fidelities = [mf.Fidelity("imu", 0.1, 1.0), mf.Fidelity("gps", 1.0, 40.0)]
    detector = Detector(mf.Gaussian(0, 9, 1), fidelities, policy=mf.Budget(8.0))
    for x in (0.1, 5.0, 5.1):
        detector.update(x, detector.choose())
    new = detector.to_bytes()
    facts, arrays = unpack(new)
    at = 1 + list(facts["learnt"]).index("debt")
    del facts["learnt"]["debt"]
    last = {"live": arrays.pop("live")}
    old = pack(facts, arrays | {"numbers": np.delete(arrays["numbers"], at)} | last)
    wanted = Detector.from_bytes(old).policy.state()
    assert wanted["debt"] == 0.0 != detector.policy.state()["debt"]
    make = Loader(Detector.from_bytes)
    assert make(new).policy.state() == detector.policy.state()
    assert make(old).policy.state() == wanted


def test_a_quoted_cost_is_forgotten_with_the_stream() -> None:
    fidelities = [mf.Fidelity("imu", 0.1, lambda raw: float(raw or 7.0)), mf.Fidelity("gps", 1.0, 40.0)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        detector = Detector(mf.Gaussian(0, 9, 1), fidelities, policy=mf.Net(0.01))
    detector.choose(raw=3.0)
    detector.reset()
    assert detector.update(0.5, "imu").cost == 7.0


# --- corrected readings and changed costs --------------------------------------------------------------------------


def changed(config: Config, **more: Any) -> Config:
    """The same configuration with other keys of its first fidelity."""
    given = config.to_dict()
    given["fidelity"] = [{**given["fidelity"][0], **more}, *given["fidelity"][1:]]
    return Config.parse(given)


def test_a_cached_reading_is_corrected_once(tmp_path: Path) -> None:
    config = changed(config_of({"kind": "always", "name": "imu"}), offset=2.0, scale=4.0)
    cached = payloads(FolderCache(tmp_path), [], config)
    rows = [InputRow(0, 10.0), InputRow(1, None)]
    for _ in range(2):  # the second time from the cache
        results, _ = cached.process("s", rows, None)
        assert [row.step and row.step.x for row in results] == [2.0, None]
    plain, _ = payloads(None, [], config).process("s", rows, None)
    assert plain == results
    assert FolderCache(tmp_path).get("s", 0, "imu") == (10.0,)  # what was paid for


def test_a_checkpoint_and_a_saved_detector_continue_at_other_costs() -> None:
    config = config_of({"kind": "random"})
    cheaper = changed(config, cost=0.5)
    table = streams(1, 20, seed=3)["s0"]
    _, saved = Worker(job_of(config)).process("s0", rows_of(table, range(10)), None)
    worker = Worker(job_of(cheaper))
    for state in (saved, config.detector().to_bytes()):
        results, _ = worker.process("s0", rows_of(table, range(10, 20)), state)
        assert [row.problem for row in results] == [None] * 10
        costs = {row.step.cost for row in results if row.step is not None}
        assert costs == {0.5, 40.0}
    with pytest.raises(ValueError, match=r"another config: .* must not change, costs may"):
        Worker(job_of(changed(config, zeta=0.2))).process("s0", [InputRow(30, (0.0, 0.0))], saved)
    with pytest.raises(ValueError, match="another fidelities than the config"):
        Worker(job_of(changed(config, offset=1))).process(
            "s0", [InputRow(30, (0.0, 0.0))], config.detector().to_bytes()
        )
