"""Update a configuration from held-out readings of all its fidelities."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..detector.detector import Detector
from ..io.config import Config
from ..io.config.edit import EditError, edited
from ..models import Bernoulli
from ..policy import Budget, Policy
from ..trace.run import run
from .checks import CalibrationError
from .correction import LEAST, estimate_correction
from .noise import noise_of
from .price import average_spend, price_for, weights_for
from .zeta import bernoulli_zeta, gaussian_zeta

Array = NDArray[np.float64]

STREAMS = 32
"""Number of streams that the held-out rows are cut into, at most, to find a price; they advance together."""
REGIMES = 4
"""Average number of regimes per stream, at least: a stream costs most at its beginning."""
_HEADER = "# Calibrated on "
_CONCENTRATIONS = [0.1 * 2.0**k for k in range(11)]


@dataclass(frozen=True)
class ConfigChange:
    """One number or table of a configuration that was changed.

    Attributes
    ----------
    key : str
        Dotted key.
    label : str
        Readable name of the key.
    before : str
        Old value.
    after : str
        New value.
    why : str
        Explanation of the new value.
    """

    key: str
    label: str
    before: str
    after: str
    why: str


@dataclass(frozen=True)
class Recalibrated:
    """The new configuration and its changes.

    Attributes
    ----------
    config : Config
        The new configuration.
    changes : list[ConfigChange]
        What was changed.
    kept : list[str]
        What was not changed, and why.
    """

    config: Config
    changes: list[ConfigChange]
    kept: list[str]

    @property
    def notes(self) -> dict[str, str]:
        """The explanations by dotted key, as comments of the new configuration."""
        return {c.key: f"{c.why[0].upper()}{c.why[1:]} (was {c.before})." for c in self.changes}

    def edited(self, text: str, header: str) -> str:
        """Return the text of the old configuration with the new values; its comments and its layout stay.

        Parameters
        ----------
        text : str
            The TOML text of the old configuration.
        header : str
            A comment for the top of the file, in place of that of an earlier calibration.

        Returns
        -------
        str
            The new text. Each new value has its explanation above it.

        Raises
        ------
        EditError
            If the values have no place in this text, such as new keys of a table that is written in one line.
        """
        new = self.config.to_dict()
        paths = {c.key: _path(c.key) for c in self.changes}
        wanted = {path: _value_at(new, path) for path in paths.values()}
        out = edited(text, wanted, {paths[c.key]: f"{c.why} (was {c.before})." for c in self.changes})
        first, _, rest = out.partition("\n")
        if first.startswith(_HEADER):
            out = rest.removeprefix("\n")
        out = f"# {header}\n\n{out}"
        if Config.parse(tomllib.loads(out)) != self.config:
            raise EditError("the edited text is another configuration")
        return out


def recalibrate(config: Config, readings: Mapping[str, Array], share: float | None = None) -> Recalibrated:
    """Estimate zeta, offset, scale, noise and prior from held-out readings, and optionally the price.

    Parameters
    ----------
    config : Config
        The configuration to update.
    readings : Mapping[str, Array]
        Readings of each fidelity at the same ticks, NaN where missing.
    share : float or None
        If given, the price is set so that the average cost per tick lies this fraction of the way from the cheapest
        fidelity (0) to the most expensive (1). None by default: the policy is kept.

    Returns
    -------
    Recalibrated
        The new configuration, with explanations.

    Raises
    ------
    CalibrationError
        If the data does not determine an estimate.

    Examples
    --------
    >>> config = Config.parse({"model": {"kind": "gaussian"}, "fidelity": [{"name": "gps", "zeta": 1, "cost": 40}]})
    >>> new = recalibrate(config, {"gps": 3.0 + 2.0 * np.random.default_rng(0).normal(size=500)})
    >>> [(change.key, change.before) for change in new.changes]
    [('model.noise_var', '1')]
    """
    given = config.to_dict()
    kind = config.model["kind"]
    changes: list[ConfigChange] = []
    kept: list[str] = []
    sensors = {f.name: f for f in config.detector(shared=True).fidelities}
    best = max(config.fidelities, key=lambda f: f.zeta).name
    reference = (readings[best] - sensors[best].offset) / sensors[best].scale
    high = reference[np.isfinite(reference)]
    if high.size < 2:
        raise CalibrationError(f"the best fidelity, {best!r}, must have at least 2 readings, not {high.size}")
    if kind == "gaussian":
        _gaussian(given, high, changes, kept)
    elif kind == "bernoulli":
        _bernoulli(config, given, high, changes, kept)
    else:
        kept.append(f"the model and zeta: readings alone do not determine them for a {kind} model")
    for i, row in enumerate(given.get("fidelity", [])):
        if row["name"] == best or row["zeta"] == 0.0:
            continue
        if _has_units(config):
            _correction(i, row, reference, readings[row["name"]], best, changes, kept)
        if kind in ("gaussian", "bernoulli"):
            low = (readings[row["name"]] - row.get("offset", 0.0)) / row.get("scale", 1.0)
            _zeta(i, row, reference, low, given["model"], changes)
    if share is not None:
        _price(Config.parse(given), given, readings, share, changes)
    return Recalibrated(Config.parse(given), changes, kept)


def _path(key: str) -> tuple[str | int, ...]:
    """Return a dotted key as a path: ``fidelity[0].zeta`` is ("fidelity", 0, "zeta")."""
    return tuple(int(index) if index else name for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", key))


def _value_at(given: Any, path: tuple[str | int, ...]) -> Any:
    """Return a value of a configuration; None for one that has its default and is therefore left out."""
    for part in path:
        if isinstance(part, str) and part not in given:
            return None
        given = given[part]
    return given


def _set(
    table: dict[str, Any], name: str, value: float, why: str, path: str, label: str, out: list[ConfigChange]
) -> None:
    before, table[name] = table[name], float(f"{value:.4g}")
    out.append(ConfigChange(f"{path}.{name}", label, f"{before:.4g}", f"{table[name]:.4g}", why))


def _has_units(config: Config) -> bool:
    """Return whether readings may be shifted and scaled: not labels and counts, whose errors are of another kind."""
    try:
        config.detector(shared=True).model.rescaled(1.0, 2.0)
    except ValueError:
        return False
    return True


def _correction(
    i: int,
    row: dict[str, Any],
    high: Array,
    low: Array,
    best: str,
    changes: list[ConfigChange],
    kept: list[str],
) -> None:
    """Set offset and scale of a fidelity from its raw readings."""
    both = np.isfinite(high) & np.isfinite(low)
    if both.sum() < LEAST:
        kept.append(f"offset and scale of {row['name']}: {both.sum()} paired readings, at least {LEAST} are needed")
        return
    found = estimate_correction(high[both], low[both])
    why = f"it {found}, compared with {best}"
    for name, after, default in (("offset", found.offset, 0.0), ("scale", found.scale, 1.0)):
        before = row.get(name, default)
        if after != before:
            row[name] = after
            changes.append(
                ConfigChange(f"fidelity[{i}].{name}", f"{name} of {row['name']}", f"{before:g}", f"{after:g}", why)
            )


def _gaussian(given: dict[str, Any], high: Array, changes: list[ConfigChange], kept: list[str]) -> None:
    model = given["model"] = dict(given["model"])
    noise_var, why = noise_of(high)
    _set(model, "noise_var", noise_var, why, "model", "noise_var", changes)
    spread = float(np.var(high)) - noise_var
    if spread < noise_var:
        kept.append(
            f"the prior: the level hardly varies in these readings (variance {max(spread, 0.0):.3g} beyond noise)"
        )
        return
    _set(model, "mean", float(high.mean()), f"the mean of {high.size} readings", "model", "prior mean", changes)
    _set(
        model,
        "var",
        spread,
        "the variance of the readings minus the noise variance",
        "model",
        "prior variance",
        changes,
    )


def _bernoulli(
    config: Config, given: dict[str, Any], high: Array, changes: list[ConfigChange], kept: list[str]
) -> None:
    """Set the prior Beta(m s, (1 - m) s), with m the fraction of ones and s of the highest evidence."""
    share = float(high.mean())
    odd = high[(high != 0.0) & (high != 1.0)]
    if odd.size:
        raise CalibrationError(f"readings of the best fidelity must be 0 or 1 for a bernoulli model, not {odd[0]:g}")
    if share in (0.0, 1.0):
        kept.append(f"the prior: every reading of the best fidelity is {share:g}")
        return
    template = config.detector(shared=True)

    def evidence(s: float) -> float:
        model = Bernoulli(share * s, (1.0 - share) * s)
        detector = Detector(model, hazard=template.hazard, prune=template.pruning, seed=config.seed)
        run(detector, high)
        return detector.log_evidence

    s = max(_CONCENTRATIONS, key=evidence)
    model = given["model"] = dict(given["model"])
    why = f"the observed fraction of ones, {share:.3g}, and alpha + beta = {s:.3g}, which has the highest evidence"
    _set(model, "alpha", share * s, why, "model", "prior alpha", changes)
    _set(model, "beta", (1.0 - share) * s, "from the same prior", "model", "prior beta", changes)


def _zeta(
    i: int, row: dict[str, Any], high: Array, low: Array, model: Mapping[str, Any], changes: list[ConfigChange]
) -> None:
    both = np.isfinite(high) & np.isfinite(low)
    x, y = high[both], low[both]
    try:
        if model["kind"] == "bernoulli":
            estimate = bernoulli_zeta(x, y, "information")
        else:
            estimate = gaussian_zeta(x, y, noise_var=model["noise_var"])
    except ValueError as error:
        raise CalibrationError(f"zeta of {row['name']!r}: {error}") from None
    value = max(estimate.value, 1e-4)
    _set(row, "zeta", value, str(estimate), f"fidelity[{i}]", f"zeta of {row['name']}", changes)


def _price(
    config: Config, given: dict[str, Any], readings: Mapping[str, Array], share: float, changes: list[ConfigChange]
) -> None:
    """Set the policy that meets the budget on the held-out rows.

    A budget stays one and gets the new amount, because it learns its price itself. The paper's rule gets the weight,
    and any other rule is replaced by `Net` with the price, that spends this amount.
    """
    costs = [f.cost for f in config.fidelities]
    wanted = min(costs) + share * (max(costs) - min(costs))
    template = config.detector(shared=True)
    missing = np.full(len(next(iter(readings.values()))), np.nan)
    table = np.stack([readings.get(f.name, missing) for f in config.fidelities], axis=1)
    stream_length = math.ceil(REGIMES * template.hazard.mean_length())
    streams = min(max(len(table) // stream_length, 1), STREAMS)
    tables = [table[i * (len(table) // streams) :][: len(table) // streams] for i in range(streams)]
    before = dict(config.policy or {"kind": "budget", "share": 0.35})
    options: dict[str, Any] = {"alarm": template.alarm, "prune": template.pruning}
    key = "policy"
    if before["kind"] == "budget":
        name, amount = ("per_tick", float(f"{wanted:.6g}")) if "per_tick" in before else ("share", share)
        after = {k: v for k, v in before.items() if k != "reads"} | {name: amount}
        key = f"policy.{name}" if name in (config.policy or {}) else key
        policy: Policy = Budget(**{k: v for k, v in after.items() if k != "kind"})
        options["share_policy"] = False  # each stream has the whole budget
        spend = average_spend(policy, template.model, template.fidelities, template.hazard, tables, **options)
    else:
        find = weights_for if before["kind"] == "information_rate" else price_for
        options |= {"gain": before["gain"]} if "gain" in before else {}
        tuned = find(wanted, template.model, template.fidelities, template.hazard, tables, **options)
        after = {"kind": "information_rate" if find is weights_for else "net", **_plain(tuned.policy.spec())}
        spend = tuned.achieved
    given["policy"] = after
    why = (
        f"spends {spend:.3g} per tick on the held-out rows; the target, {share:g} of the way from "
        f"{min(costs):g} to {max(costs):g}, is {wanted:.3g}"
    )
    changes.append(ConfigChange(key, "policy", _format_policy(before), _format_policy(after), why))


def _plain(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: float(f"{value:.6g}") if isinstance(value, float) else value
        for name, value in spec.items()
        if value is not None
    }


def _format_policy(policy: Mapping[str, Any]) -> str:
    inside = ", ".join(
        f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in policy.items() if k != "kind"
    )
    return f"{policy['kind']}({inside})"
