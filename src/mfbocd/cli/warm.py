"""`mfbocd warm`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .plain import CONFIG, plainly, say

if TYPE_CHECKING:
    from ..io.config import Config


@click.command()
@click.argument("families", nargs=-1)
@click.option("-c", "--config", "paths", type=CONFIG, multiple=True, help="What this config needs; may be repeated.")
@click.option("--db", help="What the streams in a service's store need: a file, or postgresql://...")
@click.option("-q", "--quiet", is_flag=True, help="No talk on stderr, only errors.")
@click.option("--lines", is_flag=True, hidden=True, help="Configs as lines of JSON on stdin; each is said when done.")
def warm(families: tuple[str, ...], paths: tuple[Path, ...], db: str | None, quiet: bool, lines: bool) -> None:
    """Compile kernels now, so that nothing waits for them later.

    A kernel is compiled when it is first called, which takes seconds to minutes, and is then kept on disk: in the
    folder NUMBA_CACHE_DIR, or else beside the installed package, or else in the user's own cache. Run this once after
    an installation or an update, as the same user and with the same NUMBA_CACHE_DIR as what is run later; in an image
    of a container, when it is built.

    Without arguments the kernels of all families are compiled: some minutes.

    \b
    Examples:
      mfbocd warm
      mfbocd warm gaussian bernoulli
      mfbocd warm -c mf.toml
      mfbocd warm --db streams.db
    """
    with plainly():
        from ..io.warm import folder, rehearse, watched

        if lines:
            _answer_lines()
            return
        total, began = 0, time.monotonic()
        for name, config in _wanted(families, paths, db):
            since = time.monotonic()
            with watched() as watch:
                rehearse(config)
            took = f"{watch.compiled} kernels compiled in {time.monotonic() - since:.1f} s"
            say(f"{name}: {took if watch.compiled else 'there already'}", quiet=quiet)
            total += watch.compiled
        say(f"{total} kernels compiled in {time.monotonic() - began:.1f} s; they are in {folder()}", quiet=quiet)


def _wanted(families: tuple[str, ...], paths: tuple[Path, ...], db: str | None) -> Iterator[tuple[str, Config]]:
    """Configs with what they are called; one of those that need the same kernels."""
    from ..io.config import Config, model_kinds
    from ..io.warm import example, structure

    for path in paths:
        yield str(path), Config.load(path)
    if db is not None:
        from ..service.store import open_store

        store = open_store(db)
        try:
            stored = [json.loads(text) for text in store.configs()]
        finally:
            store.close()
        for given in {structure(one): one for one in stored}.values():
            yield given["model"]["kind"], Config.parse(given)
    for kind in families or (sorted(model_kinds()) if not paths and db is None else ()):
        yield kind, example(kind)


def _answer_lines() -> None:
    """As a service runs it: one line back for each, "ok" or what is wrong."""
    from ..io.config import Config
    from ..io.warm import rehearse

    for line in sys.stdin:
        try:
            rehearse(Config.parse(json.loads(line)))
            said = "ok"
        except Exception as error:
            said = f"{type(error).__name__}: {error}".splitlines()[0]
        sys.stdout.write(said + "\n")
        sys.stdout.flush()
