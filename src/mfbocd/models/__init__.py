"""Conjugate families: one a file, its formulas beside its class."""

from .base import Model
from .bernoulli import Bernoulli
from .exponential import ExponentialFamily
from .gaussian import Gaussian

__all__ = ["Bernoulli", "ExponentialFamily", "Gaussian", "Model"]
