"""A detector written down: the mapping a TOML file, an HTTP request or a job carries, checked strictly."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...belief.pruning import DEFAULT, Prune
from ...detector.detector import Detector
from ...detector.step import Alarm, Missing, seed_of
from ...fleet.fleet import Fleet
from ...models import Model
from ...policy import Policy, policy_of
from ...policy.fidelity import Fidelity, checked
from . import toml
from .kinds import (
    ConfigError,
    attempt,
    build,
    hazard_of,
    mapping_of,
    model_kinds,
    only,
    plain,
    policy_kinds,
    prune_of,
)
from .size import DEPTH, depth

__all__ = ["Config", "ConfigError", "Data", "FidelityConfig", "model_kinds", "policy_kinds"]

_FLATTER = f"a config must have at most {DEPTH} tables or lists inside one another"
KEYS = ("hazard", "missing", "seed", "model", "fidelity", "policy", "alarm", "prune", "data")


@dataclass(frozen=True)
class FidelityConfig:
    """One way to observe, and the column of a table its readings stand in."""

    name: str
    zeta: float
    cost: float
    column: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values; the column only where it is not the name."""
        given = asdict(self)
        return given if self.column != self.name else {k: v for k, v in given.items() if k != "column"}


@dataclass(frozen=True)
class Data:
    """What is known of the data beside the readings: the column of timestamps, the units of readings and costs."""

    time: str = ""
    unit: str = ""
    cost_unit: str = ""


@dataclass(frozen=True)
class Config:
    """What a detector is made of, as plain values; `parse` and `load` make one, and check it.

    >>> config = Config.parse({
    ...     "model": {"kind": "gaussian", "mean": 0, "var": 9, "noise_var": 1},
    ...     "fidelity": [{"name": "imu", "zeta": 0.1, "cost": 1}, {"name": "gps", "zeta": 1, "cost": 40}],
    ...     "policy": {"kind": "budget", "share": 0.35},
    ... })
    >>> config.detector()
    <Detector of Gaussian(mean=0, var=9, noise_var=1) over imu, gps: 0 ticks, spent 0>
    >>> Config.parse({"model": {"kind": "gaussian", "nois": 1}})
    Traceback (most recent call last):
    ...
    mfbocd.io.config.kinds.ConfigError: model.nois is unknown (did you mean 'noise_var'?); expected mean, var, noise
    >>> Config.parse({"model": {"kind": "gaussian", "noise_var": -1}})
    Traceback (most recent call last):
    ...
    mfbocd.io.config.kinds.ConfigError: model.noise_var must be positive, not -1
    """

    model: dict[str, Any]
    fidelities: tuple[FidelityConfig, ...] = ()
    """None is ordinary BOCD: one full reading a tick."""
    hazard: float | list[float] | dict[str, Any] = 1 / 250
    policy: dict[str, Any] | None = None
    alarm: Alarm | None = Alarm()  # noqa: RUF009 (frozen)
    prune: dict[str, Any] | bool | None = None
    """None is the default pruning, false none."""
    missing: Missing = "skip"
    seed: int = 0
    data: Data = Data()

    @classmethod
    def load(cls, path: str | Path) -> Config:
        """The config in a TOML file; an error names the file."""
        try:
            return cls.parse(tomllib.loads(Path(path).read_text(encoding="utf-8-sig")))
        except UnicodeDecodeError:
            raise ConfigError(f"{path}: not a text in UTF-8") from None
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{path}: not TOML: {error}") from None
        except RecursionError:
            raise ConfigError(f"{path}: {_FLATTER}") from None
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Config:
        """The config a mapping of plain values describes, or a `ConfigError`."""
        given = mapping_of("config", given)
        if depth(given) > DEPTH:
            raise ConfigError(_FLATTER)
        only("", given, KEYS)
        if "model" not in given:
            raise ConfigError(f"model.kind is missing; expected one of {', '.join(sorted(model_kinds()))}")
        model = build("model", model_kinds(), given["model"])
        hazard = given.get("hazard", cls.hazard)
        hazard_of(hazard)
        missing = given.get("missing", cls.missing)
        if missing not in ("raise", "skip"):
            raise ConfigError(f"missing must be 'raise' or 'skip', not {missing!r}")
        rows = given.get("fidelity", [])
        if not isinstance(rows, (list, tuple)):
            raise ConfigError(f"fidelity must be a list of tables, [[fidelity]] in TOML, not {rows!r}")
        fidelities = tuple(_fidelity(f"fidelity[{i}]", row) for i, row in enumerate(rows))
        ways = _ways(fidelities, {})
        attempt("fidelity", "Fidelity", checked, ways)
        policy = build("policy", policy_kinds(), given["policy"]) if "policy" in given else None
        if policy is not None:
            policy.shared = True  # how many streams it is for is only known when they are made
            attempt("policy", type(policy).__name__, policy.bind, checked(ways))
        config = cls(
            model=_spec(model),
            fidelities=fidelities,
            hazard=float(hazard) if isinstance(hazard, int) else plain(hazard),
            policy=None if policy is None else _spec(policy),
            alarm=_alarm(given.get("alarm", {})),
            prune=plain(given["prune"]) if "prune" in given else None,
            missing=missing,
            seed=attempt("seed", "Detector", seed_of, given.get("seed", 0)),
            data=_data(given.get("data", {})),
        )
        config._pruning()
        attempt("config", "Detector", config.detector, shared=True)  # what only shows when the parts meet
        return config

    def detector(
        self, observers: Mapping[str, Callable[[Any], Any]] | None = None, *, shared: bool = False, **overrides: Any
    ) -> Detector:
        """A detector before its first tick; `observers` by the fidelities' names, `overrides` as its arguments.

        With `shared` it is one of many streams that have the budget together, which may be more than one can spend.
        """
        given = dict(observers or {})
        names = [f.name for f in self.fidelities] or ["full"]
        for name in given:
            if name not in names:
                raise ConfigError(f"observers names {name!r}, which is none of {', '.join(names)}")
        arguments = self._arguments(given)
        arguments["policy"].shared = shared
        return Detector(**(arguments | overrides))

    def fleet(self, n: int, *, shared: bool = False, **overrides: Any) -> Fleet:
        """Return a fleet of n streams before their first tick.

        Parameters
        ----------
        n : int
            How many streams.
        shared : bool, default False
            Whether the budget may be more than these streams can spend, because it is for others too.
        **overrides
            Arguments of `Fleet`, instead of those of this config.
        """
        arguments = self._arguments({})
        arguments["policy"].shared = shared
        return Fleet(n, **(arguments | overrides))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values: `parse` of them is this config again."""
        given: dict[str, Any] = {"hazard": self.hazard, "missing": self.missing, "seed": self.seed}
        if self.prune is False:
            given["prune"] = False
        if self.alarm is None:
            given["alarm"] = False
        given["model"] = self.model
        if self.fidelities:
            given["fidelity"] = [f.to_dict() for f in self.fidelities]
        if self.policy is not None:
            given["policy"] = self.policy
        if self.alarm is not None:
            given["alarm"] = asdict(self.alarm)
        if isinstance(self.prune, dict):
            given["prune"] = self.prune
        data = {k: v for k, v in asdict(self.data).items() if v}
        return given | ({"data": data} if data else {})

    def to_toml(self, notes: Mapping[str, str] | None = None) -> str:
        """The config as a TOML file; `notes` are comments by dotted key, such as ``"fidelity[0].zeta"``.

        >>> print(Config.parse({"model": {"kind": "bernoulli"}}).to_toml({"hazard": "a change every 250 ticks"}))
        # a change every 250 ticks
        hazard = 0.004
        missing = "skip"
        seed = 0
        <BLANKLINE>
        [model]
        kind = "bernoulli"
        alpha = 1.0
        beta = 1.0
        predictive = "normalized"
        <BLANKLINE>
        [alarm]
        within = 50
        threshold = 0.9
        <BLANKLINE>
        """
        return toml.document(self.to_dict(), notes or {})

    def digest(self) -> str:
        """A fingerprint of all that bears on a decision: states saved under another do not fit."""
        given = {k: v for k, v in self.to_dict().items() if k != "data"}
        return hashlib.sha256(json.dumps(given, sort_keys=True, allow_nan=False).encode()).hexdigest()

    def _arguments(self, observers: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
        model = build("model", model_kinds(), self.model)
        ways = _ways(self.fidelities, observers)
        policy = None if self.policy is None else build("policy", policy_kinds(), self.policy)
        return {
            "model": model,
            "fidelities": ways,
            "hazard": hazard_of(self.hazard),
            "policy": policy_of(policy, ways),
            "prune": self._pruning(),
            "alarm": self.alarm,
            "seed": self.seed,
            "missing": self.missing,
        }

    def _pruning(self) -> tuple[Prune, ...] | None:
        return DEFAULT if self.prune is None else prune_of(self.prune)


def _ways(
    fidelities: tuple[FidelityConfig, ...], observers: Mapping[str, Callable[[Any], Any]]
) -> tuple[Fidelity, ...]:
    if not fidelities:
        return (Fidelity("full", 1.0, 1.0, observers.get("full")),)
    return tuple(Fidelity(f.name, f.zeta, f.cost, observers.get(f.name)) for f in fidelities)


def _spec(thing: Model | Policy) -> dict[str, Any]:
    kinds: Mapping[str, type] = model_kinds() if isinstance(thing, Model) else policy_kinds()
    kind = next(name for name, known in kinds.items() if known is type(thing))
    return {"kind": kind, **plain(thing.spec())}


def _text(key: str, given: Any) -> str:
    if not isinstance(given, str) or not given or any("\ud800" <= c <= "\udfff" for c in given):
        raise ConfigError(f"{key} must be a non-empty text, not {given!r}")
    return given


def _fidelity(key: str, given: Any) -> FidelityConfig:
    row = mapping_of(key, given)
    only(key, row, ("name", "zeta", "cost", "column"))
    for name in ("name", "zeta", "cost"):
        if name not in row:
            raise ConfigError(f"{key}.{name} is missing: a fidelity has a name, a zeta and a cost")
    name = _text(f"{key}.name", row["name"])
    if callable(row["cost"]):
        raise ConfigError(f"{key}.cost must be a number, not {row['cost']!r}")
    way = attempt(key, "Fidelity", Fidelity, name, row["zeta"], row["cost"])
    return FidelityConfig(name, way.zeta, way.cost_of(), _text(f"{key}.column", row.get("column", name)))


def _alarm(given: Any) -> Alarm | None:
    if given is False:
        return None
    table = mapping_of("alarm", given)
    only("alarm", table, ("threshold", "within"))
    alarm = attempt("alarm", "Alarm", Alarm, **table)
    return Alarm(alarm.within, float(alarm.threshold))


def _data(given: Any) -> Data:
    table = mapping_of("data", given)
    only("data", table, ("time", "unit", "cost_unit"))
    return Data(**{name: _text(f"data.{name}", value) for name, value in table.items()})
