// What a status looks like: a word, an icon and a tone, always all three. Colour stands for status and for nothing else.
import { h, set, setText, show } from "./dom.js";
import { ordinal, shortClock } from "./format.js";
import { icon, setIcon } from "./icons.js";

const TASKS = {
  pending: { word: "waiting", icon: "wait", tone: "wait" },
  running: { word: "at work", icon: "work", tone: "work" },
  waiting_limit: { word: "waits for provider", icon: "limit", tone: "wait" },
  verifying: { word: "checking", icon: "check", tone: "check" },
  verified: { word: "ready to merge", icon: "merge", tone: "check" },
  merging: { word: "merging", icon: "merge", tone: "check" },
  completed: { word: "landed", icon: "landed", tone: "landed" },
  skipped: { word: "skipped", icon: "skipped", tone: "wait" },
  failed: { word: "failed", icon: "failed", tone: "failed" },
  abandoned: { word: "gave up", icon: "failed", tone: "failed" },
  blocked: { word: "blocked", icon: "blocked", tone: "wait" },
};

const RUNS = {
  pending: { word: "not started", icon: "wait", tone: "wait" },
  running: { word: "running", icon: "work", tone: "work" },
  paused: { word: "paused", icon: "paused", tone: "person" },
  interrupted: { word: "interrupted", icon: "interrupted", tone: "failed" },
  blocked: { word: "blocked", icon: "person", tone: "person" },
  completed: { word: "completed", icon: "landed", tone: "landed" },
  stopped: { word: "stopped", icon: "stopped", tone: "person" },
  abandoned: { word: "abandoned", icon: "blocked", tone: "wait" },
};

const STAGES = {
  pending: { word: "waiting", icon: "wait", tone: "wait" },
  opening: { word: "entry check", icon: "check", tone: "check" },
  running: { word: "open", icon: "work", tone: "work" },
  closing: { word: "exit check", icon: "check", tone: "check" },
  completed: { word: "done", icon: "landed", tone: "landed" },
  blocked: { word: "gate failed", icon: "person", tone: "person" },
};

const UNKNOWN = { word: "unknown", icon: "question", tone: "wait" };

/** The groups that bars, boards and folded stages count tasks in, in the order of a task's life from its end. */
export const GROUPS = [
  { id: "landed", word: "landed", icon: "landed" },
  { id: "check", word: "checking", icon: "check" },
  { id: "work", word: "at work", icon: "work" },
  { id: "person", word: "needs you", icon: "person" },
  { id: "failed", word: "failed", icon: "failed" },
  { id: "wait", word: "waiting", icon: "wait" },
];

/** Return the look of a task; `need` is what it needs from a person, if anything. */
export function taskLook(task, need) {
  if (need) return need.question ? { word: "asks you", icon: "question", tone: "person" } : { word: "with you", icon: "person", tone: "person" };
  const look = TASKS[task.status] ?? { ...UNKNOWN, word: task.status };
  if (task.status !== "running" || !task.liveness || task.liveness === "working") return look;
  const silent = task.liveness === "slow" || task.liveness === "finished";
  return { ...look, word: task.liveness, icon: silent ? look.icon : "warning", tone: silent ? "work" : "person" };
}

/** Return the look of a run. */
export const runLook = (status) => RUNS[status] ?? { ...UNKNOWN, word: status };

/** Return the look of a stage. */
export const stageLook = (status) => STAGES[status] ?? { ...UNKNOWN, word: status };

/** Return the group that a task is counted in. */
export function groupOf(task, need) {
  if (need) return "person";
  if (task.status === "skipped") return "landed";
  return (TASKS[task.status] ?? UNKNOWN).tone;
}

/** Return what a task waits for or does, in a few words; empty if its status says it all. */
export function taskReason(task, model) {
  const need = model.needs.get(task.id);
  if (need) return need.question ?? need.words;
  if (task.waiting_for) return `waits for ${task.waiting_for}`;
  if (task.waiting_until) return `provider until ${shortClock(task.waiting_until)}`;
  if (task.obstacle) return `says it is blocked: ${task.obstacle}`;
  if (task.activity) return task.activity;
  if (task.status === "verified") return queueWords(task, model);
  if (task.status === "pending" || task.status === "blocked") return task.error ?? missingNeeds(task, model);
  if (task.status === "completed") return "";
  return task.error ?? "";
}

function queueWords(task, model) {
  const waiting = model.status.merge_queue.filter((place) => place.status !== "merged");
  const place = waiting.findIndex((one) => one.task === task.id);
  return place < 0 ? "waits for its merge" : `${ordinal(place + 1)} in the merge queue`;
}

function missingNeeds(task, model) {
  const open = (model.plan?.needs.get(task.id) ?? []).filter((name) => !isSettled(model.tasks.get(name)));
  if (open.length) return open.length > 3 ? `needs ${open.slice(0, 2).join(", ")} and ${open.length - 2} more` : `needs ${open.join(", ")}`;
  if (!model.status.run.held_by) return "waits until the run goes on";
  const stage = model.stages.get(task.stage);
  return stage?.status === "pending" ? "its stage has not begun" : "waits for a free agent";
}

const isSettled = (task) => task === undefined || task.status === "completed" || task.status === "skipped";

/** Return a label with icon and word; `setBadge` changes it. */
export function badge(look, extra = "") {
  const node = h("span", { class: `badge ${extra}` }, icon(look.icon), h("span", { class: "badge-word" }));
  setBadge(node, look);
  return node;
}

/** Let a label show another status. */
export function setBadge(node, look) {
  set(node, "data-tone", look.tone);
  setIcon(node.firstChild, look.icon);
  setText(node.lastChild, look.word);
}

/** Return how many tasks are in each group. */
export function countGroups(tasks, needs) {
  const counts = {};
  for (const task of tasks) {
    const group = groupOf(task, needs.get(task.id));
    counts[group] = (counts[group] ?? 0) + 1;
  }
  return counts;
}

/** Return a bar of all groups with its words; `setBar` changes it. */
export function bar(counts, total) {
  const node = h("div", { class: "bar", role: "img" }, GROUPS.map((group) => h("span", { data: { tone: group.id } })));
  setBar(node, counts, total);
  return node;
}

/** Let a bar show other counts. */
export function setBar(node, counts, total) {
  GROUPS.forEach((group, index) => {
    const number = total ? (counts[group.id] ?? 0) : 0;
    show(node.children[index], number > 0).style.flexBasis = total ? `${(100 * number) / total}%` : "0";
  });
  const words = GROUPS.filter((group) => counts[group.id]).map((group) => `${counts[group.id]} ${group.word}`);
  const label = words.join(", ") || "no tasks";
  set(node, "aria-label", label);
  set(node, "title", label);
}
