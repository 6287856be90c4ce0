"""Decide what `detect` runs: which columns of a table, with which detectors."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from .common import status

if TYPE_CHECKING:
    from ..io.config import Config
    from ..io.tables import Chunk, Table
    from .tasks import Task

LOOK = 200
"""Readings from which the prior of a family selected with --model is estimated."""
TIMES = 10
"""Timestamps that the interval between readings is estimated from, at least."""
UNDECIDED = 20
"""Rows of a pipe that may arrive before it is clear which columns hold the readings."""
MOST_COLUMNS = 20
"""Columns that are analysed, or searched for timestamps, if none is selected."""


@dataclass(frozen=True)
class Request:
    """The options of `detect` that decide what is run.

    Attributes
    ----------
    data : str
        The table, as the user wrote it.
    config : Path or None
        The configuration file.
    columns : tuple of str
        Columns of readings, or assignments ``fidelity=column``.
    time, model, hazard, period : optional
        The options of these names.
    sort, surprise, quiet : bool
        The options of these names.
    """

    data: str
    config: Path | None
    columns: tuple[str, ...]
    time: str | None
    model: str | None
    hazard: float | None
    period: str | None
    sort: bool
    surprise: bool
    quiet: bool


def prepare(table: Table, request: Request) -> tuple[list[Task], Iterable[Chunk]]:
    """Return what to run, one task per stream, and all rows."""
    from .tasks import Task

    if request.period is not None and (request.config is not None or request.model is not None):
        raise click.UsageError("--period is for the automatic detector: use a seasonal model with -c or --model")
    if request.config is not None:
        return _configured(table, request.config, request)
    kind = None if request.model is None else _kind(request.model)
    names, stamps, chunks = _find_columns(table, request)
    chunks = _sorted(chunks, stamps, request)
    hazard = request.hazard
    if kind is None:
        ticks, chunks = _period(request.period, stamps, chunks)
        return [Task.automatic(name, stamps, hazard, ticks, request.surprise) for name in names], chunks
    configs, chunks = _estimate(table, names, stamps, chunks, kind, hazard, request.quiet)
    return [Task.configured(config, request.surprise) for config in configs], chunks


def _configured(table: Table, path: Path, request: Request) -> tuple[list[Task], Iterable[Chunk]]:
    from ..io.config import Config
    from .tasks import Task

    if request.model is not None:
        raise click.UsageError("--model selects a family without a configuration; with -c it is in the file")
    given = Config.load(path).to_dict()
    if request.hazard is not None:
        given["hazard"] = request.hazard
    configs = [Config.parse(one) for one in assign_columns(given, table.columns, request.columns, request.time)]
    wanted = [f.column for config in configs for f in config.fidelities if f.zeta > 0.0]
    stamps = configs[0].data.time
    chunks = table.chunks([*dict.fromkeys([*wanted, *([stamps] if stamps else [])])])
    check_dimension(configs[0])
    return [Task.configured(config, request.surprise) for config in configs], _sorted(chunks, stamps, request)


def check_dimension(config: Config) -> None:
    """Raise if a reading of the model is not one number."""
    if (dimension := config.detector(missing="skip").model.dimension) > 1:
        raise click.UsageError(
            f"a reading of this {config.model['kind']} model has {dimension} numbers, and detect reads one column "
            "per fidelity; `mfbocd drive` accepts lists of numbers"
        )


def _sorted(chunks: Iterable[Chunk], stamps: str | None, request: Request) -> Iterable[Chunk]:
    """Return the rows in the order of their timestamps, if that is requested."""
    from .order import sort_rows

    if not request.sort:
        return chunks
    if not stamps:
        raise click.UsageError("--sort needs a column of timestamps, and none was found: name it with --time")
    return sort_rows(chunks, stamps)


def _period(given: str | None, stamps: str | None, chunks: Iterable[Chunk]) -> tuple[float | None, Iterable[Chunk]]:
    """Return the ticks per season, from the first timestamps if it is given by name, and all rows."""
    from ..calibrate.draft.series import times_of
    from ..calibrate.intervals import SECONDS, period_in

    if given is None:
        return None, chunks
    if given not in SECONDS:
        try:
            return float(given), chunks
        except ValueError:
            raise click.BadParameter(
                f"{given!r} is neither a number nor one of {', '.join(SECONDS)}", param_hint="--period"
            ) from None
    rows = iter(chunks)
    head: list[Chunk] = []
    while sum(map(len, head)) < TIMES and (chunk := next(rows, None)) is not None:
        head.append(chunk)
    labels = [chunk.label(i, stamps) for chunk in head for i in range(len(chunk))] if stamps else None
    return period_in(given, times_of(labels)), chain(head, rows)


def _kind(name: str) -> str:
    """Return the kind of a family, given in snake case, with spaces or hyphens, or as the name of the class."""
    from ..io.config import model_kinds
    from ..io.config.kinds import snake

    kinds = sorted(model_kinds())
    kind = "_".join(snake(name.strip()).replace("-", " ").replace("_", " ").split())
    if kind not in kinds:
        close = difflib.get_close_matches(kind, kinds, 1, 0.5)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise click.BadParameter(f"{name!r} is none of {', '.join(kinds)}{hint}", param_hint="--model")
    return kind


def _find_columns(table: Table, request: Request) -> tuple[list[str], str | None, Iterable[Chunk]]:
    """Return the columns of readings, that of the timestamps, and all rows.

    The first rows decide: one chunk of a file, and of a pipe as few as possible.
    """
    from ..calibrate.draft import classify_columns

    given, time = list(dict.fromkeys(request.columns)), request.time
    columns = _wanted_columns(table, given, time)
    rows = table.chunks(columns)
    head: list[Chunk] = []
    while (chunk := next(rows, None)) is not None:
        head.append(chunk)
        found = classify_columns(head, columns, time=time)
        if not table.live or given or len(found.readings) == 1 or len(head) == UNDECIDED:
            break
    if not head:
        raise ValueError(f"{table.name} has no rows")
    if time is not None and time not in columns:
        raise click.BadParameter(f"no column {time!r}; expected one of {', '.join(columns)}", param_hint="--time")
    if given:
        alone = classify_columns(head, given, time=time)  # a selected column is a reading, whatever its name is
        for name in given:
            reason = alone.reasons.get(name, "it holds the timestamps")
            forgiven = head[0].skipped is not None and reason != "it is empty"
            if name not in alone.readings and not forgiven:
                raise ValueError(f"column {name!r} has no numbers: {reason}")
        return given, None if found.time in given else found.time, chain(head, rows)
    names = list(found.readings)
    if not names:
        why = "; ".join(f"{name!r}: {reason}" for name, reason in found.reasons.items())
        raise ValueError(f"{table.name} has no column of numbers ({why})")
    if len(names) > MOST_COLUMNS:
        listed = f"{', '.join(names[:5])}, ..."
        raise click.UsageError(
            f"{table.name} has {len(names)} columns of numbers: {listed} Select some with --column."
        )
    if len(names) > 1:
        fidelities = " ".join(f"--fidelity {quote(name)}" for name in names)
        status(
            f"{table.name} has {len(names)} columns of numbers: {', '.join(names)}. Each is analysed as its own "
            "stream; --column selects some.\n"
            f"If they are fidelities of one stream: mfbocd init --from {quote(request.data)} {fidelities}",
            quiet=request.quiet,
        )
    return names, found.time, chain(head, rows)


def _wanted_columns(table: Table, given: Sequence[str], time: str | None) -> tuple[str, ...]:
    """Return the columns to read in order to find the readings and their timestamps."""
    from ..calibrate.draft.series import wanted_columns

    if not given or (time is None and not table.live and len(table.columns) <= MOST_COLUMNS):
        return tuple(dict.fromkeys([*given, *table.columns]))
    return tuple(dict.fromkeys(name for column in given for name in wanted_columns(table, column, time)))


def _estimate(
    table: Table,
    names: Sequence[str],
    stamps: str | None,
    chunks: Iterable[Chunk],
    kind: str,
    hazard: float | None,
    quiet: bool,
) -> tuple[list[Config], Iterable[Chunk]]:
    """Configure a detector of one family per column, with a prior estimated from the first readings."""
    from ..calibrate.draft import classify_columns, guess_family
    from ..io.config import Config
    from ..policy.fidelity import name_from

    if table.live:
        status(f"Waiting for {LOOK} readings to estimate the prior; without --model, no reading waits.", quiet=quiet)
    rows = iter(chunks)
    head: list[Chunk] = []
    count = 0
    while count < LOOK and (chunk := next(rows, None)) is not None:
        head.append(chunk)
        count += len(chunk)
    configs = []
    for name in names:
        guess = guess_family(kind, classify_columns(head, [name]).readings[name][:LOOK])
        given: dict[str, Any] = {
            "model": guess.spec,
            "fidelity": [{"name": name_from(name), "column": name, "zeta": 1.0, "cost": 1.0}],
        }
        if stamps is not None:
            given["data"] = {"time": stamps}
        if hazard is not None:
            given["hazard"] = hazard
        status(
            f"Model {kind} for column {name!r}, its prior from the first {min(count, LOOK)} readings:", quiet=quiet
        )
        for key, reason in guess.reasons.items():
            value = guess.spec[key]
            status(f"  {key} = {format(value, '.4g') if isinstance(value, float) else value}: {reason}", quiet=quiet)
        configs.append(Config.parse(given))
    return configs, chain(head, rows)


def assign_columns(
    given: dict[str, Any], names: Sequence[str], columns: Sequence[str], time: str | None
) -> list[dict[str, Any]]:
    """Map the configured fidelities to the columns of this table; one configuration per column if there is one."""
    rows = given.get("fidelity") or [{"name": "full", "zeta": 1.0, "cost": 1.0}]
    stamps = time or given.get("data", {}).get("time")
    if stamps is not None:
        given = given | {"data": given.get("data", {}) | {"time": stamps}}
    if len(rows) > 1:
        assigned = _assignments(columns, [row["name"] for row in rows])
        return [given | {"fidelity": [row | assigned.get(row["name"], {}) for row in rows]}]
    if columns:
        return [given | {"fidelity": [rows[0] | {"column": name}]} for name in dict.fromkeys(columns)]
    others = [name for name in names if name != stamps]
    name = rows[0].get("column", rows[0]["name"])
    if name not in names and len(others) == 1:
        name = others[0]
    return [given | {"fidelity": [rows[0] | {"column": name}]}]


def _assignments(columns: Sequence[str], fidelities: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the columns of fidelities from options such as ``imu=accelerometer``."""
    assigned = {}
    for text in columns:
        name, equals, column = text.partition("=")
        if not equals or name not in fidelities:
            raise click.UsageError(
                f"--column needs a single fidelity; with several, --column NAME=COLUMN for {', '.join(fidelities)}, "
                "or set `column` of each one in the configuration"
            )
        assigned[name] = {"column": column}
    return assigned
