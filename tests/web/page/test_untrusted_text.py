"""Words of agents, plans and branches stay words: none of them becomes markup, a script or a link to elsewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support.command import Cli
from tests.web.page.browser import root_of, served

EVIL = "<img src=x onerror=\"document.body.dataset.stolen='yes'\"><script>document.body.dataset.stolen='yes'</script>"
STATIC = Path(__file__).parents[3] / "src" / "holdfast" / "web" / "static"
MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|DOMParser"
)


@pytest.fixture
def hostile(tmp_path: Path) -> Cli:
    """A run whose goal, title, target branch, log, file name, diff, error and question all try to become markup."""
    cli = Cli.of(tmp_path / "p", *_tasks(), goal=f"Goal {EVIL}", limits={"attempts": 1})
    cli.project.git("checkout", "-q", "-b", "a<b>'onclick=1'")
    cli("run", "--yes")
    return cli


def _tasks() -> list[dict[str, Any]]:
    quoted = shlex.quote(EVIL)
    writes = f"echo {quoted}; echo {quoted} > '<b onclick=x>.html'"
    fails = f"echo {quoted} >&2; exit 1"
    return [
        {"id": "writes", "title": f"Title {EVIL}", "run": ["sh", "-c", writes]},
        {"id": "fails", "title": f"Failing {EVIL}", "run": ["sh", "-c", fails]},
    ]


def test_markup_of_others_is_shown_and_never_executed(hostile: Cli, page: Page) -> None:
    """On each view the words can be read, and nothing came of them."""
    run = hostile.json("status")["run"]["id"]
    with served(hostile.here) as address:
        page.goto(address)
        expect(page.get_by_text("Goal <img src=x").first).to_be_visible()
        views = ["", "/board", "/timeline", "/activity", "/recovery", "/review"]
        panels = ["?task=writes&panel=stream", "?task=writes&panel=diff", "?task=fails&panel=history"]
        for view in [*views, *panels]:
            page.goto(f"{root_of(address)}/r/p/{run}{view}")
            expect(page.get_by_role("heading", name="Goal <img src=x")).to_be_visible()
            expect(page.locator("#view, .panel-body").get_by_text("<img src=x").first).to_be_attached()
            assert page.evaluate("document.body.dataset.stolen ?? ''") == ""
            assert page.locator("main img, main script, main b[onclick]").count() == 0


def test_no_module_of_the_page_can_make_markup_of_text() -> None:
    """What could is not used anywhere, so that no later change has to be careful."""
    sources = {path.name: path.read_text(encoding="utf-8") for path in STATIC.rglob("*.js")}
    assert len(sources) > 20
    assert {name for name, text in sources.items() if MARKUP.search(text)} == set()


def test_the_page_itself_has_no_inline_script_or_style() -> None:
    """The content security policy refuses both."""
    text = (STATIC / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<script(?![^>]*\bsrc=)|\bon\w+=|<style|\bstyle=", text) == []


def test_the_page_weighs_less_than_300_kilobytes() -> None:
    """All of it: it comes over a slow line once, and never from elsewhere."""
    assert sum(path.stat().st_size for path in STATIC.rglob("*") if path.is_file()) < 300_000
