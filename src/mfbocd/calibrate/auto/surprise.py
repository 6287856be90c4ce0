"""How surprising a reading is to the structures that the automatic detector follows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...belief.records import Surprise
from .rows import Member


def surprise_of(members: Sequence[Member], x: float, zeta: float) -> Surprise:
    """Return the surprise of a reading before the members learn from it.

    Parameters
    ----------
    members : sequence of Member
        The structures with their weights, at least one.
    x : float
        The reading.
    zeta : float
        Its fidelity.

    Returns
    -------
    Surprise
        The logs of the density and of both tails, mixed over the structures.
    """
    logs = np.log([max(member.weight, 1e-300) for member in members])
    each = np.array([_of(member, x, zeta) for member in members])
    return Surprise(*np.logaddexp.reduce(logs[:, None] + each, axis=0).tolist())


def _of(member: Member, x: float, zeta: float) -> Surprise:
    """Return the surprise to one structure; readings it excludes have density 0."""
    model, belief = member.detector.model, member.detector._filter
    if bool(model.possible(np.array([x]))[0]):
        return belief.surprise(x, zeta)
    if member.structure.kind == "number" or x < 0.0:
        return Surprise(-math.inf, -math.inf, 0.0)  # all possible readings are larger
    if x > 1.0:
        return Surprise(-math.inf, 0.0, -math.inf)
    # between 0 and 1, where all readings so far were 0 or 1
    return Surprise(-math.inf, belief.surprise(0.0, zeta).log_lower, belief.surprise(1.0, zeta).log_upper)
