// What a person chose for this browser: theme, density, the look of diffs. Kept in the browser, sent nowhere.

const DEFAULTS = { theme: "auto", density: "comfortable", diff: "unified" };
const PREFIX = "holdfast.";

/** Return a choice. */
export function preference(name) {
  try {
    return localStorage.getItem(PREFIX + name) ?? DEFAULTS[name];
  } catch {
    return DEFAULTS[name];
  }
}

/** Keep a choice and let the page follow it. */
export function prefer(name, value) {
  try {
    localStorage.setItem(PREFIX + name, value);
  } catch {
    // A browser that keeps nothing still shows the choice until it is closed.
  }
  applyPreferences({ [name]: value });
}

/** Put theme and density on the root element, where the style sheets look for them. */
export function applyPreferences(chosen = {}) {
  const root = document.documentElement;
  root.dataset.theme = chosen.theme ?? preference("theme");
  root.dataset.density = chosen.density ?? preference("density");
}

/** Tell whether the page is dark now. */
export function isDark() {
  const theme = document.documentElement.dataset.theme;
  return theme === "dark" || (theme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
}
