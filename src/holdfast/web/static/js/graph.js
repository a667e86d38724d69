// The run as a graph: stages as columns, tasks as cards, what needs what as edges. Places come from the server and never move.
import { errorBox, loading } from "./dialogs.js";
import { Scope, h, replace, set, setText, show, svg } from "./dom.js";
import { GraphEdges } from "./graph_edges.js";
import { layoutOf, summaryBox } from "./graph_layout.js";
import { Zoom } from "./graph_zoom.js";
import { icon, setIcon } from "./icons.js";
import { GROUPS, countGroups, stageLook } from "./statuses.js";
import { taskCard } from "./task_card.js";

const FOLD_ABOVE = 80;
const LEGEND = ["work", "check", "landed", "person", "failed", "wait"];

/** Show the graph in an element. */
export function mountGraph(root, context) {
  const view = new GraphView(root, context);
  return { update: (told) => view.update(told), select: (task) => view.select(task), end: () => view.end() };
}

class GraphView {
  constructor(root, context) {
    this.context = context;
    this.root = root;
    this.scope = new Scope();
    this.plan = null;
    this.selected = null;
    replace(root, loading("Drawing the graph…"));
  }

  update({ all, tasks }) {
    const model = this.context.feed.shown;
    if (!model.plan) return;
    if (model.plan !== this.plan) return this.#build(model);
    const names = tasks ?? model.tasks.keys();
    const stages = new Set();
    for (const name of names) {
      const task = model.tasks.get(name);
      if (!task) continue;
      this.cards.get(name)?.draw(task, model);
      stages.add(task.stage);
    }
    for (const stage of all ? this.stages.keys() : stages) this.#drawStage(stage, model);
  }

  #build(model) {
    this.plan = model.plan;
    const { graph } = model.plan;
    if (!graph.nodes.length) return replace(this.root, errorBox(new Error("The plan of this run has no tasks.")));
    this.folded ??= new Set(graph.stages.filter((stage) => stage.tasks > FOLD_ABOVE && isQuiet(stage.id, model)).map((stage) => stage.id));
    this.stageOf = new Map([...model.tasks.values()].map((task) => [task.id, task.stage]));
    this.cards = new Map();
    this.stages = new Map();
    this.edges = new GraphEdges(graph, this.stageOf);
    this.layout = layoutOf(graph, this.stageOf, this.folded);
    this.bands = new Map(graph.stages.map((stage) => [stage.id, svg("rect", { class: "stage-band", rx: 10 })]));
    this.picture = svg("svg", { class: "graph-picture", "aria-hidden": "true" }, [...this.bands.values()], this.edges.nodes);
    const heads = graph.stages.map((stage) => this.#stageHead(stage));
    this.canvas = h("div", { class: "graph-canvas" }, this.picture, heads);
    this.zoom?.end();
    this.zoom = new Zoom(this.canvas, this.layout, "Graph of stages and tasks");
    replace(this.root, this.#toolbar(), this.zoom.node);
    this.zoom.fit();
    for (const stage of graph.stages) this.#drawFold(stage.id);
    for (const stage of this.stages.keys()) this.#drawStage(stage, model);
    this.#drawPlaces();
    this.select(this.context.route().task);
  }

  /** Put everything where it belongs, now that stages were folded or unfolded. */
  #drawPlaces() {
    this.layout = layoutOf(this.plan.graph, this.stageOf, this.folded);
    for (const [id, box] of this.layout.stages) {
      const parts = this.stages.get(id);
      place(parts.head, { ...box, height: 36 });
      place(parts.summary, summaryBox(box));
      for (const name of ["x", "y", "width", "height"]) this.bands.get(id).setAttribute(name, box[name]);
    }
    for (const [name, card] of this.cards) place(card.node, this.layout.nodes.get(name));
    for (const name of ["width", "height"]) this.picture.setAttribute(name, this.layout[name]);
    this.zoom.resize(this.layout);
    this.edges.draw(this.layout, this.folded);
    this.edges.highlight(this.selected);
  }

  #card(node, model) {
    const card = taskCard(node.task, this.context.link(node.task));
    if (model.plan.critical.has(node.task)) card.node.classList.add("critical");
    const task = model.tasks.get(node.task);
    if (task) card.draw(task, model);
    this.cards.set(node.task, card);
    return card.node;
  }

  /** Make the cards of a stage when it is unfolded for the first time: most of a large run is never looked at. */
  #makeCards(stage) {
    const model = this.context.feed.shown;
    const nodes = this.plan.graph.nodes.filter((node) => this.stageOf.get(node.task) === stage && !this.cards.has(node.task));
    this.canvas.append(...nodes.map((node) => this.#card(node, model)));
  }

  #stageHead(stage) {
    const fold = h("button", { class: "icon-button small", type: "button" }, icon("down"));
    fold.addEventListener("click", () => this.#fold([stage.id], !this.folded.has(stage.id)));
    const name = h("span", { class: "stage-name", title: stage.id }, stage.id);
    const counts = h("span", { class: "stage-counts muted" });
    const head = h("div", { class: "stage-head" }, fold, name, counts);
    const summary = h("div", { class: "stage-summary", hidden: true });
    this.stages.set(stage.id, { fold, counts, summary, head });
    return [head, summary];
  }

  #drawStage(id, model) {
    const parts = this.stages.get(id);
    const stage = model.stages.get(id);
    if (!parts || !stage) return;
    const look = stageLook(stage.status);
    setText(parts.counts, `${stage.completed} of ${stage.tasks} · ${look.word}`);
    set(parts.head, "data-tone", look.tone);
    if (!this.folded.has(id)) return;
    const tasks = [...model.tasks.values()].filter((task) => task.stage === id);
    const counts = countGroups(tasks, model.needs);
    const rows = GROUPS.filter((group) => counts[group.id]);
    replace(parts.summary, rows.map((group) => h("span", { class: "badge", data: { tone: group.id } }, icon(group.icon), h("span", {}, `${counts[group.id]} ${group.word}`))));
  }

  #fold(stages, folded) {
    for (const id of stages) {
      if (folded) this.folded.add(id);
      else this.folded.delete(id);
      this.#drawFold(id);
      this.#drawStage(id, this.context.feed.shown);
    }
    this.#drawPlaces();
  }

  #drawFold(id) {
    const parts = this.stages.get(id);
    const folded = this.folded.has(id);
    if (!folded) this.#makeCards(id);
    show(parts.summary, folded);
    setIcon(parts.fold.firstChild, folded ? "right" : "down");
    set(parts.fold, "aria-label", folded ? `Unfold stage ${id}` : `Fold stage ${id}`);
    set(parts.fold, "aria-expanded", String(!folded));
    for (const [name, card] of this.cards) if (this.stageOf.get(name) === id) show(card.node, !folded);
  }

  #toolbar() {
    const search = h("input", { type: "search", placeholder: "Find a task", autocomplete: "off", "aria-label": "Find a task" });
    search.addEventListener("input", () => this.#find(search.value.trim().toLowerCase()));
    search.addEventListener("keydown", (event) => event.key === "Enter" && this.#openFound());
    const all = [...this.stages.keys()];
    const foldAll = h("button", { class: "button small", type: "button", on: { click: () => this.#fold(all, this.folded.size < all.length) } }, "Fold");
    set(foldAll, "aria-label", "Fold or unfold all stages");
    const words = LEGEND.map((id) => GROUPS.find((group) => group.id === id));
    const legend = h("ul", { class: "legend wide-only", role: "list", "aria-label": "Colours" }, words.map((group) => h("li", { class: "badge", data: { tone: group.id } }, icon(group.icon), h("span", {}, group.word))));
    const critical = h("span", { class: "legend-critical muted wide-only" }, h("span", { class: "critical-line" }), "critical path");
    return h("div", { class: "toolbar" }, h("div", { class: "search" }, icon("search"), search), legend, critical, h("span", { class: "spacer" }), foldAll, this.zoom.buttons);
  }

  #find(words) {
    this.found = [];
    for (const [name, title] of this.plan.titles) {
      const hit = !words || `${name} ${title}`.toLowerCase().includes(words);
      this.cards.get(name)?.node.classList.toggle("faded", !hit);
      if (hit && words) this.found.push(name);
    }
    if (this.found.length) this.#reveal(this.found[0]);
  }

  #openFound() {
    if (this.found?.length) this.context.select(this.found[0]);
  }

  #reveal(name) {
    const stage = this.stageOf.get(name);
    if (this.folded.has(stage)) this.#fold([stage], false);
    const node = this.layout.nodes.get(name);
    if (node) this.zoom.reveal(node);
  }

  select(task) {
    if (!this.cards) return;
    for (const name of [this.selected, task]) {
      const card = this.cards.get(name);
      if (card) set(card.node, "aria-current", name === task ? "true" : null);
    }
    for (const [name, card] of this.cards) set(card.node, "href", this.context.link(name));
    if (task && task !== this.selected) this.#reveal(task);
    this.selected = task;
    this.edges.highlight(task);
  }

  end() {
    this.zoom?.end();
    this.scope.end();
  }
}

function place(node, box) {
  node.style.transform = `translate(${box.x}px, ${box.y}px)`;
  node.style.width = `${box.width}px`;
  node.style.height = `${box.height}px`;
}

/** Tell whether nothing of a stage is at work or needs a person, so that its counts say enough. */
function isQuiet(stage, model) {
  const counts = countGroups([...model.tasks.values()].filter((task) => task.stage === stage), model.needs);
  return !counts.work && !counts.check && !counts.person && !counts.failed;
}
