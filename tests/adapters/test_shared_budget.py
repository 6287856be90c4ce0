"""One configuration of a shared budget spends the same total in a fleet, in the service and on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mfbocd._kernels.price import HORIZON
from mfbocd.io.config import Config
from mfbocd.service import manage
from mfbocd.service.engine import ChooseCommand, Engine, ObserveCommand
from mfbocd.service.store.sqlite import SqliteStore

pytest.importorskip("pyspark")

from mfbocd.adapters.spark import GroupBudget
from mfbocd.adapters.spark.rows import InputRow
from mfbocd.adapters.spark.worker import Job, Worker

pytestmark = pytest.mark.slow

STREAMS, TICKS = 5, 800
NAMES = [f"s{i}" for i in range(STREAMS)]
FIDELITIES = [{"name": "low", "zeta": 0.1, "cost": 1}, {"name": "high", "zeta": 1, "cost": 40}]
BUDGETS: list[dict[str, Any]] = [{"per_tick": 12.0}, {"share": 0.35}]


def config_of(budget: dict[str, Any]) -> dict[str, Any]:
    model = {"kind": "gaussian", "mean": 0, "var": 9, "noise_var": 1}
    return {"hazard": 0.01, "model": model, "fidelity": FIDELITIES, "policy": {"kind": "budget", **budget}}


def tables() -> np.ndarray:
    """Readings (ticks, streams, fidelities) with a change of level about every hundred ticks."""
    rng = np.random.default_rng(3)
    changed = rng.random((TICKS, STREAMS)) < 0.01
    level = np.zeros((TICKS, STREAMS))
    for t in range(TICKS):
        level[t] = np.where(changed[t] | (t == 0), rng.normal(0.0, 3.0, STREAMS), level[t - 1])
    return level[:, :, None] + rng.normal(size=(TICKS, STREAMS, 2)) * [10.0**0.5, 1.0]


def in_fleet(config: dict[str, Any], x: np.ndarray) -> float:
    fleet = Config.parse(config).fleet(STREAMS, shared=True)
    for row in x:
        choice = fleet.choose()
        fleet.update(row[np.arange(STREAMS), choice], choice)
    return fleet.spent


def in_service(config: dict[str, Any], x: np.ndarray, folder: Path) -> float:
    engine = Engine(SqliteStore(folder / "streams.db"))
    manage.add_group(engine, group="g", name="g", config=config)
    for name in NAMES:
        arguments = {"name": name, "config": None, "group": "g", "observers": {}, "available": {}, "max_streams": 100}
        manage.add_stream(engine, stream=name, **arguments)
    asked = [ChooseCommand(name) for name in NAMES]
    spent = 0.0
    for t, row in enumerate(x):
        chosen = {name: choice["fidelity"] for name, choice in zip(NAMES, engine.run([asked])[0], strict=True)}
        commands = [
            ObserveCommand(name, t, chosen[name], float(row[i, int(chosen[name] == "high")]))
            for i, name in enumerate(NAMES)
        ]
        (steps,) = engine.run([commands])
        spent += sum(step["cost"] for step in steps)
    return spent


def on_spark(config: dict[str, Any], x: np.ndarray, folder: Path, ticks: int) -> float:
    """Micro-batches of so many ticks, by the code that Spark's workers and driver run."""
    group = GroupBudget(folder / "prices", Config.parse(config), STREAMS)
    job = Job("t", Config.parse(config).to_dict(), ("low", "high"), {}, shared=True)
    worker, records = Worker(job), dict.fromkeys(NAMES, None)
    spent = 0.0
    for batch in range(TICKS // ticks):
        cost = 0.0
        for i, name in enumerate(NAMES):
            rows = [InputRow(t, tuple(x[t, i].tolist())) for t in range(batch * ticks, (batch + 1) * ticks)]
            result, records[name] = worker.process(name, rows, records[name], group.effective_price(batch))
            cost += sum(row.step.cost for row in result if row.step)
        group.record(batch, cost=cost, readings=STREAMS * ticks, new_streams=STREAMS if batch == 0 else 0)
        spent += cost
    return spent


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: "-".join(map(str, *budget.items())))
def test_the_same_total_in_a_fleet_in_the_service_and_on_spark(budget: dict[str, Any], tmp_path: Path) -> None:
    config, x = config_of(budget), tables()
    target = TICKS * budget.get("per_tick", STREAMS * (1 + 0.35 * 39))
    found = {
        "fleet": in_fleet(config, x),
        "service": in_service(config, x, tmp_path),
        "spark": on_spark(config, x, tmp_path / "each", 1),
        "spark, 10 ticks per batch": on_spark(config, x, tmp_path / "ten", 10),
    }
    slack = {name: abs(spent - target) for name, spent in found.items()}
    # the limit of a young budget: 10 % above the cheapest fidelity, or one expensive reading of each stream
    allowed = max(0.1 * (target - TICKS * STREAMS), STREAMS * 40.0)
    assert slack["fleet"] <= allowed, found
    assert slack["service"] <= allowed, found
    assert slack["spark"] <= allowed, found
    # ten rounds at the first price may cost more than the debt allows, and the price returns slowly: within its limit
    limit = HORIZON * (target / TICKS - STREAMS)
    assert slack["spark, 10 ticks per batch"] <= max(3 * allowed, limit), found
