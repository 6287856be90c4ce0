"""Bounded hypotheses: how many, how unbiased, how close to exact."""

from __future__ import annotations

import numpy as np
import pytest

import mfbocd as mf
from mfbocd.belief.pruning import Pruning

from .array_kernels import resample_of


def stream(ticks: int, seed: int = 0) -> list[float]:
    return mf.simulate.gaussian(mf.Gaussian(0, 9, 1), hazard=1 / 100, ticks=ticks, seed=seed).table[:, 0].tolist()


def first_alarm(model, prune, hazard: float, x: np.ndarray, at: int) -> tuple[int, float]:  # type: ignore[no-untyped-def]
    """Ticks from the change at `at` to the first alarm, -1 if none fires, and the log evidence."""
    detector = mf.Detector(model, hazard=hazard, prune=prune, alarm=mf.Alarm(within=300))
    fired = np.flatnonzero(mf.run(detector, x).alarm[at:])
    return int(fired[0]) if fired.size else -1, detector.log_evidence


def default_of(model) -> Pruning:  # type: ignore[no-untyped-def]
    return mf.Detector(model).pruning


def test_the_default_finds_a_change_far_from_the_prior() -> None:
    """Level 25 to 26 under a N(0, 9) prior: a new hypothesis starts 31 nats behind and needs a hundred ticks."""
    model = mf.Gaussian(0, 9, 1)
    for seed in range(10):
        x = np.random.default_rng(seed).normal(25.0, 1.0, 600)
        x[300:] += 1.0
        exact, default = (mf.Detector(model, hazard=0.01, prune=p) for p in (None, default_of(model)))
        a, b = (mf.run(d, x) for d in (exact, default))
        since = 600 - 270  # its position is uncertain by about twenty ticks
        assert exact.p_changed(since) > 0.99  # it can be found
        assert default.p_changed(since) > 0.99
        assert default.log_evidence == pytest.approx(exact.log_evidence, abs=0.1)
        np.testing.assert_allclose(b.mean, a.mean, atol=0.02)


FAR = [
    *((mf.Gaussian(0, 9, 1), lambda rng, m: rng.normal(m, 1.0), 3.0 * d, 1.0) for d in (0, 5, 10)),
    *((mf.Gaussian(0, 9, 1), lambda rng, m: rng.normal(m, 1.0), 3.0 * d, 3.0) for d in (0, 5, 10)),
    *((mf.GaussianUnknown(0, 1, 20, 20), lambda rng, m: rng.normal(m, 1.0), m, 2.0) for m in (5.0, 20.0)),
    *((mf.Poisson(100, 10), lambda rng, m: rng.poisson(m).astype(float), m, 0.3 * m) for m in (10.0, 60.0)),
    *((mf.Bernoulli(99, 1), lambda rng, m: (rng.random(m.size) < m).astype(float), p, 0.4) for p in (0.5, 0.1)),
    *((mf.Exponential(20, 20), lambda rng, m: rng.exponential(m), m, 2.0 * m) for m in (1.0, 100.0)),
]


@pytest.mark.parametrize(("model", "draw", "before", "shift"), FAR)
def test_the_default_finds_what_the_exact_filter_finds(model, draw, before: float, shift: float) -> None:  # type: ignore[no-untyped-def]
    """At three places in a stream and two hazards; alarms at most two ticks apart, evidence within 0.2 nats."""
    found = 0
    for at in (40, 280, 700):  # below, at and above the number of hypotheses kept
        for hazard in (1e-2, 1e-6):
            level = np.where(np.arange(at + 300) < at, before, before + shift)
            x = draw(np.random.default_rng(at), level)
            exact, evidence = first_alarm(model, None, hazard, x, at)
            default, other = first_alarm(model, default_of(model), hazard, x, at)
            assert abs(default - exact) <= 2
            assert other == pytest.approx(evidence, abs=0.2)
            found += exact >= 0
    assert found >= 2  # if the prior is far off and the stream short, not even the exact filter detects it


def test_a_threshold_misses_such_a_change() -> None:
    """The documented risk of `Threshold`, which the default does not have."""
    x = np.random.default_rng(0).normal(25.0, 1.0, 600)
    x[300:] += 1.0
    model = mf.Gaussian(0, 9, 1)
    assert first_alarm(model, None, 0.01, x, 300)[0] >= 0
    assert first_alarm(model, mf.Threshold(1e-8), 0.01, x, 300)[0] == -1


def test_p_change_without_readings_is_the_prior_probability() -> None:
    """Nothing is read for 100,000 ticks: P(change) follows from the hazard, however small each weight is."""
    for hazard in (1e-12, 1e-9, 1e-6):
        detector = mf.Detector(mf.Gaussian(0, 9, 1), hazard=hazard, missing="skip")
        mf.run(detector, np.full(100_000, np.nan))
        expected = -np.expm1(99_999 * np.log1p(-hazard))
        # the strata keep the sum of the resampled weights, up to rounding
        assert detector.p_changed(within=100_000) == pytest.approx(expected, rel=1e-6)


def test_weights_below_460_nats_are_zero_in_every_mode() -> None:
    """The limit docs/pruning.md states: weights below 1e-200 of the total are zero, in the exact filter too."""
    for distance, kept in ((29.0, True), (33.0, False)):
        detector = mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.01, prune=None)
        mf.run(detector, np.full(50, 3.0 * distance))
        assert (detector.run_length.weight > 0.0).all() == kept


def test_resampling_is_unbiased() -> None:
    """E[new weight] = old weight, for every hypothesis: 4000 draws, each within five standard errors."""
    rng = np.random.default_rng(0)
    weight = rng.exponential(size=40) ** 2
    weight /= weight.sum()
    draws = np.tile(weight, (4000, 1))
    for row, u in zip(draws, rng.random(4000), strict=True):
        resample_of(row, 12, float(u))
    assert (np.abs(draws.mean(axis=0) - weight) <= five_errors(weight, draws)).all()
    assert (draws.std(axis=0) > 0).sum() > 20  # most weights could be dropped
    heavy = weight >= np.sort(weight)[-3]
    assert (draws[:, heavy] == weight[heavy]).all()  # and the heaviest could not


def five_errors(weight: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Five standard errors of the mean of draws that are c with probability weight / c, else 0."""
    c = np.median(draws[(draws > 0) & (draws != weight)])
    return 5 * np.sqrt(weight * c / len(draws)) + 1e-12


def test_resampling_in_the_filter_is_unbiased() -> None:
    """Over seeds, the resampled posterior averages to the exact one (pruned once, so nothing has compounded)."""
    xs = stream(41, seed=3)
    exact = mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.05, prune=None)
    for x in xs:
        exact.update(x)
    truth = np.zeros(41)
    truth[exact.run_length.length] = exact.run_length.weight
    total = np.zeros((500, 41))
    for seed in range(500):
        detector = mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.05, prune=mf.Resample(40, slack=25), seed=seed)
        for x in xs:
            detector.update(x)
        total[seed, detector.run_length.length] = detector.run_length.weight
    assert (np.abs(total.mean(axis=0) - truth) <= five_errors(truth, total)).all()
    assert (total.std(axis=0) > 1e-6).sum() > 10


def test_fewer_positive_weights_than_wanted_are_left_alone() -> None:
    weight = np.array([0.5, 0.0, 0.3, 0.0, 0.2])
    resample_of(weight, 4, 0.3)
    assert weight.tolist() == [0.5, 0.0, 0.3, 0.0, 0.2]


def test_resampling_ends_however_many_weights_are_equal() -> None:
    """Equal weights lie at c, where rounding puts some above and some below."""
    for n in range(2, 300, 7):
        for k in range(1, n, 13):
            weight = np.full(n, 1.0 / 3.0) * (1.0 + 1e-16 * np.arange(n))
            resample_of(weight, k, 0.5)
            assert abs((weight > 0).sum() - k) <= 1
    detector = mf.Detector(mf.Gaussian(0, 9, 1), hazard=1 / 100, missing="skip")
    for _ in range(6000):  # nothing is ever read: the hazard alone sets the weights
        detector.update(None)
    assert detector.run_length.weight.sum() == pytest.approx(1.0)
    assert detector.p_changed(within=50) == pytest.approx(1 - 0.99**50, abs=0.02)


@pytest.mark.parametrize("make", [mf.TopK, mf.Resample])
@pytest.mark.parametrize("k", [1, 2, 5, 33, 64, 100])
def test_never_more_than_k(make, k: int) -> None:  # type: ignore[no-untyped-def]
    detector = mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.01, prune=make(k))
    sizes = []
    for x in stream(300):
        detector.update(x)
        sizes.append(len(detector.run_length.weight))
        assert detector.run_length.weight.sum() == pytest.approx(1.0, abs=1e-12)
    assert max(sizes) == k
    assert min(sizes[200:]) >= k - Pruning.of(make(k)).slack


def test_slack_zero_keeps_exactly_k() -> None:
    detector = mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.01, prune=mf.TopK(20, slack=0))
    for t, x in enumerate(stream(100)):
        detector.update(x)
        assert len(detector.run_length.weight) == min(t + 1, 20)


def test_a_threshold_alone_drops_only_the_negligible() -> None:
    detector = mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.01, prune=mf.Threshold(1e-3))
    for x in stream(400):
        detector.update(x)
        assert (detector.run_length.weight > 0).all()
    assert len(detector.run_length.weight) < 200


def test_a_threshold_never_drops_the_last_hypothesis() -> None:
    detector = mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.5, prune=mf.Threshold(0.9))
    for x in stream(200):
        detector.update(x)
        assert detector.run_length.weight.sum() == pytest.approx(1.0)


def test_memory_is_constant_when_bounded_and_default_is_bounded() -> None:
    detector = mf.Detector(mf.Gaussian(0, 9, 1), hazard=1 / 250)
    size = detector._filter.state.nbytes
    mf.run(detector, np.zeros(20_000))
    assert detector._filter.state.nbytes == size
    assert len(detector.to_bytes()) < 16_000


def errors(prune, table: np.ndarray) -> tuple[float, float]:  # type: ignore[no-untyped-def]
    """Root mean squared error of the mean and of P(change within 50) against exact."""
    exact, other = (mf.run(mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.01, prune=p), table) for p in (None, prune))
    return tuple(float(np.sqrt(np.mean((getattr(exact, f) - getattr(other, f)) ** 2))) for f in ("mean", "p_change"))


def test_the_price_of_pruning() -> None:
    """The numbers of docs/pruning.md, to an order of magnitude, on other streams."""
    table = mf.simulate.gaussian(mf.Gaussian(0, 9, 1), hazard=1 / 100, ticks=5000, seed=2).table
    default = mf.Detector(mf.Gaussian(0, 9, 1)).pruning
    assert default.most == 256
    assert max(errors(default, table)) < 1e-3
    assert max(errors(mf.Threshold(1e-8), table)) < 1e-6
    for few, many in ((mf.TopK(32), mf.TopK(256)), (mf.Resample(32), mf.Resample(256))):
        assert errors(few, table)[0] > 3 * errors(many, table)[0] > 0
    assert errors(mf.TopK(128), table)[0] > errors(mf.Resample(128), table)[0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mf.Threshold(0), "Threshold.eps must lie in (0, 1), not 0"),
        (lambda: mf.TopK(0), "TopK.k must be a whole number of at least 1, not 0"),
        (lambda: mf.TopK(2.5), "TopK.k must be a whole number of at least 1, not 2.5"),
        (lambda: mf.Resample(4, slack=4), "Resample.slack must be below k = 4, not 4"),
        (lambda: Pruning.of([mf.TopK(4), mf.Resample(4)]), "one Threshold and one of TopK and Resample"),
        (lambda: Pruning.of("topk"), "prune must be None, Threshold, TopK, Resample"),
    ],
)
def test_bad_pruning_is_named(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises((ValueError, TypeError)) as error:
        make()
    assert message in str(error.value)
