"""Sample a stream from labelled real items."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..inputs.arguments import probability, whole
from ..models import Bernoulli
from ._held_out import Bits
from ._stream import Array, Ticks


class Sample(NamedTuple):
    """A sampled stream: the item at each tick and the truth behind it.

    Attributes
    ----------
    item : numpy.ndarray
        Index of the item at each tick.
    truth : numpy.ndarray
        Label of the item, 0 or 1.
    theta : numpy.ndarray
        The parameter at each tick.
    changes : numpy.ndarray
        Ticks at which a new regime begins, without the first tick.
    """

    item: NDArray[np.int64]
    truth: Array
    theta: Array
    changes: Ticks


def draw(label: Bits, model: Bernoulli, hazard: float, ticks: int, seed: int) -> Sample:
    """Sample a stream by the paper's protocol for machine sounds.

    A regime ends with probability `hazard` at every tick; its theta ~ Beta(alpha, beta) of `model`; y_t ~
    Bernoulli(theta_t); the item is one with label y_t, uniformly at random with replacement.

    Parameters
    ----------
    label : numpy.ndarray
        Label of every item.
    model : Bernoulli
        The prior of theta.
    hazard : float
        P(change) per tick, in (0, 1).
    ticks : int
        Length of the stream, at least 1.
    seed : int
        Seed of the sample.

    Returns
    -------
    Sample
        The stream.

    Raises
    ------
    ValueError
        If `hazard` or `ticks` is out of range.

    Examples
    --------
    >>> drawn = draw(np.array([False, True, True]), Bernoulli(1, 1), hazard=0.2, ticks=8, seed=1)
    >>> bool((np.array([0.0, 1.0, 1.0])[drawn.item] == drawn.truth).all())
    True
    """
    hazard, ticks = probability("", "hazard", hazard), whole("", "ticks", ticks, 1)
    rng = np.random.default_rng(seed)
    begins = rng.random(ticks) < hazard
    begins[0] = False
    regime = np.cumsum(begins)
    theta = rng.beta(model.alpha, model.beta, size=ticks)[regime]
    truth = rng.random(ticks) < theta
    share = rng.random(ticks)
    item = np.empty(ticks, dtype=np.int64)
    for kind in (False, True):
        pool = np.flatnonzero(label == kind)
        item[truth == kind] = pool[(share[truth == kind] * pool.size).astype(np.int64)]
    return Sample(item, truth.astype(np.float64), theta, np.flatnonzero(begins))
