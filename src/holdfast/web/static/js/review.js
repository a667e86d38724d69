// The whole result of a run: what it changed, task by task, and the buttons that land or discard it.
import { actionRow } from "./actions.js";
import { get } from "./api.js";
import { errorBox, loading } from "./dialogs.js";
import { diffView } from "./diff.js";
import { Scope, h, replace, set } from "./dom.js";
import { count, shortCommit } from "./format.js";
import { icon } from "./icons.js";
import { badge, taskLook } from "./statuses.js";

const WORK = { landed: "landed, proved by git", adopted: "adopted", finished: "finished, not landed", unfinished: "unfinished", none: "no work" };

/** Show the review in an element. */
export function mountReview(root, context) {
  const view = new ReviewView(root, context);
  return { update: () => view.update(), end: () => view.end() };
}

class ReviewView {
  constructor(root, context) {
    this.root = root;
    this.context = context;
    this.scope = new Scope();
    this.buttons = h("div", { class: "button-row" });
    replace(root, loading("Comparing the run branch with its base…"));
  }

  update() {
    const { status, actions } = this.context.feed.shown;
    const wanted = actions.filter((one) => one.name === "land" || one.name === "discard");
    const text = JSON.stringify(wanted);
    if (this.shownButtons !== text) replace(this.buttons, actionRow(wanted, this.context.target));
    this.shownButtons = text;
    const place = `${status.run.landed_in} ${status.run.archived_at}`;
    if (this.place !== place) this.#load();
    else if (this.landed !== status.metrics.completed) this.#offer();
    this.place = place;
    this.landed = status.metrics.completed;
  }

  /** Say that there is more to see, and leave what somebody reads as it is. */
  #offer() {
    if (!this.news || this.news.childElementCount) return;
    replace(this.news, h("p", { class: "notice-line" }, "The run has moved on since. ", h("button", { class: "button small", type: "button", on: { click: () => this.#load() } }, "Show the newest")));
  }

  async #load() {
    try {
      const [review, diff] = await Promise.all([get(this.context.feed.path("review"), this.scope.signal), get(this.context.feed.path("diff"), this.scope.signal)]);
      this.diff?.end();
      this.diff = diffView(diff);
      this.news = h("div", {});
      replace(this.root, h("div", { class: "page" }, this.news, this.#head(review), taskTable(review, this.context), this.diff.node));
    } catch (error) {
      if (error.name !== "AbortError") replace(this.root, h("div", { class: "page" }, errorBox(error, () => this.#load())));
    }
  }

  #head(review) {
    const sizes = h("span", {}, `${count(review.files.length, "file")}, `, h("span", { class: "plus" }, `+${review.insertions}`), " ", h("span", { class: "minus" }, `−${review.deletions}`));
    const where = h("p", { class: "review-where" }, icon("branch"), h("code", {}, review.branch), " against ", h("code", {}, shortCommit(review.base)), " · ", sizes);
    const landed = review.landed_in.length ? h("p", { class: "proved" }, icon("landed"), `Its result is in ${review.landed_in.join(", ")}, proved by git.`) : null;
    const notes = review.notes.length ? h("ul", { class: "plain-list" }, review.notes.map((note) => h("li", {}, note))) : null;
    return h("section", { class: "review-head", "aria-label": "The result" }, where, landed, notes, this.buttons);
  }

  end() {
    this.scope.end();
    this.diff?.end();
  }
}

function taskTable(review, context) {
  const head = h("tr", {}, ["Task", "Status", "Work", "Checks"].map((word) => h("th", { scope: "col" }, word)), h("th", { scope: "col", class: "number" }, "Lines"));
  const rows = review.tasks.map((task) => taskRow(task, context));
  const table = h("table", { class: "table" }, h("caption", { class: "visually-hidden" }, "Tasks and their work"), h("thead", {}, head), h("tbody", {}, rows));
  return h("details", { class: "review-tasks", open: review.tasks.length <= 30 }, h("summary", {}, count(review.tasks.length, "task")), h("div", { class: "table-box" }, table));
}

function taskRow(task, context) {
  const name = h("a", {}, task.title || task.task);
  set(name, "href", context.link(task.task));
  const checks = task.checks.map((check) => h("li", {}, check.passed === null ? "not run: " : check.passed ? "passed: " : "failed: ", h("code", {}, check.command)));
  const plus = task.files.reduce((sum, file) => sum + (file.insertions ?? 0), 0);
  const minus = task.files.reduce((sum, file) => sum + (file.deletions ?? 0), 0);
  const lines = task.files.length ? [h("span", { class: "plus" }, `+${plus}`), " ", h("span", { class: "minus" }, `−${minus}`)] : "–";
  const commit = task.commit ? [" ", h("code", {}, shortCommit(task.commit))] : null;
  return h("tr", { data: { item: "" } }, h("td", {}, name), h("td", {}, badge(taskLook(task, context.feed.shown.needs.get(task.task)))), h("td", {}, WORK[task.work] ?? task.work, commit), h("td", {}, checks.length ? h("ul", { class: "plain-list" }, checks) : "–"), h("td", { class: "number" }, lines));
}
