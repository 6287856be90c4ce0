"""The report page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..trace.plots.panels import Times
from ..trace.plots.timeline import Timeline
from ..trace.trace import Trace
from .assets import SCRIPT, SECURITY_POLICY, STYLE, Script, packed_script, shared_name
from .stream import StreamReport

Traces = Trace | Mapping[str, Trace]


def write(path: str | Path, trace: Traces, *, script: Script = "inline", **options: Any) -> Path:
    """Write the report to a file.

    Parameters
    ----------
    path : str or Path
        The file to write; an existing one is replaced.
    trace : Trace or Mapping[str, Trace]
        A trace of `mfbocd.run`, or several by name.
    script : {"inline", "shared"}
        Where plotly's script is: in the page, which is then a single file of some 2 MB, or in a file next to it that
        is written once for all reports of the folder; a report then has some 100 kB.
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
    text = page(trace, script=script, **options)
    if script == "shared" and not (other := path.with_name(shared_name())).exists():
        from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

        other.write_text(get_plotlyjs(), encoding="utf-8")
    path.write_text(text, encoding="utf-8")
    return path


def page(
    trace: Traces,
    *,
    title: str = "Changes in a stream",
    time: Times = None,
    xlabel: str | None = None,
    unit: str = "",
    cost_unit: str = "",
    config_text: str | Mapping[str, str] | None = None,
    budget: float | None = None,
    all_high: float | None = None,
    truth: Sequence[float] | NDArray[Any] | None = None,
    changes: Sequence[int] | NDArray[Any] | None = None,
    notes: Sequence[str] | Mapping[str, Sequence[str]] = (),
    script: Script = "inline",
) -> str:
    """Return a report as one HTML page that makes no network requests.

    All ticks are counted and every change is listed. Only the drawing of more than 2000 ticks is reduced, to the
    lowest and highest value of each bin.

    Parameters
    ----------
    trace : Trace or Mapping[str, Trace]
        A trace of `mfbocd.run`, or several traces of the same ticks by name. With ``detail=True`` it has the
        prediction band, the posterior, intervals and gains.
    title : str
        Heading of the page.
    time : Sequence[Any] or numpy.ndarray or None
        Numbers, datetimes or their text, one per tick, for the horizontal axes and tables; the tick numbers by
        default. Tables show them as they are.
    xlabel : str or None
        Label of the horizontal axes, to which the zone of the times is added; by default "time", or "tick" without
        `time`.
    unit : str
        Unit of the readings.
    cost_unit : str
        Unit of the costs.
    config_text : str or Mapping[str, str] or None
        The configuration, shown as it is; by name if there are several traces.
    budget : float or None
        Allowed average cost per tick.
    all_high : float or None
        Total cost of reading the most expensive fidelity at every tick. By default it is computed from the trace, if
        costs are numbers.
    truth : Sequence[float] or numpy.ndarray or None
        The true parameter at each tick, if it is known.
    changes : Sequence[int] or numpy.ndarray or None
        Ticks of the true changes, if they are known.
    notes : Sequence[str] or Mapping[str, Sequence[str]]
        Warnings, shown first; by name if there are several traces.
    script : {"inline", "shared"}
        Where plotly's script is, as in `write`.

    Returns
    -------
    str
        The HTML page.

    Raises
    ------
    ValueError
        If there is no trace, a trace has no ticks, or `time` or `truth` does not have one entry per tick.
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
        import plotly  # type: ignore[import-untyped]  # noqa: F401
    except ImportError:
        raise ImportError("a report needs plotly: pip install 'mfbocd[report]'") from None

    traces = {"": trace} if isinstance(trace, Trace) else dict(trace)
    if not traces:
        raise ValueError("trace must be at least one trace, not none")
    inside: list[str] = []
    for i, (name, one) in enumerate(traces.items()):
        ticks = len(one.choice)
        if ticks == 0:
            raise ValueError("trace must have at least one tick, not none")
        if truth is not None and len(truth) != ticks:
            raise ValueError(f"truth must have {ticks} entries, one per tick, not {len(truth)}")
        stream = StreamReport(one, Timeline(one, time), unit, cost_unit, xlabel, f"s{i}-" if i else "")
        time = stream.timeline.times  # read once
        shown = config_text.get(name) if isinstance(config_text, Mapping) else config_text
        if name:
            inside.append(f'<h2 class="stream">{escape(name)}</h2>')
        warnings = notes.get(name, ()) if isinstance(notes, Mapping) else notes
        inside += [f'<p class="lead">Warning: {escape(text)}</p>' for text in warnings]
        inside += stream.sections(budget, all_high, truth, changes, shown)
    library = (
        f'<script src="{shared_name()}"></script>'
        if script == "shared"
        else f'<script id="plotly" type="text/plain">{packed_script()}</script>'
    )
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            # forbids every network request, whatever a name in the data or a library contains
            f'<meta http-equiv="Content-Security-Policy" content="{_policy(script)}">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style>",
            library,
            "</head>",
            "<body>",
            "<main>",
            f"<h1>{escape(title)}</h1>",
            *inside,
            '<p class="note">Drag in a figure to zoom all figures; double-click to reset.</p>',
            "</main>",
            f"<script>{SCRIPT}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _policy(script: Script) -> str:
    return SECURITY_POLICY.format(more=" 'self' file:" if script == "shared" else "")
