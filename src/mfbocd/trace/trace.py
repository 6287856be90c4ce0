"""The record of a finished stream: its steps as arrays, and the extra detail that plots need."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from ..belief.records import Surprise
from ..detector.base import BaseDetector
from ..detector.level_rule import LevelRule
from ..detector.step import Step
from ..inputs.display import count_text
from ..policy.fidelity import Fidelity
from .change import Change, changes_html
from .regimes import levels_around

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Ticks = NDArray[np.int64]


@dataclass(frozen=True)
class Detail:
    """What plots need beyond the steps; `run(..., detail=True)` collects it.

    The gains are recorded at every tick. The prediction band and the run-length posterior are expensive or large, so
    they are kept for at most 1024 evenly spaced ticks: every tick of a stream up to that length, every second tick of
    one twice as long.

    Attributes
    ----------
    level : float
        Probability of the prediction band and of the intervals in `began`, in (0, 1).
    gain : str
        Which gain `gains` holds: that of the policy, or "joint" if the policy uses none.
    gains : numpy.ndarray
        (T, J): expected gain of each fidelity before tick t was read, in nats (a variance if `gain` is "variance").
    began : numpy.ndarray
        (A, 2): for each alarm, in order, the first and last tick of the credible interval of the change.

        Given that there was a change, it lies in the interval with probability `level`. P(there was a change) is the
        alarm's `confidence`.
    tick : numpy.ndarray
        (n,): the ticks at which `low`, `high` and `weight` were recorded.
    low : numpy.ndarray
        (n,): lower end of the prediction interval of x_{t+1}, at the best fidelity (`Detector.interval`).
    high : numpy.ndarray
        (n,): upper end of the prediction interval.
    length : numpy.ndarray
        (B + 1,): edges of the run-length bins, B at most 256; bin b covers length[b] <= r < length[b + 1].
    weight : numpy.ndarray
        (n, B): filtered P(r_t in bin b). The last bin also holds all longer run lengths, at most 1e-3.
    """

    level: float
    gain: str
    gains: Array
    began: Ticks
    tick: Ticks
    low: Array
    high: Array
    length: Ticks
    weight: Array


@dataclass(frozen=True, repr=False)
class Trace:
    """The steps of a stream, as arrays of length T.

    Attributes
    ----------
    choice : numpy.ndarray
        Index of the fidelity read; -1 if nothing was read at that tick.
    x : numpy.ndarray
        The reading; NaN if it is missing. Shape (T, d) for readings of d numbers.
    cost : numpy.ndarray
        Cost of the reading, in the unit of the fidelities' costs.
    mean : numpy.ndarray
        E[x_{t+1}] after tick t, with the shape of `x`.
    run_length : numpy.ndarray
        Most probable run length, argmax_l P(r_t = l).
    p_change : numpy.ndarray
        P(change within the alarm's window).
    alarm : numpy.ndarray
        Whether the alarm fired.
    changed_at : numpy.ndarray
        At an alarm, the tick at which the new regime most probably began; otherwise -1.
    confidence : numpy.ndarray
        At an alarm, P(a regime began after the last alarm and within the window); otherwise NaN.
    fidelities : tuple[str, ...]
        Names of the fidelities, indexed by `choice`.
    first : int
        Tick of the first row.
    posterior : numpy.ndarray or None
        (T, T), if requested: row t holds the filtered P(r_t = l), l = 0..t.
    costs : tuple[float, ...]
        Cost of one reading at each fidelity, NaN if the cost is a function; empty if only the names are known.
    detail : Detail or None
        What plots need, if requested.
    outlier : numpy.ndarray or None
        P(the reading was an outlier), averaged over the run lengths; None if the model has no outliers.
    surprise : Surprise or None
        If requested, the log predictive and both log tail probabilities of every reading, as arrays of length T; NaN
        where nothing was read. The tails have the shape of `x`.
    season : numpy.ndarray or None
        The part of each reading that is season according to the automatic detector, (T,); None if there is none.
    level_rule : LevelRule or None
        How the levels of `changes` follow from the readings; None weights all readings equally.

    Examples
    --------
    >>> from mfbocd import Detector, Gaussian, run
    >>> trace = run(Detector(Gaussian(0, 9, 1)), [0.1, -0.2, 0.0, 7.9, 8.1])
    >>> trace.alarm.nonzero()[0], trace.changed_at[trace.alarm]
    (array([3]), array([3]))
    """

    choice: NDArray[np.int64]
    x: Array
    cost: Array
    mean: Array
    run_length: NDArray[np.int64]
    p_change: Array
    alarm: NDArray[np.bool_]
    changed_at: NDArray[np.int64]
    confidence: Array
    fidelities: tuple[str, ...]
    first: int = 0
    posterior: Array | None = None
    costs: tuple[float, ...] = ()
    detail: Detail | None = None
    outlier: Array | None = None
    surprise: Surprise | None = None
    season: Array | None = None
    level_rule: LevelRule | None = None

    @classmethod
    def of(cls, steps: Sequence[Step], fidelities: BaseDetector | Iterable[Fidelity | str], **fields: Any) -> Self:
        """Build the trace of steps that were made one by one.

        Parameters
        ----------
        steps : Sequence[Step]
            Steps of consecutive ticks.
        fidelities : BaseDetector or Iterable[Fidelity or str]
            The detector that made the steps, or its fidelities, or just their names.
        **fields : Any
            Further fields of the trace, such as ``posterior`` or ``detail``.

        Returns
        -------
        Trace
            One row per step. Without steps, the trace has length 0 and starts at the detector's tick.

        Raises
        ------
        ValueError
            If the steps are not consecutive, or one was read at an unknown fidelity.

        Examples
        --------
        >>> from mfbocd import Detector, Gaussian
        >>> detector = Detector(Gaussian(0, 9, 1), hazard=0.01)
        >>> trace = Trace.of([detector.step(x) for x in (0.1, -0.3, 0.2, 6.0, 6.1)], detector)
        >>> trace.changes[0].changed_at, trace.spent
        (3, 5.0)
        """
        first, detector = 0, None
        if isinstance(fidelities, BaseDetector):
            detector, first = fidelities, fidelities.ticks
            fields.setdefault("level_rule", detector.level_rule)
            fidelities = detector.fidelities
        given = list(fidelities)
        index: dict[str | None, int] = {f if isinstance(f, str) else f.name: j for j, f in enumerate(given)}
        names = [name for name in index if name is not None]
        if steps:
            first = steps[0].tick
        for expected, step in enumerate(steps, first):
            if step.tick != expected:
                raise ValueError(f"steps must have consecutive ticks: expected {expected}, not {step.tick}")
            if step.fidelity is not None and step.fidelity not in index:
                raise ValueError(
                    f"step {step.tick}: fidelity must be one of {', '.join(names)}, not {step.fidelity!r}"
                )
        if all(isinstance(f, Fidelity) for f in given):
            known = [f for f in given if isinstance(f, Fidelity)]
            fields.setdefault("costs", costs_of(known))
            fields.setdefault("level_rule", LevelRule(tuple(f.zeta for f in known)))
        index[None] = -1
        x = _readings(steps)
        if detector is not None:
            fields.setdefault("season", season_of(detector, x, first))
        if any(s.outlier is not None for s in steps):
            fields["outlier"] = np.array([np.nan if s.outlier is None else s.outlier for s in steps])
        return cls(
            choice=np.array([index[s.fidelity] for s in steps], dtype=np.int64),
            x=x,
            cost=np.array([s.cost for s in steps]),
            mean=np.array([s.mean for s in steps]),
            run_length=np.array([s.run_length for s in steps], dtype=np.int64),
            p_change=np.array([s.p_change for s in steps]),
            alarm=np.array([s.alarm for s in steps], dtype=np.bool_),
            changed_at=np.array([-1 if s.changed_at is None else s.changed_at for s in steps], dtype=np.int64),
            confidence=np.array([np.nan if s.confidence is None else s.confidence for s in steps]),
            fidelities=tuple(names),
            first=first,
            surprise=_surprises(steps),
            **fields,
        )

    def __len__(self) -> int:
        return len(self.choice)

    def __repr__(self) -> str:
        return f"<{self._title()}>"

    def _repr_html_(self) -> str:
        return changes_html(self._title(), [(f"tick {c.changed_at}", f"tick {c.tick}", c) for c in self.changes])

    def _title(self) -> str:
        ticks, changes = count_text(len(self), "tick"), count_text(int(self.alarm.sum()), "change")
        counts = np.bincount(self.choice[self.choice >= 0], minlength=len(self.fidelities)).tolist()
        read = ", ".join(f"{name} {n:,} times" for name, n in zip(self.fidelities, counts, strict=True))
        return f"Trace of {ticks}: {changes}, spent {self.spent:g}" + (f" ({read})" if len(counts) > 1 else "")

    @property
    def spent(self) -> float:
        """Total cost of the readings."""
        return float(self.cost.sum())

    @cached_property
    def changes(self) -> list[Change]:
        """The alarms, in order of their ticks, with the levels before and after."""
        rows = np.flatnonzero(self.alarm).tolist()
        places = [int(self.changed_at[t]) for t in rows]
        rule = self.level_rule or LevelRule((1.0,) * max(len(self.fidelities), 1))
        x = self.x if self.season is None else self.x - self.season
        around = levels_around(x, [at - self.first for at in places], rule, self.choice)
        return [
            Change(self.first + t, at, float(self.confidence[t]), *levels)
            for t, at, levels in zip(rows, places, around, strict=True)
        ]

    def number(self, j: int) -> Self:
        """Select one component of readings that have several, so that it can be plotted.

        Parameters
        ----------
        j : int
            Index of the component, from 0.

        Returns
        -------
        Trace
            The same steps with `x` and `mean` of shape (T,), without `detail`.

        Raises
        ------
        ValueError
            If each reading is a single number.

        Examples
        --------
        >>> from mfbocd import Detector, MultivariateGaussianUnknown, run
        >>> model = MultivariateGaussianUnknown([0, 0], 0.1, degrees=4, scale=[1, 1])
        >>> trace = run(Detector(model, hazard=0.01), [[0.1, 5.0], [-0.3, 5.2]])
        >>> trace.number(1).x
        array([5. , 5.2])
        """
        if self.x.ndim == 1:
            raise ValueError("number needs readings of several numbers, but each reading has one")
        tails = self.surprise
        if tails is not None:
            tails = tails._replace(log_lower=tails.log_lower[:, j], log_upper=tails.log_upper[:, j])
        rule = self.level_rule and replace(self.level_rule, categories=0)
        return replace(self, x=self.x[:, j], mean=self.mean[:, j], detail=None, surprise=tails, level_rule=rule)

    def plot(self, **options: Any) -> Figure:
        """Draw the standard figure (extra ``plot``).

        Parameters
        ----------
        **options : Any
            Options of `mfbocd.plots.figure`, such as ``time``, ``unit`` or ``budget``.

        Returns
        -------
        matplotlib.figure.Figure
            The figure, not yet shown or saved.

        Raises
        ------
        ValueError
            If readings have several numbers: select one with `number`.
        ImportError
            If matplotlib is not installed.
        """
        from . import plots

        if self.x.ndim > 1:
            raise ValueError(f"plot needs readings of one number, not {self.x.shape[1]}: use trace.number(0).plot()")
        return plots.figure(self, **options)

    def to_frame(self) -> pd.DataFrame:
        """Return the steps as a pandas DataFrame (extra ``frame``).

        Returns
        -------
        pandas.DataFrame
            One row per tick, indexed by ``tick``, with the fidelity's name and every per-tick field. Readings of d
            numbers become the columns x_0, x_1, ... With `surprise` there are columns log_density, log_lower and
            log_upper.

        Raises
        ------
        ImportError
            If pandas is not installed.

        Examples
        --------
        >>> from mfbocd import Detector, Gaussian, run
        >>> trace = run(Detector(Gaussian(0, 9, 1), hazard=0.01), [0.1, -0.3, 0.2, 6.0, 6.1])
        >>> trace.to_frame()["run_length"].tolist()
        [0, 1, 2, 0, 1]
        """
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("to_frame needs pandas: pip install 'mfbocd[frame]'") from None

        names = np.array([*self.fidelities, None], dtype=object)  # -1, nothing read, selects the last
        columns: dict[str, Any] = {"fidelity": names[self.choice]}
        other = ("posterior", "fidelities", "first", "costs", "detail", "surprise", "season", "level_rule")
        each = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in other}
        if self.surprise is not None:
            each |= self.surprise._asdict()
        for name, value in each.items():
            if value is None:  # outlier, of a model without outliers
                continue
            if value.ndim == 1:
                columns[name] = value
            else:
                columns |= {f"{name}_{j}": value[:, j] for j in range(value.shape[1])}
        index = pd.RangeIndex(self.first, self.first + len(self), name="tick")
        return pd.DataFrame(columns, index=index)


def _readings(steps: Sequence[Step]) -> Array:
    dimension = next((len(s.mean) for s in steps if isinstance(s.mean, tuple)), 0)
    missing = (np.nan,) * dimension if dimension else np.nan
    return np.array([missing if s.x is None else s.x for s in steps], dtype=np.float64)


def _surprises(steps: Sequence[Step]) -> Surprise | None:
    """Return the surprises of steps as arrays, NaN where a step has none; None if no step has one."""
    some = next((s.surprise for s in steps if s.surprise is not None), None)
    if some is None:
        return None
    absent = tuple(np.full_like(field, np.nan) for field in some)
    columns: list[Any] = [np.array(c, dtype=float) for c in zip(*(s.surprise or absent for s in steps), strict=True)]
    return Surprise(*columns)


def season_of(detector: BaseDetector, x: Array, first: int) -> Array | None:
    """Return the seasonal part of the readings since tick `first`; None if the detector knows no season."""
    plain = detector.without_seasons(x, np.arange(first, first + len(x)))
    return None if plain is x else x - plain


def costs_of(fidelities: Sequence[Fidelity]) -> tuple[float, ...]:
    """Return the cost of one reading at each fidelity, NaN where it is a function of the raw input.

    Parameters
    ----------
    fidelities : Sequence[Fidelity]
        The fidelities.

    Returns
    -------
    tuple[float, ...]
        One cost per fidelity, in their order.
    """
    return tuple(np.nan if callable(f.cost) else float(f.cost) for f in fidelities)
