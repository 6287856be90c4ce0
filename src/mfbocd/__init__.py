"""mfbocd: active multi-fidelity Bayesian online changepoint detection.

Names load on first use, so that ``import mfbocd`` does not wait for the compiler.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import calibrate, datasets, models, simulate
    from .batch import Trace, run
    from .detector import Detector
    from .fidelity import Fidelity
    from .filter import RunLength, Start
    from .fleet import Fleet
    from .hazard import Hazard
    from .information import FidelityGain, Gains
    from .models import Bernoulli, ExponentialFamily, Gaussian, Model
    from .policy import Always, Budget, InformationRate, Margin, Net, Policy, Random, Soft
    from .prune import Resample, Threshold, TopK
    from .tick import Alarm, Step

__version__ = "0.1.0"

_HOME = {
    "batch": ["Trace", "run"],
    "detector": ["Detector"],
    "fidelity": ["Fidelity"],
    "filter": ["RunLength", "Start"],
    "fleet": ["Fleet"],
    "hazard": ["Hazard"],
    "information": ["FidelityGain", "Gains"],
    "models": ["Bernoulli", "ExponentialFamily", "Gaussian", "Model"],
    "policy": ["Always", "Budget", "InformationRate", "Margin", "Net", "Policy", "Random", "Soft"],
    "prune": ["Resample", "Threshold", "TopK"],
    "tick": ["Alarm", "Step"],
}
_WHERE = {name: room for room, names in _HOME.items() for name in names}
_ROOMS = ("calibrate", "datasets", "models", "simulate")

__all__ = [
    "Alarm",
    "Always",
    "Bernoulli",
    "Budget",
    "Detector",
    "ExponentialFamily",
    "Fidelity",
    "FidelityGain",
    "Fleet",
    "Gains",
    "Gaussian",
    "Hazard",
    "InformationRate",
    "Margin",
    "Model",
    "Net",
    "Policy",
    "Random",
    "Resample",
    "RunLength",
    "Soft",
    "Start",
    "Step",
    "Threshold",
    "TopK",
    "Trace",
    "calibrate",
    "datasets",
    "models",
    "run",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        value = getattr(import_module(f".{_WHERE[name]}", __name__), name)
        globals()[name] = value
        return value
    if name in _ROOMS:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
