"""`mfbocd drive`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .plain import CONFIG, FILE, plainly, say

if TYPE_CHECKING:
    from ..detector.detector import Detector
    from ..io.config import Config
    from .child import Child
    from .steps import Steps


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("-c", "--config", "path", type=CONFIG, required=True, help="Config; costs and zeta are taken from it.")
@click.option("--state", type=FILE, help="Save the detector here, and go on from it if it is there.")
@click.option("--save-every", type=click.IntRange(1), default=1, show_default=True, help="Ticks between saves.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=10.0,
    show_default=True,
    help="Seconds an answer may take.",
)
@click.option("--ticks", type=click.IntRange(1), help="Stop after so many ticks of this run.")
@click.option("--alarms", is_flag=True, help="Print the alarms only.")
@click.option("-q", "--quiet", is_flag=True, help="No talk on stderr, only errors.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def drive(
    path: Path,
    state: Path | None,
    save_every: int,
    timeout: float,
    ticks: int | None,
    alarms: bool,
    quiet: bool,
    command: tuple[str, ...],
) -> None:
    """Ask a program for readings, at the fidelity each tick is worth: the active loop, for any language.

    The program reads a line and answers with a line:

    \b
      we write    {"tick": 0, "fidelity": "imu", "cost": 1.0}
      it answers  {"x": 1.23}      or {"x": null} if there is no reading (the asking is paid for),
                                   or {"end": true}, or ends with exit code 0 instead.

    "time" in an answer is kept with the step. Prints one JSON object a tick. If the program dies, hangs or talks
    nonsense, that is said, the state is saved and the exit code is 1. A tick that was asked and not answered is asked
    again by the next run with the same --state.

    \b
    Example:
      mfbocd drive -c mf.toml --state walk.state -- ./sensor --port 7
    """
    with plainly():
        from ..io.config import Config
        from .child import Child, ChildError, Stopped
        from .state import save
        from .steps import Steps

        config = Config.load(path)
        detector = _resumed(config, state, quiet)
        steps = Steps(sys.stdout, config, detector, timed=False, alarms=alarms)
        failure: ChildError | None = None
        signalled = 0
        told = True
        try:
            with Child(command, timeout) as child:
                _loop(child, config, detector, steps, state, save_every, ticks)
        except ChildError as error:
            failure = error
        except Stopped as stopped:
            signalled = stopped.number
        except BrokenPipeError:
            told = False  # nobody got the last step: it is better made again than lost
            raise
        finally:
            if state is not None and told:
                save(state, detector, config)
        saved = "" if state is None else f" The state after {detector.ticks} ticks is saved in {state}."
        if failure is not None:
            raise click.ClickException(f"{failure}{'' if str(failure).endswith('?') else '.'}{saved}")
        if signalled:
            say(f"Stopped.{saved}", quiet=quiet)
        say(steps.summary(), quiet=quiet)
        if signalled:
            raise click.exceptions.Exit(128 + signalled)


def _resumed(config: Config, state: Path | None, quiet: bool) -> Detector:
    """The saved detector, or a fresh one, saved at once: better to fail now than after the first tick."""
    from .state import load, save

    if state is not None and state.exists():
        detector = load(state, config)
        say(f"Going on from {state} after {detector.ticks} ticks, {detector.spent:g} spent.", quiet=quiet)
        return detector
    detector = config.detector(missing="skip")  # a missing reading is judged here
    if state is not None:
        save(state, detector, config)
    return detector


def _loop(
    child: Child,
    config: Config,
    detector: Detector,
    steps: Steps,
    state: Path | None,
    save_every: int,
    ticks: int | None,
) -> None:
    from .child import ChildError
    from .state import save

    first = detector.ticks
    while ticks is None or detector.ticks - first < ticks:
        child.check()
        way = detector.choose()
        asked = {"tick": detector.ticks, "fidelity": way.name, "cost": way.cost_of()}
        answer = child.ask(asked)
        if answer is None:
            return
        x = answer["x"]
        if x is None and way.zeta > 0.0 and config.missing == "raise":
            raise ChildError(
                f"the child has no reading at tick {detector.ticks}, and the config says missing = 'raise'"
            )
        try:
            step = detector.update(x, way.name)
        except (TypeError, ValueError, OverflowError) as error:
            raise ChildError(f"the child's answer at tick {detector.ticks} cannot be: {error}") from None
        # Printed before it is saved: a crash between the two repeats a tick and never loses one.
        steps.add(step, answer.get("time"))
        if state is not None and detector.ticks % save_every == 0:
            save(state, detector, config)
