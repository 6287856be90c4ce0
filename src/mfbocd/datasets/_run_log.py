"""The pace of a runner during an interval training."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import NamedTuple

import numpy as np

from ..models import Gaussian
from ..policy.fidelity import Fidelity
from ._stream import Array, RealStream, Ticks, extra

MILE = 1609.344
"""Metres per mile."""
STANDSTILL = 30.0
"""Minutes per mile at which a pedestrian stands still rather than walks; slower readings are set to this."""
WARMUP = 60
"""Ticks of the five-minute walk with which the interval training begins."""
_SOURCE = """\
"Interval Training Running Pace", a run of 2018-07-31 logged with the application RunDouble by the authors of the
Turing Change Point Dataset (van den Burg and Williams 2020, arXiv:2003.06222), with the changes marked by its five
annotators. Copyright 2019 Gerrit J.J. van den Burg, MIT licence. Read from the river wheel (BSD-3-Clause), which
carries it as river.drift.datasets.RunLog; nothing of it is shipped here."""


class Log(NamedTuple):
    """The data as river holds it, one entry per tick.

    Attributes
    ----------
    seconds : numpy.ndarray
        Seconds since the first tick.
    pace : numpy.ndarray
        Pace shown by the app, in minutes per mile.
    distance : numpy.ndarray
        Metres since the first tick.
    annotations : dict[str, numpy.ndarray]
        Changes marked by each annotator.
    """

    seconds: Array
    pace: Array
    distance: Array
    annotations: dict[str, Ticks]


def run_log() -> RealStream:
    """Return the pace of a real run in minutes per mile, every five seconds for half an hour, at two fidelities.

    ``"pace"``, the high fidelity, is what the app shows: GPS fixes smoothed over about 20 seconds. ``"increment"``,
    the low fidelity, is the same quantity from two raw fixes: the time since the previous tick divided by the
    distance covered. It is limited to 30 minutes per mile, because the reciprocal of a distance that GPS noise brings
    near 0 is unbounded. It is noisier, and about 7 % slow on average: E[1 / d] > 1 / E[d].

    There is only one run, so its warm-up walk, the first 60 ticks, is the held-out data (`warmup`). The noise
    variance is the variance of the pace during the walk, and zeta is that divided by the variance of the increments,
    both from the first tick with an increment on. The settling after a change of gait therefore counts as noise, as
    it will in every regime. This choice matters: from tick 3 on, the walk alone would give noise variance 0.34 and
    zeta 0.016 instead of 1.82 and 0.078. The prior, 12 minutes per mile with a standard deviation of 4, is general
    knowledge (people walk at about 16 and jog at about 9), and so is the hazard: intervals of about three minutes.
    Costs are nominal, in raw increments: during the warm-up the pace correlates best with the distance over the last
    four increments (eight by mean absolute error). These choices were made with knowledge of the whole run.

    `changes` are those that more than half of the five annotators marked.

    Returns
    -------
    RealStream
        The stream, with a Gaussian model.

    Raises
    ------
    ImportError
        If river is not installed.

    Examples
    --------
    >>> stream = run_log()
    >>> stream.table.shape, stream.changes
    ((376, 2), array([ 60,  96, 114, 174, 204, 240, 258, 317]))
    >>> [(f.name, round(f.zeta, 3), f.cost) for f in stream.fidelities]
    [('increment', 0.078, 1.0), ('pace', 1.0, 4.0)]
    """
    log = _read()
    increment = _pace_of_increments(log)
    held_out = slice(1, WARMUP)
    noise_var = float(log.pace[held_out].var(ddof=1))
    zeta = min(noise_var / float(increment[held_out].var(ddof=1)), 1.0)
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
        note="Minutes per mile; a tick is five seconds, four ticks are six or ten. The app smooths the pace, so its "
        "errors are not independent from tick to tick; raw increments alternate between long and short. One "
        "annotator marks no change at all. Score after the warm-up: noise and zeta are from it.",
    )


def _pace_of_increments(log: Log) -> Array:
    """Return minutes per mile since the previous tick; a standstill at the first, where the distance is 0."""
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
