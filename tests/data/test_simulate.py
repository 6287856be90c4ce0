"""Simulated streams follow the model they name."""

from __future__ import annotations

import numpy as np
import pytest

import mfbocd as mf

FIDELITIES = [mf.Fidelity("skip", 0.0, 0.0), mf.Fidelity("low", 0.25, 1.0), mf.Fidelity("high", 1.0, 5.0)]


def test_gaussian_fidelities_have_their_noise() -> None:
    stream = mf.simulate.gaussian(mf.Gaussian(2, 9, 4), FIDELITIES, 1 / 20, ticks=40_000, seed=1)
    assert np.isnan(stream.table[:, 0]).all()
    residual = stream.table[:, 1:] - stream.theta[:, None]
    assert residual.var(axis=0) == pytest.approx([16.0, 4.0], rel=0.05)
    levels = stream.theta[np.append(0, stream.changes)]
    assert levels.mean() == pytest.approx(2.0, abs=0.3)
    assert levels.var() == pytest.approx(9.0, rel=0.15)
    assert len(stream.changes) == pytest.approx(2000, rel=0.1)
    jumps = np.flatnonzero(np.diff(stream.theta)) + 1
    assert jumps.tolist() == stream.changes.tolist()


@pytest.mark.parametrize("low", ["flip", "miss"])
def test_bernoulli_fidelities_have_their_error_rates(low: str) -> None:
    stream = mf.simulate.bernoulli(mf.Bernoulli(1, 1), FIDELITIES, 1 / 50, ticks=60_000, seed=2, low=low)
    assert np.isnan(stream.table[:, 0]).all()
    high, poor = stream.table[:, 2], stream.table[:, 1]
    assert (high - stream.theta).mean() == pytest.approx(0.0, abs=0.01)
    if low == "flip":  # (2 q - 1)^2 = zeta
        assert 2 * (high == poor).mean() - 1 == pytest.approx(0.5, abs=0.02)
    else:
        assert (poor - 0.25 * stream.theta).mean() == pytest.approx(0.0, abs=0.01)
    with pytest.raises(ValueError, match="low must be 'flip' or 'miss', not 'x'"):
        mf.simulate.bernoulli(mf.Bernoulli(1, 1), low="x")


def test_a_seed_repeats_the_stream() -> None:
    one, two, other = (mf.simulate.gaussian(mf.Gaussian(), ticks=50, seed=s).table for s in (3, 3, 4))
    assert (one == two).all()
    assert not (one == other).any()
