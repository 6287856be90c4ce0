"""``mfbocd token``: create, revoke and list access tokens of a service."""

from __future__ import annotations

import click

from .common import handle_errors, status
from .serve import DB
from .store import create_option, open_database


@click.group()
def token() -> None:
    """Create, revoke and list the access tokens of a service.

    A service that is not bound to a loopback address requires a token in every request. Only hashes are stored.
    """


@token.command()
@click.argument("name")
@click.option(
    "--scope", type=click.Choice(["read", "write"]), default="write", show_default=True, help="What the token allows."
)
@create_option
@DB
def add(name: str, scope: str, create: bool, db: str) -> None:
    """Create a token and print it. It cannot be printed again.

    The database must exist: `mfbocd serve` creates it, and so does --create.
    """
    with handle_errors(), open_database(db, create=create) as store:
        from ..service.auth import add_token

        click.echo(add_token(store, name, scope))
        status(f"Created token {name!r} with scope {scope}. Send it as `Authorization: Bearer ...`.")


@token.command()
@click.argument("name")
@DB
def revoke(name: str, db: str) -> None:
    """Revoke a token. Running services reject it within two seconds."""
    with handle_errors(), open_database(db) as store:
        if not store.remove_token(name):
            raise ValueError(f"there is no token {name!r}")
        status(f"Revoked token {name!r}.")


@token.command()
@DB
def ls(db: str) -> None:
    """List tokens: name and scope, separated by a tab."""
    with handle_errors(), open_database(db) as store:
        for found in store.tokens():
            click.echo(f"{found.name}\t{found.scope}")
