"""Readings with a season that is known and the same in every regime."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np

from ..inputs.arguments import COUNTABLE, finite, whole
from .base import Array, Model
from .mapped import Mapped

Piece = tuple[float, float, float]


class Season(NamedTuple):
    """A periodic curve that is the same in every regime: harmonics, pieces of lines, or their sum.

    Attributes
    ----------
    period : float
        Ticks per season.
    cosine, sine : tuple of float
        Coefficients of the harmonics 1, 2, ..., in units of the transformed readings.
    pieces : tuple of tuple
        Phase in ticks at which each piece begins, its value there, and its slope per tick. The last one continues to
        the first one of the next season.
    """

    period: float
    cosine: tuple[float, ...] = ()
    sine: tuple[float, ...] = ()
    pieces: tuple[Piece, ...] = ()

    @property
    def fitted(self) -> int:
        """Count the numbers that were fitted to readings, without the period."""
        return 2 * len(self.cosine) + sum(2 + (slope != 0.0) for _, _, slope in self.pieces)

    def at(self, tick: Any) -> Array:
        """Return the value of the season at each tick.

        Parameters
        ----------
        tick : ndarray
            Ticks of the stream.

        Returns
        -------
        ndarray
            Same shape as `tick`.

        Examples
        --------
        >>> Season(4.0, pieces=((1.0, 0.0, 0.0), (3.0, 5.0, 1.0))).at(np.arange(8))
        array([6., 0., 0., 5., 6., 0., 0., 5.])
        """
        phase = np.mod(tick, self.period)
        angle = (2.0 * math.pi / self.period) * phase
        curve = np.zeros(np.shape(phase))
        for k, (a, b) in enumerate(zip(self.cosine, self.sine, strict=True), 1):  # a product of matrices would round
            curve = curve + (a * np.cos(k * angle) + b * np.sin(k * angle))  # differently for one reading and many
        if self.pieces:
            start, value, slope = np.array(self.pieces).T
            which = np.searchsorted(start, phase, side="right") - 1  # -1: the last piece, one season before
            age = phase - start[which] + np.where(which < 0, self.period, 0.0)
            curve = curve + value[which] + slope[which] * age
        return np.asarray(curve)


class FixedSeason(Mapped):
    """Readings with a season that is known and the same in every regime: it is subtracted before another model.

        x_t = season(t + start) + y_t

    The season is a function of the tick of the stream: harmonics, pieces of lines with jumps between them, or their
    sum. A change begins no new season, unlike in `Seasonal`, which learns the season again in every regime. The
    automatic detector fits such seasons.

    Parameters
    ----------
    model : Model or mapping
        The model of the readings without the season, or a table that names it. It must accept every number.
    period : float
        Ticks per season, positive; need not be whole.
    cosine, sine : sequence of float, default ()
        Coefficients of the harmonics 1, 2, ..., in units of the readings: a_j and b_j in a_j cos(2 pi j t / period) +
        b_j sin(2 pi j t / period).
    pieces : sequence of (float, float, float), default ()
        For each piece of a line the phase in ticks at which it begins, its value there and its slope per tick. Phases
        increase from 0 or more to less than `period`; the last piece continues to the first one of the next season.
    start : int, default 0
        Tick of the season's clock at which the stream begins.

    Attributes
    ----------
    season : Season
        The curve.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range, there is no curve, or the model does not accept every
        number.

    Notes
    -----
    Every tick counts, whether it is read or not. For two seasons, put one `FixedSeason` into another. Evidence and
    gains are those of the model.

    Statistics of a hypothesis: those of `model`, then the number of ticks of the stream.

    Examples
    --------
    >>> from mfbocd.models import Gaussian
    >>> model = FixedSeason(Gaussian(mean=20, var=9, noise_var=1), period=4, cosine=[5], sine=[0])
    >>> stats = model.prior()
    >>> for x in (25.0, 20.0, 15.0, 20.0, 25.0, 20.0):
    ...     stats = model.update(stats, x, zeta=1.0)
    >>> round(float(model.predictive(stats)[0]), 1)
    15.0
    """

    uses_ticks = True
    is_season = True

    def __init__(
        self,
        model: Model | Mapping[str, Any],
        period: float,
        cosine: Sequence[float] = (),
        sine: Sequence[float] = (),
        pieces: Sequence[Sequence[float]] = (),
        start: int = 0,
    ) -> None:
        owner = "FixedSeason"
        period = finite(owner, "period", period)
        if not 0.0 < period < COUNTABLE:
            raise ValueError(f"{owner}.period must be positive and below 2**53, not {period!r}")
        if len(cosine) != len(sine):
            raise ValueError(f"{owner}.sine must have as many coefficients as cosine, {len(cosine)}, not {len(sine)}")
        if not len(cosine) and not len(pieces):
            raise ValueError(f"{owner} needs a curve: cosine and sine, or pieces")
        self.start = whole(owner, "start", start, 0)
        self.season = Season(
            period,
            tuple(finite(owner, "cosine", a) for a in cosine),
            tuple(finite(owner, "sine", b) for b in sine),
            _pieces(pieces, period),
        )
        self._wrap(model)
        every = np.array([-1e300, -1.0, 0.0, 0.3, 1.0, 1e300])
        if not self.model.possible(every).all():
            raise ValueError(f"{owner}.model must accept every number, unlike {self.model!r}")

    def to_inner(self, x: Any, tick: Any) -> Any:
        """Return x less the season."""
        return x - self.season.at(tick + self.start)

    def to_outer(self, y: Any, tick: Any) -> Any:
        """Return y plus the season."""
        return y + self.season.at(tick + self.start)

    def _support(self) -> str:
        return "numbers that stay finite without the season"

    def rescaled(self, offset: float, scale: float) -> FixedSeason:
        """As for any model that has an offset and a scale."""
        curve = self.season
        return type(self)(
            self._inner_rescaled(offset, scale),
            curve.period,
            [scale * a for a in curve.cosine],
            [scale * b for b in curve.sine],
            [(phase, scale * value, scale * slope) for phase, value, slope in curve.pieces],
            self.start,
        )

    def spec(self) -> dict[str, Any]:
        """Return the model as its kind and its arguments, the curve and its start."""
        curve = self.season
        return {
            **super().spec(),
            "period": curve.period,
            "cosine": list(curve.cosine),
            "sine": list(curve.sine),
            "pieces": [list(piece) for piece in curve.pieces],
            "start": self.start,
        }


def _pieces(given: Sequence[Sequence[float]], period: float) -> tuple[Piece, ...]:
    """Return the pieces of a season, or raise an error that names the argument."""
    if any(np.ndim(piece) != 1 or len(piece) != 3 for piece in given):
        raise ValueError(f"FixedSeason.pieces must be triples of phase, value and slope, not {given!r}")
    checked = [finite("FixedSeason", "pieces", number) for number in chain.from_iterable(given)]
    pieces = tuple(zip(checked[::3], checked[1::3], checked[2::3], strict=True))
    phases = [phase for phase, _, _ in pieces]
    increasing = all(a < b for a, b in pairwise(phases))
    if phases and not (increasing and phases[0] >= 0.0 and phases[-1] < period):
        raise ValueError(f"FixedSeason.pieces must begin at increasing phases in [0, {period:g}), not {phases!r}")
    return pieces
