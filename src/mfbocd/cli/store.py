"""``mfbocd state``: list, show, export and import the streams of a service, and the state files of `mfbocd drive`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from .common import handle_errors, status
from .serve import DB
from .state import is_state

if TYPE_CHECKING:
    from ..service.store.base import Store

create_option = click.option("--create", is_flag=True, help="Create the database if there is none.")


@click.group()
def state() -> None:
    """List, show, export and import the streams in a store.

    The service may run at the same time. `ls`, `show` and `export` also take state files of `mfbocd drive`.
    """


@contextmanager
def open_database(db: str, *, create: bool | None = None) -> Iterator[Store]:
    """Open a database that exists; with `create`, which a command may have as an option, also a new one."""
    from ..service.errors import MissingDatabaseError, RequestError
    from ..service.store import open_store

    if is_state(db):
        raise ValueError(
            f"{db} is a state file of `mfbocd drive`, not a database: pass it as an argument, without --db"
        )
    try:
        store = open_store(db, create=bool(create))
    except MissingDatabaseError as missing:
        hint = "" if create is None else ", or pass --create"
        raise ValueError(f"{missing}: check --db, or start `mfbocd serve` with it, which creates it{hint}") from None
    try:
        yield store
    except RequestError as refused:
        raise ValueError(refused.error) from None
    finally:
        store.close()


def _split(given: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Return the state files among the arguments, and the ids of streams."""
    files = [Path(one) for one in given if is_state(one)]
    return files, [one for one in given if not is_state(one)]


def _refuse_ids(ids: list[str]) -> None:
    if ids:
        raise ValueError(f"{ids[0]} is not a state file of `mfbocd drive`; for streams of a service pass only --db")


@state.command()
@click.option("--search", default="", help="Only streams whose name or id contains this text.")
@click.argument("files", nargs=-1)
@DB
def ls(search: str, files: tuple[str, ...], db: str) -> None:
    """List streams: id, ticks, cost, alarms and name, separated by tabs.

    FILES are state files of `mfbocd drive`, listed with a dash for the alarms. Default: the streams in the store.
    """
    with handle_errors():
        from .state import read

        paths, ids = _split([*files, *([db] if not files and is_state(db) else [])])
        _refuse_ids(ids)
        for path in paths:
            detector = read(path).detector
            click.echo(f"{path}\t{detector.ticks}\t{detector.spent:g}\t-\t{path.stem}")
        if paths:
            return
        with open_database(db) as store:
            offset = 0
            while rows := store.streams(search, "created", 1000, offset)[0]:
                for row in rows:
                    click.echo(f"{row.id}\t{row.tick}\t{row.spent:g}\t{row.alarms}\t{row.name}")
                offset += len(rows)


@state.command()
@click.argument("stream")
@DB
def show(stream: str, db: str) -> None:
    """Print a stream as JSON, with its configuration.

    STREAM is an id, or a state file of `mfbocd drive`.
    """
    with handle_errors():
        from .state import describe

        if is_state(stream):
            found = describe(Path(stream))
        else:
            with open_database(db) as store:
                row = store.stream(stream)
                if row is None:
                    raise ValueError(f"there is no stream {stream!r}")
                found = row.full()
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))


@state.command()
@click.argument("streams", nargs=-1)
@DB
def export(streams: tuple[str, ...], db: str) -> None:
    """Write streams with their state and steps to stdout as JSON Lines.

    STREAMS are ids, or state files of `mfbocd drive`, which have no steps. Default: all streams. What is damaged is
    named and left out, and the exit code is 1.
    """
    with handle_errors():
        from ..service.transfer import end_line, export_streams, stream_line
        from .state import read

        files, ids = _split(streams)
        for path in files:
            saved = read(path)
            sys.stdout.write(stream_line(path.stem, saved.settings, saved.detector) + "\n")
        if files:
            sys.stdout.write(end_line(len(files)) + "\n")
        if files and not ids:
            return
        problems: list[str] = []
        with open_database(db) as store:
            for line in export_streams(store, ids, problems.append):
                sys.stdout.write(line + "\n")
        for problem in problems:
            status(problem)
        if problems:
            raise ValueError(
                f"the export is complete except for {len(problems)} damaged parts, which are named above"
            )


@state.command(name="import")
@click.argument("file", type=click.File("r", encoding="utf-8"))
@create_option
@DB
def import_(file: IO[str], create: bool, db: str) -> None:
    """Import streams written by `export` from FILE, or - for stdin.

    A stream whose id already exists is an error, and so is a file whose end is missing; the streams before it stay
    imported.
    """
    with handle_errors(), open_database(db, create=create) as store:
        from ..service.transfer import import_streams

        imported = import_streams(store, file)
        status(f"Imported {len(imported)} {'stream' if len(imported) == 1 else 'streams'}.")
