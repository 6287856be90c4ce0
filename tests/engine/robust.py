"""Truths of the models on a grid: the registry's formulas, by brute force over one parameter."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import integrate, optimize, special, stats

Readings = Sequence[tuple[float, float]]

# --- Student's t: a trapezoid twenty times finer than the model's grid, and twice as wide ------------------------
MEAN, VAR, NOISE, DEGREES = 1.5, 4.0, 0.7, 3.5
_LEVELS = np.linspace(MEAN - 24.0, MEAN + 24.0, 9_601)


def _student(readings: Readings) -> tuple[np.ndarray, float]:
    """The joint density of readings and level, and its integral."""
    logs = stats.norm(MEAN, math.sqrt(VAR)).logpdf(_LEVELS)
    for x, zeta in readings:
        if zeta > 0:
            logs = logs + stats.t(DEGREES, _LEVELS, math.sqrt(NOISE / zeta)).logpdf(x)
    density = np.exp(logs)
    return density, float(integrate.trapezoid(density, _LEVELS))


def student_marginal(readings: Readings) -> float:
    return math.log(_student(readings)[1])


def student_mean(readings: Readings) -> float:
    density, total = _student(readings)
    return float(integrate.trapezoid(density * _LEVELS, _LEVELS) / total)


# --- a classifier with more misses than false alarms --------------------------------------------------------------
RATES = np.linspace(0.01, 0.99, 50)
BELIEF = RATES * (1 - RATES) ** 2


def classifier(x, rate, zeta):  # type: ignore[no-untyped-def]
    """The likelihood that is passed to the model."""
    one = rate * (1 - 0.5 * (1 - zeta)) + (1 - rate) * 0.1 * (1 - zeta)
    return np.where(x == 1.0, one, 1.0 - one)


def _rates(readings: Readings) -> np.ndarray:
    """Prior times the product of likelihoods."""
    joint = BELIEF / BELIEF.sum()
    for x, zeta in readings:
        if zeta > 0:
            hit, false_alarm = 0.5 + 0.5 * zeta, 0.1 - 0.1 * zeta
            joint = joint * (
                (hit * RATES + false_alarm * (1 - RATES))
                if x
                else ((1 - hit) * RATES + (1 - false_alarm) * (1 - RATES))
            )
    return joint


def classifier_marginal(readings: Readings) -> float:
    return math.log(_rates(readings).sum())


def classifier_mean(readings: Readings) -> float:
    joint = _rates(readings)
    return float(joint @ RATES / joint.sum())


# --- a sensor that saturates ----------------------------------------------------------------------------------------
POSITIONS = np.linspace(-3.0, 3.0, 25)
LOW, CAP, SD = -50.0, 2.0, 0.5


def sensor(x, level, zeta):  # type: ignore[no-untyped-def]
    """The likelihood that is passed to the model: a normal density below the cap, at the cap the rest of the mass."""
    sd = SD / math.sqrt(zeta)
    return np.where(x >= CAP, stats.norm.sf((CAP - level) / sd), stats.norm.pdf((x - level) / sd) / sd)


def _positions(readings: Readings) -> np.ndarray:
    joint = np.full(POSITIONS.size, 1 / POSITIONS.size)
    for x, zeta in readings:
        if zeta > 0:
            noise = stats.norm(POSITIONS, SD / math.sqrt(zeta))
            joint = joint * (noise.sf(CAP) if x == CAP else noise.pdf(x))
    return joint


def sensor_marginal(readings: Readings) -> float:
    return math.log(_positions(readings).sum())


def sensor_mean(readings: Readings) -> float:
    """E min(level + noise, cap)."""
    joint = _positions(readings)
    a = (CAP - POSITIONS) / SD
    mean = POSITIONS * stats.norm.cdf(a) - SD * stats.norm.pdf(a) + CAP * stats.norm.sf(a)
    return float(joint @ mean / joint.sum())


def saturated(rng: np.random.Generator) -> float:
    return float(min(rng.normal(1.0, 1.5), CAP))


# --- Student's t of unknown scale: a dense integral over the precision of a reading, then matched moments ---------
LEVEL, WORTH, FORM, SIZE, TAILS = 0.7, 0.6, 2.3, 1.9, 3.5
_LOG_PRECISION = np.linspace(-30.0, 5.0, 3_501)
_SHARE = stats.loggamma(0.5 * TAILS, scale=1.0, loc=-math.log(0.5 * TAILS)).pdf(_LOG_PRECISION)
_SHARE = _SHARE / _SHARE.sum()


def _scaled(
    past: Readings, x: float, zeta: float
) -> tuple[tuple[float, float, float, float], np.ndarray, np.ndarray]:
    """Mean, count, shape and scale after `past`; the precisions of x, and the density of x at each."""
    state = scale_state(past)
    mean, count, shape, scale = state
    precision = zeta * np.exp(_LOG_PRECISION)
    df = 2 * shape
    width = np.sqrt(2 * scale * (count + precision) / (precision * count * df))
    return state, precision, stats.t(df, mean, width).pdf(x)


def scale_predictive(past: Readings, x: float, zeta: float) -> float:
    return math.log(_SHARE @ _scaled(past, x, zeta)[2])


def scale_state(readings: Readings) -> tuple[float, float, float, float]:
    """The Normal-inverse-gamma with the expectations of 1/s2, log s2, theta/s2 and theta^2/s2 of the mixture."""
    readings = [(x, zeta) for x, zeta in readings if zeta > 0]
    if not readings:
        return LEVEL, WORTH, FORM, SIZE
    *past, (x, zeta) = readings
    (mean, count, shape, scale), precision, density = _scaled(past, x, zeta)
    w = _SHARE * density / (_SHARE @ density)
    counts = count + precision
    means = (count * mean + precision * x) / counts
    scales = scale + 0.5 * (count * (mean - means) ** 2 + precision * (x - means) ** 2)
    shape += 0.5
    tau, log_tau = w @ (shape / scales), special.digamma(shape) - w @ np.log(scales)
    first, second = w @ (means * shape / scales), w @ (1 / counts + means**2 * shape / scales)
    found = optimize.brentq(
        lambda log_a: special.digamma(math.exp(log_a)) - log_a - (log_tau - math.log(tau)), -5.0, 15.0, xtol=1e-14
    )
    a = math.exp(found)
    return first / tau, 1 / (second - first**2 / tau), a, a / tau
