"""The short way of choose and observe responds as the documented routes do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mfbocd.service.engine import ChooseCommand, ObserveCommand
from mfbocd.service.limits import BODY
from mfbocd.service.ticks import _command

from .service import CONFIG, serving

VALID = {"tick": 0, "fidelity": "gps", "x": 1.5}
JSON = "application/json"


def scope(path: str, body: bytes = b"", kind: str = JSON, method: str = "POST") -> dict[str, Any]:
    headers = [(b"host", b"localhost"), (b"content-type", kind.encode())]
    return {"type": "http", "method": method, "path": path, "headers": headers, BODY: body}


def test_valid_requests_are_commands() -> None:
    found = scope("/streams/s.1/observe", json.dumps(VALID).encode())
    assert _command(found) == ObserveCommand("s.1", 0, "gps", 1.5)
    assert found["route"].path == "/streams/{stream}/observe"
    assert _command(scope("/streams/s.1/observe", b'{"tick":1,"fidelity":"a","x":[1,null]}')) == ObserveCommand(
        "s.1", 1, "a", [1, None]
    )
    found = scope("/streams/s.1/choose")
    assert _command(found) == ChooseCommand("s.1")
    assert found["route"].path == "/streams/{stream}/choose"


@pytest.mark.parametrize(
    "request_",
    [
        scope("/streams/s/observe", json.dumps(VALID).encode(), "text/plain"),
        scope("/streams/s/observe", json.dumps(VALID | {"x": True}).encode()),
        scope("/streams/s/observe", json.dumps(VALID | {"x": float("nan")}).encode()),
        scope("/streams/s/observe", json.dumps(VALID | {"more": 1}).encode()),
        scope("/streams/s/observe", b"[" * 100_000),
        scope("/streams/s/observe", b"\xff"),
        scope("/streams/s/observe", b""),
        scope("/streams/s/observe", json.dumps(VALID).encode(), method="PUT"),
        scope("/streams/s\n/choose"),
        scope("/streams//choose"),
        scope("/streams/s/choose/"),
        scope("/streams/s/choose\n"),
        scope("/prefix/streams/s/choose"),
        scope("/streams/s/step", json.dumps(VALID).encode()),
    ],
)
def test_all_others_are_left_to_the_routes(request_: dict[str, Any]) -> None:
    assert _command(request_) is None
    assert "route" not in request_


@pytest.mark.slow
def test_both_ways_respond_alike(tmp_path: Path) -> None:
    with serving(tmp_path / "mfbocd.db") as client:
        assert client.post("/streams", json={"id": "a", "config": CONFIG}).status_code == 201
        choice = client.post("/streams/a/choose").json()
        valid = {"tick": 0, "fidelity": choice["fidelity"], "x": 1}
        statuses = set()
        for stream, body in (
            ("none", valid),
            ("a", valid | {"tick": 1}),
            ("a", valid | {"fidelity": "sonar"}),
            ("a", valid | {"x": "1"}),
            ("a", valid | {"x": [1.0]}),
            ("a", valid),
            ("a", valid),  # repeated
            ("a", valid | {"x": 2}),  # it has passed
        ):
            answers = [
                client.post(
                    f"/streams/{stream}/observe", content=json.dumps(body), headers={"Content-Type": kind + more}
                )
                for kind, more in ((JSON, ""), (JSON, "; charset=utf-8"))
            ]
            one, other = ((a.status_code, a.json(), a.headers.get("content-type")) for a in answers)
            assert one == other
            statuses.add(one[0])
        assert statuses == {200, 404, 409, 422}
        assert client.post("/streams/a/choose").json()["tick"] == 1
        measured = client.get("/metrics").text
        assert (
            'mfbocd_http_request_duration_seconds_count{method="POST",route="/streams/{stream}/observe"' in measured
        )
