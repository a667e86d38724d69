// The run as a board: one column per group of statuses. A column shows its first cards; more come when asked for.
import { h, keyed, replace, setText, show } from "./dom.js";
import { icon } from "./icons.js";
import { groupOf } from "./statuses.js";
import { taskCard } from "./task_card.js";

const SHOWN = 40;
const COLUMNS = [
  { id: "wait", title: "Waiting", icon: "wait", empty: "Nothing waits." },
  { id: "work", title: "At work", icon: "work", empty: "No agent is at work." },
  { id: "check", title: "Checks and merge", icon: "check", empty: "Nothing is being checked." },
  { id: "person", title: "Needs you", icon: "person", empty: "Nothing waits for you." },
  { id: "failed", title: "Failed", icon: "failed", empty: "Nothing failed." },
  { id: "landed", title: "Landed", icon: "landed", empty: "Nothing has landed yet." },
];

/** Show the board in an element. */
export function mountBoard(root, context) {
  const view = new BoardView(root, context);
  return { update: () => view.update(), select: (task) => view.select(task), end: () => {} };
}

class BoardView {
  constructor(root, context) {
    this.context = context;
    this.words = "";
    this.columns = new Map(COLUMNS.map((column) => [column.id, this.#column(column)]));
    this.cards = new Map();
    const search = h("input", { type: "search", placeholder: "Filter tasks", autocomplete: "off", "aria-label": "Filter by task, agent or stage" });
    search.addEventListener("input", () => {
      this.words = search.value.trim().toLowerCase();
      this.update();
    });
    const board = h("div", { class: "board", tabindex: "0", role: "region", "aria-label": "Tasks by status" }, [...this.columns.values()].map((column) => column.node));
    replace(root, h("div", { class: "toolbar" }, h("div", { class: "search" }, icon("search"), search)), board);
  }

  #column({ id, title, icon: name, empty }) {
    const column = { shown: SHOWN, count: h("span", { class: "column-count" }), list: h("ul", { class: "column-list", role: "list" }), empty: h("p", { class: "column-empty muted" }, empty) };
    column.more = h("button", { class: "button small", type: "button", hidden: true });
    column.more.addEventListener("click", () => {
      column.shown += SHOWN;
      this.update();
    });
    const head = h("h2", { class: "column-head", data: { tone: id } }, icon(name), h("span", {}, title), column.count);
    column.node = h("section", { class: "column", "aria-label": title }, head, column.list, column.empty, column.more);
    return column;
  }

  update() {
    const model = this.context.feed.shown;
    const groups = new Map(COLUMNS.map((column) => [column.id, []]));
    for (const task of model.tasks.values()) if (this.#matches(task, model)) groups.get(groupOf(task, model.needs.get(task.id))).push(task);
    for (const [id, tasks] of groups) this.#drawColumn(this.columns.get(id), tasks, model);
  }

  #matches(task, model) {
    return !this.words || `${task.id} ${model.title(task.id)} ${task.agent} ${task.stage}`.toLowerCase().includes(this.words);
  }

  #drawColumn(column, tasks, model) {
    setText(column.count, tasks.length);
    show(column.empty, tasks.length === 0);
    show(column.more, tasks.length > column.shown);
    setText(column.more, `Show ${Math.min(SHOWN, tasks.length - column.shown)} more of ${tasks.length - column.shown}`);
    const shown = tasks.slice(0, column.shown);
    keyed(column.list, shown, (task) => task.id, (task) => this.#card(task));
    for (const task of shown) this.cards.get(task.id).draw(task, model);
  }

  #card(task) {
    const card = taskCard(task.id, this.context.link(task.id), { detailed: true });
    this.cards.set(task.id, card);
    return { node: h("li", {}, card.node), end: () => this.cards.get(task.id) === card && this.cards.delete(task.id) };
  }

  select(task) {
    for (const [name, card] of this.cards) {
      card.node.toggleAttribute("aria-current", name === task);
      card.node.setAttribute("href", this.context.link(name));
    }
  }
}
