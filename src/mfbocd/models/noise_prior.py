"""Checks of the Normal-inverse-gamma prior, which several families share."""

from __future__ import annotations

from ..inputs.arguments import finite, positive


def noise_shape(owner: str, shape: float) -> float:
    """Return the shape of an InverseGamma prior of a noise variance; it must exceed 1/2 and be at most 1e9."""
    checked = positive(owner, "shape", shape, 1e9)
    if checked <= 0.5:
        raise ValueError(f"{owner}.shape must exceed 1/2, not {shape!r}: readings would have no mean")
    return checked


def level_and_noise(
    owner: str, mean: float, count: float, shape: float, scale: float
) -> tuple[float, float, float, float]:
    """Return the arguments of the prior of a level and its noise variance, checked in this order."""
    return (
        finite(owner, "mean", mean),
        positive(owner, "count", count, 1e9),
        noise_shape(owner, shape),
        positive(owner, "scale", scale),
    )
