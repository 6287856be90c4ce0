"""`mfbocd token`: who may ask a service that others can reach."""

from __future__ import annotations

import click

from .common import handle_errors, status
from .serve import DB


@click.group()
def token() -> None:
    """Tokens a service asks for where it can be reached from elsewhere. Only their hashes are kept."""


@token.command()
@click.argument("name")
@click.option("--scope", type=click.Choice(["read", "write"]), default="write", show_default=True)
@DB
def add(name: str, scope: str, db: str) -> None:
    """Make a token and print it: it is shown this once."""
    with handle_errors():
        from ..service.auth import add_token
        from ..service.store.open import open_store

        store = open_store(db)
        try:
            click.echo(add_token(store, name, scope))
        finally:
            store.close()
        status(f"Token {name!r} may {scope}. Send it as `Authorization: Bearer ...`; it is not shown again.")


@token.command()
@click.argument("name")
@DB
def revoke(name: str, db: str) -> None:
    """Make a token worthless, within seconds."""
    with handle_errors():
        from ..service.store.open import open_store

        store = open_store(db)
        try:
            if not store.remove_token(name):
                raise ValueError(f"there is no token {name!r}")
        finally:
            store.close()
        status(f"Token {name!r} is revoked.")


@token.command()
@DB
def ls(db: str) -> None:
    """Names and scopes."""
    with handle_errors():
        from ..service.store.open import open_store

        store = open_store(db)
        try:
            for found in store.tokens():
                click.echo(f"{found.name}\t{found.scope}")
        finally:
            store.close()
