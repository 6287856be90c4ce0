"""The page: a summary first, then figures, the configuration, and the alarms to download."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from ..trace.plots.clock import Clock
from ..trace.plots.panels import Times, amount
from ..trace.plots.shape import TraceLike
from ..trace.plots.thin import width
from . import figures
from .look import POLICY, SCRIPT, STYLE
from .summary import Costs, Found, costs, found, to_csv

DATA = "What was read, and what was expected before each reading."
CHANGES = (
    "How probable it is that something changed a short while ago. An alarm is raised where it is nearly certain."
)
RUN_LENGTH = "How long the present state has lasted, and how sure that is: dark is likely. A fall to 0 is a change."
SPEND = "What the readings cost, added up."
GAINS = "How much each way of reading was expected to tell: a dear one is bought where it tells enough more."
MODE_BAR = {
    "responsive": True,
    "displaylogo": False,
    "doubleClick": "reset",
    "modeBarButtonsToRemove": ["select2d", "lasso2d"],
}


def write(path: str | Path, trace: TraceLike, **options: Any) -> Path:
    """Write `page` to a file, and return its path."""
    path = Path(path)
    path.write_text(page(trace, **options), encoding="utf-8")
    return path


def page(
    trace: TraceLike,
    *,
    title: str = "Changes in a stream",
    time: Times = None,
    xlabel: str | None = None,
    unit: str = "",
    cost_unit: str = "",
    config_text: str | None = None,
    budget: float | None = None,
    all_high: float | None = None,
    truth: Sequence[float] | NDArray[Any] | None = None,
    changes: Sequence[int] | NDArray[Any] | None = None,
) -> str:
    """A trace as one HTML page that opens from disk and asks the network for nothing.

    Parameters
    ----------
    trace: of `mfbocd.run`; with ``detail=True`` it has the band, the heat map, intervals and gains.
    title, config_text: a heading, and the configuration as text, to be shown as it is.
    time: numbers or datetimes, one a tick, for the horizontal axes.
    xlabel: names these axes; "time" unless told, or "tick" without `time`.
    unit, cost_unit: of the readings and of the costs.
    budget: the average cost a tick that was allowed.
    all_high: what reading the dearest fidelity at every tick would have cost; known from the trace where costs are
        numbers.
    truth, changes: the true parameter at each tick and the true changes, where they are known.
    """
    try:
        from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]
    except ImportError:
        raise ImportError("a report needs plotly: pip install 'mfbocd[report]'") from None

    ticks = len(trace.choice)
    if ticks == 0:
        raise ValueError("trace has no ticks: there is nothing to report")
    if truth is not None and len(truth) != ticks:
        raise ValueError(f"truth must have {ticks} entries, one a tick, not {len(truth)}")
    clock = Clock(trace, time)
    timed = time is not None
    label = xlabel if xlabel is not None else "time" if timed else "tick"
    alarms = found(trace)
    paid = costs(trace, budget, all_high)
    several = len(trace.fidelities) > 1
    sections = [
        ("data", "Readings", DATA, figures.data(trace, clock, unit, truth, changes)),
        ("changes", "When a change is likely", CHANGES, figures.changes(trace, clock, changes)),
    ]
    if trace.detail is not None:
        sections.append(("run-length", "Since the last change", RUN_LENGTH, figures.run_length(trace, clock)))
    if several or budget is not None:
        sections.append(("spend", "What it cost", SPEND, figures.spend(trace, clock, cost_unit, budget)))
    if several and trace.detail is not None:
        sections.append(("gains", "What a reading was worth", GAINS, figures.gains(trace, clock)))
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            # a page that may ask for nothing: whatever a name or a library might try
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style>",
            f"<script>{get_plotlyjs()}</script>",
            "</head>",
            "<body>",
            "<main>",
            f"<h1>{escape(title)}</h1>",
            _summary(trace, clock, alarms, paid, cost_unit, timed),
            _changes(alarms, clock, trace, timed),
            _readings(trace, cost_unit) if several else "",
            *(_section(*section, xlabel=label) for section in sections),
            _thinned(ticks),
            "" if config_text is None else _config(config_text),
            "</main>",
            f"<script>{SCRIPT}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _summary(trace: TraceLike, clock: Clock, alarms: list[Found], paid: Costs, unit: str, timed: bool) -> str:
    ticks = len(trace.choice)
    first, last = clock.words([trace.first, trace.first + ticks - 1])
    count = len(alarms)
    said = f"{count} {'change was' if count == 1 else 'changes were'} found" if count else "No change was found"
    length = f"{ticks:,} {'tick' if ticks == 1 else 'ticks'}"
    span = f"from {first} to {last}" if timed else f"numbers {first} to {last}"
    spent = escape(f"{amount(paid.spent)} {unit}".strip())
    lines = [f"{said} in {length}, {span}.", f"The readings cost {spent}."]
    cards = [
        (f"{count:,}", "changes found" if count != 1 else "change found"),
        (amount(paid.spent), _of("spent", unit)),
    ]
    dearest = escape(paid.dearest) if paid.dearest is not None else "the dearest fidelity"
    if paid.all_high is not None and paid.saved is not None:
        price = escape(f"{amount(paid.all_high)} {unit}".strip())
        share = f"{abs(paid.saved):.0%} {'saved' if paid.saved >= 0 else 'more'}"
        lines.append(f"Reading {dearest} at every tick would have cost {price}: {share}.")
        cards.append((amount(paid.all_high), _of(f"if always {paid.dearest or 'the dearest'}", unit)))
        cards.append((f"{abs(paid.saved):.0%}", "saved" if paid.saved >= 0 else "more than that"))
    elif len(trace.fidelities) > 1:
        lines.append("What the dearest fidelity alone would have cost is not known: costs depend on the input.")
    if paid.allowed is not None:
        lines.append(f"The budget allowed {escape(f'{amount(paid.allowed)} {unit}'.strip())}.")
        cards.append((f"{paid.spent / paid.allowed:.0%}", "of the budget spent"))
    absent = int(np.isnan(trace.x).sum())
    if absent:
        lines.append(f"At {absent:,} of the ticks there was no reading.")
    shown = "".join(f'<div class="card"><b>{value}</b><span>{escape(word)}</span></div>' for value, word in cards)
    return f'<p class="lead">{" ".join(lines)}</p>\n<div class="cards">{shown}</div>'


def _of(word: str, unit: str) -> str:
    return f"{word} ({unit})" if unit else word


def _changes(alarms: list[Found], clock: Clock, trace: TraceLike, timed: bool) -> str:
    heads = ["changed at", "how sure", "alarm at", "ticks later"]
    level = None if trace.detail is None else trace.detail.level
    if level is not None:
        heads.insert(2, f"{level:.0%} interval")
    rows = []
    for alarm in alarms:
        began, fired = clock.words([alarm.changed_at, alarm.tick])
        cells = [began, _sure(alarm.confidence), fired, f"{alarm.tick - alarm.changed_at:,}"]
        if level is not None and alarm.began is not None:
            cells.insert(2, _between(*clock.words(alarm.began)))
        rows.append(cells)
    if not rows:
        return ""
    link = f"data:text/csv;charset=utf-8,{quote(to_csv(alarms, clock, timed))}"
    note = "How sure it is that there was a change"
    note += "." if level is None else f"; if there was, it lies in the interval with {level:.0%} probability."
    return (
        f'<section id="found"><h2>The changes</h2><p class="note">{note}</p>{_table(heads, rows)}'
        f'<a class="download" download="alarms.csv" href="{link}">Download the alarms (CSV)</a></section>'
    )


def _sure(confidence: float) -> str:
    """Never rounded up to certain."""
    return ">\N{NO-BREAK SPACE}99.9%" if confidence > 0.999 else f"{confidence:.1%}"


def _between(low: str, high: str) -> str:
    if low == high:
        return low
    day, _, clock = high.partition(" ")
    return f"{low} to {clock if clock and low.startswith(day) else high}"


def _readings(trace: TraceLike, cost_unit: str) -> str:
    ticks = len(trace.choice)
    rows = []
    for j, name in enumerate(trace.fidelities):
        read = trace.choice == j
        count = int(read.sum())
        rows.append([name, f"{count:,}", f"{count / ticks:.0%}", amount(float(trace.cost[read].sum()))])
    heads = ["fidelity", "readings", "share of ticks", _of("cost", cost_unit)]
    return f"<section><h2>What was read</h2>{_table(heads, rows)}</section>"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _section(name: str, heading: str, note: str, figure: Any, *, xlabel: str) -> str:
    figure.update_xaxes(title={"text": escape(xlabel), "standoff": 6})
    drawn = figure.to_html(full_html=False, include_plotlyjs=False, div_id=name, config=MODE_BAR)
    return f'<section><h2>{heading}</h2><p class="note">{note}</p>{drawn}</section>'


def _thinned(ticks: int) -> str:
    wide = width(ticks)
    said = f"Points and lines are the lowest and highest of every {wide:,} ticks." if wide > 1 else ""
    return f'<p class="note">{said} Drag in a figure to zoom into all of them; double-click to see all again.</p>'


def _config(text: str) -> str:
    return f"<section><details><summary>Configuration</summary><pre>{escape(text)}</pre></details></section>"
