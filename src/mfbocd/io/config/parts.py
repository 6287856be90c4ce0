"""The parts of a configuration that are not a model, policy, hazard or pruning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from ...belief.alarm import Alarm
from ...policy.fidelity import Fidelity
from .kinds import ConfigError, reject_unknown, require_table, with_key


@dataclass(frozen=True)
class FidelityConfig:
    """One entry of ``[[fidelity]]``: a way to observe.

    Attributes
    ----------
    name : str
        Name of the fidelity; required and unique.
    zeta : float
        Value of a reading relative to a full one, in [0, 1]; required. 0 means that nothing is learned.
    cost : float
        Cost of one reading, positive, in any unit; required.
    column : str
        Column of a table that holds its readings; the name by default.
    offset : float
        How much its readings are too high: (x - offset) / scale is used in place of a reading x. 0 by default.
    scale : float
        Units of its readings per unit of the model, positive; 1 by default.
    observe : str
        Shell command that prints one reading, which `mfbocd drive` runs for this fidelity; none by default.
    """

    name: str
    zeta: float
    cost: float
    column: str = ""
    offset: float = 0.0
    scale: float = 1.0
    observe: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as plain values; what has its default is left out.

        Returns
        -------
        dict[str, Any]
            The keys and values.
        """
        default = {"column": self.name, "offset": 0.0, "scale": 1.0, "observe": ""}
        return {k: v for k, v in asdict(self).items() if k not in default or v != default[k]}


@dataclass(frozen=True)
class Data:
    """The table ``[data]``: facts about the data that do not affect decisions.

    Attributes
    ----------
    time : str
        Column of timestamps; none by default.
    unit : str
        Unit of the readings, for plots and reports; none by default.
    cost_unit : str
        Unit of the costs, for plots and reports; none by default.
    """

    time: str = ""
    unit: str = ""
    cost_unit: str = ""


def _text(key: str, given: Any) -> str:
    if not isinstance(given, str) or not given or any("\ud800" <= c <= "\udfff" for c in given):
        raise ConfigError(f"{key} must be a non-empty string, not {given!r}")
    return given


def parse_fidelity(key: str, given: Any) -> FidelityConfig:
    """Validate one entry of ``[[fidelity]]``.

    Parameters
    ----------
    key : str
        Dotted key of the entry.
    given : Any
        The entry.

    Returns
    -------
    FidelityConfig
        The fidelity.

    Raises
    ------
    ConfigError
        If the entry is not valid.
    """
    row = require_table(key, given)
    reject_unknown(key, row, [field.name for field in fields(FidelityConfig)])
    for name in ("name", "zeta", "cost"):
        if name not in row:
            raise ConfigError(f"{key}.{name} is missing: a fidelity needs name, zeta and cost")
    name = _text(f"{key}.name", row["name"])
    if callable(row["cost"]):
        raise ConfigError(f"{key}.cost must be a number, not {row['cost']!r}")
    correction = row.get("offset", 0.0), row.get("scale", 1.0)
    fidelity = with_key(key, "Fidelity", Fidelity, name, row["zeta"], row["cost"], None, *correction)
    column = _text(f"{key}.column", row.get("column", name))
    observe = _text(f"{key}.observe", row["observe"]) if "observe" in row else ""
    return FidelityConfig(name, fidelity.zeta, fidelity.cost_of(), column, fidelity.offset, fidelity.scale, observe)


def parse_alarm(given: Any) -> Alarm | None:
    """Validate the table ``[alarm]``.

    Parameters
    ----------
    given : Any
        The table, or False for no alarm.

    Returns
    -------
    Alarm or None
        The alarm.

    Raises
    ------
    ConfigError
        If the table is not valid.
    """
    if given is False:
        return None
    table = require_table("alarm", given)
    reject_unknown("alarm", table, [field.name for field in fields(Alarm)])
    return with_key("alarm", "Alarm", Alarm, **table)


def parse_data(given: Any) -> Data:
    """Validate the table ``[data]``.

    Parameters
    ----------
    given : Any
        The table.

    Returns
    -------
    Data
        The facts.

    Raises
    ------
    ConfigError
        If the table is not valid.
    """
    table = require_table("data", given)
    reject_unknown("data", table, [field.name for field in fields(Data)])
    return Data(**{name: _text(f"data.{name}", value) for name, value in table.items()})


def fidelities_of(
    fidelities: tuple[FidelityConfig, ...], observers: Mapping[str, Callable[[Any], Any]]
) -> tuple[Fidelity, ...]:
    """Return the fidelities of a detector; without any in the configuration, one full reading per tick.

    Parameters
    ----------
    fidelities : tuple[FidelityConfig, ...]
        Those of the configuration.
    observers : Mapping[str, Callable[[Any], Any]]
        The functions that observe, by name.

    Returns
    -------
    tuple[Fidelity, ...]
        The fidelities.
    """
    if not fidelities:
        return (Fidelity("full", 1.0, 1.0, observers.get("full")),)
    return tuple(Fidelity(f.name, f.zeta, f.cost, observers.get(f.name), f.offset, f.scale) for f in fidelities)
