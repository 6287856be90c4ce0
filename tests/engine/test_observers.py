"""Observers: which one is called, what happens if it fails, and checks of the declared zeta."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mfbocd as mf
from mfbocd.adapters.recurrent import Recurrent
from mfbocd.calibrate import ShadowGuard

GAUSSIAN = mf.Gaussian(0.0, 9.0, 1.0)


class Reader:
    """An observer that counts its calls and reads one key of the raw; `fault` is what it returns instead."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.calls = 0
        self.fault: Callable[[], Any] | None = None

    def __call__(self, raw: dict[str, float]) -> Any:
        self.calls += 1
        return raw[self.key] if self.fault is None else self.fault()


def raising() -> float:
    raise OSError("no camera")


FAULTS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "raises": (raising, OSError, "no camera"),
    "nan": (lambda: math.nan, ValueError, "x is nan"),
    "numpy nan": (lambda: np.float64("nan"), ValueError, "x is"),
    "none": (lambda: None, ValueError, "x is None"),
    "inf": (lambda: math.inf, ValueError, "x must be finite, not inf"),
    "text": (lambda: "3.5", TypeError, "x must be a number, not '3.5'"),
    "list": (lambda: [1.0], TypeError, "x must be a number"),
}


class Rig:
    """A detector over readers low (.1, 1), mid (.4, 7), high (1, 40), and the readers."""

    def __init__(self, policy: mf.Policy | None, names: str = "low mid high", model=GAUSSIAN, **options: Any) -> None:  # type: ignore[no-untyped-def]
        kinds = {"skip": (0.0, 0.0), "low": (0.1, 1.0), "mid": (0.4, 7.0), "high": (1.0, 40.0)}
        self.readers = {name: Reader(name) for name in names.split() if name != "skip"}
        fidelities = [mf.Fidelity(name, *kinds[name], observe=self.readers.get(name)) for name in names.split()]
        self.detector = mf.Detector(model, fidelities, 1 / 50, policy=policy, **options)

    def step(self, x: float = 0.3) -> mf.Step:
        return self.detector.step({name: x for name in self.readers})

    @property
    def calls(self) -> dict[str, int]:
        return {name: reader.calls for name, reader in self.readers.items()}

    def break_(self, name: str, fault: str) -> None:
        self.readers[name].fault = FAULTS[fault][0]


# --- only the chosen observer is called ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy",
    [mf.Budget(8.0), mf.Budget(8.0, cap=(90.0, 6)), mf.Net(0.003), mf.Net(0.0), mf.Net(10.0), mf.Soft(0.05)],
    ids=repr,
)
@pytest.mark.parametrize("on_error", ["raise", "fallback"])
def test_only_the_chosen_observer_is_called(policy: mf.Policy, on_error: str) -> None:
    rig = Rig(policy, on_error=on_error)
    stream = mf.simulate.gaussian(GAUSSIAN, rig.detector.fidelities, 1 / 50, ticks=150, seed=1)
    expected: Counter[str] = Counter(low=0, mid=0, high=0)
    for row in stream.table:
        raw = dict(zip(rig.readers, row.tolist(), strict=True))
        chosen = rig.detector.choose(raw)
        expected[chosen.name] += 1
        step = rig.detector.step(raw)
        assert (step.fidelity, step.x, step.cost) == (chosen.name, raw[chosen.name], chosen.cost)
        assert step.failed == ()
        assert step.warning is None
        assert rig.calls == dict(expected)
    assert rig.detector.spent == sum(expected[f.name] * f.cost for f in rig.detector.fidelities)
    if isinstance(policy, mf.Budget):
        assert len(+expected) > 1


def test_a_skip_calls_no_observer() -> None:
    for missing in ("raise", "skip"):
        for on_error in ("raise", "fallback"):
            rig = Rig(mf.Always("skip"), "skip low high", missing=missing, on_error=on_error)
            step = rig.step()
            assert (step.fidelity, step.x, step.cost, step.failed) == ("skip", None, 0.0, ())
            assert rig.calls == {"low": 0, "high": 0}
            assert rig.detector.log_evidence == 0.0


def test_a_step_is_a_choice_and_an_update() -> None:
    rig, manual = Rig(mf.Net(0.003)), Rig(mf.Net(0.003))
    for t in range(60):
        x = math.sin(t) + (5.0 if t > 30 else 0.0)
        f = manual.detector.choose()
        assert rig.step(x) == manual.detector.update(x, f)
    assert rig.detector.to_bytes() == manual.detector.to_bytes()


# --- failures -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", FAULTS)
def test_by_default_the_error_is_raised_and_nothing_changes(fault: str) -> None:
    rig = Rig(mf.Budget(8.0, cap=(90.0, 6)))
    for _ in range(12):
        rig.step()
    before, calls = rig.detector.to_bytes(), rig.calls
    name = rig.detector.choose().name
    rig.break_(name, fault)
    _, kind, message = FAULTS[fault]
    with pytest.raises(kind, match=message):
        rig.step()
    assert rig.detector.to_bytes() == before
    assert rig.calls == calls | {name: calls[name] + 1}
    rig.readers[name].fault = None
    assert rig.step().fidelity == name  # and the next call is the same tick again


def test_outside_the_support_is_an_error_too() -> None:
    rig = Rig(mf.Always("low"), "low high", model=mf.Bernoulli(1, 1))
    before = rig.detector.to_bytes()
    with pytest.raises(ValueError, match=r"x = 0.5 is outside the support of Bernoulli"):
        rig.step(0.5)
    assert rig.detector.to_bytes() == before


def test_a_missing_reading_is_no_error_if_allowed() -> None:
    for fault in ("nan", "none"):
        rig = Rig(mf.Always("high"), missing="skip")
        rig.break_("high", fault)
        step = rig.step()
        assert (step.fidelity, step.x, step.cost, step.failed) == ("high", None, 40.0, ())
        assert rig.calls == {"low": 0, "mid": 0, "high": 1}
    rig.break_("high", "inf")
    with pytest.raises(ValueError, match="x must be finite"):
        rig.step()


@pytest.mark.parametrize("missing", ["raise", "skip"])
@pytest.mark.parametrize("fault", FAULTS)
def test_fallback_calls_another_observer_and_pays_for_both(fault: str, missing: str) -> None:
    rig = Rig(mf.Always("mid"), on_error="fallback", missing=missing)
    plain = mf.Detector(GAUSSIAN, rig.detector.fidelities, 1 / 50)
    rig.step(0.1)
    plain.update(0.1, "mid")
    rig.break_("mid", fault)
    step = rig.step(0.7)
    assert (step.fidelity, step.x, step.failed) == ("high", 0.7, ("mid",))
    assert step.cost == 7.0 + 40.0
    assert rig.detector.spent == 7.0 + 47.0
    assert rig.calls == {"low": 0, "mid": 2, "high": 1}
    assert step.tick == 1
    # the belief is that of a reading at the fidelity that was read
    assert step.mean == plain.update(0.7, "high").mean
    assert rig.detector.log_evidence == plain.log_evidence


def test_fallback_tries_the_best_first() -> None:
    rig = Rig(mf.Always("low"), "mid low high", on_error="fallback")
    for name in ("low", "high"):
        rig.break_(name, "raises")
    step = rig.step()
    assert (step.fidelity, step.failed, step.cost) == ("mid", ("low", "high"), 1.0 + 40.0 + 7.0)
    assert rig.calls == {"mid": 1, "low": 1, "high": 1}


def test_fallback_from_a_reading_outside_the_support() -> None:
    rig = Rig(mf.Always("low"), "low high", model=mf.Bernoulli(1, 1), on_error="fallback")
    rig.readers["low"].fault = lambda: 0.5
    step = rig.step(1.0)
    assert (step.fidelity, step.x, step.failed, step.cost) == ("high", 1.0, ("low",), 41.0)


def test_if_all_fail_the_first_error_is_raised_and_nothing_changes() -> None:
    rig = Rig(mf.Always("mid"), on_error="fallback")
    rig.step()
    before = rig.detector.to_bytes()
    rig.break_("mid", "raises")
    rig.break_("high", "nan")
    rig.break_("low", "text")
    with pytest.raises(OSError, match="no camera"):
        rig.step()
    assert rig.detector.to_bytes() == before
    assert rig.calls == {"low": 1, "mid": 2, "high": 1}


def test_if_all_fail_a_tick_may_be_missing() -> None:
    rig = Rig(mf.Always("mid"), on_error="fallback", missing="skip")
    rig.step()
    evidence, mean = rig.detector.log_evidence, rig.detector.mean
    for name in rig.readers:
        rig.break_(name, "raises")
    step = rig.step()
    assert (step.fidelity, step.x, step.failed, step.cost) == ("mid", None, ("mid", "high", "low"), 48.0)
    assert rig.detector.log_evidence == evidence
    assert abs(rig.detector.mean) < abs(mean)  # only the hazard acted
    assert rig.detector.ticks == 2


@pytest.mark.parametrize("missing", ["raise", "skip"])
def test_a_skip_is_the_last_resort(missing: str) -> None:
    rig = Rig(mf.Always("low"), "skip low high", on_error="fallback", missing=missing)
    for name in rig.readers:
        rig.break_(name, "none")
    step = rig.step()
    assert (step.fidelity, step.x, step.failed, step.cost) == ("skip", None, ("low", "high"), 41.0)


def test_a_budget_learns_the_cost_of_a_fallback() -> None:
    """A low sensor that fails half of the time: the spend still meets the budget."""
    rig = Rig(mf.Budget(12.0), "low high", on_error="fallback")
    rng = np.random.default_rng(0)
    failures = 0
    for row in mf.simulate.gaussian(GAUSSIAN, rig.detector.fidelities, 1 / 50, ticks=3000, seed=2).table:
        rig.readers["low"].fault = raising if rng.random() < 0.1 else None
        failures += bool(rig.detector.step(dict(zip(rig.readers, row.tolist(), strict=True))).failed)
    assert failures > 100
    assert rig.detector.spent / 3000 == pytest.approx(12.0, rel=0.03)


def test_a_fallback_respects_the_cap() -> None:
    """If the cap does not allow the best, the next one that fits is read."""
    rig = Rig(mf.Budget(10.0, cap=(100.0, 4)), on_error="fallback", missing="skip")
    costs, rng = [], np.random.default_rng(1)
    fallen: Counter[str | None] = Counter()
    for t in range(400):
        broken = rng.random(3) < 0.4
        for reader, bad in zip(rig.readers.values(), broken, strict=True):
            reader.fault = raising if bad else None
        step = rig.step(float(rng.normal(6.0 * (t // 40 % 2), 1.0)))
        costs.append(step.cost)
        if step.failed:
            fallen[step.fidelity if step.x is not None else None] += 1
        assert step.cost == sum({"low": 1, "mid": 7, "high": 40}[n] for n in {*step.failed, step.fidelity})
    assert np.convolve(costs, np.ones(4)).max() <= 100.0
    assert min(fallen["high"], fallen["mid"], fallen["low"], fallen[None]) > 5


def test_on_error_is_saved() -> None:
    rig = Rig(mf.Always("low"), on_error="fallback")
    rig.step()
    twin = mf.Detector.from_bytes(
        rig.detector.to_bytes(), observers={"low": lambda raw: None, "high": lambda raw: raw}
    )
    assert twin.on_error == "fallback"
    assert twin.step(2.0).failed == ("low",)
    with pytest.raises(ValueError, match="on_error must be 'raise' or 'fallback', not 'ignore'"):
        Rig(mf.Always("low"), on_error="ignore")


def test_an_interrupt_is_not_a_sensor_failure() -> None:
    rig = Rig(mf.Always("low"), on_error="fallback")

    def interrupted() -> float:
        raise KeyboardInterrupt

    rig.readers["low"].fault = interrupted
    before = rig.detector.to_bytes()
    with pytest.raises(KeyboardInterrupt):
        rig.step()
    assert rig.detector.to_bytes() == before
    assert rig.calls == {"low": 1, "mid": 0, "high": 0}


# --- shadow readings ----------------------------------------------------------------------------------------------


def shadowed(noise_factor: float, seed: int, every: int = 2, ticks: int = 400, **options: Any) -> list[mf.Step]:
    """Steps of a Gaussian stream whose low fidelity (zeta .1) has `factor` times the declared error variance."""
    rng = np.random.default_rng(seed)
    theta = np.repeat(rng.normal(0.0, 3.0, ticks // 50 + 1), 50)
    detector = mf.Detector(
        GAUSSIAN,
        [
            mf.Fidelity("low", 0.1, 1.0, observe=lambda raw: raw + math.sqrt(10.0 * noise_factor) * rng.normal()),
            mf.Fidelity("high", 1.0, 40.0, observe=lambda raw: raw + rng.normal()),
        ],
        1 / 50,
        policy=mf.Always("low"),
        shadow=every,
        **options,
    )
    return [detector.step(float(theta[t])) for t in range(ticks)]


@pytest.mark.parametrize("policy", [mf.Always("low"), mf.Always("high"), mf.Net(0.003)], ids=repr)
@pytest.mark.parametrize("every", [1, 7])
def test_a_shadow_reads_and_pays_for_both_periodically(every: int, policy: mf.Policy) -> None:
    rig, plain = Rig(policy, "low high", shadow=every), Rig(policy, "low high")
    for t in range(30):
        chosen = rig.detector.choose().name
        before = rig.calls
        raw = {"low": 1.0, "high": 2.0 + 0.01 * t}
        step = rig.detector.step(raw)
        asked = {name for name in rig.readers if rig.calls[name] > before[name]}
        if (t + 1) % every == 0:
            assert asked == {"low", "high"}
            assert (step.fidelity, step.x, step.cost) == ("high", raw["high"], 41.0)  # the better one is used
            updated = plain.detector.update(raw["high"], "high")
        else:
            assert asked == {chosen}
            assert step.cost == {"low": 1.0, "high": 40.0}[chosen]
            updated = plain.detector.update(raw[chosen], chosen)
        assert step.mean == updated.mean
        assert step.failed == ()
    assert rig.detector.shadow["low"].pairs == 30 // every


def test_a_gaussian_low_fidelity_worse_than_declared_causes_a_warning() -> None:
    """Four times the noise: one step, at a shadow reading, has a warning with the zeta that fits."""
    for seed in range(20):
        warned = [s for s in shadowed(4.0, seed) if s.warning is not None]
        assert len(warned) == 1
        assert warned[0].tick % 2 == 1
        assert warned[0].warning is not None
        assert warned[0].warning.startswith("low: ")
        assert "paired readings contradict zeta = 0.1" in warned[0].warning
        assert warned[0].tick < 250


def test_a_gaussian_low_fidelity_as_declared_or_better_causes_no_warning() -> None:
    """The level of the guard is .99: of 60 streams about one has a false warning, almost never more than three."""
    wrong = sum(any(s.warning for s in shadowed(1.0, seed, every=1, ticks=150)) for seed in range(60))
    assert wrong <= 3
    assert not any(s.warning for seed in range(10) for s in shadowed(0.5, seed, every=1, ticks=150))


def flipping(accuracy: float, seed: int, ticks: int) -> int | None:
    """The tick of the warning about a classifier with declared accuracy 85 % (zeta .49), if any."""
    rng = np.random.default_rng(seed)
    detector = mf.Detector(
        mf.Bernoulli(1, 1),
        [
            mf.Fidelity("low", 0.49, 1.0, observe=lambda raw: raw if rng.random() < accuracy else 1.0 - raw),
            mf.Fidelity("high", 1.0, 10.0, observe=lambda raw: raw),
        ],
        1 / 50,
        policy=mf.Always("low"),
        shadow=3,
    )
    doubted = None
    for _ in range(ticks):
        step = detector.step(float(rng.random() < 0.3))
        if step.warning is not None:
            assert doubted is None
            doubted = step.tick
    return doubted


def test_a_classifier_that_errs_more_than_declared_causes_a_warning() -> None:
    found = [flipping(0.6, seed, 600) for seed in range(15)]
    assert all(tick is not None and (tick + 1) % 3 == 0 for tick in found)
    assert sum(flipping(0.85, seed, 450) is not None for seed in range(40)) <= 2


def test_a_shadow_continues_after_loading() -> None:
    rng = np.random.default_rng(4)
    pairs = [{"low": float(rng.normal(0, 5)), "high": float(rng.normal())} for _ in range(200)]
    rig = Rig(mf.Net(0.003), "low high", shadow=4)
    assert not any(rig.detector.step(raw).warning for raw in pairs[:42])
    observers = {name: Reader(name) for name in rig.readers}
    twin = mf.Detector.from_bytes(rig.detector.to_bytes(), observers=observers)
    assert twin.shadow["low"].spec() == rig.detector.shadow["low"].spec()
    assert twin.shadow["low"].pairs == 10
    steps = [rig.detector.step(raw) for raw in pairs[42:]]
    assert [twin.step(raw) for raw in pairs[42:]] == steps
    assert twin.to_bytes() == rig.detector.to_bytes()
    assert any(s.warning for s in steps)


def test_several_low_fidelities_take_turns() -> None:
    rig = Rig(mf.Always("low"), shadow=4)
    asked = []
    for t in range(24):
        before = rig.calls
        rig.step()
        if (t + 1) % 4 == 0:
            asked.append([name for name in ("low", "mid") if rig.calls[name] > before[name]])
            assert rig.calls["high"] == before["high"] + 1
    assert asked == [["low"], ["mid"]] * 3
    assert {name: guard.pairs for name, guard in rig.detector.shadow.items()} == {"low": 3, "mid": 3}


def test_guards_by_name() -> None:
    guard = ShadowGuard(0.4, every=3, method="gaussian", noise_var=1.0, level=0.9)
    rig = Rig(mf.Always("low"), shadow={"mid": guard})
    for _ in range(9):
        rig.step()
    assert rig.calls == {"low": 6, "mid": 3, "high": 3}
    assert rig.detector.shadow["mid"].pairs == 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Rig(None, shadow=0), "ShadowGuard.every must be a whole number of at least 1, not 0"),
        (lambda: Rig(None, shadow=2.5), "ShadowGuard.every must be a whole number of at least 1, not 2.5"),
        (lambda: Rig(None, shadow=True), "ShadowGuard.every must be a whole number of at least 1, not True"),
        (lambda: Rig(None, shadow="often"), "ShadowGuard.every must be a whole number of at least 1, not 'often'"),
        (lambda: Rig(None, shadow={"sonar": 3}), "shadow names 'sonar'; below 'high' there is low, mid"),
        (lambda: Rig(None, shadow={"high": 3}), "shadow names 'high'; below 'high' there is low, mid"),
        (lambda: Rig(None, shadow={"low": 3}), "shadow must contain ShadowGuard objects, not 3"),
        (lambda: Rig(None, "high", shadow=3), "shadow=3: there is no fidelity below 'high' to watch"),
        (lambda: Rig(None, "skip high", shadow=3), "shadow=3: there is no fidelity below 'high' to watch"),
    ],
)
def test_bad_shadows_are_named(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises((TypeError, ValueError)) as error:
        make()
    assert message in str(error.value)


def test_a_family_needs_guards_by_name() -> None:
    from ..registry import poisson_family

    with pytest.raises(ValueError, match="shadow=3: give ShadowGuard objects by name"):
        Rig(None, model=poisson_family(), shadow=3)


def test_two_detectors_share_no_guard() -> None:
    guards = {"low": ShadowGuard(0.1, every=1, method="gaussian", noise_var=1.0)}
    one, two = (Rig(mf.Always("low"), "low high", shadow=guards) for _ in range(2))
    one.step()
    assert one.detector.shadow["low"].pairs == 1
    assert two.detector.shadow["low"].pairs == 0
    assert guards["low"].pairs == 0


def test_a_shadow_reading_that_fails() -> None:
    """By default the error is raised and nothing changes, not even the guard; with fallback the other one is used."""
    for name in ("low", "high"):
        rig = Rig(mf.Always("low"), "low high", shadow=1)
        rig.step()
        before = rig.detector.to_bytes()
        rig.break_(name, "raises")
        with pytest.raises(OSError, match="no camera"):
            rig.step()
        assert rig.detector.to_bytes() == before
    for name, other in (("low", "high"), ("high", "low")):
        rig = Rig(mf.Always("low"), "low high", shadow=1, on_error="fallback")
        rig.step()
        rig.break_(name, "nan")
        step = rig.step(0.8)
        assert (step.fidelity, step.x, step.failed, step.cost) == (other, 0.8, (name,), 41.0)
        assert rig.detector.shadow["low"].pairs == 1  # no pair, no comparison
        rig.break_(other, "raises")
        with pytest.raises(ValueError if name == "high" else OSError, match=r"x is nan|no camera"):
            rig.step()


def test_a_shadow_pair_may_be_missing() -> None:
    for name, other in (("low", "high"), ("high", "low")):
        rig = Rig(mf.Always("low"), "low high", shadow=1, missing="skip")
        rig.break_(name, "none")
        step = rig.step(0.8)
        assert (step.fidelity, step.x, step.cost) == (other, 0.8, 41.0)
        assert rig.detector.shadow["low"].pairs == 0
    rig.break_("low", "nan")
    assert rig.step().x is None


@pytest.mark.filterwarnings("ignore:Budget.cap")
def test_a_shadow_respects_the_cap_and_counts_in_the_budget() -> None:
    rig = Rig(mf.Budget(8.0, cap=(60.0, 10)), "low high", shadow=6)
    stream = mf.simulate.gaussian(GAUSSIAN, rig.detector.fidelities, 1 / 50, ticks=4000, seed=5)
    costs = [rig.detector.step(dict(zip(rig.readers, row.tolist(), strict=True))).cost for row in stream.table]
    assert np.convolve(costs, np.ones(10)).max() <= 60.0
    free = Rig(mf.Budget(12.0), "low high", shadow=10)
    costs = [free.detector.step(dict(zip(free.readers, row.tolist(), strict=True))).cost for row in stream.table]
    assert np.mean(costs) == pytest.approx(12.0, rel=0.02)
    assert free.detector.shadow["low"].pairs == 400


# --- observers with memory ------------------------------------------------------------------------------------------


class Window:
    """The mean of its last three raw inputs."""

    def __init__(self) -> None:
        self.seen: list[float] = []

    def __call__(self, raw: float) -> float:
        self.seen.append(raw)
        return sum(self.seen[-3:]) / 3


def recurrent_detector(policy: mf.Policy, **options: Any) -> tuple[mf.Detector, Recurrent, Window]:
    window = Window()
    memory = Recurrent(window, warmup=2, cost=10.0, warmup_cost=3.0)
    fidelities = [
        mf.Fidelity("cheap", 0.1, 1.0, observe=float),
        mf.Fidelity("memory", 1.0, memory.cost_of, observe=memory),
    ]
    given = {"policy": policy, "missing": "skip"} | options
    return mf.Detector(GAUSSIAN, fidelities, 1 / 50, **given), memory, window


def test_the_cost_of_a_warm_up_is_quoted_before_and_paid_when_read() -> None:
    detector, memory, window = recurrent_detector(mf.Always("cheap"))
    for raw in (0.1, 0.2, 0.3, 0.4):
        assert detector.step(raw).cost == 1.0
    assert memory.missed == 2
    assert {g.name: g.cost for g in detector.gains(0.5)} == {"cheap": 1.0, "memory": 16.0}
    assert window.seen == []
    detector, memory, window = recurrent_detector(mf.Always("memory"))
    memory.feed(0.3)
    memory.feed(0.4)
    step = detector.step(0.5)
    assert (step.fidelity, step.cost) == ("memory", 10.0 + 2 * 3.0)
    assert step.x == pytest.approx((0.3 + 0.4 + 0.5) / 3)
    assert window.seen == [0.3, 0.4, 0.5]
    assert detector.step(0.6).cost == 10.0  # nothing was missed
    assert detector.spent == 26.0


def test_the_choice_follows_the_warm_up_and_every_raw_is_seen_at_most_once() -> None:
    detector, memory, window = recurrent_detector(mf.Net(0.01))
    rng = np.random.default_rng(3)
    raws = np.concatenate([rng.normal(0, 1, 60), rng.normal(7, 1, 60)]).tolist()
    spent, read = 0.0, []
    for t, raw in enumerate(raws):
        cost = {"cheap": 1.0, "memory": memory.cost_of(raw)}
        net = {g.name: g.joint - 0.01 * cost[g.name] for g in detector.gains(raw)}
        chosen = detector.choose(raw)
        assert chosen.name == max(net, key=net.__getitem__)
        missed = memory.missed
        step = detector.step(raw)
        assert step.fidelity == chosen.name
        assert step.cost == cost[chosen.name]
        spent += step.cost
        if chosen.name == "memory":
            assert step.cost == 10.0 + 3.0 * missed
            read.append(t)
            if t >= 2:
                assert step.x == pytest.approx(np.mean(raws[t - 2 : t + 1]))
            else:
                assert step.x is None  # its window is not full yet
        assert memory.missed == (0 if chosen.name == "memory" else min(missed + 1, 2))
    assert detector.spent == pytest.approx(spent)
    assert 2 < len(read) < 118
    assert len(window.seen) == len(set(window.seen))


def test_a_budget_is_met_with_warm_ups() -> None:
    detector, _, _ = recurrent_detector(mf.Budget(4.0))
    rng = np.random.default_rng(6)
    costs = [detector.step(float(rng.normal(6 * (t // 50 % 2), 1))).cost for t in range(3000)]
    assert np.mean(costs) == pytest.approx(4.0, rel=0.03)
    assert set(costs) == {1.0, 10.0, 13.0, 16.0}


def test_a_recurrent_observer_never_sees_a_raw_input_twice() -> None:
    """A shadow reading and a failure both call it; it does not see the same input again."""
    detector, _, window = recurrent_detector(mf.Always("cheap"), shadow=3)
    for t in range(9):
        step = detector.step(float(t))
        if (t + 1) % 3 == 0:
            assert (step.fidelity, step.cost) == ("memory", 1.0 + 10.0 + 2 * 3.0)
    assert window.seen == [float(t) for t in range(9)]
    detector, _, window = recurrent_detector(mf.Always("memory"), on_error="fallback")
    assert detector.step(0.0).failed == ("memory",)  # no reading yet: the cheap one is read
    assert detector.step(1.0).failed == ("memory",)
    assert detector.step(2.0).fidelity == "memory"
    assert window.seen == [0.0, 1.0, 2.0]
    assert detector.spent == 11.0 + 11.0 + 10.0


def test_update_pays_the_cost_quoted_by_choose() -> None:
    """Reading a recurrent observer changes the cost of its next reading; a tick pays the cost at its choice."""
    observe = Recurrent(lambda raw: float(raw), warmup=2, cost=5.0, warmup_cost=3.0)
    network = mf.Fidelity("network", 1.0, observe.cost_of, observe)
    detector = mf.Detector(
        mf.Gaussian(), [mf.Fidelity("cheap", 0.1, 1.0), network], policy=mf.Always("network"), missing="skip"
    )
    for raw in (1.0, 2.0, 3.0):
        observe.feed(raw)
    chosen = detector.choose(4.0)
    step = detector.update(observe(4.0), chosen)
    assert step.cost == 5.0 + 2 * 3.0
    assert detector.choose(5.0) is network
    assert detector.update(observe(5.0), network).cost == 5.0
    # no choice at this tick, or another raw input: the cost is computed again
    observe.feed(6.0)
    assert detector.update(7.0, network, raw=7.0).cost == 8.0
