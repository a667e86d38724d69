// What the tabs of a task's panel show: now, the agent's stream, the diff, checks, the brief, and its history.
import { eventRow } from "./activity.js";
import { get, withQuery } from "./api.js";
import { emptyBox, errorBox, loading } from "./dialogs.js";
import { diffView } from "./diff.js";
import { Scope, h, keyed, replace, set } from "./dom.js";
import { ago, clock, compact, count, duration, money, seconds, shortCommit, withoutColours } from "./format.js";
import { icon } from "./icons.js";
import { logStream } from "./log_stream.js";

const EVENTS_SHOWN = 300;

/** Return a view that shows what it loads; it loads again when it is drawn again. */
function loaded(path, draw) {
  const scope = new Scope();
  const node = h("div", {}, loading());
  let inner = null;
  const load = async () => {
    try {
      const answer = await get(path, scope.signal);
      inner?.end?.();
      inner = draw(answer);
      replace(node, inner.node ?? inner);
    } catch (error) {
      if (error.name !== "AbortError") replace(node, errorBox(error, load));
    }
  };
  load();
  const end = () => {
    scope.end();
    inner?.end?.();
  };
  return { node, load, end };
}

/** What the task is at, what it used, and what it is to do. */
function nowView(about) {
  const node = h("div", { class: "now" });
  const draw = (now) => replace(node, lineage(now), nowFigures(now), lastError(now), now.history.summary ? h("section", {}, h("h3", {}, "What its agent says it did"), h("p", { class: "prose" }, now.history.summary)) : null, spec(now));
  draw(about);
  return { node, draw };
}
nowView.key = (about) => `now ${about.task}`;

/** Prompt, attempt, commit, merge: what led to what. */
function lineage(about) {
  const steps = about.lineage ?? [];
  if (!steps.length) return null;
  const rows = steps.map((step, index) => [index ? h("li", { class: "arrow", "aria-hidden": "true" }, icon("right")) : null, h("li", {}, h("span", {}, step.label), step.commit ? h("code", { title: step.commit }, shortCommit(step.commit)) : null)]);
  return h("ol", { class: "lineage", "aria-label": "What led to what" }, rows);
}

function nowFigures(about) {
  const { history, context } = about;
  const task = context.feed.shown.tasks.get(about.task) ?? {};
  const rows = [
    ["Agent", task.agent],
    ["Stage", history.stage],
    ["Attempts", `${history.attempts.length}${history.charged ? `, ${history.charged} of ${history.attempts_max} charged` : ""}`],
    ["Worked", duration(history.worked_s)],
    ["Tokens", task.tokens === null ? null : compact(task.tokens)],
    ["Cost", task.cost_usd === null ? null : money(task.cost_usd)],
    ["Progress", task.reported === null || task.reported === undefined ? null : `${Math.round(task.reported)} % by its own report`],
    ["Doing", task.activity],
    ["Liveness", task.liveness],
    ["Landed", history.merge_commit ? `${shortCommit(history.merge_commit)}, proved by git` : null],
    ["Needs", history.needs.join(", ")],
    ["Delivers", history.files.join(", ")],
  ];
  return h("dl", { class: "facts" }, rows.filter(([, value]) => value).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

function lastError(about) {
  const failed = about.history.attempts.findLast((one) => one.errors.length);
  const isOver = about.history.merge_commit || !failed;
  if (isOver) return null;
  const error = failed.errors.at(-1);
  return h("section", { class: "last-error" }, h("h3", {}, `Attempt ${failed.attempt} failed (${error.failure})`), h("p", { class: "prose" }, error.error), error.detail ? scrollBox(error.detail, "Output") : null);
}

function spec(about) {
  const { spec: wanted } = about;
  const words = wanted.prompt || (wanted.run?.length ? wanted.run.join(" ") : "");
  return h("section", {}, h("h3", {}, wanted.prompt ? "What it was asked for" : "Its command"), h("p", { class: "prose" }, words || "–"), wanted.verify?.length ? [h("h3", {}, "Checked by"), h("ul", { class: "plain-list" }, wanted.verify.map((command) => h("li", {}, h("code", {}, command))))] : null);
}

const scrollBox = (text, label) => h("pre", { class: "output", tabindex: "0", role: "region", "aria-label": label }, withoutColours(text));

function streamView(about) {
  if (!about.attempt) return { node: emptyBox("No agent has started on it yet.") };
  return logStream(about.path("log"), about.attempt);
}
streamView.key = (about) => `stream ${about.task} ${about.attempt}`;

/** The diff of an attempt, against the base or against the attempt before. */
function diffPanel(about) {
  if (!about.history.attempts.length) return { node: emptyBox("There is no work yet.") };
  let against = "base";
  let view = null;
  const node = h("div", { class: "diff-panel" });
  const place = h("div", {});
  const from = h("p", { class: "muted diff-from" });
  const load = () => {
    view?.end();
    view = loaded(withQuery(about.path("diff"), { attempt: about.asked, against }), (diff) => {
      replace(from, diff.commit ? [diff.work, ": ", h("code", {}, shortCommit(diff.base)), " … ", h("code", {}, shortCommit(diff.commit))] : null);
      return diffView(diff);
    });
    replace(place, view.node);
  };
  const chips = h("div", { class: "chips", role: "group", "aria-label": "Compared with" });
  const choose = (value) => {
    against = value;
    for (const chip of chips.children) set(chip, "aria-pressed", String(chip.dataset.against === value));
    load();
  };
  replace(chips, [["base", "Against the base"], ["previous", "Against the attempt before"]].map(([value, words]) => h("button", { class: "chip", type: "button", "aria-pressed": String(value === against), data: { against: value }, on: { click: () => choose(value) } }, words)));
  replace(node, chips, from, place);
  load();
  return { node, end: () => view.end() };
}
diffPanel.key = (about) => `diff ${about.task} ${about.asked} ${about.history.attempts.map((one) => `${one.commit} ${one.outcome}`).at(-1)} ${about.history.merge_commit}`;

function checksView(about) {
  return loaded(withQuery(about.path("checks"), { attempt: about.asked }), (answer) => {
    if (!answer.checks.length && !answer.validators.length) return emptyBox("No checks.", h("p", { class: "muted" }, "The plan names none for this task, or none has run yet."));
    return h("div", {}, answer.checks.map(checkRow), answer.validators.length ? h("h3", {}, "Validators") : null, answer.validators.map(validatorRow));
  });
}
checksView.key = (about) => `checks ${about.task} ${about.asked} ${about.history.status} ${about.history.attempts.length}`;

function checkRow(check) {
  const look = check.passed === null ? ["wait", "wait", "not run to its end"] : check.passed ? ["landed", "landed", "passed"] : ["failed", "failed", "failed"];
  const mark = h("span", { class: "badge", data: { tone: look[1] } }, icon(look[0]), h("span", {}, look[2]));
  const output = check.output ? h("details", { open: check.passed === false }, h("summary", {}, count(check.output.split("\n").length, "line")), scrollBox(check.output, `Output of ${check.command}`)) : null;
  return h("section", { class: "check" }, h("div", { class: "check-head" }, mark, h("code", {}, check.command)), output);
}

function validatorRow(one) {
  const score = h("meter", { min: "0", max: "1", value: String(one.score ?? 0), "aria-label": `Score of ${one.name}` });
  return h("section", { class: "check" }, h("div", { class: "check-head" }, h("strong", {}, one.name), score, h("span", {}, one.score === null ? "no score" : Number(one.score).toFixed(2))), one.words ? h("p", { class: "prose" }, one.words) : null);
}

function briefView(about) {
  return loaded(withQuery(about.path("brief"), { attempt: about.asked }), (answer) => h("pre", { class: "brief", tabindex: "0", role: "region", "aria-label": "The brief" }, answer.text));
}
briefView.key = (about) => `brief ${about.task} ${about.asked} ${about.history.attempts.length}`;

/** Attempts with their errors and questions, then the events. */
function historyView(about) {
  const scope = new Scope();
  const attempts = h("div", {});
  const list = h("ol", { class: "events", "aria-label": "Events of the task, newest first" });
  const node = h("div", { class: "history" }, h("h3", {}, "Attempts"), attempts, h("h3", {}, "Events"), list);
  const load = async (now) => {
    replace(attempts, now.history.attempts.map(attemptRow), now.history.questions.map(questionRow));
    try {
      const answer = await get(withQuery(now.context.feed.path("events"), { task: now.task, limit: EVENTS_SHOWN }), scope.signal);
      const told = answer.events.filter((event) => event.sentence).slice(-EVENTS_SHOWN).reverse();
      keyed(list, told, (event) => event.seq, (event) => eventRow(event, now.context, { linked: false }));
    } catch (error) {
      if (error.name !== "AbortError") replace(list, h("li", {}, errorBox(error)));
    }
  };
  load(about);
  return { node, draw: load, end: () => scope.end() };
}
historyView.key = (about) => `history ${about.task}`;

function attemptRow(one) {
  const times = [ago(one.started_at, clock), one.ended_at ? ` · ${duration(seconds(one.ended_at) - seconds(one.started_at))}` : " · under way"];
  const used = [one.agent, one.tokens ? `${compact(one.tokens)} tokens` : "", one.cost_usd ? money(one.cost_usd) : "", one.commit ? `commit ${shortCommit(one.commit)}` : ""].filter(Boolean);
  const errors = one.errors.map((error) => h("div", { class: "attempt-error" }, h("strong", {}, error.failure), ` ${error.error}`, error.detail ? h("details", {}, h("summary", {}, "output"), scrollBox(error.detail, "Output")) : null));
  return h("section", { class: "attempt" }, h("p", {}, h("strong", {}, `${one.attempt} · ${one.kind}: ${one.outcome}`), " ", h("span", { class: "muted" }, times)), h("p", { class: "muted" }, used.join(" · ")), errors);
}

function questionRow(one) {
  return h("section", { class: "attempt" }, h("p", {}, h("strong", {}, `Attempt ${one.attempt} asked: `), one.question), h("p", { class: "muted" }, one.answer ? `Answer: ${one.answer}` : "No answer yet."));
}

/** The views by the name of their tab. Each has a `key` that says when it is another one. */
export const PANEL_VIEWS = { now: nowView, stream: streamView, diff: diffPanel, checks: checksView, brief: briefView, history: historyView };
