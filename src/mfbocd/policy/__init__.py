"""Which fidelity to read next: rules that turn gains and costs into a choice."""

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
"""By name, for loading."""

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
