"""Whatever number is an argument: it is refused by name, or the stream goes on with finite results."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import mfbocd as mf
from mfbocd.detector.step import reading
from mfbocd.io.config import Config, ConfigError, model_kinds, policy_kinds
from mfbocd.io.config.kinds import hazard_kinds
from mfbocd.io.warm import FIDELITIES, NEEDED, typical

pytestmark = pytest.mark.slow

Table = dict[str, Any]
VALUES = (0, -1, 1e-100, 1e-30, 1e-12, 1e12, 1e30, 1e100, -1e100, 1e308)
READINGS = (None, 0.5, 1.0, 0.0, -3.0, 1e6, None)
"""Missing and real ones; what a family does not accept is left out."""
GAINS = (1, 5)
"""Readings after which the gains are computed."""
FEW = (0, -1, 1e-100, 1e12, 1e100)
"""For models of other models, whose gains take long."""
ARGUMENTS: dict[str, list[str]] = {
    "weibull": ["shape", "scale", "horizon"],
    "learned": ["low", "high", "points"],
    "budget": ["share", "per_tick"],
    "margin": ["delta"],
    "net": ["price"],
    "soft": ["temperature", "price"],
}
"""Numbers of hazards and policies; the other kinds have names and lists."""
POLICY = {"kind": "budget", "share": 0.4}


def changed(kind: str) -> Iterator[Table]:
    """The model with each of its numbers replaced by each of the values."""
    given = {"kind": kind, **NEEDED.get(kind, {})}
    own = Config.parse({"model": given}).model
    for name, parameter in inspect.signature(model_kinds()[kind]).parameters.items():
        if name in own or "float" in str(parameter.annotation) or "int" in str(parameter.annotation):
            for value in FEW if kind in ("mixture", "outliers", "product") else VALUES:
                for whole in spoilt(own.get(name, 1.0), value):
                    yield {k: v for k, v in own.items() if name != "noise_var" or k not in ("shape", "scale")} | {
                        name: whole
                    }


def spoilt(given: Any, value: float) -> Iterator[Any]:
    """What is given with one of its numbers replaced: of each list the first and the last."""
    if isinstance(given, dict):
        for key, inner in given.items():
            for whole in spoilt(inner, value):
                yield given | {key: whole}
    elif isinstance(given, list):
        for i in sorted({0, len(given) - 1}) if given else ():
            for whole in spoilt(given[i], value):
                yield [*given[:i], whole, *given[i + 1 :]]
        yield value
        if given and isinstance(given[0], float):
            yield [value] * len(given)
    elif not isinstance(given, (str, bool)):
        yield value


def go_on(config: Table) -> bool:
    """Whether a configuration is accepted; if so, a stream of it goes on through all readings."""
    try:
        parsed = Config.parse(config)
    except ConfigError:
        return False
    detector = parsed.detector(missing="skip", shared=True)
    d = detector.model.dimension
    for i, x in enumerate((*READINGS, typical(detector), typical(detector))):
        try:
            value = reading(detector.model, [x] * d if d > 1 and isinstance(x, float) else x, "skip")
        except ValueError:
            continue
        for fidelity in detector.fidelities:
            step = detector.update(value, fidelity)
            assert np.isfinite(step.mean).all(), (config, x)
            assert 0.0 <= step.p_change <= 1.0, (config, x)
        if i in GAINS:
            gains = [(gain.run_length, gain.joint, gain.change) for gain in detector.gains()]
            assert np.isfinite(gains).all(), (config, x)
            assert detector.choose() in detector.fidelities
    assert math.isfinite(detector.log_evidence), config
    assert mf.Detector.from_bytes(detector.to_bytes()).ticks == detector.ticks
    return True


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", sorted(model_kinds()))
def test_a_model_refuses_its_numbers_or_goes_on(kind: str) -> None:
    accepted = [go_on({"model": model, "fidelity": FIDELITIES, "policy": POLICY}) for model in changed(kind)]
    assert True in accepted
    assert False in accepted


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", ARGUMENTS)
def test_a_hazard_or_policy_refuses_its_numbers_or_goes_on(kind: str) -> None:
    base: Table = {"model": {"kind": "gaussian"}, "fidelity": FIDELITIES, "policy": POLICY}
    usual: Table = {"weibull": {"shape": 2.0, "scale": 9.0}}.get(kind, {})
    accepted = []
    for name in ARGUMENTS[kind]:
        for value in VALUES:
            part = "hazard" if kind in hazard_kinds() else "policy"
            accepted.append(go_on(copy.deepcopy(base) | {part: {"kind": kind, **usual, name: value}}))
    assert {*ARGUMENTS} <= {*hazard_kinds(), *policy_kinds()}
    assert False in accepted


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_other_parts_refuse_their_numbers_or_go_on() -> None:
    base: Table = {"model": {"kind": "gaussian"}, "fidelity": FIDELITIES, "policy": POLICY}
    accepted = []
    for value in VALUES:
        for name in ("zeta", "cost", "offset", "scale"):
            accepted.append(go_on(base | {"fidelity": [FIDELITIES[0] | {name: value}, FIDELITIES[1]]}))
        for name in ("within", "threshold", "before", "at_least"):
            accepted.append(go_on(base | {"alarm": {"within": 30, name: value}}))
        for name in ("threshold", "top_k", "resample"):
            accepted.append(go_on(base | {"prune": {name: value}}))
        for slack in (
            base | {"prune": {"top_k": 9, "slack": value}},
            base | {"seed": value},
            base | {"hazard": value},
        ):
            accepted.append(go_on(slack))
    assert True in accepted
    assert False in accepted
