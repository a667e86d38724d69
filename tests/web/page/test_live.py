"""The page follows a run: what happens is on it at once, a server that went away is waited for, and nothing is told twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.command import Cli, writes
from tests.support.runs import Fifo
from tests.web.page.browser import root_of, served


@pytest.fixture
def gate(tmp_path: Path) -> Fifo:
    """What holds the agent of the task `slow`."""
    return Fifo(tmp_path / "gate")


@pytest.fixture
def held(tmp_path: Path, gate: Fifo) -> Cli:
    """A project whose task `slow` waits for its gate, and `after` for `slow`."""
    slow = {"id": "slow", "run": ["sh", "-c", f"echo on it; {gate.take}; echo done > slow.txt"]}
    return Cli.of(tmp_path / "p", slow, writes("after", needs=["slow"]))


def _events(page: Page) -> list[str]:
    return [text for text in page.locator(".event-number").all_inner_texts() if text]


def test_what_another_process_does_is_on_the_page_without_a_reload(held: Cli, gate: Fifo, page: Page) -> None:
    """Cards change where they are; the count in the header follows."""
    run = held.json("run", "--detach", "--yes")["run"]
    with served(held.here) as address:
        page.goto(address)
        page.get_by_role("link", name="Try it").first.click()
        card = page.locator('.card[data-task="slow"]')
        expect(card).to_contain_text("at work")
        page.evaluate("document.querySelector('.card[data-task=slow]').dataset.mine = 'yes'")
        gate.release()
        expect(card).to_contain_text("landed")
        expect(page.locator('.card[data-task="after"]')).to_contain_text("landed")
        expect(page.get_by_role("region", name="The run")).to_contain_text("2 of 2")
        assert card.get_attribute("data-mine") == "yes"
        assert run in page.url


def test_a_server_that_comes_back_is_caught_up_with(
    held: Cli, gate: Fifo, page: Page, tmp_path: Path
) -> None:
    """Events that happened meanwhile are there, each once, and the page says calmly that it waits."""
    run = held.json("run", "--detach", "--yes")["run"]
    token = ("--token-file", str(tmp_path / "token"))
    with served(held.here, options=token) as address:
        page.goto(address)
        page.goto(f"{root_of(address)}/r/p/{run}/activity")
        expect(page.get_by_text("attempt 1 started")).to_be_visible()
        port = int(root_of(address).rpartition(":")[2])
    expect(page.get_by_text("reconnecting…")).to_be_visible()
    gate.release()
    with served(held.here, options=token, port=port):
        expect(page.get_by_text("reconnecting…")).to_be_hidden()
        expect(
            page.get_by_role("region", name="The run").get_by_text("completed", exact=True)
        ).to_be_visible()
        expect(page.get_by_text("landed as")).to_have_count(2)
        numbers = _events(page)
        assert len(numbers) == len(set(numbers))
        told = [f"#{one['seq']}" for one in _told(page, run)]
        assert numbers == told[::-1]


def _told(page: Page, run: str) -> list[dict[str, int]]:
    found: list[dict[str, int]] = page.evaluate(
        "run => fetch(`/api/v1/repositories/p/runs/${run}/events`).then(a => a.json()).then(a => a.events)",
        run,
    )
    return found


def test_a_run_is_shown_as_it_was_at_an_event(held: Cli, gate: Fifo, page: Page) -> None:
    """The slider travels, and nothing can be done about the past."""
    gate.release()
    held("run", "--yes")
    run = held.json("status")["run"]["id"]
    with served(held.here) as address:
        page.goto(address)
        page.goto(f"{root_of(address)}/r/p/{run}")
        expect(page.locator('.card[data-task="after"]')).to_contain_text("landed")
        page.get_by_role("button", name="Replay").click()
        slider = page.get_by_role("slider")
        slider.fill("4")
        expect(page.locator('.card[data-task="after"]')).to_contain_text("waiting")
        assert page.url.endswith("?at=4")
        expect(page.get_by_role("button", name="Land…")).to_be_hidden()
        page.get_by_role("button", name="Back to now").click()
        expect(page.locator('.card[data-task="after"]')).to_contain_text("landed")


def test_without_a_session_the_page_says_how_to_get_one(held: Cli, page: Page) -> None:
    """An old link leads to words, not to an empty page."""
    with served(held.here) as address:
        page.goto(f"{root_of(address)}/#token=wrong")
        expect(page.get_by_role("alert")).to_contain_text("Open the link that `holdfast serve` printed")


def test_a_read_only_page_shows_commands_instead_of_buttons(held: Cli, gate: Fifo, page: Page) -> None:
    """Who may only look can still see, and copy, what would have to be done."""
    gate.release()
    held("run", "--yes")
    with served(held.here, options=("--read-only",)) as address:
        page.goto(address)
        card = page.get_by_role("listitem").filter(has_text="Ready to land")
        expect(card.get_by_text("holdfast land")).to_be_visible()
        expect(card.get_by_role("button", name="Land…")).to_have_count(0)
        expect(page.get_by_role("link", name="New run")).to_have_count(0)
