"""A config set anew from held-out readings of all its fidelities."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..detector.detector import Detector
from ..io.config import Config
from ..models import Bernoulli
from ..trace.run import run
from .noise import noise_of
from .price import Tuned, price_for, weights_for
from .zeta import CalibrationError, bernoulli_zeta, gaussian_zeta

Array = NDArray[np.float64]

STREAMS = 32
"""Streams the held-out rows are cut into, at most, to try prices on: they advance together."""
REGIMES = 4
"""Regimes each of them has on average, at least: a stream costs most where it begins."""
_CONCENTRATIONS = [0.1 * 2.0**k for k in range(11)]


@dataclass(frozen=True)
class Changed:
    """One number or table of a config that was set anew, and why."""

    key: str
    label: str
    """The key as a reader would say it."""
    before: str
    after: str
    why: str


@dataclass(frozen=True)
class Recalibrated:
    """The new config and what is new in it."""

    config: Config
    changes: list[Changed]
    kept: list[str]
    """What was left as it is, and why."""

    @property
    def notes(self) -> dict[str, str]:
        """The reasons by dotted key, as comments of the new config."""
        return {c.key: f"{c.why[0].upper()}{c.why[1:]} (was {c.before})." for c in self.changes}


def recalibrate(config: Config, readings: Mapping[str, Array], share: float | None = None) -> Recalibrated:
    """zeta, noise and prior from `readings`, by fidelity, NaN where missing; the price too if `share` is given.

    `share` is how far the average cost a tick lies between the cheapest fidelity (0) and the dearest (1).
    `CalibrationError` where the data cannot tell.
    """
    given = config.to_dict()
    kind = config.model["kind"]
    changes: list[Changed] = []
    kept: list[str] = []
    best = max(config.fidelities, key=lambda f: f.zeta).name
    high = readings[best][np.isfinite(readings[best])]
    if high.size < 2:
        raise CalibrationError(f"the best fidelity, {best!r}, has {high.size} readings: that is too few")
    if kind == "gaussian":
        _gaussian(given, high, changes, kept)
    elif kind == "bernoulli":
        _bernoulli(config, given, high, changes, kept)
    else:
        kept.append(f"the model and zeta: what a {kind} model's should be cannot be told from readings alone")
    if kind in ("gaussian", "bernoulli"):
        for i, row in enumerate(given.get("fidelity", [])):
            if row["name"] != best and row["zeta"] > 0.0:
                _zeta(i, row, readings[best], readings[row["name"]], given["model"], changes)
    if share is not None:
        _price(Config.parse(given), given, readings, share, changes)
    return Recalibrated(Config.parse(given), changes, kept)


def _set(table: dict[str, Any], name: str, value: float, why: str, path: str, label: str, out: list[Changed]) -> None:
    before, table[name] = table[name], float(f"{value:.4g}")
    out.append(Changed(f"{path}.{name}", label, f"{before:.4g}", f"{table[name]:.4g}", why))


def _gaussian(given: dict[str, Any], high: Array, changes: list[Changed], kept: list[str]) -> None:
    model = given["model"] = dict(given["model"])
    noise_var, why = noise_of(high)
    _set(model, "noise_var", noise_var, why, "model", "noise_var", changes)
    spread = float(np.var(high)) - noise_var
    if spread < noise_var:
        kept.append(
            f"the prior: levels hardly differ in these readings (variance {max(spread, 0.0):.3g} beyond noise)"
        )
        return
    _set(model, "mean", float(high.mean()), f"the mean of {high.size} readings", "model", "prior mean", changes)
    _set(model, "var", spread, "the variance of the readings less the noise", "model", "prior variance", changes)


def _bernoulli(config: Config, given: dict[str, Any], high: Array, changes: list[Changed], kept: list[str]) -> None:
    """Beta(m s, (1 - m) s) with m the share of ones and s of the largest evidence."""
    share = float(high.mean())
    odd = high[(high != 0.0) & (high != 1.0)]
    if odd.size:
        raise CalibrationError(f"the best fidelity holds {odd[0]:g}: a bernoulli model reads zeros and ones")
    if share in (0.0, 1.0):
        kept.append(f"the prior: every reading of the best fidelity is {share:g}")
        return
    like = config.detector(shared=True)

    def evidence(s: float) -> float:
        model = Bernoulli(share * s, (1.0 - share) * s)
        alone = Detector(model, hazard=like.hazard, prune=like.pruning, seed=config.seed)
        run(alone, high)
        return alone.log_evidence

    s = max(_CONCENTRATIONS, key=evidence)
    model = given["model"] = dict(given["model"])
    why = f"a share of ones of {share:.3g}, as often as seen, and alpha + beta = {s:.3g}, which explains them best"
    _set(model, "alpha", share * s, why, "model", "prior alpha", changes)
    _set(model, "beta", (1.0 - share) * s, "the other part of the same prior", "model", "prior beta", changes)


def _zeta(
    i: int, row: dict[str, Any], high: Array, low: Array, model: Mapping[str, Any], changes: list[Changed]
) -> None:
    both = np.isfinite(high) & np.isfinite(low)
    x, y = high[both], low[both]
    try:
        if model["kind"] == "bernoulli":
            estimate = bernoulli_zeta(x, y, "information")
        else:
            estimate = gaussian_zeta(x, y, noise_var=model["noise_var"])
    except ValueError as refusal:
        raise CalibrationError(f"zeta of {row['name']!r}: {refusal}") from None
    value = max(estimate.value, 1e-4)
    _set(row, "zeta", value, str(estimate), f"fidelity[{i}]", f"zeta of {row['name']}", changes)


def _price(
    config: Config, given: dict[str, Any], readings: Mapping[str, Array], share: float, changes: list[Changed]
) -> None:
    """The policy that spends the budget on the held-out rows: the paper's weight where the config has that rule."""
    costs = [f.cost for f in config.fidelities]
    wanted = min(costs) + share * (max(costs) - min(costs))
    like = config.detector(shared=True)
    nothing = np.full(len(next(iter(readings.values()))), np.nan)
    table = np.stack([readings.get(f.name, nothing) for f in config.fidelities], axis=1)
    long = math.ceil(REGIMES * like.hazard.mean_length())
    streams = min(max(len(table) // long, 1), STREAMS)
    tables = [table[i * (len(table) // streams) :][: len(table) // streams] for i in range(streams)]
    before = dict(config.policy or {"kind": "budget", "share": 0.35})
    find = weights_for if before["kind"] == "information_rate" else price_for
    options = {"gain": before["gain"]} if "gain" in before else {}
    tuned: Tuned = find(
        wanted, like.model, like.fidelities, like.hazard, tables, alarm=like.alarm, prune=like.pruning, **options
    )
    after = {"kind": "information_rate" if find is weights_for else "net", **_plain(tuned.policy.spec())}
    given["policy"] = after
    why = (
        f"spends {tuned.achieved:.3g} a tick on the held-out rows; {share:g} of the way from {min(costs):g} to "
        f"{max(costs):g} is {wanted:.3g}"
    )
    changes.append(Changed("policy", "policy", _told(before), _told(after), why))


def _plain(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: float(f"{value:.6g}") if isinstance(value, float) else value
        for name, value in spec.items()
        if value is not None
    }


def _told(policy: Mapping[str, Any]) -> str:
    inside = ", ".join(
        f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in policy.items() if k != "kind"
    )
    return f"{policy['kind']}({inside})"
