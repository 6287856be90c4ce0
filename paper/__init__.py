"""The paper's tables and figures, one file a target, each from one command: ``mfbocd reproduce NAME``.

Two engines of record: the library, and, where the paper's own code behaves otherwise than its equations say,
that behaviour (`published`). It lives in this room alone.
"""

from __future__ import annotations

from importlib import import_module

from .target import Number, Options, Result, Row, Target

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
)
"""In the order of the paper; each is ``TARGET`` in the module of that name."""


def target(name: str) -> Target:
    """The target of that name.

    >>> target("costs").paper
    'the flop analysis'
    """
    if name not in NAMES:
        raise ValueError(f"target must be one of {', '.join(NAMES)}, not {name!r}")
    found = import_module(f".{name.replace('-', '_')}", __name__).TARGET
    assert isinstance(found, Target)
    return found


__all__ = ["NAMES", "Number", "Options", "Result", "Row", "Target", "target"]
