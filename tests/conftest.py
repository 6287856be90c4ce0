"""Set-up every test shares."""

from __future__ import annotations

import hypothesis
import pytest

hypothesis.settings.register_profile("mfbocd", deadline=None, derandomize=True, max_examples=60)
hypothesis.settings.register_profile("quick", deadline=None, derandomize=True, max_examples=10)
hypothesis.settings.load_profile("mfbocd")

TOGETHER = {
    "test_spark": "one Java session serves them all",
    "test_service_page": "one service and one browser do",
    "test_report": "one browser does",
}
"""Files whose tests one worker runs, and why."""


PROGRAMS = (
    *("test_adapters", "test_cli", "test_dask", "test_datasets", "test_docs", "test_examples", "test_init"),
    *("test_plots", "test_report", "test_reproduce", "test_service", "test_spark", "test_study", "test_tables"),
    "test_wheel",
)
"""How the names of files begin that run whole programs or need more than the engine: `make check` leaves them out."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slow ones first, so that no worker is left alone with them at the end."""
    for item in items:
        if item.path.stem.startswith(PROGRAMS) or item.path.parent.name == "docs":
            item.add_marker(pytest.mark.slow)
        if item.path.stem in TOGETHER:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
