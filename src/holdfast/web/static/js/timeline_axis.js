// The axis of the timeline: ticks at round times, marks about the whole run, and a brush that zooms.
import { h, replace } from "./dom.js";
import { clock } from "./format.js";

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800];
const TICK_PIXELS = 110;
const WORDS_PIXELS = 56;
const CLICK_PIXELS = 6;

/** Return the round times within a range, at most so many. */
export function ticks(range, most) {
  const wanted = (range.end - range.begin) / Math.max(1, most);
  const step = STEPS.find((one) => one >= wanted) ?? STEPS.at(-1);
  const offset = new Date(range.begin * 1000).getTimezoneOffset() * 60;
  const found = [];
  for (let at = Math.ceil((range.begin - offset) / step) * step + offset; at <= range.end; at += step) found.push(at);
  return { step, at: found };
}

/** Return a tick's words: with seconds where the step asks for them, with the day where it is that long. */
export function tickWords(at, step) {
  const date = new Date(at * 1000);
  if (step >= 86400) return date.toLocaleDateString([], { month: "short", day: "numeric" });
  return date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false, ...(step < 60 ? { second: "2-digit" } : {}) });
}

/** The axis; dragging over it, or over the lanes below, chooses a range. */
export class TimeAxis {
  constructor(onRange) {
    this.onRange = onRange;
    this.scale = h("div", { class: "axis-scale" });
    this.brush = h("div", { class: "axis-brush", hidden: true });
    this.node = h("div", { class: "axis" }, h("div", { class: "axis-corner muted" }, "Task"), this.scale);
    this.node.addEventListener("pointerdown", (event) => this.#drag(event));
    queueMicrotask(() => this.node.parentElement?.addEventListener("pointerdown", (event) => this.#drag(event)));
  }

  draw(range, marks) {
    this.range = range;
    const { step, at } = ticks(range, this.scale.clientWidth / TICK_PIXELS);
    // At the right end there is no room for words.
    const last = range.end - ((range.end - range.begin) * WORDS_PIXELS) / Math.max(1, this.scale.clientWidth);
    const nodes = at.filter((one) => one <= last).map((one) => positioned(h("span", { class: "tick" }, tickWords(one, step)), one, range));
    const seen = marks.filter((mark) => mark.at >= range.begin && mark.at <= range.end);
    replace(this.scale, nodes, seen.map((mark) => positioned(h("span", { class: "axis-mark", title: `${mark.label}, ${clock(mark.at)}` }), mark.at, range)), this.brush);
  }

  #at(event) {
    const box = this.scale.getBoundingClientRect();
    const share = Math.max(0, Math.min(1, (event.clientX - box.left) / box.width));
    return this.range.begin + share * (this.range.end - this.range.begin);
  }

  #drag(event) {
    const box = this.scale.getBoundingClientRect();
    if (event.button !== 0 || event.pointerType === "touch" || event.clientX < box.left || event.target.closest("a, button")) return;
    event.preventDefault();
    event.stopPropagation();
    const startX = event.clientX;
    const start = this.#at(event);
    const move = (now) => {
      this.brush.hidden = Math.abs(now.clientX - startX) < CLICK_PIXELS;
      this.brush.style.left = `${Math.max(0, Math.min(startX, now.clientX) - box.left)}px`;
      this.brush.style.width = `${Math.abs(now.clientX - startX)}px`;
    };
    const done = (now) => {
      removeEventListener("pointermove", move);
      this.brush.hidden = true;
      if (Math.abs(now.clientX - startX) < CLICK_PIXELS) return;
      const end = this.#at(now);
      this.onRange({ begin: Math.min(start, end), end: Math.max(start, end) });
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", done, { once: true });
  }
}

/** Put a node at its time. */
export function positioned(node, at, range) {
  node.style.left = `${(100 * (at - range.begin)) / (range.end - range.begin)}%`;
  return node;
}
