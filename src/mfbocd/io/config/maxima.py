"""The largest numbers and longest lists of a configuration, checked before anything is computed from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...inputs.arguments import COUNTABLE
from .kinds import ConfigError

DEPTH = 16
"""How deep the tables and lists of a configuration may be nested."""
TOO_DEEP = f"a config must have at most {DEPTH} nested tables or lists"
TEXT = 2000
"""Characters of a string."""
LARGEST = 1e100
"""Any number without a maximum of its own: its square, and sums of such squares, are still finite."""
SMALLEST = 1e-100
"""Any number that is not 0."""
NUMBERS = {
    "cap[1]": 10_000,
    "covariates": 1000,
    "harmonics": 1000,
    "horizon": 1_000_000,
    "order": 1000,
    "points": 1000,
    "reads": 1_000_000,
    "resample": 100_000,
    "seed": COUNTABLE - 1,
    "slack": 100_000,
    "start": COUNTABLE - 1,
    "top_k": 100_000,
    "trials": 1_000_000_000,
    "within": COUNTABLE - 1,
}
"""Largest value of each whole number, by its name in any table."""
LISTS = {
    "alpha": 1000,
    "ar": 32,
    "before": 10_000,
    "cap": 2,
    "cosine": 1000,
    "count": 1000,
    "fidelity": 100,
    "hazard": 100_000,
    "matrices": 100,
    "mean": 1000,
    "noise_var": 1000,
    "parts": 100,
    "pieces": 1000,
    "probabilities": 100_000,
    "scale": 1000,
    "sine": 1000,
    "var": 1000,
    "weights": 100,
}
"""Largest length of each list, and of the lists and tables in it."""


def check_maxima(given: Mapping[str, Any]) -> None:
    """Raise a `ConfigError` if a part of a configuration exceeds its maximum, without computing anything from it.

    Parameters
    ----------
    given : Mapping[str, Any]
        Keys and values of the configuration.

    Raises
    ------
    ConfigError
        If a number, list or string is too large, or tables and lists are nested too deep.

    Examples
    --------
    >>> check_maxima({"model": {"kind": "autoregressive", "order": 10**9}})
    Traceback (most recent call last):
    ...
    mfbocd.io.config.kinds.ConfigError: model.order must be at most 1000
    """
    for name, value in given.items():
        _check(str(name), str(name), value, 1)


def _check(path: str, name: str, value: Any, level: int) -> None:
    """Check one value; `name` is the key of the table that holds it, or the lists around it."""
    if isinstance(value, Mapping):
        _check_depth(level)
        _check_length(path, name, len(value))
        for key, inner in value.items():
            _check(f"{path}.{key}", str(key), inner, level + 1)
    elif isinstance(value, (list, tuple)):
        _check_depth(level)
        _check_length(path, name, len(value))
        for i, inner in enumerate(value):
            own = f"{name}[{i}]"
            _check(f"{path}[{i}]", own if own in NUMBERS else name, inner, level + 1)
    elif isinstance(value, str):
        if len(value) > TEXT:
            raise ConfigError(f"{path} must have at most {TEXT} characters, not {len(value)}")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        _check_number(path, NUMBERS.get(name), value)


def _check_depth(level: int) -> None:
    if level >= DEPTH:
        raise ConfigError(TOO_DEEP)


def _check_length(path: str, name: str, length: int) -> None:
    most = LISTS.get(name)
    if most is not None and length > most:
        raise ConfigError(f"{path} must have at most {most} entries, not {length}")


def _check_number(path: str, most: int | None, value: float) -> None:
    """Messages omit the value, which may have thousands of digits."""
    if most is not None and value > most:
        raise ConfigError(f"{path} must be at most {most}")
    if LARGEST < abs(value) < float("inf"):
        raise ConfigError(f"{path} must be at most {LARGEST:g} in size")
    if 0.0 < abs(value) < SMALLEST:
        raise ConfigError(f"{path} must be 0 or at least {SMALLEST:g} in size")
