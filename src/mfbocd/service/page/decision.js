// Why the next fidelity was chosen: its gain, its cost at the price, and what is left.

import { element, number, say } from "./words.js";

/** The fidelities of a stream; without any in its config there is one. */
export function fidelities(stream) {
  const found = stream.config?.fidelity;
  return found?.length ? found : [{ name: "full", cost: 1 }];
}

/** What a reading at a fidelity must give to be worth its cost; null without a price. */
export function threshold(fidelity, price) {
  return price === null || price === undefined || typeof fidelity.cost !== "number" ? null : price * fidelity.cost;
}

/** The gain minus the cost at the price; null if one of them is not known. */
export function net(fidelity, { gains, price }) {
  const gain = gains?.[fidelity.name] ?? null;
  const least = threshold(fidelity, price);
  return gain === null || least === null ? null : gain - least;
}

/** The unit of gains. */
export const unit = (stream) => (stream.config?.policy?.gain === "variance" ? "of variance" : "nats");

/** Says and tabulates what is read at the next tick and why. `choice` is the answer to `choose`. */
export function drawNext(text, table, stream, choice) {
  const all = fidelities(stream);
  const chosen = all.find((one) => one.name === choice.fidelity);
  say(text, chosen === undefined ? "–" : reasons(all, chosen, stream, choice));
  const explained = Object.keys(choice.gains ?? {}).length > 0;
  table.hidden = !explained;
  if (!explained) return;
  const priced = choice.price !== null;
  const head = ["Fidelity", "Cost", "Gain", ...(priced ? ["Price × cost", "Net"] : ["Gain per cost"])];
  const rows = all.map((one) => {
    const gain = choice.gains[one.name];
    const worth = priced
      ? [threshold(one, choice.price), net(one, choice)]
      : [typeof one.cost === "number" && one.cost > 0 ? gain / one.cost : null];
    const name = element("th", { scope: "row" }, one.name);
    if (one === chosen) name.append(" ", element("span", { class: "badge", "data-state": "chosen" }, "next"));
    const cells = [one.cost, gain, ...worth].map((value) =>
      element("td", {}, typeof value === "number" ? number(value) : "–"));
    return element("tr", one === chosen ? { "data-state": "chosen" } : {}, name, ...cells);
  });
  const made = [
    element("thead", {}, element("tr", {}, ...head.map((title) => element("th", { scope: "col" }, title)))),
    element("tbody", {}, ...rows),
  ];
  if (made.some((part, i) => !part.isEqualNode([table.tHead, table.tBodies[0]][i] ?? null))) {
    table.replaceChildren(element("caption", { class: "hidden" }, "Value of the next reading"), ...made);
  }
}

/** Why the price does not decide, by the limit of the budget that decides instead. */
export const LIMITS = {
  forbidden: "the debt of the budget forbids an expensive reading",
  demanded: "the savings of the budget demand an expensive reading",
};

function reasons(all, chosen, stream, choice) {
  const start = `Tick ${number(choice.tick)} reads ${chosen.name}`;
  if (all.length === 1) return `${start}, the only fidelity.`;
  if (choice.limit) return `${start}: ${LIMITS[choice.limit]}, whatever its net gain.`;
  const gain = choice.gains?.[chosen.name];
  if (gain === undefined) return `${start}. The policy of this stream decides without gains.`;
  const least = threshold(chosen, choice.price);
  const expected = `${start}: its expected gain is ${number(gain)} ${unit(stream)} at a cost of ${number(chosen.cost)}.`;
  if (least === null) return expected;
  const left = gain - least;
  const largest = all.every((one) => (net(one, choice) ?? -Infinity) <= left);
  const worth = left >= 0 ? `${number(left)} more than it costs` : `${number(-left)} less than it costs`;
  return `${expected} At the price of ${number(choice.price)} per unit of cost this cost is ${number(least)}, so the ` +
    `reading is worth ${worth}${largest ? ": the largest net gain of all fidelities" : ""}.`;
}
