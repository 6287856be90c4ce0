// The alarms of a stream, and what people write about them.

import { json, put } from "./net.js";
import { ago, element, moment, number, percent, say } from "./words.js";

const LISTED = 20; // alarms
const LOOK = 10_000; // ms between two looks for notes of other people
const AUTHOR = "mfbocd-author";

const COLUMNS = ["Changed at", "Before", "After", "Confidence", "Alarm", "When", "Notes"];

/** Whether somebody has acknowledged the alarm of a tick. */
export const isAcknowledged = (notes, tick) => notes.some((note) => note.acknowledged && note.tick === tick);

/**
 * Reads the notes of a stream now and then until `signal` ends it, and lets people write some. `changed(notes)` gets
 * them all, oldest first.
 */
export function notebook(find, path, changed, signal) {
  const load = async () => changed((await json(`${path}/notes`, signal)).notes);
  const look = () => load().catch(() => {}); // the connection to the events says what is wrong
  const timer = setInterval(look, LOOK);
  signal.addEventListener("abort", () => clearInterval(timer));
  const dialog = find("note");
  const [text, author, error] = [find("note-text"), find("note-author"), find("note-error")];
  let about = null; // the alarm's tick, and the id of the note, which a repeated request has as well
  find("alarms").addEventListener("click", (event) => {
    const button = event.target.closest("button[data-tick]");
    if (button === null) return;
    about = { tick: Number(button.dataset.tick), id: randomId() };
    const known = button.dataset.acknowledged === "yes";
    say(find("note-title"), `Alarm at tick ${number(about.tick)}`);
    const primary = find("note-save");
    primary.value = known ? "comment" : "acknowledge";
    say(primary, known ? "Comment" : "Acknowledge");
    find("note-comment").hidden = known;
    text.value = "";
    author.value = sessionStorage.getItem(AUTHOR) ?? "";
    error.hidden = true;
    dialog.showModal();
    text.focus();
  });
  find("note-cancel").addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => find("alarms").querySelector(`button[data-tick="${about.tick}"]`)?.focus());
  dialog.querySelector("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const acknowledged = event.submitter?.value === "acknowledge";
    const body = { tick: about.tick, acknowledged, author: author.value.trim(), text: text.value.trim() };
    try {
      if (!acknowledged && body.text === "") throw new Error("A comment needs a text.");
      sessionStorage.setItem(AUTHOR, body.author);
      await put(`${path}/notes/${about.id}`, body, signal);
      await load();
      dialog.close();
      say(find("note-status"), acknowledged ? "The alarm is acknowledged." : "The comment is saved.");
    } catch (problem) {
      if (signal.aborted) return;
      say(error, `Not saved: ${problem.message}`);
      error.hidden = false;
    }
  });
  look();
}

/** An id for a note. `crypto.randomUUID` exists on encrypted pages only. */
function randomId() {
  return [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Lists the last alarms with their levels and notes. */
export function drawAlarms(table, none, { row, steps, changes, notes }, part) {
  const levels = new Map(changes.map((one) => [one.tick, one]));
  const alarms = steps.filter((step) => step.alarm);
  if (row.last_alarm !== null && !alarms.some((step) => step.tick === row.last_alarm.tick)) {
    alarms.unshift(row.last_alarm);
  }
  const rows = alarms.slice(-LISTED).reverse().map((step) => {
    const cells = [
      [`tick ${number(step.changed_at)}`], level(levels.get(step.tick)?.before, part),
      level(levels.get(step.tick)?.after, part), [percent(step.confidence)], [number(step.tick)],
      [element("span", { title: moment(step.at) }, ago(step.at))],
      written(step.tick, notes.filter((note) => note.tick === step.tick)),
    ];
    return element("tr", { role: "row", "data-tick": step.tick }, ...cells.map((inside, i) =>
      element("td", { role: "cell", "data-title": COLUMNS[i] }, ...inside)));
  });
  const body = table.tBodies[0];
  if (rows.length !== body.children.length || rows.some((made, i) => !made.isEqualNode(body.children[i]))) {
    const focused = body.contains(document.activeElement) ? document.activeElement.dataset.tick : undefined;
    body.replaceChildren(...rows);
    if (focused !== undefined) body.querySelector(`button[data-tick="${focused}"]`)?.focus();
  }
  table.hidden = rows.length === 0;
  none.hidden = rows.length > 0;
}

function written(tick, notes) {
  const known = isAcknowledged(notes, tick);
  const items = notes.map((note) => {
    const who = [note.author, note.token === null ? "" : `token ${note.token}`].filter((word) => word !== "");
    const by = who.length === 2 ? `${who[0]} (${who[1]})` : who[0] ?? "somebody";
    const what = note.acknowledged ? "acknowledged by " : "";
    return element("li", {}, note.text, note.text ? " " : "",
      element("small", { title: moment(note.at) }, `${what}${by}, ${ago(note.at)}`));
  });
  const label = known ? "Comment" : "Acknowledge";
  const button = element("button", { type: "button", class: "small", "data-tick": tick,
    "data-acknowledged": known ? "yes" : "no", "aria-label": `${label}: alarm at tick ${number(tick)}` }, label);
  return [...(items.length ? [element("ul", { class: "notes" }, ...items)] : []), button];
}

/** A level with its interval; of several, that of the number that is drawn. */
function level(levels, part) {
  const one = Array.isArray(levels) ? levels[part] : levels;
  if (!one) return ["–"];
  const interval = one.low === null || one.high === null ? [] :
    [" ", element("small", {}, `${number(one.low)} to ${number(one.high)}`)];
  return [number(one.mean), ...interval];
}
