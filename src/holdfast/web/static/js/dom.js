// Elements made from data. Text goes in as text and nothing here parses markup, so words of agents stay words.

const SVG = "http://www.w3.org/2000/svg";
const OWN_PATH = /^(\/(?!\/)|#|\?)/;

/** Make an HTML element. `attributes` may hold `class`, `on` (listeners), `style` (properties), `data`, and any attribute. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Make an SVG element. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) setAttribute(node, name, value);
  append(node, children);
  return node;
}

function setAttribute(node, name, value) {
  if (name === "on") {
    for (const [kind, listener] of Object.entries(value)) node.addEventListener(kind, listener);
  } else if (name === "style") {
    for (const [property, one] of Object.entries(value)) node.style.setProperty(property, one);
  } else if (name === "data") {
    Object.assign(node.dataset, value);
  } else {
    set(node, name, value);
  }
}

/** Set or remove one attribute, if it is not as wanted already. A link leads to a path of our own or nowhere. */
export function set(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
    return;
  }
  const text = value === true ? "" : String(value);
  if (name === "href" && !OWN_PATH.test(text)) return;
  if (node.getAttribute(name) !== text) node.setAttribute(name, text);
}

function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
}

/** Replace what is inside an element. */
export function replace(node, ...children) {
  node.replaceChildren();
  append(node, children);
  return node;
}

/** Set an element's text, if it differs: an unchanged one costs no layout. */
export function setText(node, text) {
  const wanted = text === null || text === undefined ? "" : String(text);
  if (node.textContent !== wanted) node.textContent = wanted;
  return node;
}

/** Mark a link of a row as the place that is shown, or not; where the row is wider than the screen, have it seen. */
export function markCurrent(node, isCurrent) {
  if (isCurrent === node.hasAttribute("aria-current")) return;
  set(node, "aria-current", isCurrent ? "page" : null);
  if (isCurrent) node.scrollIntoView({ block: "nearest", inline: "nearest" });
}

/** Show or hide an element. */
export function show(node, visible) {
  if (node.hidden === visible) node.hidden = !visible;
  return node;
}

const LISTS = new WeakMap();

/**
 * Make an element's children stand for items: one view per key, made once, updated only when its item is another object.
 * `make(item)` returns `{node, update?(item)}`. Nodes that stay are not touched and not moved.
 */
export function keyed(parent, items, keyOf, make) {
  const old = LISTS.get(parent) ?? new Map();
  const kept = new Map();
  let cursor = parent.firstChild;
  for (const item of items) {
    const key = keyOf(item);
    const view = old.get(key) ?? { ...make(item), item };
    if (view.item !== item) view.update?.(item);
    view.item = item;
    kept.set(key, view);
    old.delete(key);
    if (view.node === cursor) cursor = cursor.nextSibling;
    else parent.insertBefore(view.node, cursor);
  }
  for (const view of old.values()) {
    view.end?.();
    view.node.remove();
  }
  LISTS.set(parent, kept);
}

/** What a view must let go of when it ends: listeners of the window, timers, streams. */
export class Scope {
  #abort = new AbortController();
  #owned = [];

  get signal() {
    return this.#abort.signal;
  }

  /** Call a function when the scope ends. */
  own(end) {
    this.#owned.push(end);
    return end;
  }

  /** Listen to an object that outlives the view. */
  listen(target, kind, listener, options = {}) {
    target.addEventListener(kind, listener, { ...options, signal: this.signal });
  }

  /** Call a function every so often. */
  every(milliseconds, action) {
    const timer = setInterval(action, milliseconds);
    this.own(() => clearInterval(timer));
  }

  end() {
    this.#abort.abort();
    for (const end of this.#owned.splice(0)) end();
  }
}

/** Return a function that runs `action` once, `milliseconds` after its last call. */
export function debounced(milliseconds, action) {
  let timer = 0;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...args), milliseconds);
  };
}

/** Tell whether keys belong to a field in which a person types. */
export function isTyping(target) {
  return target instanceof HTMLElement && target.closest("input:not([type=range]):not([type=checkbox]), textarea, select, [contenteditable]") !== null;
}
