"""The cached streams of each configuration, as rows of one `Fleet`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..detector.detector import Detector
from ..detector.step import Step
from ..fleet import Fleet
from ..io.config import Config
from ..policy import SharedBudget
from ..policy.base import largest_nets
from ..policy.controller import Limit
from ..policy.fidelity import same_readings
from .records import MAX_RUN_LENGTHS, MIN_PROBABILITY, StreamRow


class Price(NamedTuple):
    """At what a stream of a group decides, and what its client is told about it."""

    effective: float
    """`SharedBudget.effective_price`."""
    learned: float
    """`SharedBudget.price`."""
    limit: Limit
    """`SharedBudget.limit`."""

    @classmethod
    def of(cls, budget: SharedBudget) -> Price:
        """The present price of a budget."""
        return cls(budget.effective_price, budget.price, budget.limit)


NOT_SHARED = ("seed", "missing", "data")
"""Keys of a configuration in which streams of one fleet may differ: a seed belongs to the stream, the service itself
handles missing readings, and the data section describes tables."""


class Configuration(NamedTuple):
    """What is derived from the stored configuration of a stream."""

    config: Config
    key: str
    """Equal for configurations whose streams can share a fleet."""
    fidelities: tuple[str, ...]
    """Names of the fidelities."""
    is_bounded: bool
    """Whether pruning bounds the size of a state."""
    on_missing: str
    """What to do with missing readings: ``"skip"`` or ``"raise"``."""


@lru_cache(maxsize=512)
def parse_stored(text: str) -> Configuration:
    """Parse a configuration as it is stored. The results are kept, because many streams have the same one."""
    settings = json.loads(text)
    config = Config.parse(settings)
    key = json.dumps({name: settings[name] for name in settings if name not in NOT_SHARED}, sort_keys=True)
    detector = config.detector(missing="skip", shared=True)
    names = tuple(f.name for f in detector.fidelities)
    return Configuration(config, key, names, detector.pruning.most > 0, settings["missing"])


class Advanced(NamedTuple):
    """A stream after a tick."""

    step: Step
    spent: float
    """Cost of all readings so far."""
    posterior: list[list[float]]
    """The likely run lengths, each as [run length, probability]."""
    choice: dict[str, Any]
    """The choice for the next tick, see `StreamFleet.choices`."""
    state: bytes
    """`Detector.to_bytes`."""


class StreamFleet:
    """Streams with one configuration. The streams of the fleet are named by their ids.

    Every stream is bit for bit what a `Detector` with the same observations is.

    Parameters
    ----------
    config : Config
    grouped : bool
        Whether its streams belong to groups. Such a stream chooses at the price of its group. Its own budget may
        exceed what one stream can spend, and is not used.
    """

    def __init__(self, config: Config, grouped: bool) -> None:
        self._config, self._grouped = config, grouped
        self._fleet = self._new_fleet(0)
        fidelities = self._fleet.fidelities
        self.model = self._fleet.model
        self.names = tuple(f.name for f in fidelities)
        self.costs = {f.name: f.cost_of() for f in fidelities}
        self.fidelities = {f.name: f for f in fidelities}
        self._index = {name: j for j, name in enumerate(self.names)}
        self._missing = np.nan if self.model.dimension == 1 else [np.nan] * self.model.dimension

    def _new_fleet(self, n: int) -> Fleet:
        # one thread: the event loop needs the other cores
        return self._config.fleet(n, shared=self._grouped, share_policy=False, missing="skip", threads=1)

    def __len__(self) -> int:
        return len(self._fleet)

    def new_stream(self, price: Price | None = None) -> tuple[bytes, dict[str, Any]]:
        """The state of a stream before its first tick, and its first choice; at this price if it has a group."""
        fleet = self._new_fleet(1)
        return fleet.to_bytes(0), self.choices(fleet, np.zeros(1, dtype=np.int64), [price])[0]

    def insert(self, row: StreamRow) -> None:
        """Insert a stream, or replace it, in the state of its row, at the costs of the configuration."""
        try:
            self._fleet.insert(row.state, row.id, replace=True)
        except ValueError:
            detector, wanted = Detector.from_bytes(row.state), self._fleet.fidelities
            if detector.fidelities == wanted or not same_readings(detector.fidelities, wanted):
                raise
            self._fleet.insert(detector.with_fidelities(wanted), row.id, replace=True)

    def choice_of(self, row: StreamRow) -> dict[str, Any]:
        """The choice of a stream without a group for the next tick; the stream is inserted."""
        self.insert(row)
        return self.choices(self._fleet, [row.id], [None])[0]

    def remove(self, stream: str) -> None:
        """Remove a stream, if the fleet has it."""
        with suppress(KeyError):
            self._fleet.remove(stream)

    def clear(self) -> None:
        """Remove all streams, after an error that has made the fleet unusable."""
        self._fleet = self._new_fleet(0)

    def advance(
        self,
        streams: Sequence[str],
        x: Sequence[Any],
        fidelities: Sequence[str],
        prices: Sequence[Price | None],
    ) -> list[Advanced]:
        """Advance streams by one tick.

        Parameters
        ----------
        streams : sequence of str
            Ids, all different.
        x : sequence
            Their readings, as `mfbocd.detector.step.checked_raw` returns them.
        fidelities : sequence of str
            Names of the fidelities that were read.
        prices : sequence of Price or None
            The price of each stream's group, after this tick; None without a group.

        Raises
        ------
        Exception
            The state of all these streams is undefined then: insert them again, after `clear` if the error was
            unexpected.
        """
        values = np.array([self._missing if value is None else value for value in x], dtype=float)
        read = [self._index[name] for name in fidelities]
        step = self._fleet.update(values, read, streams=streams)
        rows = step.streams
        columns = (
            step.steps(),
            self._fleet.spent_by_stream[rows].tolist(),
            self._fleet.likely(MIN_PROBABILITY, MAX_RUN_LENGTHS, streams=rows),
            self.choices(self._fleet, rows, prices),
            self._fleet.to_bytes_each(streams=rows),
        )
        return list(map(Advanced, *columns))

    def choices(self, fleet: Fleet, rows: Any, prices: Sequence[Price | None]) -> list[dict[str, Any]]:
        """The choices of streams for the next tick, with the ``gains`` per fidelity, the ``price``, and the ``limit``
        that decides in its place.

        A stream of a group takes the largest net gain at the price of the group; others follow their own policy.
        """
        decision = fleet.decide(streams=rows)
        chosen, gains = decision.choice, decision.gains
        shared = [price for price in prices if price is not None]
        if self._grouped:
            learned: list[float | None] = [price.learned for price in shared]
            limits: list[str] = [price.limit for price in shared]
            if gains.shape[1]:
                effective = np.array([price.effective for price in shared])
                chosen = largest_nets(gains, fleet.policy.cost, effective)
        else:
            learned = [None] * len(chosen) if decision.price is None else decision.price.tolist()
            limits = decision.limit.tolist()
        return [
            {
                "fidelity": self.names[j],
                "gains": dict(zip(self.names, gain, strict=False)),
                "price": price,
                "limit": limit or None,
            }
            for j, gain, price, limit in zip(chosen.tolist(), gains.tolist(), learned, limits, strict=True)
        ]


class FleetPool:
    """The fleets of all cached streams: one per configuration, and per stream where pruning does not bound states.

    All rows of a fleet have the size of the largest, so that one stream that grows without bound would make those of
    all others as large.
    """

    def __init__(self) -> None:
        self._fleets: dict[tuple[str, bool, str], StreamFleet] = {}
        self._keys: dict[str, tuple[str, bool, str]] = {}
        """The key of the fleet of each stream."""

    def __len__(self) -> int:
        return len(self._fleets)

    def insert(self, row: StreamRow) -> StreamFleet:
        """Insert a stream into the fleet of its configuration; raises an error if its row is damaged."""
        parsed = parse_stored(row.config)
        grouped = row.group is not None
        key = (parsed.key, grouped, "" if parsed.is_bounded else row.id)
        fleet = self._fleets.get(key) or StreamFleet(parsed.config, grouped)
        fleet.insert(row)
        self._fleets[key], self._keys[row.id] = fleet, key
        return fleet

    def remove(self, stream: str) -> None:
        """Remove a stream, and its fleet if that is empty then."""
        key = self._keys.pop(stream)
        fleet = self._fleets[key]
        fleet.remove(stream)
        if not len(fleet):
            del self._fleets[key]
