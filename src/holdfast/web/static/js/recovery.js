// What an interrupted or resting run would do if it went on: what is safe in git, what is redone, and the four choices.
import { actionButton, mayAct } from "./actions.js";
import { get } from "./api.js";
import { commandLine, errorBox, loading } from "./dialogs.js";
import { Scope, debounced, h, replace } from "./dom.js";
import { ago, count, duration, shortCommit, withLocalTimes } from "./format.js";
import { go } from "./router.js";
import { badge, runLook, taskLook } from "./statuses.js";

const RELOAD_MS = 1500;
const ACTION_OF = { r: "resume", f: "resume_failed", a: "abandon" };

/** Show the recovery report in an element. */
export function mountRecovery(root, context) {
  const scope = new Scope();
  let shown = null;
  const load = async () => {
    if (scope.signal.aborted) return;
    try {
      const view = await get(context.feed.path("recovery"), scope.signal);
      replace(root, h("div", { class: "page" }, report(view, context)));
    } catch (error) {
      if (error.name !== "AbortError") replace(root, h("div", { class: "page" }, errorBox(error, load)));
    }
  };
  const again = debounced(RELOAD_MS, load);
  const update = ({ events }) => {
    const { run } = context.feed.shown.status;
    if (shown === `${run.status} ${run.held_by}`) return events.length && again();
    if (shown === null) replace(root, loading("Looking at git, the workspaces and the processes…"));
    shown = `${run.status} ${run.held_by}`;
    load();
  };
  return { update, end: () => scope.end() };
}

function report(view, context) {
  const landed = view.report.tasks.filter((task) => task.landed).length;
  return [
    h("section", { class: "recovery-head" }, badge(runLook(view.run.status), "large"), h("p", {}, `${landed} of ${count(view.report.tasks.length, "task")} landed, proved by git. `, view.run.last_sign_at ? ["Last sign of life ", ago(view.run.last_sign_at), "."] : null), view.run.detail ? h("p", { class: "muted" }, withLocalTimes(view.run.detail)) : null),
    view.does.length ? h("ul", { class: "plain-list" }, view.does.map((line) => h("li", {}, line))) : null,
    h("ul", { class: "choices", role: "list" }, view.choices.map((choice) => choiceCard(choice, context))),
    h("p", { class: "estimate" }, estimateWords(view.report)),
    taskTable(view.report.tasks, context),
  ];
}

function choiceCard(choice, context) {
  const title = choice.does.split(/[:;]/)[0];
  const name = ACTION_OF[choice.key];
  const action = context.feed.live?.actions.find((one) => one.name === name);
  const inspect = h("button", { class: "button", type: "button", on: { click: () => go({ ...context.route(), tab: "activity" }) } }, "Look closer");
  const button = choice.key === "i" ? inspect : action && mayAct() ? actionButton(action, context.target, { primary: choice.key === "r" }) : h("p", { class: "muted" }, "not possible now");
  const rest = choice.does.slice(title.length + 1).trim();
  return h("li", { class: "choice" }, h("h2", {}, title[0].toUpperCase() + title.slice(1)), rest ? h("p", { class: "muted" }, rest) : null, h("div", { class: "choice-foot" }, button, commandLine(choice.command)));
}

function estimateWords(report) {
  const redo = report.redo_s ? `At most ${duration(report.redo_s)} of work is done again.` : "No work is done again.";
  const finish = report.finish_s === null ? "How long the rest takes is unknown: nothing was measured yet." : `The rest takes about ${duration(report.finish_s)}, by ${count(report.measured, "task")} measured.`;
  const undecided = report.undecided ? ` Not counted, since they wait for your decision: ${count(report.undecided, "task")}.` : "";
  return `${redo} ${finish}${undecided}`;
}

function taskTable(tasks, context) {
  const head = h("tr", {}, ["Task", "Status", "Safe in git", "Unsaved", "Redo", "Resuming would"].map((word) => h("th", { scope: "col" }, word)));
  const rows = tasks.map((task) => taskRow(task, context));
  const table = h("table", { class: "table" }, h("caption", { class: "visually-hidden" }, "What resuming does to each task"), h("thead", {}, head), h("tbody", {}, rows));
  return h("div", { class: "table-box" }, table);
}

function taskRow(task, context) {
  const need = task.question ? { question: task.question } : null;
  const cells = [
    h("td", {}, h("a", { href: context.link(task.id), title: task.id }, context.feed.shown.title(task.id))),
    h("td", {}, badge(taskLook(task, need)), task.progress === null || task.landed ? null : h("span", { class: "muted" }, ` ${Math.round(task.progress)} %`)),
    h("td", {}, safeWords(task)),
    h("td", { class: "number" }, task.unsaved ? count(task.unsaved, "file") : "–"),
    h("td", { class: "number" }, task.redo_s ? duration(task.redo_s) : "–"),
    h("td", {}, h("strong", {}, task.move), task.why ? `: ${task.why}` : ""),
  ];
  return h("tr", { data: { item: "" } }, cells);
}

function safeWords(task) {
  for (const [word, commit] of [["landed", task.landed], ["set aside", task.set_aside], ["snapshot", task.snapshot], ["commit", task.committed]]) {
    if (commit) return [word, " ", h("code", {}, shortCommit(commit))];
  }
  return "–";
}

