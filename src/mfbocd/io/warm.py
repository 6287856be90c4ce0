"""Compiled kernels before they are needed: numba compiles on the first call, which takes seconds to minutes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numba.core import event

from .._kernels import layout, weights
from ..belief.state import state_of, table
from ..detector.detector import Detector
from ..detector.step import Step, reading
from ..policy.fidelity import Fidelity, uncorrected
from .config import Config, model_kinds
from .config.parts import fidelities_of

FIDELITIES = [{"name": "low", "zeta": 0.5, "cost": 1.0}, {"name": "high", "zeta": 1.0, "cost": 5.0}]
NEEDED: dict[str, dict[str, Any]] = {
    "binomial": {"trials": 10},
    "categorical": {"alpha": [1.0, 1.0, 1.0]},
    "confusion": {"matrices": [[0.5, [[0.9, 0.1], [0.1, 0.9]]]]},
    "fixed_season": {"model": {"kind": "gaussian"}, "period": 24.0, "cosine": [1.5, 0.2], "sine": [-0.4, 0.1]},
    "gamma": {"known": 2.0},
    "linear_regression": {"covariates": 1},
    "mixture": {"parts": [{"kind": "gaussian"}, {"kind": "gaussian_unknown"}]},
    "multivariate_gaussian": {"mean": [0.0, 0.0]},
    "multivariate_gaussian_unknown": {"mean": [0.0, 0.0]},
    "outliers": {"model": {"kind": "gaussian"}},
    "product": {"parts": [{"kind": "gaussian"}, {"kind": "bernoulli"}]},
    "rounded": {"model": {"kind": "gaussian_unknown"}, "step": 0.1},
    "scaled": {"model": {"kind": "gaussian"}, "scale": 1e6},
    "seasonal": {"period": 12.0},
    "transformed": {"model": {"kind": "gaussian_unknown"}, "function": "log"},
    "vector_autoregressive": {"order": 1, "mean": [0.0, 0.0]},
}
"""Arguments of the families that have no defaults for all of them."""


class Uncompiled(Exception):  # noqa: N818 (it says what is the case)
    """A kernel is not in the cache on disk."""


def example(kind: str) -> Config:
    """A config of a family.

    >>> example("poisson").model["kind"]
    'poisson'
    """
    if kind not in model_kinds():
        raise ValueError(f"{kind!r} is none of {', '.join(sorted(model_kinds()))}")
    return Config.parse({"model": {"kind": kind, **NEEDED.get(kind, {})}, "fidelity": FIDELITIES})


class Rehearsal(NamedTuple):
    """The last tick of a rehearsal: a record of every kind that a service makes of a tick."""

    step: Step
    spent: float
    likely: list[list[float]]
    gains: list[float]
    saved: bytes


def rehearse(config: Config) -> Rehearsal:
    """Run the first ticks of a detector and of a fleet, which compiles or loads every kernel that they need.

    Returns
    -------
    Rehearsal
        The last tick, at which nothing is read.
    """
    detector = config.detector(missing="skip", shared=True)
    # typical readings are corrected ones
    plain = uncorrected(detector.fidelities)
    if plain != detector.fidelities:
        detector = config.detector(missing="skip", shared=True, fidelities=plain)
    cheap = [replace(f, cost=min(f.cost_of(), 1.0)) for f in plain]  # some costs do not add up
    fleet = config.fleet(2, shared=True, share_policy=False, fidelities=cheap, missing="skip", threads=1)
    x = typical(detector)
    for some in ([0, 1], [0]):
        for j in range(len(cheap)):
            fleet.update([x] * len(some), [j] * len(some), streams=some)
    detector.update(x, detector.fidelities[-1])
    detector.update(None)
    last = fleet.update([None], cheap[-1].name, streams=[0])
    return Rehearsal(
        last.steps()[0],
        float(fleet.spent_by_stream[0]),
        fleet.likely(0.01, 16, streams=[0])[0],
        fleet.decide(streams=[0]).gains[0].tolist(),
        fleet.to_bytes(0),
    )


def typical(detector: Detector) -> Any:
    """Return a reading near what is expected; None if the model takes no such reading."""
    try:
        with np.errstate(all="ignore"):
            return reading(detector.model, detector.model.nearest(detector.mean), "skip")
    except (TypeError, ValueError, ArithmeticError):
        return None


DIFFERENT = 32
"""Ticks by which the hypotheses of `crowded` are made to differ."""


def crowded(config: Config, largest: int) -> Detector:
    """Return a detector with as many hypotheses as can be alive, all equally probable: its next tick takes longest.

    Parameters
    ----------
    config : Config
        The configuration.
    largest : int
        Bytes of a state that no pruning bounds.
    """
    detector = config.detector(missing="skip", shared=True, fidelities=uncorrected(_fidelities(config)))
    model, most = detector.model, detector.pruning.most
    start = detector._filter.state
    hypotheses = most or max(int(largest / (start.itemsize * start[layout.COLUMNS])), 1)
    for x in _readings(detector, min(hypotheses, DIFFERENT)):
        detector.update(x, detector.fidelities[-1])
    state = detector._filter.state
    head, live = state[: layout.HEAD].copy(), table(state)
    live = live[:, np.arange(hypotheses) % live.shape[1]]
    live[layout.WEIGHT] = 1.0 / hypotheses
    live[layout.BIRTH] = np.arange(hypotheses)
    head[layout.COUNT] = hypotheses
    head[layout.TOTAL] = 1.0
    head[layout.TICK] = max(head[layout.TICK], hypotheses - 1.0)
    head[layout.MAP_INDEX] = 0.0
    detector._adopt(state_of(model, head, live, hypotheses + 2), detector.spent)
    return detector


def _fidelities(config: Config) -> tuple[Fidelity, ...]:
    return fidelities_of(config.fidelities, {})


def _readings(detector: Detector, ticks: int) -> list[Any]:
    """Return readings of one regime; what is expected where the model cannot draw them."""
    try:
        drawn = detector.model.sample(np.random.default_rng(0), ticks)
        return [reading(detector.model, x, "skip") for x in drawn.tolist()]
    except (NotImplementedError, TypeError, ValueError, ArithmeticError):
        return [typical(detector)] * ticks


def structure(config: Mapping[str, Any]) -> str:
    """The parts of a config that decide which kernels it needs: not the values of numbers, not names of fidelities.

    >>> one = {"model": {"kind": "gaussian", "mean": 3}, "fidelity": [{"name": "gps", "zeta": 1, "cost": 7.5}]}
    >>> other = {"model": {"kind": "gaussian", "mean": 8}, "fidelity": [{"name": "imu", "zeta": 1, "cost": 2.5}]}
    >>> structure(one) == structure(other)
    True
    """
    parts = {key: config.get(key) for key in ("model", "hazard", "policy", "prune", "alarm", "fidelity")}
    return json.dumps(_outline(parts), sort_keys=True)


def _outline(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _outline(inner) for key, inner in value.items() if key not in ("name", "column")}
    if isinstance(value, (list, tuple)):
        return sorted({json.dumps(_outline(inner), sort_keys=True) for inner in value})
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    return int(value) if value in (0, 1) else "number"  # 0 and 1 stay: some models treat them as special cases


class Watch:
    """What one thread compiles."""

    def __init__(self, *, refuse: bool, before: Callable[[], None] | None) -> None:
        self.refuse, self.before, self.compiled = refuse, before, 0


class _Listener(event.Listener):
    """Notifies the thread that is about to compile a kernel; never removed, since numba's list has no lock."""

    def __init__(self) -> None:
        self.of = threading.local()

    def on_start(self, event: event.Event) -> None:
        watch: Watch | None = getattr(self.of, "watch", None)
        if watch is not None:
            if watch.refuse:
                raise Uncompiled(event.data["dispatcher"].__name__)
            watch.compiled += 1
            if watch.compiled == 1 and watch.before is not None:
                watch.before()

    def on_end(self, event: event.Event) -> None:
        """Do nothing."""


_LISTENER = _Listener()
event.register("numba:compile", _LISTENER)  # type: ignore[no-untyped-call]


@contextmanager
def watched(*, refuse: bool = False, before: Callable[[], None] | None = None) -> Iterator[Watch]:
    """Count the kernels that this thread compiles; with `refuse` the first raises `Uncompiled` instead.

    `before` is called once, before the first of them.
    """
    _LISTENER.of.watch = watch = Watch(refuse=refuse, before=before)
    try:
        yield watch
    finally:
        _LISTENER.of.watch = None


def folder() -> str:
    """Where compiled kernels are kept; numba decides, and `NUMBA_CACHE_DIR` sets another place."""
    stats = getattr(weights.begin_tick, "stats", None)
    return "nowhere: NUMBA_DISABLE_JIT is set" if stats is None else str(stats.cache_path)
