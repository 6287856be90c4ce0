"""``mfbocd warm``."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from .common import CONFIG, handle_errors, quiet_option, status
from .store import open_database

if TYPE_CHECKING:
    from ..io.config import Config


@click.command()
@click.argument("families", nargs=-1)
@click.option(
    "-c",
    "--config",
    "paths",
    type=CONFIG,
    multiple=True,
    help="Compile what this configuration needs. May be repeated.",
)
@click.option(
    "--db",
    envvar="MFBOCD_DB",
    show_envvar=True,
    help="Compile what the streams in this store need: an SQLite file or postgresql://... It must exist. The "
    "environment variable is not used if families or a configuration are given.",
)
@quiet_option
def warm(families: tuple[str, ...], paths: tuple[Path, ...], db: str | None, quiet: bool) -> None:
    """Compile the kernels of model families ahead of time.

    A kernel is compiled at its first call, which takes seconds, and is then cached on disk: in the folder
    NUMBA_CACHE_DIR if it is set, else next to the installed package, else in the user's cache folder. Run this once
    after an installation or an update, for instance when a container image is built, as the same user and with
    the same NUMBA_CACHE_DIR as the later runs.

    FAMILIES are model kinds such as gaussian. Without families, a configuration or a store, all families are
    compiled, which takes some minutes.

    \b
    Examples:
      mfbocd warm
      mfbocd warm gaussian bernoulli
      mfbocd warm -c mf.toml
      mfbocd warm --db streams.db
    """
    with handle_errors():
        from ..io.warm import folder, rehearse, watched

        source = click.get_current_context().get_parameter_source("db")
        if (families or paths) and source is ParameterSource.ENVIRONMENT:
            db = None  # the store need not exist when an image is built
        total, start = 0, time.monotonic()
        for name, config in _configs(families, paths, db):
            began = time.monotonic()
            with watched() as watch:
                rehearse(config)
            took = f"{watch.compiled} kernels compiled in {time.monotonic() - began:.1f} s"
            status(f"{name}: {took if watch.compiled else 'already compiled'}", quiet=quiet)
            total += watch.compiled
        status(f"{total} kernels compiled in {time.monotonic() - start:.1f} s; cached in {folder()}", quiet=quiet)


def _configs(families: tuple[str, ...], paths: tuple[Path, ...], db: str | None) -> Iterator[tuple[str, Config]]:
    """Yield the requested configurations with their names; of stored ones that share all kernels, only one."""
    from ..io.config import Config, model_kinds
    from ..io.warm import example, structure

    for path in paths:
        yield str(path), Config.load(path)
    if db is not None:
        with open_database(db) as store:
            stored = store.configs()
        found = {}
        for text in stored:
            try:
                config = Config.parse(json.loads(text))
            except ValueError as error:  # of a damaged row, which must not hold up the others
                status(f"a configuration in the store is damaged and left out: {error}")
            else:
                found[structure(config.to_dict())] = config
        for config in found.values():
            yield config.model["kind"], config
    for kind in families or (sorted(model_kinds()) if not paths and db is None else ()):
        yield kind, example(kind)
