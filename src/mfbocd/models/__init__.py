"""Likelihood families with their priors, one per file, each with its formulas in the class docstring."""

from .autoregressive import Autoregressive
from .base import Model
from .bernoulli import Bernoulli
from .binomial import Binomial
from .categorical import Categorical
from .confusion import Confusion
from .exponential import Exponential
from .exponential_family import ExponentialFamily
from .fixed_season import FixedSeason
from .gamma import Gamma
from .gaussian import Gaussian
from .gaussian_process import GaussianProcess
from .gaussian_unknown import GaussianUnknown
from .grid import Grid
from .linear_regression import LinearRegression
from .mixture import Mixture
from .multivariate import MultivariateGaussian
from .multivariate_unknown import MultivariateGaussianUnknown
from .outliers import Outliers
from .poisson import Poisson
from .product import Product
from .robust_trend import RobustTrend
from .rounded import Rounded
from .scaled import Scaled
from .seasonal import Seasonal
from .student import StudentT
from .student_unknown import StudentTUnknown
from .transformed import Transformed
from .trend import Trend
from .vector_autoregressive import VectorAutoregressive

__all__ = [
    "Autoregressive",
    "Bernoulli",
    "Binomial",
    "Categorical",
    "Confusion",
    "Exponential",
    "ExponentialFamily",
    "FixedSeason",
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
    "Rounded",
    "Scaled",
    "Seasonal",
    "StudentT",
    "StudentTUnknown",
    "Transformed",
    "Trend",
    "VectorAutoregressive",
]
