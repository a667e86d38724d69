// The first page: what waits for a person, oldest first, then the runs of all repositories.
import { commandLine, emptyBox, errorBox, loading } from "./dialogs.js";
import { h, keyed, replace, set, setText, show } from "./dom.js";
import { ago, count, lasting } from "./format.js";
import { icon } from "./icons.js";
import { inboxCard } from "./inbox.js";
import { link } from "./router.js";
import { runRow } from "./run_rows.js";

const RUNS_SHOWN = 100;
const INBOX_SHOWN = 50;
const FILTERS = [
  { id: "all", label: "All", has: () => true },
  { id: "open", label: "Unfinished", has: (line) => !["completed", "abandoned"].includes(line.status) },
  { id: "live", label: "Running", has: (line) => line.status === "running" },
  { id: "landing", label: "To land", has: (line) => line.status === "completed" && !line.landed_in.length && !line.discarded },
];

/** Show the home page in an element. */
export function mountHome(root, app) {
  const page = new HomePage(root, app);
  return { show: () => {}, end: () => page.end() };
}

class HomePage {
  constructor(root, app) {
    this.app = app;
    this.filter = "all";
    this.words = "";
    this.#build(root);
    this.unsubscribe = app.overview.subscribe((value, error) => this.#draw(value, error));
    app.overview.follow(true);
    this.#draw(app.overview.value, app.overview.error);
    document.title = "Holdfast";
  }

  #build(root) {
    this.problem = h("div", {});
    this.inboxTitle = h("h1", { tabindex: "-1" });
    this.inboxWait = h("p", { class: "muted" });
    this.inbox = h("ul", { class: "inbox", role: "list" });
    this.inboxRest = h("p", { class: "muted", hidden: true });
    this.rows = h("ul", { class: "run-list", role: "list" });
    this.rowsRest = h("p", { class: "muted", hidden: true });
    this.empty = h("div", { hidden: true });
    this.runs = h("section", { class: "section", "aria-labelledby": "runs-title" }, this.#head(), this.rows, this.rowsRest, this.empty);
    const inbox = h("section", { class: "section", "aria-label": "Needs you" });
    this.calm = h("p", { class: "calm", hidden: true }, icon("landed"), h("span", {}, "Nothing waits for you."));
    replace(inbox, h("div", { class: "section-head" }, this.inboxTitle, this.inboxWait), this.inbox, this.inboxRest, this.calm);
    this.first = loading();
    this.body = h("div", { hidden: true }, inbox, this.runs);
    replace(root, h("div", { class: "page home" }, this.problem, this.first, this.body));
  }

  #head() {
    const search = h("input", { id: "search", type: "search", placeholder: "Search runs", autocomplete: "off", "aria-label": "Search runs" });
    search.addEventListener("input", () => {
      this.words = search.value.trim().toLowerCase();
      this.#draw(this.app.overview.value, null);
    });
    this.chips = h("div", { class: "chips", role: "group", "aria-label": "Which runs" });
    replace(this.chips, FILTERS.map((filter) => this.#chip(filter)));
    this.newRun = h("span", {});
    const title = h("h2", { id: "runs-title" }, "Runs");
    return h("div", { class: "section-head" }, title, this.chips, h("div", { class: "search" }, icon("search"), search), this.newRun);
  }

  #chip(filter) {
    const chip = h("button", { class: "chip", type: "button", "aria-pressed": String(filter.id === this.filter), data: { filter: filter.id } }, filter.label);
    chip.addEventListener("click", () => {
      this.filter = filter.id;
      for (const one of this.chips.children) set(one, "aria-pressed", String(one.dataset.filter === this.filter));
      this.#draw(this.app.overview.value, null);
    });
    return chip;
  }

  #draw(value, error) {
    replace(this.problem, error ? errorBox(error, () => this.app.overview.load()) : null);
    show(this.first, !value && !error);
    show(this.body, Boolean(value));
    if (!value) return;
    this.#drawInbox(value.inbox);
    this.#drawRuns(value);
    this.#drawNewRun(value);
  }

  #drawInbox(items) {
    setText(this.inboxTitle, items.length ? `Needs you (${items.length})` : "Needs you");
    replace(this.inboxWait, items.length > 1 ? ["the oldest for ", ago(items[0].since, lasting)] : null);
    show(this.calm, items.length === 0);
    keyed(this.inbox, items.slice(0, INBOX_SHOWN), inboxKey, inboxCard);
    show(this.inboxRest, items.length > INBOX_SHOWN);
    setText(this.inboxRest, `and ${items.length - INBOX_SHOWN} more, which come up as these are settled`);
  }

  #drawRuns(value) {
    const several = value.repositories.length > 1;
    const all = value.repositories.flatMap((repository) => repository.runs.map((line) => ({ ...line, repository, several, counts: repository.counts[line.id] ?? {} })));
    all.sort((one, other) => rank(one) - rank(other) || other.updated_at.localeCompare(one.updated_at));
    const chosen = all.filter((line) => this.#matches(line));
    keyed(this.rows, [...this.#broken(value), ...chosen.slice(0, RUNS_SHOWN)], (line) => line.key ?? `${line.repository.id} ${line.id}`, (line) => (line.key ? brokenRow(line) : runRow(line)));
    show(this.rowsRest, chosen.length > RUNS_SHOWN);
    setText(this.rowsRest, `${count(chosen.length - RUNS_SHOWN, "older run")} not shown; search finds them.`);
    show(this.empty, chosen.length === 0);
    if (chosen.length === 0) replace(this.empty, all.length ? this.#noMatch() : firstSteps(value));
  }

  #broken(value) {
    return value.repositories.filter((one) => one.error).map((one) => ({ key: `broken ${one.id}`, repository: one }));
  }

  #matches(line) {
    const filter = FILTERS.find((one) => one.id === this.filter);
    const text = `${line.id} ${line.goal} ${line.repository.name} ${line.status}`.toLowerCase();
    return filter.has(line) && this.words.split(/\s+/).every((word) => text.includes(word));
  }

  #noMatch() {
    return emptyBox("No run is like this.", h("p", { class: "muted" }, "Choose “All” or search for other words."));
  }

  #drawNewRun(value) {
    const wanted = value.read_only ? "" : value.repositories.map((one) => one.id).join(" ");
    if (this.newRun.dataset.for === wanted) return;
    this.newRun.dataset.for = wanted;
    const links = value.repositories.map((one) =>
      h("a", { class: "button", href: link({ name: "new", repository: one.id }) }, icon("plus"), value.repositories.length > 1 ? `New run in ${one.name}` : "New run"),
    );
    replace(this.newRun, value.read_only ? null : h("span", { class: "button-row" }, links));
  }

  end() {
    this.unsubscribe();
    this.app.overview.follow(false);
  }
}

const inboxKey = (item) => `${item.repository} ${item.run} ${item.task ?? ""} ${item.kind} ${item.since}`;
const rank = (line) => (line.needs_you.length ? 0 : line.status === "running" ? 1 : ["completed", "abandoned"].includes(line.status) ? 3 : 2);

function brokenRow({ repository }) {
  const words = [h("p", {}, `${repository.name} cannot be read: ${repository.error}`), h("p", { class: "muted" }, repository.path)];
  return { node: h("li", { class: "notice", data: { tone: "failed" } }, icon("warning"), h("div", {}, words)) };
}

function firstSteps(value) {
  const steps = ["holdfast init", "holdfast run plan.yaml", "holdfast serve --open"];
  const where = value.repositories.map((one) => one.path).join(", ");
  return emptyBox(
    "No runs yet.",
    h("p", { class: "muted" }, `Three commands start the first one in ${where}:`),
    h("ol", { class: "steps" }, steps.map((step) => h("li", {}, commandLine(step)))),
  );
}
