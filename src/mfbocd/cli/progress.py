"""A progress bar with the time left, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..io.tables import Table


@contextmanager
def progress(table: Table, *, shown: bool) -> Iterator[Callable[[], None]]:
    """Gives a function to be called now and then; nothing is drawn where nobody sees it or nobody knows the end."""
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
