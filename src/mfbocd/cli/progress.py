"""A progress bar with the remaining time, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..io.tables import Table


@contextmanager
def progress(table: Table, *, shown: bool) -> Iterator[Callable[[], None]]:
    """Yield a function that redraws the bar; it does nothing if stderr is not a terminal or the size is unknown.

    The bar appears when the first rows are done and others are left: messages before that need no place beside it.
    """
    total = table.total
    if not shown or not total or not sys.stderr.isatty():
        yield lambda: None
        return
    with ExitStack() as stack:
        bar: Any = None

        def redraw() -> None:
            nonlocal bar
            if bar is None and table.done < total:
                bar = stack.enter_context(_bar(total, table))
            elif bar is not None:
                bar(table.done)

        yield redraw


@contextmanager
def _bar(total: int, table: Table) -> Iterator[Callable[[int], object]]:
    """Yield a function that moves the bar to a position."""
    try:
        from tqdm import tqdm
    except ImportError:
        import click

        with click.progressbar(length=total, file=sys.stderr, show_eta=True) as bar:
            bar.update(table.done)
            yield lambda done: bar.update(done - bar.pos)
        return
    with tqdm(
        total=total, initial=table.done, unit=table.unit, unit_scale=True, file=sys.stderr, leave=False
    ) as drawn:
        yield lambda done: drawn.update(done - drawn.n)
