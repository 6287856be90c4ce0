"""Readings in another unit than that of their model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..inputs.arguments import finite, positive
from .base import Model
from .mapped import Mapped


class Scaled(Mapped):
    """Readings in another unit than that of their model, which describes (x - offset) / scale.

    The priors of a model can then be stated for standardized readings, with the median as `offset` and the typical
    distance from it as `scale`. Readings whose square cannot be represented need this.

    Parameters
    ----------
    model : Model or mapping
        The model of (x - offset) / scale, or a table that names it. Its readings must be continuous.
    scale : float, default 1.0
        The unit, positive.
    offset : float, default 0.0
        The origin.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range, or the model's readings are not continuous numbers.

    Notes
    -----
    The density is that of the model divided by `scale`, so the evidence is that of the readings. Gains are those of
    the model; the variance gain is in its unit.

    Statistics of a hypothesis: those of `model`.

    Examples
    --------
    >>> from mfbocd.models import Gaussian
    >>> model = Scaled(Gaussian(mean=0, var=9, noise_var=1), scale=10, offset=500)
    >>> [round(float(v)) for v in model.predictive(model.prior())]
    [500, 1000]
    """

    def __init__(self, model: Model | Mapping[str, Any], scale: float = 1.0, offset: float = 0.0) -> None:
        self.scale = positive("Scaled", "scale", scale)
        self.offset = finite("Scaled", "offset", offset)
        self._wrap(model)

    def to_inner(self, x: Any, tick: Any) -> Any:
        """Return (x - offset) / scale."""
        return (x - self.offset) / self.scale

    def to_outer(self, y: Any, tick: Any) -> Any:
        """Return offset + scale y."""
        return self.offset + self.scale * y

    def log_slope(self, x: Any) -> Any:
        """Return minus log(scale)."""
        return 0.0 * x - np.log(self.scale)

    def _support(self) -> str:
        return f"numbers in units of {self.scale:g} that are possible for {self.model!r}"

    def rescaled(self, offset: float, scale: float) -> Scaled:
        """As for any model, if that of the readings has an offset and a scale."""
        self._inner_rescaled(0.0, 1.0)  # refuses a model whose readings begin at a fixed number
        return type(self)(self.model, scale * self.scale, offset + scale * self.offset)

    def spec(self) -> dict[str, Any]:
        """Return the model as its kind and its arguments, the unit and the origin."""
        return {**super().spec(), "scale": self.scale, "offset": self.offset}
