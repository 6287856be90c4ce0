"""Short HTML for notebooks: no scripts, no styles, nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice

SHOWN = 10
"""Rows of a table that are shown."""


def html_table(
    title: str, heads: Sequence[str], rows: Iterable[Sequence[object]], total: int = 0, notes: Iterable[str] = ()
) -> str:
    """Return a title and a table as HTML; every text is escaped.

    Parameters
    ----------
    title : str
        Text above the table.
    heads : sequence of str
        Heads of the columns; empty for a table without them.
    rows : iterable of sequence
        The rows; the first ten are shown.
    total : int, default 0
        Total number of rows; the HTML says how many are not shown.
    notes : iterable of str
        Texts below the table.

    Returns
    -------
    str
        The HTML; without a table if there are no rows.

    Examples
    --------
    >>> html_table("1 < 2", ["a"], [["<b>"]])
    '<p>1 &lt; 2</p><table><tr><th>a</th></tr><tr><td>&lt;b&gt;</td></tr></table>'
    """
    shown = list(islice(rows, SHOWN))
    out = [f"<p>{escape(title)}</p>"]
    if shown:
        lines = ([_row("th", heads)] if heads else []) + [_row("td", row) for row in shown]
        out.append(f"<table>{''.join(lines)}</table>")
    left = [f"and {total - len(shown)} more"] if total > len(shown) else []
    return "".join([*out, *(f"<p>{escape(text)}</p>" for text in [*left, *notes])])


def html_facts(title: str, facts: Iterable[tuple[str, object]]) -> str:
    """Return a title and a table of names and values as HTML; every text is escaped.

    Parameters
    ----------
    title : str
        Text above the table.
    facts : iterable of tuple
        Name and value of each fact; those whose value is None are left out.

    Returns
    -------
    str
        The HTML.
    """
    rows = [_row("th", [name])[:-5] + _row("td", [value])[4:] for name, value in facts if value is not None]
    return f"<p>{escape(title)}</p><table>{''.join(rows)}</table>"


def count_text(n: int, noun: str) -> str:
    """Return a number with its noun.

    Parameters
    ----------
    n : int
        The number.
    noun : str
        The noun in the singular.

    Returns
    -------
    str
        Such as ``1 change``, ``1,200 ticks`` and ``no alarms``.

    Examples
    --------
    >>> count_text(1, "change"), count_text(1200, "tick"), count_text(0, "alarm")
    ('1 change', '1,200 ticks', 'no alarms')
    """
    return f"{f'{n:,}' if n else 'no'} {noun}{'' if n == 1 else 's'}"


def percent_text(p: float) -> str:
    """Return a probability in percent.

    Parameters
    ----------
    p : float
        The probability.

    Returns
    -------
    str
        Never ``100 %``, which rounding would make of a high one.

    Examples
    --------
    >>> percent_text(0.99), percent_text(0.9999)
    ('99 %', '> 99.9 %')
    """
    return "> 99.9 %" if p > 0.999 else f"{100.0 * p:.1f}".removesuffix(".0") + " %"


def number_text(value: object) -> str:
    """Return a number, or several, with four digits; other values as they are.

    Parameters
    ----------
    value : object
        A number, a tuple of them, None, or anything else.

    Returns
    -------
    str
        The text; ``-`` for None.

    Examples
    --------
    >>> number_text(1 / 3), number_text((1.0, 2.5)), number_text(None), number_text("gps")
    ('0.3333', '(1, 2.5)', '-', 'gps')
    """
    if value is None:
        return "-"
    if isinstance(value, tuple):
        return f"({', '.join(map(number_text, value))})"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _row(tag: str, cells: Sequence[object]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(number_text(cell))}</{tag}>" for cell in cells) + "</tr>"
