// All streams: alarms first, searched, sorted, a page at a time, live by one connection.

import { advanced, allowed, badge, lastChange, spend, state } from "./facts.js";
import { addTo, drawGroups, groupSpend, readGroups } from "./groups.js";
import { json, watch } from "./net.js";
import { sparkline, trends } from "./sparkline.js";
import { copied, element, number, paced, say } from "./words.js";

const ROWS = 50; // on one page
const ASKED = 1000; // streams in one answer
const PAUSE = 300; // ms between two drawings
const CHOOSING = 4000; // ms after a movement or a key in the list
const LOOK = 10_000; // ms between two looks for streams that came or went: no event tells of them

const GROUPS = 2000; // ms between two questions for the prices of groups

const ORDER = { alarm: 0, acknowledged: 1, quiet: 2, "never read": 3 };
const mean = (stream) => [stream.last?.mean ?? -Infinity].flat()[0];
const latest = (stream) => stream.last_alarm?.at ?? -1;

/** The columns: how each is sorted first (1 is upwards), by what, and what its cell shows. */
const COLUMNS = {
  name: { title: "Stream", up: 1, key: (s) => s.name.toLowerCase(), cell: (s, groups) => named(s, groups) },
  state: { title: "State", up: 1, key: (s) => ORDER[state(s)], cell: (s) => badge(state(s)) },
  mean: { title: "Mean", up: -1, key: mean, cell: (s, groups, means) => sparkline(s, means.get(s.id)) },
  change: { title: "Last change", up: -1, key: latest, cell: lastChange },
  tick: { title: "Tick", up: -1, key: (s) => s.tick, cell: (s) => number(s.tick) },
  spent: { title: "Spent", up: -1, key: (s) => s.spent, cell: (s, groups) => spent(s, groups) },
};

// Kept from one visit of the list to the next.
const view = { search: "", group: null, column: "state", up: 1, page: 0 };

/** Shows the list until `signal` ends it. `page` has what is outside the list: the connection, the announcement. */
export async function overview(main, page, signal) {
  main.replaceChildren(copied("overview"));
  const find = (id) => main.querySelector(`#${id}`);
  let streams = null; // by id
  let groups = new Map();
  let order = []; // ids as they were last sorted
  const rows = new Map();
  let touched = -Infinity;
  let noted = null; // when the latest note was written

  const draw = () => {
    if (streams === null) return;
    drawTotals(find("totals"), streams);
    if (!groups.has(view.group)) view.group = null;
    drawGroups(find("groups-panel"), groups, view.group, chooseGroup);
    // Nothing moves away from somebody who is about to choose; but what is gone goes, and what is new comes.
    const busy = performance.now() - touched < CHOOSING;
    order = busy && order.length === streams.size && order.every((id) => streams.has(id)) ? order : sorted(streams);
    drawRows();
    page.title(inAlarm(streams));
  };
  const drawRows = () => {
    const word = view.search.trim().toLowerCase();
    const found = order.filter((id) => matches(streams.get(id), word));
    const filtered = word !== "" || view.group !== null;
    const pages = Math.max(1, Math.ceil(found.length / ROWS));
    view.page = Math.min(view.page, pages - 1);
    const shown = found.slice(view.page * ROWS, (view.page + 1) * ROWS);
    place(find("streams").tBodies[0], rows, shown.map((id) => streams.get(id)), groups, means);
    means.read(shown.map((id) => streams.get(id)));
    say(find("count"), filtered ? `${found.length} of ${streams.size}` : "");
    find("pages").hidden = pages === 1;
    find("before").disabled = view.page === 0;
    find("after").disabled = view.page === pages - 1;
    const first = view.page * ROWS + 1;
    say(find("place"), `${first} to ${first + shown.length - 1} of ${found.length}`);
    find("empty").hidden = shown.length > 0;
    say(find("empty"), filtered ? "No stream has that in its name or id." : "No streams yet: POST /streams makes one.");
  };
  const resort = () => {
    order = sorted(streams ?? new Map());
    drawHead(find("streams").tHead.rows[0], sort);
    if (streams !== null) drawRows();
  };
  const sort = (name) => {
    view.up = view.column === name ? -view.up : COLUMNS[name].up;
    view.column = name;
    view.page = 0;
    resort();
  };

  const chooseGroup = (id) => {
    view.group = view.group === id ? null : id;
    view.page = 0;
    draw();
  };

  const soon = paced(draw, PAUSE, signal);
  const means = trends(soon, signal);
  const renewGroups = paced(async () => {
    try {
      groups = await readGroups(streams, signal);
      soon();
    } catch {
      // the watch below notices what is wrong, and says so
    }
  }, GROUPS, signal);
  const turn = (by) => {
    view.page += by;
    drawRows();
    find("streams").scrollIntoView({ block: "start" });
  };
  find("search").value = view.search;
  find("search").addEventListener("input", (event) => {
    view.search = event.target.value;
    view.page = 0;
    if (streams !== null) drawRows();
  });
  find("before").addEventListener("click", () => turn(-1));
  find("after").addEventListener("click", () => turn(1));
  for (const kind of ["pointermove", "keydown"]) {
    find("streams").addEventListener(kind, () => (touched = performance.now()));
  }
  listenKeys(main, find("search"), signal);
  resort();

  const load = async (ended) => {
    if (streams === null) await begin(ended);
    const found = await everything(ended);
    const before = streams;
    streams = found.streams;
    groups = found.groups;
    noted = found.noted;
    means.expire();
    for (const stream of streams.values()) {
      const known = before?.get(stream.id);
      if (known && stream.alarms > known.alarms) page.announce(stream, stream.last_alarm);
    }
    soon();
  };
  /** Shows those with the latest alarms while the others are on their way. */
  const begin = async (ended) => {
    const first = await some(ended, ROWS, 0, "alarm");
    if (first.total <= ROWS) return;
    place(find("streams").tBodies[0], rows, first.streams, groups, means);
    say(find("place"), `${ROWS} of ${first.total}`);
  };
  const look = setInterval(async () => {
    soon(); // "3 min ago" becomes "4 min ago"
    try {
      const now = streams === null ? null : await some(signal, 1, 0, "created");
      if (now !== null && (now.total !== streams.size || now.noted !== noted)) await load(signal);
    } catch {
      // the watch below notices what is wrong, and says so
    }
  }, LOOK);
  signal.addEventListener("abort", () => clearInterval(look));

  await watch({
    where: async () => ({ path: "/events", last: null }),
    // The events go on from a place that is fixed before the list is read: whatever is in both has an old tick.
    opened: load,
    events: (steps) => {
      let strangers = false;
      for (const step of steps) {
        const known = streams.get(step.stream);
        strangers ||= known === undefined;
        if (known === undefined || step.tick < known.tick) continue;
        streams.set(step.stream, advanced(known, step));
        addTo(groups.get(known.group), step.cost, 1);
        if (known.group !== null) renewGroups();
        means.add(step);
        if (step.alarm) page.announce(known, step);
      }
      if (strangers) load(signal).catch(() => {});
      soon();
    },
    state: page.connection,
  }, signal);
}

/** A page of streams, as far as the list shows them. */
const some = (signal, limit, offset, sort) =>
  json(`/streams?brief=true&limit=${limit}&offset=${offset}&sort=${sort}`, signal);

/** All streams, in as many answers as it takes, their groups, and when the latest note was written. */
async function everything(signal) {
  const streams = new Map();
  let noted = null;
  for (let total = 1; streams.size < total;) {
    const found = await some(signal, ASKED, streams.size, "created");
    for (const stream of found.streams) streams.set(stream.id, stream);
    noted = found.noted;
    if (found.streams.length === 0) break;
    total = found.total;
  }
  return { streams, groups: await readGroups(streams, signal), noted };
}

/** Ids in the wanted order; among equals those that changed last come first, then by name. */
function sorted(streams) {
  const { key } = COLUMNS[view.column];
  const keyed = [...streams.values()].map((stream) => [key(stream), stream]);
  keyed.sort(([a, s], [b, t]) => {
    if (a !== b) return (a < b ? -1 : 1) * view.up;
    return latest(t) - latest(s) || s.name.localeCompare(t.name) || (s.id < t.id ? -1 : 1);
  });
  return keyed.map(([, stream]) => stream.id);
}

const matches = (stream, word) => (view.group === null || stream.group === view.group) &&
  (stream.name.toLowerCase().includes(word) || stream.id.toLowerCase().includes(word));

const inAlarm = (streams) => [...streams.values()].filter((stream) => state(stream) === "alarm").length;

function drawTotals(list, streams) {
  const all = [...streams.values()];
  const budgeted = all.filter((stream) => stream.budget !== null);
  const sum = (some, of) => some.reduce((total, stream) => total + of(stream), 0);
  const most = sum(budgeted, allowed);
  const facts = [
    ["streams", number(all.length)],
    ["in alarm", number(inAlarm(streams))],
    ["never read", number(all.filter((stream) => stream.tick === 0).length)],
  ];
  const paid = element("span", { class: "spend" }, element("span", {}, number(sum(all, (stream) => stream.spent))));
  if (most > 0) {
    const part = Math.round((100 * sum(budgeted, (stream) => stream.spent)) / most);
    paid.append(element("small", {}, `${part}\u00a0% of the budgets`));
  }
  drawFacts(list, [...facts, ["spent", paid]]);
}

/** Terms and numbers as cards. */
export function drawFacts(list, facts) {
  if (list.children.length !== facts.length) {
    list.replaceChildren(...facts.map(() => element("div", {}, element("dt"), element("dd"))));
  }
  facts.forEach(([term, value, word], i) => {
    const [dt, dd] = list.children[i].children;
    say(dt, term);
    if (!(value instanceof Node)) say(dd, value);
    else if (!dd.firstChild?.isEqualNode(value)) dd.replaceChildren(value);
    list.children[i].dataset.state = word ?? term;
  });
}

function drawHead(row, sort) {
  if (row.children.length === 0) {
    for (const [name, column] of Object.entries(COLUMNS)) {
      const button = element("button", { type: "button" }, column.title);
      button.addEventListener("click", () => sort(name));
      row.append(element("th", { role: "columnheader", scope: "col", "data-column": name }, button));
    }
  }
  for (const head of row.children) {
    const up = view.up > 0 ? "ascending" : "descending";
    head.setAttribute("aria-sort", head.dataset.column === view.column ? up : "none");
  }
}

/** Puts rows in place; those that stay are kept, so that a focus is not lost. */
function place(body, rows, shown, groups, means) {
  const wanted = new Set(shown.map((stream) => stream.id));
  for (const [id, row] of rows) {
    if (!wanted.has(id)) row.node.remove(), rows.delete(id);
  }
  shown.forEach((stream, i) => {
    let row = rows.get(stream.id);
    if (row === undefined) rows.set(stream.id, (row = newRow()));
    fill(row, stream, groups, means);
    if (body.children[i] !== row.node) body.insertBefore(row.node, body.children[i] ?? null);
  });
}

function newRow() {
  const node = element("tr", { role: "row" });
  for (const [name, column] of Object.entries(COLUMNS)) {
    node.append(element("td", { role: "cell", "data-column": name, "data-title": column.title }));
  }
  return { node };
}

function fill(row, stream, groups, means) {
  row.node.dataset.state = state(stream);
  row.node.dataset.id = stream.id;
  Object.values(COLUMNS).forEach((column, i) => {
    const cell = row.node.children[i];
    const shown = column.cell(stream, groups, means);
    if (!(shown instanceof Node)) say(cell, shown);
    else if (!cell.firstChild?.isEqualNode(shown)) cell.replaceChildren(shown);
  });
}

function named(stream, groups) {
  const link = element("a", { href: `#/streams/${stream.id}` }, stream.name);
  const beside = stream.name === stream.id ? [] : [stream.id];
  if (stream.group !== null) beside.push(`of group ${groups.get(stream.group)?.name ?? stream.group}`);
  return element("span", {}, link, element("small", {}, beside.join(", ")));
}

function spent(stream, groups) {
  const group = groups.get(stream.group);
  if (group === undefined) return spend(stream.spent, allowed(stream));
  const shared = groupSpend(group);
  shared.firstChild.replaceWith(element("span", {}, number(stream.spent)));
  return shared;
}

/** `/` goes to the search, arrows from there to the streams and along them. */
function listenKeys(main, search, signal) {
  const links = () => [...main.querySelectorAll("tbody a")];
  const pressed = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = links().indexOf(document.activeElement);
    const typing = document.activeElement === search;
    if (event.key === "/" && !typing) {
      search.focus();
      search.select();
    } else if (event.key === "ArrowDown" && (typing || at >= 0)) {
      links()[Math.min(at + 1, links().length - 1)]?.focus();
    } else if (event.key === "ArrowUp" && at >= 0) {
      (links()[at - 1] ?? search).focus();
    } else {
      return;
    }
    event.preventDefault();
  };
  document.addEventListener("keydown", pressed, { signal });
}
