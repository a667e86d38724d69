// A view of what happened in a run: read once it is shown, again after events, and for another moment when the page goes there.
import { get, withQuery } from "./api.js";
import { errorBox, loading } from "./dialogs.js";
import { Scope, debounced, replace } from "./dom.js";

/** What all such views do. One that derives from it draws an answer of the server in `take`. */
export class PastView {
  #name;
  #again;
  #at;

  constructor(root, context, { name, words, pauseMs }) {
    this.root = root;
    this.context = context;
    this.scope = new Scope();
    this.#name = name;
    this.#again = debounced(pauseMs, () => this.#load());
    replace(root, loading(words));
  }

  update({ events }) {
    const at = this.context.feed.past?.seq ?? null;
    if (at !== this.#at) {
      this.#at = at;
      this.#load();
    } else if (events.length && !at) this.#again();
  }

  async #load() {
    if (this.scope.signal.aborted) return;
    try {
      this.take(await get(withQuery(this.context.feed.path(this.#name), { at: this.#at }), this.scope.signal));
    } catch (error) {
      if (error.name !== "AbortError") replace(this.root, errorBox(error, () => this.#load()));
    }
  }
}
