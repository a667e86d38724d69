"""Every view in both themes and at the width of a phone, judged by axe-core; nothing wider than the screen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.web.page.accessibility import missing_axe, violations
from tests.web.page.browser import DESK, PHONE, Watcher, root_of, served
from tests.web.page.shop import PaymentShop

LOOKS = {
    "light": (DESK, "light"),
    "dark": (DESK, "dark"),
    "phone": (PHONE, "light"),
    "dark phone": (PHONE, "dark"),
}
VIEWS = {
    "home": ("/", "Needs you"),
    "graph": ("{run}", "foundation"),
    "board": ("{run}/board", "Checks and merge"),
    "timeline": ("{run}/timeline", "Calls of the service"),
    "queue": ("{run}/queue", "proved by git"),
    "activity": ("{run}/activity", "attempt 1 started"),
    "charts": ("{run}/charts", "Tasks landed"),
    "recovery": ("{run}/recovery", "Resuming would"),
    "review": ("{run}/review", "cart.py"),
    "task": ("{run}?task=webhooks", "What it was asked for"),
    "stream": ("{run}?task=webhooks&panel=stream", "unknown signature scheme"),
    "diff": ("{run}?task=checkout&panel=diff", "legacy_charge"),
    "checks": ("{run}?task=client&panel=checks&attempt=1", "grep"),
    "brief": ("{run}?task=checkout&panel=brief", "Check-out pays"),
    "history": ("{run}?task=webhooks&panel=history", "attempt 1 started"),
    "past": ("{run}?at=20", "As it was at event"),
    "new run": ("/new/shop?plan=plan.json", "Start the run"),
    "nowhere": ("/r/shop/nothing", "no run"),
}


@dataclass(frozen=True, slots=True)
class ServedShop:
    """A shop whose run rests at a question and a failure, its dashboard, and the path of the run."""

    address: str
    run: str


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedShop]:
    """One run for all views: looking changes nothing."""
    made = PaymentShop.create(tmp_path_factory.mktemp("axe"))
    made.cli("run", "--yes")
    assert made.cli.run_status() == "blocked"
    with served(made.cli.here) as address:
        yield ServedShop(address, f"/r/shop/{made.cli.json('status')['run']['id']}")


@pytest.fixture(params=LOOKS)
def looked(request: pytest.FixtureRequest, browser: Browser, shop: ServedShop) -> Iterator[Page]:
    """A page in one theme and width, with a session."""
    size, scheme = LOOKS[request.param]
    watcher = Watcher(browser, size, color_scheme=scheme, reduced_motion="reduce")
    watcher.page.goto(shop.address)
    expect(watcher.page.get_by_role("heading", name="Needs you")).to_be_visible()
    yield watcher.page
    watcher.close()
    assert watcher.problems == []


@pytest.mark.skipif(bool(missing_axe()), reason=missing_axe())
def test_no_view_violates_accessibility_or_is_wider_than_the_screen(looked: Page, shop: ServedShop) -> None:
    """All views, since opening each takes longer than judging it."""
    found = {}
    for name, (path, words) in VIEWS.items():
        looked.goto(root_of(shop.address) + path.format(run=shop.run))
        expect(looked.get_by_text(words).first).to_be_attached()
        wide = looked.evaluate("document.documentElement.scrollWidth > innerWidth")
        if problems := [*violations(looked), *(["wider than the screen"] if wide else [])]:
            found[name] = problems
    assert found == {}


@pytest.mark.skipif(bool(missing_axe()), reason=missing_axe())
def test_dialogs_and_menus_violate_nothing(looked: Page, shop: ServedShop) -> None:
    """What opens over a view is judged as well."""
    looked.goto(root_of(shop.address))
    looked.get_by_role("button", name="Retry…").click()
    expect(looked.get_by_role("dialog")).to_be_visible()
    assert violations(looked) == []
    looked.keyboard.press("Escape")
    looked.get_by_role("button", name="Appearance").click()
    assert violations(looked) == []
    looked.keyboard.press("Escape")
    looked.keyboard.press("?")
    expect(looked.get_by_role("dialog", name="Keyboard")).to_be_visible()
    assert violations(looked) == []
