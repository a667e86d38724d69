// The run over time: a lane per task, bars for attempts named by kind, marks for moments, bands where everything stood still.
import { emptyBox } from "./dialogs.js";
import { h, replace, set, setText, show } from "./dom.js";
import { clock, exactDuration } from "./format.js";
import { icon } from "./icons.js";
import { PastView } from "./past_view.js";
import { go } from "./router.js";
import { TimeAxis } from "./timeline_axis.js";
import { Hint, laneRow } from "./timeline_lane.js";

const RELOAD_MS = 1000;
const ROW = 32;
const AROUND = 12;
const BAND_WORDS = { crash: "runner gone", limit: "provider's limit", outage: "provider out of reach", pause: "at rest" };

/** Show the timeline in an element. */
export function mountTimeline(root, context) {
  const view = new TimelineView(root, context);
  return { update: (told) => view.update(told), select: (task) => view.select(task), end: () => view.end() };
}

class TimelineView extends PastView {
  constructor(root, context) {
    super(root, context, { name: "timeline", words: "Reading the history…", pauseMs: RELOAD_MS });
    this.data = null;
    this.range = null;
    this.words = "";
    this.hint = new Hint();
  }

  take(answer) {
    this.data = answer;
    if (!this.data.lanes.length) return replace(this.root, emptyBox("Nothing has begun yet.", h("p", { class: "muted" }, "A lane appears here as soon as an agent starts.")));
    if (!this.body?.isConnected) this.#build();
    this.#draw();
  }

  #build() {
    this.axis = new TimeAxis((range) => this.#zoomTo(range));
    this.lanes = h("div", { class: "lanes" });
    this.bands = h("div", { class: "bands", "aria-hidden": "true" });
    this.body = h("div", { class: "timeline", tabindex: "0", role: "region", "aria-label": "Timeline, one lane per task" }, this.axis.node, h("div", { class: "lanes-box" }, this.bands, this.lanes));
    this.body.addEventListener("scroll", () => this.#drawLanes(), { passive: true });
    this.table = h("div", { class: "page narrow", hidden: true });
    const resize = new ResizeObserver(() => this.#draw());
    resize.observe(this.body);
    this.scope.own(() => resize.disconnect());
    this.scope.own(() => this.hint.end());
    replace(this.root, this.#toolbar(), this.body, this.table);
  }

  #toolbar() {
    const search = h("input", { type: "search", placeholder: "Find a task", autocomplete: "off", "aria-label": "Find a task" });
    search.addEventListener("input", () => {
      this.words = search.value.trim().toLowerCase();
      this.#draw();
    });
    const zoom = (name, label, act) => h("button", { class: "icon-button", type: "button", "aria-label": label, title: label, on: { click: act } }, icon(name));
    const asTable = h("button", { class: "button small", type: "button", "aria-pressed": "false" }, "As a table");
    asTable.addEventListener("click", () => this.#toggleTable(asTable));
    this.legend = h("ul", { class: "legend wide-only", role: "list", "aria-label": "Bands" });
    const buttons = h("div", { class: "zoom-buttons", role: "group", "aria-label": "Zoom" }, zoom("minus", "Zoom out", () => this.#zoomBy(2)), zoom("plus", "Zoom in", () => this.#zoomBy(0.5)), zoom("fit", "Show all", () => this.#zoomTo(null)));
    const tip = h("span", { class: "muted wide-only" }, "Drag over the lanes to zoom");
    return h("div", { class: "toolbar" }, h("div", { class: "search" }, icon("search"), search), this.legend, h("span", { class: "spacer" }), tip, asTable, buttons);
  }

  #toggleTable(button) {
    const wanted = this.table.hidden;
    set(button, "aria-pressed", String(wanted));
    show(this.table, wanted);
    show(this.body, !wanted);
    if (wanted) replace(this.table, timelineTable(this.data, this.context));
  }

  #shownRange() {
    const { begin, end } = this.data;
    return this.range ?? { begin, end: Math.max(end, begin + 1) };
  }

  #zoomTo(range) {
    this.range = range && range.end - range.begin > 0.5 ? range : null;
    this.#draw();
  }

  #zoomBy(factor) {
    const { begin, end } = this.#shownRange();
    const middle = (begin + end) / 2;
    const half = ((end - begin) / 2) * factor;
    const wide = half * 2 >= this.data.end - this.data.begin;
    this.#zoomTo(wide ? null : { begin: middle - half, end: middle + half });
  }

  #draw() {
    if (!this.data || this.scope.signal.aborted) return;
    const range = this.#shownRange();
    this.axis.draw(range, this.data.marks ?? []);
    this.shown = this.data.lanes.filter((lane) => !this.words || `${lane.task} ${this.context.feed.shown.title(lane.task)}`.toLowerCase().includes(this.words));
    this.lanes.style.height = `${this.shown.length * ROW}px`;
    this.#drawBands(range);
    this.#drawLanes();
  }

  #drawBands(range) {
    const share = (at) => `${Math.max(0, Math.min(100, (100 * (at - range.begin)) / (range.end - range.begin)))}%`;
    const bands = this.data.bands.map((band) => {
      const node = h("span", { class: "band", data: { kind: band.kind } });
      node.style.left = share(band.begin);
      node.style.right = `calc(100% - ${share(band.end ?? this.data.end)})`;
      return node;
    });
    replace(this.bands, bands);
    const kinds = [...new Set(this.data.bands.map((band) => band.kind))];
    replace(this.legend, kinds.map((kind) => h("li", { class: "band-key" }, h("span", { class: "band", data: { kind } }), BAND_WORDS[kind] ?? kind)));
  }

  /** Draw the lanes that are seen, and a few around them. */
  #drawLanes() {
    const first = Math.max(0, Math.floor(this.body.scrollTop / ROW) - AROUND);
    const last = Math.min(this.shown.length, Math.ceil((this.body.scrollTop + this.body.clientHeight) / ROW) + AROUND);
    const range = this.#shownRange();
    this.plotWidth = this.axis.scale.clientWidth;
    const selected = this.context.route().task;
    const rows = [];
    for (let index = first; index < last; index += 1) {
      const row = laneRow(this.shown[index], range, this);
      row.style.transform = `translateY(${index * ROW}px)`;
      row.classList.toggle("selected", this.shown[index].task === selected);
      rows.push(row);
    }
    replace(this.lanes, rows);
  }

  /** Go to an attempt of a task. */
  open(task, attempt) {
    go({ ...this.context.route(), task, panel: "stream", attempt });
  }

  title(task) {
    return this.context.feed.shown.title(task);
  }

  link(task) {
    return this.context.link(task);
  }

  select() {
    if (this.data && this.body?.isConnected) this.#drawLanes();
  }

  end() {
    this.scope.end();
  }
}

function timelineTable(data, context) {
  const head = h("tr", {}, ["Task", "What", "Attempt", "Began", "Took", "Outcome"].map((word) => h("th", { scope: "col" }, word)));
  const rows = data.lanes.flatMap((lane) =>
    lane.bars.map((bar) => h("tr", {}, h("td", {}, h("a", { href: context.link(lane.task) }, lane.task)), h("td", {}, bar.label), h("td", { class: "number" }, bar.attempt), h("td", {}, clock(bar.begin)), h("td", { class: "number" }, exactDuration((bar.end ?? data.end) - bar.begin)), h("td", {}, bar.outcome))),
  );
  const stood = data.bands.map((band) => h("tr", {}, h("td", {}, "all"), h("td", {}, band.label), h("td", {}), h("td", {}, clock(band.begin)), h("td", { class: "number" }, exactDuration((band.end ?? data.end) - band.begin)), h("td", {}, BAND_WORDS[band.kind])));
  return h("div", { class: "table-box" }, h("table", { class: "table" }, h("caption", { class: "visually-hidden" }, "The run over time"), h("thead", {}, head), h("tbody", {}, rows, stood)));
}
