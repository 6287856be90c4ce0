"""A fidelity with a systematic error, and one whose cost changes, in the service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mfbocd.io.config import Config
from mfbocd.service.engine import Engine, ObserveCommand
from mfbocd.service.errors import RequestError
from mfbocd.service.manage import add_stream
from mfbocd.service.store.sqlite import SqliteStore
from mfbocd.service.transfer import export_streams, import_streams

from .service import CONFIG

IMU = CONFIG["fidelity"][0] | {"offset": 2.0, "scale": 1.8}
WRONG = CONFIG | {"fidelity": [IMU, CONFIG["fidelity"][1]], "policy": {"kind": "random"}}


def start(store: SqliteStore, config: dict[str, Any]) -> Engine:
    engine = Engine(store)
    add_stream(engine, stream="s", name="s", config=config, group=None, observers={}, available={}, max_streams=9)
    return engine


def observe(engine: Engine, tick: int, fidelity: str, *readings: Any) -> list[Any]:
    (results,) = engine.run([[ObserveCommand("s", tick, fidelity, x) for x in readings]])
    return results


def test_a_reading_is_corrected_once_and_a_repeated_one_is_recognized(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "streams.db")
    engine = start(store, WRONG)
    detector = Config.parse(WRONG).detector(missing="skip")
    seen = set()
    for tick in range(12):
        fidelity, x = detector.choose().name, 0.5 + tick
        seen.add(fidelity)
        wanted = detector.update(x, fidelity)
        stored, again, other = observe(engine, tick, fidelity, x, x, x + 1.0)
        assert (stored["x"], stored["mean"]) == (wanted.x, wanted.mean)
        assert again == stored
        assert isinstance(other, RequestError)
        assert "another observation" in other.error
    assert seen == {"imu", "gps"}
    row = store.stream("s")
    assert row is not None
    assert row.state == detector.to_bytes()
    store.close()


def test_a_stream_continues_at_another_cost(tmp_path: Path) -> None:
    """Exported, edited and imported: nothing of the belief is lost, and the next readings cost what they cost now."""
    old, new = (SqliteStore(tmp_path / name) for name in ("old.db", "new.db"))
    engine = start(old, CONFIG)
    fidelity = "gps"
    for tick in range(5):
        row = old.stream("s")
        assert row is not None
        fidelity = json.loads(row.next)["fidelity"]
        observe(engine, tick, fidelity, 0.3 * tick)
    head, *steps = export_streams(old)
    fields = json.loads(head)
    fields["config"] = fields["config"].replace('"cost":40.0', '"cost":60.0')
    assert import_streams(new, [json.dumps(fields), *steps]) == ["s"]
    other = Engine(new)
    fidelity = json.loads(fields["next"])["fidelity"]
    (step,) = observe(other, 5, fidelity, 0.1)
    (wanted,) = observe(engine, 5, fidelity, 0.1)
    assert (step["mean"], step["run_length"]) == (wanted["mean"], wanted["run_length"])
    assert step["spent"] == wanted["spent"] + (20.0 if fidelity == "gps" else 0.0)
    assert fidelity == "gps"
    old.close()
    new.close()
