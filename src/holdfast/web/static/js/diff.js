// A diff: its files as a list, each file unified or side by side. Lines are drawn when they come near the screen, and let go
// when they leave it, so that ten thousand of them scroll like ten.
import { emptyBox } from "./dialogs.js";
import { Scope, h, replace, set } from "./dom.js";
import { count } from "./format.js";
import { icon } from "./icons.js";
import { prefer, preference } from "./preferences.js";

const BLOCK = 100;
const LINE = 20;
const OPEN_LINES = 2000;
const NARROW = 700;
const STATUS = { added: "new", deleted: "removed", renamed: "renamed", copied: "copied", modified: "changed" };

/** Return a diff as a view: `{node, end}`. */
export function diffView(diff) {
  const scope = new Scope();
  const root = h("div", { class: "diff" });
  const draw = () => replace(root, diff.files.length ? parts() : emptyBox("Nothing differs.", h("p", { class: "muted" }, "There is no work to compare, or it changes no file.")));
  const blocks = new BlockObserver(scope);
  const parts = () => {
    const mode = preference("diff") === "split" && innerWidth > NARROW ? "split" : "unified";
    const files = diff.files.map((file, index) => fileView(file, index, mode, blocks, openLines(diff, index)));
    return [toolbar(diff, mode, draw), fileTree(diff.files, files), diff.truncated ? h("p", { class: "notice-line" }, "This diff is very long. The rest of it is left out here; `holdfast review --patch` has all of it.") : null, files.map((file) => file.node)];
  };
  draw();
  return { node: root, end: () => scope.end() };
}

/** Tell whether a file is open at first: until there are too many lines. */
function openLines(diff, index) {
  const before = diff.files.slice(0, index + 1).reduce((sum, file) => sum + lineCount(file), 0);
  return before <= OPEN_LINES || index === 0;
}

const lineCount = (file) => file.hunks.reduce((sum, hunk) => sum + hunk.lines.length, 0);

function toolbar(diff, mode, draw) {
  const plus = diff.files.reduce((sum, file) => sum + (file.insertions ?? 0), 0);
  const minus = diff.files.reduce((sum, file) => sum + (file.deletions ?? 0), 0);
  const choose = (value) => h("button", { class: "chip", type: "button", "aria-pressed": String(mode === value), on: { click: () => (prefer("diff", value), draw()) } }, value === "split" ? "Side by side" : "Unified");
  const sizes = h("span", {}, `${count(diff.files.length, "file")} `, h("span", { class: "plus" }, `+${plus}`), " ", h("span", { class: "minus" }, `−${minus}`));
  return h("div", { class: "diff-toolbar" }, sizes, h("span", { class: "spacer" }), h("div", { class: "chips wide-only", role: "group", "aria-label": "How lines are shown" }, choose("unified"), choose("split")));
}

function fileTree(files, views) {
  if (files.length < 2) return null;
  const rows = files.map((file, index) => {
    const button = h("button", { class: "tree-row", type: "button" }, icon("file"), h("span", { class: "tree-path" }, ...folded(file.path)), ...sizes(file));
    button.addEventListener("click", () => views[index].open());
    return h("li", {}, button);
  });
  return h("details", { class: "diff-tree", open: files.length <= 12 }, h("summary", {}, "Files"), h("ul", { role: "list" }, rows));
}

/** Return a path with its folders in a quieter tone than its name. */
function folded(path) {
  const at = path.lastIndexOf("/") + 1;
  return [h("span", { class: "muted" }, path.slice(0, at)), h("span", {}, path.slice(at))];
}

function sizes(file) {
  if (file.binary) return [h("span", { class: "muted" }, "binary")];
  return [h("span", { class: "plus" }, `+${file.insertions ?? 0}`), h("span", { class: "minus" }, `−${file.deletions ?? 0}`)];
}

function fileView(file, index, mode, blocks, open) {
  const body = h("div", { class: "diff-lines", tabindex: "0", role: "region", "aria-label": `Changes of ${file.path}` });
  const summary = h("summary", { class: "diff-head" }, icon("right", "turns"), h("span", { class: "diff-path mono" }, file.old_path && file.old_path !== file.path ? `${file.old_path} → ` : "", ...folded(file.path)), h("span", { class: "muted" }, STATUS[file.status] ?? file.status), ...sizes(file));
  const node = h("details", { class: `diff-file ${mode}`, id: `file-${index}`, open }, summary, body);
  let drawn = false;
  const draw = () => {
    if (drawn || !node.open) return;
    drawn = true;
    replace(body, fileBody(file, mode, blocks));
  };
  node.addEventListener("toggle", draw);
  draw();
  return {
    node,
    open: () => {
      node.open = true;
      draw();
      node.scrollIntoView({ block: "start" });
      summary.focus();
    },
  };
}

function fileBody(file, mode, blocks) {
  if (file.binary) return h("p", { class: "diff-note muted" }, "A binary file.");
  if (!file.hunks.length) return h("p", { class: "diff-note muted" }, "Its lines are as before.");
  const parts = file.hunks.map((hunk) => [h("div", { class: "hunk-head mono" }, hunk.header), ...hunkBlocks(hunk, mode, blocks)]);
  return [parts, file.truncated ? h("p", { class: "diff-note muted" }, "The rest of this file is left out.") : null];
}

function hunkBlocks(hunk, mode, blocks) {
  const rows = mode === "split" ? pairs(hunk.lines) : hunk.lines;
  const make = mode === "split" ? splitRow : unifiedRow;
  const found = [];
  for (let first = 0; first < rows.length; first += BLOCK) found.push(blocks.block(rows.slice(first, first + BLOCK), make));
  return found;
}

/** Put removed lines beside the added ones that took their place. */
function pairs(lines) {
  const rows = [];
  let removed = [];
  let added = [];
  const flush = () => {
    for (let index = 0; index < Math.max(removed.length, added.length); index += 1) rows.push([removed[index] ?? null, added[index] ?? null]);
    removed = [];
    added = [];
  };
  for (const line of lines) {
    if (line.kind === "-") removed.push(line);
    else if (line.kind === "+") added.push(line);
    else {
      flush();
      rows.push([line, line]);
    }
  }
  flush();
  return rows;
}

const KINDS = { "+": "added", "-": "removed", " ": "same" };

function unifiedRow(line) {
  return h("div", { class: `line ${KINDS[line.kind]}` }, number(line.old), number(line.new), h("span", { class: "sign" }, line.kind), code(line));
}

function splitRow([left, right]) {
  return h("div", { class: "line pair" }, half(left, left?.old, "-"), half(right, right?.new, "+"));
}

function half(line, at, sign) {
  if (!line) return [h("span", { class: "number" }), h("span", { class: "sign" }), h("span", { class: "code none" })];
  const side = line.kind === " " ? "same" : KINDS[sign];
  return [number(at, side), h("span", { class: `sign ${side}` }, line.kind), code(line, side)];
}

const number = (at, side = "") => h("span", { class: `number ${side}` }, at ?? "");

/** The words of a line, each with its syntax class. `x` among them means that this word changed. */
function code(line, side = "") {
  const spans = line.spans.map(([name, text]) => (name ? h("span", { class: classes(name) }, text) : text));
  return h("span", { class: `code ${side}` }, spans);
}

const classes = (name) => name.split(" ").filter((one) => /^[\w-]+$/.test(one)).map((one) => (one === "x" ? "word-mark" : `s-${one}`)).join(" ");

/** Fills blocks of lines that are near the screen, and empties those that are far. Their height stays. */
class BlockObserver {
  constructor(scope) {
    this.rows = new WeakMap();
    this.observer = new IntersectionObserver((entries) => entries.forEach((entry) => this.#seen(entry)), { rootMargin: "1200px", scrollMargin: "1200px" });
    scope.own(() => this.observer.disconnect());
  }

  block(rows, make) {
    const node = h("div", { class: "block" });
    node.style.minHeight = `${rows.length * LINE}px`;
    this.rows.set(node, { rows, make });
    this.observer.observe(node);
    return node;
  }

  #seen({ target, isIntersecting }) {
    const { rows, make } = this.rows.get(target);
    if (isIntersecting === target.hasChildNodes()) return;
    if (isIntersecting) {
      replace(target, rows.map(make));
    } else {
      target.style.minHeight = `${target.offsetHeight}px`;
      replace(target);
    }
    set(target, "data-filled", isIntersecting);
  }
}
