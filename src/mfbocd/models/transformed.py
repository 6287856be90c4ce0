"""Readings whose logarithm, square root or logit is described by another model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from ..inputs.arguments import finite
from .base import Model
from .mapped import Mapped

Function = Literal["log", "sqrt", "logit"]
_LARGEST = 700.0  # its exponential can be represented


class Transformed(Mapped):
    """Readings whose logarithm, square root or logit is described by another model.

        f(x) = log(x + offset),  2 sqrt(x + offset),  or log((x + offset) / (1 - x - offset))
        p(x | zeta) = p(f(x) | zeta) f'(x)

    Use the logarithm if the noise grows with the level, the square root for counts and others whose variance grows
    with it, and the logit for shares. `Fidelity.offset` and `Fidelity.scale` act before f.

    Parameters
    ----------
    model : Model or mapping
        The model of f(x), or a table such as ``{"kind": "Gaussian", "mean": 0, "var": 9}``. Its readings must be
        continuous.
    function : {"log", "sqrt", "logit"}
        The function f.
    offset : float, default 0.0
        Added to a reading first.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range, or the model's readings are not continuous numbers.

    Notes
    -----
    The derivative f'(x) counts once at every zeta, so the evidence can be compared with that of any other model of
    the same readings. Information does not change under f: gains are those of `model`, and the variance gain is in
    its unit. A mean is the value whose f is expected, the median of the reading where the predictive of `model` is
    symmetric; the ends of an interval are quantiles of `model`, mapped back; a variance is that of `model` times the
    squared derivative of the inverse. The parameter is that of `model`.

    The square root is 0 or more, but `model` describes all numbers. Where it expects values about 0, the density does
    not integrate to 1.

    Statistics of a hypothesis: those of `model`.

    Examples
    --------
    >>> from mfbocd.models import Gaussian
    >>> model = Transformed(Gaussian(mean=0, var=9, noise_var=0.01), "log")
    >>> stats = model.prior()
    >>> for x in (95.0, 105.0, 100.0):
    ...     stats = model.update(stats, x, zeta=1.0)
    >>> round(float(model.predictive(stats)[0]), 1)
    99.7
    >>> model.check(-3.0)
    Traceback (most recent call last):
    ValueError: x = -3.0 is outside the support of Transformed: numbers above 0
    """

    def __init__(self, model: Model | Mapping[str, Any], function: Function, offset: float = 0.0) -> None:
        if function not in ("log", "sqrt", "logit"):
            raise ValueError(f"Transformed.function must be 'log', 'sqrt' or 'logit', not {function!r}")
        self.function = function
        self.offset = finite("Transformed", "offset", offset)
        high = 1.0 - self.offset - 1e-15 * (1.0 + abs(self.offset)) if function == "logit" else np.inf
        self._ends = float(np.nextafter(-self.offset, np.inf)), high
        self._wrap(model)

    def to_inner(self, x: Any, tick: Any) -> Any:
        """Return f(x); infinite outside the domain."""
        u = x + self.offset
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.function == "log":
                return np.log(np.maximum(u, 0.0))
            if self.function == "sqrt":
                return np.where(u > 0.0, 2.0 * np.sqrt(np.maximum(u, 0.0)), -np.inf)
            inside = np.clip(u, 0.0, 1.0)
            return np.log(inside) - np.log1p(-inside)

    def to_outer(self, y: Any, tick: Any) -> Any:
        """Return the reading whose f is y, or the nearest possible one."""
        if self.function == "log":
            u = np.exp(np.minimum(y, _LARGEST))
        elif self.function == "sqrt":
            half = 0.5 * np.maximum(y, 0.0)
            u = half * half  # a power of one number may round differently from that of many
        else:
            u = 1.0 / (1.0 + np.exp(np.clip(-np.asarray(y), -_LARGEST, _LARGEST)))
        return self.clipped(u - self.offset)

    def log_slope(self, x: Any) -> Any:
        """Return log f'(x)."""
        u = x + self.offset
        if self.function == "log":
            return -np.log(u)
        if self.function == "sqrt":
            return -0.5 * np.log(u)
        return -np.log(u) - np.log1p(-u)

    def clipped(self, x: Any) -> Any:
        """Return the numbers nearest in the domain."""
        return np.clip(x, *self._ends)

    def _support(self) -> str:
        low = 0.0 - self.offset
        domain = (
            f"numbers between {low:g} and {low + 1.0:g}" if self.function == "logit" else f"numbers above {low:g}"
        )
        every = self.model.possible(np.array([-1e9, -1.0, 1.0, 1e9])).all()
        return domain if every else f"{domain} whose {self.function} is possible for {self.model!r}"

    def rescaled(self, offset: float, scale: float) -> Model:
        """Refuse: the readings begin at a fixed number."""
        raise ValueError(f"Transformed has no offset and scale: the {self.function} depends on both")

    def spec(self) -> dict[str, Any]:
        """Return the model as its kind and its arguments, the function and the offset."""
        return {**super().spec(), "function": self.function, "offset": self.offset}
