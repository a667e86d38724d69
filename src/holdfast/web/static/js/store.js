// What the page knows: the overview of all runs, and one run that is followed live. Views subscribe; nothing here draws.
import { Stream, address, get, runAddress, withQuery } from "./api.js";

const OVERVIEW_PAUSE_MS = 20000;
const EVENTS_KEPT = 400;

/** Functions that are told of changes. */
class Listeners {
  #all = new Set();

  add(listener) {
    this.#all.add(listener);
    return () => this.#all.delete(listener);
  }

  tell(...what) {
    for (const listener of [...this.#all]) listener(...what);
  }
}

/** All runs of all repositories, and what waits for a person. Streamed while it is shown, asked for now and then otherwise. */
export class Overview {
  #listeners = new Listeners();
  #stream = null;
  #timer = 0;
  value = null;
  error = null;

  constructor(onState) {
    this.onState = onState;
  }

  subscribe(listener) {
    return this.#listeners.add(listener);
  }

  /** Follow it live, as the home page does, or ask for it every now and then. */
  follow(live) {
    clearInterval(this.#timer);
    this.#stream?.close();
    this.#stream = null;
    if (live) {
      this.#stream = new Stream(() => address("stream"), { overview: (value) => this.#take(value) }, this.onState);
    } else {
      this.#timer = setInterval(() => this.load(), OVERVIEW_PAUSE_MS);
    }
    if (!live || !this.value) this.load();
  }

  async load() {
    try {
      this.#take(await get(address("overview")));
    } catch (error) {
      this.error = error;
      this.#listeners.tell(this.value, error);
    }
  }

  #take(value) {
    this.value = value;
    this.error = null;
    this.#listeners.tell(value, null);
  }
}

/** One run as it is shown: its status with tasks by name, what is possible now, and its plan. */
export class Model {
  constructor(answer, plan) {
    this.plan = plan;
    this.tasks = new Map();
    this.stages = new Map();
    this.take(answer);
  }

  take(answer) {
    this.seq = answer.seq;
    this.lastSeq = answer.last_seq ?? answer.seq;
    this.status = answer.status;
    this.actions = answer.actions ?? [];
    this.next = answer.next ?? null;
    this.estimate = answer.estimate ?? {};
    this.inbox = answer.inbox ?? [];
    this.tasks = new Map(answer.status.tasks.map((task) => [task.id, task]));
    this.stages = new Map(answer.status.stages.map((stage) => [stage.id, stage]));
    this.#index();
  }

  /** Take in what changed; return the names of the tasks that look different now. */
  merge(change) {
    const before = new Set(this.needs.keys());
    this.seq = change.seq;
    this.lastSeq = Math.max(this.lastSeq, change.last_seq ?? change.seq);
    for (const part of ["run", "merge_queue", "metrics", "needs_you", "providers", "agents", "way_out"]) {
      if (change[part] !== undefined) this.status[part] = change[part];
    }
    for (const stage of change.stages ?? []) this.stages.set(stage.id, stage);
    for (const task of change.tasks ?? []) this.tasks.set(task.id, task);
    this.status.stages = [...this.stages.values()];
    this.status.tasks = [...this.tasks.values()];
    for (const part of ["actions", "next", "estimate", "inbox"]) if (change[part] !== undefined) this[part] = change[part];
    this.#index();
    const changed = new Set((change.tasks ?? []).map((task) => task.id));
    for (const name of [...before, ...this.needs.keys()]) if (before.has(name) !== this.needs.has(name)) changed.add(name);
    if (change.merge_queue !== undefined) for (const place of change.merge_queue) if (place.status !== "merged") changed.add(place.task);
    this.#addWaiting(changed);
    return changed;
  }

  /** Add the tasks whose words depend on others that changed: those that need them. */
  #addWaiting(changed) {
    for (const name of [...changed]) for (const one of this.plan?.dependents.get(name) ?? []) changed.add(one);
  }

  #index() {
    this.needs = new Map((this.status.needs_you ?? []).map((need) => [need.task, need]));
  }

  title(task) {
    return this.plan?.titles.get(task) || task;
  }
}

/** The plan of a run, from its graph: titles, needs, and the critical path. */
function planOf(graph) {
  const needs = new Map();
  const dependents = new Map();
  for (const edge of graph.edges) {
    if (edge.kind === "stage") continue;
    needs.set(edge.target, [...(needs.get(edge.target) ?? []), edge.source]);
    dependents.set(edge.source, [...(dependents.get(edge.source) ?? []), edge.target]);
  }
  return { graph, needs, dependents, critical: new Set(graph.critical), titles: new Map(graph.nodes.map((node) => [node.task, node.title])) };
}

/** A run that is followed live. Changes are told once per frame, with the tasks that changed and the new events. */
export class RunFeed {
  #listeners = new Listeners();
  #stream = null;
  #ended = false;
  #changed = new Set();
  #events = [];
  #all = false;
  #frame = 0;
  #abort = new AbortController();
  #onState;
  live = null;
  past = null;
  plan = null;
  error = null;
  events = [];
  lastEvent = 0;

  constructor(repository, run, onState) {
    this.repository = repository;
    this.run = run;
    this.#onState = onState;
    const after = () => withQuery(this.path("stream"), { after: this.lastEvent || null });
    this.#stream = new Stream(
      after,
      { status: (answer) => this.#status(answer), change: (change) => this.#change(change), gone: () => this.#gone(), trouble: (said) => this.#fail(Object.assign(new Error(said.error), said)) },
      onState,
    );
    this.#firstLook();
  }

  path(...names) {
    return runAddress(this.repository, this.run, ...names);
  }

  subscribe(listener) {
    return this.#listeners.add(listener);
  }

  /** The run as the page shows it: as it was at an event, or as it is now. */
  get shown() {
    return this.past ?? this.live;
  }

  async #firstLook() {
    try {
      await this.loadPlan();
      if (!this.live && !this.#ended) this.#status(await get(this.path(), this.#abort.signal));
    } catch (error) {
      if (error.name === "AbortError" || this.live) return;
      if (error.status === 404) this.#unknown();
      this.#fail(error);
    }
  }

  /** There is no such run, so nothing more will be heard of it. */
  #unknown() {
    this.#stream.finish();
    this.#onState("live");
  }

  async loadPlan() {
    this.plan = planOf(await get(this.path("graph"), this.#abort.signal));
    for (const model of [this.live, this.past]) if (model) model.plan = this.plan;
    this.#later({ all: true });
  }

  /** Show the run as it was at an event; null is now. */
  async travel(seq) {
    if (!seq) this.past = null;
    else {
      const answer = await get(withQuery(this.path(), { at: seq }), this.#abort.signal);
      this.past = new Model(answer, this.plan);
    }
    this.#later({ all: true });
  }

  #status(answer) {
    const names = this.live ? [...this.live.tasks.keys()].join("\n") : null;
    this.error = null;
    if (this.live) this.live.take(answer);
    else this.live = new Model(answer, this.plan);
    if (names !== null && names !== [...this.live.tasks.keys()].join("\n")) this.loadPlan().catch(() => {});
    this.#later({ all: true, events: answer.events ?? [] });
  }

  #change(change) {
    if (!this.live) return;
    const isAmended = (change.tasks ?? []).some((task) => !this.live.tasks.has(task.id));
    const changed = this.live.merge(change);
    this.error = null;
    if (isAmended) this.loadPlan().catch(() => {});
    this.#later({ changed, events: change.events ?? [] });
  }

  #gone() {
    this.#stream.finish();
    this.#fail(Object.assign(new Error("This run is no longer recorded here."), { hint: "`holdfast list` shows the runs that are." }));
  }

  #fail(error) {
    this.error = error;
    this.#listeners.tell({ all: true, tasks: null, events: [] });
  }

  /** Gather changes until the next frame. A page that nobody sees has no frames, so a timer stands in. */
  #later({ all = false, changed = [], events = [] }) {
    this.#all ||= all;
    for (const name of changed) this.#changed.add(name);
    for (const event of events) {
      if (event.seq <= this.lastEvent) continue;
      this.lastEvent = event.seq;
      this.#events.push(event);
    }
    if (this.live) this.lastEvent = Math.max(this.lastEvent, this.live.seq);
    if (this.#frame) return;
    this.#frame = 1;
    if (document.hidden) setTimeout(() => this.#tell(), 250);
    else requestAnimationFrame(() => this.#tell());
  }

  #tell() {
    this.#frame = 0;
    if (this.#ended) return;
    const told = { all: this.#all || this.past !== null, tasks: this.#all ? null : this.#changed, events: this.#events };
    this.events = [...this.events, ...this.#events].slice(-EVENTS_KEPT);
    this.#changed = new Set();
    this.#events = [];
    this.#all = false;
    this.#listeners.tell(told);
  }

  end() {
    this.#ended = true;
    this.#abort.abort();
    this.#stream.close();
  }
}
