"""``mfbocd serve``."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path

import click

from .common import CONFIG, handle_errors, quiet_option, status

DB = click.option(
    "--db",
    default="mfbocd.db",
    show_default=True,
    envvar="MFBOCD_DB",
    show_envvar=True,
    help="SQLite file, or postgresql://... Use the environment variable if the address contains a password.",
)


@click.command()
@click.option(
    "-c", "--config", "path", type=CONFIG, help="Configuration of streams created without one, and limits in [serve]."
)
@DB
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to bind. Requests need a token unless it is a loopback address.",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="Port; 0 selects a free one."
)
@click.option(
    "--mqtt",
    envvar="MFBOCD_MQTT",
    show_envvar=True,
    help="Also serve this MQTT broker: mqtt://host[:port], or mqtts://user:password@host[:port] for TLS. Use the "
    "environment variable if the address contains a password.",
)
@click.option("--keep", type=click.IntRange(1), help="Number of steps kept per stream. Default: all.")
@click.option(
    "--lease",
    type=click.FloatRange(1),
    default=10.0,
    show_default=True,
    help="PostgreSQL: seconds after which the streams of a worker that stopped responding move to another.",
)
@click.option(
    "--advertise", help="Address at which other workers reach this one; must be unique. Default: the bound address."
)
@click.option(
    "--rate",
    type=click.FloatRange(0),
    help="Requests per second allowed from one client; 0 is no limit. Default: from [serve], else no limit on a "
    "loopback address and 1000 elsewhere.",
)
@quiet_option
def serve(
    path: Path | None,
    db: str,
    host: str,
    port: int,
    mqtt: str | None,
    keep: int | None,
    lease: float,
    advertise: str | None,
    rate: float | None,
    quiet: bool,
) -> None:
    """Serve many streams over HTTP: clients ask for the next fidelity and send readings.

    Stop the service with Ctrl-C. Needs the extra `serve`.

    \b
    Example:
      mfbocd serve --db streams.db
      curl -X POST localhost:8000/streams -H 'content-type: application/json' \\
           -d '{"id": "walk", "config": {"model": {"kind": "gaussian"}}}'
      curl -X POST localhost:8000/streams/walk/choose
    """
    with handle_errors():
        try:
            import uvicorn

            from ..service.app import create_app
            from ..service.server import Server, listen, public_url
        except ImportError as error:
            raise ImportError(f"serving needs FastAPI and uvicorn: pip install 'mfbocd[serve]' ({error})") from None
        from ..service.auth import is_loopback
        from ..service.settings import Settings
        from ..service.store import open_store

        logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
        local = is_loopback(host)
        settings = Settings.load(path, rate=rate if rate is not None or local else 1000.0)
        component = None
        if mqtt is not None:
            from ..service.mqtt import bridge

            component = bridge(mqtt)
        socket = listen(host, port)
        port = socket.getsockname()[1]
        shown = f"http://{f'[{host}]' if ':' in host else host}:{port}"

        store = open_store(db, keep=keep, worker=advertise or public_url(host, port), lease=lease, exclusive=True)
        try:
            if not local and not store.tokens():
                raise click.UsageError(
                    f"{host} is not a loopback address, so requests need a token, and the store has none; "
                    "create one with `mfbocd token add NAME`"
                )
        except BaseException:
            store.close()
            raise
        app = create_app(lambda: store, settings, tokens=not local, component=component)
        server = Server(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=30,
                timeout_graceful_shutdown=10,
            )
        )
        server.on_started = lambda: status(f"Serving {shown}; stop with Ctrl-C.", quiet=quiet)
        with suppress(KeyboardInterrupt):  # uvicorn raises it again after an orderly shutdown
            server.run(sockets=[socket])
        if not server.started:
            raise click.ClickException("the service could not start; see the messages above")
