"""`holdfast watch` on a real terminal: it shows a run as it goes, and every key does what the command of its name does."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import pytest

from tests.support.command import Cli, cli_at_work, eventually, fails, killed_cli, writes
from tests.watch.terminal import needs_tmux, terminal

pytestmark = needs_tmux
SCREENS = Path(__file__).parent / "screens"
_LIGHT_GREYS = range(244, 256)
_ASK = f"{sys.executable} -P -m holdfast report ask 'Postgres or SQLite?' --option Postgres --option SQLite"


def _finished(tmp_path: Path) -> Cli:
    """Return a project with a completed run of two stages."""
    stages = [
        {"id": "first", "tasks": [writes("model", title="The model"), writes("tokens", title="The tokens")]},
        {"id": "second", "tasks": [writes("login", needs=["model"], title="The login")]},
    ]
    cli = Cli.of(tmp_path / "p", stages=stages)
    assert cli("run", "--yes").code == 0
    return cli


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 30)])
def test_a_finished_run_looks_as_it_is_kept(tmp_path: Path, columns: int, rows: int) -> None:
    """`HOLDFAST_KEEP_SCREENS=1` keeps what it looks like now instead."""
    cli = _finished(tmp_path)
    with terminal(cli.here, "watch", columns=columns, rows=rows) as shown:
        shown.shows("3 of 3 landed", "landed as", "? keys")
        seen = shown.steady_screen()
    kept = SCREENS / f"finished-{columns}x{rows}.txt"
    if os.environ.get("HOLDFAST_KEEP_SCREENS"):
        kept.write_text(seen + "\n", encoding="utf-8")
    assert seen + "\n" == kept.read_text(encoding="utf-8")


def test_a_run_of_another_process_is_shown_as_it_goes(tmp_path: Path) -> None:
    """The view was there before the task ended."""
    cli, runner, agent = cli_at_work(tmp_path, writes("b"))
    with terminal(cli.here, "watch") as shown:
        shown.shows("● a", "1 of 2 landed", "1 agent at work")
        os.kill(agent, signal.SIGKILL)
        shown.shows("#2")
        shown.press("s")
        shown.shows("End the agents of the run?", "enter: do it")
        shown.press("Enter")
        shown.shows("stopped")
    runner.wait()
    assert cli.run_status() == "stopped"


def test_a_run_whose_runner_was_killed_is_resumed_with_a_key(tmp_path: Path) -> None:
    """Nothing is written when a runner is killed: the view notices it by itself."""
    cli, runner, _ = cli_at_work(tmp_path, writes("b", needs=["a"]))
    with terminal(cli.here, "watch") as shown:
        shown.shows("1 agent at work")
        os.killpg(runner.pid, signal.SIGKILL)
        runner.wait()
        shown.shows("interrupted (crash): press r to resume")
        shown.press("r")
        shown.shows("running  ")
        eventually(lambda: cli.json("status")["run"]["held_by"] is not None, "a new runner has it")
    cli("stop")


def test_a_question_is_answered_in_the_view(tmp_path: Path) -> None:
    """The number of an option stands for it."""
    asker = {"command": ["sh", "-c", _ASK, "agent", "{brief}"], "stream": "raw"}
    cli = Cli.of(tmp_path / "p", {"id": "db", "prompt": "make it"}, agent="asker", agents={"asker": asker})
    cli("run", "--yes")
    with terminal(cli.here, "watch") as shown:
        shown.shows("Needs you (1, ", "): db", "Postgres or SQLite?")
        shown.press("a")
        shown.shows("Your answer", "enter: do it")
        shown.type("2")
        shown.press("Enter")
        eventually(lambda: not cli.json("status")["needs_you"], "the question is answered")
    assert "SQLite" in cli("inspect", "db").out


def test_a_task_is_retried_with_a_hint(tmp_path: Path) -> None:
    """The next brief has it."""
    cli = Cli.of(tmp_path / "p", fails("a"), limits={"attempts": 1})
    cli("run", "--yes")
    with terminal(cli.here, "watch") as shown:
        shown.shows("✗ a", "abandoned")
        shown.press("t")
        shown.shows("What the next agent should know", "enter: do it")
        shown.type("use SQLite")
        shown.press("Enter")
        shown.shows("has all its attempts again")
    assert "use SQLite" in cli("inspect", "a", "--brief").out


def test_a_result_is_landed_in_the_view(tmp_path: Path) -> None:
    """The command's own words tell where it is now."""
    cli = _finished(tmp_path)
    with terminal(cli.here, "watch") as shown:
        shown.shows("3 of 3 landed")
        shown.press("l")
        shown.shows("holdfast land", "enter: do it")
        shown.press("Enter")
        eventually(lambda: bool(cli.json("status")["run"]["landed_in"]), "it has landed")


def test_what_is_not_possible_is_said_and_does_nothing(tmp_path: Path) -> None:
    """A completed run cannot be paused."""
    cli = _finished(tmp_path)
    with terminal(cli.here, "watch") as shown:
        shown.shows("3 of 3 landed")
        shown.press("p")
        shown.shows("pause is not possible now")


def test_every_possible_action_is_listed_with_its_command(tmp_path: Path) -> None:
    """Escape takes none of them."""
    cli, _ = killed_cli(tmp_path)
    with terminal(cli.here, "watch", columns=120) as shown:
        shown.shows("press r to resume")
        shown.press(".")
        shown.shows("What to do", "holdfast resume", "holdfast abandon", "holdfast stop")
        shown.press("Escape")
        shown.hides("What to do")
        shown.press("q")
        shown.shows("ended with 0")
    assert cli.run_status() == "interrupted"
    cli("stop")


@pytest.mark.parametrize(
    ("key", "texts"),
    [
        ("2", ("model printed",)),
        ("3", ("+model",)),
        ("4", ("model.txt",)),
        ("5", ("# Task",)),
        ("6", ("attempt 1",)),
    ],
)
def test_each_side_of_a_task_is_shown(tmp_path: Path, key: str, texts: tuple[str, ...]) -> None:
    """Log, diff, checks, brief and history."""
    script = "echo model printed; echo model > model.txt"
    cli = Cli.of(tmp_path / "p", {"id": "model", "run": ["sh", "-c", script]})
    assert cli("run", "--yes").code == 0
    with terminal(cli.here, "watch", columns=120) as shown:
        shown.shows("proved by git")
        shown.press(key)
        shown.shows(*texts)


def test_a_click_selects_a_task(tmp_path: Path) -> None:
    """The panel shows what was clicked."""
    cli = _finished(tmp_path)
    with terminal(cli.here, "watch") as shown:
        shown.shows("✓ tokens", "The model")
        row = next(at for at, line in enumerate(shown.screen().split("\n"), 1) if "✓ tokens" in line)
        shown.click(10, row)
        shown.shows("The tokens")


def test_words_of_an_agent_are_text_and_nothing_else(tmp_path: Path) -> None:
    """Neither the markup of the library nor the controls of a terminal."""
    script = r"printf '[bold]loud[/] \033[2J\033]0;title\007 end\n'; echo a > a.txt"
    cli = Cli.of(
        tmp_path / "p", {"id": "a", "title": "[red]title[/red] \x1b[31m", "run": ["sh", "-c", script]}
    )
    assert cli("run", "--yes").code == 0
    with terminal(cli.here, "watch", columns=120) as shown:
        shown.shows("[red]title[/red]", "proved by git")
        shown.press("2")
        shown.shows("[bold]loud[/]", "end", "1 of 1 landed")


def test_without_colour_a_failure_can_be_read(tmp_path: Path) -> None:
    """What is left of a colour is a grey, which must not be as dark as what is behind it."""
    cli = Cli.of(tmp_path / "p", fails("a"), limits={"attempts": 1})
    cli("run", "--yes")
    with terminal(cli.here, "watch", NO_COLOR="1") as shown:
        shown.shows("✗ a")
        before, _, _ = shown.drawn().partition("✗ a")
        colours = re.findall(r"38;5;(\d+)", before.rpartition("\n")[2])
    assert int(colours[-1]) in _LIGHT_GREYS


def test_leaving_ends_only_the_view(tmp_path: Path) -> None:
    """The run goes on."""
    cli, runner, _ = cli_at_work(tmp_path)
    with terminal(cli.here, "watch") as shown:
        shown.shows("1 agent at work")
        shown.press("q")
        shown.shows("ended with 0")
    assert runner.poll() is None
    cli("stop")
    runner.wait()
