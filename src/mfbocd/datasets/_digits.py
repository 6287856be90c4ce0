"""Odd or even: handwritten digits read by a tiny and by a large network."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ..models import Bernoulli
from ..policy.fidelity import Fidelity
from ._held_out import Bits, Zeta, relative_zeta
from ._labelled import draw
from ._stream import RealStream, extra

HIDDEN = {"small": 1, "large": 128}
"""Hidden units of each network."""
TRAIN, VALIDATION = 897, 450
"""Number of images for training and for validation; the other 450 are for the stream."""
_SOURCE = """\
scikit-learn's digits: 1797 images of 8x8 pixels, the test part of "Optical Recognition of Handwritten Digits"
(Alpaydin and Kaynak 1998, UCI Machine Learning Repository), as carried by the scikit-learn wheel
(BSD-3-Clause). The readings are those of two networks trained here on the first use."""


class NetworkReadings(NamedTuple):
    """Readings of both networks on images that neither was trained on.

    Attributes
    ----------
    odd : numpy.ndarray
        (N,): whether the digit is odd.
    network : numpy.ndarray
        (N, 2): the reading of each network.
    cost : tuple[int, ...]
        Multiply-adds of each network per image.
    """

    odd: Bits
    network: Bits
    cost: tuple[int, ...]


def digits(seed: int, *, ticks: int = 500, hazard: float = 1 / 50, zeta: Zeta = "information") -> RealStream:
    """Return whether a handwritten digit is odd, at two fidelities.

    theta is piecewise constant and y_t ~ Bernoulli(theta_t) is `truth`. The image at tick t is a random odd or even
    one of the 450 test images, as y_t says. It is read by two networks with one hidden layer, of 1 and of 128 units;
    the cost of a reading is the network's number of multiply-adds, biases not counted. They are trained on 897 images
    at the first call of a process (about a second). zeta is the `relative_zeta` of the two on another 450 images. The
    split and the training have fixed seeds.

    Parameters
    ----------
    seed : int
        Seed of the stream.
    ticks : int
        Length of the stream; 500 by default.
    hazard : float
        P(change) per tick; 1/50 by default.
    zeta : {"accuracy", "information", "tpr"}
        How zeta is computed (`relative_zeta`); "information" by default.

    Returns
    -------
    RealStream
        The stream, with a Bernoulli model.

    Raises
    ------
    ImportError
        If scikit-learn is not installed.
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> stream = digits(seed=1)
    >>> stream.table.shape, [f.cost for f in stream.fidelities]
    ((500, 2), [65.0, 8320.0])
    """
    validation, test = _trained()
    model = Bernoulli(1, 1)
    drawn = draw(test.odd, model, hazard, ticks, seed)
    return RealStream(
        table=test.network[drawn.item].astype(np.float64),
        fidelities=tuple(
            Fidelity(name, zeta=relative_zeta(low, validation.network[:, -1], zeta), cost=cost)
            for name, low, cost in zip(HIDDEN, validation.network.T, validation.cost, strict=True)
        ),
        model=model,
        hazard=hazard,
        truth=drawn.truth,
        changes=drawn.changes,
        theta=drawn.theta,
        source=_SOURCE,
        note="Costs in multiply-adds. The large network is wrong on two or three images in a hundred; which ones "
        "depends on the version of scikit-learn.",
    )


@cache
def _trained() -> tuple[NetworkReadings, NetworkReadings]:
    """Return validation and test readings; kept for the life of the process, never on disk."""
    datasets, neural = extra("sklearn.datasets"), extra("sklearn.neural_network")
    image, digit = datasets.load_digits(return_X_y=True)
    # a fixed, shuffled split: the data set is ordered by writer
    order = np.random.default_rng(0).permutation(digit.size)
    image, odd = image[order] / 16.0, digit[order] % 2 == 1
    networks = [
        neural.MLPClassifier((units,), activation="tanh", learning_rate_init=0.01, max_iter=1000, random_state=0).fit(
            image[:TRAIN], odd[:TRAIN]
        )
        for units in HIDDEN.values()
    ]
    reading = np.stack([network.predict(image) for network in networks], axis=1).astype(np.bool_)
    cost = tuple(sum(weight.size for weight in network.coefs_) for network in networks)
    first, second = slice(TRAIN, TRAIN + VALIDATION), slice(TRAIN + VALIDATION, None)
    return NetworkReadings(odd[first], reading[first], cost), NetworkReadings(odd[second], reading[second], cost)
