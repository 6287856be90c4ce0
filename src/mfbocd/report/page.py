"""The report page: a summary, figures, the configuration, and the alarms for download."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from ..trace.plots.panels import Times, format_amount
from ..trace.plots.thin import bin_width
from ..trace.plots.timeline import Timeline
from ..trace.trace import Trace
from . import figures
from .assets import SCRIPT, SECURITY_POLICY, STYLE
from .summary import Costs, Found, costs, found, to_csv

DATA = "The readings, and the prediction made before each of them."
CHANGES = "The probability that something changed recently. An alarm is raised when it exceeds the threshold."
RUN_LENGTH = "Time since the last change, with its probability (dark: likely). A drop to 0 is a change."
SPEND = "The accumulated cost of the readings."
GAINS = "The expected gain of a reading at each fidelity: an expensive one is chosen where it is worth its cost."
MODE_BAR = {
    "responsive": True,
    "displaylogo": False,
    "doubleClick": "reset",
    "modeBarButtonsToRemove": ["select2d", "lasso2d"],
}


def write(path: str | Path, trace: Trace, **options: Any) -> Path:
    """Write the report to a file.

    Parameters
    ----------
    path : str or Path
        The file to write; an existing one is replaced.
    trace : Trace
        A trace of `mfbocd.run`.
    **options : Any
        Options of `page`.

    Returns
    -------
    Path
        The path of the file.

    Raises
    ------
    ValueError
        As in `page`.

    Examples
    --------
    >>> import tempfile
    >>> import mfbocd as mf
    >>> trace = mf.run(mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.01), [0.1, -0.3, 0.2, 6.0, 6.1])
    >>> write(Path(tempfile.mkdtemp()) / "report.html", trace, unit="bar").name
    'report.html'
    """
    path = Path(path)
    path.write_text(page(trace, **options), encoding="utf-8")
    return path


def page(
    trace: Trace,
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
    """Return a report about a trace as one HTML page that makes no network requests.

    Parameters
    ----------
    trace : Trace
        A trace of `mfbocd.run`. With ``detail=True`` it has the prediction band, the posterior, intervals and gains.
    title : str
        Heading of the page.
    time : Sequence[Any] or numpy.ndarray or None
        Numbers or datetimes, one per tick, for the horizontal axes; the tick numbers by default.
    xlabel : str or None
        Label of the horizontal axes; by default "time", or "tick" without `time`.
    unit : str
        Unit of the readings.
    cost_unit : str
        Unit of the costs.
    config_text : str or None
        The configuration, shown as it is.
    budget : float or None
        Allowed average cost per tick.
    all_high : float or None
        Total cost of reading the most expensive fidelity at every tick. By default it is computed from the trace, if
        costs are numbers.
    truth : Sequence[float] or numpy.ndarray or None
        The true parameter at each tick, if it is known.
    changes : Sequence[int] or numpy.ndarray or None
        Ticks of the true changes, if they are known.

    Returns
    -------
    str
        The HTML page.

    Raises
    ------
    ValueError
        If the trace has no ticks, or `time` or `truth` does not have one entry per tick.
    ImportError
        If plotly is not installed.

    Examples
    --------
    >>> import mfbocd as mf
    >>> trace = mf.run(mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.01), [0.1, -0.3, 0.2, 6.0, 6.1])
    >>> "<h1>Pump 7</h1>" in page(trace, title="Pump 7")
    True
    """
    try:
        from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]
    except ImportError:
        raise ImportError("a report needs plotly: pip install 'mfbocd[report]'") from None

    ticks = len(trace.choice)
    if ticks == 0:
        raise ValueError("trace must have at least one tick, not none")
    if truth is not None and len(truth) != ticks:
        raise ValueError(f"truth must have {ticks} entries, one per tick, not {len(truth)}")
    timeline = Timeline(trace, time)
    timed = time is not None
    label = xlabel if xlabel is not None else "time" if timed else "tick"
    alarms = found(trace)
    paid = costs(trace, budget, all_high)
    several = len(trace.fidelities) > 1
    sections = [
        ("data", "Readings", DATA, figures.data(trace, timeline, unit, truth, changes)),
        ("changes", "Probability of a change", CHANGES, figures.changes(trace, timeline, changes)),
    ]
    if trace.detail is not None:
        sections.append(("run-length", "Run length", RUN_LENGTH, figures.run_length(trace, timeline)))
    if several or budget is not None:
        sections.append(("spend", "Cost", SPEND, figures.spend(trace, timeline, cost_unit, budget)))
    if several and trace.detail is not None:
        sections.append(("gains", "Expected gain", GAINS, figures.gains(trace, timeline)))
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            # forbids every network request, whatever a name in the data or a library contains
            f'<meta http-equiv="Content-Security-Policy" content="{SECURITY_POLICY}">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style>",
            f"<script>{get_plotlyjs()}</script>",
            "</head>",
            "<body>",
            "<main>",
            f"<h1>{escape(title)}</h1>",
            _summary(trace, timeline, alarms, paid, cost_unit, timed),
            _changes(alarms, timeline, trace, timed),
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


def _summary(trace: Trace, timeline: Timeline, alarms: list[Found], paid: Costs, unit: str, timed: bool) -> str:
    ticks = len(trace.choice)
    first, last = timeline.labels([trace.first, trace.first + ticks - 1])
    count = len(alarms)
    result = f"{count} {'change was' if count == 1 else 'changes were'} found" if count else "No change was found"
    length = f"{ticks:,} {'tick' if ticks == 1 else 'ticks'}"
    span = f"from {first} to {last}" if timed else f"numbers {first} to {last}"
    spent = escape(f"{format_amount(paid.spent)} {unit}".strip())
    lines = [f"{result} in {length}, {span}.", f"The readings cost {spent}."]
    cards = [
        (f"{count:,}", "changes found" if count != 1 else "change found"),
        (format_amount(paid.spent), _of("spent", unit)),
    ]
    name = escape(paid.most_expensive) if paid.most_expensive is not None else "the most expensive fidelity"
    if paid.all_high is not None and paid.saved is not None:
        price = escape(f"{format_amount(paid.all_high)} {unit}".strip())
        share = f"{abs(paid.saved):.0%} {'saved' if paid.saved >= 0 else 'more'}"
        lines.append(f"Reading {name} at every tick would have cost {price}: {share}.")
        cards.append(
            (format_amount(paid.all_high), _of(f"if always {paid.most_expensive or 'the most expensive'}", unit))
        )
        cards.append((f"{abs(paid.saved):.0%}", "saved" if paid.saved >= 0 else "more than that"))
    elif len(trace.fidelities) > 1:
        lines.append("The cost of the most expensive fidelity alone is not known, because costs depend on the input.")
    if paid.allowed is not None:
        lines.append(f"The budget allowed {escape(f'{format_amount(paid.allowed)} {unit}'.strip())}.")
        cards.append((f"{paid.spent / paid.allowed:.0%}", "of the budget spent"))
    absent = int(np.isnan(trace.x).sum())
    if absent:
        lines.append(f"At {absent:,} of the ticks there was no reading.")
    shown = "".join(f'<div class="card"><b>{value}</b><span>{escape(word)}</span></div>' for value, word in cards)
    return f'<p class="lead">{" ".join(lines)}</p>\n<div class="cards">{shown}</div>'


def _of(word: str, unit: str) -> str:
    return f"{word} ({unit})" if unit else word


def _changes(alarms: list[Found], timeline: Timeline, trace: Trace, timed: bool) -> str:
    heads = ["changed at", "probability", "alarm at", "ticks later"]
    level = None if trace.detail is None else trace.detail.level
    if level is not None:
        heads.insert(2, f"{level:.0%} interval")
    rows = []
    for alarm in alarms:
        began, fired = timeline.labels([alarm.changed_at, alarm.tick])
        cells = [began, _confidence(alarm.confidence), fired, f"{alarm.tick - alarm.changed_at:,}"]
        if level is not None and alarm.began is not None:
            cells.insert(2, _between(*timeline.labels(alarm.began)))
        rows.append(cells)
    if not rows:
        return ""
    link = f"data:text/csv;charset=utf-8,{quote(to_csv(alarms, timeline, timed))}"
    note = "The probability that there was a change"
    note += "." if level is None else f"; if there was one, it lies in the interval with probability {level:.0%}."
    return (
        f'<section id="found"><h2>Changes</h2><p class="note">{note}</p>{_table(heads, rows)}'
        f'<a class="download" download="alarms.csv" href="{link}">Download the alarms (CSV)</a></section>'
    )


def _confidence(confidence: float) -> str:
    """Return a probability as text, never rounded up to 100 %."""
    return ">\N{NO-BREAK SPACE}99.9%" if confidence > 0.999 else f"{confidence:.1%}"


def _between(low: str, high: str) -> str:
    if low == high:
        return low
    day, _, timeline = high.partition(" ")
    return f"{low} to {timeline if timeline and low.startswith(day) else high}"


def _readings(trace: Trace, cost_unit: str) -> str:
    ticks = len(trace.choice)
    rows = []
    for j, name in enumerate(trace.fidelities):
        read = trace.choice == j
        count = int(read.sum())
        rows.append([name, f"{count:,}", f"{count / ticks:.0%}", format_amount(float(trace.cost[read].sum()))])
    heads = ["fidelity", "readings", "share of ticks", _of("cost", cost_unit)]
    return f"<section><h2>Readings by fidelity</h2>{_table(heads, rows)}</section>"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _section(name: str, heading: str, note: str, figure: Any, *, xlabel: str) -> str:
    figure.update_xaxes(title={"text": escape(xlabel), "standoff": 6})
    drawn = figure.to_html(full_html=False, include_plotlyjs=False, div_id=name, config=MODE_BAR)
    return f'<section><h2>{heading}</h2><p class="note">{note}</p>{drawn}</section>'


def _thinned(ticks: int) -> str:
    wide = bin_width(ticks)
    note = f"Points and lines are the lowest and highest of every {wide:,} ticks." if wide > 1 else ""
    return f'<p class="note">{note} Drag in a figure to zoom all figures; double-click to reset.</p>'


def _config(text: str) -> str:
    return f"<section><details><summary>Configuration</summary><pre>{escape(text)}</pre></details></section>"
