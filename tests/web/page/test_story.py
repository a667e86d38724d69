"""The story of a run in the browser, from its plan to its landing: everything by clicks, on a real run with real processes."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.support.command import eventually
from tests.web.page.browser import root_of, served
from tests.web.page.shop import PaymentShop


def test_a_run_is_started_watched_killed_recovered_answered_retried_and_landed(
    tmp_path: Path, page: Page
) -> None:
    """Whoever comes back after hours needs nothing but the page."""
    shop = PaymentShop.create(tmp_path, "receipts")
    with served(shop.cli.here) as address:
        page.goto(address)
        assert "token" not in page.url
        _start_from_plan(page)
        _watch(page)
        _kill_and_recover(page, shop)
        _answer_and_retry(page, root_of(address))
        shop.release("receipts")
        _land(page)
    _assert_landed(shop)


def _start_from_plan(page: Page) -> None:
    """What would run is shown before it does."""
    expect(page.get_by_text("No runs yet.")).to_be_visible()
    page.get_by_role("link", name="New run").click()
    page.get_by_role("link", name="plan.json").click()
    expect(page.get_by_role("heading", name="Move the shop to the new payment service")).to_be_visible()
    expect(page.get_by_text("Tables for payments and refunds")).to_be_visible()
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url("**/r/shop/01-*")


def _watch(page: Page) -> None:
    """Each card says what its task waits for, or does."""
    header = page.get_by_role("region", name="The run")
    expect(header.get_by_text("running", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name=re.compile("Refunds.*asks you"))).to_be_visible()
    expect(page.get_by_role("link", name=re.compile("Calls of the service.*gave up"))).to_be_visible()
    expect(header.get_by_text("3 of 7")).to_be_visible()
    expect(header.get_by_text("proved by git")).to_be_visible()
    page.get_by_role("link", name=re.compile("Receipts by mail.*at work")).click()
    panel = page.get_by_role("complementary", name="Task")
    panel.get_by_role("link", name="Stream").click()
    expect(panel.get_by_text("I run the slow tests before I say so.").last).to_be_visible()


def _kill_and_recover(page: Page, shop: PaymentShop) -> None:
    os.kill(shop.runner(), signal.SIGKILL)
    header = page.get_by_role("region", name="The run")
    expect(header.get_by_text("interrupted", exact=True)).to_be_visible()
    expect(header).to_contain_text("its runner is gone (crash)")
    page.get_by_role("link", name="Recovery").click()
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="Receipts by mail"))
    expect(row).to_contain_text("re-attach")
    page.get_by_role("listitem").get_by_role("button", name="Resume").click()
    expect(header.get_by_text("running", exact=True)).to_be_visible()


def _answer_and_retry(page: Page, root: str) -> None:
    """The inbox has both, each with its buttons."""
    page.goto(root)
    expect(page.get_by_role("heading", name="Needs you (2)")).to_be_visible()
    page.get_by_role("button", name="To the card").click()
    expect(page.get_by_role("heading", name="Needs you (1)")).to_be_visible()
    page.get_by_role("button", name="Retry…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("holdfast retry")).to_be_visible()
    dialog.get_by_label("What the next agent should know").fill("--signatures are an HMAC of the body")
    dialog.get_by_role("button", name="Retry", exact=True).click()
    expect(page.get_by_text("Nothing waits for you.")).to_be_visible()


def _land(page: Page) -> None:
    card = page.get_by_role("listitem").filter(has_text="Ready to land")
    expect(card).to_be_visible()
    card.get_by_role("button", name="Review").click()
    page.get_by_role("button", name="shop/webhooks.py").click()
    expect(page.get_by_role("region", name="Changes of shop/webhooks.py")).to_contain_text("signature")
    page.get_by_role("region", name="The result").get_by_role("button", name="Land…").click()
    page.get_by_role("dialog").get_by_role("button", name="Land", exact=True).click()
    expect(page.get_by_text("Its result is in main, proved by git.")).to_be_visible()


def _assert_landed(shop: PaymentShop) -> None:
    """What the page said is so: git has it, the hint and the answer reached their agents."""
    files = shop.cli.project.git("ls-tree", "-r", "--name-only", "main")
    assert {"shop/webhooks.py", "shop/refunds.py", "shop/receipts.py"} <= set(files.split())
    (task,) = shop.cli.json("inspect", "refunds")["tasks"]
    assert [one["answer"] for one in task["questions"]] == ["To the card"]
    eventually(lambda: shop.cli.run_status() == "completed", "the run is completed")
