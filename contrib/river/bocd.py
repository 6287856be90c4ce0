from __future__ import annotations

import collections
import math
import typing

import numpy as np

from river.base import DriftDetector


class BOCD(DriftDetector):
    r"""Bayesian online changepoint detection (BOCD).

    The stream is taken to consist of regimes. The values of a regime are normally distributed
    around an unknown level with an unknown variance, and a new regime begins at any value with
    probability `hazard`. The detector maintains the exact posterior distribution of the *run
    length*, which is the number of values since the current regime began.

    A drift is detected when the probability that the current regime began within the last
    `window` values reaches `threshold`. Both changes of the level and changes of the variance
    are detected. Each change is reported once.

    Unlike most drift detectors, this one does not restart after a drift: the posterior already
    describes the new regime. The attribute `run_length` tells how long ago it began, which is
    earlier than the value at which the drift is detected.

    Parameters
    ----------
    hazard
        Probability that a new regime begins at any given value, in (0, 1). The expected number of
        values between two changes is `1 / hazard`.
    threshold
        Probability of a recent change from which a drift is reported, in (0, 1]. Larger values
        make the detector more conservative.
    window
        Number of values within which a change is recent. A change that takes more values than
        this to become apparent is not reported.
    prior
        Parameters `(mean, count, shape, scale)` of the Normal-inverse-gamma prior of the level and
        the variance of a regime, see the notes. If `None`, they are estimated from the first
        `min_instances` values.
    min_instances
        The minimum number of instances before detecting change, if there is no `prior`. As long as
        all these values are equal, the prior is not estimated.
    max_run_lengths
        Number of run lengths that are kept. When there are more, the least probable ones are
        dropped, so that time and memory per value are constant.

    Attributes
    ----------
    run_length
        The most probable number of values since the current regime began, the last value included.
    p_change
        The probability that the current regime began within the last `window` values.

    Notes
    -----
    With $r_t = 0$ if a regime begins at value $x_t$, the posterior of the run length obeys

    $$
    \begin{aligned}
    P(r_t = r + 1, x_{1:t}) &= (1 - h) \, P(r_{t-1} = r, x_{1:t-1}) \, p(x_t \mid x_{t-1-r:t-1}) \\
    P(r_t = 0, x_{1:t}) &= h \, P(x_{1:t-1}) \, p(x_t)
    \end{aligned}
    $$

    where $h$ is the hazard. Within a regime, $\sigma^2 \sim \mathrm{InvGamma}(shape, scale)$,
    $\mu \mid \sigma^2 \sim N(mean, \sigma^2 / count)$ and $x \mid \mu, \sigma^2 \sim N(\mu,
    \sigma^2)$. This prior is conjugate, so $p(x_t \mid \dots)$ is a Student's t density whose
    parameters are updated in constant time for each run length.

    The estimated prior is centered on the median of the first values, has the variance of their
    successive differences, and allows levels that are several standard deviations away.

    Values that are often exactly equal are not normal. After many equal values, one that differs
    is reported as a drift. For a stream of zeros and ones, such as the errors of a classifier,
    prefer the detectors of `drift.binary`.

    Examples
    --------
    >>> import random
    >>> from river import drift

    >>> rng = random.Random(12345)
    >>> bocd = drift.BOCD()

    >>> # Simulate a data stream composed by two data distributions
    >>> data_stream = rng.choices([0, 1], k=1000) + rng.choices(range(4, 8), k=1000)

    >>> # Update drift detector and verify if change is detected
    >>> for i, val in enumerate(data_stream):
    ...     bocd.update(val)
    ...     if bocd.drift_detected:
    ...         start = i + 1 - bocd.run_length
    ...         print(f"Change detected at index {i}, regime began at index {start}")
    Change detected at index 1000, regime began at index 1000

    References
    ----------
    [^1]: Adams, R. P., & MacKay, D. J. C. (2007). Bayesian online changepoint detection.
    arXiv:0710.3742.
    [^2]: Fearnhead, P., & Liu, Z. (2007). On-line inference for multiple changepoint problems.
    Journal of the Royal Statistical Society: Series B, 69(4), 589-605.
    [^3]: Murphy, K. P. (2007). Conjugate Bayesian analysis of the Gaussian distribution.

    """

    def __init__(
        self,
        hazard: float = 1 / 1000,
        threshold: float = 0.9,
        window: int = 100,
        prior: tuple[float, float, float, float] | None = None,
        min_instances: int = 30,
        max_run_lengths: int = 100,
    ) -> None:
        super().__init__()
        if not 0 < hazard < 1:
            raise ValueError("hazard must be between 0 and 1.")
        if not 0 < threshold <= 1:
            raise ValueError("threshold must be greater than 0 and at most 1.")
        if window < 1:
            raise ValueError("window must be at least 1.")
        if prior is not None and min(prior[1:]) <= 0:
            raise ValueError("count, shape and scale of the prior must be greater than 0.")
        if min_instances < 3:
            raise ValueError("min_instances must be at least 3.")
        if max_run_lengths < 2:
            raise ValueError("max_run_lengths must be at least 2.")
        self.hazard = hazard
        self.threshold = threshold
        self.window = window
        self.prior = prior
        self.min_instances = min_instances
        self.max_run_lengths = max_run_lengths
        self._reset()

    def _reset(self) -> None:
        super()._reset()
        self.p_change = 0.0
        self._n = 0
        self._last_drift = -1
        self._prior = self.prior
        self._first_values: collections.deque[float] = collections.deque(maxlen=self.min_instances)
        # One column per possible regime, oldest first. The rows are the index of its first value,
        # its log probability, the mean (relative to the prior mean, which is more accurate), count,
        # shape and scale of its Normal-inverse-gamma distribution, and
        # log Gamma(shape + 1/2) - log Gamma(shape).
        self._regimes = np.empty((7, 0))

    @property
    def run_length(self) -> int:
        """The most probable number of values since the current regime began."""
        if self._n == 0:
            return len(self._first_values)
        start, log_weight = self._regimes[:2]
        return self._n - int(start[np.argmax(log_weight)])

    def run_length_probabilities(self) -> dict[int, float]:
        """Return the posterior probability of each number of values since the regime began."""
        start, log_weight = self._regimes[:2]
        lengths = (self._n - start).astype(int)
        return dict(zip(lengths.tolist(), np.exp(log_weight).tolist(), strict=True))

    def update(self, x: int | float) -> None:
        """Update the detector with a single data point.

        Parameters
        ----------
        x
            Input value.

        """
        if not math.isfinite(x):
            raise ValueError(f"x must be a finite number, not {x}.")
        if self._prior is not None:
            self._drift_detected = self._observe(x)
            return
        self._drift_detected = False
        self._first_values.append(x)
        self._prior = self._estimate_prior()
        if self._prior is not None:
            self._drift_detected = any([self._observe(value) for value in self._first_values])
            self._first_values.clear()

    def _estimate_prior(self) -> tuple[float, float, float, float] | None:
        """Return a prior that suits the first values, or None if it is too early."""
        n = len(self._first_values)
        if n < self.min_instances:
            return None
        # A change of the level in between affects only one of the differences.
        variance = float(np.mean(np.diff(self._first_values) ** 2)) / 2
        if variance == 0:
            return None
        # A count of a tenth allows levels that are about three standard deviations away. The
        # differences of n values determine a variance as well as 2n/3 independent values do.
        shape = n / 3
        return float(np.median(self._first_values)), 0.1, shape, shape * variance

    def _observe(self, x: float) -> bool:
        """Process a value and return whether a drift is detected."""
        assert self._prior is not None
        mean, count, shape, scale = self._prior

        # A new regime begins here with probability `hazard`; otherwise every run grows by one.
        self._regimes[1] += math.log1p(-self.hazard)
        log_weight = math.log(self.hazard) if self._n > 0 else 0.0
        log_ratio = math.lgamma(shape + 0.5) - math.lgamma(shape)
        new = np.array([self._n, log_weight, 0.0, count, shape, scale, log_ratio])
        self._regimes = np.column_stack([self._regimes, new])
        self._n += 1

        # Each regime predicts the value with a Student's t density, and then learns from it.
        start, log_weights, means, counts, shapes, scales, log_ratios = self._regimes
        shrinkage = counts / (counts + 1)
        deviation = (x - mean) - means
        lift = 0.5 * shrinkage * deviation**2 / scales
        log_weights += log_ratios + 0.5 * np.log(shrinkage / (2 * math.pi * scales))
        log_weights -= (shapes + 0.5) * np.log1p(lift)
        counts += 1
        means += deviation / counts
        log_ratios[:] = np.log(shapes) - log_ratios  # because Gamma(z + 1) = z Gamma(z)
        shapes += 0.5
        scales *= 1 + lift

        if len(start) > self.max_run_lengths:
            self._regimes = np.delete(self._regimes, np.argmin(log_weights), axis=1)
            start, log_weights = self._regimes[:2]
        log_weights -= log_weights.max()
        log_weights -= math.log(np.exp(log_weights).sum())

        # The first regime of the stream is not a change.
        weights = np.exp(log_weights)
        oldest = max(self._n - 1 - self.window, 0)
        self.p_change = float(weights[start > oldest].sum())
        # Only regimes that began after the last drift are another change.
        if weights[start > max(oldest, self._last_drift)].sum() < self.threshold:
            return False
        self._last_drift = self._n - 1
        return True

    @classmethod
    def _unit_test_params(cls) -> typing.Iterator[dict[str, typing.Any]]:
        yield {}
        yield {"prior": (0.0, 1.0, 1.0, 1.0), "hazard": 0.01, "max_run_lengths": 50}
