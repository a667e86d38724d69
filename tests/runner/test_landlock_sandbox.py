"""A run on a machine without bubblewrap, as a user starts it: its sandbox is by Landlock alone."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.runner.test_sandbox import NOTHING_NAMED, require_work_and_report, sh, show, without_bubblewrap
from tests.support.command import Cli, Done
from tests.support.repositories import write
from tests.support.sandboxes import BY_LANDLOCK, needs_landlock

pytestmark = needs_landlock


def run(cli: Cli, *more: str, **env: str) -> Done:
    """Run the plan in a sandbox by Landlock alone."""
    return cli("run", "--yes", "--sandbox", "workspace", *more, **env, **BY_LANDLOCK)


def test_it_is_the_default_where_bubblewrap_is_missing(tmp_path: Path) -> None:
    """Nobody has to ask for it, and `status` shows by what it is made."""
    script = f"read x < {tmp_path}/p/plan.json || echo closed > A.txt"
    cli = Cli.of(tmp_path / "p", sh("A", script))
    done = cli("run", "--yes", PATH=without_bubblewrap(tmp_path), **NOTHING_NAMED)
    assert (done.code, "sandbox" in done.err) == (0, False), done.err
    assert show(cli, "A.txt") == "closed"
    assert "  sandbox: workspace (Landlock), network: on\n" in cli("status").out
    assert cli.json("status")["run"]["sandbox_by"] == "landlock"


def test_an_agent_works_commits_and_reports(tmp_path: Path) -> None:
    """Git, the brief, temporary files and `holdfast report` work, and the checks see what the agent did."""
    script = """
        test -s "$HOLDFAST_BRIEF" && mktemp && echo a > A.txt && git add A.txt && git commit -qm 'by the agent'
        holdfast report --progress 40 && echo b > B.txt"""
    cli = Cli.of(tmp_path / "p", sh("A", script, verify=["test -f A.txt && git log -1 --format=%s >&2"]))
    require_work_and_report(cli, run(cli, "--json"))


def test_an_agent_has_copies_of_what_its_preset_names_and_nothing_else_of_the_home(tmp_path: Path) -> None:
    """It finds them by its variables, too; a later attempt finds what the one before left."""
    home = tmp_path / "home"
    write(home / ".tool" / "login", "token")
    write(home / ".ssh" / "id_ed25519", "hunter2")
    script = f"""
        test $HOLDFAST_ATTEMPT_NUMBER = 1 && {{ cat ~/.tool/login > ~/session; echo renewed > ~/.tool/login; exit 1; }}
        cat ~/session $TOOL_HOME/login {home}/.ssh/id_ed25519 > A.txt; :"""
    command = msgspec.json.encode(["sh", "-c", script]).decode()
    agents = (
        f'[tool]\ncommand = {command}\nhome = ["$TOOL_HOME/login"]\nenv = {{TOOL_HOME = "{home}/.tool"}}\n'
    )
    write(home / ".config" / "holdfast" / "agents.toml", agents)
    cli = Cli.of(tmp_path / "p", {"id": "A", "title": "A", "prompt": "Do it."}, agent="tool")
    done = run(cli, HOME=str(home), XDG_CONFIG_HOME=str(home / ".config"))
    assert done.code == 0, done.out
    assert show(cli, "A.txt") == "tokenrenewed"
    assert (home / ".tool" / "login").read_text() == "token"


def test_tools_that_look_upwards_for_their_settings_meet_no_closed_file(tmp_path: Path) -> None:
    """Workspaces lie in the checkout. The settings there can be read, and nothing else of it."""
    here = tmp_path / "p"
    cli = Cli.of(here, sh("A", f"cat {here}/pyproject.toml > A.txt; cat {here}/.env >> A.txt; :"))
    write(here / "pyproject.toml", "[project]\n")
    write(here / ".env", "KEY=hunter2\n")
    (here / "tox.ini").symlink_to(".env")
    assert run(cli).code == 0
    assert show(cli, "A.txt") == "[project]"


@pytest.mark.parametrize("option", [("--sandbox", "strict"), ("--network", "off"), ("--network", "allow")])
def test_what_it_cannot_do_is_refused_with_the_reason(tmp_path: Path, option: tuple[str, str]) -> None:
    """Nothing is started with less than was asked for."""
    cli = Cli.of(tmp_path / "p", sh("A", "echo a > A.txt"))
    done = cli("run", "--yes", *option, **BY_LANDLOCK)
    assert (done.code == 0, "Landlock alone closes no network" in done.err) == (False, True)
    assert "--sandbox workspace --network on" in done.err
    assert cli.json("list") == []
