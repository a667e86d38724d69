// Figures over time as lines, each with the same figures as a table.
import { emptyBox } from "./dialogs.js";
import { h, replace, svg } from "./dom.js";
import { clock, compact, exactDuration, money } from "./format.js";
import { PastView } from "./past_view.js";
import { tickWords, ticks } from "./timeline_axis.js";

const RELOAD_MS = 2000;
const BOX = { width: 520, height: 200, left: 52, right: 12, top: 12, bottom: 26 };
const ROWS_SHOWN = 60;
const TITLES = { landed: "Tasks landed", tokens: "Tokens", cost_usd: "Cost", agents: "Agents at work", at_work: "Agents at work", redone: "Redone work" };

/** Show the charts in an element. */
export function mountCharts(root, context) {
  const view = new ChartsView(root, context);
  return { update: (told) => view.update(told), end: () => view.scope.end() };
}

class ChartsView extends PastView {
  constructor(root, context) {
    super(root, context, { name: "charts", words: "Adding up…", pauseMs: RELOAD_MS });
  }

  take(answer) {
    this.#draw(answer.series.filter((one) => one.points.length));
  }

  #draw(series) {
    if (!series.length) return replace(this.root, emptyBox("Nothing to count yet.", h("p", { class: "muted" }, "The lines begin with the first attempt.")));
    const open = new Set([...this.root.querySelectorAll("details[open]")].map((one) => one.dataset.series));
    const begin = Math.min(...series.map((one) => one.points[0][0]));
    const end = Math.max(...series.map((one) => one.points.at(-1)[0]), begin + 1);
    replace(this.root, h("div", { class: "charts" }, series.map((one) => chart(one, { begin, end }, open.has(one.name)))));
  }
}

function chart(series, range, isOpen) {
  const title = TITLES[series.name] ?? series.name.replaceAll("_", " ");
  const words = valueWords(series);
  const last = series.points.at(-1)[1];
  const picture = svg("svg", { class: "chart-picture", viewBox: `0 0 ${BOX.width} ${BOX.height}`, role: "img", "aria-label": `${title}: ${words(last)} at the end` });
  const top = niceTop(Math.max(...series.points.map((point) => point[1])));
  replace(picture, gridLines(top, words), timeTicks(range), line(series, range, top));
  const head = h("figcaption", { class: "chart-head" }, h("h2", {}, title), h("span", { class: "chart-now" }, words(last)));
  return h("figure", { class: "chart" }, head, picture, pointsTable(series, title, words, isOpen));
}

function valueWords(series) {
  if (series.unit === "usd" || series.name === "cost_usd") return money;
  if (series.unit === "s" || series.unit === "seconds") return exactDuration;
  return compact;
}

/** Return a round number that is not below a value. */
function niceTop(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 5, 10].map((step) => step * power).find((one) => one >= value);
}

const x = (at, range) => BOX.left + ((at - range.begin) / (range.end - range.begin)) * (BOX.width - BOX.left - BOX.right);
const y = (value, top) => BOX.height - BOX.bottom - (value / top) * (BOX.height - BOX.top - BOX.bottom);

function gridLines(top, words) {
  const whole = top < 4 && Number.isInteger(top) ? top : 4;
  return Array.from({ length: whole + 1 }, (_, index) => {
    const value = (top * index) / whole;
    const height = y(value, top);
    return [svg("line", { class: "grid", x1: BOX.left, x2: BOX.width - BOX.right, y1: height, y2: height }), svg("text", { class: "axis-text", x: BOX.left - 8, y: height + 4, "text-anchor": "end" }, words(value))];
  });
}

function timeTicks(range) {
  const { step, at } = ticks(range, 5);
  return at.map((one) => svg("text", { class: "axis-text", x: x(one, range), y: BOX.height - 8, "text-anchor": "middle" }, tickWords(one, step)));
}

/** A value holds until the next one, so the line goes in steps. */
function line(series, range, top) {
  const [first, ...rest] = series.points;
  const start = `M${x(first[0], range)} ${y(first[1], top)}`;
  const steps = rest.map(([at, value]) => `H${x(at, range).toFixed(1)}V${y(value, top).toFixed(1)}`).join("");
  const path = `${start}${steps}H${x(range.end, range)}`;
  const floor = y(0, top);
  return [svg("path", { class: "chart-area", d: `${path}V${floor}H${x(first[0], range)}Z` }), svg("path", { class: "chart-line", d: path })];
}

function pointsTable(series, title, words, isOpen) {
  const points = thinned(series.points);
  const rows = points.map(([at, value]) => h("tr", {}, h("td", {}, clock(at)), h("td", { class: "number" }, words(value))));
  const head = h("tr", {}, h("th", { scope: "col" }, "Time"), h("th", { scope: "col", class: "number" }, title));
  const table = h("table", { class: "table" }, h("caption", { class: "visually-hidden" }, title), h("thead", {}, head), h("tbody", {}, rows));
  return h("details", { open: isOpen, data: { series: series.name } }, h("summary", {}, "As a table"), h("div", { class: "table-box short", tabindex: "0", role: "region", "aria-label": `${title} as a table` }, table));
}

/** Return at most so many points, the last among them. */
function thinned(points) {
  const every = Math.ceil(points.length / ROWS_SHOWN);
  return points.filter((_, index) => (points.length - 1 - index) % every === 0);
}
