"""The contribution to river: its own tests in river's place, and the same results as ours."""

from __future__ import annotations

import doctest
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from river import drift

import mfbocd as mf

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[2] / "contrib" / "river"


def load(name: str, file: str) -> ModuleType:
    """Import a file of the contribution under a name."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # pickles look it up
    spec.loader.exec_module(module)
    return module


compare = load("contrib_river_compare", "compare.py")
BOCD: Any = compare.install()
upstream = load("contrib_river_test_bocd", "test_bocd.py")
# pytest collects the contribution's tests here as well
globals().update({name: test for name, test in vars(upstream).items() if name.startswith("test_")})


def streams() -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(11)
    level = np.repeat([0.0, 3.0, 2.0, -1.0], 75)
    return {
        "level": rng.normal(size=300) + level,
        "variance": rng.normal(size=300) * np.repeat([1.0, 5.0, 0.3], 100),
        "heavy": rng.standard_t(2, size=300) + level,
        "unit": 1e5 + 1e-2 * (rng.normal(size=300) + level),
    }


@pytest.mark.parametrize("kept", [25, 1000])
@pytest.mark.parametrize("name", streams())
def test_posterior_and_alarms_are_those_of_our_detector(name: str, kept: int) -> None:
    stream, skip = streams()[name], 30
    theirs = BOCD(hazard=0.02, threshold=0.8, window=40, min_instances=skip, max_run_lengths=kept)
    for x in stream[:skip].tolist():
        theirs.update(x)
    mean, count, shape, scale = theirs._prior
    ours = mf.Detector(
        mf.GaussianUnknown(mean, count, shape, scale),
        hazard=0.02,
        prune=mf.TopK(kept, slack=0),
        alarm=mf.Alarm(within=40, threshold=0.8),
    )
    for x in stream[:skip].tolist():
        ours.update(x)
    alarms = 0
    for x in stream[skip:].tolist():
        theirs.update(x)
        step = ours.update(x)
        found = theirs.run_length_probabilities()
        expected = dict(zip(ours.run_length.length.tolist(), ours.run_length.weight.tolist(), strict=True))
        # run lengths count the values of the regime here, and those since its first one in ours
        assert {length - 1 for length in found} >= set(expected)
        assert all(abs(p - expected.get(length - 1, 0.0)) < 1e-9 for length, p in found.items())
        assert theirs.p_change == pytest.approx(ours.p_changed(within=40), abs=1e-9)
        assert theirs.drift_detected == step.alarm
        alarms += step.alarm
    assert alarms >= 2


def test_the_docstring_runs_in_river() -> None:
    finder = doctest.DocTestFinder(recurse=False)
    (example,) = finder.find(BOCD, globs={})
    assert len(example.examples) == 6
    assert doctest.DocTestRunner().run(example).failed == 0


def test_it_needs_only_numpy_and_river() -> None:
    imports = re.findall(r"^(?:import|from) ([\w.]+)", (FOLDER / "bocd.py").read_text(), re.MULTILINE)
    assert set(imports) == {"__future__", "collections", "math", "typing", "numpy", "river.base"}
    assert not hasattr(drift, "BOCD") or drift.BOCD is BOCD


def test_the_comparison_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(compare, "STREAMS", 1)
    monkeypatch.setattr(compare, "BEFORE", 100)
    monkeypatch.setattr(compare, "AFTER", 50)
    compare.main()
    rows = capsys.readouterr().out.splitlines()
    shown = [line for line in (FOLDER / "PULL_REQUEST.md").read_text().splitlines() if line.startswith("|")]
    assert [row.split("|")[1] for row in rows[2:]] == [row.split("|")[1] for row in shown[2:]]
