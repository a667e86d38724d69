// The one door to the server: requests, errors with their hint, and streams that come back by themselves.

const ROOT = "/api/v1";
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 10000;

/** What the server refused or could not do: what happened, and what to do next. */
export class ApiError extends Error {
  constructor(status, message, hint) {
    super(message);
    this.status = status;
    this.hint = hint;
  }
}

/** Return the address of something below the API from names, each of them one part of the path. */
export function address(...names) {
  return [ROOT, ...names.map((name) => encodeURIComponent(name))].join("/");
}

/** Return the address of a run, or of something of it. */
export function runAddress(repository, run, ...names) {
  return address("repositories", repository, "runs", run, ...names);
}

/** Return an address with those of the parameters that have a value. */
export function withQuery(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(given).toString();
  return query ? `${path}?${query}` : path;
}

/** Read something. */
export const get = (path, signal) => request(path, { signal });

/** Ask for something to be done. */
export function post(path, body) {
  return request(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
}

async function request(path, options) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The server does not answer.", "Is `holdfast serve` still running? Start it again and reload this page.");
  }
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer;
  throw new ApiError(response.status, answer.error ?? `The server answered ${response.status}.`, answer.hint ?? "");
}

/** Exchange the token of the address for a cookie, once, and take it out of the address and the history. */
export async function openSession() {
  const match = /^#token=([\w.~-]+)$/.exec(location.hash);
  if (!match) return;
  history.replaceState(history.state, "", location.pathname + location.search);
  await post("/session", { token: match[1] });
}

/**
 * Follow a stream of the server. `handlers` has one function per kind of event; each gets the data and the event number.
 * A connection that drops comes back by itself after the last event number; `onState` hears of `live`, `reconnecting`
 * and `refused`. While nobody looks at the page the connection is given up, since a browser has few of them.
 */
export class Stream {
  #source = null;
  #timer = 0;
  #pause = FIRST_PAUSE_MS;
  #closed = false;
  #over = false;
  #look = () => this.#visibility();

  constructor(addressAfter, handlers, onState = () => {}) {
    this.addressAfter = addressAfter;
    this.handlers = handlers;
    this.onState = onState;
    document.addEventListener("visibilitychange", this.#look);
    this.#open();
  }

  #open() {
    clearTimeout(this.#timer);
    this.#source?.close();
    const source = new EventSource(this.addressAfter());
    this.#source = source;
    source.onopen = () => {
      this.#pause = FIRST_PAUSE_MS;
      this.onState("live");
    };
    source.onerror = () => this.#dropped();
    for (const [kind, handle] of Object.entries(this.handlers)) {
      source.addEventListener(kind, (event) => handle(event.data ? JSON.parse(event.data) : null, Number(event.lastEventId) || 0));
    }
  }

  #dropped() {
    if (this.#closed || this.#over) return;
    this.#source.close();
    this.onState("reconnecting");
    this.#timer = setTimeout(() => this.#retry(), this.#pause);
    this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE_MS);
  }

  async #retry() {
    try {
      await get(address("overview"));
    } catch (error) {
      if (error.status === 401 || error.status === 403) this.onState("refused");
    }
    if (!this.#closed && !this.#over) this.#open();
  }

  #visibility() {
    clearTimeout(this.#timer);
    if (this.#over || this.#closed) return;
    if (document.hidden) this.#timer = setTimeout(() => this.#source.close(), 30000);
    else if (this.#source.readyState === EventSource.CLOSED) this.#open();
  }

  /** The stream has ended for good: nothing more will come. */
  finish() {
    this.#over = true;
    this.#source.close();
  }

  close() {
    this.#closed = true;
    clearTimeout(this.#timer);
    document.removeEventListener("visibilitychange", this.#look);
    this.#source.close();
  }
}
