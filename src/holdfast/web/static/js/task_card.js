// A task as a compact card, for the graph and the board: title, status in word and icon, and what it waits for or does.
import { h, set, setText, show } from "./dom.js";
import { compact, money, shortCommit } from "./format.js";
import { icon, setIcon } from "./icons.js";
import { taskLook, taskReason } from "./statuses.js";

/** Return the card of a task: `{node, draw(task, model)}`. `detailed` adds what it used. */
export function taskCard(name, href, { detailed = false } = {}) {
  const title = h("span", { class: "card-title" });
  const tries = h("span", { class: "card-tries", hidden: true });
  const mark = icon("wait");
  const word = h("span", { class: "card-word" });
  const reason = h("span", { class: "card-reason" });
  const progress = h("span", { class: "card-progress", hidden: true });
  const used = detailed ? h("span", { class: "card-used" }) : null;
  const node = h("a", { class: "card", href, data: { task: name, item: "" } }, h("span", { class: "card-head" }, title, tries), h("span", { class: "card-line" }, mark, word, reason), used, progress);
  const parts = { node, title, tries, mark, word, reason, progress, used };
  return { node, draw: (task, model) => drawCard(parts, task, model) };
}

function drawCard(parts, task, model) {
  const look = taskLook(task, model.needs.get(task.id));
  const why = reasonOf(task, model);
  setText(parts.title, model.title(task.id));
  set(parts.node, "data-tone", look.tone);
  set(parts.node, "title", [task.id, model.title(task.id) === task.id ? "" : model.title(task.id), why].filter(Boolean).join("\n"));
  setIcon(parts.mark, look.icon);
  setText(parts.word, look.word);
  setText(parts.reason, why);
  setText(show(parts.tries, task.attempts > 1), `try ${task.attempts}`);
  const reported = task.status === "running" ? task.reported : null;
  show(parts.progress, reported !== null && reported !== undefined);
  if (reported) parts.progress.style.width = `${Math.min(100, reported)}%`;
  if (parts.used) setText(parts.used, usedWords(task));
}

function reasonOf(task, model) {
  return task.status === "completed" && task.merge_commit ? shortCommit(task.merge_commit) : taskReason(task, model);
}

function usedWords(task) {
  const spent = [task.agent, task.tokens ? `${compact(task.tokens)} tokens` : "", task.cost_usd ? money(task.cost_usd) : ""];
  return spent.filter(Boolean).join(" · ");
}
