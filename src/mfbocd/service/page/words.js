// Elements without markup, and numbers and times as people read them.

/** An element; texts are texts, whatever is in them. */
export function element(tag, attributes = {}, ...inside) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...inside);
  return made;
}

/** What a template holds. */
export const copied = (id) => document.getElementById(id).content.cloneNode(true);

/** Sets a text only where it differs, so that nothing is announced or drawn twice. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** 1234.5 as 1,235; 0.012345 as 0.01235. */
export function number(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) return value.toExponential(2);
  return value.toLocaleString("en", size >= 1000 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 4 });
}

/** A probability in per cent. */
export function percent(value) {
  if (value === null || value === undefined) return "–";
  if (value > 0.999) return ">\u00a099.9\u00a0%";
  const digits = value < 0.1 || value > 0.9 ? 1 : 0;
  return `${(100 * value).toLocaleString("en", { maximumFractionDigits: digits })}\u00a0%`;
}

/** How long ago seconds since 1970 are. */
export function ago(at, now = Date.now() / 1000) {
  const passed = Math.max(0, now - at);
  if (passed < 10) return "just now";
  if (passed < 60) return `${Math.floor(passed / 10) * 10} s ago`;
  if (passed < 3600) return `${Math.floor(passed / 60)} min ago`;
  if (passed < 86400) return `${Math.floor(passed / 3600)} h ago`;
  return `${Math.floor(passed / 86400)} d ago`;
}

/** The date and time of seconds since 1970. */
export const moment = (at) => new Date(at * 1000).toLocaleString();

/** Runs `draw` soon, but not more often than every `pause` ms, until `signal` ends it. */
export function paced(draw, pause, signal) {
  let waiting = 0;
  let last = -Infinity;
  signal.addEventListener("abort", () => clearTimeout(waiting));
  return () => {
    if (waiting || signal.aborted) return;
    waiting = setTimeout(() => {
      waiting = 0;
      last = performance.now();
      draw();
    }, Math.max(0, last + pause - performance.now()));
  };
}
