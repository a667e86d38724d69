"""On a real terminal: questions are asked, and a run is drawn."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.command import Cli, fails, on_terminal, writes
from tests.support.repositories import git


def test_a_new_plan_is_shown_and_runs_after_a_yes(tmp_path: Path) -> None:
    """The commands are on the screen before the question."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    code, screen = on_terminal(cli, "run", answers="y\n")
    assert code == 0, screen
    assert (
        screen.index("echo a > a.txt") < screen.index("Run this plan? [y/N]") < screen.index("a: landed as")
    )


def test_a_new_plan_does_not_run_after_a_no(tmp_path: Path) -> None:
    """Just Enter is a no."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    code, screen = on_terminal(cli, "run", answers="\n")
    assert (code, "nothing was run" in screen) == (3, True)
    assert cli.json("list") == []


def test_enter_after_a_key_does_not_answer_the_next_question(tmp_path: Path) -> None:
    """Many people type `a` and Enter where the key alone is enough. The question after it was not seen yet."""
    cli = Cli.of(tmp_path / "p", fails("a"), limits={"attempts": 1})
    assert cli("run", "--yes").code == 1
    cli.plan(writes("a"), limits={"attempts": 1})
    code, screen = on_terminal(cli, "run", answers="a\ny\n")
    assert (code, "a: landed as" in screen) == (0, True), screen


def test_a_run_is_drawn_on_a_terminal_and_plain_with_no_color(tmp_path: Path) -> None:
    """The moving picture is for terminals whose owner wants it."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    code, screen = on_terminal(cli, "run", "--yes", answers="")
    assert (code, "\x1b[" in screen) == (0, True)
    code, screen = on_terminal(cli, "run", "--yes", answers="", NO_COLOR="1")
    assert (code, "\x1b[" in screen) == (0, False)


@pytest.mark.parametrize(
    "words", [("resume", "--dry-run"), ("status",), ("list",)], ids=lambda words: words[0]
)
def test_lines_are_as_long_as_the_terminal_is_wide(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Few shells export COLUMNS: the terminal itself is asked. What does not fit is folded, and no commit is cut."""
    goal = "Compare the prices"
    cli = Cli.of(
        tmp_path / "p",
        writes("read-the-prices"),
        fails("compare-the-prices", needs=["read-the-prices"]),
        goal=goal,
    )
    assert cli("run", "--yes").code == 1
    code, screen = on_terminal(cli, *words, answers="", columns="64", COLUMNS="")
    assert code == 0, screen
    table = screen.split("`holdfast")[0].splitlines()
    assert max(map(len, table)) <= 64, screen
    assert goal in screen
    assert words == ("list",) or cli.task("read-the-prices")["merge_commit"][:12] in screen


EVIL = "\x1b]0;owned\x07 \x1b[2J\x9b2J \u202e\x08\rgone"
"""Renames the window, clears the screen in two ways, turns the direction of reading, overwrites the line."""
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
COMMANDS = [
    ("status",), ("status", "--json"), ("list",), ("inspect",), ("inspect", "RUN", "a"), ("inspect", "RUN", "bad", "--brief"),
    ("inspect", "RUN", "bad", "--wip"), ("recap",), ("review",), ("doctor",), ("resume", "--dry-run"), ("run", "--dry-run"),
    ("run",), ("run", "--yes"), ("retry", "bad"), ("resume",), ("skip", "bad"), ("mirror", "RUN", "--to", "execute"), ("save",), ("export", "RUN"),
    ("logs", "RUN", "none" + EVIL), ("land", "--yes"), ("clean", "--all", "--yes"), ("status", EVIL), (EVIL,),
]  # fmt: skip


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """A run whose goal, titles, errors, reports, files and branch were written by somebody who wants the terminal."""
    path = tmp_path_factory.mktemp("hostile")
    script = path / "evil.sh"
    script.write_text(
        f"holdfast report summary '{EVIL}' --blocked '{EVIL}'\necho '{EVIL}' > \"x$(printf '\\033[2J')y\"\necho '{EVIL}'\n"
    )
    good = {"id": "a", "title": f"A{EVIL}", "run": ["sh", str(script)]}
    bad = {
        "id": "bad",
        "title": f"B{EVIL}",
        "run": ["sh", "-c", f"sh {script}; exit 3"],
        "acceptance": [EVIL],
    }
    cli = Cli.of(path / "p", good, bad, goal=f"Goal {EVIL}", limits={"attempts": 1, "keep_going": True})
    git(cli.here, "checkout", "-q", "-b", "main\u202e\x9b2J")
    assert cli("run", "--yes").code == 3
    return cli


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words).replace(EVIL, "EVIL"))
def test_what_others_wrote_cannot_steer_the_terminal(hostile: Cli, words: tuple[str, ...]) -> None:
    """Whatever a command prints, it is text: on standard output and on standard error."""
    run = hostile.json("list")[0]["id"]
    done = hostile(*(run if word == "RUN" else word for word in words))
    assert done.out or done.err
    assert STEERING.findall(done.out + done.err) == []


def test_the_files_that_people_read_hold_no_control_characters(hostile: Cli) -> None:
    """The note of a resting run, the briefs and the messages of commits are shown by `cat` and `git log`."""
    for path in [*hostile.here.rglob("continue-here.md"), *hostile.here.rglob("brief.md")]:
        assert STEERING.findall(path.read_text()) == [], path
    assert STEERING.findall(git(hostile.here, "log", "--all", "--format=%B")) == []


def test_logs_on_a_terminal_are_text_with_colours_at_most(hostile: Cli) -> None:
    """In a pipe they are what the agent printed, byte for byte."""
    run = hostile.json("list")[0]["id"]
    _, screen = on_terminal(hostile, "logs", run, "bad", answers="")
    assert "gone" in screen
    assert STEERING.findall(screen.replace("\r\n", "\n")) == []
