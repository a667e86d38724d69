"""`recap --html`: one file to send to a colleague: all of it told, nothing hostile or private in it, never half written."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.mcp_server.lead_client import asks, leading, led, plan_of
from tests.support.command import Cli, cli_at_work, fails, killed_cli, writes
from tests.support.repositories import Project
from tests.support.tiny_disk import tiny_disk

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&"
SECRET = "sk-ant-api03-" + "Ab3" * 20
ALLOWED_ATTRIBUTES = frozenset(
    [
        "aria-hidden",
        "aria-label",
        "aria-labelledby",
        "charset",
        "class",
        "content",
        "cx",
        "cy",
        "datetime",
        "height",
        "href",
        "http-equiv",
        "id",
        "lang",
        "name",
        "r",
        "role",
        "rx",
        "scope",
        "tabindex",
        "text-anchor",
        "viewbox",
        "width",
        "x",
        "x1",
        "x2",
        "y",
        "y1",
        "y2",
    ]
)


class _Page(HTMLParser):
    """What a browser would find in a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element and its attributes."""
        self.names.add(tag)
        self.attributes.update(name for name, _ in attrs)
        self.links += [value or "" for name, value in attrs if name == "href"]
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_data(self, data: str) -> None:
        """Note a text; the style sheet is none."""
        if self.cdata_elem is None:
            self.words.append(data)

    @property
    def text(self) -> str:
        """All that is to be read."""
        return " ".join(" ".join(self.words).split())


def _html(cli: Cli, *run: str) -> str:
    done = cli("recap", *run, "--html", "-")
    assert done.code == 0, done.err
    return done.out


def test_the_page_tells_what_was_done_what_failed_and_what_git_proves(ended: Cli) -> None:
    """Everything that a colleague asks: which tasks, how often tried, why not, and whether it can be believed."""
    page = _Page(_html(ended))
    for words in (
        "Try it",
        "1 of 3 tasks landed",
        "1 landed, 0 lost, 0 repeated",
        "holdfast/01-try-it",
        "✓ landed",
        "✗ given up",
        "! blocked",
        "agent error",
        "no luck",
        "Lost to crashes",
        "Lost to limits and outages",
        "The timeline as a table",
    ):
        assert words in page.text
    commit = ended.json("recap")["tasks"][0]["merge_commit"]
    assert commit[:12] in page.text


def test_the_page_stands_alone_and_forbids_everything_else(ended: Cli) -> None:
    """No script, no address, no file beside it; its policy allows its own style sheet and nothing more."""
    text = _html(ended)
    page = _Page(text)
    assert page.names.isdisjoint({"script", "link", "img", "iframe", "object", "form", "base"})
    assert page.attributes <= ALLOWED_ATTRIBUTES
    assert re.search(r"https?:|url\(|@import|javascript:", text) is None
    sheet = text.partition("<style>")[2].partition("</style>")[0]
    digest = b64encode(sha256(sheet.encode()).digest()).decode()
    policy = f"default-src &#x27;none&#x27;; style-src &#x27;sha256-{digest}&#x27;"
    assert policy in text
    assert text.index("Content-Security-Policy") < text.index("<style>")


def test_the_picture_has_a_name_a_description_and_a_table_beside_it(ended: Cli) -> None:
    """Who does not see it reads it; every table has headings, and every link leads somewhere in the page."""
    text = _html(ended)
    page = _Page(text)
    assert 'role="img" aria-labelledby="timeline-title timeline-desc"' in text.replace("\n", " ")
    assert {"timeline-title", "timeline-desc"} <= set(page.ids)
    assert text.count("<table>") == text.count("<thead>") > 0
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert "<html lang=" in text


def test_what_agents_and_plans_say_stays_text(tmp_path: Path) -> None:
    """A title, a goal and an error that are markup are shown, never obeyed."""
    prints = {
        "id": "b",
        "title": HOSTILE,
        "run": ["sh", "-c", f"cat <<'E'\n{HOSTILE}\n\x1b[31m\u202eevil\nE\nexit 1"],
    }
    cli = Cli.of(tmp_path / "p", prints, goal=HOSTILE, limits={"attempts": 1})
    assert cli("run", "--yes").code == 1
    text = _html(cli)
    page = _Page(text)
    assert page.names.isdisjoint({"script", "img"})
    assert page.attributes <= ALLOWED_ATTRIBUTES
    assert page.text.count("<script>alert(1)</script>") >= 3
    assert "\u202e" not in text
    assert "\x1b" not in text


def test_secrets_and_places_of_this_machine_are_left_out(tmp_path: Path) -> None:
    """The page goes to others: neither keys nor where somebody works are their business."""
    prefix, body = SECRET[:10], SECRET[10:]  # a plan with the whole key is refused
    tells = f"printf 'key %s%s in %s\\n' '{prefix}' '{body}' $PWD; echo home $HOME/notes; exit 1"
    cli = Cli.of(
        tmp_path / "p",
        {"id": "b", "title": f"{tmp_path}/p/file", "run": ["sh", "-c", tells]},
        limits={"attempts": 1},
    )
    home = {"HOME": str(tmp_path / "home")}
    (tmp_path / "home").mkdir()
    assert cli("run", "--yes", **home).code == 1
    done = cli("recap", "--html", "-", **home)
    assert SECRET not in done.out
    assert "[redacted]" in done.out
    assert str(tmp_path) not in done.out
    assert "~/notes" in done.out


def test_the_page_is_written_whole_and_replaces_an_older_one(completed: Cli) -> None:
    """The same command again brings it up to date."""
    place = completed.here / "recap.html"
    place.write_text("old")
    done = completed("recap", "1", "--html", "recap.html")
    assert (done.code, done.out) == (0, "Wrote recap.html.\n")
    assert place.read_text().startswith("<!doctype html>")
    assert place.read_text().rstrip().endswith("</html>")
    assert sorted(path.name for path in completed.here.glob("*.html*")) == ["recap.html"]


def test_a_link_stays_one_and_what_it_points_to_is_replaced(completed: Cli, tmp_path: Path) -> None:
    """Somebody's `latest.html` may point into another folder."""
    target = tmp_path / "target.html"
    target.write_text("old")
    link = completed.here / "latest.html"
    link.symlink_to(target)
    assert completed("recap", "--html", "latest.html").code == 0
    assert link.is_symlink()
    assert target.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("place", "told", "hint"),
    [
        ("nowhere/recap.html", "there is no folder nowhere", "make it"),
        (".git", ".git is a folder", ".git/recap.html"),
        ("/dev/null", "/dev/null is no plain file", "--html -"),
    ],
)
def test_a_place_that_cannot_be_is_refused_with_the_way_out(
    completed: Cli, place: str, told: str, hint: str
) -> None:
    """Nothing is made that nobody asked for."""
    done = completed("recap", "--html", place)
    assert done.code == 2
    assert told in done.err
    assert hint in done.err
    assert not (completed.here / "nowhere").exists()


def test_a_folder_that_takes_no_file_is_named(completed: Cli) -> None:
    """The message says which file it was and what could not be done, also for root."""
    done = completed("recap", "--html", "/proc/recap.html")
    assert done.code != 0
    assert "could not write the recap: /proc/recap.html" in done.err


def test_a_full_disk_leaves_the_older_page(completed: Cli, tmp_path: Path) -> None:
    """Whole or not at all, and nothing half done lies beside it."""
    with tiny_disk(tmp_path / "disk", 1) as disk:
        place = disk.root / "recap.html"
        place.write_text("old")
        disk.fill()
        done = completed("recap", "--html", str(place))
        assert done.code != 0
        assert "could not write the recap" in done.err
        assert "The disk is full" in done.err
        assert place.read_text() == "old"
        assert sorted(path.name for path in disk.root.iterdir()) == ["ballast", "recap.html"]


def test_an_interrupted_run_says_so_and_no_end_is_made_up(tmp_path: Path) -> None:
    """Its runner was killed: the attempt is interrupted, not failed, and the crash goes on."""
    cli, _ = killed_cli(tmp_path)
    page = _Page(_html(cli))
    assert "! interrupted" in page.text
    assert "its runner is gone" in page.text
    assert "goes on" in page.text
    cli("stop")


def test_a_run_that_is_under_way_is_told_as_far_as_it_is(tmp_path: Path) -> None:
    """Its agent works: no end and no outcome are made up, and nothing counts as interrupted."""
    cli, runner, _ = cli_at_work(tmp_path)
    page = _Page(_html(cli))
    assert "● running" in page.text
    assert "under way" in page.text
    assert "interrupted" not in page.text
    cli("stop")
    runner.wait()


def test_a_run_whose_branch_is_gone_is_told_without_proof(completed: Cli) -> None:
    """What git does not show is not claimed."""
    completed.project.git("branch", "-D", "holdfast/01-try-it")
    assert "is gone, so git proves nothing" in _Page(_html(completed)).text


def test_a_run_that_was_adopted_says_where_from(tmp_path: Path) -> None:
    """Attempts of another system are counted there, not drawn here."""
    cli = Cli(Project.create(tmp_path / "p").path)
    state = '{"version": "2.0", "status": "in_progress", "tasks": {"L1-001": {"status": "in_progress", "title": "One", "attempts": 2}}}'
    cli.project.write("docs/tasks/thing/execute-state.json", state)
    done = cli("adopt", "docs/tasks/thing/execute-state.json", "--agent", "claude", "--yes")
    assert done.code == 0, done.err
    page = _Page(_html(cli))
    assert "Adopted from execute" in page.text
    assert "attempts made before the run was adopted: 2" in page.text


def test_a_run_that_an_agent_led_has_its_page_too(tmp_path: Path) -> None:
    """Its attempts are by the agent that led it."""
    project = Project.create(tmp_path / "p")

    async def play() -> None:
        async with leading(project.path, "--yes") as leader:
            await leader("open_run", plan=plan_of(asks("a")))
            assert (await leader.work("a"))["status"] == "completed"

    led(play)
    assert "1 of 1 task landed" in _Page(_html(Cli(project.path))).text


def test_a_plan_of_which_nothing_began_has_a_page_without_lanes(tmp_path: Path) -> None:
    """A base that fails its check starts no agent."""
    cli = Cli.of(tmp_path / "p", writes("a"), verify=["false"])
    assert cli("run", "--yes").code != 0
    page = _Page(_html(cli))
    assert "0 of 1 task landed" in page.text


def test_a_program_gets_the_name_of_the_file_or_the_page_itself(completed: Cli) -> None:
    """`--json`: the same as for `export`."""
    told = completed.json("recap", "--html", "recap.html")
    assert told == {"run": "01-try-it", "written": "recap.html", "page": None}
    assert completed.json("recap", "--html", "-")["page"].startswith("<!doctype html>")


def test_a_failed_check_is_told_with_its_output(tmp_path: Path) -> None:
    """What the check printed is there to be opened."""
    cli = Cli.of(
        tmp_path / "p", writes("a", verify=["echo broken seal; exit 4"]), fails("b"), limits={"attempts": 1}
    )
    assert cli("run", "--yes").code == 1
    page = _Page(_html(cli))
    assert "failed check" in page.text
    assert "broken seal" in page.text
