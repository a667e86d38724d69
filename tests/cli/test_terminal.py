"""On a real terminal: questions are asked, and a run is drawn."""

from __future__ import annotations

import os
import pty
import select
import subprocess
from pathlib import Path

from tests.cli.kit import COMMAND, Cli, writes
from tests.runkit import DEADLINE_S


def _on_terminal(cli: Cli, *args: str, answers: str, **env: str) -> tuple[int, str]:
    """Run a command on a terminal of its own, typing `answers` beforehand; return its code and screen."""
    keyboard, terminal = pty.openpty()
    os.write(keyboard, answers.encode())
    process = subprocess.Popen(
        [*COMMAND, *args],
        cwd=cli.here,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm", **env},
        start_new_session=True,
    )
    os.close(terminal)
    screen = _read_all(keyboard)
    os.close(keyboard)
    return process.wait(), screen


def _read_all(keyboard: int) -> str:
    """Read until the last process lets go of the terminal, which ends it with an error."""
    seen = b""
    while select.select([keyboard], [], [], DEADLINE_S)[0]:
        try:
            seen += os.read(keyboard, 65536)
        except OSError:
            break
    return seen.decode(errors="replace")


def test_a_new_plan_is_shown_and_runs_after_a_yes(tmp_path: Path) -> None:
    """The commands are on the screen before the question."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    code, screen = _on_terminal(cli, "run", answers="y\n")
    assert code == 0, screen
    assert (
        screen.index("echo a > a.txt") < screen.index("Run this plan? [y/N]") < screen.index("a: landed as")
    )


def test_a_new_plan_does_not_run_after_a_no(tmp_path: Path) -> None:
    """Just Enter is a no."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    code, screen = _on_terminal(cli, "run", answers="\n")
    assert (code, "nothing was run" in screen) == (3, True)
    assert cli.json("list") == []


def test_an_unfinished_run_is_offered_for_resuming(blocked: Cli) -> None:
    """Yes carries it on; a no and a second yes gives it up and starts anew."""
    _, screen = _on_terminal(blocked, "run", answers="y\n")
    assert "is unfinished (blocked). Resume it? [y/N]" in screen
    assert len(blocked.json("list")) == 1
    _on_terminal(blocked, "run", answers="n\ny\n")
    assert [run["status"] for run in blocked.json("list")] == ["abandoned", "blocked"]


def test_a_run_is_drawn_on_a_terminal_and_plain_with_no_color(tmp_path: Path) -> None:
    """The moving picture is for terminals whose owner wants it."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    code, screen = _on_terminal(cli, "run", "--yes", answers="")
    assert (code, "\x1b[" in screen) == (0, True)
    code, screen = _on_terminal(cli, "run", "--yes", answers="", NO_COLOR="1")
    assert (code, "\x1b[" in screen) == (0, False)
