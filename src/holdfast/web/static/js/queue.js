// The merge queue: one branch, one merge at a time, in the order in which tasks passed their checks.
import { emptyBox } from "./dialogs.js";
import { h, keyed, replace, setText, show } from "./dom.js";
import { shortCommit } from "./format.js";
import { badge } from "./statuses.js";

const MERGED_SHOWN = 100;
const PLACES = {
  merging: { word: "merging now", icon: "merge", tone: "check" },
  ready: { word: "checked, waits for its turn", icon: "wait", tone: "check" },
  pending: { word: "its checks run", icon: "check", tone: "check" },
  merged: { word: "merged", icon: "landed", tone: "landed" },
};

/** Show the queue in an element. */
export function mountQueue(root, context) {
  const waiting = h("tbody", {});
  const merged = h("tbody", {});
  const title = h("h2", {}, "In the queue");
  const mergedTitle = h("h2", {});
  const empty = emptyBox("The queue is empty.", h("p", { class: "muted" }, "A task comes here when its agent is done: it is checked, merged onto the run branch, and checked again."));
  const waitingTable = queueTable("Tasks in the merge queue", "Place", waiting);
  const mergedTable = queueTable("Tasks that were merged", "Order", merged);
  replace(root, h("div", { class: "page narrow" }, title, empty, waitingTable, mergedTitle, mergedTable));
  const update = () => {
    const model = context.feed.shown;
    const places = model.status.merge_queue.map((place, index) => ({ ...place, number: index + 1 }));
    const open = places.filter((place) => place.status !== "merged").map((place, index) => ({ ...place, number: index + 1 }));
    const done = places.filter((place) => place.status === "merged").reverse();
    show(empty, open.length === 0);
    show(waitingTable, open.length > 0);
    show(mergedTable, done.length > 0);
    setText(mergedTitle, done.length ? `Merged (${done.length})` : "");
    const row = (place) => queueRow(place, model, context);
    keyed(waiting, open, (place) => `${place.task} ${place.status} ${place.number}`, row);
    keyed(merged, done.slice(0, MERGED_SHOWN), (place) => `${place.task} ${model.tasks.get(place.task)?.merge_commit}`, row);
  };
  return { update, end: () => {} };
}

function queueTable(caption, first, body) {
  const head = h("tr", {}, h("th", { scope: "col", class: "number" }, first), ["Task", "Where it stands", "Commit"].map((word) => h("th", { scope: "col" }, word)));
  return h("div", { class: "table-box" }, h("table", { class: "table" }, h("caption", { class: "visually-hidden" }, caption), h("thead", {}, head), body));
}

function queueRow(place, model, context) {
  const task = model.tasks.get(place.task);
  const name = h("a", { href: context.link(place.task) }, model.title(place.task));
  const commit = task?.merge_commit ? [h("code", {}, shortCommit(task.merge_commit)), h("span", { class: "muted" }, " proved by git")] : "–";
  const cells = [h("td", { class: "number" }, place.number), h("td", {}, name), h("td", {}, badge(PLACES[place.status])), h("td", {}, commit)];
  return { node: h("tr", { data: { item: "" } }, cells) };
}
