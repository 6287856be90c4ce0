"""Numbers of the configuration as C text."""

from __future__ import annotations

from collections.abc import Iterable

Lines = list[str]


def literal(value: float) -> str:
    """Return a number as a C literal that reads back as the same double.

    Parameters
    ----------
    value : float
        A finite number.

    Returns
    -------
    str
        Its shortest text with a point or an exponent.
    """
    text = repr(float(value))
    return text if any(c in text for c in ".e") else text + ".0"


def real(value: float) -> str:
    """Return a number in the precision of the C code.

    Parameters
    ----------
    value : float
        A finite number.

    Returns
    -------
    str
        C text.
    """
    return f"MFBOCD_R({literal(value)})"


def reals(values: dict[str, float]) -> Lines:
    """Return constants.

    Parameters
    ----------
    values : dict
        Numbers by name, without the prefix.

    Returns
    -------
    list of str
        One line for each.
    """
    width = max(map(len, values))
    return [f"static const mfbocd_real MFBOCD_{name:{width}s} = {real(value)};" for name, value in values.items()]


def array(name: str, values: Iterable[float], size: str, comment: str = "") -> Lines:
    """Return a constant array.

    Parameters
    ----------
    name : str
        Its name, without the prefix.
    values : iterable of float
        Its elements.
    size : str
        Their number, as C text.
    comment : str, default ""
        What they are.

    Returns
    -------
    list of str
        One line.
    """
    tail = f" /* {comment} */" if comment else ""
    return [f"static const mfbocd_real MFBOCD_{name}[{size}] = {{{', '.join(map(real, values))}}};{tail}"]
