// Asking the service, and watching what happens there for as long as the page is open.

const KEY = "mfbocd-token";
const FIRST = 500; // ms before the first attempt to connect again
const LONGEST = 10_000;
const SILENCE = 40_000; // the service says something every 15 s; after so many ms without it the line is dead

/** The token, for as long as the tab is open. */
export const token = {
  get: () => sessionStorage.getItem(KEY),
  set: (value) => sessionStorage.setItem(KEY, value),
};

/** An answer that is a refusal. */
export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** The answer to a request, by default a GET; a refusal is raised. */
export async function get(path, signal, headers = {}, more = {}) {
  const shown = token.get();
  const sent = shown === null ? headers : { ...headers, Authorization: `Bearer ${shown}` };
  const answer = await fetch(path, { ...more, headers: sent, signal, cache: "no-store", credentials: "omit" });
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => ({}));
  throw new Refusal(answer.status, body.error ?? `the service responded with ${answer.status}`);
}

/** The JSON of a GET. */
export const json = async (path, signal) => (await get(path, signal)).json();

/** Sends JSON with PUT, which may be repeated; the JSON of the answer. */
export async function put(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  return (await get(path, signal, headers, { method: "PUT", body: JSON.stringify(body) })).json();
}

/** Server-sent events in a text that comes in parts; what is unfinished waits for the next part. */
export class Parser {
  #rest = "";

  /** The events a further part completes. */
  push(text) {
    const blocks = (this.#rest + text).split("\n\n");
    this.#rest = blocks.pop();
    return blocks.map(parsed).filter((event) => event !== null);
  }
}

function parsed(block) {
  const data = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("data: ")) data.push(line.slice(6));
  }
  return data.length ? JSON.parse(data.join("\n")) : null;
}

/**
 * Watches until `signal` ends it, and connects again whenever the line breaks.
 *
 * `where()` says what to ask for at every attempt: a path, and the id seen last if there is one. `opened()` is
 * awaited once the place to go on from is fixed and before anything is read; `events(list)` gets the steps;
 * `state(word)` is live, connecting or reconnecting. A refusal that will not pass is raised.
 */
export async function watch({ where, opened, events, state }, signal) {
  let pause = FIRST;
  state("connecting");
  while (!signal.aborted) {
    const line = new AbortController();
    const stop = () => line.abort();
    signal.addEventListener("abort", stop);
    let silent = setTimeout(stop, SILENCE);
    try {
      const { path, last } = await where(line.signal);
      const headers = last === null ? {} : { "Last-Event-ID": String(last) };
      const answer = await get(path, line.signal, headers);
      await opened(line.signal);
      state("live");
      pause = FIRST;
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      const parser = new Parser();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        clearTimeout(silent);
        silent = setTimeout(stop, SILENCE);
        const found = parser.push(value);
        if (found.length) events(found);
      }
    } catch (error) {
      if (error instanceof Refusal && [401, 403, 404, 422].includes(error.status)) throw error;
      if (!(error instanceof Refusal || error instanceof TypeError || error.name === "AbortError")) throw error;
    } finally {
      clearTimeout(silent);
      signal.removeEventListener("abort", stop);
      line.abort();
    }
    if (signal.aborted) return;
    state("reconnecting");
    await rest(pause * (0.75 + Math.random() / 2), signal); // not all pages at once
    pause = Math.min(2 * pause, LONGEST);
  }
}

/** Some time; less if the network comes back or the page is looked at again. */
function rest(ms, signal) {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      removeEventListener("online", end);
      document.removeEventListener("visibilitychange", seen);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const seen = () => document.visibilityState === "visible" && end();
    const timer = setTimeout(end, ms);
    addEventListener("online", end);
    document.addEventListener("visibilitychange", seen);
    signal.addEventListener("abort", end);
  });
}
