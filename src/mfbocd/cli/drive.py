"""``mfbocd drive``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .common import CONFIG, FILE, compiling, handle_errors, json_option, quiet_option, status

if TYPE_CHECKING:
    from ..detector.detector import Detector
    from ..io.config import Config
    from .output import StepWriter
    from .sensor import Sensor, Signals


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
    help="Seconds to wait for a reading.",
)
@click.option(
    "--every",
    type=click.FloatRange(0, min_open=True),
    help="Seconds from the start of one tick to the next. Default: the next tick starts at once.",
)
@click.option("--ticks", type=click.IntRange(1), help="Stop after this number of ticks.")
@json_option
@click.option("--alarms", is_flag=True, help="Print only the steps that raise an alarm.")
@quiet_option
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def drive(
    path: Path,
    state: Path | None,
    save_every: int,
    timeout: float,
    every: float | None,
    ticks: int | None,
    json: bool,
    alarms: bool,
    quiet: bool,
    command: tuple[str, ...],
) -> None:
    """Read live sensors: one reading per tick, at the chosen fidelity.

    A fidelity with `observe` in the configuration has its own shell command, which is run once per reading and prints
    one number (several with spaces between them if the model has several dimensions; nothing if there is no reading).
    The command has the environment variables MFBOCD_TICK, MFBOCD_FIDELITY and MFBOCD_COST.

    COMMAND reads all fidelities without `observe`, and may be left out if there are none. It is a program in any
    language that runs until the end. It reads one request per line on stdin and writes one response per line on
    stdout, flushed:

    \b
      request   {"tick": 0, "fidelity": "imu", "cost": 1.0}
      response  {"x": 1.23}     a reading; a list of numbers if the model has several dimensions
                {"x": null}     no reading; the cost is still paid
                {"end": true}   no more readings; exiting with code 0 means the same

    A "time" in a response is copied to the step. Prints one JSON object per tick, and a summary on stderr. On a
    terminal, without --json, it prints the changes when they are found, and the summary.

    If a program fails, times out or sends anything else, the state is saved and the exit code is 1. After SIGINT or
    SIGTERM the state is saved and the exit code is 130 or 143. A tick whose request failed is not applied and costs
    nothing: the next run with the same --state repeats the request.

    \b
    Examples:
      mfbocd drive -c mf.toml --state walk.state -- ./sensor --port 7
      mfbocd drive -c lab.toml --state lab.state --every 60
    """
    with handle_errors():
        from ..io.config import Config
        from .output import StepFormat, StepWriter, advice, on_terminal
        from .sensor import Interrupted, SensorError, Signals
        from .state import save

        config = Config.load(path)
        _check_command(config, command, path)
        detector, levels = _load_or_create(config, state, quiet)
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
        if levels is not None:
            writer.tracker.restore(levels)
        failure: SensorError | None = None
        signalled = 0
        written = True
        try:
            with (
                compiling(quiet=quiet),
                Signals() as signals,
                _open_sensor(config, command, timeout, signals) as sensor,
            ):
                _loop(sensor, signals, config, detector, writer, state, save_every, ticks, every)
        except SensorError as error:
            failure = error
        except Interrupted as interrupted:
            signalled = interrupted.number
        except BrokenPipeError:
            written = False  # the last step was not read: repeat it in the next run instead of losing it
            raise
        finally:
            if state is not None and written:
                save(state, detector, config, writer.tracker)
        saved = "" if state is None else f" The state after {detector.ticks} ticks is saved in {state}."
        if failure is not None:
            raise click.ClickException(f"{failure}{'' if str(failure).endswith('?') else '.'}{saved}")
        if signalled:
            status(f"Stopped.{saved}", quiet=quiet)
        if format == "text" or not quiet:
            click.echo(writer.summary(), err=format != "text")
        if signalled:
            raise click.exceptions.Exit(128 + signalled)


def _check_command(config: Config, command: tuple[str, ...], path: Path) -> None:
    """Every fidelity must have something that reads it."""
    without = [f.name for f in config.fidelities if f.zeta > 0.0 and not f.observe]
    if not config.fidelities:
        without = ["full"]
    if without and not command:
        hint = 'pass COMMAND, or set observe = "..." in its [[fidelity]] table'
        raise click.UsageError(f"nothing reads fidelity {without[0]!r} of {path}: {hint}")
    if command and not without:
        raise click.UsageError(f"every fidelity of {path} has `observe`: leave out COMMAND, {command[0]!r}")


@contextmanager
def _open_sensor(config: Config, command: tuple[str, ...], timeout: float, signals: Signals) -> Iterator[Sensor]:
    """Return an object that answers requests: a sensor process, commands of single fidelities, or both."""
    from .observers import Observers
    from .sensor import SensorProcess

    commands = {f.name: f.observe for f in config.fidelities if f.observe}
    with ExitStack() as stack:
        process = stack.enter_context(SensorProcess(command, timeout, signals)) if command else None
        yield process if process is not None and not commands else Observers(commands, timeout, signals, process)


def _load_or_create(config: Config, state: Path | None, quiet: bool) -> tuple[Detector, dict[str, Any] | None]:
    """Load the saved detector, or create one and save it at once, so that a bad path fails before the first tick.

    Also return what the levels of later changes need, if it was saved.
    """
    from .state import load, save

    if state is not None and state.exists():
        detector, remark, levels = load(state, config)
        status(f"Resuming from {state} after {detector.ticks} ticks, {detector.spent:g} spent.", quiet=quiet)
        if remark:
            status(remark, quiet=quiet)
        return detector, levels
    detector = config.detector(missing="skip")  # checked in the loop
    if state is not None:
        save(state, detector, config)
    return detector, None


def _loop(
    sensor: Sensor,
    signals: Signals,
    config: Config,
    detector: Detector,
    writer: StepWriter,
    state: Path | None,
    save_every: int,
    ticks: int | None,
    every: float | None,
) -> None:
    from .sensor import SensorError
    from .state import save

    first, due = detector.ticks, time.monotonic()
    while ticks is None or detector.ticks - first < ticks:
        if every is not None:
            with signals.waiting():
                time.sleep(max(due - time.monotonic(), 0.0))
            due = max(due, time.monotonic() - every) + every  # ticks that were missed are not made up for
        signals.check()
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
            save(state, detector, config, writer.tracker)
