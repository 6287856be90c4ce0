"""Shared by the tests of Spark: streams, messages on disk, and the results of detectors in this process."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mfbocd import Step
from mfbocd.adapters.spark import stream_seed
from mfbocd.adapters.spark.rows import InputRow
from mfbocd.adapters.spark.worker import Job
from mfbocd.io.config import Config

CONFIG = Config.parse(
    {
        "hazard": 1 / 50,
        "model": {"kind": "gaussian", "mean": 0, "var": 9, "noise_var": 1},
        "fidelity": [{"name": "imu", "zeta": 0.1, "cost": 1}, {"name": "gps", "zeta": 1, "cost": 40}],
        "policy": {"kind": "budget", "per_tick": 8},
    }
)
JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For `SPARK_SUBMIT_OPTS`: without the compilers that cost a JVM of a minute more than they save."""
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Configuration of a session that compiles no query, for the same reason."""
SCHEMA = "stream STRING, at LONG, imu DOUBLE, gps DOUBLE"

Tables = dict[str, list[list[float]]]


def streams(count: int, ticks: int, seed: int) -> Tables:
    """Return readings of `count` streams at both fidelities, each with one change of level."""
    rng = np.random.default_rng(seed)
    tables = {}
    for i in range(count):
        change = int(rng.integers(1, ticks))
        before, after = rng.normal(0.0, 3.0, 2)
        level = np.where(np.arange(ticks) < change, before, after)
        noise_var = rng.normal(size=(ticks, 2)) * [10.0**0.5, 1.0]
        tables[f"s{i}"] = (level[:, None] + noise_var).tolist()
    return tables


def messages(tables: Tables, ticks: Iterable[int]) -> list[dict[str, Any]]:
    """One message per stream and tick, tick by tick."""
    return [
        {"stream": key, "at": at, "imu": table[at][0], "gps": table[at][1]}
        for at in ticks
        for key, table in tables.items()
    ]


def write(folder: Path, number: int, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write JSON lines atomically: a file source must not see an incomplete file. It reads the oldest first."""
    path = folder / f"{number:03d}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}")
    temporary.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(temporary, (1_700_000_000 + number, 1_700_000_000 + number))
    temporary.rename(path)


def alone(key: str, table: list[list[float]], config: Config = CONFIG, seed: int | None = None) -> list[Step]:
    """The steps of a detector in this process, by default with the seed of its stream."""
    seed = stream_seed(config.seed, key) if seed is None else seed
    detector = config.detector({"imu": lambda raw: raw[0], "gps": lambda raw: raw[1]}, seed=seed)
    return [detector.step(raw) for raw in table]


def results(rows: Iterable[Any]) -> dict[str, list[tuple[Any, ...]]]:
    """Rows of a result by stream, in the order of their times, without key and problem."""
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(row["stream"], []).append(row)
    return {
        key: [tuple(row[name] for name in ("at", *FIELDS)) for row in sorted(mine, key=lambda row: row["at"])]
        for key, mine in found.items()
    }


FIELDS = ("tick", "fidelity", "x", "cost", "mean", "p_change", "alarm", "changed_at", "confidence")


def expected(tables: Tables, config: Config = CONFIG) -> dict[str, list[tuple[Any, ...]]]:
    """The value that `results` must have for streams whose times are their ticks."""
    return {
        key: [(step.tick, *(getattr(step, name) for name in FIELDS)) for step in alone(key, table, config)]
        for key, table in tables.items()
    }


POLICIES: dict[str, dict[str, Any] | None] = {
    "default": None,
    "always": {"kind": "always", "name": "gps"},
    "budget": {"kind": "budget", "per_tick": 8},
    "capped": {"kind": "budget", "per_tick": 8, "cap": [90, 10]},
    "information_rate": {"kind": "information_rate"},
    "margin": {"kind": "margin", "delta": 0.05},
    "net": {"kind": "net", "price": 0.004},
    "random": {"kind": "random"},
    "soft": {"kind": "soft", "temperature": 0.01, "price": 0.004},
}


def config_of(policy: dict[str, Any] | None, **more: Any) -> Config:
    """The configuration with another policy."""
    given = CONFIG.to_dict() | more
    given.pop("policy")
    return Config.parse(given if policy is None else given | {"policy": policy})


def job_of(config: Config, **more: Any) -> Job:
    """The job of a query with a column per fidelity."""
    return Job("token", config.to_dict(), ("imu", "gps"), {}, **more)


def rows_of(table: list[list[float]], ticks: range) -> list[InputRow]:
    """The rows of a stream, without Spark."""
    return [InputRow(at, tuple(table[at])) for at in ticks]
