"""The record that every real stream is returned as."""

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
    """Real readings of one quantity at several fidelities, and suggested settings for a detector.

    Only `table`, `truth`, `theta` and `changes` were computed from the stream itself. Thresholds, zeta and the model
    come from held-out data or from general knowledge, as the docstring of each function says. If there is no other
    data, the first `warmup` ticks were held out, and a score should start after them.

    Attributes
    ----------
    table : numpy.ndarray
        (T, J): column j holds the readings at fidelity j.
    fidelities : tuple[Fidelity, ...]
        One per column, from cheap to expensive; the last one has zeta = 1.
    model : Gaussian or Bernoulli
        A suggested model with its prior.
    hazard : float
        A suggested P(change) per tick.
    truth : numpy.ndarray or None
        (T,): what a perfect observer would read; None if it is not known.
    changes : numpy.ndarray
        Ticks at which a new regime begins, without the first tick.
    source : str
        Origin and licence of the data.
    note : str
        How the readings were made, and known limitations.
    theta : numpy.ndarray or None
        (T,): the parameter behind `truth`, if the stream was sampled; otherwise None.
    annotations : Mapping[str, numpy.ndarray]
        Changes marked by each annotator, if there were several; `changes` is then the majority's.
    warmup : int
        Leading ticks that were used as held-out data; 0 if other data was.

    Raises
    ------
    ValueError
        If the arrays do not have one row per tick, or a change is not a tick of the stream.

    Examples
    --------
    >>> from mfbocd.datasets import camvid_fence
    >>> stream = camvid_fence()
    >>> stream.table.shape, [f.cost for f in stream.fidelities]
    ((171, 4), [0.224, 0.407, 0.642, 1.012])
    """

    table: Array
    fidelities: tuple[Fidelity, ...]
    model: Gaussian | Bernoulli
    hazard: float
    truth: Array | None
    changes: Ticks
    source: str
    note: str
    theta: Array | None = None
    annotations: Mapping[str, Ticks] = field(default_factory=dict)
    warmup: int = 0

    def __post_init__(self) -> None:
        ticks, columns = self.table.shape
        if columns != len(checked(self.fidelities)):
            raise ValueError(
                f"RealStream.table must have {len(self.fidelities)} columns, one per fidelity, not {columns}"
            )
        for name, value in (("truth", self.truth), ("theta", self.theta)):
            if value is not None and value.shape != (ticks,):
                raise ValueError(f"RealStream.{name} must have shape ({ticks},), not {value.shape}")
        if self.changes.size and (self.changes[0] < 1 or self.changes[-1] >= ticks):
            raise ValueError(f"RealStream.changes must lie in 1..{ticks - 1}, not {self.changes}")


def switches(truth: Array) -> Ticks:
    """Return the ticks at which a piecewise constant truth differs from the tick before.

    Parameters
    ----------
    truth : numpy.ndarray
        The truth at each tick.

    Returns
    -------
    numpy.ndarray
        The ticks.
    """
    return np.flatnonzero(np.diff(truth)) + 1


def shipped(name: str) -> Traversable:
    """Return a data file of this package.

    Parameters
    ----------
    name : str
        File name.

    Returns
    -------
    importlib.resources.abc.Traversable
        The file.
    """
    return resources.files(__package__) / "data" / name


def extra(module: str) -> Any:
    """Import a module that belongs to the extra ``mfbocd[real]``.

    Parameters
    ----------
    module : str
        Name of the module.

    Returns
    -------
    Any
        The module.

    Raises
    ------
    ImportError
        If the package is not installed; the message names the extra.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        # the extra only helps if the package itself is missing
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise ImportError(f"this stream needs {package}: pip install 'mfbocd[real]'") from error
