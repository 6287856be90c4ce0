"""The automatic detector with readings of several fidelities: nothing about the series is told to it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import mfbocd as mf
from mfbocd.calibrate.auto.selection import standardized

CHEAP, FULL = mf.Fidelity("cheap", 0.1, 1.0), mf.Fidelity("full", 1.0, 10.0)
DAY = 3.0 * np.sin(2 * np.pi * np.arange(3000) / 24)


def table(x: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """The readings x, and the same with ten times the noise variance of 1: cheap and full."""
    return np.column_stack([x + rng.normal(0.0, 3.0, x.size), x])


def autocorrelated(n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    noise = np.empty(n)
    noise[0] = rng.normal()
    for t in range(1, n):
        noise[t] = 0.9 * noise[t - 1] + rng.normal(0.0, (1.0 - 0.9**2) ** 0.5)
    return noise


def test_readings_are_standardized_by_zeta() -> None:
    rng = np.random.default_rng(3)
    level = np.where(np.arange(4000) < 2000, 10.0, 14.0)
    zeta = np.where(rng.random(4000) < 0.8, 0.1, 1.0)
    y = level + rng.normal(size=4000) / np.sqrt(zeta)
    z = standardized(y, zeta)
    for some in (zeta == 0.1, zeta == 1.0):
        assert np.std((z - level)[some]) == pytest.approx(1.0, abs=0.25)
    assert np.mean(z[2100:]) == pytest.approx(14.0, abs=0.1)
    ones = np.ones(4000)
    assert standardized(y, ones) is y


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["white", "season", "autocorrelated"])
def test_quiet_readings_of_mixed_fidelity(kind: str) -> None:
    """At most .5 alarms per 1,000 ticks: one in 3,000, although four of five readings are cheap."""
    alarms = 0
    for seed in (20, 21):
        rng = np.random.default_rng(seed)
        quiet = {
            "white": lambda rng=rng: rng.normal(size=3000),
            "season": lambda rng=rng: DAY + rng.normal(size=3000),
            "autocorrelated": lambda rng=rng: autocorrelated(3000, rng),
        }
        x = 20.0 + quiet[kind]()
        detector = mf.auto(1 / 2000, fidelities=[CHEAP, FULL], policy=mf.Random([0.8, 0.2]), seed=seed)
        alarms += len(mf.run(detector, table(x, rng)).changes)
        assert detector.structure is not None
        assert 0.3 < detector.structure.noise < 1.4  # that of a full reading, not of a cheap one
        assert bool(detector.structure.seasons) == (kind == "season")
    assert alarms <= 3


@pytest.mark.slow
def test_a_season_a_budget_and_a_change() -> None:
    rng = np.random.default_rng(4)
    x = 20.0 + np.tile(DAY, 2) + rng.normal(size=6000) + 3.0 * (np.arange(6000) >= 2500)
    detector = mf.auto(1 / 2000, fidelities=[CHEAP, FULL], policy=mf.Budget(share=0.2))
    trace = mf.run(detector, table(x, rng))
    assert trace.spent / 6000 == pytest.approx(2.8, rel=0.01)
    assert [round(season.period) for season in detector.structure.seasons][:1] == [24]
    (change,) = (change for change in trace.changes if 2500 <= change.tick < 3500)
    assert change.tick < 2540
    assert abs(change.changed_at - 2500) <= 12


def test_what_cannot_be() -> None:
    with pytest.raises(ValueError, match="no skip"):
        mf.auto(fidelities=[mf.Fidelity("none", 0.0, 0.0), FULL])
    with pytest.raises(TypeError, match="policy"):
        mf.auto(policy=0.5)
    with pytest.raises(ValueError, match="with several fidelities"):
        mf.auto(fidelities=[CHEAP, FULL]).update(1.0)
