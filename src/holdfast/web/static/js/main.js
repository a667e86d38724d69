// The frame of the page: session, top bar, and which view stands in it. The views know nothing of each other.
import { setReadOnly } from "./actions.js";
import { openSession } from "./api.js";
import { announce, emptyBox, errorBox, menuButton } from "./dialogs.js";
import { h, replace, set, setText, show } from "./dom.js";
import { refreshTimes } from "./format.js";
import { mountHome } from "./home.js";
import { icon } from "./icons.js";
import { moveFocus, openSheet, setKeys, startKeys } from "./keys.js";
import { mountNewRun } from "./new_run.js";
import { applyPreferences, isDark, prefer, preference } from "./preferences.js";
import { go, link, startRouter } from "./router.js";
import { mountRun } from "./run.js";
import { Overview } from "./store.js";

const TIMES_MS = 5000;
const STATES = { live: "live", reconnecting: "reconnecting…", refused: "signed out" };

const app = { overview: null, setConnection, setCrumbs };
const main = document.getElementById("main");
const crumbs = h("nav", { class: "crumbs", "aria-label": "Where you are" });
const inboxLink = h("a", { class: "inbox-link", href: "/" });
const connection = h("span", { class: "connection", role: "status" });
let mounted = null;

applyPreferences();
drawTopbar();
start();

async function start() {
  try {
    await openSession();
  } catch (error) {
    error.hint = "Open the link that `holdfast serve` printed. Each start has a link of its own.";
    replace(main, h("div", { class: "page" }, errorBox(error)));
    return;
  }
  app.overview = new Overview(setConnection);
  app.overview.subscribe(drawInboxCount);
  startKeys(() => go({ name: "home" }));
  setInterval(() => document.hidden || refreshTimes(), TIMES_MS);
  document.addEventListener("visibilitychange", () => document.hidden || refreshTimes());
  startRouter(showRoute);
}

/** Show the view of a place. One that is shown already only hears of the new place. */
function showRoute(route) {
  const key = [route.name, route.repository, route.run].join(" ");
  if (mounted?.key === key) return mounted.view.show(route);
  mounted?.view.end();
  setKeys(listKeys);
  setCrumbs([]);
  const first = mounted === null;
  mounted = { key, view: mountView(route) };
  scrollTo(0, 0);
  if (!first) main.focus();
}

function mountView(route) {
  if (route.name !== "home") app.overview.follow(false);
  if (route.name === "home") return mountHome(main, app);
  if (route.name === "run") return mountRun(main, app, route);
  if (route.name === "new") return mountNewRun(main, app, route);
  const back = h("a", { class: "button", href: "/" }, "Go to the first page");
  replace(main, h("div", { class: "page" }, emptyBox("There is nothing at this address.", back)));
  return { show: () => {}, end: () => {} };
}

const listKeys = {
  next: () => moveFocus(main, 1),
  previous: () => moveFocus(main, -1),
  actions: () => document.activeElement?.closest("[data-item], .inbox-card")?.querySelector("[aria-haspopup]")?.click(),
};

function drawTopbar() {
  const brand = h("a", { class: "brand", href: "/", "aria-label": "Holdfast, home" }, icon("anchor"), h("span", {}, "Holdfast"));
  const help = h("button", { class: "icon-button", type: "button", "aria-label": "Keyboard", title: "Keyboard (?)", on: { click: openSheet } }, icon("keyboard"));
  replace(document.getElementById("topbar"), brand, crumbs, h("span", { class: "spacer" }), connection, inboxLink, help, lookMenu());
  show(inboxLink, false);
  show(connection, false);
}

/** The menu of theme and density. */
function lookMenu() {
  const rows = [
    ["theme", "auto", "As the system"],
    ["theme", "light", "Light"],
    ["theme", "dark", "Dark"],
    ["density", "comfortable", "Comfortable"],
    ["density", "compact", "Compact"],
  ];
  const face = icon(isDark() ? "moon" : "sun");
  const holder = menuButton("Appearance", face, (close) => rows.map(([name, value, words]) => lookRow(name, value, words, close)));
  set(holder.firstChild, "class", "icon-button");
  return holder;
}

function lookRow(name, value, words, close) {
  const chosen = preference(name) === value;
  const row = h("button", { class: "menu-row choice", type: "button", "aria-pressed": String(chosen) }, icon(chosen ? "landed" : "minus", chosen ? "" : "unseen"), words);
  row.addEventListener("click", () => {
    prefer(name, value);
    close();
  });
  return row;
}

/** Say in the top bar how the page hears from the server. Calm: words, no colour that alarms. */
function setConnection(state) {
  show(connection, state !== "live");
  setText(connection, STATES[state] ?? state);
  set(connection, "title", state === "refused" ? "The server was started anew: open the link that it printed." : "");
}

/** Show where the page is, as links. */
function setCrumbs(parts) {
  replace(crumbs, parts.map((part) => [h("span", { class: "muted", "aria-hidden": "true" }, "/"), part.href ? h("a", { href: part.href }, part.words) : h("span", {}, part.words)]));
}

let waiting = 0;

function drawInboxCount(value) {
  if (!value) return;
  setReadOnly(value.read_only);
  const number = value.inbox.length;
  show(inboxLink, number > 0);
  replace(inboxLink, icon("person"), h("span", {}, number, h("span", { class: "wide-only" }, number === 1 ? " needs you" : " need you")));
  set(inboxLink, "href", link({ name: "home" }));
  set(inboxLink, "aria-label", number === 1 ? "1 needs you" : `${number} need you`);
  if (number > waiting) announce(number === 1 ? "One thing needs you." : `${number} things need you.`);
  waiting = number;
  document.title = document.title.replace(/^(\(\d+\) )?/, number ? `(${number}) ` : "");
}
