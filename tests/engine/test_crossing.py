"""The search for a quantile: exact, and with few evaluations of the distribution function."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np
import pytest

from mfbocd.belief.crossing import crossing

LEVELS = [1e-6, 0.05, 0.5, 0.95, 0.9995]


def counted(cdf: Callable[[float], float]) -> tuple[Callable[[np.ndarray], np.ndarray], list[float]]:
    asked: list[float] = []

    def below(x: np.ndarray) -> np.ndarray:
        asked.append(float(x))
        return np.array(cdf(float(x)))

    return below, asked


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("mean", "sd"), [(0.0, 1.0), (1e6, 2.0), (-3.0, 1e-8)])
def test_a_normal_quantile_takes_few_evaluations(level: float, mean: float, sd: float) -> None:
    normal = NormalDist(mean, sd)
    below, asked = counted(lambda x: 0.5 * math.erfc((mean - x) / (sd * math.sqrt(2.0))))
    found = float(crossing(below, level, np.array(mean), np.array(sd)))
    # the last bits of the distribution function move its quantile by eps * level / density
    noise = 4 * 2.2e-16 / normal.pdf(normal.inv_cdf(level))
    assert found == pytest.approx(normal.inv_cdf(level), abs=1e-12 * (abs(mean) + sd) + noise)
    assert len(asked) <= (20 if level > 1e-4 else 54)  # of bisection 47; four more at most, and to widen the bracket


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("jump", [0.0, 1.0, -4.7, 1e5])
def test_a_step_takes_hardly_more_evaluations_than_bisection(level: float, jump: float) -> None:
    below, asked = counted(lambda x: float(x >= jump))
    found = float(crossing(below, level, np.array(0.25), np.array(1.0)))
    width = 2 * max(4.0, 4 * abs(jump))
    assert jump <= found <= jump + 1e-13 * 1.25
    assert len(asked) <= 5 + 2 * math.log2(width) + math.log2(width / 1.25e-13)


def test_several_functions_are_searched_together() -> None:
    means, sds = np.array([0.0, 50.0, -2.0]), np.array([1.0, 3.0, 0.1])

    def below(x: np.ndarray) -> np.ndarray:
        return np.array([NormalDist(m, s).cdf(v) for m, s, v in zip(means, sds, x, strict=True)])

    def one(i: int) -> float:
        return float(crossing(lambda x: np.array(below(np.full(3, x))[i]), 0.9, means[i], sds[i]))

    assert crossing(below, 0.9, means, sds).tolist() == [one(i) for i in range(3)]
