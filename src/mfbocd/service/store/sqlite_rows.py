"""Statements that write many rows at once.

The module sqlite3 releases Python's lock at every statement, and for each row of `executemany`, and then waits for it
until the other threads release it. In a busy service that wait was most of the time of a transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

ROWS = 32
"""Rows of one statement."""
STATEMENTS = 128 + 2 * ROWS
"""Prepared statements that a connection keeps: the module's default, and those of each number of rows."""


def execute_rows(cursor: Any, sql: str, rows: Sequence[tuple[Any, ...]]) -> int:
    """Execute a statement on many rows, `ROWS` at a time.

    Parameters
    ----------
    cursor : sqlite3.Cursor
        In a transaction.
    sql : str
        The statement, with ``{rows}`` in the place of the rows after VALUES.
    rows : sequence of tuple
        Values, as many in each row.

    Returns
    -------
    int
        Number of rows that were written.
    """
    written = 0
    for start in range(0, len(rows), ROWS):
        part = rows[start : start + ROWS]
        cursor.execute(_with_rows(sql, len(part), len(part[0])), [value for row in part for value in row])
        written += cursor.rowcount
    return written


@cache
def _with_rows(sql: str, rows: int, columns: int) -> str:
    """The statement with parameter marks for so many rows."""
    one = f"({', '.join('?' * columns)})"
    return sql.replace("{rows}", ", ".join([one] * rows))
