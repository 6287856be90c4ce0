"""Families of streams with two fidelities: four synthetic ones and eight of real data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mfbocd import datasets
from mfbocd.datasets import simulate
from mfbocd.models import Bernoulli, Gaussian, Model
from mfbocd.policy.fidelity import Fidelity

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Drawn:
    """One stream."""

    table: Array
    """Readings, (T, 2): low fidelity, high fidelity."""
    truth: Array | None
    """The true mean at each tick, if known."""
    changes: NDArray[np.int64]
    """Ticks of the true changes."""
    warmup: int = 0
    """Leading ticks that served as held-out data and are not scored."""


@dataclass(frozen=True)
class Family:
    """A kind of stream, and the settings of its detector."""

    name: str
    model: Model
    fidelities: tuple[Fidelity, Fidelity]
    hazard: float
    draw: Callable[[int], Drawn]
    single: bool = False
    """There is only one stream: seeds vary the policy's draws alone."""
    about: str = ""

    def streams(self, count: int, first: int) -> list[Drawn]:
        """`count` streams, with seeds from `first`."""
        return [self.draw(0)] * count if self.single else [self.draw(first + i) for i in range(count)]


def _pair(zeta: float, cost: float) -> tuple[Fidelity, Fidelity]:
    return Fidelity("low", zeta, 1.0), Fidelity("high", 1.0, cost)


def _gaussian(name: str, model: Gaussian, zeta: float, cost: float, hazard: float, ticks: int) -> Family:
    fidelities = _pair(zeta, cost)

    def draw(seed: int) -> Drawn:
        stream = simulate.gaussian(model, fidelities, hazard, ticks=ticks, seed=seed)
        return Drawn(stream.table, stream.theta, stream.changes)

    about = f"{model!r}, low zeta {zeta:g}, {ticks} ticks, hazard 1/{1 / hazard:g}"
    return Family(name, model, fidelities, hazard, draw, about=about)


def _bernoulli(name: str, model: Bernoulli, zeta: float, cost: float, hazard: float, ticks: int, low: str) -> Family:
    fidelities = _pair(zeta, cost)

    def draw(seed: int) -> Drawn:
        stream = simulate.bernoulli(model, fidelities, hazard, ticks=ticks, seed=seed, low=low)
        return Drawn(stream.table, stream.theta, stream.changes)

    how = "low flips labels" if low == "flip" else "low reads Bern(zeta theta)"
    about = f"{model!r}, {how}, zeta {zeta:g}, {ticks} ticks, hazard 1/{1 / hazard:g}"
    return Family(name, model, fidelities, hazard, draw, about=about)


def _real(name: str, make: Callable[[int], datasets.RealStream], single: bool, low: int = 0) -> Family:
    first = make(0)
    columns = [low, -1]
    cheap, expensive = first.fidelities[low], first.fidelities[-1]

    def draw(seed: int) -> Drawn:
        stream = make(seed)
        truth = stream.theta if stream.theta is not None else stream.truth
        return Drawn(stream.table[:, columns], truth, stream.changes, stream.warmup)

    about = (
        f"{first.model!r}, {cheap.name} (zeta {cheap.zeta:.3g}) against {expensive.name}, {len(first.table)} ticks"
    )
    return Family(name, first.model, (cheap, expensive), first.hazard, draw, single=single, about=about)


def _toycar(machine: int) -> Family:
    return _real(f"toycar-{machine}", lambda seed: datasets.toycar(machine, seed, zeta="information"), False, low=1)


FAMILIES: dict[str, Callable[[], Family]] = {
    "gaussian-half": lambda: _gaussian("gaussian-half", Gaussian(1, 3, 1), 0.5, 2.0, 1 / 100, 300),
    "gaussian-tenth": lambda: _gaussian("gaussian-tenth", Gaussian(0, 9, 1), 0.1, 10.0, 1 / 50, 300),
    "bernoulli-flip": lambda: _bernoulli("bernoulli-flip", Bernoulli(0.5, 0.5), 0.49, 10.0, 1 / 100, 300, "flip"),
    "bernoulli-paper": lambda: _bernoulli("bernoulli-paper", Bernoulli(0.1, 0.1), 0.5, 2.0, 1 / 100, 300, "miss"),
    "run-log": lambda: _real("run-log", lambda _: datasets.run_log(), single=True),
    "digits": lambda: _real("digits", lambda seed: datasets.digits(seed, ticks=300), single=False),
    "camvid": lambda: _real("camvid", lambda _: datasets.camvid_fence("information"), single=True),
    "camvid-accuracy": lambda: _real("camvid-accuracy", lambda _: datasets.camvid_fence("accuracy"), single=True),
    "toycar-1": lambda: _toycar(1),
    "toycar-2": lambda: _toycar(2),
    "toycar-3": lambda: _toycar(3),
    "toycar-4": lambda: _toycar(4),
}
"""By name. The real ones use the cheapest and the most expensive fidelity, ToyCar 4 windows and 196 (one window
carries hardly any information). zeta is (2 q - 1)^2 on held-out data; `camvid-accuracy` uses an accuracy instead, as
the paper does."""
