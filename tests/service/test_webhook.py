"""Alarms reach a webhook at least once, whatever fails, and no tick waits for it."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from mfbocd.service import logs, notifier
from mfbocd.service.metrics import Metrics
from mfbocd.service.notifier import Notifier
from mfbocd.service.records import Event
from mfbocd.service.store import open_store, outbox
from mfbocd.service.store.base import Changes
from mfbocd.service.store.outbox import Entry
from mfbocd.service.store.postgres import PostgresStore
from mfbocd.service.webhook import FORMATS, SIGNATURE, Webhook, verify

from ..parts import PATIENCE, needed
from .postgres import postgres, postgres_server  # noqa: F401 (fixtures)
from .receiver import Receiver, receiving
from .service import CONFIG, free_port, serving, until
from .test_cli import running
from .test_logs import output  # noqa: F401 (a fixture)
from .test_metrics import scraped
from .test_steps import plain
from .test_store import Make, make  # noqa: F401 (fixture)

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifier, "BACKOFF", (0.05, 0.1))
    monkeypatch.setattr(notifier, "POLL", 0.1)


def advance(client: httpx.Client, stream: str, ticks: int = 45) -> list[dict[str, Any]]:
    """Observe a stream that jumps to another level at tick 40; returns the steps with an alarm."""
    found = []
    for _ in range(ticks):
        choice = client.post(f"/streams/{stream}/choose").json()
        x = 0.1 if choice["tick"] < 40 else 9.0
        observation = {"tick": choice["tick"], "fidelity": choice["fidelity"], "x": x}
        answer = client.post(f"/streams/{stream}/observe", json=observation)
        assert answer.status_code == 200, answer.text
        found += [answer.json()] if answer.json()["alarm"] else []
    assert found
    return found


def delivered(receiver: Receiver, alarms: list[dict[str, Any]], stream: str = "a") -> None:
    """Wait until the alarms of a stream have arrived, each once."""
    until(lambda: len(receiver.alarms()) >= len(alarms), lambda: receiver.requests)
    assert sorted((one["step"] for one in receiver.alarms()), key=lambda step: int(step["tick"])) == alarms
    assert {one["stream"] for one in receiver.alarms()} == {stream}


def test_an_alarm_is_delivered_once_the_endpoint_works(tmp_path: Path) -> None:
    secret = "a secret"
    with receiving() as receiver:
        receiver.statuses = [500, 503, 302, 429, 404]
        with serving(tmp_path / "a.db", webhook=Webhook(receiver.url, secret=secret)) as client:
            client.post("/streams", json={"id": "a", "name": "A walk", "config": CONFIG})
            alarms = advance(client, "a")
            delivered(receiver, alarms)
            until(lambda: scraped(client)["mfbocd_webhook_pending"] == 0, lambda: scraped(client))
            found = scraped(client)
            assert found['mfbocd_webhook_deliveries_total{result="failed"}'] == 3
            assert found['mfbocd_webhook_deliveries_total{result="refused"}'] == 2
            assert client.get("/healthz").json()["webhook"] == "ok"
    path, headers, body = receiver.requests[0]
    assert path == "/hook"
    assert verify(secret, headers[SIGNATURE.lower()], body)
    assert not verify("another", headers[SIGNATURE.lower()], body)
    assert not verify(secret, headers[SIGNATURE.lower()], body + b" ")
    assert receiver.alarms()[0]["name"] == "A walk"


def test_no_tick_waits_for_an_endpoint_that_hangs(tmp_path: Path) -> None:
    with receiving() as receiver:
        receiver.answers.clear()
        with serving(tmp_path / "a.db", webhook=Webhook(receiver.url)) as client:
            client.post("/streams", json={"id": "a", "config": CONFIG})
            alarms = advance(client, "a")
            until(lambda: receiver.waiting == 1, lambda: "nothing was sent")
            assert client.post("/streams/a/choose").json()["tick"] == 45
            assert scraped(client)["mfbocd_webhook_pending"] >= 1
            receiver.answers.set()
            delivered(receiver, alarms)


def test_health_says_that_alarms_are_not_delivered(tmp_path: Path) -> None:
    with serving(tmp_path / "a.db", webhook=Webhook(f"http://127.0.0.1:{free_port()}")) as client:
        client.post("/streams", json={"id": "a", "config": CONFIG})
        advance(client, "a")
        until(lambda: client.get("/healthz").json()["webhook"] != "ok", lambda: "it is not reported")
        answer = client.get("/healthz")
        assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
        assert "cannot be reached" in answer.json()["webhook"]


def test_alarms_are_counted_while_the_endpoint_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifier, "BACKOFF", (3600.0, 3600.0))
    with serving(tmp_path / "a.db", webhook=Webhook(f"http://127.0.0.1:{free_port()}")) as client:
        for number, stream in enumerate("ab", 1):
            client.post("/streams", json={"id": stream, "config": CONFIG})
            advance(client, stream)
            until(lambda n=number: scraped(client)["mfbocd_webhook_pending"] == n, lambda: scraped(client))
        assert scraped(client)['mfbocd_webhook_deliveries_total{result="failed"}'] == 1


def test_one_alarm_that_is_refused_does_not_hold_up_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifier, "BACKOFF", (60.0, 60.0))
    db = str(tmp_path / "a.db")
    with receiving() as receiver:
        with serving(tmp_path / "a.db", webhook=Webhook(f"http://127.0.0.1:{free_port()}")) as client:
            for stream in "abc":
                client.post("/streams", json={"id": stream, "config": CONFIG})
                advance(client, stream)
        receiver.statuses = [400, 400]  # the batch, then its first alarm
        with serving(tmp_path / "a.db", webhook=Webhook(receiver.url)) as client:
            until(lambda: {one["stream"] for one in receiver.alarms()} >= {"b", "c"}, lambda: receiver.requests)
            until(lambda: scraped(client)["mfbocd_webhook_pending"] == 1, lambda: scraped(client))
    store = open_store(db)
    (left,) = outbox.claim(store, 9, time.time() + 61, 0)
    assert (left.stream, left.attempts) == ("a", 2)  # the endpoint failed, then refused it
    store.close()


def test_a_damaged_alarm_does_not_hold_up_others(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "a.db"))
    rows = [("a", "{"), ("b", "null"), ("c", STEP)]
    with store.transaction() as cursor:
        for stream, step in rows:
            cursor.execute(
                "INSERT INTO outbox VALUES (?, 0, ?, 'A', NULL, ?, 0, 0, NULL)", (stream, time.time(), step)
            )
    store.close()
    with receiving() as receiver:
        webhook = Webhook(receiver.url, "alertmanager-webhook")
        with serving(tmp_path / "a.db", webhook=webhook) as client:
            until(lambda: bool(receiver.requests), lambda: client.get("/healthz").text)
            until(lambda: scraped(client)["mfbocd_webhook_pending"] == 2, lambda: scraped(client))
            until(lambda: "damaged" in client.get("/healthz").json()["webhook"], lambda: client.get("/healthz").text)


def test_a_failed_request_is_repeated_later_and_when_the_endpoint_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier, "BACKOFF", (1.0, 300.0))
    monkeypatch.setattr(Notifier, "start", lambda _: None)  # its steps are called here
    store = open_store(str(tmp_path / "a.db"))
    with store.transaction() as cursor:
        cursor.execute("INSERT INTO outbox VALUES ('a', 0, 0, 'A', NULL, '{}', 0, 0, NULL)")
    with receiving() as receiver:
        sender = Notifier(store, Webhook(receiver.url), Metrics(), lambda _: None)
        receiver.statuses = [500, 503, 408, 429, 500, 503]
        assert [sender._deliver() for _ in range(3)] == [1.0, 2.0, 4.0]
        waits = []
        for receiver.retry_after in ("50", "4000", "Fri, 01 Jan 2100 00:00:00 GMT"):
            waits.append(sender._deliver())
        assert waits == [50.0, 300.0, 32.0]
        assert sender._deliver() == 0.0
        assert len(receiver.alarms()) == 1
        assert outbox.backlog(store).alarms == 0
    store.close()


def test_the_address_is_not_logged(tmp_path: Path, output: io.StringIO) -> None:  # noqa: F811
    logs.configure("json", "debug", access=True, output=output)
    with receiving() as receiver:
        receiver.statuses = [500]
        with serving(tmp_path / "a.db", webhook=Webhook(f"{receiver.url}/secret-path")) as client:
            client.post("/streams", json={"id": "a", "config": CONFIG})
            delivered(receiver, advance(client, "a"))
    assert "could not be delivered to the webhook: the endpoint responds with status 500" in output.getvalue()
    assert "secret-path" not in output.getvalue()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_an_alarm_survives_kill_9_before_it_is_delivered(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The alarm was acknowledged and its request was sent, but not answered. Its stream and steps are deleted."""
    db = str(tmp_path / "a.db") if kind == "sqlite" else request.getfixturevalue("postgres")()
    with receiving() as receiver:
        receiver.answers.clear()
        more = ("--webhook", receiver.url, "--advertise", "http://one")
        with running(db, *more) as (client, process):
            client.post("/streams", json={"id": "a", "config": CONFIG})
            alarms = advance(client, "a")
            until(lambda: receiver.waiting > 0, lambda: "nothing was sent")
            assert client.delete("/streams/a").status_code == 204
            process.kill()
            assert process.wait() == -signal.SIGKILL
        receiver.statuses = [500] * receiver.waiting  # the connection of the dead process
        receiver.answers.set()
        until(lambda: not receiver.statuses, lambda: receiver.statuses)
        assert receiver.alarms() == []
        with running(db, *more):
            delivered(receiver, alarms)


def test_workers_share_the_outbox(postgres: Callable[[], str]) -> None:  # noqa: F811
    db = postgres()
    one, two = (PostgresStore(db, worker=f"http://{name}") for name in ("one", "two"))
    with one.transaction() as cursor:
        for tick in range(3):
            cursor.execute(
                "INSERT INTO outbox VALUES ('a', %s, %s, 'A', NULL, '{}', 0, 0, NULL)", (tick, float(tick))
            )
    first = outbox.claim(one, 2, 100.0, 60.0)
    assert [entry.tick for entry in first] == [0, 1]
    assert [entry.tick for entry in outbox.claim(two, 9, 100.0, 60.0)] == [2]
    assert outbox.claim(two, 9, 159.0, 60.0) == []
    outbox.finish(one, first[:1])
    outbox.reclaim(one)  # it was restarted
    assert [entry.tick for entry in outbox.claim(two, 9, 100.0, 60.0)] == [1]
    assert [entry.tick for entry in outbox.claim(one, 9, 161.0, 60.0)] == [1, 2]  # the other died
    one.close()
    two.close()


def alarm_of_tick(tick: int) -> Changes:
    before, row = plain("a", tick), plain("a", tick + 1)
    return Changes([(row, before.tick)], events=[Event("a", tick, 1.5, True, "{}")])


@pytest.mark.parametrize("days", [-8, 3])
def test_a_clock_that_jumped_neither_deletes_nor_delays_an_alarm(days: int, tmp_path: Path) -> None:
    """The alarm was written and postponed when the clock was so many days off, or nothing ran since."""
    store = open_store(str(tmp_path / "a.db"))
    at = time.time() + days * 86_400.0
    with store.transaction() as cursor:
        cursor.execute("INSERT INTO outbox VALUES ('a', 0, ?, 'A', NULL, ?, 1, ?, NULL)", (at, STEP, at))
    store.close()
    with receiving() as receiver, serving(tmp_path / "a.db", webhook=Webhook(receiver.url)) as client:
        until(lambda: scraped(client)["mfbocd_webhook_pending"] == 0, lambda: scraped(client))
        assert [one["stream"] for one in receiver.alarms()] == ["a"]
        assert scraped(client)["mfbocd_webhook_abandoned_total"] == 0


def test_the_clock_of_a_store_does_not_jump(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    store = make()
    before = store.now()
    assert abs(before - time.time()) < 60.0
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert 0.0 <= store.now() - before < 60.0
    store.close()


def test_an_alarm_is_given_up_after_failed_attempts_since_it_was_written(
    make: Make,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever the clock says. Failures within five minutes, also those of several workers, count once."""
    monkeypatch.setattr(Notifier, "start", lambda _: None)  # its steps are called here
    monkeypatch.setattr(notifier, "GIVE_UP", 3)
    store = make()
    now = 1e9
    monkeypatch.setattr(store, "now", lambda: now)
    metrics = Metrics()
    sender = Notifier(store, Webhook(f"http://127.0.0.1:{free_port()}"), metrics, lambda _: None)
    store.add_stream(plain("a"))
    store.load(["a"])

    def attempt() -> int:
        assert sender._deliver() > 0.0
        sender._next_cleaning = 0.0
        sender._clean()
        return outbox.backlog(store).alarms

    store.commit(alarm_of_tick(0))
    assert attempt() == 1
    now += 299.0
    assert attempt() == 1
    now = 2e9  # jumps
    assert attempt() == 1
    store.commit(alarm_of_tick(1))
    now = 1.5e9  # is set back
    assert attempt() == 1, "three failures: the first alarm is given up"
    (left,) = outbox.claim(store, 9, now, 0.0)
    assert (left.tick, left.attempts) == (1, 1)
    assert metrics.abandoned.value() == 1
    store.close()


def test_health_reports_an_alarm_that_was_refused_until_it_is_delivered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier, "BACKOFF", (60.0, 60.0))
    with receiving() as receiver:
        receiver.statuses = [400]
        for start in range(2):  # also after a restart, when it waits for its next attempt
            with serving(tmp_path / "a.db", webhook=Webhook(receiver.url)) as client:
                if not start:
                    client.post("/streams", json={"id": "a", "config": CONFIG})
                    advance(client, "a")
                until(lambda: "refused" in client.get("/healthz").json()["webhook"], lambda: receiver.requests)
                assert client.get("/healthz").json()["status"] == "degraded"
        store = open_store(str(tmp_path / "a.db"))
        with store.transaction() as cursor:
            cursor.execute("UPDATE outbox SET due = 0")
        store.close()
        with serving(tmp_path / "a.db", webhook=Webhook(receiver.url)) as client:
            until(lambda: scraped(client)["mfbocd_webhook_pending"] == 0, lambda: receiver.requests)
            assert client.get("/healthz").json()["webhook"] == "ok"


STEP = '{"changed_at":40,"p_change":0.97,"spent":120.5,"tick":44}'
ENTRY = Entry("a", 44, 1_700_000_000.25, "A <!channel> & *walk*", "g", STEP, 0)


def test_slack() -> None:
    assert FORMATS["slack"]([ENTRY, ENTRY._replace(name="B")])["text"].splitlines() == [
        ":warning: *A &lt;!channel&gt; &amp; ∗walk∗* (a): change at tick 40, found at tick 44 with probability 0.97; "
        "spent 120.5",
        ":warning: *B* (a): change at tick 40, found at tick 44 with probability 0.97; spent 120.5",
    ]


def test_the_format_of_alertmanagers_own_webhooks() -> None:
    found = FORMATS["alertmanager-webhook"]([ENTRY, ENTRY._replace(stream="b")])
    assert (found["version"], found["status"], len(found["alerts"])) == ("4", "firing", 2)
    assert found["commonLabels"] == {"alertname": "MfbocdChange", "group": "g", "severity": "warning"}
    assert found["alerts"][0]["startsAt"] == "2023-11-14T22:13:20.250Z"
    assert found["alerts"][0]["fingerprint"] != found["alerts"][1]["fingerprint"]


def test_a_real_alertmanager_takes_the_alarm(tmp_path: Path) -> None:
    program = needed("prometheus-alertmanager")
    config = tmp_path / "alertmanager.yml"
    config.write_text("route:\n  receiver: nobody\nreceivers:\n  - name: nobody\n")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        [
            *(program, f"--config.file={config}", f"--storage.path={tmp_path}/data"),
            *(f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="),
        ],
        stderr=subprocess.DEVNULL,
        cwd=tmp_path,
        env=os.environ,
    )
    try:
        with (
            serving(tmp_path / "a.db", webhook=Webhook(f"{url}/api/v2/alerts", "alertmanager")) as client,
            httpx.Client(base_url=url, timeout=PATIENCE) as manager,
        ):
            client.post("/streams", json={"id": "a", "name": "A walk", "config": CONFIG})
            advance(client, "a")
            until(lambda: scraped(client)["mfbocd_webhook_pending"] == 0, lambda: scraped(client))
            (alert,) = manager.get("/api/v2/alerts").json()
    finally:
        process.terminate()
        process.wait()
    assert alert["labels"] == {"alertname": "MfbocdChange", "stream": "a", "severity": "warning"}
    assert alert["annotations"]["summary"].startswith("A walk: change at tick 40")


@pytest.mark.parametrize("url", ["", "host/path", "ftp://host", "http://", "http://host:port/"])
def test_an_address_that_cannot_work_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="--webhook must be an address"):
        Webhook(url)


def test_without_a_webhook_nothing_is_put_into_the_outbox(tmp_path: Path) -> None:
    with serving(tmp_path / "a.db") as client:
        client.post("/streams", json={"id": "a", "config": CONFIG})
        advance(client, "a")
    store = open_store(str(tmp_path / "a.db"))
    assert outbox.backlog(store).alarms == 0
    store.close()
