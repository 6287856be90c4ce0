"""Traces with OpenTelemetry, which is an extra: one span per request, for what it waited for, and per transaction."""

from __future__ import annotations

import os
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .. import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider


class Tracing:
    """Creates spans. The `traceparent` of a request continues the trace of its client.

    Parameters
    ----------
    provider : opentelemetry.sdk.trace.TracerProvider
        Closed with `close`.
    """

    def __init__(self, provider: TracerProvider) -> None:
        try:
            from opentelemetry import trace
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError:
            raise ImportError("traces need OpenTelemetry: pip install 'mfbocd[otel]'") from None
        self._provider, self._api = provider, trace
        self._tracer = provider.get_tracer("mfbocd.service", __version__)
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def request(self, scope: Any) -> Iterator[None]:
        """A span for an HTTP request."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        method = scope["method"]
        with self._tracer.start_as_current_span(
            method,
            context=self._propagator.extract(headers),
            kind=self._api.SpanKind.SERVER,
            attributes={"http.request.method": method, "url.path": scope["path"]},
        ):
            yield

    def finish(self, route: str, status: int, request_id: str, stream: str) -> None:
        """Add what is only known after the response to the span of the request."""
        span = self._api.get_current_span()
        span.update_name(f"{span.attributes['http.request.method']} {route}")  # type: ignore[attr-defined]
        span.set_attributes(
            {"http.route": route, "http.response.status_code": status, "mfbocd.request_id": request_id}
        )
        if stream:
            span.set_attribute("mfbocd.stream", stream)
        if status >= 500:
            span.set_status(self._api.Status(self._api.StatusCode.ERROR))

    @contextmanager
    def span(self, name: str, **attributes: Any) -> Iterator[None]:
        """A span inside the current one, if there is one."""
        found = {f"mfbocd.{key}": value for key, value in attributes.items()}
        with self._tracer.start_as_current_span(name, attributes=found):
            yield

    def inject(self, headers: MutableMapping[str, str]) -> None:
        """Add the `traceparent` of the current span to the headers of a request to another worker."""
        self._propagator.inject(headers)

    def close(self) -> None:
        """Export the remaining spans."""
        self._provider.shutdown()


def export_otlp() -> Tracing:
    """Traces that are exported with OTLP over HTTP.

    The address and other options are OpenTelemetry's environment variables, such as `OTEL_EXPORTER_OTLP_ENDPOINT` and
    `OTEL_SERVICE_NAME`. Spans are exported by a separate thread; those that cannot be exported are dropped.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise ImportError("traces need OpenTelemetry: pip install 'mfbocd[otel]'") from None
    name = os.environ.get("OTEL_SERVICE_NAME", "mfbocd")
    provider = TracerProvider(resource=Resource.create({"service.name": name, "service.version": __version__}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Tracing(provider)
