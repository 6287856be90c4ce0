"""``mfbocd state``: list, show, export and import the streams of a service."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

import click

from .common import handle_errors, status
from .serve import DB

if TYPE_CHECKING:
    from ..service.store.base import Store


@click.group()
def state() -> None:
    """List, show, export and import the streams in a store.

    The service may run at the same time.
    """


@contextmanager
def _open(db: str) -> Iterator[Store]:
    from ..service.errors import RequestError
    from ..service.store import open_store

    store = open_store(db)
    try:
        yield store
    except RequestError as refused:
        raise ValueError(refused.error) from None
    finally:
        store.close()


@state.command()
@click.option("--search", default="", help="Only streams whose name or id contains this text.")
@DB
def ls(search: str, db: str) -> None:
    """List streams: id, ticks, cost, alarms and name, separated by tabs."""
    with handle_errors(), _open(db) as store:
        offset = 0
        while rows := store.streams(search, "created", 1000, offset)[0]:
            for row in rows:
                click.echo(f"{row.id}\t{row.tick}\t{row.spent:g}\t{row.alarms}\t{row.name}")
            offset += len(rows)


@state.command()
@click.argument("stream")
@DB
def show(stream: str, db: str) -> None:
    """Print a stream as JSON, with its configuration."""
    with handle_errors(), _open(db) as store:
        row = store.stream(stream)
        if row is None:
            raise ValueError(f"there is no stream {stream!r}")
        click.echo(json.dumps(row.full(), indent=2, ensure_ascii=False))


@state.command()
@click.argument("streams", nargs=-1)
@DB
def export(streams: tuple[str, ...], db: str) -> None:
    """Write streams with their state and steps to stdout as JSON Lines.

    STREAMS are ids. Default: all streams.
    """
    with handle_errors(), _open(db) as store:
        from ..service.transfer import export_streams

        for line in export_streams(store, streams):
            sys.stdout.write(line + "\n")


@state.command(name="import")
@click.argument("file", type=click.File("r", encoding="utf-8"))
@DB
def import_(file: IO[str], db: str) -> None:
    """Import streams written by `export` from FILE, or - for stdin.

    A stream whose id already exists is an error; the streams before it stay imported.
    """
    with handle_errors(), _open(db) as store:
        from ..service.transfer import import_streams

        imported = import_streams(store, file)
        status(f"Imported {len(imported)} {'stream' if len(imported) == 1 else 'streams'}.")
