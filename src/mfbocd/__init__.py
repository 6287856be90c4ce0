"""mfbocd: active multi-fidelity Bayesian online changepoint detection.

Names load on first use, so that ``import mfbocd`` does not wait for the compiler.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import calibrate, datasets, export, models, report
    from .belief.alarm import Alarm
    from .belief.gains import FidelityGain, Gains
    from .belief.hazard import Hazard, Learned
    from .belief.pruning import Resample, Threshold, TopK
    from .belief.records import RunLength, Start, Surprise
    from .calibrate.auto import AutoDetector, auto
    from .datasets import simulate
    from .detector.base import BaseDetector
    from .detector.blocks import BlockDetector
    from .detector.detector import Detector
    from .detector.step import Step
    from .fleet.alarm import FleetAlarm
    from .fleet.fleet import Fleet
    from .inputs.blocks import Blocks
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
        Mixture,
        Model,
        MultivariateGaussian,
        MultivariateGaussianUnknown,
        Outliers,
        Poisson,
        Product,
        RobustTrend,
        Seasonal,
        StudentT,
        StudentTUnknown,
        Trend,
        VectorAutoregressive,
    )
    from .policy import Always, Budget, InformationRate, Margin, Net, Policy, Random, Soft
    from .policy.fidelity import Fidelity
    from .report.detection import Detection, detect
    from .trace import hindsight, metrics, plots
    from .trace.run import run
    from .trace.trace import Trace

__version__ = "0.1.0"

_HOME = {
    "belief.alarm": ["Alarm"],
    "belief.records": ["RunLength", "Start", "Surprise"],
    "belief.gains": ["FidelityGain", "Gains"],
    "belief.hazard": ["Hazard", "Learned"],
    "belief.pruning": ["Resample", "Threshold", "TopK"],
    "calibrate.auto": ["AutoDetector", "auto"],
    "detector": ["BaseDetector", "BlockDetector", "Detector", "Step"],
    "fleet": ["Fleet", "FleetAlarm"],
    "inputs.blocks": ["Blocks"],
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
        "Mixture",
        "Model",
        "MultivariateGaussian",
        "MultivariateGaussianUnknown",
        "Outliers",
        "Poisson",
        "Product",
        "RobustTrend",
        "Seasonal",
        "StudentT",
        "StudentTUnknown",
        "Trend",
        "VectorAutoregressive",
    ],
    "policy": ["Always", "Budget", "Fidelity", "InformationRate", "Margin", "Net", "Policy", "Random", "Soft"],
    "report.detection": ["Detection", "detect"],
    "trace": ["Trace"],
    "trace.run": ["run"],
}
_WHERE = {name: module for module, names in _HOME.items() for name in names}
_MODULES = {
    "calibrate": "calibrate",
    "datasets": "datasets",
    "export": "export",
    "hindsight": "trace.hindsight",
    "metrics": "trace.metrics",
    "models": "models",
    "plots": "trace.plots",
    "report": "report",
    "simulate": "datasets.simulate",
}

__all__ = [
    "Alarm",
    "Always",
    "AutoDetector",
    "Autoregressive",
    "BaseDetector",
    "Bernoulli",
    "Binomial",
    "BlockDetector",
    "Blocks",
    "Budget",
    "Categorical",
    "Confusion",
    "Detection",
    "Detector",
    "Exponential",
    "ExponentialFamily",
    "Fidelity",
    "FidelityGain",
    "Fleet",
    "FleetAlarm",
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
    "Mixture",
    "Model",
    "MultivariateGaussian",
    "MultivariateGaussianUnknown",
    "Net",
    "Outliers",
    "Poisson",
    "Policy",
    "Product",
    "Random",
    "Resample",
    "RobustTrend",
    "RunLength",
    "Seasonal",
    "Soft",
    "Start",
    "Step",
    "StudentT",
    "StudentTUnknown",
    "Surprise",
    "Threshold",
    "TopK",
    "Trace",
    "Trend",
    "VectorAutoregressive",
    "auto",
    "calibrate",
    "datasets",
    "detect",
    "export",
    "hindsight",
    "metrics",
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
    if name in _MODULES:
        return import_module(f".{_MODULES[name]}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
