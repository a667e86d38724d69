// The side panel of a task. It stays while the tabs of the run change, and has an address of its own.
import { actionMenu, actionRow, answerForm, mayAct } from "./actions.js";
import { get } from "./api.js";
import { errorBox, loading } from "./dialogs.js";
import { Scope, debounced, h, markCurrent, replace, set, setText, show } from "./dom.js";
import { icon } from "./icons.js";
import { PANELS, link } from "./router.js";
import { badge, setBadge, taskLook, taskReason } from "./statuses.js";
import { PANEL_VIEWS } from "./task_views.js";

const RELOAD_MS = 600;
const OUTCOMES = { landed: "landed", done: "landed", failed: "failed", lost: "failed", blocked: "person", asked: "person", "under way": "work" };

/** The panel; `show` points it to the task of a place, `update` brings it up to date. */
export class TaskPanel {
  constructor(context) {
    this.context = context;
    this.task = null;
    this.view = null;
    this.again = debounced(RELOAD_MS, () => this.#load());
    this.node = h("aside", { class: "panel", "aria-label": "Task", hidden: true });
    this.#build();
  }

  #build() {
    this.title = h("h2", { class: "panel-title", tabindex: "-1" });
    this.name = h("code", { class: "muted" });
    this.status = badge(taskLook({ status: "pending" }));
    this.reason = h("p", { class: "panel-reason" });
    this.answer = h("div", { class: "panel-answer" });
    this.buttons = h("div", { class: "panel-actions" });
    this.steps = h("ol", { class: "stepper", "aria-label": "Attempts" });
    this.tabs = h("nav", { class: "tabs small", "aria-label": "About the task" }, PANELS.map((panel) => h("a", { class: "tab", data: { panel } }, panel[0].toUpperCase() + panel.slice(1))));
    this.body = h("div", { class: "panel-body" });
    const close = h("button", { class: "icon-button", type: "button", "aria-label": "Close the panel", title: "Close (Esc)", on: { click: () => this.context.select(null) } }, icon("close"));
    const head = h("div", { class: "panel-head" }, h("div", { class: "panel-names" }, this.title, this.name), close);
    this.top = h("div", { class: "panel-top" }, head, h("div", { class: "panel-status" }, this.status, this.reason), this.answer, this.buttons, this.steps);
    replace(this.node, this.top, this.tabs, this.body);
  }

  /** Show the task of a place, if it names one. */
  show(route) {
    const opened = route.task && this.task === null;
    const other = route.task !== this.task;
    show(this.node, Boolean(route.task));
    document.documentElement.classList.toggle("panel-open", Boolean(route.task));
    if (!route.task) return this.#close();
    this.route = route;
    this.task = route.task;
    if (opened) this.opener = document.activeElement;
    if (other) {
      this.about = null;
      replace(this.answer);
      replace(this.buttons);
      replace(this.steps);
      this.answerFor = null;
    }
    this.#drawTop();
    this.#drawTabs();
    if (other) this.#load();
    else this.#drawBody();
    if (opened && !document.querySelector("main input:focus")) this.focus();
  }

  #close() {
    const wasOpen = this.task !== null;
    this.task = null;
    this.about = null;
    this.view?.end?.();
    this.view = null;
    this.viewKey = "";
    replace(this.body);
    if (wasOpen && this.opener?.isConnected) this.opener.focus();
  }

  focus() {
    if (this.task) this.title.focus();
  }

  openActions() {
    this.buttons.querySelector("[aria-haspopup]")?.click();
  }

  /** Take in what changed: the words at once, what the server must be asked for a little later. */
  update({ all, tasks, events }) {
    if (!this.task) return;
    this.#drawTop();
    const touched = all || tasks?.has(this.task) || events.some((event) => event.task === this.task);
    if (touched) this.again();
    this.view?.update?.({ all, tasks, events });
  }

  async #load() {
    const task = this.task;
    if (!task) return;
    this.loading?.end();
    this.loading = new Scope();
    if (!this.about) replace(this.body, loading());
    try {
      const about = await get(this.context.feed.path("tasks", task), this.loading.signal);
      if (task !== this.task) return;
      this.about = about;
      this.#drawActions();
      this.#drawSteps();
      this.#drawBody();
    } catch (error) {
      if (error.name !== "AbortError" && task === this.task) replace(this.body, errorBox(error, () => this.#load()));
    }
  }

  #drawTop() {
    const model = this.context.feed.shown;
    const task = model?.tasks.get(this.task);
    setText(this.title, model?.title(this.task) ?? this.task);
    setText(this.name, this.task);
    show(this.name, this.title.textContent !== this.task);
    if (!task) return setText(this.reason, "The run has no such task.");
    setBadge(this.status, taskLook(task, model.needs.get(this.task)));
    setText(this.reason, taskReason(task, model));
  }

  /** Draw the buttons, unless they are as they were: somebody may be typing an answer. */
  #drawActions() {
    const actions = this.context.feed.past ? [] : (this.about.actions ?? []);
    const text = JSON.stringify([actions, mayAct()]);
    if (this.answerFor === text) return;
    this.answerFor = text;
    const target = { ...this.context.target, words: this.context.feed.shown?.needs.get(this.task)?.words };
    const answer = mayAct() ? actions.find((one) => one.name === "answer") : null;
    const rest = actions.filter((one) => one !== answer);
    replace(this.answer, answer && answerForm(answer, target, "panel"));
    replace(this.buttons, actionRow(rest.slice(0, 2), target, { primary: !answer && this.#isStuck() }), rest.length ? actionMenu(() => rest, target, "Actions of the task") : null);
  }

  #isStuck() {
    return ["failed", "abandoned", "blocked"].includes(this.context.feed.shown?.tasks.get(this.task)?.status);
  }

  #drawSteps() {
    const attempts = this.about.history.attempts ?? [];
    const chosen = this.#attempt();
    const shown = attempts.slice(-6);
    const hidden = attempts.length - shown.length;
    const rows = shown.map((one) => {
      const words = `${one.attempt} ${one.outcome}${one.errors.length ? `: ${one.errors.at(-1).check ?? one.errors.at(-1).failure}` : ""}`;
      const place = link({ ...this.route, attempt: one.attempt, panel: this.route.panel });
      return h("li", {}, h("a", { class: "step", href: place, data: { tone: OUTCOMES[one.outcome] ?? "wait" }, "aria-current": one.attempt === chosen ? "step" : null, title: `${one.kind}, ${one.agent || "a command"}` }, words));
    });
    replace(this.steps, hidden ? h("li", { class: "muted" }, `${hidden} before`) : null, rows);
  }

  #attempt() {
    return this.route.attempt ?? this.about?.history.attempts?.at(-1)?.attempt ?? null;
  }

  #drawTabs() {
    for (const tab of this.tabs.children) {
      const panel = tab.dataset.panel;
      set(tab, "href", link({ ...this.route, panel }));
      markCurrent(tab, panel === this.route.panel);
    }
  }

  /** Draw the chosen tab. What is drawn already hears of news by itself, so that reading is not disturbed. */
  #drawBody() {
    if (!this.about) return;
    this.#drawSteps();
    const make = PANEL_VIEWS[this.route.panel];
    const about = { ...this.about, task: this.task, attempt: this.#attempt(), asked: this.route.attempt, path: (...names) => this.context.feed.path("tasks", this.task, ...names), context: this.context };
    const key = make.key(about, this.route.panel);
    if (key === this.viewKey) return this.view?.draw?.(about);
    this.view?.end?.();
    this.viewKey = key;
    this.view = make(about);
    set(this.body, "data-panel", this.route.panel);
    replace(this.body, this.view.node);
  }

  end() {
    this.loading?.end();
    this.view?.end?.();
    document.documentElement.classList.remove("panel-open");
  }
}

