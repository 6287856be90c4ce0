// The figures of a stream as plain data for Plotly, from its steps.

import { fidelities, threshold } from "./decision.js";

// The palette of mfbocd's other figures: colours of Okabe and Ito, which the colour-blind tell apart.
const HIGH = { colour: "#0072B2", symbol: "circle", open: false };
const LOW = { colour: "#E69F00", symbol: "x-thin", open: true };
const BETWEEN = [
  { colour: "#009E73", symbol: "triangle-up", open: true },
  { colour: "#CC79A7", symbol: "square", open: true },
  { colour: "#56B4E9", symbol: "diamond", open: true },
  { colour: "#7A6A00", symbol: "triangle-down", open: true },
];
const ALARM = "#D55E00";
const SPEND = "#0072B2";
const FAINTEST = 0.01; // the least probability a step lists
const COLUMNS = 400; // of the heat map at most
const BINS = 60; // of the run length at most
const SHARES = { wide: 30, narrow: 12 }; // bars of the shares at most
const STRIP = 0.06; // how far apart the zeros and ones of two fidelities are drawn
const SHADES = {
  light: [[0, "#dceaf6"], [0.5, "#6aaed6"], [1, "#08306b"]],
  dark: [[0, "#15324a"], [0.5, "#2f7fbc"], [1, "#d6ecff"]],
};

/** Plotly reads a little markup in every text: none of ours is meant as such. */
export const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

/** How each fidelity is drawn, by name: the most expensive a blue disc, the cheapest an orange cross. */
export function looks(fidelities) {
  const ordered = fidelities.map((f) => f.name);
  const cost = new Map(fidelities.map((f) => [f.name, typeof f.cost === "number" ? f.cost : 0]));
  ordered.sort((a, b) => cost.get(a) - cost.get(b));
  const between = ordered.slice(0, Math.max(0, ordered.length - 2)).map((_, i) => BETWEEN[i % BETWEEN.length]);
  const styles = [LOW, ...between, HIGH].slice(-ordered.length);
  return new Map(ordered.map((name, i) => [name, styles[i]]));
}

/**
 * What to draw: `steps` in order, `stream` with its config, the `choice` for the next tick, which `part` of a reading
 * with several numbers, and a `theme` of colours.
 */
export function figures(steps, stream, choice, part, theme) {
  const ends = [steps.length ? steps[0].tick - 0.5 : 0, steps.length ? steps.at(-1).tick + 1.5 : 1];
  return {
    readings: readings(steps, stream, part, theme, ends),
    "run-length": runLength(steps, theme, ends),
    change: change(steps, theme, ends),
    gains: gains(steps, stream, choice, theme, ends),
    share: share(steps, stream, theme, ends),
    spend: spend(steps, stream, theme, ends),
  };
}

const one = (value, part) => (Array.isArray(value) ? value[part] : value);

function readings(steps, stream, part, theme, ends) {
  const binary = stream.config.model.kind === "bernoulli";
  const styles = looks(fidelities(stream));
  const data = [...styles].map(([name, look], j) => {
    const seen = steps.filter((step) => step.fidelity === name && one(step.x, part) !== null);
    const apart = (x) => (binary ? STRIP * (j + 1) * (x > 0.5 ? 1 : -1) : 0);
    return {
      x: seen.map((step) => step.tick),
      y: seen.map((step) => one(step.x, part) + apart(one(step.x, part))),
      customdata: seen.map((step) => one(step.x, part)),
      name: plain(name),
      mode: "markers",
      marker: {
        color: look.colour, symbol: look.symbol, size: look.open ? 7 : 6,
        line: { color: look.colour, width: look.open ? 1.6 : 0 },
      },
      hovertemplate: "%{customdata:.5g} at tick %{x}",
    };
  });
  data.push(line(steps.map((step) => step.tick + 1), steps.map((step) => one(step.mean, part)),
    binary ? "predicted P(x = 1)" : "predicted mean", theme.ink, 1.5));
  const absent = steps.filter((step) => one(step.x, part) === null);
  if (absent.length) {
    data.push({
      x: absent.map((step) => step.tick), y: absent.map(() => 0.02), yaxis: "y2", mode: "markers",
      marker: { symbol: "line-ns", size: 9, line: { color: theme.soft, width: 1.2 } },
      name: "no reading", hovertemplate: "no reading at tick %{x}<extra></extra>",
    });
  }
  data.push(found(steps, ends));
  return { data, layout: layout(theme, ends) };
}

/** The changes found, as vertical lines. */
function found(steps, ends) {
  const at = steps.filter((step) => step.alarm && step.changed_at >= ends[0]).map((step) => step.changed_at);
  return {
    x: at.flatMap((tick) => [tick, tick, null]), y: at.flatMap(() => [0, 1, null]), yaxis: "y2",
    mode: "lines", line: { color: ALARM, width: 1.6 }, name: "change found", showlegend: at.length > 0,
    hovertemplate: "change at tick %{x}<extra></extra>",
  };
}

function runLength(steps, theme, ends) {
  // A column stands for the ticks from one multiple of the stride to the next, so that it stays where it is.
  const stride = Math.ceil(steps.length / (theme.narrow ? COLUMNS / 3 : COLUMNS)) || 1;
  const column = (step) => Math.floor(step.tick / stride);
  const first = steps.length ? column(steps[0]) : 0;
  const count = steps.length ? column(steps.at(-1)) - first + 1 : 0;
  const longest = Math.max(1, ...steps.map((step) => Math.max(...step.posterior.map(([length]) => length))));
  const size = Math.ceil((longest + 1) / BINS);
  const bins = Math.floor(longest / size) + 1;
  const most = Array.from({ length: bins }, () => new Array(count).fill(0));
  for (const step of steps) {
    const sums = new Map();
    for (const [length, weight] of step.posterior) {
      const bin = Math.floor(length / size);
      sums.set(bin, (sums.get(bin) ?? 0) + weight);
    }
    const i = column(step) - first;
    for (const [bin, weight] of sums) most[bin][i] = Math.max(most[bin][i], weight);
  }
  const data = [{
    type: "heatmap",
    x: Array.from({ length: count }, (_, i) => (first + i + 0.5) * stride - 0.5),
    y: most.map((_, i) => (i + 0.5) * size - 0.5),
    z: most.map((row) => row.map((weight) => (weight >= FAINTEST ? Math.log10(weight) : null))),
    customdata: most,
    // "fast" so that Plotly sets no inline style, which the policy refuses; page.css keeps the cells sharp.
    zsmooth: "fast", hoverongaps: false,
    zmin: Math.log10(FAINTEST), zmax: 0, colorscale: SHADES[theme.name], showscale: false,
    hovertemplate: `run length %{y:.0f}${size > 1 ? ` ± ${size / 2}` : ""} at tick %{x}: ` +
      "P = %{customdata:.2g}<extra></extra>",
  }];
  const made = layout(theme, ends, { rangemode: "tozero" });
  return { data, layout: { ...made, showlegend: false, margin: { ...made.margin, t: 8 } } };
}

function change(steps, theme, ends) {
  const fired = steps.filter((step) => step.alarm);
  const data = [
    line(steps.map((step) => step.tick), steps.map((step) => step.p_change), "P(recent change)", theme.ink, 1.5),
    {
      x: fired.map((step) => step.tick), y: fired.map((step) => step.confidence), mode: "markers",
      marker: { color: ALARM, symbol: "triangle-down", size: 12, line: { color: theme.paper, width: 1 } },
      customdata: fired.map((step) => step.changed_at), name: "alarm", cliponaxis: false,
      hovertemplate: "alarm at tick %{x}: changed at %{customdata}, confidence %{y:.1%}<extra></extra>",
    },
  ];
  return { data, layout: layout(theme, ends, { range: [0, 1.06], tickvals: [0, 0.5, 1] }) };
}

/** The gain of each fidelity, and what it had to be: a reading is worth its cost where its gain is above that. */
function gains(steps, stream, choice, theme, ends) {
  const decided = [...steps, ...(choice.tick === steps.at(-1)?.tick + 1 ? [choice] : [])];
  const ticks = decided.map((one) => one.tick);
  const styles = looks(fidelities(stream));
  const data = fidelities(stream).flatMap((fidelity) => {
    const { colour } = styles.get(fidelity.name);
    const name = plain(fidelity.name);
    const lines = [line(ticks, decided.map((one) => one.gains?.[fidelity.name] ?? null), `gain of ${name}`, colour, 2)];
    const least = decided.map((one) => threshold(fidelity, one.price));
    if (least.some((value) => value !== null)) {
      lines.push(line(ticks, least, `price × cost of ${name}`, colour, 1.4, "dash"));
    }
    return lines;
  });
  const made = layout(theme, ends, { rangemode: "tozero" });
  if (theme.narrow) Object.assign(made, { legend: { ...made.legend, font: { size: 10 } } });
  return { data, layout: made };
}

/** The share of each fidelity in intervals of ticks, which stay where they are when steps are added. */
export function shares(steps, all, narrow) {
  const stride = Math.ceil(steps.length / (narrow ? SHARES.narrow : SHARES.wide)) || 1;
  const bins = new Map();
  for (const step of steps) {
    const place = Math.floor(step.tick / stride);
    if (!bins.has(place)) bins.set(place, { place, stride, first: step.tick, last: step.tick, count: 0, by: new Map() });
    const bin = bins.get(place);
    bin.last = step.tick;
    bin.count += 1;
    bin.by.set(step.fidelity, (bin.by.get(step.fidelity) ?? 0) + 1);
  }
  return [...bins.values()].map((bin) => ({
    ...bin, shares: all.map((fidelity) => (bin.by.get(fidelity.name) ?? 0) / bin.count),
  }));
}

function share(steps, stream, theme, ends) {
  const all = fidelities(stream);
  const styles = looks(all);
  const bins = shares(steps, all, theme.narrow);
  const data = all.map((fidelity, j) => ({
    type: "bar", name: plain(fidelity.name), x: bins.map((bin) => (bin.first + bin.last) / 2),
    y: bins.map((bin) => bin.shares[j]), width: bins.map((bin) => bin.last - bin.first + 1),
    customdata: bins.map((bin) => `ticks ${bin.first} to ${bin.last}`),
    marker: { color: styles.get(fidelity.name).colour, line: { color: theme.paper, width: 1 } },
    hovertemplate: "%{y:.0%} in %{customdata}",
  }));
  const made = layout(theme, ends, { range: [0, 1], tickformat: ".0%", tickvals: [0, 0.5, 1] });
  return { data, layout: { ...made, barmode: "stack" } };
}

function spend(steps, stream, theme, ends) {
  const ticks = steps.map((step) => step.tick);
  const data = [line(ticks, steps.map((step) => step.spent), "spent", SPEND, 3)];
  if (stream.budget !== null) {
    data.push(line(ticks, ticks.map((tick) => stream.budget * (tick + 1)), "budget", theme.ink, 1.4, "dash"));
  }
  return { data, layout: layout(theme, ends, { tickformat: "~s" }) };
}

function line(x, y, name, colour, width, dash = "solid") {
  return { x, y, name, mode: "lines", line: { color: colour, width, dash }, hovertemplate: "%{y:.5g} at tick %{x}" };
}

function layout(theme, ends, yaxis = {}) {
  const font = { family: "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif", size: 12, color: theme.ink };
  const axis = { showline: true, linecolor: theme.line, tickcolor: theme.line, ticks: "outside", zeroline: false };
  return {
    font,
    margin: { l: 44, r: 10, t: 28, b: 40 },
    paper_bgcolor: theme.paper,
    plot_bgcolor: theme.paper,
    hovermode: "closest",
    hoverlabel: { bgcolor: theme.paper, bordercolor: theme.line, font },
    dragmode: theme.touch ? false : "zoom", // a finger scrolls the page
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 12 } },
    showlegend: true,
    xaxis: { ...axis, range: ends, gridcolor: theme.grid, showgrid: false, tickformat: ",d", nticks: 8,
      title: { text: "tick", standoff: 4 } },
    yaxis: { ...axis, automargin: true, gridcolor: theme.grid, ...yaxis },
    yaxis2: { range: [0, 1], overlaying: "y", visible: false, fixedrange: true },
  };
}
