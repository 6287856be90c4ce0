// Which part of the page is shown, and what all parts share: the connection, announcements, the token.

import { Refusal, token } from "./net.js";
import { overview } from "./overview.js";
import { stream } from "./stream.js";
import { copied, element, percent, say } from "./words.js";

const LABELS = { live: "live", connecting: "connecting …", reconnecting: "reconnecting …" };
const ANNOUNCED = 20_000; // ms an alarm stays announced

const main = document.getElementById("main");
const connection = document.getElementById("connection");
const announced = document.getElementById("announced");
let shown = new AbortController();
let hide = 0;

const page = {
  connection(word) {
    connection.dataset.state = word;
    say(connection, LABELS[word]);
  },
  /** Tells of an alarm, and where to look. */
  announce(row, step) {
    const link = element("a", { href: `#/streams/${row.id}` }, row.name);
    const text = ` changed at tick ${step.changed_at} (confidence ${percent(step.confidence)})`;
    announced.replaceChildren(element("strong", {}, "Alarm"), " ", link, text);
    announced.hidden = false;
    clearTimeout(hide);
    hide = setTimeout(() => (announced.hidden = true), ANNOUNCED);
  },
  title(alarms, name = "") {
    const title = `${alarms ? `(${alarms}) ` : ""}${name ? `${name} – ` : ""}mfbocd`;
    if (document.title !== title) document.title = title;
  },
  /** Something new is shown: whoever reads by ear or keyboard begins there. */
  arrived() {
    main.querySelector("h1")?.focus({ preventScroll: true });
    scrollTo(0, 0);
  },
  failed(error) {
    shown.abort();
    if (error instanceof Refusal && error.status === 401) return askToken();
    main.replaceChildren(copied("failed"));
    const missing = error instanceof Refusal && error.status === 404;
    main.querySelector("h1").textContent = missing ? "There is no such stream" : "That did not work";
    main.querySelector("#why").textContent = error.message;
    connection.dataset.state = "ended";
    say(connection, "not watching");
    page.arrived();
    if (!(error instanceof Refusal)) throw error;
  },
};

function askToken() {
  main.replaceChildren(copied("ask-token"));
  connection.dataset.state = "ended";
  say(connection, "not watching");
  main.querySelector("#token-reason").textContent = token.get() === null
    ? "The operator of this service can create one with `mfbocd token add`."
    : "This token is not valid, or was revoked.";
  main.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    token.set(main.querySelector("#token").value.trim());
    route();
  });
  main.querySelector("#token").focus();
}

function route(event) {
  shown.abort();
  shown = new AbortController();
  const { signal } = shown;
  const id = /^#\/streams\/([\w.-]+)$/.exec(location.hash)?.[1];
  main.replaceChildren();
  page.title(0);
  const view = id === undefined ? overview(main, page, signal) : stream(main, page, id, signal);
  if (event && id === undefined) page.arrived();
  view.catch((error) => {
    if (!signal.aborted) page.failed(error);
  });
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address is the stream's
  main.focus();
});
addEventListener("hashchange", route);
route();
