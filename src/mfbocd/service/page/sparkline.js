// The recent means of streams as small figures, read for the streams that are shown and then kept up to date.

import { json } from "./net.js";
import { element, number } from "./words.js";

const TICKS = 60; // in one figure
const WIDTH = 100;
const HEIGHT = 26;
const EDGE = 2;
const SVG = "http://www.w3.org/2000/svg";

const first = (mean) => (Array.isArray(mean) ? mean[0] : mean) ?? null;

/** The recent means by stream. `changed` is called when some were read. */
export function trends(changed, signal) {
  const found = new Map();
  const stale = new Set(); // shown until they are read again
  let reading = false;
  let meanwhile = []; // steps that came while the answer was on its way, which may lack them
  const add = (step) => {
    const trend = found.get(step.stream);
    if (trend === undefined || step.tick <= (trend.ticks.at(-1) ?? -1)) return;
    trend.ticks.push(step.tick);
    trend.mean.push(first(step.mean));
    if (step.alarm) trend.changes.push(step.changed_at);
    const over = trend.ticks.length - TICKS;
    if (over > 0) trend.ticks.splice(0, over), trend.mean.splice(0, over);
  };
  const read = async (streams) => {
    const wanted = streams.filter((stream) => stream.tick > 0 && (!found.has(stream.id) || stale.has(stream.id)))
      .map((stream) => stream.id);
    if (reading || wanted.length === 0) return;
    reading = true;
    meanwhile = [];
    try {
      const query = wanted.map((id) => `stream=${id}`).join("&");
      const answer = await json(`/recent?limit=${TICKS}&${query}`, signal);
      for (const id of wanted) {
        found.set(id, answer.streams[id] ?? { ticks: [], mean: [], changes: [] });
        stale.delete(id);
      }
      meanwhile.forEach(add);
      changed();
    } catch {
      // the connection to the events says what is wrong
    } finally {
      reading = false;
    }
  };
  return {
    get: (id) => found.get(id),
    /** All must be read again: steps may have been missed. */
    expire: () => [...found.keys()].forEach((id) => stale.add(id)),
    read,
    /** Appends a step. */
    add(step) {
      if (reading) meanwhile.push(step);
      add(step);
    },
  };
}

/** The last mean as a number, and the recent ones as a line with a mark for each change. */
export function sparkline(stream, trend) {
  const last = first(stream.last?.mean);
  const shown = element("span", { class: "trend" }, element("span", {}, number(last)));
  const known = (trend?.mean ?? []).filter((mean) => mean !== null);
  if (known.length < 2) return shown;
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const [begin, end] = [trend.ticks[0], trend.ticks.at(-1)];
  const x = (tick) => (EDGE + ((WIDTH - 2 * EDGE) * (tick - begin)) / Math.max(1, end - begin)).toFixed(1);
  const y = (mean) => (HEIGHT - EDGE - ((HEIGHT - 2 * EDGE) * (mean - low)) / (high - low || 1)).toFixed(1);
  const changes = trend.changes.filter((tick) => tick >= begin);
  const counted = changes.length === 0 ? "no change" : changes.length === 1 ? "1 change" : `${changes.length} changes`;
  const label = `mean of the last ${known.length} ticks from ${number(low)} to ${number(high)}, ${counted}`;
  const figure = drawing("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "spark", role: "img", "aria-label": label,
    preserveAspectRatio: "none" });
  for (const tick of changes) {
    figure.append(drawing("line", { x1: x(tick), x2: x(tick), y1: 0, y2: HEIGHT, class: "spark-change" }));
  }
  const points = trend.ticks.flatMap((tick, i) => (trend.mean[i] === null ? [] : [`${x(tick)},${y(trend.mean[i])}`]));
  figure.append(drawing("polyline", { points: points.join(" "), class: "spark-line" }));
  shown.append(figure);
  return shown;
}

function drawing(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}
