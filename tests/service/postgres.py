"""A real PostgreSQL of the tests' own, on a free port of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ..parts import PATIENCE, absent
from .service import free_port


def _program(name: str) -> str | None:
    found = shutil.which(name)
    if found is not None:
        return found
    versions = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(versions[-1]) if versions else None


def _run(*command: str) -> None:
    # PostgreSQL refuses to be run by root
    before = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    done = subprocess.run([*before, *command], capture_output=True, text=True, timeout=PATIENCE, check=False, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def running() -> Iterator[str | None]:
    """The address of a server with no database of ours yet; None where PostgreSQL is not installed."""
    initdb, pg_ctl = _program("initdb"), _program("pg_ctl")
    if initdb is None or pg_ctl is None:
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="mfbocd-pg-"))
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    port = free_port()
    try:
        _run(initdb, "-D", f"{folder}/data", "-A", "trust", "-U", "mfbocd", "--no-instructions", "--no-sync")
        # no test stops this machine, so nothing has to wait for the disk
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
        _run(pg_ctl, "-D", f"{folder}/data", "-l", f"{folder}/log", "-w", "-o", options, "start")
        yield f"postgresql://mfbocd@127.0.0.1:{port}"
        _run(pg_ctl, "-D", f"{folder}/data", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def database(server: str) -> str:
    """The address of a fresh database."""
    import psycopg

    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        name = f"t{os.getpid()}_{os.urandom(4).hex()}"
        connection.execute(f"CREATE DATABASE {name}".encode())
    return f"{server}/{name}"


def execute(address: str, statement: str) -> list[tuple[Any, ...]]:
    """What a statement returns, in a transaction of its own."""
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        done = connection.execute(statement.encode())
        return done.fetchall() if done.description else []


def end_leases(address: str) -> None:
    """Let every lease be over, as if its worker had been silent for that long."""
    for table in ("streams", "stream_groups"):
        execute(address, f"UPDATE {table} SET until = 0 WHERE until IS NOT NULL")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a server with no database of ours yet."""
    with running() as server:
        yield server or absent("PostgreSQL")


@pytest.fixture
def postgres(postgres_server: str) -> Callable[[], str]:
    """Makes fresh databases and gives their addresses."""
    return partial(database, postgres_server)
