"""FOCuS of `changepoint-online`: every tick read, as the reference of plain detection."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def focus(x: Array, after: int, threshold: float) -> NDArray[np.bool_]:
    """Alarms of the two-sided Gaussian FOCuS on readings with unit variance; an alarm restarts it.

    It knows the level before the change, 0, and not its size.

    Parameters
    ----------
    x : ndarray
        Readings, (T,).
    after : int
        The stream ends at the first alarm from this tick on.
    threshold : float
        Of half the likelihood-ratio statistic, so in nats.
    """
    from changepoint_online import Focus, Gaussian

    alarm = np.zeros(len(x), dtype=np.bool_)
    detector = Focus(Gaussian(loc=0.0))
    for t, value in enumerate(x.tolist()):
        detector.update(value)
        if detector.statistic() >= threshold:
            alarm[t] = True
            if t >= after:
                break
            detector = Focus(Gaussian(loc=0.0))
    return alarm
