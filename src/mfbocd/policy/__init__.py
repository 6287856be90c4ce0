"""Policies: how expected gains and costs become the choice of the next fidelity."""

from .base import Choices, Policy, draw_uniform
from .budget import Budget
from .default import policy_of
from .fidelity import Fidelity
from .fixed import Always, Random
from .rules import InformationRate, Margin, Net, Soft
from .shared import SharedBudget

POLICIES: dict[str, type[Policy]] = {
    kind.__name__: kind for kind in (Always, Budget, InformationRate, Margin, Net, Random, Soft)
}
"""Policies by class name, for loading."""

__all__ = [
    "POLICIES",
    "Always",
    "Budget",
    "Choices",
    "Fidelity",
    "InformationRate",
    "Margin",
    "Net",
    "Policy",
    "Random",
    "SharedBudget",
    "Soft",
    "draw_uniform",
    "policy_of",
]
