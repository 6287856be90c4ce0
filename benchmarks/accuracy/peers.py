"""Detectors from other packages; the online ones restart after an alarm.

Thresholds: FOCuS has that of its documentation's example; ADWIN (here with clock=1) and PageHinkley have river's
defaults; MovingWindow's 4 is close to skchange's default penalty for 1,200 readings (3.8); ruptures has no default,
and 2 log(ticks) is the BIC for a change of the mean.

Online peers are given readings standardized by mean and standard deviation of the first WARM_UP ones, so none of
their alarms is raised before the last of these. Offline peers are given the series divided by its noise, estimated
from all neighbouring differences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .methods import Alarm, Array, Method, Run, Times

WARM_UP = 100
BANDWIDTHS = (10, 20, 50, 100)


def standardized(x: Array, count: int = WARM_UP) -> Array:
    """Return x with mean 0 and standard deviation 1 over its first readings, which is all that is used."""
    sd = float(np.nanstd(x[:count]))
    out: Array = (x - np.nanmean(x[:count])) / (sd if sd > 0.0 else 1.0)
    return out


def by_noise(x: Array) -> Array:
    """Return x divided by the standard deviation of its noise, from all neighbouring differences (looks ahead)."""
    steps = np.diff(x)
    sd = float(np.median(np.abs(steps - np.median(steps)))) / (0.6745 * math.sqrt(2.0))
    if sd == 0.0:  # more than half of the steps are equal
        sd = float(np.std(steps)) / math.sqrt(2.0)
    out: Array = x / (sd if sd > 0.0 else 1.0)
    return out


def _streaming(make: Callable[[float], Callable[[float], int | None]]) -> Run:
    """Run a detector reading by reading: `make` returns a function from a reading to the age of a change or None."""

    def run(x: Array, times: Times, threshold: float) -> list[Alarm]:
        step, ready = make(threshold), min(WARM_UP, x.size) - 1
        alarms = []
        for t, value in enumerate(standardized(x).tolist()):
            age = step(value)
            if age is not None:
                alarms.append(Alarm(max(t, ready), max(t - age, 0)))
        return alarms

    return run


def _focus(threshold: float) -> Callable[[float], int | None]:
    from changepoint_online import Focus, Gaussian

    detector = Focus(Gaussian())

    def step(value: float) -> int | None:
        nonlocal detector
        detector.update(value)
        if detector.statistic() < threshold:
            return None
        age = int(detector.cs.n - detector.changepoint()["changepoint"]) - 1
        detector = Focus(Gaussian())
        return age

    return step


def _adwin(threshold: float) -> Callable[[float], int | None]:
    from river import drift

    detector = drift.ADWIN(delta=1.0 / threshold, clock=1)

    def step(value: float) -> int | None:
        detector.update(value)
        return int(detector.width) - 1 if detector.drift_detected else None  # the old readings have been dropped

    return step


def _page_hinkley(threshold: float) -> Callable[[float], int | None]:
    from river import drift

    detector = drift.PageHinkley(threshold=threshold)

    def step(value: float) -> int | None:
        detector.update(value)
        return 0 if detector.drift_detected else None  # it estimates no position; it restarts by itself

    return step


def _moving_window(x: Array, times: Times, threshold: float) -> list[Alarm]:
    """MOSUM with several bandwidths, as a stream: a window counts at its last tick; none reaches across an alarm."""
    from skchange.detectors import MovingWindow

    widths = [width for width in BANDWIDTHS if 2 * width <= x.size]
    if not widths:
        return []
    z = standardized(x)[:, None]
    scores, index = MovingWindow(bandwidth=widths, penalty=0.0).fit(z).predict_scores(z, return_index=True)
    starts, splits, ends = index["starts"], index["splits"], index["ends"]
    # windows at the borders, which the package makes asymmetric, would need the end of the series
    hot = (scores > threshold) & (splits - starts == index["bws"]) & (ends - splits == index["bws"])
    order = np.lexsort((-scores[hot], ends[hot]))
    alarms: list[Alarm] = []
    since = 0
    for start, split, end in zip(starts[hot][order], splits[hot][order], ends[hot][order], strict=True):
        if start >= since:
            alarms.append(Alarm(max(int(end) - 1, min(WARM_UP, x.size) - 1), int(split)))
            since = int(end)
    return alarms


def _whole(make: Callable[[], Any]) -> Run:
    """Segment the whole series; the threshold is the penalty per change in units of log(ticks)."""

    def run(x: Array, times: Times, threshold: float) -> list[Alarm]:
        ends = make().fit(by_noise(x)).predict(pen=threshold * math.log(x.size))
        return [Alarm(int(end), int(end)) for end in ends[:-1]]

    return run


def _pelt() -> Any:
    import ruptures

    return ruptures.KernelCPD(kernel="linear")  # PELT with the squared error, in C


def _binseg() -> Any:
    import ruptures

    return ruptures.Binseg(model="l2", jump=5)  # the default grid: every position takes minutes per series


def peers() -> list[Method]:
    """All peers."""
    return list(_peers())


def _peers() -> Iterator[Method]:
    warm = f"standardized by the first {WARM_UP} readings"
    online: list[tuple[str, Run, float, tuple[float, float], str, str]] = [
        ("FOCuS", _streaming(_focus), 10.0, (1.0, 1e4), "changepoint-online", warm),
        ("ADWIN", _streaming(_adwin), 500.0, (1.5, 1e100), "river", warm + "; the threshold is 1 / delta"),
        ("PageHinkley", _streaming(_page_hinkley), 50.0, (1.0, 1e5), "river", warm),
        ("MovingWindow", _moving_window, 4.0, (1.0, 1e3), "skchange", warm + f"; MOSUM, bandwidths {BANDWIDTHS}"),
    ]
    for name, run, threshold, limits, package, note in online:
        yield Method(name, False, True, run, threshold, limits, note, package)
    noise = "all readings; scaled by the noise of the whole series"
    yield Method("PELT", True, False, _whole(_pelt), 2.0, (0.1, 1e4), noise, "ruptures")
    yield Method("BinSeg", True, False, _whole(_binseg), 2.0, (0.1, 1e4), noise, "ruptures")
