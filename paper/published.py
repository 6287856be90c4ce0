"""The paper's own code, where it behaves differently from the paper's equations.

1. The Gaussian's update (`MfNormal.update_params` in its `models/normal.py`) stores the NEW precisions before it
   updates the means, and then weights each mean with them. In order, with run lengths from 0 on:

       new  = precision + zeta / noise_var
       precision = [1 / var, *new]                      # shifted by one: a run is one longer
       mean = (mean * precision[:-1] + zeta * x / noise_var) / new

   The mean of run length l should be weighted with its own old precision, 1 / var + sum of zeta / noise_var over its
   last l readings. `precision[:-1]` is instead the new precision of run length l - 1, in which the zeta of the
   current reading replaces the zeta of the run's first reading. With one fidelity the two are equal, and the code is
   correct. Otherwise the weights of the old mean and of the reading do not sum to 1 but to
   1 + (zeta now - zeta first) / (noise_var * new): the mean moves away from zero at a reading of higher fidelity than
   the run's first, and towards zero at one of lower fidelity. The predictive, and with it the run length and the
   gain, use these means. `correct=True` removes this mistake and no other.
2. The Gaussian's gain integrates over x with 50 Gauss-Hermite nodes that are never shifted or scaled to the data:
   E_x H(r | x) = sum_i w_i e^{x_i^2} p(x_i) H(r | x_i) (`mi_rx`). It is accurate only for data within about 9 of
   zero. The Bernoulli's is `mi_xr`, the finite sum over both outcomes of a predictive that does not sum to one.
3. The predicted mean combines the UPDATED statistics with the run-length weights from BEFORE the reading.
4. Data are drawn with standard deviations where the paper writes variances.
5. The run-length matrix is that of the NEXT point: its first column is always the hazard. Its first row is e, not 1
   (the code starts from log R[0, 0] = 1), so the first predicted mean is e times the prior's.

A negative gain is replaced by 1e-20, as in its code. At the first tick this happens to both gains, so the choice
depends on the weights and costs alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfbocd._kernels.compile import kernel
from mfbocd._kernels.gamma import coefficients, quotient
from mfbocd._kernels.scalar import exp, log
from mfbocd.belief.filter import Filter
from mfbocd.datasets.simulate import Stream
from mfbocd.datasets.simulate import gaussian as simulate_gaussian
from mfbocd.models import Bernoulli, Gaussian, Model
from mfbocd.policy.fidelity import Fidelity

Array = NDArray[np.float64]
Choices = NDArray[np.int64]

LIBRARY, PUBLISHED, CORRECTED = "library", "as published", "published, correct updates"
"""The engines: this library; the paper's code; the paper's code without the mistake in weighting the means."""
NODES, _WEIGHTS = np.polynomial.hermite.hermgauss(50)
OMEGA = _WEIGHTS * np.exp(NODES**2)
SMALL = 1e-20


class Run(NamedTuple):
    """One stream, filtered as published."""

    choice: Choices
    """(T,): index of the fidelity read."""
    posterior: Array
    """(T + 1, T + 1): row t is the run length of the point after t readings."""
    mean: Array
    """(T,): the predicted mean, from weights of the tick before."""


def draw(model: Gaussian, fidelities: Sequence[Fidelity], hazard: float, *, ticks: int, seed: int) -> Stream:
    """Regimes with theta of STANDARD DEVIATION var, read with noise of STANDARD DEVIATION noise_var / zeta.

    >>> fidelities = Fidelity("low", 0.5, 1), Fidelity("high", 1, 2)
    >>> stream = draw(Gaussian(1, 3, 1), fidelities, 0.02, ticks=20_000, seed=1)
    >>> deviation = (stream.table - stream.theta[:, None]).std(axis=0)
    >>> deviation.round(1)  # not the square roots of 2 and 1
    array([2., 1.])
    """
    squared = [Fidelity(f.name, f.zeta**2, f.cost) for f in fidelities]
    return simulate_gaussian(
        Gaussian(model.mean, model.var**2, model.noise_var**2), squared, hazard, ticks=ticks, seed=seed
    )


def run(
    model: Model,
    zeta: Sequence[float],
    hazard: float,
    table: Array,
    *,
    rates: Sequence[float] = (),
    margin: float | None = None,
    choice: Choices | None = None,
    correct: bool = False,
) -> Run:
    """Filter one stream (T, J); read the fidelity with the largest rate times gain, or as `margin` or `choice` says.

    `rates` are weight / cost of each fidelity; of equal products the first is read. With a `margin` (for a Gaussian
    with two fidelities) the first fidelity is read where the two gains differ by less than it, else the second.
    `correct` weights a Gaussian's means with the right precisions; everything else stays as published.

    >>> table = np.array([[0.0, 0.1], [0.3, -0.2], [4.9, 5.1], [5.3, 5.0]])
    >>> found = run(Gaussian(1, 3, 1), (0.5, 1.0), 1 / 50, table, rates=(1.0, 0.7))
    >>> found.choice, found.mean.round(3)
    (array([0, 1, 1, 1]), array([2.718, 0.118, 2.242, 3.759]))
    >>> run(Gaussian(1, 3, 1), (0.5, 1.0), 1 / 50, table, choice=found.choice, correct=True).mean.round(3)
    array([2.718, 0.118, 2.242, 3.805])
    >>> found.posterior[:, 0].round(3)
    array([2.718, 0.02 , 0.02 , 0.02 , 0.02 ])
    """
    ticks = len(table)
    forced = np.full(ticks, -1, dtype=np.int64) if choice is None else choice
    if margin is not None and (len(zeta) != 2 or not isinstance(model, Gaussian)):
        raise ValueError(f"margin is for a Gaussian and two fidelities, not {model!r} and {len(zeta)}")
    if choice is None and margin is None and len(rates) != len(zeta):
        raise ValueError(f"rates must be {len(zeta)} numbers, one per fidelity, not {tuple(rates)!r}")
    chosen = np.empty(ticks, dtype=np.int64)
    posterior = np.zeros((ticks + 1, ticks + 1))
    mean = np.empty(ticks)
    zetas, factors = np.asarray(zeta, dtype=float), np.asarray(rates, dtype=float)
    readings = np.ascontiguousarray(table, dtype=float)
    out = (chosen, posterior, mean)
    if isinstance(model, Gaussian):
        prior = (float(model.mean), float(model.var), float(model.noise_var))
        delta = -1.0 if margin is None else float(margin)
        _run_gaussian(readings, zetas, factors, delta, forced, prior, float(hazard), correct, NODES, OMEGA, *out)
    elif isinstance(model, Bernoulli):
        shape = (float(model.alpha), float(model.beta))
        _run_bernoulli(readings, zetas, factors, forced, shape, float(hazard), *out)
    else:
        raise TypeError(f"model must be Gaussian or Bernoulli, as in the paper's code, not {model!r}")
    return Run(chosen, posterior, mean)


def errors(
    model: Model,
    zeta: Sequence[float],
    hazard: float,
    tables: Sequence[Array],
    choices: Sequence[Choices],
    correct: bool = False,
) -> tuple[list[float], list[float]]:
    """Of each stream under its choices: MSE of the mean and L1 of the run-length matrix, to the all-high run."""
    mse, l1 = [], []
    for table, choice in zip(tables, choices, strict=True):
        mine = run(model, zeta, hazard, table, choice=choice, correct=correct)
        high = run(model, (1.0, 1.0), hazard, table, choice=np.ones(len(table), dtype=np.int64))
        mse.append(float(np.mean((mine.mean - high.mean) ** 2)))
        l1.append(float(np.abs(mine.posterior - high.posterior).sum()))
    return mse, l1


def gains(belief: Filter, zeta: Array) -> Array:
    """The published gain of a reading at each zeta, computed from a run-length posterior of the library.

    >>> from mfbocd.belief.hazard import Hazard
    >>> from mfbocd.belief.pruning import Pruning
    >>> far = [Filter(Gaussian(centre, 9, 1), Hazard(0.01), Pruning.of(None)) for centre in (0, 100)]
    >>> for f in far:
    ...     report = f.observe(f.model.mean + 1.0, 1.0)
    >>> [gains(f, np.array([0.5, 1.0])).round(4).tolist() for f in far]  # the same belief, shifted by 100
    [[0.007, 0.0105], [0.1114, 0.1114]]
    """
    weight, stats = belief.predicted()
    model, hazard = belief.model, float(belief.hazard(0))
    if isinstance(model, Gaussian):
        mean, spread = model.mean + math.sqrt(model.noise_var) * stats[1], model.noise_var / stats[0]
        return np.array(
            [
                _gaussian_gain(weight, mean, spread, weight.size, model.noise_var / z, hazard, NODES, OMEGA)
                for z in zeta
            ]
        )
    if isinstance(model, Bernoulli):
        a, b = np.ascontiguousarray(stats[0]), np.ascontiguousarray(stats[1])
        return np.array([_bernoulli_gain(weight, a, b, weight.size, z) for z in zeta])
    raise TypeError(f"model must be Gaussian or Bernoulli, as in the paper's code, not {model!r}")


@kernel
def _gaussian_gain(
    weight: Array, mean: Array, spread: Array, n: int, blur: float, hazard: float, nodes: Array, omega: Array
) -> float:
    """`mi_rx` of the NEXT point's run length, whose entropy is that of a change plus 1 - h times that of r.

    `spread` is the variance of theta, `blur` that of a reading around it. The weights are those of the code: their
    sum is e before the first reading.
    """
    logs = np.empty(n)
    precision = np.empty(n)
    total = 0.0
    surprise = 0.0
    for i in range(n):
        w = log(max(weight[i], 1e-300))
        total += weight[i]
        surprise += weight[i] * w
        precision[i] = 1.0 / (spread[i] + blur)
        logs[i] = w
    change = -hazard * math.log(hazard) - (1.0 - hazard) * math.log(1.0 - hazard)
    before = change + (1.0 - hazard) * (math.log(total) - surprise / total)
    scale = np.empty(n)
    for i in range(n):
        scale[i] = 0.5 * log(precision[i] / (2.0 * math.pi))
    after = 0.0
    for k in range(nodes.size):
        x = nodes[k]
        density = 0.0
        inner = 0.0
        for i in range(n):
            d = x - mean[i]
            e = scale[i] - 0.5 * precision[i] * d * d
            w = weight[i] * exp(e)
            density += w
            inner += w * (logs[i] + e)
        if density > 1e-280:
            after += omega[k] * density * (change + (1.0 - hazard) * (math.log(density) - inner / density))
    gain = before - after
    return gain if gain >= 0.0 else SMALL


@kernel
def _bernoulli_gain(weight: Array, a: Array, b: Array, n: int, zeta: float) -> float:
    """`mi_xr` from the two values of the predictive, which at zeta < 1 sum to more than one."""
    one = 0.0
    zero = 0.0
    within = 0.0
    if zeta == 1.0:
        for i in range(n):
            q1 = a[i] / (a[i] + b[i])
            q0 = b[i] / (a[i] + b[i])
            one += weight[i] * q1
            zero += weight[i] * q0
            within -= weight[i] * (q1 * log(q1) + q0 * log(q0))
    else:
        c = coefficients(zeta)
        for i in range(n):
            q1 = quotient(a[i], a[i] + b[i], zeta, c)
            q0 = quotient(b[i], a[i] + b[i], zeta, c)
            one += weight[i] * q1
            zero += weight[i] * q0
            within -= weight[i] * (q1 * log(q1) + q0 * log(q0))
    gain = -one * math.log(one) - zero * math.log(zero) - within
    return gain if gain >= 0.0 else SMALL


@kernel
def _run_gaussian(
    table: Array,
    zeta: Array,
    rates: Array,
    margin: float,
    forced: Choices,
    prior: tuple[float, float, float],
    hazard: float,
    correct: bool,
    nodes: Array,
    omega: Array,
    choice: Choices,
    posterior: Array,
    predicted: Array,
) -> None:
    """The paper's loop. Hypotheses are ordered by start: that of tick b has t - b readings before tick t."""
    ticks = table.shape[0]
    centre, var, noise_var = prior
    weight = np.empty(ticks + 1)
    mean = np.empty(ticks + 1)
    spread = np.empty(ticks + 1)
    value = np.empty(ticks + 1)
    weight[0] = math.e
    mean[0] = centre
    spread[0] = var
    posterior[0, 0] = math.e
    for t in range(ticks):
        n = t + 1
        j = forced[t]
        if j < 0 and margin >= 0.0:
            low = _gaussian_gain(weight, mean, spread, n, noise_var / zeta[0], hazard, nodes, omega)
            high = _gaussian_gain(weight, mean, spread, n, noise_var / zeta[1], hazard, nodes, omega)
            j = 0 if abs(low - high) < margin else 1
        elif j < 0:
            best = -1.0
            for k in range(zeta.size):
                gain = _gaussian_gain(weight, mean, spread, n, noise_var / zeta[k], hazard, nodes, omega)
                if rates[k] * gain > best:
                    best = rates[k] * gain
                    j = k
        choice[t] = j
        x = table[t, j]
        blur = noise_var / zeta[j]
        top = -math.inf
        for i in range(n):
            v = spread[i] + blur
            d = x - mean[i]
            value[i] = -0.5 * (log(v) + d * d / v)
            top = max(top, value[i])
            # weight of the old mean, precision * variance: as published, the precision is the new one of the
            # hypothesis started one tick later, whose variance is updated in the next iteration
            kept = blur / v
            updated = spread[i] * kept
            if not correct and i < n - 1:
                kept = (1.0 / spread[i + 1] + 1.0 / blur) * updated
            mean[i] = kept * mean[i] + x * updated / blur
            spread[i] = updated
        for i in range(n):
            value[i] = exp(value[i] - top)
        mean[n] = centre
        spread[n] = var
        _finish_tick(weight, mean, value, n, hazard, t, posterior, predicted)


@kernel
def _run_bernoulli(
    table: Array,
    zeta: Array,
    rates: Array,
    forced: Choices,
    prior: tuple[float, float],
    hazard: float,
    choice: Choices,
    posterior: Array,
    predicted: Array,
) -> None:
    """As `_run_gaussian`."""
    ticks = table.shape[0]
    alpha, beta = prior
    weight = np.empty(ticks + 1)
    mean = np.empty(ticks + 1)
    a = np.empty(ticks + 1)
    b = np.empty(ticks + 1)
    value = np.empty(ticks + 1)
    weight[0] = math.e
    a[0] = alpha
    b[0] = beta
    posterior[0, 0] = math.e
    for t in range(ticks):
        n = t + 1
        j = forced[t]
        if j < 0:
            best = -1.0
            for k in range(zeta.size):
                gain = _bernoulli_gain(weight, a, b, n, zeta[k])
                if rates[k] * gain > best:
                    best = rates[k] * gain
                    j = k
        choice[t] = j
        x = table[t, j]
        hit = a if x == 1.0 else b
        if zeta[j] == 1.0:
            for i in range(n):
                value[i] = hit[i] / (a[i] + b[i])
        else:
            c = coefficients(zeta[j])
            for i in range(n):
                value[i] = quotient(hit[i], a[i] + b[i], zeta[j], c)
        for i in range(n):
            a[i] += zeta[j] * x
            b[i] += zeta[j] * (1.0 - x)
        a[n] = alpha
        b[n] = beta
        for i in range(n + 1):
            mean[i] = a[i] / (a[i] + b[i])
        _finish_tick(weight, mean, value, n, hazard, t, posterior, predicted)


@kernel
def _finish_tick(
    weight: Array,
    mean: Array,
    value: Array,
    n: int,
    hazard: float,
    t: int,
    posterior: Array,
    predicted: Array,
) -> None:
    """Steps 4 and 6: the next point's run length, and the mean with the weights from before the reading.

    `value` is each hypothesis's predictive at the reading, up to a common factor. The code pairs the weight of run
    length l with the mean after l readings including this one: that of the hypothesis started one tick later.
    """
    stale = 0.0
    for i in range(n):
        stale += mean[i + 1] * weight[i]
    predicted[t] = stale
    total = 0.0
    for i in range(n):
        weight[i] *= value[i]
        total += weight[i]
    for i in range(n):
        weight[i] *= (1.0 - hazard) / total
    weight[n] = hazard
    for length in range(n + 1):
        posterior[t + 1, length] = weight[n - length]
