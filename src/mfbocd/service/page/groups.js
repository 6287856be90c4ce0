// Groups: streams that share one budget.

import { LIMITS } from "./decision.js";
import { spend } from "./facts.js";
import { element, number } from "./words.js";

const COLUMNS = ["Group", "Members", "Price", "Budget per round", "Spent"];

/** All groups by id, with the sums of their streams. */
export function withSums(groups, sums) {
  return new Map(groups.map((group) => {
    const one = group.streams && group.budget !== null ? group.budget / group.streams : 0; // of one reading
    return [group.id, { ...group, one, ...(sums[group.id] ?? { spent: 0, ticks: 0 }) }];
  }));
}

/** The spend of a group as a part of what it was allowed so far. */
export const groupSpend = (group) => spend(group.spent, group.one * group.ticks, `group ${group.name}: `);

/** Lists groups; `chosen` is the one whose streams are shown, and `choose` gets another, or null for all streams. */
export function drawGroups(panel, groups, chosen, choose) {
  panel.hidden = groups.size === 0;
  const table = panel.querySelector("table");
  if (table.tHead === null) {
    const titles = COLUMNS.map((title) => element("th", { role: "columnheader", scope: "col" }, title));
    table.append(element("thead", { role: "rowgroup" }, element("tr", { role: "row" }, ...titles)),
      element("tbody", { role: "rowgroup" }));
    table.addEventListener("click", (event) => {
      const id = event.target.closest("button[data-group]")?.dataset.group;
      if (id !== undefined) choose(id);
    });
  }
  const rows = [...groups.values()].map((group) => {
    const button = element("button", { type: "button", class: "small", "data-group": group.id,
      "aria-pressed": chosen === group.id, title: "Show only the streams of this group" }, group.name);
    const price = element("span", {}, number(group.price));
    if (group.limit) price.append(" ", element("small", { title: LIMITS[group.limit] }, group.limit));
    const cells = [button, number(group.streams), price, number(group.budget), groupSpend(group)];
    if (group.damaged) cells[4] = element("span", { class: "none", title: group.damaged }, "damaged");
    return element("tr", { role: "row", "data-id": group.id }, ...cells.map((inside, i) =>
      element("td", { role: "cell", "data-title": COLUMNS[i] }, inside)));
  });
  const body = table.tBodies[0];
  rows.forEach((made, i) => {
    const before = body.children[i];
    if (before?.isEqualNode(made)) return;
    const focused = before?.contains(document.activeElement);
    if (before) before.replaceWith(made);
    else body.append(made);
    if (focused) made.querySelector("button").focus();
  });
  while (body.children.length > rows.length) body.lastChild.remove();
}
