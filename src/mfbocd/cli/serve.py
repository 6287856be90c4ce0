"""``mfbocd serve``."""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack, suppress
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
@click.option(
    "--home-assistant",
    is_flag=False,
    flag_value="homeassistant",
    metavar="[PREFIX]",
    help="With --mqtt: announce every stream to Home Assistant, under its discovery prefix (default: homeassistant).",
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
@click.option(
    "--webhook",
    envvar="MFBOCD_WEBHOOK",
    show_envvar=True,
    help="Send every alarm to this address. Use the environment variable if the address is secret. Requests are "
    "signed if MFBOCD_WEBHOOK_SECRET is set.",
)
@click.option(
    "--webhook-format",
    type=click.Choice(["json", "alertmanager", "alertmanager-webhook", "slack"]),
    default="json",
    show_default=True,
    help="Body of the requests to the webhook.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Log to standard error as text or as lines of JSON.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    show_default=True,
    help="The least severe level that is logged.",
)
@click.option("--access-log", is_flag=True, help="Log every request.")
@click.option(
    "--otel", is_flag=True, help="Export traces with OpenTelemetry; OTEL_EXPORTER_OTLP_ENDPOINT is the collector."
)
@quiet_option
def serve(
    path: Path | None,
    db: str,
    host: str,
    port: int,
    mqtt: str | None,
    home_assistant: str | None,
    keep: int | None,
    lease: float,
    advertise: str | None,
    rate: float | None,
    webhook: str | None,
    webhook_format: str,
    log_format: str,
    log_level: str,
    access_log: bool,
    otel: bool,
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
        from ..service import logs
        from ..service.auth import is_loopback
        from ..service.settings import Settings
        from ..service.store import open_store
        from ..service.tracing import export_otlp
        from ..service.webhook import Webhook

        logs.configure(log_format, log_level, access=access_log)
        secret = os.environ.get("MFBOCD_WEBHOOK_SECRET", "")
        receiver = None if webhook is None else Webhook(webhook, webhook_format, secret)
        local = is_loopback(host)
        settings = Settings.load(path, rate=rate if rate is not None or local else 1000.0)
        component = None
        if mqtt is not None:
            from ..service.mqtt import bridge

            component = bridge(mqtt, home_assistant or "")
        elif home_assistant is not None:
            raise click.UsageError("--home-assistant needs --mqtt")
        socket = listen(host, port)
        port = socket.getsockname()[1]
        shown = f"http://{f'[{host}]' if ':' in host else host}:{port}"

        with ExitStack() as opened:  # closed if the service cannot start
            opened.callback(socket.close)
            worker = advertise or public_url(host, port)
            store = open_store(db, keep=keep, worker=worker, lease=lease, exclusive=True)
            opened.callback(store.close)
            if not local and not store.tokens():
                raise click.UsageError(
                    f"{host} is not a loopback address, so requests need a token, and the store has none; "
                    "create one with `mfbocd token add NAME`"
                )
            opened.pop_all()
        app = create_app(
            lambda: store,
            settings,
            tokens=not local,
            component=component,
            webhook=receiver,
            tracing=export_otlp() if otel else None,
        )
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

        def started() -> None:
            if log_format == "json":  # every line of the output is JSON then
                log = logging.getLogger("mfbocd.serve")
                log.setLevel(logging.WARNING if quiet else logging.INFO)
                log.info("Serving %s", shown)
            else:
                status(f"Serving {shown}; stop with Ctrl-C.", quiet=quiet)

        server.on_started = started
        with suppress(KeyboardInterrupt):  # uvicorn raises it again after an orderly shutdown
            server.run(sockets=[socket])
        if not server.started:
            raise click.ClickException("the service could not start; see the messages above")
