"""One stream of a report: its summary, tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from ..trace.plots.panels import format_amount
from ..trace.plots.timeline import Timeline
from ..trace.trace import Trace
from . import figures
from .assets import packed
from .summary import Costs, Found, costs, found, to_csv

DATA = "The readings, and the prediction made before each of them."
CHANGES = "The probability that something changed recently. An alarm is raised when it exceeds the threshold."
RUN_LENGTH = "Time since the last change, with its probability (dark: likely). A drop to 0 is a change."
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
            ("data", "Readings", DATA, figures.data(trace, timeline, self.unit, truth, changes)),
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
            lines.append("The times are not sorted or cannot be read: the figures show ticks.")
        elif timeline.times is not None and timeline.times.warning:
            lines.append(escape(timeline.times.warning))
        shown = "".join(f'<div class="card"><b>{value}</b><span>{escape(word)}</span></div>' for value, word in cards)
        return f'<p class="lead">{" ".join(lines)}</p>\n<div class="cards">{shown}</div>'

    def changes(self, alarms: list[Found]) -> str:
        """Return the table of the changes, and the same for download."""
        trace, timeline = self.trace, self.timeline
        heads = ["changed at", "probability", "alarm at", "ticks later"]
        level = None if trace.detail is None else trace.detail.level
        if level is not None:
            heads.insert(2, f"{level:.0%} interval")
        rows = []
        for alarm in alarms:
            began, fired = timeline.descriptions([alarm.changed_at, alarm.tick])
            cells = [began, _confidence(alarm.confidence), fired, f"{alarm.tick - alarm.changed_at:,}"]
            if level is not None and alarm.began is not None:
                cells.insert(2, _between(*timeline.descriptions(alarm.began)))
            rows.append(cells)
        if not rows:
            return ""
        link = f"data:text/csv;charset=utf-8,{quote(to_csv(alarms, timeline))}"
        note = "The probability that there was a change"
        note += "." if level is None else f"; if there was one, it lies in the interval with probability {level:.0%}."
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


def _of(word: str, unit: str) -> str:
    return f"{word} ({unit})" if unit else word


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


def _config(text: str) -> str:
    return f"<section><details><summary>Configuration</summary><pre>{escape(text)}</pre></details></section>"
