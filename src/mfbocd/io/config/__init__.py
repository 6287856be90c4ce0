"""Configuration of a detector as plain values, validated strictly: from TOML, an HTTP request or a job."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...belief.alarm import Alarm
from ...belief.pruning import DEFAULT, Prune
from ...detector.detector import Detector
from ...detector.step import Missing
from ...fleet.fleet import Fleet
from ...policy import Budget, SharedBudget, policy_of
from . import toml
from .kinds import ConfigError, build, hazard_of, model_kinds, policy_kinds, prune_of, with_key
from .maxima import TOO_DEEP
from .parts import Data, FidelityConfig, fidelities_of
from .validation import validated

__all__ = ["Config", "ConfigError", "Data", "FidelityConfig", "model_kinds", "policy_kinds"]


@dataclass(frozen=True)
class Config:
    """The configuration of a detector as plain values; create it with `parse` or `load`, which validate it.

    Attributes are the keys of the file; `fidelities` is the list ``[[fidelity]]``.

    Attributes
    ----------
    model : dict[str, Any]
        Table ``[model]``: ``kind``, the name of a model in snake case, and the model's arguments; required.
    fidelities : tuple[FidelityConfig, ...]
        List ``[[fidelity]]``: the ways to observe. Empty, the default, is ordinary BOCD: one full reading per tick.
    hazard : float or list[float] or dict[str, Any]
        P(change) per tick, in (0, 1); a list of such numbers by run length; or a table with ``kind`` ("weibull",
        "lengths" or "learned") and its arguments. 1/250 by default.
    policy : dict[str, Any] or None
        Table ``[policy]``: ``kind``, the name of a policy in snake case, and its arguments. By default a budget with
        a share of 0.35.
    alarm : Alarm or None
        Table ``[alarm]``: ``within`` (ticks; 200 by default), ``threshold`` (probability; 0.9 by default),
        ``direction``, ``before`` and ``at_least``, as in `Alarm`. ``alarm = false`` disables alarms.
    prune : dict[str, Any] or bool or None
        Table ``[prune]``: ``threshold``, and ``resample`` or ``top_k`` with ``slack``. The default pruning if absent;
        ``prune = false`` is exact.
    missing : Missing
        What a missing reading means: "skip", the default, is a tick without a reading, "raise" an error.
    seed : int
        Seed of all random choices, an integer of at least 0; 0 by default.
    data : Data
        Table ``[data]``: the column of timestamps and units.

    Examples
    --------
    >>> config = Config.parse({
    ...     "model": {"kind": "gaussian", "mean": 0, "var": 9, "noise_var": 1},
    ...     "fidelity": [{"name": "imu", "zeta": 0.1, "cost": 1}, {"name": "gps", "zeta": 1, "cost": 40}],
    ...     "policy": {"kind": "budget", "share": 0.35},
    ... })
    >>> config.detector()
    <Detector of Gaussian(mean=0, var=9, noise_var=1) over imu, gps: no ticks, spent 0>
    >>> Config.parse({"model": {"kind": "gaussian", "nois": 1}})
    Traceback (most recent call last):
    ...
    mfbocd.io.config.kinds.ConfigError: model.nois is unknown (did you mean 'noise_var'?); expected mean, var, ...
    >>> Config.parse({"model": {"kind": "gaussian", "noise_var": -1}})
    Traceback (most recent call last):
    ...
    mfbocd.io.config.kinds.ConfigError: model.noise_var must be positive, not -1
    """

    model: dict[str, Any]
    fidelities: tuple[FidelityConfig, ...] = ()
    hazard: float | list[float] | dict[str, Any] = 1 / 250
    policy: dict[str, Any] | None = None
    alarm: Alarm | None = Alarm()  # noqa: RUF009 (frozen)
    prune: dict[str, Any] | bool | None = None
    missing: Missing = "skip"
    seed: int = 0
    data: Data = Data()  # noqa: RUF009 (frozen)

    @classmethod
    def load(cls, path: str | Path) -> Config:
        """Load and validate a TOML file.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        Config
            The configuration.

        Raises
        ------
        ConfigError
            If the file is not valid; the message names the file and the key.
        OSError
            If the file cannot be read.

        Examples
        --------
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "mf.toml"
        >>> _ = file.write_text('hazard = 0.01\\n[model]\\nkind = "bernoulli"\\n')
        >>> Config.load(file).hazard
        0.01
        """
        given = toml.read_toml(path)
        try:
            return cls.parse(given)
        except RecursionError:
            raise ConfigError(f"{path}: {TOO_DEEP}") from None
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Config:
        """Validate a mapping of plain values.

        Parameters
        ----------
        given : Mapping[str, Any]
            Keys and values, as `tomllib` or `json` return them.

        Returns
        -------
        Config
            The configuration.

        Raises
        ------
        ConfigError
            If a key is unknown or missing, or a value is not valid; the message names the dotted key.

        Examples
        --------
        >>> Config.parse({"model": {"kind": "bernoulli"}}).hazard
        0.004
        """
        config = cls(**validated(given))
        config._pruning()
        # errors that appear only when the parts are combined
        with_key("config", "Detector", config.detector, shared=True)
        return config

    def detector(
        self, observers: Mapping[str, Callable[[Any], Any]] | None = None, *, shared: bool = False, **overrides: Any
    ) -> Detector:
        """Return a detector before its first tick.

        Parameters
        ----------
        observers : Mapping[str, Callable[[Any], Any]] or None
            The functions that observe, by the fidelities' names; None by default.
        shared : bool
            Whether the detector is one of several streams that share the budget, which may then exceed what one
            stream can spend; False by default.
        **overrides : Any
            Arguments of `Detector` that replace those of the configuration.

        Returns
        -------
        Detector
            The detector.

        Raises
        ------
        ConfigError
            If `observers` names an unknown fidelity.
        ValueError
            If an override is not valid.

        Examples
        --------
        >>> config = Config.parse({"model": {"kind": "bernoulli"}, "hazard": 0.01})
        >>> config.detector(observers={"full": float}).step("1").x
        1.0
        """
        given = dict(observers or {})
        names = [f.name for f in self.fidelities] or ["full"]
        for name in given:
            if name not in names:
                raise ConfigError(f"observers must name fidelities ({', '.join(names)}), not {name!r}")
        arguments = self._arguments(given)
        arguments["policy"].shared = shared
        return Detector(**(arguments | overrides))

    def fleet(self, n: int, *, shared: bool = False, **overrides: Any) -> Fleet:
        """Return a fleet of streams with this configuration.

        Parameters
        ----------
        n : int
            Number of streams.
        shared : bool, default False
            Whether the budget may exceed what these streams can spend, because other streams share it.
        **overrides : Any
            Arguments of `Fleet` that replace those of the configuration.

        Returns
        -------
        Fleet
            The fleet, before its first tick.

        Examples
        --------
        >>> fleet = Config.parse({"model": {"kind": "bernoulli"}}).fleet(3)
        >>> fleet.update([0, 1, 1]).x
        array([0., 1., 1.])
        """
        arguments = self._arguments({})
        arguments["policy"].shared = shared
        return Fleet(n, **(arguments | overrides))

    def shared_budget(self, streams: int, *, shared: bool = False) -> SharedBudget | None:
        """Return the budget of streams that share it but are not in one fleet, as in `Fleet`.

        Parameters
        ----------
        streams : int
            Number of streams, at least 1.
        shared : bool, default False
            Whether the budget may exceed what these streams can spend, because others will share it.

        Returns
        -------
        SharedBudget or None
            The budget before the first tick; None if the policy is not a budget.

        Raises
        ------
        ValueError
            If the budget has a cap, or is too small or too large for these streams.
        """
        like = self.detector(shared=True)
        if not isinstance(like.policy, Budget):
            return None
        like.policy.shared = shared
        return SharedBudget(like.policy, like.fidelities, like._filter, streams)

    def to_dict(self) -> dict[str, Any]:
        """Return the configuration as plain JSON values; `parse` restores it.

        Returns
        -------
        dict[str, Any]
            Keys and values.
        """
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
            options = asdict(self.alarm).items()
            given["alarm"] = {k: list(v) if isinstance(v, tuple) else v for k, v in options if v is not None}
        if isinstance(self.prune, dict):
            given["prune"] = self.prune
        data = {k: v for k, v in asdict(self.data).items() if v}
        return given | ({"data": data} if data else {})

    def to_toml(self, notes: Mapping[str, str] | None = None) -> str:
        """Return the configuration as TOML text.

        Parameters
        ----------
        notes : Mapping[str, str] or None
            Comments by dotted key, such as ``"fidelity[0].zeta"``; ``""`` is the comment at the top. None by default.

        Returns
        -------
        str
            The text of a file that `load` reads.

        Examples
        --------
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
        within = 200
        threshold = 0.9
        <BLANKLINE>
        """
        return toml.document(self.to_dict(), notes or {})

    def digest(self, *, costs: bool = False) -> str:
        """Return a fingerprint of all that a saved state depends on: it cannot be continued under another one.

        Costs may change while a stream runs, and the table ``[data]``, columns and commands describe where readings
        come from and how they are shown: none of these is part of the fingerprint.

        Parameters
        ----------
        costs : bool
            Whether costs and columns count as well, as they do for the members of a group; False by default.

        Returns
        -------
        str
            SHA-256 as hexadecimal digits.

        Examples
        --------
        >>> config = Config.parse({"model": {"kind": "bernoulli"}})
        >>> config.digest() == Config.parse(config.to_dict() | {"data": {"unit": "m"}}).digest()
        True
        """
        given = self.lasting(costs=costs)
        return hashlib.sha256(json.dumps(given, sort_keys=True, allow_nan=False).encode()).hexdigest()

    def lasting(self, *, costs: bool = False) -> dict[str, Any]:
        """Return the keys and values that must not change while a stream runs: what `digest` is computed from.

        Parameters
        ----------
        costs : bool
            Whether costs and columns are among them; False by default.

        Returns
        -------
        dict[str, Any]
            A part of `to_dict`.

        Examples
        --------
        >>> fidelity = {"name": "gps", "zeta": 1, "cost": 40, "observe": "./gps.sh"}
        >>> Config.parse({"model": {"kind": "bernoulli"}, "fidelity": [fidelity]}).lasting()["fidelity"]
        [{'name': 'gps', 'zeta': 1.0}]
        """
        given = {k: v for k, v in self.to_dict().items() if k != "data"}
        if self.fidelities:
            leave_out = ("observe",) if costs else ("cost", "column", "observe")
            given["fidelity"] = [{k: v for k, v in row.items() if k not in leave_out} for row in given["fidelity"]]
        return given

    def _arguments(self, observers: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
        model = build("model", model_kinds(), self.model)
        fidelity_objects = fidelities_of(self.fidelities, observers)
        policy = None if self.policy is None else build("policy", policy_kinds(), self.policy)
        return {
            "model": model,
            "fidelities": fidelity_objects,
            "hazard": hazard_of(self.hazard),
            "policy": policy_of(policy, fidelity_objects),
            "prune": self._pruning(),
            "alarm": self.alarm,
            "seed": self.seed,
            "missing": self.missing,
        }

    def _pruning(self) -> tuple[Prune, ...] | None:
        return DEFAULT if self.prune is None else prune_of(self.prune)
