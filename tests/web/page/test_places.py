"""What stands where on the page, and in which words: of a run that rests at a failure, and of one that was abandoned."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.support.command import Cli, writes
from tests.web.page.browser import PHONE, root_of, served

_COLOURED = r"printf '\033[31mE   no luck\033[0m\n'; exit 3"


@pytest.fixture(scope="module")
def rested(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cli, str]]:
    """A project whose first run was abandoned and whose second waits for a decision, and its dashboard."""
    tasks = [
        writes("a", title="The beginning"),
        {"id": "b", "title": "The failure", "run": ["sh", "-c", _COLOURED], "needs": ["a"]},
        writes("c", title="The end", needs=["b"]),
        writes("d", title="Beside it", needs=["a"]),
    ]
    stages = [{"id": "one", "tasks": tasks}, {"id": "two", "tasks": [writes("e")]}]
    cli = Cli.of(tmp_path_factory.mktemp("rested") / "p", stages=stages, limits={"attempts": 1, "jobs": 1})
    cli("run", "--yes")
    assert cli("abandon", "1", "--yes").code == 0
    cli("run", "--yes")
    assert cli.run_status() == "blocked"
    with served(cli.here) as address:
        yield cli, address


@pytest.fixture
def run(page: Page, rested: tuple[Cli, str]) -> str:
    """The address of the run that waits; the page has a session."""
    cli, address = rested
    page.goto(address)
    expect(page.get_by_role("heading", name="Needs you (1)")).to_be_visible()
    return f"{root_of(address)}/r/p/{cli.json('status')['run']['id']}"


def test_the_bar_of_an_abandoned_run_is_as_full_as_its_work(page: Page, run: str) -> None:
    """The tasks that never landed have no part of it."""
    row = page.get_by_role("listitem").filter(has_text="abandoned")
    full, landed = row.locator(".bar").bounding_box(), row.locator(".bar > span:not([hidden])").bounding_box()
    assert full is not None
    assert landed is not None
    assert landed["width"] < full["width"] / 2


def test_the_graph_fits_beside_the_task_that_a_link_opens(page: Page, run: str) -> None:
    """It is made when its room is known."""
    page.set_viewport_size({"width": 900, "height": 700})
    page.goto(f"{run}?task=b")
    graph = page.get_by_role("region", name="Graph of stages and tasks")
    expect(page.get_by_role("complementary", name="Task")).to_be_visible()
    expect(graph).to_be_visible()
    canvas = graph.locator(".graph-canvas")
    assert "scale(1)" not in (canvas.get_attribute("style") or "")


@pytest.mark.parametrize("place", ["/review", "?task=b&panel=history"])
def test_the_tab_of_a_place_is_seen_on_a_phone(page: Page, run: str, place: str) -> None:
    """The row of tabs is wider than the screen."""
    page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
    page.goto(run + place)
    expect(page.locator(".tab[aria-current]").last).to_be_in_viewport(ratio=0.9)


def test_colours_that_a_tool_printed_are_no_words(page: Page, run: str) -> None:
    """Neither in the stream nor in what failed."""
    page.goto(f"{run}?task=b&panel=stream")
    expect(page.get_by_text("E   no luck", exact=True)).to_be_visible()
    page.goto(f"{run}?task=b")
    expect(page.get_by_role("region", name="Output")).to_have_text("E   no luck")


def test_a_task_that_may_not_start_says_what_for(page: Page, run: str) -> None:
    """A free agent would not help any of them."""
    page.goto(run)
    reasons = {
        "c": "waits for b",
        "d": "waits for a decision about what failed in its stage",
        "e": "waits until the run goes on",
    }
    for task, reason in reasons.items():
        expect(page.locator(f'.card[data-task="{task}"]')).to_contain_text(reason)


def test_a_run_at_rest_promises_no_time(page: Page, run: str) -> None:
    """What is left depends on a person, and what no agent told is not said to be more than that."""
    page.goto(run)
    expect(page.get_by_text("Elapsed")).to_be_visible()
    expect(page.get_by_text("Left", exact=True)).to_have_count(0)
    expect(page.get_by_text("\N{EN DASH}+")).to_have_count(0)
