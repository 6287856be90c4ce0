"""The kinds of models, policies, hazards and prunings in a configuration; errors name the dotted key."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from ... import models
from ...belief.hazard import Hazard, Learned
from ...belief.pruning import Prune, Resample, Threshold, TopK
from ...models import Model
from ...policy import POLICIES, Policy

T = TypeVar("T")

PRUNE_KEYS = {
    "threshold": "Drop run lengths with a probability below this number, in (0, 1).",
    "resample": "Keep at most this many run lengths, by stratified optimal resampling; excludes top_k.",
    "top_k": "Keep at most this many run lengths, the most probable; excludes resample.",
    "slack": "Run lengths by which the limit is undercut when it is reached, so that pruning is needed less often.",
}
"""Keys of the table ``[prune]`` and their meaning."""


class ConfigError(ValueError):
    """A configuration is not valid; the message names the dotted key, the value, and what was expected."""


def snake(name: str) -> str:
    """Return the name of a class in snake case, its ``kind`` in a configuration.

    Parameters
    ----------
    name : str
        Name of the class.

    Returns
    -------
    str
        The kind.

    Examples
    --------
    >>> snake("InformationRate")
    'information_rate'
    >>> snake("StudentTUnknown")
    'student_t_unknown'
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def model_kinds() -> dict[str, type[Model]]:
    """Return the models that a configuration can describe: every exported one except those that hold functions.

    Returns
    -------
    dict[str, type[Model]]
        The classes by kind.

    Examples
    --------
    >>> model_kinds()["bernoulli"].__name__, "exponential_family" in model_kinds()
    ('Bernoulli', False)
    """
    found = (getattr(models, name) for name in models.__all__)
    return {
        snake(kind.__name__): kind
        for kind in found
        if inspect.isclass(kind) and issubclass(kind, Model) and kind.spec is not Model.spec
    }


def policy_kinds() -> dict[str, type[Policy]]:
    """Return the policies that a configuration can describe.

    Returns
    -------
    dict[str, type[Policy]]
        The classes by kind.

    Examples
    --------
    >>> policy_kinds()["information_rate"].__name__
    'InformationRate'
    """
    return {snake(name): kind for name, kind in POLICIES.items()}


def hazard_kinds() -> dict[str, Callable[..., Hazard]]:
    """Return the hazards that are more than a number or a list of numbers.

    Returns
    -------
    dict[str, Callable[..., Hazard]]
        The functions that build them, by kind.
    """
    return {"weibull": Hazard.weibull, "lengths": Hazard.from_lengths, "learned": Learned}


def require_table(key: str, given: Any) -> Mapping[str, Any]:
    """Return a table of a configuration.

    Parameters
    ----------
    key : str
        Dotted key, for the error message.
    given : Any
        The value.

    Returns
    -------
    Mapping[str, Any]
        The value, if it is a table.

    Raises
    ------
    ConfigError
        If it is not a table.
    """
    if not isinstance(given, Mapping):
        raise ConfigError(f"{key} must be a table of keys and values, not {given!r}")
    return given


def reject_unknown(key: str, given: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raise an error if a table has unknown keys; the message suggests the closest known one.

    Parameters
    ----------
    key : str
        Dotted key of the table; empty for the top level.
    given : Mapping[str, Any]
        The table.
    known : Iterable[str]
        The known keys.

    Raises
    ------
    ConfigError
        If a key is unknown.
    """
    names = list(known)
    for name in given:
        if name not in names:
            dotted = f"{key}.{name}" if key else str(name)
            raise ConfigError(
                f"{dotted} is unknown{suggestion(name, names)}; expected {', '.join(names) or 'nothing'}"
            )


def suggestion(name: Any, known: Iterable[str]) -> str:
    """Return a hint at the closest known name.

    Parameters
    ----------
    name : Any
        The unknown name.
    known : Iterable[str]
        The known names.

    Returns
    -------
    str
        The hint; empty if no name is close.

    Examples
    --------
    >>> suggestion("nois", ["mean", "noise_var"])
    " (did you mean 'noise_var'?)"
    """
    close = difflib.get_close_matches(str(name), list(known), 1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def with_key(key: str, owner: str, make: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call a function; an error that begins with ``owner.field`` is raised with ``key.field`` instead.

    Parameters
    ----------
    key : str
        Dotted key of the configuration.
    owner : str
        Name of the class in the function's errors.
    make : Callable[..., T]
        The function.
    *args : Any
        Its positional arguments.
    **kwargs : Any
        Its keyword arguments.

    Returns
    -------
    T
        What the function returns.

    Raises
    ------
    ConfigError
        If the function raises an error about its arguments.
    """
    try:
        return make(*args, **kwargs)
    except (TypeError, ValueError, ArithmeticError, AttributeError) as error:
        message = str(error)
        if message.startswith(f"{owner}."):
            raise ConfigError(f"{key}.{message[len(owner) + 1 :]}") from None
        raise ConfigError(message if message.startswith(f"{key} ") else f"{key}: {message}") from None


def build(key: str, kinds: Mapping[str, Callable[..., T]], given: Any) -> T:
    """Build what a table such as ``{kind = "gaussian", mean = 0}`` describes.

    Parameters
    ----------
    key : str
        Dotted key of the table.
    kinds : Mapping[str, Callable[..., T]]
        What can be built, by kind.
    given : Any
        The table.

    Returns
    -------
    T
        The object.

    Raises
    ------
    ConfigError
        If the kind is unknown, an argument is unknown or missing, or a value is not valid.
    """
    table = require_table(key, given)
    kind = table.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        if "kind" not in table:
            raise ConfigError(f"{key}.kind is missing; expected one of {', '.join(sorted(kinds))}")
        raise ConfigError(
            f"{key}.kind must be one of {', '.join(sorted(kinds))}, not {kind!r}{suggestion(kind, kinds)}"
        )
    make = kinds[kind]
    takes = {
        name: parameter
        for name, parameter in inspect.signature(make).parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    arguments = {name: value for name, value in table.items() if name != "kind"}
    reject_unknown(key, arguments, takes)
    for name, parameter in takes.items():
        if parameter.default is parameter.empty and name not in arguments:
            raise ConfigError(f"{key}.{name} is missing: {kind} requires it")
    return with_key(key, make.__name__, make, **arguments)


def plain(value: Any) -> Any:
    """Convert tuples, arrays and numpy scalars to JSON values; None inside a table is left out.

    Parameters
    ----------
    value : Any
        The value.

    Returns
    -------
    Any
        The plain value.

    Examples
    --------
    >>> plain({"kind": "Gaussian", "cap": (400.0, 20), "share": None})
    {'kind': 'gaussian', 'cap': [400.0, 20]}
    """
    if isinstance(value, Mapping):
        found = {str(k): plain(v) for k, v in value.items() if v is not None}
        return found | {"kind": snake(found["kind"])} if isinstance(found.get("kind"), str) else found
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def hazard_of(given: Any) -> Hazard:
    """Build a hazard from a number, a list of numbers by run length, or a table with its kind.

    Parameters
    ----------
    given : Any
        The value of the key ``hazard``.

    Returns
    -------
    Hazard
        The hazard.

    Raises
    ------
    ConfigError
        If it is not valid.
    """
    if isinstance(given, Mapping):
        return build("hazard", hazard_kinds(), given)
    for value in given if isinstance(given, (list, tuple)) else (given,):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ConfigError(f"hazard must be P(change) per tick, a list by run length or a table, not {value!r}")
    return with_key("hazard", "Detector", Hazard, given)


def prune_of(given: Any) -> tuple[Prune, ...] | None:
    """Build the prunings from a table such as ``{resample = 256}``.

    Parameters
    ----------
    given : Any
        The value of the key ``prune``: a table, or False for no pruning.

    Returns
    -------
    tuple[Prune, ...] or None
        The prunings; None for no pruning.

    Raises
    ------
    ConfigError
        If it is not valid.
    """
    if given is False:
        return None
    table = require_table("prune", given)
    reject_unknown("prune", table, PRUNE_KEYS)
    named = [name for name in ("resample", "top_k") if name in table]
    if len(named) > 1:
        raise ConfigError("prune must have resample or top_k, not both")
    if not named and "slack" in table:
        raise ConfigError(f"prune.slack = {table['slack']!r} needs resample or top_k")
    if not table:
        raise ConfigError("prune must have threshold, resample or top_k; prune = false disables pruning")
    parts: list[Prune] = []
    if "threshold" in table:
        parts.append(_with_prune_key("threshold", "eps", Threshold, table["threshold"]))
    if "resample" in table:
        parts.append(_with_prune_key("resample", "k", Resample, table["resample"], table.get("slack")))
    if "top_k" in table:
        parts.append(_with_prune_key("top_k", "k", TopK, table["top_k"], table.get("slack")))
    return tuple(parts)


def _with_prune_key(name: str, argument: str, make: Callable[..., T], *args: Any) -> T:
    try:
        return make(*args)
    except (TypeError, ValueError, ArithmeticError) as error:
        message = str(error).replace(f"{make.__name__}.{argument} ", f"prune.{name} ")
        raise ConfigError(message.replace(f"{make.__name__}.", "prune.")) from None
