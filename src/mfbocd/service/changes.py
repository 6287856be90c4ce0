"""The changes among stored steps, with the levels before and after."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..detector.step import Step
from ..io.config import Config
from ..trace.trace import Trace
from .records import Event


def changes_of(config: str, events: Sequence[Event]) -> list[dict[str, Any]]:
    """Return the changes among consecutive steps of a stream, in order.

    Parameters
    ----------
    config : str
        The configuration of the stream as JSON.
    events : sequence of Event
        The steps.

    Returns
    -------
    list of dict
        The fields of `Change`, when the alarm was raised, and all of it in words. Readings before the first step do
        not count for the levels.

    Raises
    ------
    ValueError, TypeError, KeyError
        If the configuration or a step cannot be read.
    """
    parsed = Config.parse(json.loads(config))
    detector = parsed.detector(missing="skip", shared=True)
    trace = Trace.of([_step(json.loads(event.step)) for event in events], detector)
    at = {event.tick: event.at for event in events}
    return [
        change.to_dict() | {"at": at[change.tick], "text": change.describe(parsed.data.unit)}
        for change in trace.changes
    ]


def _step(record: dict[str, Any]) -> Step:
    fields = {name: record[name] for name in Step._fields[:10]}
    for name in ("x", "mean"):
        if isinstance(fields[name], list):
            fields[name] = tuple(float("nan") if value is None else value for value in fields[name])
    return Step(**fields)
