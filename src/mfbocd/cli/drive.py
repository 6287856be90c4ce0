"""``mfbocd drive``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .common import CONFIG, FILE, compiling, handle_errors, json_option, quiet_option, status

if TYPE_CHECKING:
    from ..detector.detector import Detector
    from ..io.config import Config
    from .output import StepWriter
    from .sensor import SensorProcess


@click.command(context_settings={"ignore_unknown_options": True})
@click.option(
    "-c", "--config", "path", type=CONFIG, required=True, help="Configuration file; zeta and costs are taken from it."
)
@click.option("--state", type=FILE, help="Save the detector to this file, and resume from it if it exists.")
@click.option(
    "--save-every", type=click.IntRange(1), default=1, show_default=True, help="Number of ticks between saves."
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=10.0,
    show_default=True,
    help="Seconds to wait for a response.",
)
@click.option("--ticks", type=click.IntRange(1), help="Stop after this number of ticks.")
@json_option
@click.option("--alarms", is_flag=True, help="Print only the steps that raise an alarm.")
@quiet_option
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def drive(
    path: Path,
    state: Path | None,
    save_every: int,
    timeout: float,
    ticks: int | None,
    json: bool,
    alarms: bool,
    quiet: bool,
    command: tuple[str, ...],
) -> None:
    """Read a live sensor: run a program and request one reading per tick, at the chosen fidelity.

    COMMAND is a program in any language. It reads one request per line on stdin and writes one response per line on
    stdout, flushed:

    \b
      request   {"tick": 0, "fidelity": "imu", "cost": 1.0}
      response  {"x": 1.23}     a reading; a list of numbers if the model has several dimensions
                {"x": null}     no reading; the cost is still paid
                {"end": true}   no more readings; exiting with code 0 means the same

    A "time" in a response is copied to the step. Prints one JSON object per tick, and a summary on stderr. On a
    terminal, without --json, it prints the changes when they are found, and the summary.

    If the program fails, times out or sends an invalid response, the state is saved and the exit code is 1. After
    SIGINT or SIGTERM the state is saved and the exit code is 130 or 143. A request without a response is repeated by
    the next run with the same --state.

    \b
    Example:
      mfbocd drive -c mf.toml --state walk.state -- ./sensor --port 7
    """
    with handle_errors():
        from ..io.config import Config
        from .output import StepFormat, StepWriter, advice, on_terminal
        from .sensor import Interrupted, SensorError, SensorProcess
        from .state import save

        config = Config.load(path)
        detector = _load_or_create(config, state, quiet)
        format: StepFormat = "text" if on_terminal() and not json else "jsonl"
        writer = StepWriter(
            sys.stdout,
            detector,
            timed=False,
            advice=advice(config.model),
            unit=config.data.unit,
            cost_unit=config.data.cost_unit,
            alarms=alarms,
            format=format,
        )
        failure: SensorError | None = None
        signalled = 0
        written = True
        try:
            with compiling(quiet=quiet), SensorProcess(command, timeout) as sensor:
                _loop(sensor, config, detector, writer, state, save_every, ticks)
        except SensorError as error:
            failure = error
        except Interrupted as interrupted:
            signalled = interrupted.number
        except BrokenPipeError:
            written = False  # the last step was not read: repeat it in the next run instead of losing it
            raise
        finally:
            if state is not None and written:
                save(state, detector, config)
        saved = "" if state is None else f" The state after {detector.ticks} ticks is saved in {state}."
        if failure is not None:
            raise click.ClickException(f"{failure}{'' if str(failure).endswith('?') else '.'}{saved}")
        if signalled:
            status(f"Stopped.{saved}", quiet=quiet)
        if format == "text" or not quiet:
            click.echo(writer.summary(), err=format != "text")
        if signalled:
            raise click.exceptions.Exit(128 + signalled)


def _load_or_create(config: Config, state: Path | None, quiet: bool) -> Detector:
    """Load the saved detector, or create one and save it at once, so that a bad path fails before the first tick."""
    from .state import load, save

    if state is not None and state.exists():
        detector = load(state, config)
        status(f"Resuming from {state} after {detector.ticks} ticks, {detector.spent:g} spent.", quiet=quiet)
        return detector
    detector = config.detector(missing="skip")  # checked in the loop
    if state is not None:
        save(state, detector, config)
    return detector


def _loop(
    sensor: SensorProcess,
    config: Config,
    detector: Detector,
    writer: StepWriter,
    state: Path | None,
    save_every: int,
    ticks: int | None,
) -> None:
    from .sensor import SensorError
    from .state import save

    first = detector.ticks
    while ticks is None or detector.ticks - first < ticks:
        sensor.check_signal()
        fidelity = detector.choose()
        response = sensor.request({"tick": detector.ticks, "fidelity": fidelity.name, "cost": fidelity.cost_of()})
        if response is None:
            return
        x = response["x"]
        if x is None and fidelity.zeta > 0.0 and config.missing == "raise":
            raise SensorError(
                f"the sensor has no reading at tick {detector.ticks}, and the configuration has missing = 'raise'"
            )
        try:
            step = detector.update(x, fidelity.name)
        except (TypeError, ValueError, OverflowError) as error:
            raise SensorError(f"invalid reading at tick {detector.ticks}: {error}") from None
        # Print before saving: a crash in between repeats a tick and never loses one.
        writer.write(step, response.get("time"))
        if state is not None and detector.ticks % save_every == 0:
            save(state, detector, config)
