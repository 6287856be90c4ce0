"""Requests nobody sends in earnest, made from the OpenAPI document: no failure of the service, no growth."""

from __future__ import annotations

import gc
import os
import time
from contextlib import suppress
from pathlib import Path

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck

from .service import CONFIG, serving

REQUESTS = 10_000
SECONDS = 60.0


def resident() -> int:
    """Bytes of this process in memory; the service runs in it."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_garbage_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path / "mfbocd.db") as client:
        client.post("/streams", json={"id": "a", "config": CONFIG})
        told = client.get("/openapi.json").json()
        schema = schemathesis.openapi.from_dict(told)
        operations = [
            result.ok() for result in schema.get_all_operations() if not result.ok().path.endswith("/events")
        ]
        assert len(operations) == 16
        began, sent, failures, first = time.monotonic(), 0, [], 0
        statuses: dict[int, int] = {}

        for round_ in range(1000):
            for operation in operations:
                if sent >= REQUESTS or time.monotonic() - began > SECONDS:
                    break
                cases = []
                for mode in schemathesis.GenerationMode.NEGATIVE, schemathesis.GenerationMode.POSITIVE:

                    @hypothesis.seed(1000 * round_ + len(cases))
                    @hypothesis.settings(
                        max_examples=15, database=None, deadline=None, derandomize=False,
                        suppress_health_check=list(HealthCheck), phases=[hypothesis.Phase.generate],
                    )  # fmt: skip
                    @hypothesis.given(operation.as_strategy(generation_mode=mode))
                    def collect(case: schemathesis.Case) -> None:
                        cases.append(case)  # noqa: B023 (run at once)

                    with suppress(hypothesis.errors.Unsatisfiable):  # what takes no input cannot be given a wrong one
                        collect()
                for case in cases:
                    if case.path_parameters and sent % 2:
                        case.path_parameters = dict.fromkeys(case.path_parameters, "a")
                    answer = case.call(base_url=str(client.base_url), timeout=30)
                    sent += 1
                    statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
                    if answer.status_code >= 500:
                        failures.append((case.as_curl_command(), answer.text))
            if round_ == 1:
                gc.collect()
                first = resident()
        assert failures == []
        assert sent > 1000
        assert statuses.get(422, 0) > 100
        assert statuses.get(200, 0) > 0
        assert client.get("/healthz").status_code == 200
        gc.collect()
        assert resident() - first < 100 * 2**20
