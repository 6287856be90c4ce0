"""Traces: a span for every request, what it waited for, and every transaction."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mfbocd.service.forward import Forwarder
from mfbocd.service.store.sqlite import SqliteStore
from mfbocd.service.tracing import Tracing, export_otlp

from .receiver import receiving
from .service import CONFIG, serving, until

pytestmark = pytest.mark.slow

trace = pytest.importorskip("opentelemetry.sdk.trace")
export = pytest.importorskip("opentelemetry.sdk.trace.export")
memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Spans:
    """A tracer whose spans are kept in memory."""

    def __init__(self) -> None:
        self.exporter = memory.InMemorySpanExporter()
        provider = trace.TracerProvider()
        provider.add_span_processor(export.SimpleSpanProcessor(self.exporter))
        self.tracing = Tracing(provider)

    def named(self, name: str) -> list[Any]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]


@pytest.fixture
def spans() -> Spans:
    return Spans()


def test_a_request_continues_the_trace_of_its_client(tmp_path: Path, spans: Spans) -> None:
    with serving(tmp_path / "a.db", tracing=spans.tracing) as client:
        client.post("/streams", json={"id": "a", "config": CONFIG})
        fidelity = client.post("/streams/a/choose").json()["fidelity"]
        observation = {"tick": 0, "fidelity": fidelity, "x": 0.5}
        answer = client.post("/streams/a/observe", json=observation, headers={"traceparent": PARENT})
        client.get("/streams/nobody")
        until(lambda: bool(spans.named("GET /streams/{stream}")), lambda: "the span does not end")
    (request,) = spans.named("POST /streams/{stream}/observe")
    assert f"{request.context.trace_id:x}" == PARENT.split("-")[1].lstrip("0")
    assert f"{request.parent.span_id:x}" == PARENT.split("-")[2]
    assert dict(request.attributes) == {
        **{
            "http.request.method": "POST",
            "url.path": "/streams/a/observe",
            "http.route": "/streams/{stream}/observe",
        },
        **{"http.response.status_code": 200, "mfbocd.request_id": answer.headers["x-request-id"]},
        **{"mfbocd.stream": "a"},
    }
    waited = [span for span in spans.named("commands") if span.context.trace_id == request.context.trace_id]
    assert [span.parent.span_id for span in waited] == [request.context.span_id]
    (commit,) = spans.named("commit")
    assert dict(commit.attributes) == {"mfbocd.streams": 1, "mfbocd.events": 1}
    (missing,) = spans.named("GET /streams/{stream}")
    assert missing.attributes["http.response.status_code"] == 404
    assert [span.attributes["mfbocd.function"] for span in spans.named("read")] == ["stream"]


def test_a_forwarded_request_continues_the_trace(spans: Spans) -> None:
    async def send(owner: str) -> None:
        forwarder = Forwarder("http://one", spans.tracing)
        with spans.tracing.span("outer"):
            await forwarder.send(owner, "POST", "/streams/a/choose", {}, b"")
        await forwarder.close()

    with receiving() as receiver:
        asyncio.run(send(f"http://127.0.0.1:{receiver.port}"))
    (outer,) = spans.named("outer")
    _, trace_id, span_id, _ = receiver.requests[0][1]["traceparent"].split("-")
    assert (int(trace_id, 16), int(span_id, 16)) == (outer.context.trace_id, outer.context.span_id)


def test_streams_are_released_before_the_last_spans_are_exported(
    tmp_path: Path, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []
    store = SqliteStore(tmp_path / "a.db")
    monkeypatch.setattr(store, "release", lambda: closed.append("leases"))
    monkeypatch.setattr(spans.tracing, "close", lambda: closed.append("traces"))
    with serving(lambda: store, tracing=spans.tracing):
        pass
    assert closed == ["leases", "traces"]


def test_spans_are_exported_with_otlp(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{receiver.port}")
        tracing = export_otlp()
        with tracing.span("something"):
            pass
        tracing.close()
    ((path, headers, body),) = receiver.requests
    assert (path, headers["content-type"]) == ("/v1/traces", "application/x-protobuf")
    assert b"something" in body
    assert b"mfbocd" in body
