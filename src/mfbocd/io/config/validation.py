"""Strict validation of a configuration: an error names the dotted key, the value, and what was expected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...detector.step import seed_of
from ...models import Model
from ...policy import Policy
from ...policy.fidelity import checked
from .kinds import (
    ConfigError,
    build,
    hazard_of,
    model_kinds,
    plain,
    policy_kinds,
    reject_unknown,
    require_table,
    with_key,
)
from .maxima import check_maxima
from .parts import fidelities_of, parse_alarm, parse_data, parse_fidelity

KEYS = ("hazard", "missing", "seed", "model", "fidelity", "policy", "alarm", "prune", "data")
"""Top-level keys of a configuration."""


def validated(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a `Config`, each validated; those that are absent and have a default are left out.

    Parameters
    ----------
    given : Mapping[str, Any]
        Keys and values of the configuration.

    Returns
    -------
    dict[str, Any]
        The arguments of `Config`.

    Raises
    ------
    ConfigError
        If a key is unknown or missing, or a value is not valid.
    """
    given = require_table("config", given)
    reject_unknown("", given, KEYS)
    check_maxima(given)
    if "model" not in given:
        raise ConfigError(f"model.kind is missing; expected one of {', '.join(sorted(model_kinds()))}")
    found: dict[str, Any] = {"model": _spec(build("model", model_kinds(), given["model"]))}
    if "hazard" in given:
        hazard = given["hazard"]
        hazard_of(hazard)
        found["hazard"] = float(hazard) if isinstance(hazard, int) else plain(hazard)
    if "missing" in given:
        found["missing"] = given["missing"]
        if found["missing"] not in ("raise", "skip"):
            raise ConfigError(f"missing must be 'raise' or 'skip', not {given['missing']!r}")
    rows = given.get("fidelity", [])
    if not isinstance(rows, (list, tuple)):
        raise ConfigError(f"fidelity must be a list of tables, [[fidelity]] in TOML, not {rows!r}")
    found["fidelities"] = tuple(parse_fidelity(f"fidelity[{i}]", row) for i, row in enumerate(rows))
    ways = fidelities_of(found["fidelities"], {})
    with_key("fidelity", "Fidelity", checked, ways)
    if "policy" in given:
        policy = build("policy", policy_kinds(), given["policy"])
        policy.shared = True  # the number of streams is only known when they are created
        with_key("policy", type(policy).__name__, policy.bind, checked(ways))
        found["policy"] = _spec(policy)
    found["alarm"] = parse_alarm(given.get("alarm", {}))
    if "prune" in given:
        found["prune"] = plain(given["prune"])
    found["seed"] = with_key("seed", "Detector", seed_of, given.get("seed", 0))
    found["data"] = parse_data(given.get("data", {}))
    return found


def _spec(thing: Model | Policy) -> dict[str, Any]:
    kinds: Mapping[str, type] = model_kinds() if isinstance(thing, Model) else policy_kinds()
    kind = next(name for name, known in kinds.items() if known is type(thing))
    return {"kind": kind, **plain(thing.spec())}
