"""mfbocd: active multi-fidelity Bayesian online changepoint detection.

Names load on first use, so that ``import mfbocd`` does not wait for the compiler.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import calibrate, datasets, models, plots, report, simulate
    from .batch import run
    from .detector import Detector
    from .fidelity import Fidelity
    from .filter import RunLength, Start
    from .fleet import Fleet
    from .hazard import Hazard, Learned
    from .information import FidelityGain, Gains
    from .models import (
        Autoregressive,
        Bernoulli,
        Binomial,
        Categorical,
        Confusion,
        Exponential,
        ExponentialFamily,
        Gamma,
        Gaussian,
        GaussianProcess,
        GaussianUnknown,
        Grid,
        LinearRegression,
        Model,
        MultivariateGaussian,
        MultivariateGaussianUnknown,
        Poisson,
        Product,
        StudentT,
        Trend,
        VectorAutoregressive,
    )
    from .policy import Always, Budget, InformationRate, Margin, Net, Policy, Random, Soft
    from .prune import Resample, Threshold, TopK
    from .tick import Alarm, Step
    from .trace import Trace

__version__ = "0.1.0"

_HOME = {
    "batch": ["run"],
    "detector": ["Detector"],
    "fidelity": ["Fidelity"],
    "filter": ["RunLength", "Start"],
    "fleet": ["Fleet"],
    "hazard": ["Hazard", "Learned"],
    "information": ["FidelityGain", "Gains"],
    "models": [
        "Autoregressive",
        "Bernoulli",
        "Binomial",
        "Categorical",
        "Confusion",
        "Exponential",
        "ExponentialFamily",
        "Gamma",
        "Gaussian",
        "GaussianProcess",
        "GaussianUnknown",
        "Grid",
        "LinearRegression",
        "Model",
        "MultivariateGaussian",
        "MultivariateGaussianUnknown",
        "Poisson",
        "Product",
        "StudentT",
        "Trend",
        "VectorAutoregressive",
    ],
    "policy": ["Always", "Budget", "InformationRate", "Margin", "Net", "Policy", "Random", "Soft"],
    "prune": ["Resample", "Threshold", "TopK"],
    "tick": ["Alarm", "Step"],
    "trace": ["Trace"],
}
_WHERE = {name: room for room, names in _HOME.items() for name in names}
_ROOMS = ("calibrate", "datasets", "models", "plots", "report", "simulate")

__all__ = [
    "Alarm",
    "Always",
    "Autoregressive",
    "Bernoulli",
    "Binomial",
    "Budget",
    "Categorical",
    "Confusion",
    "Detector",
    "Exponential",
    "ExponentialFamily",
    "Fidelity",
    "FidelityGain",
    "Fleet",
    "Gains",
    "Gamma",
    "Gaussian",
    "GaussianProcess",
    "GaussianUnknown",
    "Grid",
    "Hazard",
    "InformationRate",
    "Learned",
    "LinearRegression",
    "Margin",
    "Model",
    "MultivariateGaussian",
    "MultivariateGaussianUnknown",
    "Net",
    "Poisson",
    "Policy",
    "Product",
    "Random",
    "Resample",
    "RunLength",
    "Soft",
    "Start",
    "Step",
    "StudentT",
    "Threshold",
    "TopK",
    "Trace",
    "Trend",
    "VectorAutoregressive",
    "calibrate",
    "datasets",
    "models",
    "plots",
    "report",
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
