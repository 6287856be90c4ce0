"""One budget for all streams: a price for each micro-batch, learnt from what those before it spent."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...io.config import Config
from ...policy import Budget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST = 32  # ticks a micro-batch counts for at most: a price is steered no finer than it is sent
KEPT = 10  # prices of micro-batches that are done; Spark only ever does the last one again


class GroupBudget:
    """The config's `Budget` as one for all streams: `per_tick` is the wanted average cost of a tick of one stream.

    Every micro-batch has one price for all, learnt as `Budget` does from the average spend of those before it. The
    price of each is a small file in `folder`, which the driver writes and all workers read, so that a micro-batch
    that is done again is done at the same price. Keep it beside the query's checkpoint, one for each query.

    >>> import tempfile
    >>> config = Config.parse({
    ...     "model": {"kind": "gaussian", "mean": 0, "var": 9, "noise_var": 1},
    ...     "fidelity": [{"name": "imu", "zeta": 0.1, "cost": 1}, {"name": "gps", "zeta": 1, "cost": 40}],
    ...     "policy": {"kind": "budget", "per_tick": 8},
    ... })
    >>> group = GroupBudget(tempfile.mkdtemp(), config)
    >>> group.settle(0, spent=4000.0, ticks=100, streams=50)  # 40 a tick: far too much
    >>> group.now(0) < group.now(1)
    True
    """

    def __init__(self, folder: str | Path, config: Config) -> None:
        self.folder = str(folder)
        self.config = config
        policy = config.detector().policy
        if not isinstance(policy, Budget) or len(config.fidelities) < 2:
            raise ValueError(f"a group needs a config with several fidelities and a budget, not {policy!r}")
        if policy.cap is not None:
            raise ValueError(
                f"policy.cap must be left out of a group's budget, not {policy.cap!r}: spends of streams "
                "are only known together once a micro-batch has ended"
            )

    def check(self, config: Config) -> None:
        """Refuse another config than the group's."""
        if config.digest() != self.config.digest():
            raise ValueError("group was made for another config than the query's")

    def now(self, batch: int) -> float:
        """The price of a micro-batch."""
        return self.price(self.folder, batch, self._fresh())

    @staticmethod
    def price(folder: str, batch: int, fresh: Budget) -> float:
        """The price of a micro-batch, from the driver's file; of the first, the one the model expects."""
        return _learnt(folder, batch, fresh).price

    def settle(self, batch: int, *, spent: float, ticks: int, streams: int) -> None:
        """Learn from what a micro-batch spent; told the same again, the same price comes out."""
        policy = _learnt(self.folder, batch, self._fresh())
        if ticks:
            for _ in range(min(max(round(ticks / streams), 1), MOST)):
                policy.record_cost(np.array([spent / ticks]))
        path = _path(self.folder, batch + 1)
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        with beside.open("w", encoding="utf-8") as file:
            json.dump(policy.state(), file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        _path(self.folder, batch - KEPT).unlink(missing_ok=True)

    def each(self, write: Callable[[DataFrame, int], Any]) -> Callable[[DataFrame, int], None]:
        """For `foreachBatch`: `write` the micro-batch, then set the price of the next."""

        def settled(frame: DataFrame, batch: int) -> None:
            from pyspark.sql import functions as sql

            frame = frame.persist()
            try:
                write(frame, batch)
                done = frame.where("problem IS NULL")
                (totals,) = done.agg(sql.sum("cost"), sql.count("*"), sql.countDistinct(frame.columns[0])).collect()
                self.settle(batch, spent=totals[0] or 0.0, ticks=totals[1], streams=totals[2])
            finally:
                frame.unpersist()

        return settled

    def _fresh(self) -> Budget:
        policy = self.config.detector().policy
        assert isinstance(policy, Budget)
        return policy


def _path(folder: str, batch: int) -> Path:
    return Path(folder) / f"{batch}.json"


def _learnt(folder: str, batch: int, fresh: Budget) -> Budget:
    policy = fresh.bind(fresh.fidelities)
    if batch == 0:
        return policy
    try:
        policy.restore(json.loads(_path(folder, batch).read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise ValueError(
            f"{folder} has no price for micro-batch {batch}: use GroupBudget.each in foreachBatch, with the folder "
            "that belongs to this checkpoint, where all workers can read it"
        ) from None
    return policy
