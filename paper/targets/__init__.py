"""One file per table or figure of the paper, and one per study."""

from __future__ import annotations

from importlib import import_module

from ..framework import Target

NAMES = (
    "mf-posterior",
    "mi-illustration",
    "margin",
    "ablation-gaussian",
    "ablation-bernoulli",
    "camvid",
    "mimii",
    "costs",
    "policies",
    "frontier",
    "quickest",
)
"""In the order of the paper, then the studies of our own."""


def load(name: str) -> Target:
    """The target of that name, from the module of that name.

    >>> load("costs").paper
    'the flop analysis'
    """
    if name not in NAMES:
        raise ValueError(f"target must be one of {', '.join(NAMES)}, not {name!r}")
    stem = name.replace("-", "_")
    found = getattr(import_module(f".{stem}", __name__), stem)
    assert isinstance(found, Target)
    return found
