// One stream: its figures, its alarms and its downloads, live.

import { advanced, allowed, badge, lastChange, spend, state } from "./facts.js";
import { figures } from "./figures.js";
import { get, json, token, watch } from "./net.js";
import { drawFacts } from "./overview.js";
import { ago, copied, element, moment, number, paced, percent, say } from "./words.js";

const KEPT = 2000; // steps
const SPANS = [200, 500, KEPT];
const LISTED = 20; // alarms
const EXPORTED = 10_000; // steps in a download: as many as one answer holds
const PAUSE = 250; // ms between two drawings
const REFRESH = 50; // ticks after which the level since the last change is asked for again
const PLOTLY = "/static/plotly.min.js";
const OPTIONS = { displayModeBar: false, responsive: true, doubleClick: "reset" };

const view = { span: SPANS[1], part: 0 };

/** Shows a stream until `signal` ends it. */
export async function stream(main, page, id, signal) {
  const path = `/streams/${id}`;
  const shown = { row: null, steps: [], changes: [], asked: -1 };
  const ready = plotly();
  let find = null;

  const refresh = async () => {
    const { alarms, tick } = shown.row;
    if (alarms === 0 || (shown.asked >= 0 && shown.alarms === alarms && tick < shown.asked + REFRESH)) return;
    Object.assign(shown, { asked: tick, alarms });
    shown.changes = (await json(`${path}/changes`, signal)).changes;
    if (!signal.aborted) drawText(find, shown);
  };
  const draw = async () => {
    drawText(find, shown);
    await refresh();
    if (signal.aborted) return;
    page.title(state(shown.row) === "alarm" ? 1 : 0, shown.row.name);
    const Plotly = await ready;
    if (signal.aborted) return;
    if (Plotly === null) {
      const why = "Figures need plotly: pip install 'mfbocd[serve]'";
      for (const node of main.querySelectorAll(".figure")) say(node, why);
      return;
    }
    // All is drawn anew from the steps: to append draws as much again, and knows neither shapes nor heat maps.
    const made = figures(shown.steps.slice(-view.span), shown.row, view.part, theme());
    for (const [name, { data, layout }] of Object.entries(made)) {
      const node = find(name);
      // A reader who has zoomed keeps what they look at.
      const kept = node.dataset.zoomed ? { xaxis: node.layout.xaxis, yaxis: node.layout.yaxis } : {};
      await Plotly.react(node, data, { ...layout, ...kept }, OPTIONS);
      if (!node.dataset.drawn) listenZoom(node, soon);
      node.dataset.drawn = shown.steps.length ? shown.steps.at(-1).tick : "none";
    }
  };
  const soon = paced(() => draw().catch(page.failed), PAUSE, signal);

  const begin = () => {
    main.replaceChildren(copied("stream"));
    find = (name) => main.querySelector(`#${name}`);
    addSpans(find("spans"), soon);
    addExports(find("exports"), path, shown, page);
    for (const media of ["(prefers-color-scheme: dark)", "(max-width: 600px)"]) {
      matchMedia(media).addEventListener("change", soon, { signal });
    }
    find("part").addEventListener("change", (event) => {
      view.part = Number(event.target.value);
      soon();
    });
    page.arrived();
  };

  signal.addEventListener("abort", () => {
    if (find) for (const node of main.querySelectorAll(".figure")) globalThis.Plotly?.purge(node);
  });
  await watch({
    where: async (ended) => {
      const row = await json(path, ended);
      if (find === null) begin();
      const before = shown.row;
      // One that was made anew under the same id has another history.
      if (before?.created !== row.created) Object.assign(shown, { steps: [], changes: [], asked: -1 });
      else if (row.alarms > before.alarms) page.announce(row, row.last_alarm);
      shown.row = row;
      const first = row.tick - 1 - KEPT;
      const last = shown.steps.at(-1)?.tick ?? -1;
      soon();
      return { path: `${path}/events?after=${Math.max(-1, first)}`, last: last > first && last >= 0 ? last : null };
    },
    opened: async () => {},
    events: (steps) => {
      for (const step of steps) {
        if (step.tick <= (shown.steps.at(-1)?.tick ?? -1)) continue;
        shown.steps.push(step);
        if (step.alarm && step.tick >= shown.row.tick) page.announce(shown.row, step);
        shown.row = advanced(shown.row, step);
      }
      shown.steps.splice(0, shown.steps.length - KEPT);
      soon();
    },
    state: page.connection,
  }, signal);
}

/** The library, fetched when it is first needed; null if it is not to be had. */
function plotly() {
  if (globalThis.Plotly) return Promise.resolve(globalThis.Plotly);
  // It brings a sheet for maps, which there are none of here, as an inline style, which the policy refuses.
  document.head.appendChild = (node) => (node.localName === "style" ? node : document.head.insertBefore(node, null));
  return new Promise((resolve) => {
    const script = element("script", { src: PLOTLY });
    const ended = () => {
      delete document.head.appendChild;
      resolve(globalThis.Plotly ?? null);
    };
    script.addEventListener("load", ended);
    script.addEventListener("error", ended);
    document.head.append(script);
  });
}

function theme() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  return {
    name: matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light",
    narrow: matchMedia("(max-width: 600px)").matches,
    touch: matchMedia("(pointer: coarse)").matches,
    ink: colour("--ink"), soft: colour("--soft"), line: colour("--edge"), grid: colour("--grid"),
    paper: colour("--paper"),
  };
}

function listenZoom(node, soon) {
  node.on("plotly_relayout", (change) => {
    if ("xaxis.range[0]" in change || "yaxis.range[0]" in change) node.dataset.zoomed = "yes";
  });
  node.on("plotly_doubleclick", () => {
    delete node.dataset.zoomed;
    soon();
  });
}

function drawText(find, { row, steps, changes }) {
  say(find("name"), row.name);
  say(find("id"), row.group === null ? row.id : `${row.id}, of group ${row.group}`);
  const last = row.last;
  drawFacts(find("facts"), [
    ["state", badge(state(row)), state(row)],
    ["ticks", number(row.tick)],
    ["last change", lastChange(row)],
    ["P(recent change)", last === null ? "–" : percent(last.p_change)],
    ["most probable run length", last === null ? "–" : number(last.run_length)],
    ["spent", spend(row.spent, allowed(row))],
  ]);
  say(find("spend-note"), row.budget === null
    ? "The cumulative cost of the readings."
    : `The cumulative cost of the readings; the budget is ${number(row.budget)} per tick on average.`);
  say(find("export-note"), row.tick > EXPORTED
    ? `The last ${number(EXPORTED)} steps; ${`/streams/${row.id}/trace`} gives the others page by page.`
    : "All steps.");
  drawAlarms(find("alarms"), find("no-alarms"), row, steps, new Map(changes.map((one) => [one.tick, one])));
  find("last-change").hidden = changes.length === 0;
  say(find("last-change"), changes.length === 0 ? "" : `Last change: ${changes.at(-1).text}.`);
  drawParts(find("parts"), find("part"), last);
  const extent = last === null ? "no readings yet" : `up to tick ${last.tick}`;
  const names = { readings: "Readings", "run-length": "Run length", change: "P(change)", spend: "Spend" };
  for (const [name, title] of Object.entries(names)) find(name).setAttribute("aria-label", `${title}, ${extent}`);
}

function drawAlarms(table, none, row, steps, changes) {
  const alarms = steps.filter((step) => step.alarm);
  if (row.last_alarm !== null && !alarms.some((step) => step.tick === row.last_alarm.tick)) {
    alarms.unshift(row.last_alarm);
  }
  const rows = alarms.slice(-LISTED).reverse().map((step) => element("tr", {},
    element("td", {}, `tick ${number(step.changed_at)}`), level(changes.get(step.tick)?.before),
    level(changes.get(step.tick)?.after), element("td", {}, percent(step.confidence)),
    element("td", {}, number(step.tick)), element("td", { title: moment(step.at) }, ago(step.at))));
  const body = table.tBodies[0];
  if (rows.length !== body.children.length || rows.some((made, i) => !made.isEqualNode(body.children[i]))) {
    body.replaceChildren(...rows);
  }
  table.hidden = rows.length === 0;
  none.hidden = rows.length > 0;
}

/** A level with its interval; of several, that of the number that is drawn. */
function level(levels) {
  const one = Array.isArray(levels) ? levels[view.part] : levels;
  if (!one) return element("td", {}, "–");
  const interval = one.low === null || one.high === null ? [] :
    [" ", element("small", {}, `${number(one.low)} to ${number(one.high)}`)];
  return element("td", {}, number(one.mean), ...interval);
}

/** Which number of a reading is drawn, where a reading has several. */
function drawParts(label, select, last) {
  const count = Array.isArray(last?.mean) ? last.mean.length : 0;
  label.hidden = count < 2;
  if (select.options.length === count) return;
  view.part = Math.min(view.part, Math.max(0, count - 1));
  select.replaceChildren(...Array.from({ length: count }, (_, i) => element("option", { value: i }, `x_${i}`)));
  if (count) select.value = String(view.part);
}

function addSpans(fieldset, soon) {
  for (const span of SPANS) {
    const radio = element("input", { type: "radio", name: "span", value: span, id: `span-${span}` });
    radio.checked = span === view.span;
    radio.addEventListener("change", () => {
      view.span = span;
      soon();
    });
    fieldset.append(element("label", { for: `span-${span}` }, radio, element("span", {}, number(span))));
  }
  fieldset.append(" ticks");
}

function addExports(list, path, shown, page) {
  for (const [form, title] of [["csv", "CSV"], ["jsonl", "JSON Lines"], ["parquet", "Parquet"]]) {
    const link = element("a", { download: "", "data-format": form }, title);
    const aim = () => {
      const after = Math.max(-1, shown.row.tick - 1 - EXPORTED);
      link.href = `${path}/trace?format=${form}&limit=${EXPORTED}&after=${after}`;
      link.download = `${shown.row.id}.${form}`;
    };
    link.href = `${path}/trace?format=${form}`;
    link.addEventListener("click", (event) => {
      aim();
      if (token.get() === null) return;
      event.preventDefault(); // a link cannot show a token
      download(link).catch(page.failed);
    });
    list.append(element("li", {}, link));
  }
}

async function download(link) {
  const answer = await get(link.getAttribute("href"));
  const url = URL.createObjectURL(await answer.blob());
  const saved = element("a", { href: url, download: link.download });
  saved.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
