"""Regimes drawn from each model, compared with its predictive of x_2 given x_1, from the prior on."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import mfbocd as mf

from ..registry import ALL, Case

DRAWS = 400


def drawable(case: Case) -> bool:
    """Not the generic families, which are slow, nor those with covariates or lags of several numbers."""
    model = case.model()
    generic = isinstance(model, (mf.ExponentialFamily, mf.LinearRegression, mf.VectorAutoregressive))
    return not generic and getattr(model, "kind", "normalized") != "paper"


DRAWN = [case for case in ALL if drawable(case)]


@pytest.mark.parametrize("case", DRAWN, ids=lambda c: c.name)
@pytest.mark.slow
def test_samples_follow_the_predictive(case: Case) -> None:
    """P(x_2 <= the drawn value | x_1) is uniform if both are drawn from the model; discrete x is randomized."""
    model = case.model()
    rng = np.random.default_rng(7)
    slow = type(model).sample is mf.Model.sample
    levels = []
    for _ in range(60 if slow else DRAWS):
        first, second = model.sample(rng, 2)
        after = model.update(model.new_regime(np.empty((model.columns, 0))), first, 1.0)
        tiny = 1e-9 * (1.0 + np.abs(second))
        below, at = model.predictive_cdf(after, second - tiny), model.predictive_cdf(after, second)
        levels.append(below + rng.random(np.shape(at)) * (at - below))
    for column in np.array(levels).reshape(len(levels), -1).T:
        assert stats.kstest(column, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("case", DRAWN, ids=lambda c: c.name)
def test_every_reading_drawn_is_possible(case: Case) -> None:
    model = case.model()
    x = model.sample(np.random.default_rng(3), 12)
    assert x.shape == ((12,) if model.dimension == 1 else (12, model.dimension))
    assert model.possible(x).all()


def test_models_without_sampling_raise() -> None:
    with pytest.raises(TypeError, match="LinearRegression cannot be drawn from"):
        mf.LinearRegression(2).sample(np.random.default_rng(0), 3)
