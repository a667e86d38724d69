"""`adopt` where the files leave open where the run goes on: the user is asked, or says it at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.kit import Cli
from tests.cli.terminal import on_terminal
from tests.gitkit import Project, write

HOME = ".claude/output/apex/01-add-auth"


def _half_lost(tmp_path: Path) -> Cli:
    """Return a project whose APEX task lost its state and the output of one phase."""
    cli = Cli(Project.create(tmp_path / "p").path)
    write(
        cli.here / HOME / "00-init.md",
        "# Status: PASS\n\n## Task\nAdd auth\n\n## Phase Plan\n- plan\n- execute\n- finish\n",
    )
    write(cli.here / HOME / "01-analyze.md", "# Status: PASS\n")
    write(cli.here / HOME / "03-execute.md", "it wor")
    return cli


def _open_tasks(cli: Cli) -> list[str]:
    tasks: list[dict[str, Any]] = cli.json("status")["tasks"]
    return [task["id"] for task in tasks if task["status"] != "skipped"]


def test_a_task_whose_state_is_gone_is_found_by_its_outputs(tmp_path: Path) -> None:
    """What its phases wrote is enough, and each place where it may go on is named."""
    shown = _half_lost(tmp_path)("adopt", ".", "--dry-run", "--agent", "claude")
    assert shown.code == 0
    assert "state.json is missing" in shown.out
    assert shown.out.count("The run may go on here") == 3


def test_the_user_is_asked_where_to_go_on(tmp_path: Path) -> None:
    """On a terminal one key chooses; what is before the choice is done with."""
    cli = _half_lost(tmp_path)
    code, screen = on_terminal(cli, "adopt", ".", "--agent", "claude", answers="3y\n")
    assert (code, "Where does it go on?" in screen) == (0, True)
    assert "11-finish" in _open_tasks(cli)
    assert "3-execute" not in _open_tasks(cli)


def test_the_place_can_be_named_at_once(tmp_path: Path) -> None:
    """`--from` needs no terminal; a name that is none of the tasks is answered with the nearest."""
    cli = _half_lost(tmp_path)
    wrong = cli("adopt", ".", "--agent", "claude", "--from", "3-exekute")
    assert (wrong.code, "3-execute" in wrong.err) == (2, True)
    told = cli("adopt", ".", "--agent", "claude", "--from", "3-execute", "--yes", "--json")
    assert json.loads(told.out)
    assert _open_tasks(cli)[-2:] == ["3-execute", "11-finish"]
    assert "2-plan" not in _open_tasks(cli)


def test_without_a_terminal_the_earliest_place_is_taken(tmp_path: Path) -> None:
    """Doing something again is safe; leaving something out is not."""
    cli = _half_lost(tmp_path)
    assert cli("adopt", ".", "--agent", "claude", "--yes").code == 0
    assert {"2-plan", "3-execute", "11-finish"} <= set(_open_tasks(cli))
