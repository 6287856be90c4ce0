"""A drift detector and an anomaly detector of river (extra ``river``)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..belief.hazard import Hazard, hazard_of
from ..detector.detector import Detector
from ..detector.step import Alarm, Step, seed_of
from ..inputs.arguments import whole
from ..inputs.readings import number
from ..models import Model
from .series import model_for

try:
    from river import base
except ImportError as error:
    raise ImportError("mfbocd.adapters.river needs river: pip install 'mfbocd[river]'") from error


class _Stream:
    """The readings of one feature: the first `warmup` are kept to guess a model from, then told to its detector."""

    def __init__(
        self, model: Model | None, hazard: float | Hazard, alarm: Alarm | None, warmup: int, seed: int
    ) -> None:
        self._setup = (hazard_of(hazard), alarm, seed_of(seed))
        self._warmup = whole("", "warmup", warmup, 2)
        self._guesses = model is None
        self._kept: list[float] = []
        self.detector = None if model is None else self._detector(model)
        if self.detector is not None and self.detector.model.dimension > 1:
            raise ValueError(f"model must have one number a reading, not {self.detector.model.dimension}: {model!r}")
        self.first = 0
        """Readings before the first tick of `detector`."""
        self.alarm: Step | None = None
        """The step of the last reading at which the alarm fired, if it fired."""

    def _detector(self, model: Model) -> Detector:
        hazard, alarm, seed = self._setup
        return Detector(model, hazard=hazard, alarm=alarm, seed=seed, missing="skip")

    def possible(self, x: float) -> bool:
        """Whether the model can have produced x: not a 3 after zeros and ones."""
        return self.detector is None or bool(self.detector.model.possible(np.array([x]))[0])

    def check(self, x: float) -> None:
        """An error if `tell` would raise one; what a guessed model cannot have produced is a change to it."""
        if self.detector is not None and not self._guesses:
            self.detector.model.check(x)

    def tell(self, x: float | None) -> bool:
        """Go on by a tick; whether there was a change. Before a model is guessed no time passes without a reading."""
        if x is not None:
            self.check(x)
        self.alarm = None
        if self.detector is not None and x is not None and not self.possible(x):
            self.first += self.detector.ticks
            self.detector = None
            self._kept = [x]
            return True
        if self.detector is not None:
            step = self.detector.update(x)
            self.alarm = step if step.alarm else None
        elif x is not None:
            self._kept.append(x)
            if len(self._kept) == self._warmup:
                self.detector = self._detector(model_for(self._kept))
                fired = [step for kept in self._kept if (step := self.detector.update(kept)).alarm]
                self.alarm = fired[-1] if fired else None
                self._kept = []
        return self.alarm is not None

    def tail(self, x: float) -> float | None:
        """P(a reading at least as far out as x), both tails; None while there is no model."""
        if self.detector is None:
            return None
        if not self.possible(x):
            return 0.0
        weight, stats = self.detector._filter.predicted()
        cdf = self.detector.model.predictive_cdf
        below = float(cdf(stats, x) @ weight)
        above = 1.0 - float(cdf(stats, math.nextafter(x, -math.inf)) @ weight)  # P(X >= x), of whole numbers too
        return min(max(2.0 * min(below, above), 0.0), 1.0)


class BOCD(base.DriftDetector):
    """Bayesian online changepoint detection as a drift detector.

    `drift_detected` is true after the reading at which the probability of a change within the last `within` readings
    reached `threshold`; one change is one detection, and the detector goes on by itself. `changed_at` is then the
    reading the new regime most probably began at, the first being 0, and `confidence` how sure that is.

    Without a model one is guessed from the first `warmup` readings, a Bernoulli of zeros and ones, else a Gaussian
    with unknown mean and variance; these are then told to it at once, and a change among them is detected late. A
    reading that the guessed model cannot have produced is a drift with no `confidence`, and begins a new warm-up.

    Parameters
    ----------
    model
        The conjugate family with its prior, of one number a reading.
    hazard
        P(change) a reading.
    within
        Readings a change may be old when it is detected.
    threshold
        Probability at which it is detected.
    warmup
        Readings a model is guessed from.
    seed
        Of the draws of the detector's pruning.

    Examples
    --------
    >>> import random
    >>> from mfbocd.adapters.river import BOCD
    >>> rng = random.Random(1)
    >>> stream = [rng.gauss(20, 2) for _ in range(500)] + [rng.gauss(26, 2) for _ in range(500)]
    >>> detector = BOCD()
    >>> for i, x in enumerate(stream):
    ...     detector.update(x)
    ...     if detector.drift_detected:
    ...         print(f"reading {i}: changed at {detector.changed_at}, {detector.confidence:.0%} sure")
    reading 502: changed at 500, 95% sure

    """

    def __init__(
        self,
        model: Model | None = None,
        hazard: float | Hazard = 1 / 250,
        within: int = 50,
        threshold: float = 0.9,
        warmup: int = 30,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.model = model
        self.hazard = hazard
        self.within = within
        self.threshold = threshold
        self.warmup = warmup
        self.seed = seed
        self._reset()

    def _reset(self) -> None:
        super()._reset()
        alarm = Alarm(within=self.within, threshold=self.threshold)
        self._stream = _Stream(self.model, self.hazard, alarm, self.warmup, self.seed)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from ..models import Gaussian

        yield {}
        yield {"model": Gaussian(mean=0.0, var=9.0, noise_var=1.0), "hazard": 0.01}

    def update(self, x: int | float) -> None:
        """Tell one reading; river's drift detectors have no missing ones."""
        value = number(x)
        if math.isnan(value):
            raise ValueError(f"x must be a number, not {x!r}: leave missing readings out")
        self._drift_detected = self._stream.tell(value)

    @property
    def changed_at(self) -> int | None:
        """The reading the new regime most probably began at, if a drift was just detected; the first is 0."""
        if not self._drift_detected:
            return None
        step = self._stream.alarm
        return self._stream.first + (0 if step is None or step.changed_at is None else step.changed_at)

    @property
    def confidence(self) -> float | None:
        """P(there was a change), if a drift was just detected by its probability."""
        return None if self._stream.alarm is None else self._stream.alarm.confidence


class Surprise(base.AnomalyDetector):
    """How surprising a reading is after all that came before, changes allowed for.

    Each feature is a stream of its own with a model guessed from its first `warmup` readings (see `BOCD`), and what
    it predicts next, P(x_{t+1} | x_1..x_t), gives a reading the probability p of one at least as far out, in either
    tail. The score is (1 - p)^d, p being the smallest and d their number: P(no feature is as far out as the farthest
    of these), were they independent. It lies in [0, 1]; a reading drawn from the predictive of one feature with a
    density has a score uniform in [0, 1]. A feature that is absent or NaN is neither scored nor learnt from; while
    no feature has a model the score is 0.

    After a change the new level is ordinary within a few readings, which is what sets it apart from a threshold.

    Parameters
    ----------
    model
        The conjugate family with its prior, of every feature; guessed for each if None.
    hazard
        P(change) a reading.
    warmup
        Readings a model is guessed from.
    seed
        Of the draws of the detectors' pruning.

    Examples
    --------
    >>> import random
    >>> from mfbocd.adapters.river import Surprise
    >>> rng = random.Random(1)
    >>> detector = Surprise()
    >>> for _ in range(300):
    ...     detector.learn_one({"degrees": rng.gauss(20, 2), "bar": rng.gauss(1.0, 0.1)})
    >>> round(detector.score_one({"degrees": 20.5, "bar": 1.02}), 2)
    0.03
    >>> round(detector.score_one({"degrees": 20.5, "bar": 1.9}), 3)
    1.0

    """

    def __init__(
        self, model: Model | None = None, hazard: float | Hazard = 1 / 250, warmup: int = 30, seed: int = 0
    ) -> None:
        self.model = model
        self.hazard = hazard
        self.warmup = warmup
        self.seed = seed
        self._stream()  # bad arguments are told of here, not at the first reading
        self._streams: dict[Any, _Stream] = {}

    def _stream(self) -> _Stream:
        return _Stream(self.model, self.hazard, None, self.warmup, self.seed)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"hazard": 0.01, "warmup": 20}

    def learn_one(self, x: dict[Any, Any]) -> None:
        """Tell a reading of every feature; of those that are absent, that there was none."""
        told = _features(x)
        streams = self._streams | {name: self._stream() for name in told if name not in self._streams}
        for name, value in told.items():
            streams[name].check(value)
        self._streams = streams
        for name, stream in streams.items():
            stream.tell(told.get(name))

    def score_one(self, x: dict[Any, Any]) -> float:
        """How surprising x is, in [0, 1]; nothing is learnt."""
        told = _features(x)
        tails = [self._streams[name].tail(value) for name, value in told.items() if name in self._streams]
        known = [p for p in tails if p is not None]
        return (1.0 - min(known)) ** len(known) if known else 0.0


def _features(x: dict[Any, Any]) -> dict[Any, float]:
    """The features that are there, as floats."""
    found = {name: number(value, f"x[{name!r}]") for name, value in x.items()}
    return {name: value for name, value in found.items() if not math.isnan(value)}
