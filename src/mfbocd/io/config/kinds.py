"""What a config can name: models and policies by their kind, built with errors that name the key."""

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
from .keys import PRUNE, names

T = TypeVar("T")


class ConfigError(ValueError):
    """A config that cannot be used: names the dotted key, the value, and what was expected."""


def snake(name: str) -> str:
    """The kind a class has in a config.

    >>> snake("InformationRate")
    'information_rate'
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def model_kinds() -> dict[str, type[Model]]:
    """Every exported model that can be written down: those that hold functions have no `spec`.

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
    """Every policy there is.

    >>> policy_kinds()["information_rate"].__name__
    'InformationRate'
    """
    return {snake(name): kind for name, kind in POLICIES.items()}


def hazard_kinds() -> dict[str, Callable[..., Hazard]]:
    """Hazards that are more than a number or a table of numbers."""
    return {"weibull": Hazard.weibull, "lengths": Hazard.from_lengths, "learned": Learned}


def mapping_of(key: str, given: Any) -> Mapping[str, Any]:
    """A table of a config, or an error."""
    if not isinstance(given, Mapping):
        raise ConfigError(f"{key} must be a table of keys and values, not {given!r}")
    return given


def only(key: str, given: Mapping[str, Any], known: Iterable[str]) -> None:
    """Refuse keys that mean nothing, with the one that was probably meant."""
    names = list(known)
    for name in given:
        if name not in names:
            dotted = f"{key}.{name}" if key else str(name)
            raise ConfigError(f"{dotted} is unknown{meant(name, names)}; expected {', '.join(names) or 'nothing'}")


def meant(name: Any, known: Iterable[str]) -> str:
    """A hint at the nearest known name.

    >>> meant("nois", ["mean", "noise_var"])
    " (did you mean 'noise_var'?)"
    """
    close = difflib.get_close_matches(str(name), list(known), 1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def attempt(key: str, owner: str, make: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call `make`; an error that names ``owner.field`` names ``key.field`` instead."""
    try:
        return make(*args, **kwargs)
    except (TypeError, ValueError, ArithmeticError, AttributeError) as error:
        said = str(error)
        if said.startswith(f"{owner}."):
            raise ConfigError(f"{key}.{said[len(owner) + 1 :]}") from None
        raise ConfigError(said if said.startswith(f"{key} ") else f"{key}: {said}") from None


def build(key: str, kinds: Mapping[str, Callable[..., T]], given: Any) -> T:
    """What a table such as ``{kind = "gaussian", mean = 0}`` describes."""
    table = mapping_of(key, given)
    kind = table.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        if "kind" not in table:
            raise ConfigError(f"{key}.kind is missing; expected one of {', '.join(sorted(kinds))}")
        raise ConfigError(f"{key}.kind must be one of {', '.join(sorted(kinds))}, not {kind!r}{meant(kind, kinds)}")
    make = kinds[kind]
    takes = {
        name: parameter
        for name, parameter in inspect.signature(make).parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    arguments = {name: value for name, value in table.items() if name != "kind"}
    only(key, arguments, takes)
    for name, parameter in takes.items():
        if parameter.default is parameter.empty and name not in arguments:
            raise ConfigError(f"{key}.{name} is missing: {kind} needs it")
    return attempt(key, make.__name__, make, **arguments)


def plain(value: Any) -> Any:
    """Tuples, arrays and their scalars as what JSON and TOML can carry; None inside a table is left out.

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
    """A hazard from a number, a table by run length, or a kind with its arguments."""
    if isinstance(given, Mapping):
        return build("hazard", hazard_kinds(), given)
    for value in given if isinstance(given, (list, tuple)) else (given,):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ConfigError(f"hazard must be P(change) a tick, numbers by run length or a kind, not {value!r}")
    return attempt("hazard", "Detector", Hazard, given)


def prune_of(given: Any) -> tuple[Prune, ...] | None:
    """Prunings from ``{resample = 256}`` and the like; false is exact."""
    if given is False:
        return None
    table = mapping_of("prune", given)
    only("prune", table, names(PRUNE))
    named = [name for name in ("resample", "top_k") if name in table]
    if len(named) > 1:
        raise ConfigError("prune takes resample or top_k, not both")
    if not named and "slack" in table:
        raise ConfigError(f"prune.slack = {table['slack']!r} needs resample or top_k beside it")
    if not table:
        raise ConfigError("prune must name threshold, resample or top_k; prune = false is exact")
    parts: list[Prune] = []
    if "threshold" in table:
        parts.append(_renamed("threshold", "eps", Threshold, table["threshold"]))
    if "resample" in table:
        parts.append(_renamed("resample", "k", Resample, table["resample"], table.get("slack")))
    if "top_k" in table:
        parts.append(_renamed("top_k", "k", TopK, table["top_k"], table.get("slack")))
    return tuple(parts)


def _renamed(name: str, argument: str, make: Callable[..., T], *args: Any) -> T:
    try:
        return make(*args)
    except (TypeError, ValueError, ArithmeticError) as error:
        said = str(error).replace(f"{make.__name__}.{argument} ", f"prune.{name} ")
        raise ConfigError(said.replace(f"{make.__name__}.", "prune.")) from None
