// The edges of the graph: four paths in all, so that a thousand tasks cost no more elements than ten.
import { svg } from "./dom.js";

/** All edges of a plan: the usual ones, those between stages, the critical path, and those of the selected task. */
export class GraphEdges {
  constructor(graph, stageOf) {
    this.graph = graph;
    this.stageOf = stageOf;
    this.usual = svg("path", { class: "edge" });
    this.stage = svg("path", { class: "edge stage-edge" });
    this.critical = svg("path", { class: "edge critical" });
    this.chosen = svg("path", { class: "edge chosen" });
    this.nodes = [this.stage, this.usual, this.critical, this.chosen];
  }

  /** Draw all edges; those of folded stages lead to what stands for them, once. */
  draw(layout, folded) {
    this.layout = layout;
    this.folded = folded;
    const needs = this.graph.edges.filter((edge) => edge.kind === "needs");
    const stages = this.graph.edges.filter((edge) => edge.kind === "stage");
    this.usual.setAttribute("d", this.#paths(needs.filter((edge) => !edge.critical)));
    this.critical.setAttribute("d", this.#paths(needs.filter((edge) => edge.critical)));
    this.stage.setAttribute("d", stages.map((edge) => stagePath(layout.stages.get(edge.source), layout.stages.get(edge.target))).join(""));
  }

  /** Draw the edges of one task once more, stronger. */
  highlight(task) {
    const own = task ? this.graph.edges.filter((edge) => edge.kind === "needs" && (edge.source === task || edge.target === task)) : [];
    this.chosen.setAttribute("d", this.#paths(own));
  }

  #paths(edges) {
    const paths = new Set();
    for (const edge of edges) {
      const from = this.#box(edge.source);
      const to = this.#box(edge.target);
      if (from && to && from.key !== to.key) paths.add(edgePath(from, to));
    }
    return [...paths].join("");
  }

  #box(task) {
    const stage = this.stageOf.get(task);
    if (this.folded.has(stage)) return { ...this.layout.stages.get(stage), key: `stage ${stage}` };
    const box = this.layout.nodes.get(task);
    return box && { ...box, key: task };
  }
}

function edgePath(from, to) {
  const startY = from.y + from.height / 2;
  const endY = to.y + to.height / 2;
  if (to.x > from.x + from.width) return curve(from.x + from.width, startY, to.x, endY);
  const out = Math.min(from.x, to.x) - 14;
  return `M${from.x} ${startY}C${out} ${startY} ${out} ${endY} ${to.x} ${endY}`;
}

function stagePath(from, to) {
  return from && to ? curve(from.x + from.width, from.y + 18, to.x, to.y + 18) : "";
}

function curve(startX, startY, endX, endY) {
  const bend = Math.max(16, (endX - startX) / 2);
  return `M${startX} ${startY}C${startX + bend} ${startY} ${endX - bend} ${endY} ${endX} ${endY}`;
}
