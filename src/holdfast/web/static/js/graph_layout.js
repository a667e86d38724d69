// Where everything of the graph is. The server gives the places; stages that are folded take little room, and what is right of
// them or below comes closer. Nothing moves unless a person folds something.

const FOLDED = { width: 240, height: 136 };
const SUMMARY = { left: 16, top: 40, width: 208, height: 84 };

/** Return the places of stages and tasks with these stages folded, and the size of the whole. */
export function layoutOf(graph, stageOf, folded) {
  const stages = placedStages(graph.stages, folded);
  const origins = new Map(graph.stages.map((stage) => [stage.id, stage]));
  const nodes = new Map();
  for (const node of graph.nodes) {
    const stage = stageOf.get(node.task);
    const [now, before] = [stages.get(stage), origins.get(stage)];
    if (now) nodes.set(node.task, { ...node, x: node.x - before.x + now.x, y: node.y - before.y + now.y });
  }
  const boxes = [...stages.values()];
  const width = Math.max(0, ...boxes.map((box) => box.x + box.width));
  return { stages, nodes, width, height: Math.max(0, ...boxes.map((box) => box.y + box.height)) };
}

/** Return the place of what stands for a folded stage. */
export function summaryBox(stage) {
  return { x: stage.x + SUMMARY.left, y: stage.y + SUMMARY.top, width: SUMMARY.width, height: SUMMARY.height };
}

function placedStages(stages, folded) {
  const columns = Map.groupBy([...stages].sort((one, other) => one.x - other.x || one.y - other.y), (stage) => stage.x);
  const placed = new Map();
  let saved = 0;
  for (const column of columns.values()) {
    let higher = 0;
    for (const stage of column) {
      const size = folded.has(stage.id) ? { width: Math.min(FOLDED.width, stage.width), height: Math.min(FOLDED.height, stage.height) } : stage;
      placed.set(stage.id, { id: stage.id, x: stage.x - saved, y: stage.y - higher, width: size.width, height: size.height });
      higher += stage.height - size.height;
    }
    const before = Math.max(...column.map((stage) => stage.width));
    saved += before - Math.max(...column.map((stage) => placed.get(stage.id).width));
  }
  return placed;
}
