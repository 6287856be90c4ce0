"""A group's budget on Spark Connect, where workers do not know the number of the micro-batch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("grpc", reason="needs pyspark[connect]")

from mfbocd import Net
from mfbocd.adapters.spark import stream_seed

from .spark_connect import GROUP, TABLES

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]


def test_each_micro_batch_is_decided_at_its_price(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.adapters.spark_connect", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads((tmp_path / "found.json").read_text())
    prices = found["prices"]
    assert len(set(prices)) == 4
    assert found["ticks"] == [12] * 4
    for key, table in TABLES.items():
        mine = sorted((row for row in found["rows"] if row["stream"] == key), key=lambda row: row["at"])
        observers = {"imu": lambda raw: raw[0], "gps": lambda raw: raw[1]}
        detector = GROUP.detector(observers, seed=stream_seed(GROUP.seed, key), shared=True)
        for at, row in enumerate(mine):
            detector.policy = Net(prices[at // 4]).bind(detector.fidelities)
            step = detector.step(table[at])
            assert (row["fidelity"], row["x"], row["mean"]) == (step.fidelity, step.x, step.mean)
