"""An anomaly score that is calibrated online against its past."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from ..belief.hazard import Hazard
from ..belief.pruning import TopK
from ..belief.records import Surprise
from ..belief.serialization import pack, unpack
from ..detector.blocks import BlockDetector
from ..detector.detector import Detector
from ..inputs.arguments import finite, probability, whole
from ..inputs.blocks import Blocks
from ..inputs.readings import floats
from ..models import GaussianUnknown, Product
from .shape import FLOOR, deviation, seen_features

ANOMALY_FEATURES = ("mean", "log_sd", "log_sd_diff", "max", "min")
"""Features that describe the level, the spread, the roughness and the extremes of a block."""


class Anomaly(NamedTuple):
    """The score of one reading.

    Parameters
    ----------
    score : float
        1 - p, in [0, 1]: p is the estimated probability that an ordinary reading is at least as surprising.
    detected : bool
        Whether an event was detected at this reading.
    """

    score: float
    detected: bool


class AnomalyScore:
    """Turn the surprise of each reading into a score in [0, 1], and into one detection per event.

    A model is never exactly right, so that tail probabilities of 1e-6 may be common in one stream and unheard of in
    another. The score compares each surprise with the last `window` surprises of the same stream, of which the
    largest share, `tail`, is replaced by an exponential distribution:

        p = (1 + number of past surprises >= s) / (1 + n)      for s <= u
        p = tail (1 + (s - u) / (k e))^-k                      for s > u

    with u the (1 - tail) quantile of the n past surprises, k the number of those above it and e their mean excess
    over u; the second line is the predictive tail of an exponential distribution whose scale is known from k values.
    The score 1 - p is about uniform for a stationary stream, whatever the model. It does not depend on P(change):
    after a change of regime the readings are ordinary again as soon as the detector has learned the new regime,
    whereas a short anomaly leaves no change behind.

    An event is detected when the score reaches `threshold`. The next one is detected only after `calm` consecutive
    scores below `rearm`, so that an event of many surprising readings is detected once.

    Parameters
    ----------
    threshold : float
        Score at which an event is detected, in (0, 1); about 1 - threshold of the readings of a stationary stream
        reach it. 0.999 by default.
    rearm : float
        Scores below it are calm; in (0, threshold]. 0.9 by default.
    calm : int
        Consecutive calm scores before the next detection; 5 by default.
    tail : float
        Share of the past surprises that the exponential distribution replaces, in (0, 1); 0.1 by default.
    window : int
        Number of past surprises that are kept; 1000 by default.
    warmup : int
        Surprises before the first score, at least 2; until then the score is 0. 10 by default.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument has the wrong type.

    Examples
    --------
    >>> import numpy as np
    >>> from mfbocd import Detector, GaussianUnknown
    >>> x = np.random.default_rng(1).normal(size=300)
    >>> x[250:253] += 9.0
    >>> detector, anomaly = Detector(GaussianUnknown(0, 1, 1, 1), surprise=True), AnomalyScore()
    >>> for t, value in enumerate(x):
    ...     found = anomaly.update(detector.update(value).surprise)
    ...     if found.detected:
    ...         print(f"tick {t}: score {found.score:.5f}")
    tick 250: score 0.99990
    """

    def __init__(
        self,
        threshold: float = 0.999,
        *,
        rearm: float = 0.9,
        calm: int = 5,
        tail: float = 0.1,
        window: int = 1000,
        warmup: int = 10,
    ) -> None:
        self.threshold = probability("AnomalyScore", "threshold", threshold)
        self.rearm = probability("AnomalyScore", "rearm", rearm)
        if self.rearm > self.threshold:
            raise ValueError(f"AnomalyScore.rearm must not exceed threshold = {threshold!r}, not {rearm!r}")
        self.calm = whole("AnomalyScore", "calm", calm, 1)
        self.tail = probability("AnomalyScore", "tail", tail)
        self.warmup = whole("AnomalyScore", "warmup", warmup, 2)
        self.window = whole("AnomalyScore", "window", window, self.warmup)
        self._past: deque[float] = deque()
        self._sorted: list[float] = []
        self._waiting = 0  # calm scores before the next detection

    @property
    def count(self) -> int:
        """Number of past surprises that are kept, at most `window`."""
        return len(self._past)

    def score(self, surprise: Surprise | float | None) -> float:
        """Return the score of a reading; nothing is learned.

        Parameters
        ----------
        surprise : Surprise, float or None
            `Step.surprise`, of which minus the log density is used, or any number that is larger for more surprising
            readings. None is a tick without a reading.

        Returns
        -------
        float
            The score, in [0, 1]; 0 without a reading, and during the warm-up.

        Raises
        ------
        ValueError
            If the number is NaN.
        TypeError
            If it is not a number.

        Examples
        --------
        >>> anomaly = AnomalyScore()
        >>> for s in range(100):
        ...     found = anomaly.update(float(s % 10))
        >>> round(anomaly.score(4.0), 2), round(anomaly.score(9.5), 2)
        (0.4, 0.98)
        """
        s = _number(surprise)
        return 0.0 if s is None else self._score(s)

    def _score(self, s: float) -> float:
        n = len(self._sorted)
        if n < self.warmup:
            return 0.0
        position = (1.0 - self.tail) * (n - 1)
        i = min(int(position), n - 2)
        u = self._sorted[i] + (position - i) * (self._sorted[i + 1] - self._sorted[i])
        if s <= u:
            return 1.0 - (1 + n - bisect_left(self._sorted, s)) / (1 + n)
        largest = self._sorted[i + 1 :]
        k = len(largest)
        total = math.fsum(largest) - k * u
        return 1.0 if total <= 0.0 else 1.0 - self.tail * math.exp(-k * math.log1p((s - u) / total))

    def update(self, surprise: Surprise | float | None) -> Anomaly:
        """Score a reading and learn from it.

        Parameters
        ----------
        surprise : Surprise, float or None
            As in `score`. With None nothing is learned and nothing is detected.

        Returns
        -------
        Anomaly
            The score, computed before learning, and whether an event was detected.

        Raises
        ------
        ValueError
            If the number is NaN.
        TypeError
            If it is not a number.
        """
        s = _number(surprise)
        if s is None:
            return Anomaly(0.0, False)
        score = self._score(s)
        self._learn(s)
        if self._waiting == 0:
            detected = score >= self.threshold
            self._waiting = self.calm if detected else 0
            return Anomaly(score, detected)
        self._waiting = self._waiting - 1 if score < self.rearm else self.calm
        return Anomaly(score, False)

    def to_bytes(self) -> bytes:
        """Return the arguments and the past surprises as a small versioned binary, never pickle.

        Returns
        -------
        bytes
            What `from_bytes` takes; 8 bytes per past surprise and some 200 more.
        """
        facts = {name: getattr(self, name) for name in _ARGUMENTS}
        return pack({"kind": _KIND, **facts, "waiting": self._waiting}, {"past": np.array(self._past)})

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return a score that continues, to the bit, where `to_bytes` was called.

        Parameters
        ----------
        data : bytes
            What `to_bytes` returned.

        Returns
        -------
        AnomalyScore
            The score.

        Raises
        ------
        TypeError, ValueError
            If these are not such bytes, or if they are damaged.

        Examples
        --------
        >>> anomaly = AnomalyScore(0.99)
        >>> found = anomaly.update(3.0)
        >>> AnomalyScore.from_bytes(anomaly.to_bytes()).count
        1
        """
        facts, arrays = unpack(data)
        if facts.get("kind") != _KIND:
            raise ValueError("these bytes are not a saved AnomalyScore")
        try:
            saved = cls(**{name: facts[name] for name in _ARGUMENTS})
            waiting = whole("AnomalyScore", "waiting", facts["waiting"], 0)
            past = arrays["past"].tolist()
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the saved AnomalyScore is damaged: {error}") from error
        if len(past) > saved.window or waiting > saved.calm or not all(map(math.isfinite, past)):
            raise ValueError("the saved AnomalyScore is damaged: its past is impossible")
        saved._waiting, saved._past, saved._sorted = waiting, deque(past), sorted(past)
        return saved

    def _learn(self, s: float) -> None:
        if len(self._past) == self.window:
            del self._sorted[bisect_left(self._sorted, self._past.popleft())]
        self._past.append(s)
        insort(self._sorted, s)


def anomaly_detector(readings: ArrayLike, *, every: int = 24, hazard: float | Hazard = 0.01) -> BlockDetector:
    """Return a detector whose surprise at a block of readings is made for `AnomalyScore`.

    An anomaly is often a stretch of readings that are possible one by one: too regular, too rough, or at an odd
    level for a while. Each block is compared with the earlier ones by its mean, maximum and minimum and by the log
    standard deviations of its readings and of their differences. `Step.surprise` is that of the five features
    together.

    Parameters
    ----------
    readings : ArrayLike
        The first readings, NaN where missing, at least one block. Only the prior is taken from them: update the
        detector with them too.
    every : int, default 24
        Readings per block. Shorter blocks are scored earlier, longer ones compare more reliably.
    hazard : float or Hazard, default 0.01
        P(change) per block. A block is scored against the current regime; after a change, the new one is learned.

    Returns
    -------
    BlockDetector
        A detector before its first reading, with ``surprise=True``.

    Raises
    ------
    TypeError, ValueError
        If there are too few readings, or an argument is out of range.

    Notes
    -----
    Each feature has a `GaussianUnknown` prior with the median of the blocks of `readings` as its mean, worth one
    block, and InverseGamma(1.5, var / 2) for its variance, with var the variance of the feature over these blocks.

    Examples
    --------
    >>> import numpy as np
    >>> hour = np.arange(3000)
    >>> x = np.sin(2 * np.pi * hour / 24) + np.random.default_rng(1).normal(0, 0.2, 3000)
    >>> x[2000:2048] = 0.3  # within the usual range, but constant
    >>> detector, anomaly = anomaly_detector(x[:450]), AnomalyScore()
    >>> for value in x:
    ...     step = detector.update(value)
    ...     if step.surprise is not None and anomaly.update(step.surprise).detected:
    ...         print(f"an unusual block up to reading {step.tick}")
    an unusual block up to reading 2015
    """
    x = floats(readings)
    blocks = Blocks(every, ANOMALY_FEATURES, floor=FLOOR * deviation(x))
    parts = []
    for known, typical in seen_features(blocks, x):
        var = float(np.var(known)) or typical
        parts.append(GaussianUnknown(float(np.median(known)), 1.0, 1.5, 0.5 * var))
    detector = Detector(Product(*parts), hazard=hazard, prune=TopK(60), alarm=None, surprise=True, missing="skip")
    return BlockDetector(blocks, detector)


_KIND = "AnomalyScore"
_ARGUMENTS = ("threshold", "rearm", "calm", "tail", "window", "warmup")
_MOST = 1e300  # replaces the surprise of an impossible reading, so that means are finite


def _number(surprise: Surprise | float | None) -> float | None:
    """Return a surprise as one finite number, larger for more surprising readings."""
    if surprise is None:
        return None
    value = -surprise.log_density if isinstance(surprise, Surprise) else surprise
    if value == math.inf:
        return _MOST
    return finite("", "surprise", value)
