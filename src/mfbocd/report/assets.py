"""Style sheet, script and security policy of the report page, and plotly's script."""

from __future__ import annotations

import base64
import gzip
import json
from functools import cache
from typing import Literal

Script = Literal["inline", "shared"]
"""Where a report has plotly's script: compressed in the page, or in a file next to it that reports share."""

SECURITY_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'{more}; style-src 'unsafe-inline'; img-src data: blob:; "
    "form-action 'none'; base-uri 'none'"
)

STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --soft: #566072; --line: #dfe3ea; --blue: #0b5c91;
  --page: #f5f6f8; --paper: #ffffff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --soft: #a3adbb; --line: #343b47; --blue: #6cb8ee;
  --page: #12151a; --paper: #1b2029; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 1040px; margin: 0 auto; padding: 28px 20px 48px; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .6rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 0 0 .25rem; }
h2.stream { font-size: 1.4rem; margin: 2rem 0 .5rem; overflow-wrap: anywhere; }
p { margin: 0 0 .75rem; }
.lead { font-size: 1.1rem; max-width: 46rem; overflow-wrap: anywhere; }
.note { color: var(--soft); font-size: .92rem; max-width: 46rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 18px 0; }
.card, section { background: var(--paper); border: 1px solid var(--line); border-radius: 10px; }
.card { padding: 12px 16px; min-width: 0; }
.card b { display: block; font-size: 1.6rem; line-height: 1.25; font-weight: 650; color: var(--blue);
  overflow-wrap: anywhere; }
.card span { color: var(--soft); font-size: .9rem; overflow-wrap: anywhere; }
section { padding: 18px 18px 14px; margin: 0 0 16px; }
.wide { overflow: auto; max-height: 34rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .95rem; }
th, td { text-align: right; padding: 7px 10px; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
th { color: var(--soft); font-weight: 600; vertical-align: bottom; }
th { position: sticky; top: 0; background: var(--paper); }
td:first-child { overflow-wrap: break-word; }
.found td, .found th { white-space: nowrap; vertical-align: top; }
td small { display: block; color: var(--soft); }
ul { margin: 0 0 .75rem; padding-left: 1.2rem; overflow-wrap: anywhere; }
a { color: var(--blue); }
.download { display: inline-block; margin: 12px 0 2px; }
details summary { cursor: pointer; font-weight: 600; }
pre { overflow-x: auto; background: var(--page); padding: 12px; border-radius: 6px; font-size: .85rem; }
@media (max-width: 560px) {
  main { padding: 18px 10px 32px; }
  section { padding: 14px 10px 10px; }
  .cards { grid-template-columns: 1fr 1fr; gap: 8px; }
  .card { padding: 10px 12px; } .card b { font-size: 1.3rem; }
  th, td { padding: 6px; font-size: .88rem; }
}
@media print {
  :root { --ink: #1d2430; --soft: #566072; --line: #bbb; --blue: #0b5c91; --page: #ffffff; --paper: #ffffff; }
  main { max-width: none; padding: 0; }
  section, .card { break-inside: avoid; }
  .wide { max-height: none; }
  .modebar, .download { display: none !important; }
}
"""

DARK = {
    "#ffffff": "#1b2029",
    "#222222": "#e4e8ee",
    "#8a8a8a": "#9aa4b2",
    "#999999": "#6b7480",
    "#eeeeee": "#2c333f",
    "#cfe3f1": "#24425a",
    "#D55E00": "#ff8a3c",
    "#0072B2": "#4aa8e8",
    "#7A6A00": "#d8c84a",
    "#f0f6fc": "#1f2937",
    "#c9dff1": "#274a6b",
    "#85bcdc": "#3f7fb0",
    "#2f7fbc": "#7fbfe8",
    "#08306b": "#e3f3ff",
}
"""Colours of the figures in dark mode, by those in light mode; a heat map goes from dark to bright there."""

# All figures share the horizontal axis: zooming one zooms all. `busy` ignores the events of those updates.
SCRIPT = (
    f"\n(() => {{\n  const DARK = {json.dumps(DARK)};"
    + """
  const CONFIG = {responsive: true, displaylogo: false, doubleClick: "reset",
    modeBarButtonsToRemove: ["select2d", "lasso2d", "sendChartToCloud"]};
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const figures = Array.from(document.querySelectorAll("script[data-figure]"), packed =>
    ({plot: document.getElementById(packed.dataset.figure), packed}));

  function unpacked(element) {
    const bytes = Uint8Array.from(atob(element.textContent), c => c.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  }

  async function load() {
    for (const figure of figures) figure.text = await unpacked(figure.packed);
    const library = document.getElementById("plotly");
    if (library === null) return;
    const script = document.createElement("script");
    script.textContent = await unpacked(library);
    document.head.append(script);
  }

  async function draw(dark) {
    const colour = (key, value) => dark && key !== "name" && key !== "text" && DARK[value] || value;
    await Promise.all(figures.map(({plot, text}) => {
      const {data, layout} = JSON.parse(text, colour);
      return Plotly.react(plot, data, {...layout, uirevision: "kept"}, CONFIG);
    }));
    document.documentElement.dataset.scheme = dark ? "dark" : "light";
  }

  let busy = false;
  function follow(plot, event) {
    if (busy) return;
    let change = null;
    if ("xaxis.range[0]" in event) change = {"xaxis.range": [event["xaxis.range[0]"], event["xaxis.range[1]"]]};
    else if (event["xaxis.range"]) change = {"xaxis.range": event["xaxis.range"]};
    else if (event["xaxis.autorange"]) change = {"xaxis.autorange": true};
    if (!change) return;
    busy = true;
    Promise.all(figures.filter(other => other.plot !== plot).map(other => Plotly.relayout(other.plot, change)))
      .finally(() => { busy = false; });
  }

  window.addEventListener("load", async () => {
    try {
      await load();
      await draw(scheme.matches);
    } catch (error) {
      for (const {plot} of figures) plot.textContent = `This figure cannot be drawn here: ${error.message}`;
      return;
    }
    for (const {plot} of figures) plot.on("plotly_relayout", event => follow(plot, event));
    scheme.addEventListener("change", () => draw(scheme.matches));
    window.addEventListener("beforeprint", () => draw(false));
    window.addEventListener("afterprint", () => draw(scheme.matches));
    document.documentElement.dataset.ready = "yes";
  });
})();
"""
)


def packed(text: str) -> str:
    """Return text compressed and in base 64, as the page's script unpacks it.

    Parameters
    ----------
    text : str
        The text.

    Returns
    -------
    str
        Characters that need no escape in HTML.
    """
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode("ascii")


@cache
def packed_script() -> str:
    """Return plotly's script, compressed: 2 MB instead of 5.

    The Python package contains only the complete script; no smaller build of it can be installed.

    Returns
    -------
    str
        The text for the page.
    """
    from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

    return packed(get_plotlyjs())


def shared_name() -> str:
    """Return the name of the file that reports share.

    Returns
    -------
    str
        The name, with the version, so that reports of different versions can be in one folder.
    """
    from plotly.offline import get_plotlyjs_version

    return f"plotly-{get_plotlyjs_version()}.min.js"
