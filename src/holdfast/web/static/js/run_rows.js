// One run as a row of the home page: what it is for, how far it is, what it costs, what happened last.
import { h, replace, setText } from "./dom.js";
import { ago, compact, count, duration, money, setAgo } from "./format.js";
import { link } from "./router.js";
import { badge, bar, runLook, setBadge, setBar } from "./statuses.js";

/** Return the row of a run. */
export function runRow(line) {
  const goal = h("a", { class: "run-goal", href: link({ name: "run", repository: line.repository.id, run: line.id }) });
  const view = {
    line,
    goal,
    state: badge(runLook(line.status)),
    name: h("span", { class: "run-name muted mono" }),
    progress: bar({}, 0),
    landed: h("span", { class: "run-landed" }),
    figures: h("span", { class: "run-figures muted" }),
    last: h("span", { class: "run-last muted" }),
    updated: ago(line.updated_at),
  };
  const node = h(
    "li",
    { class: "run-row", data: { item: "" } },
    h("div", { class: "run-row-head" }, view.state, goal, view.name),
    h("div", { class: "run-row-progress" }, view.progress, view.landed),
    h("div", { class: "run-row-foot" }, view.figures, view.last, view.updated),
  );
  drawRow(view, line);
  return { node, update: (now) => drawRow(view, now) };
}

function drawRow(view, line) {
  setText(view.goal, line.goal || line.id);
  setBadge(view.state, runLook(line.status));
  setText(view.name, line.several ? `${line.repository.name} / ${line.id}` : line.id);
  setBar(view.progress, groupCounts(line), line.tasks);
  setText(view.landed, `${line.completed} of ${line.tasks} landed`);
  setText(view.figures, figures(line).join(" · "));
  replace(view.last, lastWords(line));
  setAgo(view.updated, line.updated_at);
}

const GROUP_OF = {
  running: "work",
  waiting_limit: "wait",
  verifying: "check",
  verified: "check",
  merging: "check",
  failed: "failed",
  abandoned: "failed",
};

/** Return how many tasks are in each group, from how many are in which status. What needs a person was waiting before. */
function groupCounts(line) {
  const groups = { landed: line.completed, person: line.needs_you.length, wait: -line.needs_you.length };
  for (const [status, number] of Object.entries(line.counts)) {
    if (status === "completed") continue;
    const group = status === "skipped" ? "landed" : (GROUP_OF[status] ?? "wait");
    groups[group] = (groups[group] ?? 0) + number;
  }
  return { ...groups, wait: Math.max(0, groups.wait) };
}

function figures(line) {
  const spent = line.spending ?? {};
  return [
    line.counts.running && line.status === "running" ? `${count(line.counts.running, "agent")} at work` : "",
    spent.cost_usd === null || spent.cost_usd === undefined ? "" : money(spent.cost_usd),
    spent.tokens ? `${compact(spent.tokens)} tokens` : "",
    line.left_s ? `about ${duration(line.left_s)} left` : "",
  ].filter(Boolean);
}

function lastWords(line) {
  if (line.last_event) return line.last_event;
  if (line.landed_in.length) return `in ${line.landed_in[0]}, proved by git`;
  if (line.discarded) return "discarded; its result is archived";
  const waited = line.providers.find((one) => one.next_try || one.reason === "refused");
  if (waited) return waited.words;
  const [need] = line.needs_you;
  if (need) return `${need.task} ${need.question ? `asks: ${need.question}` : need.words}`;
  return line.stage ? `stage ${line.stage}` : "";
}
