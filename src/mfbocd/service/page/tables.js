// The data of each figure as a table, for people who do not see figures or want the numbers.

import { fidelities, net } from "./decision.js";
import { shares } from "./figures.js";
import { element, number, percent } from "./words.js";

const ROWS = 50; // of a table
const OTHERS = 3; // run lengths besides the most probable one

const one = (value, part) => (Array.isArray(value) ? value[part] : value);

/** What each table shows, by figure: the titles of the columns and a function that makes the rows, newest first. */
const TABLES = {
  readings: ({ steps, part }) => [
    ["Tick", "Fidelity", "Reading", "Predicted mean of the next", "Change found"],
    latest(steps).map((s) => [s.tick, s.fidelity, one(s.x, part) ?? "none", one(s.mean, part),
      s.alarm ? `at tick ${number(s.changed_at)}` : ""]),
  ],
  "run-length": ({ steps }) => [
    ["Tick", "Most probable run length", "Probability", "Others"],
    latest(steps).map((s) => {
      const [first, ...others] = [...s.posterior].sort((a, b) => b[1] - a[1]);
      const more = others.slice(0, OTHERS).map(([length, weight]) => `${number(length)}: ${percent(weight)}`);
      return [s.tick, first?.[0] ?? null, first ? percent(first[1]) : null, more.join(", ")];
    }),
  ],
  change: ({ steps }) => [
    ["Tick", "P(recent change)", "Alarm"],
    latest(steps).map((s) => [s.tick, percent(s.p_change), s.alarm ? `confidence ${percent(s.confidence)}` : ""]),
  ],
  gains: ({ steps, stream }) => {
    const all = fidelities(stream);
    return [
      ["Tick", "Read", ...all.map((f) => `Gain of ${f.name}`), "Price", "Limit",
        ...all.map((f) => `Net of ${f.name}`)],
      latest(steps).map((s) => [s.tick, s.fidelity, ...all.map((f) => s.gains?.[f.name]), s.price, s.limit ?? "",
        ...all.map((f) => net(f, s))]),
    ];
  },
  share: ({ steps, stream, narrow }) => {
    const all = fidelities(stream);
    return [
      ["Ticks", ...all.map((f) => f.name)],
      shares(steps, all, narrow).reverse().map((bin) => [`${number(bin.first)} to ${number(bin.last)}`,
        ...bin.shares.map((share) => `${Math.round(100 * share)}\u00a0%`)]),
    ];
  },
  spend: ({ steps, stream }) => [
    ["Tick", "Cost", "Spent", ...(stream.budget === null ? [] : ["Budget so far"])],
    latest(steps).map((s) => [s.tick, s.cost, s.spent,
      ...(stream.budget === null ? [] : [stream.budget * (s.tick + 1)])]),
  ],
};

const latest = (steps) => steps.slice(-ROWS).reverse();

/** Puts a closed table after each figure; `draw` is called when one is opened. */
export function addTables(main, draw) {
  for (const figure of main.querySelectorAll(".figure")) {
    const title = figure.closest("section").querySelector("h2").textContent;
    const table = element("table", {}, element("caption", { class: "hidden" }, `Data of ${title}`));
    const scroll = element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Data of ${title}` },
      table);
    const details = element("details", { class: "data", "data-figure": figure.id },
      element("summary", {}, `Data of ${title} as a table`), scroll);
    details.addEventListener("toggle", draw);
    figure.after(details);
  }
}

/** Fills the tables that are open. */
export function drawTables(main, shown) {
  for (const details of main.querySelectorAll("details.data[open]")) {
    const [head, rows] = TABLES[details.dataset.figure](shown);
    const table = details.querySelector("table");
    const cells = (tag, values) => values.map((value, i) => element(tag === "td" && i === 0 ? "th" : tag,
      { scope: tag === "th" ? "col" : i === 0 ? "row" : null }, typeof value === "number" ? number(value) : value ?? "–"));
    const made = [
      element("thead", {}, element("tr", {}, ...cells("th", head))),
      element("tbody", {}, ...rows.map((row) => element("tr", {}, ...cells("td", row)))),
    ];
    if (made.some((part, i) => !part.isEqualNode([table.tHead, table.tBodies[0]][i] ?? null))) {
      table.replaceChildren(table.caption, ...made);
    }
  }
}
