"""The requests that a webhook receives: their formats and their signature."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from .records import json_bytes
from .store.outbox import Entry

SIGNATURE = "X-Mfbocd-Signature"
"""Header with the time and the signature of a request."""
TOLERANCE = 300.0
"""Largest age of a request that `verify` accepts, in seconds."""


def as_json(entries: Sequence[Entry]) -> Any:
    """Alarms with their steps. The `id` of an alarm is the same if it is delivered again."""
    return {
        "version": 1,
        "alarms": [
            {
                "id": f"{e.stream}/{e.tick}/{e.at:.3f}",
                "stream": e.stream,
                "name": e.name,
                "group": e.group,
                "at": e.at,
                "step": json.loads(e.step),
            }
            for e in entries
        ],
    }


def as_alertmanager(entries: Sequence[Entry]) -> Any:
    """Alerts for `POST /api/v2/alerts` of Alertmanager, which resolves them after its `resolve_timeout`."""
    return [_alert(entry) for entry in entries]


def as_alertmanager_webhook(entries: Sequence[Entry]) -> Any:
    """What Alertmanager itself sends to a webhook receiver (version 4), for programs that expect that."""
    alerts = [
        _alert(e)
        | {
            "status": "firing",
            "endsAt": "0001-01-01T00:00:00Z",
            "fingerprint": hashlib.sha256(e.stream.encode()).hexdigest()[:16],
        }
        for e in entries
    ]
    return {
        "version": "4",
        "groupKey": '{}:{alertname="MfbocdChange"}',
        "truncatedAlerts": 0,
        "status": "firing",
        "receiver": "mfbocd",
        "groupLabels": {"alertname": "MfbocdChange"},
        "commonLabels": _common([a["labels"] for a in alerts]),
        "commonAnnotations": _common([a["annotations"] for a in alerts]),
        "externalURL": "",
        "alerts": alerts,
    }


def as_slack(entries: Sequence[Entry]) -> Any:
    """A message for an incoming webhook of Slack or Mattermost, with one line per alarm."""
    return {"text": "\n".join(f":warning: *{_escape(e.name)}* ({e.stream}): {_summary(e)}" for e in entries)}


FORMATS: Mapping[str, Callable[[Sequence[Entry]], Any]] = {
    "json": as_json,
    "alertmanager": as_alertmanager,
    "alertmanager-webhook": as_alertmanager_webhook,
    "slack": as_slack,
}


def _alert(entry: Entry) -> dict[str, Any]:
    step = json.loads(entry.step)
    labels = {"alertname": "MfbocdChange", "stream": entry.stream, "severity": "warning"}
    return {
        "labels": labels | ({} if entry.group is None else {"group": entry.group}),
        "annotations": {
            "summary": f"{entry.name}: {_summary(entry)}",
            "name": entry.name,
            "tick": str(entry.tick),
            "changed_at": str(step["changed_at"]),
            "p_change": f"{step['p_change']:.6g}",
        },
        "startsAt": datetime.fromtimestamp(entry.at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "generatorURL": "",
    }


def _summary(entry: Entry) -> str:
    step = json.loads(entry.step)
    return (
        f"change at tick {step['changed_at']}, found at tick {entry.tick} "
        f"with probability {step['p_change']:.3g}; spent {step['spent']:.6g}"
    )


def _common(tables: Sequence[dict[str, str]]) -> dict[str, str]:
    """The entries that all tables have."""
    return {k: v for k, v in tables[0].items() if all(table.get(k) == v for table in tables)}


def _escape(text: str) -> str:
    """Text that Slack shows as it is: a name must not notify a channel."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("*", "∗")


def sign(secret: str, body: bytes, at: float) -> str:
    """The signature of a request: the HMAC-SHA256 of its time and its body.

    >>> sign("secret", b"{}", 0)
    't=0,v1=4bbe8d39de1ffea42cffafb4727e02f761bef8ed2886b51575ce417d542e918f'
    """
    found = hmac.new(secret.encode(), f"{int(at)}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={int(at)},v1={found}"


def verify(secret: str, header: str, body: bytes, now: float | None = None) -> bool:
    """Whether a request was signed with a secret, at most five minutes ago. For receivers.

    Parameters
    ----------
    secret : str
    header : str
        The header `X-Mfbocd-Signature`.
    body : bytes
        As received.
    now : float, optional
        Seconds since 1970; the present time by default.

    Examples
    --------
    >>> header = sign("secret", b"{}", 1000)
    >>> verify("secret", header, b"{}", now=1010), verify("secret", header, b"[]", now=1010)
    (True, False)
    >>> verify("secret", header, b"{}", now=9000)
    False
    """
    try:
        at = int(header.split(",")[0].removeprefix("t="))
    except ValueError:
        return False
    fresh = abs((time.time() if now is None else now) - at) <= TOLERANCE
    return hmac.compare_digest(sign(secret, body, at).encode(), header.encode("utf-8", "replace")) and fresh


@dataclass(frozen=True)
class Webhook:
    """Where alarms are sent.

    Parameters
    ----------
    url : str
        ``https://...`` or ``http://...``. It may be secret, and is not logged.
    format : str
        A key of `FORMATS`.
    secret : str
        Signs the requests; none are signed if it is empty.
    """

    url: str
    format: str = "json"
    secret: str = ""

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            valid = False
        if not valid:
            raise ValueError("--webhook must be an address such as https://host/path")
        if self.format not in FORMATS:
            raise ValueError(f"format must be one of {', '.join(FORMATS)}, not {self.format!r}")

    def request(self, entries: Sequence[Entry], now: float) -> tuple[bytes, dict[str, str]]:
        """The body and the headers of a request with these alarms."""
        body = json_bytes(FORMATS[self.format](entries))
        headers = {"Content-Type": "application/json", "User-Agent": "mfbocd"}
        return body, headers | ({SIGNATURE: sign(self.secret, body, now)} if self.secret else {})
