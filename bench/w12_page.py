"""W12: the page of a run of a thousand tasks in Chromium: how soon it is there, and what its scripts take for each change.

Times of scripts are the browser's own count of processor time. A task that lands is several changes in the page; they
count together.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.measurement import Figure, scratch
from holdfast.web.pages import STATIC

if TYPE_CHECKING:
    from playwright.sync_api import CDPSession, Page

_FIRST_PAINT_MAX_MS = 1000
_WEIGHT_MAX_KB = 300
_RENDER_MAX_MS = 500
_UPDATE_MAX_MS = 16
_SCRIPT = "ScriptDuration"
_RENDER = (_SCRIPT, "LayoutDuration", "RecalcStyleDuration")
_CARD = ".graph .card"


def missing() -> str:
    """Return why it cannot be measured here; empty if it can."""
    return "" if shutil.which("chromium") else "chromium is not installed"


def measure(*, quick: bool) -> list[Figure]:
    """Open the graph several times, unfold all of it, then let tasks land one by one."""
    tasks, landings = (50, 1) if quick else (1000, 8)
    with scratch() as folder:
        paint, render, update = _in_browser(folder, tasks, landings)
    weight = sum(path.stat().st_size for path in STATIC.rglob("*") if path.is_file()) / 1000
    size = f"{tasks} tasks"
    return [
        Figure("W12", "weight of the page", weight, "kB", bound=_WEIGHT_MAX_KB, sense="<="),
        Figure("W12", "first paint of the graph", paint, "ms", bound=_FIRST_PAINT_MAX_MS, sense="<=", note=size),
        Figure("W12", "first render: scripts, styles, layout", render, "ms", bound=_RENDER_MAX_MS, sense="<=", note=size),
        Figure("W12", "scripts when a task lands", update, "ms", bound=_UPDATE_MAX_MS, sense="<=", note=size),
    ]  # fmt: skip


def _in_browser(folder: Path, tasks: int, landings: int) -> tuple[float, float, float]:
    """Return the first paint, the first render, and the scripts of a landing, in milliseconds."""
    from playwright.sync_api import sync_playwright
    from tests.web.page.browser import Watcher, launch, root_of, served
    from tests.web.page.large_run import large_run

    cli, gate = large_run(folder, tasks)
    run = cli.json("status")["run"]["id"]
    with served(cli.here) as address, sync_playwright() as playwright:
        browser = launch(playwright)
        page = Watcher(browser).page
        page.goto(address)
        page.get_by_role("heading", name="Runs").wait_for()
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        opened = [_open(page, session, f"{root_of(address)}/r/p/{run}") for _ in range(3)]
        page.get_by_role("button", name="Fold or unfold all stages").click()
        page.get_by_role("button", name="Fold or unfold all stages").click()
        took = []
        for number in range(landings):
            before = _metrics(session)[_SCRIPT]
            gate.release()
            page.get_by_text(f"{number + 1} of {tasks}").first.wait_for()
            page.wait_for_function("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
            took.append(_metrics(session)[_SCRIPT] - before)
        browser.close()
    cli("stop")
    return median(one[0] for one in opened), median(one[1] for one in opened) * 1000, median(took) * 1000


def _open(page: Page, session: CDPSession, address: str) -> tuple[float, float]:
    """Open the graph; return when something was painted first, in milliseconds, and the seconds of its render."""
    page.goto("about:blank")
    before = _metrics(session)
    page.goto(address)
    page.locator(_CARD).first.wait_for(state="attached")
    page.wait_for_function("performance.getEntriesByType('paint').length > 0")
    after = _metrics(session)
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    return float(paint), sum(after[name] - before[name] for name in _RENDER)


def _metrics(session: CDPSession) -> dict[str, float]:
    return {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
