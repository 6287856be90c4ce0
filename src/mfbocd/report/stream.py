"""One stream of a report: its summary, tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from ..trace.levels import Level, Levels, arrow, level_warnings, name_of, show_levels
from ..trace.plots.panels import format_amount
from ..trace.plots.thin import bin_width
from ..trace.plots.timeline import Timeline
from ..trace.regimes import CONFIDENCE
from ..trace.trace import Trace
from . import figures
from .assets import packed
from .summary import Costs, Found, costs, found, to_csv

SENTENCES = 5  # changes that are also described in words
DATA = "The readings, and the prediction made before each of them."
CHANGES = "The probability that something changed recently. An alarm is raised when it exceeds the threshold."
RUN_LENGTH = "Time since the last change, with its probability as a shade. A drop to 0 is a change."
SPEND = "The accumulated cost of the readings."
GAINS = "The expected gain of a reading at each fidelity: an expensive one is chosen where it is worth its cost."


@dataclass(frozen=True)
class StreamReport:
    """One stream of a report."""

    trace: Trace
    timeline: Timeline
    unit: str
    cost_unit: str
    xlabel: str | None
    prefix: str  # of the identifiers of its figures

    @property
    def several(self) -> bool:
        """Whether there are several fidelities."""
        return len(self.trace.fidelities) > 1

    def sections(
        self,
        budget: float | None,
        all_high: float | None,
        truth: Sequence[float] | NDArray[Any] | None,
        changes: Sequence[int] | NDArray[Any] | None,
        config_text: str | None,
    ) -> list[str]:
        """Return the summary, tables, figures and configuration."""
        trace, timeline = self.trace, self.timeline
        alarms = found(trace)
        paid = costs(trace, budget, all_high)
        drawn = [
            (
                "data",
                "Readings",
                f"{DATA}{_thinned(len(trace))}",
                figures.data(trace, timeline, self.unit, truth, changes),
            ),
            ("changes", "Probability of a change", CHANGES, figures.changes(trace, timeline, changes)),
        ]
        if trace.detail is not None:
            drawn.append(("run-length", "Run length", RUN_LENGTH, figures.run_length(trace, timeline)))
        if self.several or budget is not None:
            drawn.append(("spend", "Cost", SPEND, figures.spend(trace, timeline, self.cost_unit, budget)))
        if self.several and trace.detail is not None:
            drawn.append(("gains", "Expected gain", GAINS, figures.gains(trace, timeline)))
        return [
            self.summary(alarms, paid),
            self.changes(alarms),
            _readings(trace, self.cost_unit) if self.several else "",
            *(self.figure(*one) for one in drawn),
            "" if config_text is None else _config(config_text),
        ]

    def summary(self, alarms: list[Found], paid: Costs) -> str:
        """Return the summary in words and numbers."""
        trace, timeline, unit = self.trace, self.timeline, self.cost_unit
        ticks = len(trace.choice)
        first, last = map(escape, timeline.descriptions([trace.first, trace.first + ticks - 1]))
        count = len(alarms)
        result = f"{count} {'change was' if count == 1 else 'changes were'} found" if count else "No change was found"
        length = f"{ticks:,} {'tick' if ticks == 1 else 'ticks'}"
        span = f"from {first} to {last}" if timeline.times is not None else f"numbers {first} to {last}"
        lines = [f"{result} in {length}, {span}."]
        cards = [(f"{count:,}", "changes found" if count != 1 else "change found"), (f"{ticks:,}", "ticks")]
        if self.several or paid.allowed is not None:  # with one fidelity, the cost is only the number of readings
            lines.append(f"The readings cost {escape(f'{format_amount(paid.spent)} {unit}'.strip())}.")
            cards.append((format_amount(paid.spent), _of("spent", unit)))
        name = escape(paid.most_expensive) if paid.most_expensive is not None else "the most expensive fidelity"
        if paid.all_high is not None and paid.saved is not None:
            price = escape(f"{format_amount(paid.all_high)} {unit}".strip())
            share = f"{abs(paid.saved):.0%} {'saved' if paid.saved >= 0 else 'more'}"
            lines.append(f"Reading {name} at every tick would have cost {price}: {share}.")
            cards.append(
                (format_amount(paid.all_high), _of(f"if always {paid.most_expensive or 'the most expensive'}", unit))
            )
            cards.append((f"{abs(paid.saved):.0%}", "saved" if paid.saved >= 0 else "more than that"))
        elif self.several:
            lines.append(
                "The cost of the most expensive fidelity alone is not known, because costs depend on the input."
            )
        if paid.allowed is not None:
            lines.append(f"The budget allowed {escape(f'{format_amount(paid.allowed)} {unit}'.strip())}.")
            cards.append((f"{paid.spent / paid.allowed:.0%}", "of the budget spent"))
        absent = int(np.isnan(trace.x).sum())
        if absent:
            lines.append(f"At {absent:,} of the ticks there was no reading.")
        if timeline.times is not None and not timeline.drawn:
            times = timeline.times
            why = "The times are not sorted"
            if times.at is None:
                why = f"Times such as {escape(times.text(times.bad)) or 'an empty cell'} cannot be drawn"
            lines.append(f"{why}: the figures show ticks.")
        elif timeline.times is not None and timeline.times.warning:
            lines.append(escape(timeline.times.warning))
        if alarms and (moved := arrow(alarms[-1].change.before, alarms[-1].change.after, self.unit)):
            at = timeline.labels([alarms[-1].change.changed_at])[0]
            cards.insert(1, (escape(moved), f"last change, at {at}"))
        shown = "".join(f'<div class="card"><b>{value}</b><span>{escape(word)}</span></div>' for value, word in cards)
        return f'<p class="lead">{" ".join(lines)}</p>\n{self.sentences(alarms)}\n<div class="cards">{shown}</div>'

    def sentences(self, alarms: list[Found]) -> str:
        """Return the first changes in words."""
        shown = [
            alarm.change.describe(self.unit, self.timeline.descriptions([alarm.change.changed_at])[0])
            for alarm in alarms[:SENTENCES]
        ]
        if len(alarms) > SENTENCES:
            shown.append(f"and {len(alarms) - SENTENCES:,} more, in the table below")
        return f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in shown)}</ul>" if shown else ""

    def changes(self, alarms: list[Found]) -> str:
        """Return the table of the changes, and the same for download."""
        if not alarms:
            return ""
        timeline = self.timeline
        level = None if self.trace.detail is None else self.trace.detail.level
        heads = ["changed at", _of("before", self.unit), _of("after", self.unit), "probability", "detected"]
        rows = []
        for change, began in alarms:
            place = [*_split(timeline.descriptions([change.changed_at])[0])]
            if level is not None and began is not None and began[0] < began[1]:
                place.append(f"{level:.0%} between {' and '.join(timeline.labels(began))}")
            fired = timeline.labels([change.tick])[0]
            later = f"{change.delay:,} tick{'' if change.delay == 1 else 's'} later" if change.delay else "at once"
            rows.append(
                [place, _level(change.before), _level(change.after), [_confidence(change.confidence)], [later, fired]]
            )
        link = f"data:text/csv;charset=utf-8,{quote(to_csv(alarms, timeline))}"
        around = [(alarm.change.before, alarm.change.after) for alarm in alarms]
        note = " ".join([f"{name_of(around)}, with {CONFIDENCE:.0%} intervals.", *level_warnings(around)])
        note += " The probability is that of any change"
        note += "." if level is None else f"; if there was one, it lies between the given times with {level:.0%}."
        return (
            f'<section class="found"><h2>Changes</h2><p class="note">{note}</p>{_table(heads, rows)}'
            f'<a class="download" download="alarms.csv" href="{link}">Download the alarms (CSV)</a></section>'
        )

    def figure(self, name: str, heading: str, note: str, figure: Any) -> str:
        """Return a section with a figure, which the script draws."""
        label = escape(self.timeline.axis_label(self.xlabel))
        figure.update_xaxes(title={"text": label, "standoff": 6})
        name = self.prefix + name
        return (
            f'<section><h2>{heading}</h2><p class="note">{note}</p>'
            f'<div id="{name}" class="plotly-graph-div" style="height:{figure.layout.height}px"></div>'
            f'<script type="text/plain" data-figure="{name}">{packed(figure.to_json())}</script></section>'
        )


def _thinned(ticks: int) -> str:
    wide = bin_width(ticks)
    if wide == 1:
        return ""
    return f" Drawn are the lowest and highest value of every {wide:,} ticks; counts and tables cover every tick."


def _of(word: str, unit: str) -> str:
    return f"{word} ({unit})" if unit else word


def _confidence(confidence: float) -> str:
    """Return a probability as text, never rounded up to 100 %."""
    return ">\N{NO-BREAK SPACE}99.9%" if confidence > 0.999 else f"{confidence:.1%}"


def _split(text: str) -> list[str]:
    """Split "a (b)" into both parts, the second for a line of smaller print."""
    main, _, rest = text.partition(" (")
    return [main, rest.removesuffix(")")] if rest else [text]


def _level(levels: Levels) -> list[str]:
    return _split(str(levels)) if isinstance(levels, Level) else [show_levels(levels)]


def _readings(trace: Trace, cost_unit: str) -> str:
    ticks = len(trace.choice)
    rows = []
    for j, name in enumerate(trace.fidelities):
        read = trace.choice == j
        count = int(read.sum())
        rows.append([name, f"{count:,}", f"{count / ticks:.0%}", format_amount(float(trace.cost[read].sum()))])
    heads = ["fidelity", "readings", "share of ticks", _of("cost", cost_unit)]
    return f"<section><h2>Readings by fidelity</h2>{_table(heads, rows)}</section>"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str | list[str]]]) -> str:
    """Return a table; the further texts of a cell are lines of smaller print."""
    top = "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    body = "".join(f"<tr>{''.join(_cell(cell) for cell in row)}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(cell: str | list[str]) -> str:
    main, *more = [cell] if isinstance(cell, str) else cell
    return f"<td>{escape(main)}{''.join(f' <small>{escape(text)}</small>' for text in more)}</td>"


def _config(text: str) -> str:
    return f"<section><details><summary>Configuration</summary><pre>{escape(text)}</pre></details></section>"
