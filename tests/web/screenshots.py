"""`python -m tests.web.screenshots`: the pictures of docs/dashboard.md, taken of a real run in a real browser."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

import tests.conftest  # noqa: F401  # its gates are outside of any sandbox
from tests.support.command import writes
from tests.support.runs import DEADLINE_S
from tests.web.page.browser import DESK, PHONE, Watcher, launch, missing_browser, root_of, served
from tests.web.page.shop import PaymentShop

IMAGES = Path(__file__).parents[2] / "docs" / "images"


class Photographer:
    """Opens places of a dashboard in one theme and width, and keeps pictures of them."""

    def __init__(self, browser: Browser, address: str, size: dict[str, int], scheme: str) -> None:
        self._watcher = Watcher(browser, size, color_scheme=scheme, reduced_motion="reduce")
        self._root = root_of(address)
        self._page.goto(address)
        expect(self._page.get_by_role("heading", name="Needs you")).to_be_visible()

    @property
    def _page(self) -> Page:
        return self._watcher.page

    def take(self, name: str, path: str, ready: Callable[[Page], object]) -> None:
        """Take a picture of a place once it is ready."""
        self._page.goto(self._root + path)
        ready(self._page)
        self._page.screenshot(path=IMAGES / f"dashboard-{name}.png")

    def close(self) -> None:
        """Close the page."""
        self._watcher.close()
        assert self._watcher.problems == []


def _sees(*words: str) -> Callable[[Page], object]:
    """Return what waits until all of these words are there: some of them may be behind a panel."""

    def wait(page: Page) -> None:
        for one in words:
            expect(page.get_by_text(one).first).to_be_attached()

    return wait


def _take_all(browser: Browser, address: str, run: str) -> None:
    """Take what a run under way looks like, in both themes and on a phone."""
    views = {
        "home": ("/", _sees("Refund to the card")),
        "graph": (f"{run}?task=webhooks", _sees("Receipts by mail")),
        "board": (f"{run}/board", _sees("Receipts by mail")),
        "timeline": (f"{run}/timeline", _sees("implementation")),
        "diff": (f"{run}/review?task=checkout&panel=diff", _sees("client.charge", "7 tasks")),
    }
    looks = {"": (DESK, "light"), "-dark": (DESK, "dark"), "-phone": (PHONE, "light")}
    for suffix, (size, scheme) in looks.items():
        camera = Photographer(browser, address, size, scheme)
        for name, (path, ready) in views.items():
            camera.take(
                name + suffix, path if size is DESK or name == "diff" else path.partition("?")[0], ready
            )
        camera.close()


def _take_recovery(browser: Browser, address: str, run: str) -> None:
    """Take what a run looks like whose runner was killed."""
    for suffix, scheme in (("", "light"), ("-dark", "dark")):
        camera = Photographer(browser, address, DESK, scheme)
        camera.take(f"recovery{suffix}", f"{run}/recovery", _sees("Resuming would"))
        camera.close()


def _shop_with_history(folder: Path) -> PaymentShop:
    """Make a shop whose earlier run has landed and whose present one is held at one task."""
    shop = PaymentShop.create(folder, "receipts")
    shop.cli.plan(
        writes("index"), writes("page", needs=["index"]), name="search.json", goal="Search the catalogue"
    )
    assert shop.cli("run", "search.json", "--yes").code == 0
    assert shop.cli("land", "--yes").code == 0
    shop.start()
    shop.wait_for("webhooks", "abandoned")
    shop.wait_for("receipts", "running")
    shop.wait_for("checkout", "completed")
    return shop


def main() -> None:
    """Write all pictures to docs/images."""
    if missing := missing_browser():
        raise SystemExit(missing)
    expect.set_options(timeout=DEADLINE_S * 1000)
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        shop, browser = _shop_with_history(Path(folder)), launch(playwright)
        run = f"/r/shop/{shop.cli.json('status')['run']['id']}"
        with served(shop.cli.here) as address:
            _take_all(browser, address, run)
            os.kill(shop.runner(), signal.SIGKILL)
            _take_recovery(browser, address, run)
        shop.release("receipts")
        browser.close()


if __name__ == "__main__":
    main()
