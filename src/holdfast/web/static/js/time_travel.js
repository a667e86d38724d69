// The slider that shows the run as it was at any event. The journal keeps every event, so nothing is guessed.
import { debounced, h, set, setText, show } from "./dom.js";
import { clock } from "./format.js";
import { icon } from "./icons.js";
import { go } from "./router.js";

const STEP_MS = 350;

/** The slider, and the button that opens it. */
export class TimeTravel {
  constructor(context) {
    this.context = context;
    this.isOpen = false;
    this.button = h("button", { class: "button small", type: "button", "aria-expanded": "false" }, icon("history"), h("span", { class: "wide-only" }, "Replay"));
    set(this.button, "aria-label", "Replay the run");
    this.button.addEventListener("click", () => this.#toggle());
    this.slider = h("input", { type: "range", min: "1", step: "1", id: "travel" });
    this.words = h("output", { class: "travel-words", for: "travel" });
    this.play = h("button", { class: "button small", type: "button", on: { click: () => this.#togglePlay() } }, "Play");
    const now = h("button", { class: "button small", type: "button", on: { click: () => this.#leave() } }, "Back to now");
    const label = h("label", { for: "travel" }, "As it was at event");
    this.node = h("section", { class: "travel", "aria-label": "Time travel", hidden: true }, label, this.slider, this.words, this.play, now);
    const travel = debounced(120, (seq) => go({ ...context.route(), at: seq }, { replace: true }));
    this.slider.addEventListener("input", () => {
      setText(this.words, `${this.slider.value} of ${this.slider.max}`);
      travel(Number(this.slider.value));
    });
  }

  #toggle() {
    if (this.isOpen) return this.#leave();
    this.isOpen = true;
    this.draw();
    this.slider.focus();
  }

  #leave() {
    this.isOpen = false;
    this.#stop();
    go({ ...this.context.route(), at: null }, { replace: true });
    this.draw();
    this.button.focus();
  }

  #togglePlay() {
    if (this.timer) return this.#stop();
    setText(this.play, "Hold");
    this.timer = setInterval(() => this.#step(), STEP_MS);
  }

  #stop() {
    clearInterval(this.timer);
    this.timer = 0;
    setText(this.play, "Play");
  }

  #step() {
    const last = this.context.feed.live?.lastSeq ?? 0;
    const at = this.context.route().at ?? 1;
    if (at >= last || !this.node.isConnected) return this.#stop();
    go({ ...this.context.route(), at: Math.min(last, at + Math.max(1, Math.round(last / 120))) }, { replace: true });
  }

  draw() {
    const { feed } = this.context;
    const at = this.context.route().at;
    const open = this.isOpen || Boolean(at);
    show(this.node, open);
    set(this.button, "aria-expanded", String(open));
    if (!open || !feed.live) return;
    set(this.slider, "max", feed.live.lastSeq);
    const here = at ?? feed.live.lastSeq;
    if (document.activeElement !== this.slider) this.slider.value = String(here);
    const when = feed.past ? ` · ${clock(feed.past.status.run.updated_at)}` : " · now";
    setText(this.words, `${here} of ${feed.live.lastSeq}${when}`);
  }
}
