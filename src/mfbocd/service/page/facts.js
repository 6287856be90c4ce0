// What is shown about a stream, in the list and on its own page.

import { ago, element, moment, number } from "./words.js";

const RECENT = 50; // ticks for which an alarm is news

/** Whether a stream was never read, has a recent change, one that somebody has acknowledged, or is quiet. */
export function state(stream) {
  if (stream.tick === 0) return "never read";
  const alarm = stream.last_alarm;
  if (alarm === null || stream.tick - 1 - alarm.tick >= RECENT) return "quiet";
  return stream.acknowledged ? "acknowledged" : "alarm";
}

/** What the word means. */
export const meaning = {
  alarm: `a change was found in the last ${RECENT} ticks`,
  acknowledged: `a change was found in the last ${RECENT} ticks, and somebody has acknowledged it`,
  quiet: `no change was found in the last ${RECENT} ticks`,
  "never read": "no observation has come yet",
};

/** A stream with one more step; an old step changes nothing. */
export function advanced(stream, step) {
  if (step.tick < stream.tick) return stream;
  return {
    ...stream,
    tick: step.tick + 1,
    spent: step.spent,
    updated: step.at,
    last: step,
    alarms: stream.alarms + (step.alarm ? 1 : 0),
    last_alarm: step.alarm ? step : stream.last_alarm,
    acknowledged: stream.acknowledged && !step.alarm,
  };
}

/** What was allowed so far, where there is a budget of the stream's own. */
export const allowed = (stream) => (stream.budget === null ? null : stream.budget * stream.tick);

/** At which tick the last change was, and how long ago it was found. */
export function lastChange(stream) {
  const alarm = stream.last_alarm;
  if (alarm === null) return element("span", { class: "none" }, "no change");
  return element("span", { title: moment(alarm.at) }, `tick ${number(alarm.changed_at)}`, " ",
    element("small", {}, ago(alarm.at)));
}

/** The spend as a number and a bar of the part of what was allowed; `of` names whose budget it is. */
export function spend(spent, most, of = "") {
  const part = most > 0 ? spent / most : 0;
  const shown = element("span", { class: "spend" }, element("span", {}, number(spent)));
  if (most === null) return shown;
  const text = `${Math.round(100 * part)}\u00a0%`;
  const bar = element("span", {
    class: part > 1.05 ? "meter over" : "meter", role: "meter", "aria-label": "part of the budget spent",
    "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(100 * Math.min(part, 1)),
    "aria-valuetext": text,
  }, element("span"));
  bar.firstChild.style.width = `${Math.round(100 * Math.min(part, 1))}%`;
  const title = `${of}${number(spent)} of ${number(most)} allowed so far`;
  shown.append(bar, element("small", { title }, text));
  return shown;
}

/** The state as a word with a colour. */
export function badge(word) {
  return element("span", { class: "badge", "data-state": word, title: meaning[word] }, word);
}
