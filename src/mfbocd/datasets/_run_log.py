"""The pace of a runner who is told when to run and when to walk."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import NamedTuple

import numpy as np

from ..models import Gaussian
from ..policy.fidelity import Fidelity
from ._stream import Array, RealStream, Ticks, extra

MILE = 1609.344
"""Metres."""
STANDSTILL = 30.0
"""Minutes a mile at which a pedestrian stands still rather than walks; a longer one is read as this."""
WARMUP = 60
"""Ticks of the walk of five minutes with which an interval training begins."""
_SOURCE = """\
"Interval Training Running Pace", a run of 2018-07-31 logged with the application RunDouble by the authors of the
Turing Change Point Dataset (van den Burg and Williams 2020, arXiv:2003.06222), with the changes marked by its five
annotators. Copyright 2019 Gerrit J.J. van den Burg, MIT licence. Read from the river wheel (BSD-3-Clause), which
carries it as river.drift.datasets.RunLog; nothing of it is shipped here."""


class Log(NamedTuple):
    """What river holds, one entry a tick."""

    seconds: Array
    """Since the first tick."""
    pace: Array
    """The application's, minutes a mile."""
    distance: Array
    """Metres since the first tick."""
    annotations: dict[str, Ticks]


def run_log() -> RealStream:
    """Minutes a mile of a real run, every five seconds for half an hour, at two fidelities.

    ``"pace"``, the high fidelity, is what the application shows: its GPS fixes smoothed over some 20 seconds.
    ``"increment"``, the low one, is the same quantity from two raw fixes: the time since the tick before, divided
    by the miles covered since, and at most 30 minutes a mile, since the reciprocal of a distance that GPS noise
    brought near 0 has no bound. It is noisier, and about 7 % slow on average: E[1 / d] > 1 / E[d].

    There is one run only, so its warm-up walk, the first 60 ticks, is the held-out data (`warmup`): noise is the
    variance of the pace over it, zeta that divided by the variance of the increments, both from the first tick with
    an increment on. The settling after a change of gait thus counts as noise, as it will in every regime. That is
    a choice, and it matters: from tick 3 on, the walk alone would give noise 0.34 and zeta 0.016, not 1.82 and
    0.078. The prior, 12 minutes a mile with a standard deviation of 4, is general knowledge: people walk at about
    16 and jog at about 9. So is the hazard: intervals of about three minutes. Costs are nominal, in raw increments:
    over the warm-up the pace correlates best with the distance over the last four (by mean absolute error, eight).
    These choices were made by somebody who had seen the whole run.

    `changes` are what more than half of the five annotators marked.

    >>> stream = run_log()
    >>> stream.table.shape, stream.changes
    ((376, 2), array([ 60,  96, 114, 174, 204, 240, 258, 317]))
    >>> [(f.name, round(f.zeta, 3), f.cost) for f in stream.fidelities]
    [('increment', 0.078, 1.0), ('pace', 1.0, 4.0)]
    """
    log = _read()
    increment = _pace_of_increments(log)
    held = slice(1, WARMUP)
    noise_var = float(log.pace[held].var(ddof=1))
    zeta = min(noise_var / float(increment[held].var(ddof=1)), 1.0)
    return RealStream(
        table=np.stack([increment, log.pace], axis=1),
        fidelities=(Fidelity("increment", zeta=zeta, cost=1), Fidelity("pace", zeta=1, cost=4)),
        model=Gaussian(mean=12, var=16, noise_var=noise_var),
        hazard=1 / 36,
        truth=None,
        changes=_majority(log.annotations),
        annotations=log.annotations,
        warmup=WARMUP,
        source=_SOURCE,
        note="Minutes a mile; a tick is five seconds, four are six or ten. The application smooths the pace, so its "
        "errors are not independent from tick to tick; raw increments alternate between long and short. One "
        "annotator marks no change at all. Score after the warm-up: noise and zeta are from it.",
    )


def _pace_of_increments(log: Log) -> Array:
    """Minutes a mile since the tick before; at the first tick no distance is covered yet: a standstill."""
    with np.errstate(divide="ignore"):
        pace = np.diff(log.seconds) / 60.0 / (np.diff(log.distance) / MILE)
    return np.concatenate([[STANDSTILL], np.minimum(pace, STANDSTILL)])


def _majority(annotations: dict[str, Ticks]) -> Ticks:
    votes = Counter(int(t) for marked in annotations.values() for t in marked)
    return np.array(sorted(t for t, n in votes.items() if n > len(annotations) / 2), dtype=np.int64)


def _read() -> Log:
    source = extra("river.drift.datasets").RunLog()
    rows = list(source)
    start: datetime = rows[0][0]["time"]
    return Log(
        seconds=np.array([(x["time"] - start).total_seconds() for x, _ in rows]),
        pace=np.array([y["Pace"] for _, y in rows]),
        distance=np.array([y["Distance"] for _, y in rows]),
        annotations={name: np.array(ticks, dtype=np.int64) for name, ticks in source.annotations.items()},
    )
