"""Checks whether a detector can be exported; an error names the part that cannot."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..belief.hazard import Learned
from ..detector.detector import Detector
from ..models import Bernoulli, Gaussian, GaussianUnknown, Model, Poisson, RobustTrend
from ..models.mapped import Mapped
from ..models.stationary import partial_predictors
from ..policy import Always, Budget, Net
from .maps import MAPS

FAMILIES: tuple[type[Model], ...] = (Gaussian, GaussianUnknown, Bernoulli, Poisson, RobustTrend)
POLICIES = (Net, Budget, Always)
GAINS: dict[type[Model], tuple[str, ...]] = {
    Gaussian: ("variance", "change", "joint"),
    GaussianUnknown: ("variance", "change"),
    Bernoulli: ("variance", "change", "joint"),
    Poisson: ("variance", "change"),
    RobustTrend: ("variance", "change"),
}
"""The gains that the C code computes, by family. Others are integrals that take a microcontroller seconds."""

_MOST_HYPOTHESES = 65_534  # counted in 16 bits
_MOST_FIDELITIES = 254  # stored in 8 bits
_DOUBLE = "use real='double'"
_FLOAT = (1e-15, 1e15)  # squares of parameters must be floats as well


def refuse(detector: Any, real: str) -> None:
    """Raise an error that names the first part of a detector that has no C code.

    Parameters
    ----------
    detector : Any
        The detector to export.
    real : {"float", "double"}
        The precision.

    Raises
    ------
    TypeError
        If it is not a `Detector`.
    ValueError
        If a part of it cannot be exported; the message names the part and what can be.
    """
    if not isinstance(detector, Detector):
        raise TypeError(f"only a Detector can be exported, not {type(detector).__name__}")
    if real not in ("float", "double"):
        raise ValueError(f"real must be 'float' or 'double', not {real!r}")
    _refuse_belief(detector)
    _refuse_policy(detector)
    _refuse_options(detector)
    if real == "float":
        _refuse_range(detector)


def _names(kinds: Any) -> str:
    return ", ".join(kind.__name__ for kind in kinds)


def _refuse_belief(detector: Detector) -> None:
    model, hazard, pruning = detector.model, detector.hazard, detector.pruning
    for each in model._maps if isinstance(model, Mapped) else ():
        if type(each) not in MAPS:
            raise ValueError(f"{type(each).__name__} cannot be exported; maps that can: {_names(MAPS)}")
    if type(model.core) not in FAMILIES:
        raise ValueError(f"{type(model.core).__name__} cannot be exported; models that can: {_names(FAMILIES)}")
    if isinstance(hazard, Learned):
        raise ValueError("a learned hazard (Learned) cannot be exported; give a constant such as hazard=1/250")
    if hazard.table.size != 1:
        raise ValueError("a hazard by run length cannot be exported; give a constant such as hazard=1/250")
    if pruning.eps > 0.0:
        raise ValueError("Threshold cannot be exported; use TopK or Resample, which bound the memory")
    if pruning.most == 0:
        raise ValueError("a detector without pruning cannot be exported: its memory grows; use TopK or Resample")
    if pruning.most > _MOST_HYPOTHESES:
        raise ValueError(f"k = {pruning.most} hypotheses cannot be exported; at most {_MOST_HYPOTHESES} can")


def _refuse_policy(detector: Detector) -> None:
    policy, model = detector.policy, type(detector.model.core)
    if type(policy) not in POLICIES:
        raise ValueError(f"{type(policy).__name__} cannot be exported; policies that can: {_names(POLICIES)}")
    if policy.gain is not None and policy.gain not in GAINS[model]:
        raise ValueError(
            f"gain {policy.gain!r} of {model.__name__} cannot be exported; gains that can: {', '.join(GAINS[model])}"
        )
    if policy.priced:
        raise ValueError("a cost that is a function cannot be exported; give a number")
    if len(detector.fidelities) > _MOST_FIDELITIES:
        raise ValueError(f"{len(detector.fidelities)} fidelities cannot be exported; {_MOST_FIDELITIES} can")
    if isinstance(policy, Budget) and policy.reads is not None:
        raise ValueError("Budget.reads cannot be exported: it compares streams; give per_tick or share")
    if isinstance(policy, Budget) and policy.cap is not None and policy.cap[1] > 65_535:
        raise ValueError(f"Budget.cap over {policy.cap[1]} ticks cannot be exported; at most 65535 can")


def _refuse_options(detector: Detector) -> None:
    if detector.on_error == "fallback":
        raise ValueError("on_error='fallback' cannot be exported: the firmware reads the sensors itself")
    if detector.shadow:
        raise ValueError("shadow readings (shadow=) cannot be exported")
    if detector.learn:
        raise ValueError("learn=True cannot be exported")
    if detector.surprise:
        raise ValueError("surprise=True cannot be exported")
    if detector.alarm is not None and detector.alarm.has_options:
        raise ValueError("Alarm.direction, Alarm.before and Alarm.at_least cannot be exported")
    if detector.alarm is not None and detector.alarm.within >= 2**32 - 1:
        raise ValueError(f"Alarm.within = {detector.alarm.within} cannot be exported: it must fit into 32 bits")


def _refuse_range(detector: Detector) -> None:
    """Refuse parameters that a float cannot hold with their squares."""
    low, high = _FLOAT
    model = detector.model
    values: dict[str, Any] = {}
    for each in (*(model._maps if isinstance(model, Mapped) else ()), model.core):
        for name, value in each.spec().items():
            field = f"{type(each).__name__}.{name}"
            if isinstance(value, float):
                values[field] = value
            elif isinstance(value, list):
                values |= {f"{field}[{i}]": number for i, number in enumerate(np.ravel(value).tolist())}
    for fidelity in detector.fidelities:
        values[f"zeta of {fidelity.name!r}"] = fidelity.zeta
        values[f"cost of {fidelity.name!r}"] = fidelity.cost
        values[f"offset of {fidelity.name!r}"] = fidelity.offset
        values[f"scale of {fidelity.name!r}"] = fidelity.scale
    values["hazard"] = float(detector.hazard.table[0])
    for name, value in values.items():
        if isinstance(value, float) and value != 0.0 and not low <= math.fabs(value) <= high:
            raise ValueError(f"{name} = {value:g} cannot be exported in single precision; use real='double'")
    if detector.hazard.table[0] > 1.0 - 1e-6:
        raise ValueError("a hazard this close to 1 cannot be exported in single precision; use real='double'")
    if isinstance(model.core, RobustTrend):
        _refuse_trend(model.core)


def _refuse_trend(model: RobustTrend) -> None:
    """Refuse probabilities that a float rounds to 1, and lags whose sums lose its digits."""
    for name, value in (("line", model.line), ("outliers", model.outliers)):
        if value > 1.0 - 1e-6:
            raise ValueError(f"RobustTrend.{name} this close to 1 cannot be exported in single precision; {_DOUBLE}")
    if np.abs(partial_predictors(model.ar)[0]).sum() > 1e3:
        raise ValueError(f"RobustTrend.ar has coefficients too large for single precision; {_DOUBLE}")
