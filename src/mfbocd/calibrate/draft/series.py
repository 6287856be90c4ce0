"""One series of readings from whatever a user has: a sequence, an array, a column of a frame, or a file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence, Set
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...inputs.readings import floats
from ...inputs.times import Times
from ...io.tables import Chunk, Format, Table, open_table
from .columns import TIMES, classify_columns

Array = NDArray[np.float64]


_HEAD = 2000  # rows of a frame that decide which column holds the readings


class GivenSeries(NamedTuple):
    """Readings with their labels.

    Attributes
    ----------
    x : numpy.ndarray
        The readings, NaN where missing.
    labels : sequence or None
        One label per reading, such as a timestamp; None if they are only numbered.
    name : str
        Name of the column; empty if there is none.
    """

    x: Array
    labels: Sequence[Any] | None
    name: str


def read_series(
    data: Any, column: str | None = None, time: str | None = None, format: Format | None = None
) -> GivenSeries:
    """Return one series of readings.

    Parameters
    ----------
    data : Any
        An array, a sequence, a pandas or polars Series, a frame (anything with ``columns``), or the path of a table.
    column : str, optional
        The column of a frame or table; it may be omitted if there is only one column of readings.
    time : str, optional
        The column of labels. By default the index of a pandas object, or a column that looks like one.
    format : {"csv", "jsonl", "parquet", "arrow"}, optional
        Format of a file; by default that of its name.

    Returns
    -------
    GivenSeries
        The readings and their labels.

    Raises
    ------
    TypeError, ValueError
        If there is not one series of numbers, or if it has no order, such as a set.
    OSError
        If a file cannot be opened.

    Examples
    --------
    >>> read_series([1, None, 3]).x
    array([ 1., nan,  3.])
    """
    if isinstance(data, (str, os.PathLike)):
        with open_table(Path(data), format) as table:
            return _from_table(table, column, time)
    if hasattr(data, "collect_schema") and hasattr(data, "collect"):  # a lazy frame of polars
        data = data.collect()
    if hasattr(data, "columns"):
        return _from_frame(data, column, time)
    if isinstance(data, Set):
        raise TypeError(f"data must have an order, which a {type(data).__name__} has not: pass a list")
    if isinstance(data, Mapping):
        raise TypeError(
            f"data must be a series of numbers, not a {type(data).__name__}: pass one of its columns, such as "
            "data['temperature'], or a frame of them, such as pandas.DataFrame(data)"
        )
    if not (hasattr(data, "__iter__") or hasattr(data, "__array__")):
        raise TypeError(
            f"data must be a series of numbers, a frame or the path of a table, not {type(data).__name__}"
        )
    if column is not None or time is not None:
        raise ValueError("column and time name columns of a frame or a file, but data is a single series")
    x = _one_dimension(floats(data if hasattr(data, "__array__") else list(data)))
    return GivenSeries(x, _index_of(data), str(name) if (name := getattr(data, "name", None)) is not None else "")


def find_column(
    table: Table, head: Sequence[Chunk], column: str | None = None, time: str | None = None
) -> tuple[str, str | None]:
    """Return the column of readings of a table and that of its timestamps.

    Parameters
    ----------
    table : Table
        The table.
    head : sequence of Chunk
        Its first rows, with all columns that are not excluded by `column` and `time`.
    column : str, optional
        The column of readings; it may be omitted if there is only one.
    time : str, optional
        The column of timestamps, if it is known.

    Returns
    -------
    column : str
        Name of the readings.
    time : str or None
        Name of the timestamps, if there are any.

    Raises
    ------
    ValueError
        If there is no such column, none, or several.
    """
    found = classify_columns(head, wanted_columns(table, column, time), time=time)
    if column is None and len(found.readings) > 1:
        raise ValueError(
            f"{table.name} has several columns of numbers: {', '.join(found.readings)}: select one with column="
        )
    if not found.readings:
        why = "; ".join(f"{name!r}: {reason}" for name, reason in found.reasons.items())
        raise ValueError(f"{table.name} has no column of numbers ({why})")
    name = column or next(iter(found.readings))
    if name not in found.readings:
        raise ValueError(f"column {name!r} has no numbers: {found.reasons.get(name, 'it holds the timestamps')}")
    return name, found.time


def wanted_columns(table: Table, column: str | None, time: str | None) -> tuple[str, ...]:
    """Return the columns to read in order to find the readings and their timestamps.

    Parameters
    ----------
    table : Table
        The table.
    column, time : str, optional
        The columns, as far as they are known.

    Returns
    -------
    tuple of str
        All columns, or the readings and the timestamps if `column` is given.
    """
    if column is None:
        return table.columns
    stamps = [time] if time else [name for name in table.columns if name.strip().lower() in TIMES][:1]
    return tuple(dict.fromkeys([column, *stamps]))


def times_of(labels: Sequence[Any] | None) -> Times | None:
    """Read labels as times.

    Parameters
    ----------
    labels : sequence or None
        The labels.

    Returns
    -------
    Times or None
        None if there are no labels.

    Examples
    --------
    >>> str(times_of(["2024-05-01 12:00", "2024-05-01 13:00"]).at[0])
    '2024-05-01T12:00:00.000000'
    """
    return None if labels is None or not len(labels) else Times.of(labels)


def is_sorted(labels: Sequence[Any]) -> bool:
    """Tell whether labels never decrease: as times if they are, else by their own order.

    Parameters
    ----------
    labels : sequence
        Numbers, dates or text.

    Returns
    -------
    bool
        False as well if they cannot be compared.
    """
    times = Times.of(labels)
    if times.at is not None:
        return times.increasing
    try:
        return all(a <= b for a, b in pairwise(labels))
    except TypeError:
        return False


def _from_table(table: Table, column: str | None, time: str | None) -> GivenSeries:
    head = list(table.chunks(wanted_columns(table, column, time)))
    if not head:
        raise ValueError(f"{table.name} has no rows")
    name, stamps = find_column(table, head[:1], column, time)  # the first rows decide, as for the command
    cells = [chunk.number(i, name) for chunk in head for i in range(len(chunk))]
    x = np.array([np.nan if cell is None else cell for cell in cells], dtype=np.float64)
    labels = None if stamps is None else [chunk.label(i, stamps) for chunk in head for i in range(len(chunk))]
    return GivenSeries(x, labels, name)


def _from_frame(data: Any, column: str | None, time: str | None) -> GivenSeries:
    names = list(data.columns)
    for given in (column, time):
        if given is not None and given not in names:
            raise ValueError(f"data has no column {given!r}, only {', '.join(map(repr, names))}")
    name = column
    if name is None:
        name, stamps = _choose_column(data, names, time)
        if time is None and _index_of(data) is None:
            time = stamps
    labels = _index_of(data) if time is None else list(data[time])
    return GivenSeries(_one_dimension(floats(data[name])), labels, str(name))


def _choose_column(data: Any, names: list[Any], time: Any) -> tuple[Any, Any]:
    """Return the only column of readings of a frame and that of its times, if any, as for a file."""
    left = [name for name in names if name != time]
    if len(left) == 1:
        return left[0], None
    by_text = {str(name): name for name in names}
    first = {text: list(islice(iter(data[name]), _HEAD)) for text, name in by_text.items()}
    rows = range(len(next(iter(first.values()), [])))
    found = classify_columns([Chunk("row", rows, first)], list(by_text), time=None if time is None else str(time))
    if len(found.readings) != 1:
        if not found.readings:
            raise ValueError(f"data has no column of numbers, only {', '.join(map(repr, by_text))}")
        several = ", ".join(map(repr, found.readings))
        raise ValueError(f"data has several columns of numbers: {several}: select one with column=")
    stamps = None if found.time is None else by_text[found.time]
    return by_text[next(iter(found.readings))], stamps


def _one_dimension(x: Array) -> Array:
    if x.ndim == 2 and x.shape[1] == 1:
        x = x[:, 0]
    if x.ndim != 1:
        raise ValueError(f"data must be one series, not an array of shape {x.shape}")
    return x


def _index_of(data: Any) -> Sequence[Any] | None:
    """Return the index of a pandas object; None if it only numbers the rows."""
    index = getattr(data, "index", None)
    if index is None or callable(index):  # a list has a method of that name
        return None
    plain = type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1
    return None if plain else list(index)
