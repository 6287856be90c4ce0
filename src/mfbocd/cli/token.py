"""`mfbocd token`: access tokens of a service."""

from __future__ import annotations

import click

from .plain import plainly, say
from .serve import DB


@click.group()
def token() -> None:
    """Access tokens, which a service requires if other machines can reach it. Only hashes are stored."""


@token.command()
@click.argument("name")
@click.option("--scope", type=click.Choice(["read", "write"]), default="write", show_default=True)
@DB
def add(name: str, scope: str, db: str) -> None:
    """Create a token and print it. It is shown only once."""
    with plainly():
        from ..service.auth import add_token
        from ..service.store import open_store

        store = open_store(db)
        try:
            click.echo(add_token(store, name, scope))
        finally:
            store.close()
        say(f"Token {name!r} has scope {scope}. Send it as `Authorization: Bearer ...`; it is not shown again.")


@token.command()
@click.argument("name")
@DB
def revoke(name: str, db: str) -> None:
    """Revoke a token; it is refused within seconds."""
    with plainly():
        from ..service.store import open_store

        store = open_store(db)
        try:
            if not store.remove_token(name):
                raise ValueError(f"there is no token {name!r}")
        finally:
            store.close()
        say(f"Token {name!r} is revoked.")


@token.command()
@DB
def ls(db: str) -> None:
    """List names and scopes."""
    with plainly():
        from ..service.store import open_store

        store = open_store(db)
        try:
            for found in store.tokens():
                click.echo(f"{found.name}\t{found.scope}")
        finally:
            store.close()
