// Dialogs, menus, short messages and copying: the small parts that every view shares.
import { h, replace, setText } from "./dom.js";
import { icon } from "./icons.js";

const MESSAGE_MS = 8000;

/** Open a dialog with a heading; return `{node, close}`. Esc closes it and focus goes back to where it was. */
export function openDialog(title, children, { wide = false, label = "Close" } = {}) {
  const opener = document.activeElement;
  const heading = h("h2", { id: "dialog-title", tabindex: "-1" }, title);
  const close = h("button", { class: "icon-button", type: "button", "aria-label": label }, icon("close"));
  const node = h("dialog", { class: wide ? "dialog wide" : "dialog", "aria-labelledby": "dialog-title" });
  replace(node, h("header", { class: "dialog-head" }, heading, close), h("div", { class: "dialog-body" }, children));
  const end = () => node.close();
  close.addEventListener("click", end);
  node.addEventListener("click", (event) => event.target === node && end());
  node.addEventListener("close", () => {
    node.remove();
    if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
  });
  document.body.append(node);
  node.showModal();
  (node.querySelector("[autofocus]") ?? heading).focus();
  return { node, close: end };
}

/** Say something in passing, on screen and to a screen reader. `tone` is `good` or `bad`. */
export function say(words, tone = "good", hint = "") {
  const shelf = document.getElementById("messages");
  const close = h("button", { class: "icon-button", type: "button", "aria-label": "Dismiss" }, icon("close"));
  const text = h("div", { class: "message-text" }, h("p", {}, words), hint && h("p", { class: "muted" }, hint));
  const node = h("div", { class: "message", data: { tone } }, icon(tone === "bad" ? "warning" : "landed"), text, close);
  const timer = tone === "bad" ? 0 : setTimeout(() => node.remove(), MESSAGE_MS);
  close.addEventListener("click", () => {
    clearTimeout(timer);
    node.remove();
  });
  while (shelf.children.length > 3) shelf.firstChild.remove();
  shelf.append(node);
}

/** Tell a screen reader something that the screen shows anyway. */
export function announce(words) {
  setText(document.getElementById("announcer"), words);
}

/** Put text into the clipboard and say so. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    say("Copied.");
  } catch {
    say("The browser did not let the page copy.", "bad", text);
  }
}

/** Return a command with a button that copies it. */
export function commandLine(command) {
  const button = h("button", { class: "icon-button", type: "button", "aria-label": "Copy the command", title: "Copy the command" }, icon("copy"));
  const code = h("code", {}, command);
  button.addEventListener("click", () => copy(code.textContent));
  return h("span", { class: "command" }, code, button);
}

/** Return a button that opens a menu; `items()` gives its rows as elements when it opens. */
export function menuButton(label, content, items) {
  const button = h("button", { class: "button", type: "button", "aria-haspopup": "true", "aria-expanded": "false", "aria-label": label }, content);
  const menu = h("div", { class: "menu", popover: "auto", "aria-label": label, role: "group" });
  button.addEventListener("click", () => menu.togglePopover());
  menu.addEventListener("beforetoggle", (event) => {
    if (event.newState === "open") replace(menu, items(() => menu.hidePopover()));
  });
  menu.addEventListener("toggle", (event) => opened(event.newState === "open", button, menu));
  menu.addEventListener("keydown", (event) => moveInMenu(event, menu));
  return h("span", { class: "menu-holder" }, button, menu);
}

function opened(isOpen, button, menu) {
  button.setAttribute("aria-expanded", String(isOpen));
  if (!isOpen) return;
  const place = button.getBoundingClientRect();
  const left = Math.min(place.right - menu.offsetWidth, innerWidth - menu.offsetWidth - 8);
  menu.style.left = `${Math.max(8, left)}px`;
  menu.style.top = `${Math.min(place.bottom + 4, Math.max(8, innerHeight - menu.offsetHeight - 8))}px`;
  menu.querySelector("button, a")?.focus();
}

function moveInMenu(event, menu) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const rows = [...menu.querySelectorAll(".menu-row")];
  const at = rows.indexOf(document.activeElement);
  rows[(at + step + rows.length) % rows.length]?.focus();
}

/** Return a place for what could not be loaded: what happened, what to do, and a way to try again. */
export function errorBox(error, again) {
  const retry = again && h("button", { class: "button", type: "button", on: { click: again } }, "Try again");
  const hint = error.hint ? h("p", { class: "muted" }, error.hint) : null;
  return h("div", { class: "notice", data: { tone: "failed" }, role: "alert" }, icon("warning"), h("div", {}, h("p", {}, error.message), hint, retry));
}

/** Return a place that says why there is nothing. */
export function emptyBox(title, ...children) {
  return h("div", { class: "empty" }, h("p", { class: "empty-title" }, title), children);
}

/** Return words that stand where something is on its way. */
export const loading = (words = "Loading…") => h("p", { class: "loading muted" }, words);
