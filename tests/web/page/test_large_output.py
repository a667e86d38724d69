"""Much of everything: a page that shows it stays small, however long a difference or a log is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.command import Cli
from tests.web.page.browser import root_of, served

LINES = 10_000
DRAWN_MAX = 2_000


@pytest.fixture
def task(tmp_path: Path, page: Page) -> Iterator[str]:
    """The address of a task whose agent printed ten thousand lines and wrote as many; the page has a session."""
    script = f"seq {LINES} > big.txt; seq {LINES}"
    cli = Cli.of(tmp_path / "p", {"id": "big", "run": ["sh", "-c", script]})
    assert cli("run", "--yes").code == 0
    with served(cli.here) as address:
        page.goto(address)
        expect(page.get_by_role("heading", name="Needs you (1)")).to_be_visible()
        yield f"{root_of(address)}/r/p/{cli.json('status')['run']['id']}?task=big"


def test_a_long_difference_is_drawn_where_one_looks(task: str, page: Page) -> None:
    """Its end can be reached, and what was left behind is let go."""
    page.goto(f"{task}&panel=diff")
    expect(page.get_by_text(f"+{LINES}").first).to_be_visible()
    expect(page.locator(".diff .line").first).to_be_visible()
    assert page.locator(".diff .line").count() < DRAWN_MAX
    page.locator(".panel-body").evaluate("node => node.scrollTo(0, node.scrollHeight)")
    expect(page.locator(".diff .line").last).to_contain_text(str(LINES))
    assert page.locator(".diff .line").count() < DRAWN_MAX


def test_a_long_log_keeps_its_end(task: str, page: Page) -> None:
    """The newest lines are there and in sight; the page says that earlier ones are left out."""
    page.goto(f"{task}&panel=stream")
    expect(page.get_by_text("The attempt is over.")).to_be_visible()
    assert page.locator(".log-entry").count() < DRAWN_MAX
    expect(page.locator(".log-entry").last).to_contain_text(str(LINES))
    expect(page.get_by_text("Earlier lines are left out")).to_be_attached()
