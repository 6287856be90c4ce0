"""A drift detector and an anomaly detector for river (extra ``river``)."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..belief.alarm import Alarm
from ..belief.hazard import Hazard, hazard_of
from ..calibrate.anomaly import AnomalyScore
from ..calibrate.auto import HAZARD, AutoDetector
from ..detector.detector import Detector
from ..detector.step import Step, seed_of
from ..inputs.arguments import whole
from ..inputs.copies import Independent
from ..inputs.readings import number
from ..models import Model
from .series import model_for

try:
    from river import base
except ImportError as error:
    raise ImportError("mfbocd.adapters.river needs river: pip install 'mfbocd[river]'") from error


class _StateSize:
    """Memory usage as the size of the saved state.

    River follows all references of an object. From a kernel they lead to numba's compiler, whose megabytes are shared
    by all detectors, and to weak references that may be dead, which raises an error.
    """

    @property
    def _raw_memory_usage(self) -> int:
        return len(pickle.dumps(self))


class _Stream(Independent):
    """Readings of one feature: the first `warmup` are stored to estimate a model, and then passed to its detector."""

    def __init__(self, model: Model | None, hazard: float | Hazard, warmup: int, seed: int) -> None:
        self._setup = (hazard_of(hazard), seed_of(seed))
        self._warmup = whole("", "warmup", warmup, 2)
        self._estimated = model is None
        self._stored: list[float] = []
        self.detector = None if model is None else self._new_detector(model)

    def _new_detector(self, model: Model) -> Detector:
        """Return a detector with this model."""
        hazard, seed = self._setup
        return _detector_of(model, hazard, None, seed)

    def possible(self, x: float) -> bool:
        """Return whether the model can produce x; a Bernoulli cannot produce a 3."""
        return self.detector is None or bool(self.detector.model.possible(np.array([x]))[0])

    def check(self, x: float) -> None:
        """Raise an error if `update` would; a reading that an estimated model cannot produce is a change instead."""
        if self.detector is not None and not self._estimated:
            self.detector.model.check(x)

    def update(self, x: float | None) -> None:
        """Advance by one tick; without a model, None is ignored."""
        if x is not None:
            self.check(x)
        if self.detector is not None and x is not None and not self.possible(x):
            self.detector = None
            self._stored = [x]
        elif self.detector is not None:
            self.detector.update(x)
        elif x is not None:
            self._stored.append(x)
            if len(self._stored) == self._warmup:
                self.detector = self._new_detector(model_for(self._stored))
                for stored in self._stored:
                    self.detector.update(stored)
                self._stored = []

    def tail_probability(self, x: float) -> float | None:
        """Return P(a reading at least as far out as x), two-sided; None while there is no model."""
        if self.detector is None:
            return None
        if not self.possible(x):
            return 0.0
        surprise = self.detector._filter.surprise(x, 1.0)
        return min(2.0 * math.exp(min(surprise.log_lower, surprise.log_upper)), 1.0)

    def surprise(self, x: float) -> float | None:
        """Return minus the log predictive density of x; None while there is no model."""
        if self.detector is None:
            return None
        return -self.detector._filter.surprise(x, 1.0).log_density if self.possible(x) else math.inf


def _detector_of(model: Model, hazard: float | Hazard, alarm: Alarm | None, seed: int) -> Detector:
    """Return a detector of readings of one number, which may be missing."""
    detector = Detector(model, hazard=hazard, alarm=alarm, seed=seed, missing="skip")
    if detector.model.dimension > 1:
        raise ValueError(f"model must have one number per reading, not {detector.model.dimension}: {model!r}")
    return detector


class BOCD(Independent, _StateSize, base.DriftDetector):
    """Bayesian online changepoint detection as a drift detector.

    `drift_detected` is true after the reading at which the probability of a change within the last `within` readings
    reaches `threshold`. Each change is detected once, and the detector continues by itself. `changed_at` is then the
    reading at which the new regime most probably began (the first reading is 0), and `confidence` the probability of
    the change.

    Without a model it is the automatic detector, `mfbocd.calibrate.auto.AutoDetector`: it learns from the readings so
    far whether they are numbers, counts or 0/1, their scale, season, autocorrelation and outliers. It reports no
    change among the first 20 readings.

    Parameters
    ----------
    model : Model or None
        The model with its prior, of readings of one number; the automatic detector by default.
    hazard : float or Hazard or None
        P(change) per reading. By default 1/500 for the automatic detector, which takes a number only, and 1/250 for a
        model.
    within : int or None
        Readings since a change within which it can be detected. By default 200 for the automatic detector, and 50 for
        a model.
    threshold : float
        Probability at which a change is detected; 0.9 by default.
    seed : int
        Seed of the detector's pruning; 0 by default.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument has the wrong type.

    Examples
    --------
    >>> import random
    >>> from mfbocd.adapters.river import BOCD
    >>> rng = random.Random(1)
    >>> stream = [rng.gauss(20, 2) for _ in range(500)] + [rng.gauss(60, 2) for _ in range(500)]
    >>> detector = BOCD()
    >>> for i, x in enumerate(stream):
    ...     detector.update(x)
    ...     if detector.drift_detected:
    ...         print(i - 500 < 5, detector.changed_at, detector.confidence > 0.9)
    True 500 True
    """

    def __init__(
        self,
        model: Model | None = None,
        hazard: float | Hazard | None = None,
        within: int | None = None,
        threshold: float = 0.9,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.model = model
        self.hazard = hazard
        self.within = within
        self.threshold = threshold
        self.seed = seed
        self._reset()

    def _reset(self) -> None:
        super()._reset()
        self._step: Step | None = None
        self._detector: Detector | AutoDetector
        if self.model is not None:
            alarm = Alarm(50 if self.within is None else self.within, self.threshold)
            hazard = 1 / 250 if self.hazard is None else self.hazard
            self._detector = _detector_of(self.model, hazard, alarm, self.seed)
            return
        alarm = Alarm(200 if self.within is None else self.within, self.threshold)
        rate = HAZARD if self.hazard is None else self.hazard
        if isinstance(rate, Hazard):
            raise TypeError(f"hazard must be a number without a model, not {rate!r}")
        self._detector = AutoDetector(rate, alarm, seed=self.seed)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from ..models import Gaussian

        yield {}
        yield {"model": Gaussian(mean=0.0, var=9.0, noise_var=1.0), "hazard": 0.01}

    def update(self, x: int | float) -> None:
        """Process one reading; river's drift detectors have no missing readings.

        Parameters
        ----------
        x : int or float
            The reading.

        Raises
        ------
        ValueError
            If it is NaN, or outside the range of the given model.
        TypeError
            If it is not a number.
        """
        value = number(x)
        if math.isnan(value):
            raise ValueError(f"x must be a number, not {x!r}: leave out missing readings")
        self._step = self._detector.update(value)
        self._drift_detected = self._step.alarm

    @property
    def changed_at(self) -> int | None:
        """The reading, from 0, at which the new regime most probably began, if a drift was just detected."""
        return self._step.changed_at if self._step is not None else None

    @property
    def confidence(self) -> float | None:
        """P(there was a change), if a drift was just detected; otherwise None."""
        return self._step.confidence if self._step is not None else None


class SurpriseScore(Independent, _StateSize, base.AnomalyDetector):
    """How surprising a reading is given all earlier ones, with changes taken into account.

    Each feature is a separate stream with a model estimated from its first `warmup` readings: a Bernoulli for zeros
    and ones, otherwise a Gaussian with unknown mean and variance. Its predictive distribution P(x_{t+1} | x_1..x_t)
    gives the two-sided probability p of a reading at least as far out. The score is (1 - p)^d, with p the smallest of
    d features: P(no feature is as far out as the farthest of these), if they were independent. It lies in [0, 1]; for
    a reading drawn from the predictive density of one feature it is uniform. A feature that is absent or NaN is
    neither scored nor learned from; while no feature has a model, the score is 0.

    Unlike with a fixed threshold, a new level is normal within a few readings after a change.

    The model is an approximation, so that small p may be common in one stream. With ``calibrated=True``, p is
    estimated from the log densities of the last 1000 readings of the same feature instead (`calibrate.AnomalyScore`):
    the score is then about uniform on any stationary stream.

    Parameters
    ----------
    model : Model or None
        The model with its prior, for every feature; estimated for each by default.
    hazard : float or Hazard
        P(change) per reading; 1/250 by default.
    warmup : int
        Readings from which a model is estimated, at least 2; 30 by default.
    seed : int
        Seed of the detectors' pruning; 0 by default.
    calibrated : bool
        Whether the score is calibrated against the past of each feature; False by default.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument has the wrong type.

    Examples
    --------
    >>> import random
    >>> from mfbocd.adapters.river import SurpriseScore
    >>> rng = random.Random(1)
    >>> detector = SurpriseScore()
    >>> for _ in range(300):
    ...     detector.learn_one({"degrees": rng.gauss(20, 2), "bar": rng.gauss(1.0, 0.1)})
    >>> round(detector.score_one({"degrees": 20.5, "bar": 1.02}), 2)
    0.03
    >>> round(detector.score_one({"degrees": 20.5, "bar": 1.9}), 3)
    1.0
    """

    def __init__(
        self,
        model: Model | None = None,
        hazard: float | Hazard = 1 / 250,
        warmup: int = 30,
        seed: int = 0,
        calibrated: bool = False,
    ) -> None:
        self.model = model
        self.hazard = hazard
        self.warmup = warmup
        self.seed = seed
        self.calibrated = calibrated
        self._past: dict[Any, AnomalyScore] = {}
        self._stream()  # validates the arguments now rather than at the first reading
        self._streams: dict[Any, _Stream] = {}

    def _stream(self) -> _Stream:
        return _Stream(self.model, self.hazard, self.warmup, self.seed)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"hazard": 0.01, "warmup": 20}
        yield {"calibrated": True}

    def learn_one(self, x: dict[Any, Any]) -> None:
        """Process one reading of every feature; an absent feature is a missing reading.

        Parameters
        ----------
        x : dict[Any, Any]
            Readings by feature.

        Raises
        ------
        ValueError
            If a reading is outside the range of the given model.
        TypeError
            If a reading is not a number.
        """
        features = _features(x)
        streams = self._streams | {name: self._stream() for name in features if name not in self._streams}
        for name, value in features.items():
            streams[name].check(value)
        self._streams = streams
        for name, stream in streams.items():
            if self.calibrated and name in features:
                self._past.setdefault(name, AnomalyScore()).update(stream.surprise(features[name]))
            stream.update(features.get(name))

    def score_one(self, x: dict[Any, Any]) -> float:
        """Return how surprising a reading is; nothing is learned.

        Parameters
        ----------
        x : dict[Any, Any]
            Readings by feature.

        Returns
        -------
        float
            The score, in [0, 1].

        Raises
        ------
        TypeError
            If a reading is not a number.
        """
        features = _features(x)
        tails = [self._tail(name, value) for name, value in features.items() if name in self._streams]
        known = [p for p in tails if p is not None]
        return (1.0 - min(known)) ** len(known) if known else 0.0

    def _tail(self, name: Any, x: float) -> float | None:
        """Return P(a reading of this feature is at least as surprising); None while that is unknown."""
        if not self.calibrated:
            return self._streams[name].tail_probability(x)
        past = self._past.get(name)
        return None if past is None or past.count < past.warmup else 1.0 - past.score(self._streams[name].surprise(x))


def _features(x: dict[Any, Any]) -> dict[Any, float]:
    """Return the features that are not missing, as floats."""
    found = {name: number(value, f"x[{name!r}]") for name, value in x.items()}
    return {name: value for name, value in found.items() if not math.isnan(value)}
