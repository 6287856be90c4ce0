"""``mfbocd token``: create, revoke and list access tokens of a service."""

from __future__ import annotations

import click

from .common import handle_errors, status
from .serve import DB


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
@DB
def add(name: str, scope: str, db: str) -> None:
    """Create a token and print it. It cannot be printed again."""
    with handle_errors():
        from ..service.auth import add_token
        from ..service.store import open_store

        store = open_store(db)
        try:
            click.echo(add_token(store, name, scope))
        finally:
            store.close()
        status(f"Created token {name!r} with scope {scope}. Send it as `Authorization: Bearer ...`.")


@token.command()
@click.argument("name")
@DB
def revoke(name: str, db: str) -> None:
    """Revoke a token. Running services reject it within two seconds."""
    with handle_errors():
        from ..service.store import open_store

        store = open_store(db)
        try:
            if not store.remove_token(name):
                raise ValueError(f"there is no token {name!r}")
        finally:
            store.close()
        status(f"Revoked token {name!r}.")


@token.command()
@DB
def ls(db: str) -> None:
    """List tokens: name and scope, separated by a tab."""
    with handle_errors():
        from ..service.store import open_store

        store = open_store(db)
        try:
            for found in store.tokens():
                click.echo(f"{found.name}\t{found.scope}")
        finally:
            store.close()
