"""What every real stream comes with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module, resources
from importlib.resources.abc import Traversable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..models import Bernoulli, Gaussian
from ..policy.fidelity import Fidelity, checked

Array = NDArray[np.float64]
Ticks = NDArray[np.int64]


@dataclass(frozen=True)
class RealStream:
    """Real readings of one quantity at several fidelities, cheap to dear, and a detector's settings for them.

    Nothing here but `table`, `truth`, `theta` and `changes` was computed from the stream itself: thresholds, zeta
    and the model come from held-out data or from general knowledge, as each function's docstring says. Where there
    is no other data, the first `warmup` ticks were held out, and a score should start after them.

    >>> from mfbocd.datasets import camvid_fence
    >>> stream = camvid_fence()
    >>> stream.table.shape, [f.cost for f in stream.fidelities]
    ((171, 4), [0.224, 0.407, 0.642, 1.012])
    """

    table: Array
    """(T, J): column j is what fidelity j reads."""
    fidelities: tuple[Fidelity, ...]
    """One a column; the last is the dearest and has zeta = 1."""
    model: Gaussian | Bernoulli
    """A suggested model with its prior."""
    hazard: float
    """A suggested P(change) at a tick."""
    truth: Array | None
    """(T,): what a perfect reading would say, or None where nobody knows."""
    changes: Ticks
    """Ticks at which a new regime begins, the first tick left out."""
    source: str
    """Where the data come from and on what terms."""
    note: str
    """How the readings were made, and what to beware of."""
    theta: Array | None = None
    """(T,): the parameter behind `truth`, where the stream was drawn."""
    annotations: Mapping[str, Ticks] = field(default_factory=dict)
    """Each annotator's own changes, where several people marked them; `changes` is then the majority's."""
    warmup: int = 0
    """Leading ticks that served as held-out data; a score should start after them."""

    def __post_init__(self) -> None:
        ticks, columns = self.table.shape
        if columns != len(checked(self.fidelities)):
            raise ValueError(
                f"RealStream.table has {columns} columns but there are {len(self.fidelities)} fidelities"
            )
        for name, value in (("truth", self.truth), ("theta", self.theta)):
            if value is not None and value.shape != (ticks,):
                raise ValueError(f"RealStream.{name} must have shape ({ticks},), not {value.shape}")
        if self.changes.size and (self.changes[0] < 1 or self.changes[-1] >= ticks):
            raise ValueError(f"RealStream.changes must lie in 1..{ticks - 1}, not {self.changes}")


def switches(truth: Array) -> Ticks:
    """Ticks at which a piecewise constant truth differs from the tick before."""
    return np.flatnonzero(np.diff(truth)) + 1


def shipped(name: str) -> Traversable:
    """A data file of this package."""
    return resources.files(__package__) / "data" / name


def extra(module: str) -> Any:
    """A module of the extra ``mfbocd[real]``, imported only when a stream that needs it is asked for."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        # only the package's own absence is for the extra to cure
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise ImportError(f"this stream needs {package}: pip install 'mfbocd[real]'") from error
