// Our own icons: sixteen by sixteen, drawn with the colour of the text beside them.
import { svg } from "./dom.js";

const PATHS = {
  anchor: "M8 5.5V14M8 5.5a2 2 0 1 0 0-4 2 2 0 0 0 0 4ZM5 7.5h6M2.5 9.5c0 2.8 2.4 4.5 5.5 4.5s5.5-1.7 5.5-4.5",
  landed: "M2.8 8.4l3.4 3.4 7-7.6",
  work: "M8 2v2.2M8 11.8V14M2 8h2.2M11.8 8H14M3.8 3.8l1.5 1.5M10.7 10.7l1.5 1.5M12.2 3.8l-1.5 1.5M5.3 10.7l-1.5 1.5",
  check: "M3 4.2h6M3 8h4M3 11.8h4M9.2 10.4l1.8 1.8 3-3.4",
  merge: "M4.5 5.5v5M4.5 5.5a1.6 1.6 0 1 0 0-3.2 1.6 1.6 0 0 0 0 3.2ZM4.5 13.7a1.6 1.6 0 1 0 0-3.2 1.6 1.6 0 0 0 0 3.2ZM11.5 9.7a1.6 1.6 0 1 0 0-3.2 1.6 1.6 0 0 0 0 3.2ZM4.6 5.6c.4 2 2.4 2.6 5.2 2.6",
  wait: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 4.8V8l2.2 1.6",
  limit: "M4 2h8M4 14h8M5 2c0 3.6 6 3.6 6 6s-6 2.400-6 6M11 2c0 3.600-6 3.600-6 6s6 2.400 6 6",
  person: "M8 8a2.700 2.700 0 1 0 0-5.400A2.700 2.700 0 0 0 8 8ZM2.800 14c.4-2.700 2.400-4 5.200-4s4.800 1.300 5.200 4",
  question: "M5.600 6c0-1.500 1-2.600 2.500-2.600S10.500 4.400 10.500 5.700c0 1.900-2.400 2-2.400 4M8.050 12.600v.1",
  failed: "M4 4l8 8M12 4l-8 8",
  stopped: "M4.500 4.500h7v7h-7Z",
  paused: "M5.500 3.500v9M10.500 3.500v9",
  interrupted: "M9 1.800L3.500 9H8l-1 5.200L12.500 7H8Z",
  skipped: "M3.500 3.500L8 8l-4.500 4.500M8.500 3.500L13 8l-4.500 4.500",
  blocked: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM3.800 3.800l8.400 8.400",
  search: "M7 11.500a4.500 4.500 0 1 0 0-9 4.500 4.500 0 0 0 0 9ZM10.400 10.400L14 14",
  copy: "M5.500 5.500h8v8h-8ZM10.500 5.500v-3h-8v8h3",
  close: "M4 4l8 8M12 4l-8 8",
  more: "M3.500 8h.1M8 8h.1M12.500 8h.1",
  down: "M4 6.200L8 10.200l4-4",
  right: "M6.200 4l4 4-4 4",
  left: "M9.800 4l-4 4 4 4",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  fit: "M2.500 6V2.500H6M10 2.500h3.500V6M13.500 10v3.500H10M6 13.500H2.500V10",
  sun: "M8 10.800a2.800 2.800 0 1 0 0-5.600 2.800 2.800 0 0 0 0 5.600ZM8 1.500v1.300M8 13.200v1.300M1.500 8h1.300M13.200 8h1.300M3.400 3.400l.9.9M11.700 11.700l.9.9M12.600 3.400l-.9.9M4.300 11.700l-.9.9",
  moon: "M13.300 9.600A5.800 5.800 0 0 1 6.400 2.700a5.800 5.800 0 1 0 6.900 6.900Z",
  rows: "M2.500 4h11M2.500 8h11M2.500 12h11",
  keyboard: "M1.500 4h13v8.500h-13ZM4 6.800h.1M6.700 6.800h.1M9.300 6.800h.1M12 6.800h.1M5 9.800h6",
  history: "M3 8a5.200 5.200 0 1 0 1.600-3.700L2.600 6.100M2.500 2.800v3.400h3.400M8 5.200V8l2 1.400",
  branch: "M4.500 5.300v5.400M4.500 5.300a1.600 1.600 0 1 0 0-3.200 1.600 1.600 0 0 0 0 3.200ZM4.500 13.900a1.600 1.600 0 1 0 0-3.200 1.600 1.600 0 0 0 0 3.200ZM11.500 5.900a1.600 1.600 0 1 0 0-3.200 1.600 1.600 0 0 0 0 3.200ZM11.500 6c0 2.600-7 2-7 4.700",
  shield: "M8 1.800l5 1.900v4c0 3.300-2.100 5.300-5 6.500-2.900-1.200-5-3.200-5-6.500v-4Z",
  file: "M4 1.800h5l3 3v9.400H4ZM9 1.800v3h3",
  warning: "M8 2.200l6.200 11.300H1.800ZM8 6.500v3.300M8 11.700v.1",
  rocket: "M2.500 8h8M7.500 4.500L11 8l-3.500 3.500M13.500 3v10",
};

/** Return an icon. It says nothing to a screen reader: the words beside it do. */
export function icon(name, extra = "") {
  return svg(
    "svg",
    { class: `icon ${extra}`, viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" },
    svg("path", { d: PATHS[name] ?? PATHS.wait }),
  );
}

/** Point an icon to another drawing. */
export function setIcon(node, name) {
  const wanted = PATHS[name] ?? PATHS.wait;
  const path = node.firstChild;
  if (path.getAttribute("d") !== wanted) path.setAttribute("d", wanted);
}
