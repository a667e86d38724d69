"""The main path without a mouse: from what needs a person to the task, its actions, and back."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.web.page.browser import root_of, served
from tests.web.page.shop import PaymentShop


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PaymentShop, str]]:
    """A run that rests at a question and a failure, and its dashboard."""
    made = PaymentShop.create(tmp_path_factory.mktemp("keys"))
    made.cli("run", "--yes")
    assert made.cli.run_status() == "blocked"
    with served(made.cli.here) as address:
        yield made, address


@pytest.fixture
def home(page: Page, shop: tuple[PaymentShop, str]) -> Page:
    """The first page with a session."""
    page.goto(shop[1])
    expect(page.get_by_role("heading", name="Needs you (2)")).to_be_visible()
    return page


@pytest.fixture
def run_page(home: Page, shop: tuple[PaymentShop, str]) -> Page:
    """The page of the run."""
    run = shop[0].cli.json("status")["run"]["id"]
    home.goto(f"{root_of(shop[1])}/r/shop/{run}")
    expect(home.get_by_role("link", name=re.compile("Refunds.*asks you"))).to_be_visible()
    return home


def test_j_and_enter_lead_from_the_inbox_to_the_task(home: Page) -> None:
    """Focus is where one sees it, and the browser follows the link."""
    home.keyboard.press("j")
    expect(home.get_by_role("link", name="refunds", exact=True)).to_be_focused()
    home.keyboard.press("Enter")
    panel = home.get_by_role("complementary", name="Task")
    expect(panel.get_by_role("heading", name="Refunds")).to_be_focused()
    assert home.url.endswith("?task=refunds")


def test_escape_closes_the_panel_and_gives_focus_back(run_page: Page) -> None:
    """Whoever looked at a card is there again."""
    card = run_page.get_by_role("link", name=re.compile("Refunds.*asks you"))
    card.focus()
    run_page.keyboard.press("Enter")
    expect(run_page.get_by_role("heading", name="Refunds")).to_be_focused()
    run_page.keyboard.press("Escape")
    expect(run_page.get_by_role("complementary", name="Task")).to_be_hidden()
    expect(card).to_be_focused()


def test_the_selected_task_stays_across_tabs(run_page: Page) -> None:
    """`j` selects tasks in plan order, `g` and a letter changes the tab."""
    run_page.keyboard.press("j")
    run_page.keyboard.press("j")
    panel = run_page.get_by_role("complementary", name="Task")
    expect(panel.get_by_role("heading", name="A client of the payment service")).to_be_visible()
    run_page.keyboard.press("g")
    run_page.keyboard.press("b")
    expect(run_page.get_by_role("region", name="Tasks by status")).to_be_visible()
    expect(panel.get_by_role("heading", name="A client of the payment service")).to_be_visible()
    assert run_page.url.endswith("/board?task=client")


def test_a_dot_opens_the_actions_of_the_task(run_page: Page) -> None:
    """Each has the command that it stands for."""
    for _ in range(6):
        run_page.keyboard.press("j")
    expect(run_page.get_by_role("heading", name="Calls of the service are verified")).to_be_visible()
    expect(run_page.get_by_role("button", name="Actions of the task")).to_be_visible()
    run_page.keyboard.press(".")
    menu = run_page.get_by_role("group", name="Actions of the task")
    expect(menu.get_by_text(re.compile("holdfast skip .* webhooks"))).to_be_visible()
    run_page.keyboard.press("Escape")
    expect(menu).to_be_hidden()


def test_a_slash_searches_and_escape_leaves_the_field(run_page: Page) -> None:
    """Cards that do not match fade; Enter opens the first one that does."""
    run_page.keyboard.press("/")
    expect(run_page.get_by_role("searchbox", name="Find a task")).to_be_focused()
    run_page.keyboard.type("receipt")
    expect(run_page.locator(".card.faded")).to_have_count(6)
    run_page.keyboard.press("Enter")
    expect(run_page.get_by_role("complementary", name="Task")).to_contain_text("Receipts by mail")


def test_a_question_mark_shows_all_keys(home: Page) -> None:
    """The sheet is a dialog: Esc closes it."""
    home.keyboard.press("?")
    sheet = home.get_by_role("dialog", name="Keyboard")
    expect(sheet.get_by_text("timeline")).to_be_visible()
    home.keyboard.press("Escape")
    expect(sheet).to_be_hidden()


def test_theme_and_density_are_kept(home: Page) -> None:
    """They are choices of this browser, and outlive a reload."""
    for choice in ("Dark", "Compact"):
        home.get_by_role("button", name="Appearance").click()
        home.get_by_role("button", name=choice, exact=True).click()
    home.reload()
    assert home.evaluate("({...document.documentElement.dataset})") == {"theme": "dark", "density": "compact"}


def test_the_back_button_goes_back_through_the_page(run_page: Page) -> None:
    """Tabs and tasks are steps of the history."""
    run_page.get_by_role("link", name="Board").click()
    run_page.get_by_role("link", name=re.compile("Refunds.*asks you")).click()
    expect(run_page.get_by_role("complementary", name="Task")).to_be_visible()
    run_page.go_back()
    expect(run_page.get_by_role("complementary", name="Task")).to_be_hidden()
    run_page.go_back()
    expect(run_page.get_by_role("region", name="Graph of stages and tasks")).to_be_visible()
