// Deep links: every place of the page has an address, and the back button works.

export const TABS = ["graph", "board", "timeline", "queue", "activity", "charts", "recovery", "review"];
export const PANELS = ["now", "stream", "diff", "checks", "brief", "history"];

/** Return where an address leads. */
export function parse(url) {
  const [kind, ...names] = url.pathname.split("/").filter(Boolean).map(decodeURIComponent);
  const query = url.searchParams;
  if (kind === "r" && names.length >= 2) {
    return {
      name: "run",
      repository: names[0],
      run: names[1],
      tab: TABS.includes(names[2]) ? names[2] : "graph",
      task: query.get("task"),
      panel: PANELS.includes(query.get("panel")) ? query.get("panel") : "now",
      attempt: Number(query.get("attempt")) || null,
      at: Number(query.get("at")) || null,
    };
  }
  if (kind === "new" && names.length >= 1) return { name: "new", repository: names[0], plan: query.get("plan") };
  if (kind === undefined) return { name: "home" };
  return { name: "nowhere" };
}

/** Return the address of a place. */
export function link(route) {
  if (route.name === "new") return withParameters(`/new/${encodeURIComponent(route.repository)}`, { plan: route.plan });
  if (route.name !== "run") return "/";
  const base = `/r/${encodeURIComponent(route.repository)}/${encodeURIComponent(route.run)}`;
  const tab = !route.tab || route.tab === "graph" ? base : `${base}/${route.tab}`;
  const panel = route.task && route.panel !== "now" ? route.panel : null;
  return withParameters(tab, { task: route.task, panel, attempt: route.task && route.attempt, at: route.at });
}

function withParameters(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value);
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

let follow = () => {};

/** Call a function with the place of the page now, and whenever it changes. */
export function startRouter(onRoute) {
  follow = () => onRoute(here());
  window.addEventListener("popstate", follow);
  document.addEventListener("click", followLink);
  follow();
}

/** Return the place that the page is at. */
export const here = () => parse(new URL(location.href));

/** Go to a place. `replace` leaves no step for the back button. */
export function go(route, { replace = false } = {}) {
  const target = link(route);
  if (target === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", target);
  follow();
}

function followLink(event) {
  const anchor = event.target instanceof Element ? event.target.closest("a[href]") : null;
  if (!anchor || event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || anchor.hasAttribute("download")) return;
  const url = new URL(anchor.getAttribute("href"), location.href);
  if (url.origin !== location.origin || url.hash || url.pathname.startsWith("/static/")) return;
  event.preventDefault();
  history.pushState(null, "", url.pathname + url.search);
  follow();
}
