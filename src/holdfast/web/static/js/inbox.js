// One thing that waits for a person: its question in one line, since when, and its buttons.
import { actionMenu, actionRow, answerForm, mayAct } from "./actions.js";
import { commandLine } from "./dialogs.js";
import { h, replace, setText } from "./dom.js";
import { ago, lasting, withLocalTimes } from "./format.js";
import { icon } from "./icons.js";
import { link } from "./router.js";

const KINDS = {
  question: { word: "Question", icon: "question", tone: "person" },
  taken: { word: "With you", icon: "person", tone: "person" },
  interrupted: { word: "Interrupted", icon: "interrupted", tone: "failed" },
  blocked: { word: "Blocked", icon: "blocked", tone: "person" },
  gate: { word: "Gate failed", icon: "shield", tone: "person" },
  budget: { word: "Budget used up", icon: "limit", tone: "person" },
  failed: { word: "Failed", icon: "failed", tone: "failed" },
  land: { word: "Ready to land", icon: "rocket", tone: "landed" },
};
const BUTTONS = { land: ["land", "review"], failed: ["retry", "skip"], interrupted: ["resume", "resume_failed"], gate: ["accept_gate", "resume"] };
const BUTTONS_SHOWN = 2;

/** Return the card of an item. Its form stays as it is while somebody types: only the words follow changes. */
export function inboxCard(item) {
  const look = KINDS[item.kind] ?? KINDS.blocked;
  const words = h("p", { class: "inbox-words" }, withLocalTimes(item.words));
  const node = h("li", { class: "inbox-card", data: { tone: look.tone } });
  replace(
    node,
    h("div", { class: "inbox-head" }, kindBadge(look), source(item), ago(item.since, lasting)),
    words,
    h("div", { class: "inbox-actions" }, buttons(item)),
  );
  return { node, update: (now) => setText(words, withLocalTimes(now.words)) };
}

function kindBadge(look) {
  return h("span", { class: "badge", data: { tone: look.tone } }, icon(look.icon), h("span", { class: "badge-word" }, look.word));
}

function source(item) {
  const place = { name: "run", repository: item.repository, run: item.run };
  const run = h("a", { class: "inbox-run", href: link(place), title: item.goal }, item.goal || item.run);
  if (!item.task) return h("span", { class: "inbox-source" }, run);
  const task = h("a", { class: "mono", href: link({ ...place, task: item.task }) }, item.task);
  return h("span", { class: "inbox-source" }, task, h("span", { class: "muted" }, " in "), run);
}

function buttons(item) {
  const target = { repository: item.repository, run: item.run, words: item.words };
  const answer = item.kind === "question" ? item.actions.find((one) => one.name === "answer") : null;
  if (!mayAct()) return item.actions.slice(0, 1).map((one) => commandLine(one.command));
  const listed = (BUTTONS[item.kind] ?? []).map((name) => item.actions.find((one) => one.name === name)).filter(Boolean);
  const others = item.actions.filter((one) => one !== answer && !listed.includes(one));
  if (answer) return [answerForm(answer, target), otherActions(others, target)];
  const shown = [...listed, ...others].slice(0, Math.max(listed.length, BUTTONS_SHOWN));
  return [actionRow(shown, target), otherActions(item.actions.filter((one) => !shown.includes(one)), target)];
}

const otherActions = (actions, target) => (actions.length ? actionMenu(() => actions, target, "More actions") : null);
