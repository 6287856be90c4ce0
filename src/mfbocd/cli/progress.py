"""A progress bar with the remaining time, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..io.tables import Table


@contextmanager
def progress(table: Table, *, shown: bool) -> Iterator[Callable[[], None]]:
    """Yield a function that redraws the bar; it does nothing if stderr is not a terminal or the size is unknown."""
    if not shown or table.total is None or not sys.stderr.isatty():
        yield lambda: None
        return
    try:
        from tqdm import tqdm
    except ImportError:
        import click

        with click.progressbar(length=table.total, file=sys.stderr, show_eta=True) as bar:
            yield lambda: bar.update(table.done - bar.pos)
        return
    with tqdm(total=table.total, unit=table.unit, unit_scale=True, file=sys.stderr, leave=False) as drawn:
        yield lambda: drawn.update(table.done - drawn.n)
