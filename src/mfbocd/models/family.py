"""What every likelihood family says of itself, and the methods that it implements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Family(ABC):
    """The attributes of a likelihood family with its prior, documented in `Model`, and the methods without a default.

    A hypothesis is a column of sufficient statistics: `stats` has shape (columns,) for one hypothesis and (columns,
    K) for K. Every method accepts both.
    """

    columns: int
    dimension: int = 1
    partial: bool = False
    ordered: bool = True
    elementwise: ClassVar[bool] = False
    one_parameter: ClassVar[bool] = False
    has_outliers: bool = False

    @abstractmethod
    def prior(self) -> Array:
        """Return the statistics of a regime without observations.

        Returns
        -------
        ndarray
            Shape (columns,).
        """

    @abstractmethod
    def check(self, x: Any) -> Any:
        """Return a reading if the family can produce it.

        Parameters
        ----------
        x : float or ndarray
            A finite reading; an array of length `dimension` where that is above 1.

        Returns
        -------
        float or ndarray
            The reading.

        Raises
        ------
        ValueError
            If `x` is outside the support.
        """

    @abstractmethod
    def update(self, stats: Array, x: Any, zeta: float) -> Array:
        """Return the statistics after an observation, equation `mf_posterior`.

        Parameters
        ----------
        stats : ndarray
            Shape (columns,) or (columns, K).
        x : float or ndarray
            The reading.
        zeta : float
            Fidelity of the reading, in [0, 1].

        Returns
        -------
        ndarray
            Same shape as `stats`.
        """

    @abstractmethod
    def log_predictive(self, stats: Array, x: Any, zeta: float) -> Array:
        """Return log p(x | statistics, zeta), equation `mf_posterior_predictive`.

        Parameters
        ----------
        stats : ndarray
            Shape (columns,) or (columns, K).
        x : float or ndarray
            The reading.
        zeta : float
            Fidelity of the reading, in [0, 1]; the result is 0 at zeta = 0.

        Returns
        -------
        ndarray
            Log density or log probability, shape () or (K,).
        """

    @abstractmethod
    def parameter(self, stats: Array) -> tuple[Array, Array]:
        """Return the posterior mean and variance of the parameter theta.

        Parameters
        ----------
        stats : ndarray
            Shape (columns,) or (columns, K).

        Returns
        -------
        mean : ndarray
            Shape () or (K,); with one row per parameter in front if there are several.
        variance : ndarray
            Same shape; infinite where the variance does not exist.
        """

    @abstractmethod
    def predictive(self, stats: Array, zeta: float = 1.0) -> tuple[Array, Array]:
        """Return the mean and variance of the next reading.

        Parameters
        ----------
        stats : ndarray
            Shape (columns,) or (columns, K).
        zeta : float, default 1.0
            Fidelity of the next reading.

        Returns
        -------
        mean : ndarray
            Shape () or (K,); with `dimension` rows in front where that is above 1.
        variance : ndarray
            Same shape; infinite at zeta = 0 and where the variance does not exist.
        """

    @abstractmethod
    def predictive_cdf(self, stats: Array, x: Any, zeta: float = 1.0) -> Array:
        """Return the distribution function of the next reading.

        Parameters
        ----------
        stats : ndarray
            Shape (columns,) or (columns, K).
        x : float or ndarray
            Where to evaluate it.
        zeta : float, default 1.0
            Fidelity of the next reading.

        Returns
        -------
        ndarray
            P(next reading <= x), shape () or (K,); for each number on its own where `dimension` is above 1.
        """

    @abstractmethod
    def run_length_gain(self, weight: Array, stats: Array, zeta: float) -> float:
        """Return the information about the run length expected from a reading.

        It is the mutual information I(r; x), equations `mi_rx` and `mi_xr`.

        Parameters
        ----------
        weight : ndarray
            Probability of each hypothesis, shape (K,).
        stats : ndarray
            Shape (columns, K).
        zeta : float
            Fidelity of the reading.

        Returns
        -------
        float
            Mutual information in nats.
        """

    @abstractmethod
    def parameter_gain(self, stats: Array, zeta: float) -> Array:
        """Return the information about the parameter expected from a reading, given the run length.

        It is I(theta; x | r) = E_x KL(p(theta | x) || p(theta)) for each hypothesis.

        Parameters
        ----------
        stats : ndarray
            Shape (columns,) or (columns, K).
        zeta : float
            Fidelity of the reading.

        Returns
        -------
        ndarray
            Nats, shape () or (K,).
        """

    @abstractmethod
    def variance_gain(self, stats: Array, zeta: float) -> Array:
        """Return the reduction of the parameter's variance expected from a reading, given the run length.

        It is Var(theta | r) - E_x Var(theta | r, x) for each hypothesis.

        Parameters
        ----------
        stats : ndarray
            Shape (columns,) or (columns, K).
        zeta : float
            Fidelity of the reading.

        Returns
        -------
        ndarray
            Shape () or (K,).
        """
