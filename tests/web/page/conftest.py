"""A browser and a served dashboard for the tests of the page. Where there is no Chromium they are skipped, and say so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.support.runs import DEADLINE_S
from tests.web.page.browser import Watcher, launch, missing_browser

expect.set_options(timeout=DEADLINE_S * 1000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for the tests of a module: while it is open, its event loop is the only one of the process."""
    if missing := missing_browser():
        pytest.skip(missing)
    with sync_playwright() as playwright:
        started = launch(playwright)
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of its own, with its own cookies. It may say nothing wrong on its console and load nothing from elsewhere."""
    watcher = Watcher(browser)
    yield watcher.page
    watcher.close()
    assert watcher.problems == []
