// What an agent says and does, turn by turn. It follows the end while one stays there, folds what tools print, never folds errors.
import { Stream, withQuery } from "./api.js";
import { Scope, h, replace, setText, show } from "./dom.js";
import { withoutColours } from "./format.js";
import { icon } from "./icons.js";

const BOUND = 1500;
const FOLD_ABOVE = 4;
const NEAR_END = 60;
const ICONS = { message: "person", tool: "right", edit: "file", result: "minus", error: "warning", end: "landed", plain: "minus" };
const KINDS = { message: "says", tool: "tool", edit: "edit", result: "result", error: "error", end: "end", plain: "output" };

/** Follow the log of an attempt in an element: `{node, end}`. */
export function logStream(path, attempt) {
  const view = new LogView(path, attempt);
  return { node: view.node, end: () => view.scope.end() };
}

class LogView {
  constructor(path, attempt) {
    this.scope = new Scope();
    this.following = true;
    this.skipped = h("p", { class: "log-note muted", hidden: true });
    this.list = h("ol", { class: "log-list", "aria-label": "What the agent said and did" });
    this.state = h("p", { class: "log-note muted" }, "Waiting for the first words…");
    this.box = h("div", { class: "log-box", tabindex: "0", role: "region", "aria-label": "Log of the agent" }, this.skipped, this.list, this.state);
    this.jump = h("button", { class: "button small jump", type: "button", hidden: true, on: { click: () => this.#toEnd() } }, "Jump to the newest");
    this.folds = h("button", { class: "chip", type: "button", "aria-pressed": "false" }, "Show all output");
    this.folds.addEventListener("click", () => this.#toggleFolds());
    this.box.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.node = h("div", { class: "log" }, h("div", { class: "log-toolbar" }, this.folds), this.box, this.jump);
    this.#follow(path, attempt);
  }

  #follow(path, attempt) {
    let lines = 0;
    const stream = new Stream(
      () => withQuery(path, { attempt }),
      {
        entries: (entries) => {
          lines += entries.length;
          this.#add(entries);
        },
        skipped: ({ bytes }) => setText(show(this.skipped, true), `The first ${Math.round(bytes / 1024)} KB are left out; \`holdfast logs\` has them.`),
        end: () => {
          stream.finish();
          setText(this.state, lines ? "The attempt is over." : "It is over, and its agent said nothing.");
        },
        elsewhere: () => {
          stream.finish();
          setText(this.state, "This attempt ran on another machine. Its log is there.");
        },
      },
      (state) => {
        if (state !== "reconnecting") return;
        // The server begins again with what it sends first, so what is here goes, or it would be told twice.
        lines = 0;
        replace(this.list);
        setText(this.state, "Reconnecting…");
      },
    );
    this.scope.own(() => stream.close());
  }

  #add(entries) {
    const all = this.folds.getAttribute("aria-pressed") === "true";
    this.list.append(...entries.map((entry) => entryRow(entry, all)));
    while (this.list.children.length > BOUND) {
      this.list.firstChild.remove();
      setText(show(this.skipped, true), "Earlier lines are left out; `holdfast logs` has them.");
    }
    setText(this.state, "Following…");
    if (this.following) this.#toEnd();
  }

  #toEnd() {
    this.following = true;
    this.box.scrollTop = this.box.scrollHeight;
    show(this.jump, false);
  }

  #scrolled() {
    this.following = this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < NEAR_END;
    show(this.jump, !this.following);
  }

  #toggleFolds() {
    const all = this.folds.getAttribute("aria-pressed") !== "true";
    this.folds.setAttribute("aria-pressed", String(all));
    for (const details of this.list.querySelectorAll("details:not(.never)")) details.open = all;
  }
}

function entryRow(entry, all) {
  const kind = h("span", { class: "visually-hidden" }, `${KINDS[entry.kind] ?? entry.kind}: `);
  const text = entry.text ? h("span", { class: "log-text" }, withoutColours(entry.text)) : entry.kind === "error" ? h("span", { class: "log-text" }, "The tool failed") : null;
  const body = h("div", { class: "log-body" }, kind, text, detail(entry, all));
  return h("li", { class: "log-entry", data: { kind: entry.kind } }, icon(ICONS[entry.kind] ?? "minus"), body);
}

/** The lines below an entry. What is long is folded; an error never is. */
function detail(entry, all) {
  if (!entry.detail) return null;
  const text = withoutColours(entry.detail);
  const lines = text.replace(/\n$/, "").split("\n");
  const block = h("pre", { class: "log-detail" }, entry.kind === "edit" ? lines.map(editLine) : text);
  if (entry.kind === "error" || lines.length <= FOLD_ABOVE) return block;
  return h("details", { open: all || entry.kind === "edit" }, h("summary", {}, `${lines.length} lines`), block);
}

const editLine = (line) => h("span", { class: line.startsWith("+") ? "plus-line" : line.startsWith("-") ? "minus-line" : "" }, `${line}\n`);
