"""Requests nobody sends in earnest, made from the OpenAPI document: no failure of the service, no growth."""

from __future__ import annotations

import gc
import http.client
import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any

import httpx
import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck

from ..parts import PATIENCE
from .service import CONFIG, serving

pytestmark = pytest.mark.slow

ROUNDS = 3
REQUESTS = int(os.environ.get("MFBOCD_FUZZ", "500"))
"""Requests with several odd values. Run with ``MFBOCD_FUZZ=10000`` before a release; it takes half a minute."""

WORDS = [
    *("", "-1", "9" * 20, "1e999", "nan", "true", "x" * 3000, "a%2Fb", "%27%3B--"),
    *("%00", "%ff", "%ED%A0%80", "%F0%9F%A6%96"),  # no text, half a character, one beyond 16 bits
]
"""What a place in an address can hold, as it is written there."""
VALUES = [
    *("null", "true", "0", "-1", "0.5", "1e308", "1e999", "NaN", "18446744073709551616", "1" + "0" * 400),
    *(
        '""',
        '"absent"',
        '"\\u0000"',
        '"\\ud800"',
        '"\U0001f996"',
        f'"{"x" * 3000}"',
        "[]",
        "[null]",
        "[[[0.5]]]",
        "{}",
        '{"": 0}',
    ),
]
"""What a place in a body can hold, as it is written there."""
BODIES: dict[str, dict[str, Any]] = {
    "/streams": {"id": "b", "name": "b", "config": CONFIG, "group": "a", "observers": {"gps": "x"}},
    "/groups": {"id": "b", "name": "b", "config": CONFIG},
    "/streams/{stream}/observe": {"tick": 0, "fidelity": "gps", "x": 0.5},
    "/streams/{stream}/step": {"raw": 0.5, "tick": 0},
    "/streams/{stream}/notes/{note}": {"tick": 0, "acknowledged": True, "author": "b", "text": "b"},
    "/choose": {"streams": ["a"]},
    "/observe": {"observations": [{"stream": "a", "tick": 0, "fidelity": "gps", "x": 0.5}]},
}
"""A body in earnest for every operation that takes one."""


def spoilt(value: Any) -> Iterator[Any]:
    """The value with each part of it in turn replaced by None, as a sign."""
    yield None
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for place, part in parts:
        for other in spoilt(part):
            whole = value.copy()
            whole[place] = other
            yield whole


def make(client: httpx.Client) -> None:
    """A stream and a group for the requests to be about; some of them delete what they find."""
    client.post("/streams", json={"id": "a", "config": CONFIG})
    client.post("/groups", json={"id": "a", "config": CONFIG})


class Sender:
    """Sends requests as they are given over one connection, several times faster than httpx."""

    def __init__(self, client: httpx.Client) -> None:
        self.connection = http.client.HTTPConnection(client.base_url.host, client.base_url.port, timeout=PATIENCE)
        self.statuses: Counter[int] = Counter()
        self.close = self.connection.close

    def send(self, method: str, url: str, headers: dict[str, str] | None = None, body: str | None = None) -> None:
        given = (headers or {}) | ({} if body is None else {"content-type": "application/json"})
        self.connection.request(method.upper(), url, body and body.encode(), given)
        answer = self.connection.getresponse()
        if answer.getheader("content-type", "").startswith("text/event-stream"):
            self.connection.close()  # this response has no end; the next request opens a connection
        else:
            answer.read()
        assert answer.status < 500, (method, url[:200], given, (body or "")[:500])
        self.statuses[answer.status] += 1


def test_one_odd_value_is_refused(tmp_path: Path) -> None:
    bodies = set()
    with serving(tmp_path / "mfbocd.db") as client, closing(Sender(client)) as sender:
        send = sender.send
        for path, methods in client.get("/openapi.json").json()["paths"].items():
            for method, operation in methods.items():
                make(client)
                here = path.format(stream="a", group="a", note="a")
                for parameter in operation.get("parameters", []):
                    name = parameter["name"]
                    for word in WORDS:
                        if parameter["in"] == "path":
                            send(method, path.replace(f"{{{name}}}", word))
                        elif parameter["in"] == "query":
                            send(method, f"{here}?{name}={word}")
                        else:
                            send(method, here, {name: word})
                if "requestBody" not in operation:
                    continue
                bodies.add(path)
                for body in spoilt(BODIES[path]):
                    for value in VALUES:
                        send(method, here, body=json.dumps(body).replace("null", value))
        assert bodies == set(BODIES)
        assert {200, 404, 409, 422} <= set(sender.statuses)
        make(client)
        assert client.post("/streams/a/choose").status_code == 200


def test_several_odd_values_are_refused(tmp_path: Path) -> None:
    random = Random(1)
    with serving(tmp_path / "mfbocd.db") as client, closing(Sender(client)) as sender:
        paths = client.get("/openapi.json").json()["paths"]
        operations = [(path, method, one) for path, methods in paths.items() for method, one in methods.items()]
        for number in range(REQUESTS):
            if number % 100 == 0:
                make(client)
            path, method, operation = random.choice(operations)
            url, body = path, None
            query: list[str] = []
            headers: dict[str, str] = {}
            for parameter in operation.get("parameters", []):
                name, word = parameter["name"], random.choice(WORDS)
                if parameter["in"] == "path":
                    url = url.replace(f"{{{name}}}", word if random.random() < 0.3 else "a")
                elif parameter["in"] == "query" and random.random() < 0.5:
                    query.append(f"{name}={word}")
                elif parameter["in"] == "header" and random.random() < 0.5:
                    headers[name] = word
            if "requestBody" in operation:
                odd: Any = BODIES[path]
                for _ in range(random.randint(0, 3)):
                    odd = random.choice(list(spoilt(odd)))
                body = re.sub("null", lambda _: random.choice(VALUES), json.dumps(odd))
            url = "?".join([url, *(["&".join(query)] if query else [])])
            sender.send(method, url, headers, body)
        assert sender.statuses.total() == REQUESTS
        assert {200, 404, 409, 422} <= set(sender.statuses)
        make(client)
        assert client.post("/streams/a/choose").status_code == 200


def resident() -> int:
    """Bytes of this process in memory; the service runs in it."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_garbage_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path / "mfbocd.db") as client:
        observation = client.get("/openapi.json").json()
        schema = schemathesis.openapi.from_dict(observation)
        operations = [
            result.ok() for result in schema.get_all_operations() if not result.ok().path.endswith("/events")
        ]
        assert len(operations) == 23
        sent, failures, first = 0, [], 0
        statuses: dict[int, int] = {}

        for round_ in range(ROUNDS):
            for operation in operations:
                cases = []
                for mode in schemathesis.GenerationMode.NEGATIVE, schemathesis.GenerationMode.POSITIVE:

                    @hypothesis.seed(1000 * round_ + len(cases))
                    @hypothesis.settings(
                        max_examples=8, database=None, deadline=None, derandomize=False,
                        suppress_health_check=list(HealthCheck), phases=[hypothesis.Phase.generate],
                    )  # fmt: skip
                    @hypothesis.given(operation.as_strategy(generation_mode=mode))
                    def collect(case: schemathesis.Case) -> None:
                        cases.append(case)  # noqa: B023 (run at once)

                    with suppress(hypothesis.errors.Unsatisfiable):  # what takes no input cannot be given a wrong one
                        collect()
                make(client)
                for case in cases:
                    if case.path_parameters and sent % 2:
                        case.path_parameters = dict.fromkeys(case.path_parameters, "a")
                    answer = case.call(base_url=str(client.base_url), timeout=PATIENCE)
                    sent += 1
                    statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
                    if answer.status_code >= 500:
                        failures.append((case.as_curl_command(), answer.text))
            if round_ == 1:
                gc.collect()
                first = resident()
        assert failures == []
        assert sent > 200 * ROUNDS
        assert statuses.get(422, 0) > 100
        assert statuses.get(200, 0) > 0
        assert client.get("/healthz").status_code == 200
        gc.collect()
        assert resident() - first < 100 * 2**20
