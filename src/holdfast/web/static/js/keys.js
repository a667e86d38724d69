// The keyboard: one table of keys, and the sheet that shows it.
import { openDialog } from "./dialogs.js";
import { h, isTyping } from "./dom.js";

const SECOND_KEY_MS = 1500;
const SHEET = [
  ["Everywhere", [["?", "this sheet"], ["/", "search"], ["g h", "home: what needs you"], ["Esc", "close a panel or a dialog"]]],
  ["A list", [["j", "next task, run or item"], ["k", "the one before"], ["Enter", "open it"], [".", "its actions"]]],
  [
    "A run",
    [["g g", "graph"], ["g b", "board"], ["g t", "timeline"], ["g q", "queue"], ["g a", "activity"], ["g c", "charts"], ["g r", "recovery"], ["g v", "review"]],
  ],
];

let view = {};
let prefix = 0;

/** Say what the keys do now: `{next, previous, open, actions, search, tab(letter), close}`, each of them optional. */
export function setKeys(handlers) {
  view = handlers;
}

/** Listen to the keyboard. `goHome` is where `g h` leads. */
export function startKeys(goHome) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (document.querySelector("dialog[open]")) return;
    if (event.key === "Escape") return escape(event);
    if (isTyping(event.target)) return;
    if (takesKey(event, goHome)) event.preventDefault();
  });
}

function escape(event) {
  if (document.querySelector(".menu:popover-open")) return;
  if (isTyping(event.target)) event.target.blur();
  else view.close?.();
}

/** Do what a key stands for; return whether it stands for anything. */
function takesKey(event, goHome) {
  const key = event.key;
  if (prefix && Date.now() - prefix < SECOND_KEY_MS) {
    prefix = 0;
    if (key === "h") goHome();
    else return Boolean(view.tab?.(key));
    return true;
  }
  if (key === "g") {
    prefix = Date.now();
    return true;
  }
  const done = { j: view.next, k: view.previous, ".": view.actions, "/": view.search ?? focusSearch, "?": openSheet }[key];
  if (done) done();
  else if (key === "Enter" && view.open && !onControl(event.target)) view.open();
  else return false;
  return true;
}

const onControl = (target) => target instanceof Element && target.closest("a, button, summary, input, [role=tab]") !== null;

function focusSearch() {
  document.querySelector("main input[type=search]")?.focus();
}

/** Show all keys. */
export function openSheet() {
  const groups = SHEET.map(([title, rows]) =>
    h("section", {}, h("h3", {}, title), h("dl", { class: "keys" }, rows.map(([keys, words]) => h("div", {}, h("dt", {}, keys.split(" ").map((key) => h("kbd", {}, key))), h("dd", {}, words))))),
  );
  openDialog("Keyboard", h("div", { class: "sheet" }, groups), { wide: true });
}

/** Move focus among the items of a list; return whether there are any. */
export function moveFocus(root, step) {
  const items = [...root.querySelectorAll("[data-item] a, .inbox-card a")].filter((one, index, all) => all.findIndex((other) => row(other) === row(one)) === index);
  if (!items.length) return false;
  const at = items.findIndex((one) => row(one).contains(document.activeElement));
  const next = items[Math.max(0, Math.min(items.length - 1, at + step))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
  return true;
}

const row = (node) => node.closest("[data-item], .inbox-card");
