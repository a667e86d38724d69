// A new run: choose a plan file, see what it would do, then start it.
import { mayAct } from "./actions.js";
import { address, get, post } from "./api.js";
import { commandLine, emptyBox, errorBox, loading, say } from "./dialogs.js";
import { Scope, h, replace, set } from "./dom.js";
import { count, duration, money } from "./format.js";
import { icon } from "./icons.js";
import { go, link } from "./router.js";

/** Show the page in an element. */
export function mountNewRun(root, app, route) {
  const page = new NewRunPage(root, app, route);
  return { show: (next) => page.show(next), end: () => page.scope.end() };
}

class NewRunPage {
  constructor(root, app, route) {
    this.scope = new Scope();
    this.route = route;
    this.plans = h("div", {}, loading("Looking for plans…"));
    this.preview = h("div", { class: "preview", "aria-live": "polite" });
    const title = h("h1", { tabindex: "-1" }, "New run");
    replace(root, h("div", { class: "page new-run" }, title, h("p", { class: "muted" }, "Choose a plan. What it would do is shown before anything starts."), this.plans, this.preview));
    app.setCrumbs([{ words: route.repository, href: "/" }, { words: "new run" }]);
    document.title = "New run · Holdfast";
    this.#load();
  }

  #path(...names) {
    return address("repositories", this.route.repository, ...names);
  }

  async #load() {
    try {
      const answer = await get(this.#path("plans"), this.scope.signal);
      this.#drawPlans(answer.plans);
      this.show(this.route);
    } catch (error) {
      if (error.name !== "AbortError") replace(this.plans, errorBox(error, () => this.#load()));
    }
  }

  #drawPlans(plans) {
    this.names = plans.map((plan) => (typeof plan === "string" ? plan : plan.path));
    if (!this.names.length) return replace(this.plans, emptyBox("There is no plan file in this checkout.", h("p", { class: "muted" }, "Write one, or let an agent write it:"), commandLine('holdfast plan "what you want"')));
    const rows = this.names.map((path) => h("li", {}, h("a", { class: "plan-row", href: link({ name: "new", repository: this.route.repository, plan: path }), data: { plan: path, item: "" } }, icon("file"), h("span", { class: "mono" }, path))));
    replace(this.plans, h("ul", { class: "plan-list", role: "list" }, rows));
  }

  show(route) {
    this.route = route;
    for (const row of this.plans.querySelectorAll("[data-plan]")) set(row, "aria-current", row.dataset.plan === route.plan ? "true" : null);
    if (route.plan && this.names?.includes(route.plan)) this.#preview(route.plan);
    else replace(this.preview);
  }

  async #preview(path) {
    replace(this.preview, loading("Reading the plan…"));
    try {
      const plan = await post(this.#path("plans", "preview"), { path });
      if (path === this.route.plan) replace(this.preview, this.#planParts(plan, path));
    } catch (error) {
      replace(this.preview, errorBox(error, () => this.#preview(path)));
    }
  }

  #planParts(plan, path) {
    const execution = plan.execution ?? { waves: [], executes: [], estimate: null };
    const tasks = plan.stages.reduce((sum, stage) => sum + stage.tasks.length, 0);
    const jobs = plan.limits?.jobs;
    return [
      h("h2", {}, plan.goal || path),
      h("p", { class: "muted" }, [count(plan.stages.length, "stage"), count(tasks, "task"), jobs ? `${count(jobs, "agent")} at a time` : "", estimateWords(execution.estimate)].filter(Boolean).join(" · ")),
      this.#startForm(path),
      h("ol", { class: "waves" }, plan.stages.map(stageView)),
      execution.executes.length ? h("details", { class: "executes" }, h("summary", {}, `Everything that is executed or passed on (${execution.executes.length})`), h("ul", { class: "plain-list" }, execution.executes.map((line) => h("li", {}, h("code", {}, line))))) : null,
    ];
  }

  #startForm(path) {
    const command = commandLine(`holdfast run ${path} --detach`);
    if (!mayAct()) return command;
    const agent = h("input", { id: "agent", type: "text", autocomplete: "off", placeholder: "as the plan says" });
    const jobs = h("input", { id: "jobs", type: "number", min: "1", max: "1000", placeholder: "as planned" });
    const start = h("button", { class: "button primary", type: "submit" }, "Start the run");
    const form = h("form", { class: "start-form" }, h("div", { class: "field" }, h("label", { for: "agent" }, "Agent"), agent), h("div", { class: "field" }, h("label", { for: "jobs" }, "At a time"), jobs), start, command);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#start(start, { path, ...(agent.value.trim() ? { agent: agent.value.trim() } : {}), ...(jobs.value ? { jobs: Number(jobs.value) } : {}) });
    });
    return form;
  }

  async #start(button, body) {
    button.disabled = true;
    try {
      const answer = await post(this.#path("runs"), body);
      const run = answer.run ?? answer.result?.run;
      if (answer.ok === false) say(answer.message || "The run did not start.", "bad", answer.hint ?? "");
      else {
        say(answer.message || "The run starts.");
        go(run ? { name: "run", repository: this.route.repository, run } : { name: "home" });
      }
    } catch (error) {
      say(error.message, "bad", error.hint ?? "");
    } finally {
      button.disabled = false;
    }
  }
}

function estimateWords(estimate) {
  if (!estimate) return "";
  const cost = estimate.cost_usd === null || estimate.cost_usd === undefined ? "" : `, ${money(estimate.cost_usd)}`;
  return `about ${duration(estimate.seconds)}${cost} by earlier runs`;
}

function stageView(stage) {
  const after = stage.needs?.length ? h("span", { class: "muted" }, ` after ${stage.needs.join(", ")}`) : null;
  const rows = stage.tasks.map((task) => h("li", { class: "plan-task" }, h("code", {}, task.id), h("span", {}, task.title || task.prompt || (task.run ?? []).join(" ")), task.needs?.length ? h("span", { class: "muted" }, `needs ${task.needs.join(", ")}`) : null));
  return h("li", { class: "plan-stage" }, h("h3", {}, stage.id, after), h("ul", { role: "list" }, rows));
}
