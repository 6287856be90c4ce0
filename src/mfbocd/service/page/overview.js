// All streams, a page at a time: the service sorts, searches and counts; what is shown is live by one connection.

import { advanced, allowed, badge, lastChange, spend, state } from "./facts.js";
import { drawGroups, groupSpend, withSums } from "./groups.js";
import { json, watch } from "./net.js";
import { sparkline, trends } from "./sparkline.js";
import { copied, element, number, paced, say } from "./words.js";

const ROWS = 50; // on one page
const PAUSE = 300; // ms between two drawings
const CHOOSING = 4000; // ms after a movement or a key in the list
const RENEW = 2000; // least ms between two questions because of events
const SHARE = 10; // and as many times as long as the answer took
const LOOK = 10_000; // ms between two questions without events: none tells of streams that came or went

/** The columns: the order the service sorts by, whether that is upwards (1), and what a cell shows. */
const COLUMNS = {
  name: { title: "Stream", sort: "name", up: 1, cell: (s, groups) => named(s, groups) },
  state: { title: "State", sort: "state", up: 1, cell: (s) => badge(state(s)) },
  mean: { title: "Mean", sort: "mean", up: -1, cell: (s, groups, means) => sparkline(s, means.get(s.id)) },
  change: { title: "Last change", sort: "alarm", up: -1, cell: lastChange },
  tick: { title: "Tick", sort: "tick", up: -1, cell: (s) => number(s.tick) },
  spent: { title: "Spent", sort: "spent", up: -1, cell: (s, groups) => spent(s, groups) },
};

// Kept from one visit of the list to the next.
const view = { search: "", group: null, column: "state", up: 1, page: 0 };

/** Shows the list until `signal` ends it. `page` has what is outside the list: the connection, the announcement. */
export async function overview(main, page, signal) {
  main.replaceChildren(copied("overview"));
  const find = (id) => main.querySelector(`#${id}`);
  let streams = new Map(); // those of the page, by id, in order
  let found = 0; // streams that match
  let totals = null;
  let groups = new Map();
  let question = 0; // the latest; answers to those before come too late
  const rows = new Map();
  let touched = -Infinity;

  const draw = () => {
    if (totals === null) return;
    drawTotals(find("totals"), totals);
    drawGroups(find("groups-panel"), groups, view.group, chooseGroup);
    page.title(totals.in_alarm);
    const shown = [...streams.values()];
    place(find("streams").tBodies[0], rows, shown, groups, means);
    means.read(shown);
    const filtered = view.search.trim() !== "" || view.group !== null;
    const pages = Math.max(1, Math.ceil(found / ROWS));
    say(find("count"), filtered ? `${found} of ${totals.streams}` : "");
    find("pages").hidden = pages === 1;
    find("before").disabled = view.page === 0;
    find("after").disabled = view.page >= pages - 1;
    const first = view.page * ROWS + 1;
    say(find("place"), `${first} to ${first + shown.length - 1} of ${found}`);
    find("empty").hidden = shown.length > 0;
    say(find("empty"), filtered ? "No stream has that in its name or id." : "No streams yet: POST /streams makes one.");
  };
  const soon = paced(draw, PAUSE, signal);
  const means = trends(soon, signal);

  /** Reads what is shown. */
  const load = async (ended) => {
    question += 1;
    const mine = question;
    const [listed, sums, all] = await Promise.all([some(ended), json("/totals", ended), json("/groups", ended)]);
    if (mine !== question) return;
    totals = sums;
    groups = withSums(all.groups, sums.groups);
    const last = Math.max(0, Math.ceil(listed.total / ROWS) - 1);
    if (view.page > last || (view.group !== null && !groups.has(view.group))) {
      view.page = Math.min(view.page, last);
      if (!groups.has(view.group)) view.group = null;
      await load(ended);
      return;
    }
    found = listed.total;
    const before = streams;
    streams = new Map(listed.streams.map((stream) => [stream.id, latest(before.get(stream.id), stream)]));
    for (const [id, stream] of streams) {
      if (stream.alarms > (before.get(id)?.alarms ?? Infinity)) page.announce(stream, stream.last_alarm);
    }
    draw();
  };
  const loadOrWait = () => load(signal).catch(() => {}); // the watch below notices what is wrong, and says so
  const ask = paced(loadOrWait, PAUSE, signal);
  const renew = unhurried(async () => {
    // nothing moves away from somebody who is about to choose
    for (let left; (left = touched + CHOOSING - performance.now()) > 0;) await rest(left);
    await loadOrWait();
  }, signal);
  const announce = async (step) => {
    try {
      page.announce(streams.get(step.stream) ?? await json(`/streams/${step.stream}`, signal), step);
    } catch {
      // it was deleted, or the watch notices what is wrong
    }
  };
  const sort = (name) => {
    view.up = view.column === name ? -view.up : COLUMNS[name].up;
    view.column = name;
    view.page = 0;
    drawHead(find("streams").tHead.rows[0], sort);
    ask();
  };
  const chooseGroup = (id) => {
    view.group = view.group === id ? null : id;
    view.page = 0;
    draw();
    ask();
  };
  const turn = (by) => {
    view.page += by;
    ask();
    find("streams").scrollIntoView({ block: "start" });
  };
  find("search").value = view.search;
  find("search").addEventListener("input", (event) => {
    view.search = event.target.value;
    view.page = 0;
    ask();
  });
  find("before").addEventListener("click", () => turn(-1));
  find("after").addEventListener("click", () => turn(1));
  for (const kind of ["pointermove", "keydown"]) {
    find("streams").addEventListener(kind, () => (touched = performance.now()));
  }
  listenKeys(main, find("search"), signal);
  drawHead(find("streams").tHead.rows[0], sort);
  const look = setInterval(() => {
    soon(); // "3 min ago" becomes "4 min ago"
    renew();
  }, LOOK);
  signal.addEventListener("abort", () => clearInterval(look));

  await watch({
    where: async () => ({ path: "/events", last: null }),
    // The events go on from a place that is fixed before the list is read: whatever is in both has an old tick.
    opened: async (ended) => {
      means.expire();
      await load(ended);
    },
    events: (steps) => {
      let alarm = null;
      for (const step of steps) {
        const known = streams.get(step.stream);
        means.add(step); // it may lack steps that the list has
        if (known !== undefined && step.tick < known.tick) continue;
        if (known !== undefined) streams.set(step.stream, advanced(known, step));
        if (step.alarm) alarm = step;
      }
      if (alarm !== null) announce(alarm);
      soon();
      renew();
    },
    state: page.connection,
  }, signal);
}

/** The page of streams that is wanted. */
function some(signal) {
  const { sort, up } = COLUMNS[view.column];
  const asked = { sort, reverse: view.up !== up, limit: ROWS, offset: view.page * ROWS, search: view.search.trim() };
  const query = new URLSearchParams(view.group === null ? asked : { ...asked, group: view.group });
  return json(`/streams?${query}`, signal);
}

/** A stream as it was read, or as it is known if an event came while the answer was on its way. */
function latest(known, stream) {
  const newer = known !== undefined && known.created === stream.created && known.tick > stream.tick;
  return newer ? known : stream;
}

const rest = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Runs `ask` when it is called, and again after a pause if it was called meanwhile; the pause follows its time. */
function unhurried(ask, signal) {
  let wanted = false;
  let running = false;
  return async () => {
    wanted = true;
    if (running) return;
    running = true;
    while (wanted && !signal.aborted) {
      wanted = false;
      const began = performance.now();
      await ask();
      await rest(Math.max(RENEW, SHARE * (performance.now() - began)));
    }
    running = false;
  };
}

function drawTotals(list, totals) {
  const paid = element("span", { class: "spend" }, element("span", {}, number(totals.spent)));
  if (totals.allowed > 0) {
    const part = Math.round((100 * totals.budgeted) / totals.allowed);
    paid.append(element("small", {}, `${part}\u00a0% of the budgets`));
  }
  drawFacts(list, [
    ["streams", number(totals.streams)],
    ["in alarm", number(totals.in_alarm)],
    ["never read", number(totals.never_read)],
    ["spent", paid],
  ]);
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
