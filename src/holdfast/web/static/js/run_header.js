// The header of a run: what it is for, where it stands and why, what it used, and the one thing to do next.
import { actionButton, actionMenu, mayAct } from "./actions.js";
import { commandLine, copy } from "./dialogs.js";
import { h, replace, set, setText, show } from "./dom.js";
import { ago, compact, duration, lasting, money, setAgo, withLocalTimes } from "./format.js";
import { icon } from "./icons.js";
import { badge, bar, countGroups, runLook, setBadge, setBar } from "./statuses.js";

const SMALL_SCREEN = ["Cost", "Left", "Sandbox"];

/** The header; `draw` brings it up to date. */
export class RunHeader {
  constructor(context) {
    this.context = context;
    this.model = null;
    this.goal = h("h1", { class: "run-title" }, context.target.run);
    this.status = badge(runLook("pending"), "large");
    this.since = ago(null, lasting);
    this.reason = h("span", { class: "run-reason" });
    this.branch = h("span", { class: "run-branch mono" });
    this.landed = h("span", { class: "run-landed" });
    this.progress = bar({}, 0);
    this.figures = h("dl", { class: "figures" });
    this.next = h("span", { class: "next" });
    this.menu = actionMenu(() => this.model?.actions ?? [], context.target, "Actions of the run");
    this.node = this.#build();
  }

  #build() {
    const line = h("div", { class: "run-line" }, this.status, this.goal, this.next, this.menu);
    const facts = h("div", { class: "run-facts" }, h("div", { class: "run-why" }, this.since, " ", this.reason), this.figures);
    const where = h("div", { class: "run-where" }, icon("branch"), this.branch, this.landed, h("span", { class: "run-bar" }, this.progress));
    return h("section", { class: "run-header", "aria-label": "The run" }, line, facts, where);
  }

  draw(model) {
    this.model = model;
    const { run, metrics } = model.status;
    setText(this.goal, run.goal || run.id);
    set(this.goal, "title", run.goal);
    setBadge(this.status, runLook(run.status));
    const { word } = runLook(run.status);
    setAgo(this.since, this.context.feed.past ? null : sinceOf(run), (at) => `${word} for ${lasting(at)}`);
    const why = withLocalTimes(run.detail);
    setText(this.reason, why ? `· ${why}` : "");
    set(this.reason, "title", why);
    setText(this.branch, run.target ? `${run.branch} → ${run.target}` : run.branch);
    set(this.branch, "title", `made from ${run.base.slice(0, 12)}`);
    replace(this.landed, h("b", {}, `${metrics.completed} of ${metrics.tasks}`), " landed", metrics.completed ? h("span", { class: "proved" }, icon("landed"), "proved by git") : null);
    setBar(this.progress, countGroups(model.status.tasks, model.needs), metrics.tasks);
    this.#drawFigures(model);
    this.#drawNext(model);
  }

  #drawFigures(model) {
    const { run, metrics, tasks } = model.status;
    const working = tasks.filter((task) => task.status === "running").length;
    const left = model.estimate?.left_s;
    const rows = [
      working ? ["Agents", `${working} at work`] : null,
      ["Cost", costWords(metrics)],
      ["Tokens", compact(metrics.tokens)],
      ["Elapsed", duration(metrics.elapsed_s)],
      left === null || left === undefined || !run.held_by ? null : ["Left", `about ${duration(left)}`],
      ["Sandbox", sandboxWords(run)],
    ].filter(Boolean);
    const text = JSON.stringify(rows);
    if (this.figures.dataset.shown === text) return;
    this.figures.dataset.shown = text;
    replace(this.figures, rows.map(([name, value]) => h("div", { class: SMALL_SCREEN.includes(name) ? "" : "wide-only" }, h("dt", {}, name), h("dd", {}, value))));
  }

  #drawNext(model) {
    const next = this.context.feed.past ? null : model.next;
    const text = JSON.stringify([next, mayAct()]);
    show(this.menu, !this.context.feed.past);
    if (this.shownNext === text) return;
    this.shownNext = text;
    const hadFocus = this.next.contains(document.activeElement);
    replace(this.next, next && this.#nextParts(next, model));
    if (hadFocus) this.next.querySelector("button")?.focus();
  }

  #nextParts(next, model) {
    const words = next.task ? model.needs.get(next.task)?.words : "";
    if (!mayAct()) return commandLine(next.command);
    const button = actionButton(next, { ...this.context.target, words }, { primary: true, named: true });
    const copier = h("button", { class: "icon-button wide-only", type: "button", "aria-label": `Copy the command: ${next.command}`, title: next.command }, icon("copy"));
    copier.addEventListener("click", () => copy(next.command));
    return [button, copier];
  }

  openActions() {
    this.menu.querySelector("button").click();
  }
}

/** Return since when a run is as it is: a live one since it began, another one since its last sign. */
function sinceOf(run) {
  if (run.status === "running") return run.started_at;
  return run.status === "interrupted" ? run.last_sign_at || run.updated_at : run.updated_at;
}

/** Return what was spent, with a `+` if some agents tell no cost; nothing is known if none does. */
function costWords({ cost_usd, spending }) {
  return money(cost_usd) + (cost_usd !== null && spending?.untold ? "+" : "");
}

function sandboxWords(run) {
  if (run.sandbox === "off") return "off";
  return run.network === "on" ? run.sandbox : `${run.sandbox}, network ${run.network}`;
}

