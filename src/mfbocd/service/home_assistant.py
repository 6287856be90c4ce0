"""Streams as devices of Home Assistant, by its MQTT discovery.

Every stream is a device with three entities: the reading, whether it raised an alarm, and the fidelity to read next.
Their configurations, states and the availability of the service are retained, so that Home Assistant has them after
it restarts.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from .records import StreamRow, json_text

NODE_ID = r"[a-zA-Z0-9_-]+"
"""What Home Assistant allows in a part of a discovery topic."""
ONLINE, OFFLINE = "online", "offline"
ENTITIES = {"reading": "sensor", "change": "binary_sensor", "next": "sensor"}
"""The entities of a stream, and the kind of each."""


@dataclass
class _Shown:
    """What was published for a stream, and what is still to be."""

    created: float
    name: str
    tick: int
    alarms: int
    on: bool
    """Whether the change is on."""
    off_next: bool = False
    """Whether the change must go off once it was published that it is on: a later step was made already."""
    stale: bool = False
    """Whether everything must be published again."""
    messages: dict[str, str | None] = field(default_factory=dict)
    """Payloads to publish by topic; None removes what is retained."""


class Discovery:
    """Collects the messages for Home Assistant; the bridge publishes them.

    Parameters
    ----------
    prefix : str
        Discovery prefix of Home Assistant, usually ``homeassistant``.
    topics : str
        What the topics of the bridge begin with.
    worker : str
        Distinguishes this worker from others that serve the same broker; empty if there is only one.
    """

    def __init__(self, prefix: str, topics: str, worker: str = "") -> None:
        if not re.fullmatch(r"[^\s+#]+", prefix):
            raise ValueError(f"the discovery prefix must be a topic without spaces, + and #, not {prefix!r}")
        self.prefix, self._topics = prefix.strip("/"), topics
        # with several workers, the end of one must not make the streams of the others unavailable
        self.availability = f"{topics}/status" + (f"/workers/{slug(worker)}" if worker else "")
        self._shown: dict[str, _Shown] = {}

    def on_row(self, row: StreamRow) -> bool:
        """Compare a stream with what was published; returns whether there is something to publish."""
        shown = self._shown.get(row.id)
        last = _object(row.last)
        on = last.get("alarm") is True
        if shown is None or shown.created != row.created or shown.stale:
            missed = shown is not None and shown.created == row.created and row.alarms > shown.alarms
            self._shown[row.id] = shown = _Shown(row.created, row.name, row.tick, row.alarms, on)
            self._announce(row, shown)
            shown.messages[self._topic(row.id, "state")] = row.last
            self._set_change(row.id, shown, last if on else _object(row.last_alarm) if missed else None)
            shown.off_next = missed and not on
            return True
        if shown.name != row.name:
            shown.name = row.name
            self._announce(row, shown)
        if row.tick > shown.tick:
            shown.tick = row.tick
            shown.messages[self._topic(row.id, "state")] = row.last
            if row.alarms > shown.alarms:  # perhaps not at the last step: several may have been made
                shown.alarms = row.alarms
                self._set_change(row.id, shown, _object(row.last_alarm))
                shown.off_next = not on
            elif shown.on:
                self._set_change(row.id, shown, None)
        elif shown.off_next and not shown.messages:
            self._set_change(row.id, shown, None)
        return bool(shown.messages) or shown.off_next

    def on_step(self, stream: str, step_json: str) -> None:
        """Take a step that was just made; one that is known already changes nothing."""
        shown, step = self._shown.get(stream), json.loads(step_json)
        if shown is None or step["tick"] < shown.tick:
            return
        shown.tick = step["tick"] + 1
        shown.messages[self._topic(stream, "state")] = step_json
        if step["alarm"]:
            shown.alarms += 1
            self._set_change(stream, shown, step)
        elif shown.on:
            self._set_change(stream, shown, None)

    def take(self, stream: str) -> dict[str, str | None]:
        """Return the messages of a stream, by topic, and forget them."""
        shown = self._shown.get(stream)
        if shown is None:
            return {}
        messages, shown.messages = shown.messages, {}
        return messages

    def removal(self, stream: str) -> list[str]:
        """Return the retained topics of a stream, to be emptied when it was deleted."""
        return [*self._config_topics(stream).values(), *(self._topic(stream, what) for what in ("state", "change"))]

    def forget(self, stream: str) -> None:
        """Forget a stream that was deleted or that another worker owns."""
        self._shown.pop(stream, None)

    def refresh(self) -> None:
        """Publish everything again: the broker may have lost it."""
        for shown in self._shown.values():
            shown.stale = True

    def _topic(self, stream: str, what: str) -> str:
        return f"{self._topics}/{stream}/{what}"

    def _config_topics(self, stream: str) -> dict[str, str]:
        return {
            entity: f"{self.prefix}/{kind}/mfbocd_{slug(stream)}/{entity}/config" for entity, kind in ENTITIES.items()
        }

    def _set_change(self, stream: str, shown: _Shown, alarm: dict[str, Any] | None) -> None:
        if alarm is None and shown.on and self._topic(stream, "change") in shown.messages:
            shown.off_next = True  # a change that nobody has seen yet is not overwritten
            return
        shown.on, shown.off_next = alarm is not None, False
        names = ("tick", "changed_at", "confidence", "mean", "at")
        facts = {} if alarm is None else {name: alarm.get(name) for name in names}
        shown.messages[self._topic(stream, "change")] = json_text({"state": "ON" if shown.on else "OFF", **facts})

    def _announce(self, row: StreamRow, shown: _Shown) -> None:
        """Add the discovery messages of a stream."""
        from .. import __version__

        identifier = f"mfbocd_{slug(row.id)}"
        config = _object(row.config)
        unit = (config.get("data") or {}).get("unit")
        fidelities = [one["name"] for one in config.get("fidelity") or [{"name": "full"}]]
        state, change, choice = (self._topic(row.id, what) for what in ("state", "change", "next"))
        entities: dict[str, dict[str, Any]] = {
            "reading": {
                "name": "Reading",
                "state_topic": state,
                # a reading that is missing, or that is a list of numbers, is unknown
                "value_template": "{{ value_json.x if value_json.x is number else None }}",
                "json_attributes_topic": state,
                "json_attributes_template": (
                    "{{ {'tick': value_json.tick, 'fidelity': value_json.fidelity, 'mean': value_json.mean, "
                    "'run_length': value_json.run_length, 'p_change': value_json.p_change, "
                    "'spent': value_json.spent} | tojson }}"
                ),
                "state_class": "measurement",
                "force_update": True,
                **({"unit_of_measurement": unit} if unit else {}),
            },
            "change": {
                "name": "Change",
                "state_topic": change,
                "value_template": "{{ value_json.state }}",
                "json_attributes_topic": change,
                "device_class": "problem",
            },
            "next": {
                "name": "Next reading",
                "state_topic": choice,
                "value_template": "{{ value_json.fidelity }}",
                "json_attributes_topic": choice,
                "device_class": "enum",
                "options": fidelities,
            },
        }
        shared = {
            "availability_topic": self.availability,
            "device": {"identifiers": [identifier], "name": row.name or row.id, "manufacturer": "mfbocd"},
            "origin": {"name": "mfbocd", "sw_version": __version__},
            "qos": 1,
        }
        for entity, topic in self._config_topics(row.id).items():
            unique = {"unique_id": f"{identifier}_{entity}"}
            shown.messages[topic] = json_text(entities[entity] | unique | shared)


def slug(name: str) -> str:
    """A name for topics and ids of Home Assistant; different names stay different.

    >>> slug("pump-1"), slug("pump.1")
    ('pump-1', 'pump_1_4cb68d45')
    """
    if re.fullmatch(NODE_ID, name):
        return name
    return f"{re.sub(r'[^a-zA-Z0-9_-]', '_', name)}_{crc32(name.encode()):08x}"


def _object(stored: str | None) -> dict[str, Any]:
    """A stored object; empty if there is none or it is damaged, which must not end the bridge."""
    try:
        found = json.loads(stored or "{}")
    except (TypeError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
