// Numbers, times and money as people read them. Relative times have the exact one on hover and keep themselves current.
import { h, set, setText } from "./dom.js";

const MINUTE = 60;
const HOUR = 3600;
const DAY = 86400;

const STYLING = /\x1b\[[0-9;:]*[mK]/g;

/** Return what a program printed without its colours. */
export const withoutColours = (text) => text.replace(STYLING, "");

/** Return a span of seconds in its two largest units: `4 s`, `3 min`, `2 h 05 min`, `3 d 4 h`. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  const whole = Math.max(0, Math.round(seconds));
  if (whole < MINUTE) return `${whole} s`;
  if (whole < HOUR) return `${Math.round(whole / MINUTE)} min`;
  if (whole < DAY) return `${Math.floor(whole / HOUR)} h ${String(Math.floor((whole % HOUR) / MINUTE)).padStart(2, "0")} min`;
  return `${Math.floor(whole / DAY)} d ${Math.floor((whole % DAY) / HOUR)} h`;
}

/** Return a span with its seconds, for bars that last less than an hour. */
export function exactDuration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < MINUTE) return `${whole} s`;
  if (whole < HOUR) return `${Math.floor(whole / MINUTE)} min ${String(whole % MINUTE).padStart(2, "0")} s`;
  return duration(whole);
}

/** Return dollars with as many digits as they deserve; a dash if unknown. */
export function money(dollars) {
  if (dollars === null || dollars === undefined) return "–";
  return dollars !== 0 && Math.abs(dollars) < 0.1 ? `$${dollars.toFixed(3)}` : `$${dollars.toFixed(2)}`;
}

/** Return a large number in short: `950`, `12.4k`, `3.1M`. */
export function compact(number) {
  if (number === null || number === undefined) return "–";
  if (number < 1000) return String(Math.round(number));
  if (number < 1e6) return `${(number / 1e3).toFixed(number < 1e4 ? 1 : 0)}k`;
  return `${(number / 1e6).toFixed(number < 1e7 ? 1 : 0)}M`;
}

/** Return a number with its noun. */
export function count(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

/** Return `1st`, `2nd`, `3rd`, `4th`. */
export function ordinal(number) {
  const last = number % 100;
  const ending = last > 10 && last < 14 ? "th" : ({ 1: "st", 2: "nd", 3: "rd" }[number % 10] ?? "th");
  return `${number}${ending}`;
}

/** Return the seconds since 1970 of a timestamp: of the text of the API, or of a number of seconds. */
export function seconds(at) {
  return typeof at === "number" ? at : Date.parse(at) / 1000;
}

/** Return how long ago something was, or how soon it is. */
export function relative(at, now = Date.now() / 1000) {
  const past = now - seconds(at);
  if (!Number.isFinite(past)) return "";
  if (past < -5) return `in ${duration(-past)}`;
  return past < 10 ? "just now" : `${duration(past)} ago`;
}

/** Return a time as a clock shows it, with the day if it was another one. */
export function clock(at) {
  const date = new Date(seconds(at) * 1000);
  const time = date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
  return date.toDateString() === new Date().toDateString() ? time : `${date.toLocaleDateString()} ${time}`;
}

/** Return hours and minutes. */
export function shortClock(at) {
  return new Date(seconds(at) * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false });
}

const TIMESTAMP = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g;

/** Return a sentence with its timestamps as a clock here shows them. */
export const withLocalTimes = (text) => text.replace(TIMESTAMP, (at) => clock(at));

/** Return a time element: relative, exact on hover. `words(at)` may say it differently, such as `for 5 min`. */
export function ago(at, words = relative) {
  const node = h("time", { class: "when" });
  setAgo(node, at, words);
  return node;
}

const WORDS = new WeakMap();

/** Point a time element to another time. */
export function setAgo(node, at, words = WORDS.get(node) ?? relative) {
  WORDS.set(node, words);
  if (!at || !Number.isFinite(seconds(at))) {
    setText(node, "");
    set(node, "data-at", null);
    return;
  }
  set(node, "data-at", seconds(at));
  set(node, "datetime", new Date(seconds(at) * 1000).toISOString());
  set(node, "title", clock(at));
  setText(node, words(seconds(at)));
}

/** Return how long something has lasted. */
export const lasting = (at) => duration(Date.now() / 1000 - seconds(at));

/** Bring every time on the page up to date. */
export function refreshTimes(root = document) {
  for (const node of root.querySelectorAll("time[data-at]")) {
    setText(node, (WORDS.get(node) ?? relative)(Number(node.dataset.at)));
  }
}

/** Return the first characters of a commit, as people name it. */
export const shortCommit = (commit) => (commit ? commit.slice(0, 10) : "");
