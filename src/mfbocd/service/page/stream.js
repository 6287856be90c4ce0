// One stream: its next reading, its figures, its alarms and its downloads, live.

import { drawNext, LIMITS } from "./decision.js";
import { advanced, allowed, badge, lastChange, spend, state } from "./facts.js";
import { figures } from "./figures.js";
import { get, json, token, watch } from "./net.js";
import { drawAlarms, isAcknowledged, notebook } from "./notes.js";
import { drawFacts } from "./overview.js";
import { addTables, drawTables } from "./tables.js";
import { copied, element, number, paced, percent, say } from "./words.js";

const KEPT = 2000; // steps
const SPANS = [200, 500, KEPT];
const EXPORTED = 10_000; // steps in a download: as many as one answer holds
const PAUSE = 250; // ms between two drawings
const CHOICES = 1000; // ms between two questions for the next choice
const REFRESH = 50; // ticks after which the level since the last change is asked for again
const PLOTLY = "/static/plotly.min.js";
const OPTIONS = { displayModeBar: false, responsive: true, doubleClick: "reset" };

const view = { span: SPANS[1], part: 0 };

/** Shows a stream until `signal` ends it. */
export async function stream(main, page, id, signal) {
  const path = `/streams/${id}`;
  const shown = { row: null, group: null, choice: {}, steps: [], changes: [], notes: [], asked: -1 };
  const ready = plotly();
  let find = null;

  const refresh = async () => {
    const { alarms, tick } = shown.row;
    if (alarms === 0 || (shown.asked >= 0 && shown.alarms === alarms && tick < shown.asked + REFRESH)) return;
    Object.assign(shown, { asked: tick, alarms });
    shown.changes = (await json(`${path}/changes`, signal)).changes;
    if (!signal.aborted) drawText(find, shown);
  };
  const take = async (row) => {
    shown.choice = { tick: row.tick, ...row.next };
    shown.group = row.group === null ? null : await json(`/groups/${row.group}`, signal).catch(() => null);
  };
  const renew = paced(async () => {
    try {
      await take(await json(path, signal));
      soon();
    } catch {
      // the connection to the events says what is wrong
    }
  }, CHOICES, signal);
  const draw = async () => {
    drawText(find, shown);
    tabulate();
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
    const made = figures(shown.steps.slice(-view.span), shown.row, shown.choice, view.part, theme());
    for (const [name, { data, layout }] of Object.entries(made)) {
      const node = find(name);
      if (node.closest("section").hidden) continue;
      // A reader who has zoomed keeps what they look at.
      const kept = node.dataset.zoomed ? { xaxis: node.layout.xaxis, yaxis: node.layout.yaxis } : {};
      await Plotly.react(node, data, { ...layout, ...kept }, OPTIONS);
      if (!node.dataset.drawn) listenZoom(node, soon);
      node.dataset.drawn = shown.steps.length ? shown.steps.at(-1).tick : "none";
    }
  };
  const soon = paced(() => draw().catch(page.failed), PAUSE, signal);
  const tabulate = () => drawTables(main, {
    steps: shown.steps.slice(-view.span), stream: shown.row, part: view.part, narrow: theme().narrow,
  });

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
    addTables(main, tabulate);
    notebook(find, path, (notes) => {
      shown.notes = notes;
      shown.row.acknowledged = shown.row.last_alarm !== null && isAcknowledged(notes, shown.row.last_alarm.tick);
      drawText(find, shown);
    }, signal);
    page.arrived();
  };

  signal.addEventListener("abort", () => {
    if (find) for (const node of main.querySelectorAll(".figure")) globalThis.Plotly?.purge(node);
  });
  await watch({
    where: async (ended) => {
      const row = await json(path, ended);
      await take(row);
      const before = shown.row;
      // One that was made anew under the same id has another history.
      if (before?.created !== row.created) Object.assign(shown, { steps: [], changes: [], asked: -1 });
      else if (row.alarms > before.alarms) page.announce(row, row.last_alarm);
      shown.row = row;
      if (find === null) begin();
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
      if (shown.choice.tick !== shown.row.tick) renew();
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

function drawText(find, shown) {
  const { row, group, choice, steps, changes } = shown;
  say(find("name"), row.name);
  say(find("id"), row.group === null ? row.id : `${row.id}, of group ${group?.name ?? row.group}`);
  drawNext(find("next-text"), find("next"), row, choice);
  const decided = steps.some((step) => Object.keys(step.gains ?? {}).length > 0);
  find("gains").closest("section").hidden = !decided;
  const last = row.last;
  drawFacts(find("facts"), [
    ["state", badge(state(row)), state(row)],
    ["ticks", number(row.tick)],
    ["last change", lastChange(row)],
    ["P(recent change)", last === null ? "–" : percent(last.p_change)],
    ["most probable run length", last === null ? "–" : number(last.run_length)],
    ["spent", spend(row.spent, allowed(row))],
  ]);
  say(find("spend-note"), `The cumulative cost of the readings${budgetText(row, group)}.`);
  say(find("export-note"), row.tick > EXPORTED
    ? `The last ${number(EXPORTED)} steps; ${`/streams/${row.id}/trace`} gives the others page by page.`
    : "All steps.");
  drawAlarms(find("alarms"), find("no-alarms"), shown, view.part);
  find("last-change").hidden = changes.length === 0;
  say(find("last-change"), changes.length === 0 ? "" : `Last change: ${changes.at(-1).text}.`);
  drawParts(find("parts"), find("part"), last);
  const extent = last === null ? "no readings yet" : `up to tick ${last.tick}`;
  const names = { readings: "Readings", "run-length": "Run length", change: "P(change)", gains: "Gains and price",
    share: "Share of each fidelity", spend: "Spend" };
  for (const [name, title] of Object.entries(names)) find(name).setAttribute("aria-label", `${title}, ${extent}`);
}

/** The budget of a stream, or of its group. */
function budgetText(row, group) {
  if (group?.budget) {
    return `; group ${group.name} may spend ${number(group.budget)} per round of ${number(group.streams)} ` +
      `reading${group.streams === 1 ? "" : "s"} on average, and its price is ${number(group.price)}` +
      (group.limit ? `; ${LIMITS[group.limit]}` : "");
  }
  return row.budget === null ? "" : `; the budget is ${number(row.budget)} per tick on average`;
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
