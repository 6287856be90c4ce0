"""What one process counts while it runs. `exposition` renders it."""

from __future__ import annotations

from .instruments import Counter, Histogram


class Metrics:
    """Counters and histograms of one service, since its start."""

    def __init__(self) -> None:
        self.requests = Histogram(
            "mfbocd_http_request_duration_seconds",
            "Duration of HTTP requests; of event streams, until their first byte.",
            ("method", "route", "status"),
        )
        self.broker_failures = Counter(
            "mfbocd_broker_failures_total",
            "Failed or lost connections to the MQTT broker, and failures of the bridge.",
            ("reason",),
            [("connection",), ("bridge",)],
        )
        self.messages = Counter(
            "mfbocd_mqtt_observations_total",
            "Observations received over MQTT by result.",
            ("result",),
            [("stored",), ("refused",), ("failed",)],
        )
        self.deliveries = Counter(
            "mfbocd_webhook_deliveries_total",
            "Requests to the webhook by result.",
            ("result",),
            [("delivered",), ("failed",), ("refused",)],
        )
        self.abandoned = Counter(
            "mfbocd_webhook_abandoned_total", "Alarms that were given up after seven days of failed attempts."
        )
