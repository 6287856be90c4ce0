"""mfbocd: active multi-fidelity Bayesian online changepoint detection.

Names load on first use, so that ``import mfbocd`` does not wait for the compiler.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import calibrate, datasets, models, simulate
    from .batch import Trace, run
    from .detector import Alarm, Detector, Step
    from .fidelity import Fidelity
    from .filter import RunLength, Start
    from .fleet import Fleet
    from .hazard import Hazard
    from .models import Bernoulli, ExponentialFamily, Gaussian, Model
    from .policy import Always, Policy, Random
    from .prune import Resample, Threshold, TopK

__version__ = "0.1.0"

_HOME = {
    "batch": ["Trace", "run"],
    "detector": ["Alarm", "Detector", "Step"],
    "fidelity": ["Fidelity"],
    "filter": ["RunLength", "Start"],
    "fleet": ["Fleet"],
    "hazard": ["Hazard"],
    "models": ["Bernoulli", "ExponentialFamily", "Gaussian", "Model"],
    "policy": ["Always", "Policy", "Random"],
    "prune": ["Resample", "Threshold", "TopK"],
}
_WHERE = {name: room for room, names in _HOME.items() for name in names}
_ROOMS = ("calibrate", "datasets", "models", "simulate")

__all__ = [
    "Alarm",
    "Always",
    "Bernoulli",
    "Detector",
    "ExponentialFamily",
    "Fidelity",
    "Fleet",
    "Gaussian",
    "Hazard",
    "Model",
    "Policy",
    "Random",
    "Resample",
    "RunLength",
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
