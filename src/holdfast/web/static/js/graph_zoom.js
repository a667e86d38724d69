// Panning and zooming a large picture with the browser's own scrolling, so that touch, wheel and keyboard work as everywhere.
import { Scope, h, setText } from "./dom.js";
import { icon } from "./icons.js";

const SMALLEST = 0.2;
const LARGEST = 1.6;
const FAR = 0.62;
const MARGIN = 24;

/** A picture of a known size in a box that scrolls. */
export class Zoom {
  constructor(canvas, size, label) {
    this.scope = new Scope();
    this.size = size;
    this.canvas = canvas;
    this.scale = 1;
    this.sizer = h("div", { class: "graph-sizer" }, canvas);
    this.node = h("div", { class: "graph", tabindex: "0", role: "region", "aria-label": label }, this.sizer);
    this.percent = h("span", { class: "zoom-percent muted" });
    const button = (name, label, act) => h("button", { class: "icon-button", type: "button", "aria-label": label, title: label, on: { click: act } }, icon(name));
    this.buttons = h("div", { class: "zoom-buttons", role: "group", "aria-label": "Zoom" });
    this.buttons.append(button("minus", "Zoom out", () => this.by(1 / 1.25)), this.percent, button("plus", "Zoom in", () => this.by(1.25)), button("fit", "Fit", () => this.fit(true)));
    this.#listen();
  }

  #listen() {
    this.node.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.by(Math.exp(-event.deltaY / 300), event);
    }, { passive: false });
    this.node.addEventListener("keydown", (event) => {
      if (event.target !== this.node) return;
      if (event.key === "+" || event.key === "=") this.by(1.25);
      else if (event.key === "-") this.by(1 / 1.25);
    });
    this.node.addEventListener("pointerdown", (event) => this.#drag(event));
  }

  /** Let the mouse drag the picture. Fingers scroll it by themselves. */
  #drag(event) {
    if (event.pointerType !== "mouse" || event.button !== 0 || event.target.closest("a, button")) return;
    const start = { x: event.clientX + this.node.scrollLeft, y: event.clientY + this.node.scrollTop };
    const move = (now) => this.node.scrollTo(start.x - now.clientX, start.y - now.clientY);
    this.node.setPointerCapture(event.pointerId);
    this.node.classList.add("dragging");
    this.node.addEventListener("pointermove", move);
    const done = () => {
      this.node.removeEventListener("pointermove", move);
      this.node.classList.remove("dragging");
    };
    this.node.addEventListener("pointerup", done, { once: true });
    this.node.addEventListener("pointercancel", done, { once: true });
  }

  /** Show all of it if that stays readable; `whole`: even if not. */
  fit(whole = false) {
    const wide = (this.node.clientWidth - MARGIN) / this.size.width;
    const high = (this.node.clientHeight - MARGIN) / this.size.height;
    const least = whole ? SMALLEST : innerWidth < 720 ? 0.8 : 0.7;
    this.set(Math.max(least, Math.min(1, wide, whole ? high : 1)));
  }

  /** The picture has another size now. */
  resize(size) {
    this.size = size;
    this.set(this.scale);
  }

  by(factor, point) {
    const box = this.node.getBoundingClientRect();
    const x = point ? point.clientX - box.left : box.width / 2;
    const y = point ? point.clientY - box.top : box.height / 2;
    const before = this.scale;
    this.set(this.scale * factor);
    const ratio = this.scale / before;
    this.node.scrollTo((this.node.scrollLeft + x) * ratio - x, (this.node.scrollTop + y) * ratio - y);
  }

  set(scale) {
    this.scale = Math.max(SMALLEST, Math.min(LARGEST, scale));
    this.canvas.style.transform = `scale(${this.scale})`;
    this.sizer.style.width = `${this.size.width * this.scale}px`;
    this.sizer.style.height = `${this.size.height * this.scale}px`;
    this.canvas.classList.toggle("far", this.scale < FAR);
    setText(this.percent, `${Math.round(this.scale * 100)} %`);
  }

  /** Scroll so that a box of the picture is seen. */
  reveal(box) {
    const left = box.x * this.scale;
    const top = box.y * this.scale;
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = this.node;
    const seen = left >= scrollLeft && left + box.width * this.scale <= scrollLeft + clientWidth && top >= scrollTop && top + box.height * this.scale <= scrollTop + clientHeight;
    if (!seen) this.node.scrollTo(left - clientWidth / 2 + (box.width * this.scale) / 2, top - clientHeight / 3);
  }

  end() {
    this.scope.end();
  }
}
