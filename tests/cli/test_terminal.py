"""On a real terminal: questions are asked, and a run is drawn."""

from __future__ import annotations

from pathlib import Path

from tests.support.command import Cli, on_terminal, writes


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


def test_a_run_is_drawn_on_a_terminal_and_plain_with_no_color(tmp_path: Path) -> None:
    """The moving picture is for terminals whose owner wants it."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    code, screen = on_terminal(cli, "run", "--yes", answers="")
    assert (code, "\x1b[" in screen) == (0, True)
    code, screen = on_terminal(cli, "run", "--yes", answers="", NO_COLOR="1")
    assert (code, "\x1b[" in screen) == (0, False)
