"""Settings of real readings: machine sounds, handwritten digits and one logged run."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise

import numpy as np

from mfbocd import datasets

from .settings import Array, Drawn, Setting

NEVER = 1e-9  # hazard of a sampled stream without changes
APART = 0.4  # smallest change of theta
LEAD, WAIT, EVERY = 200, 500, 500.0
BLOCK = 8  # consecutive residuals of the run that stay together
Make = Callable[..., datasets.RealStream]


def _toycar(machine: int, seed: int, ticks: int) -> datasets.RealStream:
    return datasets.toycar(machine, seed, ticks=ticks, hazard=NEVER, zeta="information")


def _digits(seed: int, ticks: int) -> datasets.RealStream:
    return datasets.digits(seed, ticks=ticks, hazard=NEVER)


def _sampled(name: str, about: str, make: Make, columns: list[int]) -> Setting:
    """Items with labels of probability theta; theta is uniform, and changes by at least APART."""
    first = make(seed=0, ticks=1)
    fidelities = tuple(first.fidelities[j] for j in columns)
    return Setting(
        name,
        about,
        first.model,
        fidelities,
        1 / 200,
        partial(_constant, make=make, columns=columns),
        {f"theta by {APART} or more": partial(_glued, make=make, columns=columns)},
        every=EVERY,
        lead=LEAD,
        wait=WAIT,
    )


def _constant(seed: int, n: int, ticks: int, *, make: Make, columns: list[int]) -> Array:
    return np.stack([make(seed=seed * 1000 + i, ticks=ticks).table[:, columns] for i in range(n)], axis=1)


def _glued(seed: int, n: int, *, make: Make, columns: list[int]) -> Drawn:
    """Two sampled streams of constant theta each, one after the other."""
    tables: list[Array] = []
    next_seed = seed * 1000
    while len(tables) < n:
        before, after = make(seed=next_seed, ticks=LEAD), make(seed=next_seed + 1, ticks=WAIT)
        next_seed += 2
        assert before.theta is not None
        assert after.theta is not None
        if abs(before.theta[0] - after.theta[0]) >= APART:
            tables.append(np.concatenate([before.table, after.table])[:, columns])
    return Drawn(np.stack(tables, axis=1), (LEAD,))


# --- the logged run ------------------------------------------------------------------------------------------------


@cache
def _run() -> datasets.RealStream:
    return datasets.run_log()


def _resampled(seed: int, n: int, ticks: int) -> Array:
    """Quiet streams: blocks of residuals of the run around the mean pace of their regime, at the prior mean."""
    run = _run()
    edges = [1, *run.changes.tolist(), len(run.table)]
    residuals = np.concatenate([run.table[a:b] - run.table[a:b, -1].mean() for a, b in pairwise(edges)])
    rng = np.random.default_rng([seed, 0])
    starts = rng.integers(0, len(residuals) - BLOCK, size=(-(-ticks // BLOCK), n))
    blocks = residuals[starts[:, None, :] + np.arange(BLOCK)[None, :, None]]
    return np.asarray(12.0 + blocks.reshape(-1, n, run.table.shape[1])[:ticks])


def _copies(seed: int, n: int) -> Drawn:
    """The run itself; copies differ in the draws of the policy only."""
    run = _run()
    return Drawn(np.repeat(run.table[:, None], n, axis=1), tuple(run.changes.tolist()))


def _run_log() -> Setting:
    run = _run()
    return Setting(
        "run-log",
        f"pace of one run, {len(run.table)} ticks, {len(run.changes)} annotated changes; thresholds are calibrated "
        "on resampled residuals",
        run.model,
        run.fidelities,
        run.hazard,
        _resampled,
        {"annotated": _copies},
        every=EVERY,
        within=50,
        lead=run.warmup,
        wait=WAIT,
        single=True,
    )


REAL: dict[str, Callable[[], Setting]] = {
    "toycar-1": lambda: _sampled("toycar-1", "ToyCar machine 1, 4 or 196 windows", partial(_toycar, 1), [1, -1]),
    "toycar-4": lambda: _sampled("toycar-4", "ToyCar machine 4, 4 or 196 windows", partial(_toycar, 4), [1, -1]),
    "digits": lambda: _sampled("digits", "handwritten digits, tiny or large network", _digits, [0, -1]),
    "run-log": _run_log,
}
