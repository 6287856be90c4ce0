"""Setup shared by the tests of the service."""

from __future__ import annotations

import pytest

from mfbocd.service import service


@pytest.fixture(autouse=True)
def _metrics_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute metrics anew for every request, so that they show what a test has just done."""
    monkeypatch.setattr(service, "METRICS_AGE", 0.0)
