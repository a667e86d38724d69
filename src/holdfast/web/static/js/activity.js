// What happened, in sentences, newest first. New events come in by themselves; the list never grows beyond its bound.
import { get, withQuery } from "./api.js";
import { emptyBox, errorBox } from "./dialogs.js";
import { Scope, h, keyed, replace, show } from "./dom.js";
import { ago, clock } from "./format.js";
import { icon } from "./icons.js";

const PAGE = 200;
const BOUND = 1000;
const TONES = [
  { id: "", label: "All" },
  { id: "bad", label: "Problems" },
  { id: "warn", label: "Warnings" },
  { id: "good", label: "Good news" },
];
const ICONS = { bad: "failed", warn: "warning", good: "landed", dim: "minus", "": "right" };

/** Show the events in an element. */
export function mountActivity(root, context) {
  const view = new ActivityView(root, context);
  return { update: (told) => view.update(told), end: () => view.end() };
}

class ActivityView {
  constructor(root, context) {
    this.context = context;
    this.scope = new Scope();
    this.events = [];
    this.tone = "";
    this.words = "";
    this.list = h("ol", { class: "events", "aria-label": "Events, newest first" });
    this.older = h("button", { class: "button", type: "button", hidden: true, on: { click: () => this.#older() } }, "Show earlier events");
    this.note = h("p", { class: "muted", hidden: true }, "Older events are left out here; `holdfast inspect` has them all.");
    this.empty = emptyBox("No event is like this.");
    this.problem = h("div", {});
    replace(root, this.#toolbar(), h("div", { class: "page narrow" }, this.problem, this.list, this.empty, this.older, this.note));
  }

  #toolbar() {
    const search = h("input", { type: "search", placeholder: "Filter by task or words", autocomplete: "off", "aria-label": "Filter events" });
    search.addEventListener("input", () => {
      this.words = search.value.trim().toLowerCase();
      this.#draw();
    });
    const chips = h("div", { class: "chips", role: "group", "aria-label": "Which events" });
    const choose = (tone) => {
      this.tone = tone;
      for (const chip of chips.children) chip.setAttribute("aria-pressed", String(chip.dataset.tone === tone));
      this.#draw();
    };
    replace(chips, TONES.map((tone) => h("button", { class: "chip", type: "button", "aria-pressed": String(tone.id === ""), data: { tone: tone.id }, on: { click: () => choose(tone.id) } }, tone.label)));
    return h("div", { class: "toolbar" }, h("div", { class: "search" }, icon("search"), search), chips);
  }

  update({ events }) {
    if (!this.begun) {
      this.begun = true;
      this.#load(Math.max(0, (this.context.feed.shown.seq ?? 0) - PAGE));
      return;
    }
    const at = this.context.feed.past?.seq ?? Infinity;
    if (at !== this.at) {
      this.at = at;
      this.#draw();
    }
    if (events.length) this.#add(events);
  }

  async #load(after) {
    try {
      const answer = await get(withQuery(this.context.feed.path("events"), { after: String(after), limit: PAGE }), this.scope.signal);
      replace(this.problem);
      this.#add(answer.events, after);
    } catch (error) {
      if (error.name !== "AbortError") replace(this.problem, errorBox(error, () => this.#load(after)));
    }
  }

  #older() {
    this.#load(Math.max(0, this.first - PAGE));
  }

  #add(events, after = null) {
    if (after !== null) this.first = Math.min(this.first ?? Infinity, after);
    const known = new Map(this.events.map((event) => [event.seq, event]));
    for (const event of events) if (!known.has(event.seq)) known.set(event.seq, event);
    this.events = [...known.values()].sort((one, other) => one.seq - other.seq).slice(-BOUND);
    this.#draw();
  }

  #draw() {
    const at = this.context.feed.past?.seq ?? Infinity;
    const chosen = this.events.filter((event) => event.seq <= at && event.sentence && (!this.tone || event.tone === this.tone) && this.#matches(event));
    keyed(this.list, chosen.reverse(), (event) => event.seq, (event) => eventRow(event, this.context));
    show(this.empty, chosen.length === 0 && Boolean(this.begun));
    show(this.older, this.first > 0 && this.events.length < BOUND);
    show(this.note, this.events.length >= BOUND);
  }

  #matches(event) {
    return !this.words || `${event.task ?? ""} ${event.sentence}`.toLowerCase().includes(this.words);
  }

  end() {
    this.scope.end();
  }
}

/** Return the row of an event. Its task is a link, unless all rows are about the same one. */
export function eventRow(event, context, { linked = true } = {}) {
  const when = ago(event.at, clock);
  const rest = withoutTask(event);
  const task = event.task && linked && rest !== null ? h("a", { class: "mono", href: context.link(event.task) }, event.task) : null;
  const sentence = h("span", { class: "event-words" }, task, task ? " " : null, event.task && rest !== null ? rest : event.sentence);
  const number = h("span", { class: "event-number muted", title: "Event number" }, `#${event.seq}`);
  return { node: h("li", { class: "event", data: { tone: event.tone || "plain" } }, icon(ICONS[event.tone] ?? "right"), when, sentence, number) };
}

/** Return the sentence without the task that it begins with; null if it does not. */
function withoutTask(event) {
  const found = event.task && event.sentence.startsWith(event.task) ? event.sentence.slice(event.task.length) : null;
  return found === null || !/^[: ]/.test(found) ? null : found.replace(/^:?\s*/, "");
}
