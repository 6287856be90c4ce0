"""Smoothing of a finished stream: where regimes began, given all readings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..detector.detector import Detector
from ..detector.level_rule import LevelRule
from ..detector.step import Step
from ..inputs.arguments import probability, whole
from ..inputs.display import count_text
from .change import Changepoint
from .forward import ForwardPass
from .log_hazard import LogHazard
from .regimes import levels_around, stacked_readings
from .run import run_each
from .trace import Trace

Array = NDArray[np.float64]

LIVE = 8192
"""Longest stream, in ticks, that is exact by default: it has one hypothesis per tick and drops none."""
CELLS = LIVE * LIVE // 2
"""Number of hypotheses, summed over all ticks, that a longer stream follows by default; at most 12 bytes each."""
FEWEST = 256
"""Smallest number of hypotheses followed by default, however long the stream is."""


class Hindsight:
    """Posterior of a finished stream's regimes, given all of its readings.

    Given that a regime begins at b, the readings before b are independent of those after it. The previous regime
    therefore began at b' with P(b' | b) proportional to P(r_{b-1} = b - 1 - b' | x_1..x_{b-1}) h(b - 1 - b'). Read
    backwards from the last tick, the beginnings of regimes are a Markov chain; its marginals are the smoothed
    probabilities. The most probable history is found in the forward pass (max-product, Viterbi).

    Both are exact, for any model and fidelities and independently of the detector's pruning, while the stream has at
    most `live` ticks: a hypothesis is then followed from every tick to the end, in log space. On a longer stream the
    youngest `live // 2` hypotheses are kept, and the `live // 4` most probable of the older ones. `exact` is then
    False, and the segmentation is at least as probable as every history whose regimes last at most `reach` ticks
    each.

    Each tick costs up to `live` evaluations of the predictive. Memory is at most 12 bytes per hypothesis and tick,
    less where most hypotheses have a probability below 1e-20 of the rest.

    Parameters
    ----------
    detector : Detector
        The detector whose model, fidelities and hazard are used. Its pruning does not matter.
    live : int
        Hypotheses followed at the same time, at least 4; 8192 by default.

    Raises
    ------
    ValueError
        If `live` is below 4.
    TypeError
        If `live` is not an integer.

    Examples
    --------
    >>> from mfbocd import Gaussian
    >>> back = hindsight(Detector(Gaussian(0, 9, 1), hazard=0.02), [0.1, -0.3, 0.2, 0.1, 4.0, 4.3, 3.9])
    >>> back.changepoints()
    [<Changepoint: 0.0 -> 4.1 at tick 4 (4 to 4), > 99.9 % sure>]
    >>> back.smoothed.round(3)[3:6], back.lagged(1).round(3)[3:6]
    (array([0.011, 0.993, 0.006]), array([0.026, 0.986, 0.006]))
    >>> back.exact
    True
    """

    def __init__(self, detector: Detector, live: int = LIVE) -> None:
        self.live = whole("", "live", live, 4)
        self.trace: Trace | None = None
        """The detector's steps, if `hindsight` ran it."""
        self._zeta = {f.name: f.zeta for f in detector.fidelities}
        self._missing = detector._no_reading
        self._forward = ForwardPass(detector.model, LogHazard(detector.hazard), self.live)
        self._rule = LevelRule.of(detector.model, detector.fidelities)
        self._index: dict[str | None, int] = {f.name: j for j, f in enumerate(detector.fidelities)} | {None: -1}
        self._readings: list[tuple[Any, int]] = []  # reading and fidelity of every tick

    def __len__(self) -> int:
        return len(self._forward)

    def __repr__(self) -> str:
        how = "exact" if self.exact else f"regimes of up to {count_text(self.reach, 'tick')}"
        return f"<Hindsight of {count_text(len(self), 'tick')}: {how}>"

    @property
    def exact(self) -> bool:
        """Whether every history was considered: no hypothesis was dropped."""
        return self._forward.exact

    @property
    def reach(self) -> int:
        """Regimes of up to this many ticks were all considered; the length of the stream if `exact`."""
        return len(self) if self.exact else self.live // 2

    def add(self, step: Step) -> None:
        """Add the step that the detector has just made; call it at every tick, from the first.

        Parameters
        ----------
        step : Step
            The step of the next tick.

        Raises
        ------
        ValueError
            If the step is not that of the next tick.
        """
        if step.tick != len(self):
            raise ValueError(f"step must be of tick {len(self)}, not of tick {step.tick}")
        self._readings.append((step.x, self._index[step.fidelity]))
        if step.x is None or step.fidelity is None:
            self._forward.add(self._missing, 0.0)
        else:
            x = np.array(step.x) if isinstance(step.x, tuple) else step.x
            self._forward.add(x, self._zeta[step.fidelity])

    @property
    def smoothed(self) -> Array:
        """P(a regime begins at t | the whole stream), (T,); 0 at the first tick, which is not a change."""
        return self._marginals(len(self) - 1, 1) if len(self) else np.zeros(0)

    def lagged(self, lag: int) -> Array:
        """Return P(a regime begins at t | x_1..x_{t + lag}) for every tick: fixed-lag smoothing.

        Parameters
        ----------
        lag : int
            Ticks after t whose readings are used, at least 0; 0 is the filtered P(r_t = 0).

        Returns
        -------
        numpy.ndarray
            Probabilities of shape (T,).

        Raises
        ------
        ValueError
            If `lag` is negative.
        TypeError
            If `lag` is not an integer.
        """
        lag = whole("", "lag", lag, 0)
        out = np.zeros(len(self))
        for t in range(1, len(self)):
            out[t] = self._marginals(min(t + lag, len(self) - 1), t)[t]
        return out

    def _marginals(self, end: int, first: int) -> Array:
        """Return P(a regime begins at t | x_1..x_end) for t >= `first`; earlier entries are set to 0."""
        birth, weight = self._forward.after(end)
        begins = np.zeros((len(weight), end + 1))
        begins[:, birth] = weight
        for b in range(end, first, -1):
            if begins[:, b].any():
                birth, share = self._forward.before(b)
                begins[:, birth] += begins[:, b, None] * share
        begins[:, :first] = 0.0
        return np.asarray(begins.sum(axis=0))

    def segmentation(self) -> list[int]:
        """Return the changes of the most probable history (max-product).

        With a learned hazard, the history is maximized jointly with the candidate hazards.

        Returns
        -------
        list[int]
            First tick of every regime after the first.
        """
        return self._forward.best_changes() if len(self) else []

    def changepoints(self, level: float = 0.9) -> list[Changepoint]:
        """Return the changes of the most probable history with their probabilities and credible intervals.

        Parameters
        ----------
        level : float
            Probability of the credible intervals, in (0, 1); 0.9 by default.

        Returns
        -------
        list[Changepoint]
            One entry per change, in order.

        Raises
        ------
        ValueError
            If `level` is not in (0, 1).
        """
        tail = 0.5 * (1.0 - probability("", "level", level))
        found, smoothed = self.segmentation(), self.smoothed
        out = []
        for change, (low, high) in zip(found, _windows(found, len(self)), strict=True):
            below = np.cumsum(smoothed[low : high + 1])
            left = low + int(np.searchsorted(below, tail * below[-1], side="right"))
            right = low + int(np.searchsorted(below, (1.0 - tail) * below[-1]))
            some = 1.0 - self.none(low, high)
            out.append(Changepoint(change, min(left, change), min(max(right, change), high), some))
        x, choice = stacked_readings(self._readings)
        levels = levels_around(x, found, self._rule, choice)
        return [one._replace(before=b, after=a) for one, (b, a) in zip(out, levels, strict=True)]

    def none(self, low: int, high: int) -> float:
        """Return P(no regime begins at any of the ticks low..high | the whole stream).

        Parameters
        ----------
        low : int
            First tick, at least 1.
        high : int
            Last tick, at least `low`.

        Returns
        -------
        float
            The probability.

        Raises
        ------
        ValueError
            If `low` and `high` are not ticks of the stream, in order.
        """
        if not 0 < low <= high < len(self):
            raise ValueError(f"low..high must lie within ticks 1..{len(self) - 1}, not {low!r}..{high!r}")
        # P(no regime before one that begins at b begins in low..high), for each candidate hazard
        last, weight = self._forward.after(len(self) - 1)
        free = np.zeros((len(weight), len(self)))
        free[:, :low] = 1.0
        for b in range(high + 1, len(self)):
            birth, share = self._forward.before(b)
            free[:, b] = (share * free[:, birth]).sum(axis=1)
        return min(float((weight * free[:, last]).sum()), 1.0)


def _windows(changes: list[int], ticks: int) -> Iterator[tuple[int, int]]:
    """Yield the ticks that belong to each change, up to the halfway points to its neighbours; they do not overlap."""
    edges = [0, *changes, ticks]
    for before, change, after in zip(edges[:-2], changes, edges[2:], strict=True):
        yield (before + change) // 2 + 1, min((change + after) // 2, ticks - 1)


def hindsight(detector: Detector, readings: Any, raws: Any = None, live: int | None = None) -> Hindsight:
    """Run a fresh detector over a finished stream and smooth the result.

    Parameters
    ----------
    detector : Detector
        A detector before its first tick.
    readings : Any
        The stream, as `run` takes its table.
    raws : Any
        Raw inputs, one per tick, if a cost is a function of them; None by default.
    live : int or None
        Hypotheses followed at the same time (see `Hindsight`). The number of ticks makes the result exact. By default
        it is 8192, which is exact for streams up to that length, and less for longer streams (`live_for`).

    Returns
    -------
    Hindsight
        The smoothed stream; its `trace` holds the detector's steps.

    Raises
    ------
    ValueError
        If the detector has already seen readings, or a reading cannot be used.

    Examples
    --------
    >>> from mfbocd import Gaussian
    >>> hindsight(Detector(Gaussian(0, 9, 1), hazard=0.02), [0.1, -0.3, 0.2, 4.0, 4.3, 3.9]).segmentation()
    [3]
    """
    if detector.ticks:
        raise ValueError(f"hindsight needs a detector before its first tick, not after {detector.ticks} ticks")
    back = Hindsight(detector, live_for(len(readings)) if live is None else live)
    back.trace = run_each(detector, readings, back.add, raws)
    return back


def live_for(ticks: int) -> int:
    """Return the number of hypotheses followed at the same time by default.

    Parameters
    ----------
    ticks : int
        Length of the stream.

    Returns
    -------
    int
        8192 for streams up to that length; for longer ones 8192^2 / 2 divided by `ticks`, but at least 256.

    Examples
    --------
    >>> live_for(8192), live_for(10_000), live_for(100_000), live_for(1_000_000)
    (8192, 3355, 335, 256)
    """
    return LIVE if ticks <= LIVE else max(CELLS // ticks, FEWEST)
