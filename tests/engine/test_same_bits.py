"""Another CPU or numba version changes the last bits: decisions then differ only at ties.

A twin simulates the other machine. After every tick its weights and statistics are moved by rounding errors, which
add up over the stream as they would there. If it decides differently, the two options must be a tie.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import mfbocd as mf
from mfbocd._kernels import layout
from mfbocd.belief.gains import GAINS, expected_gains
from mfbocd.belief.pruning import DEFAULT
from mfbocd.belief.state import columns_of

GAIN_TIE = 1e-6  # the accuracy of gains: some are integrals whose nodes depend on the last bits
ALARM_TIE = 1e-9
ULP = 4e-16

MODELS: dict[str, tuple[mf.Model, Callable[[np.random.Generator, int], np.ndarray]]] = {
    "gaussian": (mf.Gaussian(0.0, 9.0, 1.0), lambda rng, n: rng.normal(rng.normal(0.0, 3.0), 1.0, n)),
    "bernoulli": (mf.Bernoulli(1.0, 1.0), lambda rng, n: (rng.random(n) < rng.random()).astype(float)),
    "unknown": (mf.GaussianUnknown(0.0, 0.2, 2.0, 2.0), lambda rng, n: rng.normal(rng.normal(0.0, 3.0), 1.0, n)),
    "poisson": (mf.Poisson(2.0, 0.5), lambda rng, n: rng.poisson(rng.gamma(2.0, 2.0), n).astype(float)),
}
PRUNINGS = [None, DEFAULT, mf.TopK(32), mf.Resample(32)]


def stream(name: str, rng: np.random.Generator, regimes: int = 5) -> np.ndarray:
    return np.concatenate([MODELS[name][1](rng, int(rng.integers(10, 60))) for _ in range(regimes)])


def round_differently(detector: mf.Detector, rng: np.random.Generator, size: float) -> None:
    """Move every weight and statistic of a belief by a relative error of this size."""
    state = detector._filter.state
    count, columns = int(state[layout.COUNT]), columns_of(state)
    for column in range(len(columns)):
        if column != layout.BIRTH:
            columns[column, :count] *= 1.0 + size * rng.uniform(-1.0, 1.0, count)
    state[layout.TOTAL] = columns[layout.WEIGHT, :count].sum()


def disagreements(
    make: Callable[[], mf.Detector], xs: np.ndarray, seed: int, size: float, read: str | None = None
) -> tuple[list[float], list[float]]:
    """Net gains between the two choices, and P(change) from the threshold, where a detector and its twin differ.

    Both read the detector's choice, or `read` if it is given.
    """
    one, other = make(), make()
    rng = np.random.default_rng(seed)
    choices: list[float] = []
    alarms: list[float] = []
    for x in xs.tolist():
        chosen, elsewhere = one.choose(), other.choose()
        if chosen != elsewhere:
            gains = expected_gains(one._filter, one.policy.zeta, one.policy.gain or "joint")
            net = gains - getattr(one.policy, "effective_price", one.policy.price) * one.policy.cost
            names = [f.name for f in one.fidelities]
            choices.append(abs(net[names.index(chosen.name)] - net[names.index(elsewhere.name)]))
        step, twin = (detector.update(x, read or chosen) for detector in (one, other))
        if step.alarm != twin.alarm:
            assert one.alarm is not None
            alarms.append(abs(one.p_changed(one.alarm.within) - one.alarm.threshold))
            other._adopt(one._filter.state.copy(), one.spent)  # an alarm is remembered: continue from the same one
        round_differently(other, rng, size)
    return choices, alarms


@pytest.mark.slow
@pytest.mark.parametrize("gain", GAINS)
@pytest.mark.parametrize("name", MODELS)
def test_decisions_differ_only_at_ties(name: str, gain) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng([sorted(MODELS).index(name), sorted(GAINS).index(gain)])
    for seed, prune in enumerate(PRUNINGS):
        fidelities = [mf.Fidelity("low", float(rng.uniform(0.05, 0.5)), 1.0), mf.Fidelity("high", 1.0, 40.0)]
        hazard, share, level = float(rng.uniform(0.005, 0.05)), float(rng.uniform(0.05, 0.8)), rng.uniform(0.3, 0.9)
        xs = stream(name, rng)
        choices, alarms = disagreements(
            lambda w=fidelities, h=hazard, s=share, p=prune, a=float(level): mf.Detector(  # type: ignore[misc]
                MODELS[name][0], w, h, policy=mf.Budget(share=s, gain=gain), prune=p, alarm=a
            ),
            xs,
            seed,
            ULP,
        )
        assert all(tie <= GAIN_TIE for tie in choices)
        assert all(tie <= ALARM_TIE for tie in alarms)


def test_decisions_differ_at_a_tie_and_larger_errors_are_detected() -> None:
    """A price at which both fidelities are equally good at a tick, and a threshold that P(change) just reaches."""
    model, fidelities = MODELS["gaussian"][0], [mf.Fidelity("low", 0.1, 1.0), mf.Fidelity("high", 1.0, 40.0)]
    xs = np.concatenate([np.random.default_rng(3).normal(level, 1.0, 30) for level in (0.0, 4.0)])

    def make(price: float, threshold: float) -> mf.Detector:
        return mf.Detector(
            model, fidelities, 0.02, policy=mf.Net(price), alarm=mf.Alarm(within=20, threshold=threshold)
        )

    first = make(0.0, 0.5)
    for x in xs[:20].tolist():
        first.update(x, "low")
    low, high = expected_gains(first._filter, first.policy.zeta, "joint").tolist()
    tie = (high - low) / 39.0
    for x in xs[20:].tolist():
        first.update(x, "low")
        reached = first.p_changed(20)
        if reached > 0.5:
            break
    choices, alarms = [], []
    for seed in range(40):
        found = disagreements(lambda: make(tie, reached), xs, seed, ULP, "low")
        choices += found[0]
        alarms += found[1]
    assert 0 < len(choices) < 40
    assert max(choices) <= GAIN_TIE
    assert 0 < len(alarms) < 40
    assert max(alarms) <= ALARM_TIE
    rough = [disagreements(lambda: make(tie, reached - 1e-4), xs, seed, 1e-2, "low") for seed in range(40)]
    assert max(size for found in rough for size in found[0]) > GAIN_TIE  # larger errors are detected
    assert max(size for found in rough for size in found[1]) > ALARM_TIE
