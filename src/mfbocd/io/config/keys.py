"""The keys of a configuration file that are not arguments of a class.

The parser accepts these names, and ``docs/reference/configuration.md`` is generated from this table.
"""

from __future__ import annotations

from typing import NamedTuple

from ...belief.pruning import DEFAULT, SLACK, Resample


class Key(NamedTuple):
    """One key of a configuration file.

    Parameters
    ----------
    name : str
        The key.
    type : str
        Type of its value in TOML.
    default : str or None
        Default value as TOML, or a description of it; None if the key is required.
    meaning : str
        One or two sentences, with the unit.
    """

    name: str
    type: str
    default: str | None
    meaning: str


def names(keys: tuple[Key, ...]) -> tuple[str, ...]:
    """Return the names of `keys`."""
    return tuple(key.name for key in keys)


def _default_pruning() -> str:
    (prune,) = DEFAULT
    assert isinstance(prune, Resample)
    return f"{{ resample = {prune.k} }}"


CONFIG = (
    Key(
        "hazard",
        "float, array of floats, or table",
        "0.004",
        "Probability that a regime ends, per tick: a constant in (0, 1), one value per run length (the last one "
        "holds for all longer runs), or a table with a `kind`.",
    ),
    Key(
        "missing",
        '`"skip"` or `"raise"`',
        '"skip"',
        "What a missing reading (empty cell, null, NaN) does: skip the update at that tick, or raise an error.",
    ),
    Key(
        "seed",
        "integer",
        "0",
        "Seed of the random numbers of the policy and of resampling, from 0 to 2^53 - 1. The same seed and readings "
        "give the same decisions.",
    ),
    Key("model", "table", None, "The likelihood family with its prior."),
    Key(
        "fidelity",
        "array of tables",
        "one full reading per tick",
        "The ways to observe the stream. Without any, the detector is ordinary BOCD.",
    ),
    Key(
        "policy",
        "table",
        '{ kind = "budget", share = 0.35 }',
        'How the next fidelity is chosen. If all fidelities cost the same, the default is `{ kind = "always" }`.',
    ),
    Key("alarm", "table or `false`", "enabled", "When a change raises an alarm; `false` disables alarms."),
    Key(
        "prune",
        "table or `false`",
        _default_pruning(),
        "How the number of run-length hypotheses is bounded. `false` keeps all of them: exact, with memory and time "
        "per tick that grow with the stream.",
    ),
    Key("data", "table", "empty", "Names and units of the data. It has no influence on decisions."),
)

FIDELITY = (
    Key(
        "name",
        "string",
        None,
        "Unique name, 1 to 200 characters. Also the column of the readings unless `column` is set.",
    ),
    Key(
        "zeta",
        "float",
        None,
        "Information of one reading relative to a full observation, in [0, 1]. 1 is a full observation; 0 means that "
        "nothing is read.",
    ),
    Key(
        "cost",
        "float",
        None,
        "Cost of one reading, in any unit, the same for all fidelities. Positive; may be 0 only if `zeta` is 0.",
    ),
    Key("column", "string", "the name", "Column of a table that holds the readings."),
)

PRUNE = (
    Key("resample", "integer", None, "Maximum number of hypotheses, reduced by stratified optimal resampling."),
    Key("top_k", "integer", None, "Maximum number of hypotheses, of which the most probable are kept."),
    Key(
        "slack",
        "integer",
        f"{SLACK}, or a quarter of the maximum if that is less",
        "Hypotheses removed at each pruning, which is also the number of ticks until the next one. Needs `resample` "
        "or `top_k`.",
    ),
    Key(
        "threshold",
        "float",
        None,
        "Remove hypotheses with a probability below this value, in (0, 1). It does not bound memory by itself, and "
        "may be combined with `resample` or `top_k`.",
    ),
)

DATA = (
    Key("time", "string", "none", "Column of timestamps, copied to the steps."),
    Key("unit", "string", "none", "Unit of the readings, for plots and reports."),
    Key("cost_unit", "string", "none", "Unit of the costs, for summaries, plots and reports."),
)

SERVE_OBSERVERS = Key(
    "observers",
    "table of strings",
    "empty",
    'Functions that read a raw input in the service, `name = "package.module:function"`. Clients can refer to them '
    "only by name.",
)
