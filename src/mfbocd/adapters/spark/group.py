"""One budget for all streams of a query: one price per micro-batch, learned from the cost of those before it."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark import TaskContext

from ...inputs.arguments import whole
from ...io.config import Config
from ...policy import SharedBudget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEPT = 10
"""Prices of finished micro-batches that are kept. Spark only ever repeats the last one."""


class GroupBudget:
    """The budget of a configuration, shared by all streams of a query.

    `per_tick` (or `share`) is the average cost per tick of all streams together, as in a `Fleet` and in a group of
    the service (`SharedBudget`). All streams of a micro-batch decide at one price. The driver writes the price of
    each micro-batch to a small file in `folder`, so that a repeated micro-batch is decided at the same price. The
    workers get the price with their tasks.

    Parameters
    ----------
    folder : str or Path
        Folder of the driver, one per query; keep it next to the query's checkpoint. Workers do not read it. With
        Spark Connect it is a folder of the server.
    config : Config
        Configuration of the query, with several fidelities and a budget without a cap.
    streams : int
        Expected number of streams, at least 1. It sets the price of the first micro-batch. From then on the
        streams that were seen are counted.

    Raises
    ------
    ValueError
        If the configuration has one fidelity, no budget, a cap, or a budget that does not pay for the cheapest
        fidelity of every stream or is more than the streams can spend.

    Examples
    --------
    >>> import tempfile
    >>> config = Config.parse({
    ...     "model": {"kind": "gaussian", "mean": 0, "var": 9, "noise_var": 1},
    ...     "fidelity": [{"name": "imu", "zeta": 0.1, "cost": 1}, {"name": "gps", "zeta": 1, "cost": 40}],
    ...     "policy": {"kind": "budget", "per_tick": 400},
    ... })
    >>> group = GroupBudget(tempfile.mkdtemp(), config, streams=50)
    >>> group.record(0, cost=2000.0, readings=50, new_streams=50)  # a round of readings that cost 2000, not 400
    >>> group.price(0) < group.price(1)
    True
    """

    def __init__(self, folder: str | Path, config: Config, streams: int) -> None:
        self.folder = str(folder)
        self.config = config
        self.streams = whole("GroupBudget", "streams", streams, 1)
        self.setting = f"spark.mfbocd.price.{uuid4().hex}"
        """Setting of the session that takes the price to the workers; one per group: queries may share a session."""
        first = self._initial()
        self._first = {"price": first.price, "effective_price": first.effective_price}

    def check(self, config: Config) -> None:
        """Raise an error if the query has another configuration than the group.

        Parameters
        ----------
        config : Config
            The configuration of the query.

        Raises
        ------
        ValueError
            If they differ.
        """
        if config.digest(costs=True) != self.config.digest(costs=True):
            raise ValueError("group was made for another config than the query's")

    def price(self, batch: int) -> float:
        """Return the price of a micro-batch as learned so far, in units of gain per unit of cost.

        Parameters
        ----------
        batch : int
            Number of the micro-batch.

        Returns
        -------
        float
            The price.

        Raises
        ------
        ValueError
            If the price of the micro-batch was never written.
        """
        return float(self._prices(batch)["price"])

    def effective_price(self, batch: int) -> float:
        """Return the price at which the streams of a micro-batch decide (`Budget.effective_price`).

        Parameters
        ----------
        batch : int
            Number of the micro-batch.

        Returns
        -------
        float
            The price.

        Raises
        ------
        ValueError
            If the price of the micro-batch was never written.
        """
        return float(self._prices(batch)["effective_price"])

    def _prices(self, batch: int) -> dict[str, Any]:
        return self._first if batch == 0 else _read(self.folder, batch)

    def record(self, batch: int, *, cost: float, readings: int, new_streams: int) -> None:
        """Set the price of the next micro-batch; repeating the call gives the same price.

        Parameters
        ----------
        batch : int
            Number of the micro-batch that was finished.
        cost : float
            What its readings cost together.
        readings : int
            How many there were: ticks of all streams.
        new_streams : int
            Streams whose first tick was in this micro-batch.
        """
        budget, seen = self._initial(), 0
        if batch > 0:
            saved = _read(self.folder, batch)
            seen = saved["seen"]
            _resize(budget, max(seen, 1))
            budget.restore(saved["budget"])
        seen += new_streams
        if seen:
            _resize(budget, seen)
        budget.record(cost, readings)
        prices = {"price": budget.price, "effective_price": budget.effective_price}
        _write(self.folder, batch + 1, prices | {"seen": seen, "budget": budget.state()})
        _path(self.folder, batch - KEPT).unlink(missing_ok=True)

    def each(self, write: Callable[[DataFrame, int], Any]) -> Callable[[DataFrame, int], None]:
        """Return a function for `foreachBatch` that writes a micro-batch and then sets the price of the next.

        Parameters
        ----------
        write : callable
            Called with the frame of a micro-batch and its number.

        Returns
        -------
        callable
            To be passed to ``writeStream.foreachBatch``.
        """

        def write_and_record(frame: DataFrame, batch: int) -> None:
            from pyspark.sql import functions as sql

            settings = frame.sparkSession.conf
            settings.set(self.setting, repr(self.effective_price(batch)))
            frame = frame.persist()  # nothing of it was computed so far
            try:
                write(frame, batch)
                first = sql.count(sql.when(sql.col("tick") == 0, True))
                steps = frame.where("problem IS NULL")
                ((cost, readings, new_streams),) = steps.agg(sql.sum("cost"), sql.count("*"), first).collect()
                self.record(batch, cost=cost or 0.0, readings=readings, new_streams=new_streams)
            finally:
                frame.unpersist()
                settings.unset(self.setting)

        return write_and_record

    def _initial(self) -> SharedBudget:
        """The budget before the first micro-batch."""
        if len(self.config.fidelities) < 2:
            raise ValueError("a group needs a config with several fidelities")
        budget = self.config.shared_budget(self.streams)
        if budget is None:
            raise ValueError(
                f"a group needs a config with a budget, not {self.config.detector(shared=True).policy!r}"
            )
        return budget


def _resize(budget: SharedBudget, streams: int) -> None:
    """Set the number of streams. Too many for the budget are left out: all then read at the cheapest fidelity."""
    try:
        budget.streams = streams
    except ValueError as error:
        warnings.warn(f"{streams} streams share a budget for {budget.streams}: {error}", RuntimeWarning, stacklevel=3)


def _path(folder: str, batch: int) -> Path:
    return Path(folder) / f"{batch}.json"


def price_of(setting: str) -> float:
    """Return the price of the micro-batch, in a worker: Spark sends the settings of the session with a task."""
    context = TaskContext.get()
    price = None if context is None else context.getLocalProperty(setting)
    if price is None:
        raise ValueError("this micro-batch has no price: pass GroupBudget.each(write) to foreachBatch")
    return float(price)


def _read(folder: str, batch: int) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(_path(folder, batch).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(
            f"{folder} has no price for micro-batch {batch}: use GroupBudget.each in foreachBatch, with the folder "
            "that belongs to this checkpoint"
        ) from None
    return found


def _write(folder: str, batch: int, values: dict[str, Any]) -> None:
    """Write next to the file, sync, and rename: the file is complete or absent."""
    path = _path(folder, batch)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(values, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
