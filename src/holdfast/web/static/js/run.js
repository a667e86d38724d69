// One run: a header that never scrolls away, its tabs, the side panel of a task, and the slider through time.
import { mountActivity } from "./activity.js";
import { mountBoard } from "./board.js";
import { mountCharts } from "./charts.js";
import { errorBox, loading } from "./dialogs.js";
import { Scope, h, markCurrent, replace, set, setText, show } from "./dom.js";
import { mountGraph } from "./graph.js";
import { setKeys } from "./keys.js";
import { mountQueue } from "./queue.js";
import { mountRecovery } from "./recovery.js";
import { mountReview } from "./review.js";
import { TABS, go, link } from "./router.js";
import { RunHeader } from "./run_header.js";
import { RunFeed } from "./store.js";
import { TaskPanel } from "./task_panel.js";
import { TimeTravel } from "./time_travel.js";
import { mountTimeline } from "./timeline.js";

const VIEWS = {
  graph: mountGraph,
  board: mountBoard,
  timeline: mountTimeline,
  queue: mountQueue,
  activity: mountActivity,
  charts: mountCharts,
  recovery: mountRecovery,
  review: mountReview,
};
const LETTERS = { g: "graph", b: "board", t: "timeline", q: "queue", a: "activity", c: "charts", r: "recovery", v: "review" };

/** Show a run in an element. */
export function mountRun(root, app, route) {
  const page = new RunPage(root, app, route);
  return { show: (next) => page.show(next), end: () => page.end() };
}

class RunPage {
  constructor(root, app, route) {
    this.app = app;
    this.route = route;
    this.scope = new Scope();
    this.feed = new RunFeed(route.repository, route.run, app.setConnection);
    this.scope.own(() => this.feed.end());
    this.context = { feed: this.feed, target: { repository: route.repository, run: route.run }, route: () => this.route, select: (task, panel) => this.select(task, panel), link: (task) => this.linkTo(task) };
    this.#build(root);
    this.scope.own(this.feed.subscribe((told) => this.#told(told)));
    this.#crumbs();
    this.#keys();
    this.show(route);
  }

  #build(root) {
    this.root = root;
    this.header = new RunHeader(this.context);
    this.travel = new TimeTravel(this.context);
    this.panel = new TaskPanel(this.context);
    this.tabs = h("nav", { class: "tabs", "aria-label": "Views of the run" });
    this.stage = h("div", { class: "view", id: "view" }, loading("Reading the run…"));
    this.problem = h("div", {});
    const top = h("div", { class: "run-top" }, this.header.node, h("div", { class: "tab-row" }, this.tabs, this.travel.button));
    const body = h("div", { class: "run-body" }, h("div", { class: "run-main" }, this.problem, this.travel.node, this.stage), this.panel.node);
    replace(root, h("div", { class: "run-page" }, top, body));
    this.scope.own(() => this.panel.end());
    this.scope.own(() => this.view?.end());
    const measure = new ResizeObserver(() => document.documentElement.style.setProperty("--run-top", `${top.offsetHeight}px`));
    measure.observe(top);
    this.scope.own(() => measure.disconnect());
  }

  #crumbs() {
    const home = { words: this.route.repository, href: "/" };
    this.app.setCrumbs([home, { words: this.route.run }]);
  }

  #keys() {
    setKeys({
      next: () => this.#step(1),
      previous: () => this.#step(-1),
      open: () => this.panel.focus(),
      actions: () => (this.route.task ? this.panel.openActions() : this.header.openActions()),
      search: () => (this.stage.querySelector("input[type=search]") ?? this.panel.node.querySelector("input[type=search]"))?.focus(),
      tab: (letter) => LETTERS[letter] && (go({ ...this.route, tab: LETTERS[letter] }), true),
      close: () => this.route.task && this.select(null),
    });
  }

  /** Select the next task in plan order. */
  #step(step) {
    const names = [...(this.feed.shown?.tasks.keys() ?? [])];
    if (!names.length) return;
    const at = names.indexOf(this.route.task);
    const next = at < 0 ? (step > 0 ? 0 : names.length - 1) : Math.max(0, Math.min(names.length - 1, at + step));
    go({ ...this.route, task: names[next], attempt: null }, { replace: true });
  }

  select(task, panel = "now") {
    go({ ...this.route, task, panel: task ? panel : null, attempt: null });
  }

  linkTo(task) {
    return link({ ...this.route, task, panel: "now", attempt: null });
  }

  /** Go to another place of the same run: another tab, task, or event. */
  show(route) {
    const before = this.route;
    this.route = route;
    this.#drawTabs();
    if (before.at !== route.at || (route.at && !this.feed.past)) this.#travelTo(route.at);
    if (this.feed.shown) this.#drawBody(before.tab !== route.tab);
    document.title = `${route.task ?? this.feed.shown?.status.run.goal ?? route.run} · Holdfast`;
  }

  async #travelTo(at) {
    try {
      await this.feed.travel(at);
    } catch (error) {
      if (error.name !== "AbortError") replace(this.problem, errorBox(error, () => go({ ...this.route, at: null })));
    }
  }

  #told(told) {
    replace(this.problem, this.feed.error ? errorBox(this.feed.error) : null);
    if (!this.feed.shown) return this.feed.error && this.#nothing();
    this.header.draw(this.feed.shown);
    this.travel.draw();
    if (this.view) this.view.update(told);
    else this.#drawBody(true);
    this.panel.update(told);
    this.#drawTabs();
  }

  /** There is no run to show: say so, and where the others are. */
  #nothing() {
    const home = h("a", { class: "button", href: "/" }, "All runs");
    replace(this.root, h("div", { class: "page" }, h("h1", {}, "This run cannot be shown"), errorBox({ message: this.feed.error.message }), h("p", {}, home)));
  }

  #drawBody(anotherTab) {
    // First, because the graph is made to fit what the panel leaves of the width.
    this.panel.show(this.route);
    if (anotherTab || !this.view) {
      this.view?.end();
      replace(this.stage);
      set(this.stage, "data-tab", this.route.tab);
      this.view = VIEWS[this.route.tab](this.stage, this.context);
      this.view.update({ all: true, tasks: null, events: [] });
    }
    this.view.select?.(this.route.task);
    this.header.draw(this.feed.shown);
    this.travel.draw();
  }

  #drawTabs() {
    const queue = this.feed.shown?.status.merge_queue.filter((place) => place.status !== "merged").length ?? 0;
    if (!this.tabs.children.length) {
      for (const tab of TABS) this.tabs.append(h("a", { class: "tab", data: { tab } }, h("span", {}, tab[0].toUpperCase() + tab.slice(1)), h("span", { class: "tab-count", hidden: true })));
    }
    for (const node of this.tabs.children) {
      const tab = node.dataset.tab;
      set(node, "href", link({ ...this.route, tab }));
      markCurrent(node, tab === this.route.tab);
      if (tab === "queue") setText(show(node.lastChild, queue > 0), queue);
    }
  }

  end() {
    this.scope.end();
  }
}
