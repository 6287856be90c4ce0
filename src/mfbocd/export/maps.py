"""The maps before a model as C functions in the generated header: `mfbocd_inward` and `mfbocd_outward`."""

from __future__ import annotations

import math
from fractions import Fraction

from ..models import FixedSeason, Model, Rounded, Scaled, Transformed
from ..models.mapped import Mapped
from .literals import Lines, array, real

MAPS: tuple[type[Mapped], ...] = (Transformed, FixedSeason, Scaled, Rounded)
"""The maps that have C code (`templates/mfbocd_maps.h`)."""

_FURTHEST = 1e30  # an end of a domain that is further out is none


def structure(model: Model) -> str:
    """Return the names of a model and of the maps before it.

    Parameters
    ----------
    model : Model
        Any model.

    Returns
    -------
    str
        Such as ``"Transformed(FixedSeason(RobustTrend))"``.
    """
    if isinstance(model, Mapped):
        return f"{type(model).__name__}({structure(model.model)})"
    return type(model).__name__


def map_lines(model: Model) -> Lines:
    """Return the C functions that map readings to what the innermost model describes, and means back.

    Parameters
    ----------
    model : Model
        A model whose maps `check.refuse` accepts.

    Returns
    -------
    list of str
        C99 text; nothing for a model without maps.
    """
    if not isinstance(model, Mapped):
        return []
    lines = ["", '#include "mfbocd_maps.h"', ""]
    forth = ["static inline mfbocd_real mfbocd_inward_0(mfbocd_real x, uint64_t tick, mfbocd_real *slope)"]
    forth += ["{", "    (void)tick;", "    (void)slope;", "    return x;", "}"]
    back = ["static inline mfbocd_real mfbocd_outward(mfbocd_real y, uint64_t tick)", "{", "    (void)tick;"]
    for i, each in enumerate(reversed(model._maps), 1):
        if isinstance(each, FixedSeason):
            lines += _season(each, i)
        inward, outward = _steps(each, i)
        forth += [
            f"static inline mfbocd_real mfbocd_inward_{i}(mfbocd_real x, uint64_t tick, mfbocd_real *slope)",
            "{",
            *(f"    {line}" for line in inward),
            f"    return mfbocd_inward_{i - 1}(x, tick, slope);",
            "}",
        ]
        back.append(f"    y = {outward};")
    return [*lines, *forth, f"#define mfbocd_inward mfbocd_inward_{len(model._maps)}", *back, "    return y;", "}"]


def _steps(each: Mapped, i: int) -> tuple[Lines, str]:
    """Return the statements that map x inward by one map, and the expression that maps y outward."""
    if isinstance(each, Transformed):
        offset = real(each.offset)
        name = each.function
        return [f"x = mfbocd_to_{name}(x, {offset}, slope);"], f"mfbocd_from_{name}(y, {offset})"
    if isinstance(each, FixedSeason):
        season = f"mfbocd_season_at(&MFBOCD_SEASON_{i}, tick)"
        return [f"x -= {season};"], f"y + {season}"
    if isinstance(each, Scaled):
        offset, scale = real(each.offset), real(each.scale)
        change = f"*slope -= {real(math.log(each.scale))};"
        return [f"x = (x - {offset}) / {scale};", change], f"{offset} + {scale} * y"
    assert isinstance(each, Rounded)
    half = real(each._half)
    ends = [f"mfbocd_inward_{i - 1}(x {sign} {half}, 0, &unused)" for sign in "-+"]
    inward = [
        "mfbocd_real unused = 0;",
        f"if (!mfbocd_finite({ends[0]}) || !mfbocd_finite({ends[1]}))",
        "    return MFBOCD_R(NAN); /* not possible with every fraction of a step */",
        f"x += {real(each.step)} * (mfbocd_fraction(tick + UINT64_C({each.start})) - MFBOCD_R(0.5));",
    ]
    return inward, _inside(each, half)


def _inside(each: Rounded, half: str) -> str:
    """Return the expression of the possible reading that is nearest to y."""
    y, inner = "y", each.model
    if isinstance(inner, Mapped):
        low, high = float(inner.clipped(-1e300)), float(inner.clipped(1e300))
        if low > -_FURTHEST:
            y = f"mfbocd_max({y}, {real(low)} + {half})"
        if high < _FURTHEST:
            y = f"mfbocd_min({y}, {real(high)} - {half})"
    return y


def _season(each: FixedSeason, i: int) -> Lines:
    """Return the constants of a season. Phases are fractions of it times 2^64, computed exactly."""
    curve = each.season
    period = Fraction(curve.period)
    lines: Lines = []
    harmonics, pieces = len(curve.cosine), len(curve.pieces)
    if harmonics:
        lines += array(f"COSINE_{i}", curve.cosine, str(harmonics))
        lines += array(f"SINE_{i}", curve.sine, str(harmonics))
    if pieces:
        rows = [
            f"{{{_phase(Fraction(start) / period)}, {real(value)}, {real(slope * curve.period)}}}"
            for start, value, slope in curve.pieces
        ]
        lines += [f"static const mfbocd_piece_t MFBOCD_PIECE_{i}[{pieces}] = {{{', '.join(rows)}}};"]
    curves = [f"MFBOCD_{name}_{i}" if harmonics else "0" for name in ("COSINE", "SINE")]
    curves.append(f"MFBOCD_PIECE_{i}" if pieces else "0")
    clock = f"{_phase(1 / period)}, {_phase(each.start / period)}"
    values = f"{clock}, {harmonics}, {pieces}, {', '.join(curves)}"
    return [*lines, f"static const mfbocd_season_t MFBOCD_SEASON_{i} = {{{values}}};"]


def _phase(seasons: Fraction) -> str:
    return f"UINT64_C({round(seasons % 1 * 2**64) % 2**64})"
