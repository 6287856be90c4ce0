"""The kernels' own elementary functions against arbitrary precision."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from mfbocd._kernels.compile import kernel
from mfbocd._kernels.gamma import quotients
from mfbocd._kernels.random import uniform
from mfbocd._kernels.scalar import bits_of, bits_to_float, exp, log


@kernel
def _exps(x):  # type: ignore[no-untyped-def]
    out = np.empty(x.size)
    for i in range(x.size):
        out[i] = exp(x[i])
    return out


@kernel
def _logs(x):  # type: ignore[no-untyped-def]
    out = np.empty(x.size)
    for i in range(x.size):
        out[i] = log(x[i])
    return out


@kernel
def _round_trip(x):  # type: ignore[no-untyped-def]
    return bits_to_float(bits_of(x))


def test_exp() -> None:
    x = np.concatenate([np.linspace(-699, 700, 20001), np.linspace(-1, 1, 2001), [0.0]])
    np.testing.assert_allclose(_exps(x), np.exp(x), rtol=1e-15)
    assert _exps(np.array([0.0]))[0] == 1.0
    assert 0 <= _exps(np.array([-1e300]))[0] < 1e-300


def test_log() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([np.exp(rng.uniform(-600, 600, 20000)), rng.uniform(0.5, 2.0, 20000), [1.0, 2.0**-1022]])
    np.testing.assert_allclose(_logs(x), np.log(x), rtol=1e-15, atol=1e-300)


def test_bits_round_trip() -> None:
    for value in (0.0, 1.0, -3.5, 1e-310, 1e300):
        assert _round_trip(value) == value


@pytest.mark.parametrize("zeta", [1e-3, 0.1, 0.5, 0.9, 0.999, 1.0])
def test_gamma_quotients(zeta: float) -> None:
    rng = np.random.default_rng(1)
    u, v = np.exp(rng.uniform(-7, 25, (2, 60)))
    got = quotients(u, v, zeta)
    with mpmath.workdps(50):
        for a, b, q in zip(u, v, got, strict=True):
            a, b, z = mpmath.mpf(float(a)), mpmath.mpf(float(b)), mpmath.mpf(zeta)
            truth = mpmath.gammaprod([a + z, b], [a, b + z])
            assert abs(q / truth - 1) < 2e-14


def test_uniform_draws_are_uniform_and_independent_of_order() -> None:
    draws = np.array([uniform(5, tick, 0) for tick in range(20000)])
    assert abs(draws.mean() - 0.5) < 4 * np.sqrt(1 / 12 / draws.size)
    histogram, _ = np.histogram(draws, bins=20, range=(0, 1))
    assert ((histogram - 1000) ** 2 / 1000).sum() < 50  # chi-squared with 19 degrees of freedom: p = 1e-4
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 0.03
    other = np.array([uniform(6, tick, 0) for tick in range(20000)])
    salted = np.array([uniform(5, tick, 1) for tick in range(20000)])
    assert abs(np.corrcoef(draws, other)[0, 1]) < 0.03
    assert abs(np.corrcoef(draws, salted)[0, 1]) < 0.03
    assert uniform(5, 123, 0) == draws[123]
