"""Style sheet, script and security policy of the report page."""

from __future__ import annotations

SECURITY_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "form-action 'none'; base-uri 'none'"
)

STYLE = """
:root { color-scheme: light; --ink: #1d2430; --soft: #566072; --line: #dfe3ea; --blue: #0b5c91; }
* { box-sizing: border-box; }
body { margin: 0; background: #f5f6f8; color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 1040px; margin: 0 auto; padding: 28px 20px 48px; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .6rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 0 0 .25rem; }
p { margin: 0 0 .75rem; }
.lead { font-size: 1.1rem; max-width: 46rem; overflow-wrap: anywhere; }
.note { color: var(--soft); font-size: .92rem; max-width: 46rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 18px 0; }
.card, section { background: #fff; border: 1px solid var(--line); border-radius: 10px; }
.card { padding: 12px 16px; min-width: 0; }
.card b { display: block; font-size: 1.6rem; line-height: 1.25; font-weight: 650; color: var(--blue); }
.card span { color: var(--soft); font-size: .9rem; overflow-wrap: anywhere; }
section { padding: 18px 18px 14px; margin: 0 0 16px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .95rem; }
th, td { text-align: right; padding: 7px 10px; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
th { color: var(--soft); font-weight: 600; vertical-align: bottom; }
td:first-child { overflow-wrap: break-word; }
#found td { white-space: nowrap; }
a { color: var(--blue); }
.download { display: inline-block; margin: 12px 0 2px; }
details summary { cursor: pointer; font-weight: 600; }
pre { overflow-x: auto; background: #f5f6f8; padding: 12px; border-radius: 6px; font-size: .85rem; }
@media (max-width: 560px) {
  main { padding: 18px 10px 32px; }
  section { padding: 14px 10px 10px; }
  .cards { grid-template-columns: 1fr 1fr; gap: 8px; }
  .card { padding: 10px 12px; } .card b { font-size: 1.3rem; }
  th, td { padding: 6px; font-size: .88rem; }
}
@media print {
  body { background: #fff; } main { max-width: none; padding: 0; }
  section, .card { break-inside: avoid; border-color: #bbb; }
  .modebar, .download { display: none !important; }
}
"""

# All figures share the horizontal axis: zooming one zooms all. `busy` ignores the events of those updates.
SCRIPT = """
window.addEventListener("load", () => {
  const plots = Array.from(document.querySelectorAll(".plotly-graph-div"));
  let busy = false;
  plots.forEach(plot => plot.on("plotly_relayout", event => {
    if (busy) return;
    let change = null;
    if ("xaxis.range[0]" in event) change = {"xaxis.range": [event["xaxis.range[0]"], event["xaxis.range[1]"]]};
    else if (event["xaxis.range"]) change = {"xaxis.range": event["xaxis.range"]};
    else if (event["xaxis.autorange"]) change = {"xaxis.autorange": true};
    if (!change) return;
    busy = true;
    Promise.all(plots.filter(other => other !== plot).map(other => Plotly.relayout(other, change)))
      .finally(() => { busy = false; });
  }));
  document.documentElement.dataset.ready = "yes";
});
"""
