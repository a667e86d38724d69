// One lane of the timeline: the bars and marks of a task, and the hint that shows durations and gaps.
import { h, replace } from "./dom.js";
import { clock, exactDuration } from "./format.js";

const LABEL_PIXELS = 56;
const STEPS = ["checks", "validation", "landing"];
const GOOD = ["landed", "done", "passed", "merged", "completed"];
const BAD = ["failed", "blocked", "lost", "refused", "conflict"];

/** Return the row of a lane within a range of time. */
export function laneRow(lane, range, view) {
  const label = h("a", { class: "lane-label", href: view.link(lane.task), title: view.title(lane.task), data: { task: lane.task } }, view.title(lane.task));
  const plot = h("div", { class: "lane-plot" });
  const bars = lane.bars.map((bar, index) => barNode(bar, lane, index, range, view));
  const marks = lane.marks.map((mark) => markNode(mark, lane, range, view));
  replace(plot, bars, marks);
  return h("div", { class: "lane", data: { item: "" } }, label, plot);
}

function barNode(bar, lane, index, range, view) {
  const end = bar.end ?? view.data.end;
  if (end < range.begin || bar.begin > range.end) return null;
  const from = share(Math.max(bar.begin, range.begin), range);
  const width = Math.max(0, share(Math.min(end, range.end), range) - from);
  const isStep = STEPS.includes(bar.kind);
  const node = h("button", { class: isStep ? "lane-bar step" : "lane-bar", type: "button", tabindex: "-1", data: { tone: toneOf(bar) } }, isStep || (width / 100) * view.plotWidth < LABEL_PIXELS ? null : bar.kind);
  node.setAttribute("aria-label", `${bar.kind}: ${bar.label}, ${bar.outcome}, ${lane.task}`);
  node.style.left = `${from}%`;
  node.style.width = `${width}%`;
  node.addEventListener("click", () => view.open(lane.task, bar.attempt));
  view.hint.attach(node, () => barWords(bar, lane, index, view));
  return node;
}

function markNode(mark, lane, range, view) {
  if (mark.at < range.begin || mark.at > range.end) return null;
  const node = h("span", { class: "lane-mark", data: { kind: mark.kind } });
  node.style.left = `${share(mark.at, range)}%`;
  view.hint.attach(node, () => [mark.label, `${clock(mark.at)} · event ${mark.seq}`]);
  return node;
}

const share = (at, range) => (100 * (at - range.begin)) / (range.end - range.begin);

function toneOf(bar) {
  if (bar.end === null) return STEPS.includes(bar.kind) ? "check" : "work";
  if (BAD.some((word) => bar.outcome.includes(word))) return "failed";
  return GOOD.some((word) => bar.outcome.includes(word)) ? "landed" : "wait";
}

function barWords(bar, lane, index, view) {
  const end = bar.end ?? view.data.end;
  const before = lane.bars.slice(0, index).reduce((last, one) => Math.max(last, one.end ?? 0), 0);
  const gap = before && bar.begin - before >= 1 ? `after a gap of ${exactDuration(bar.begin - before)}` : "";
  const times = `${clock(bar.begin)} – ${bar.end === null ? "now" : clock(end)}`;
  return [bar.label, `attempt ${bar.attempt} · ${bar.outcome}`, `${exactDuration(end - bar.begin)} · ${times}`, gap].filter(Boolean);
}

/** The one hint of the timeline: it says what is under the pointer. */
export class Hint {
  constructor() {
    this.node = h("div", { class: "hint", role: "tooltip", hidden: true });
    document.body.append(this.node);
  }

  attach(node, words) {
    node.addEventListener("pointerenter", () => this.#show(node, words()));
    node.addEventListener("focus", () => this.#show(node, words()));
    for (const kind of ["pointerleave", "blur"]) node.addEventListener(kind, () => (this.node.hidden = true));
  }

  #show(node, [first, ...rest]) {
    replace(this.node, h("strong", {}, first), rest.map((line) => h("span", {}, line)));
    this.node.hidden = false;
    const place = node.getBoundingClientRect();
    this.node.style.left = `${Math.max(8, Math.min(place.left, innerWidth - this.node.offsetWidth - 8))}px`;
    const below = place.bottom + 8;
    this.node.style.top = `${below + this.node.offsetHeight > innerHeight ? place.top - this.node.offsetHeight - 8 : below}px`;
  }

  end() {
    this.node.remove();
  }
}
