"""What workspaces get of the checkout never lands, also where git began to track it after the plan was accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.command import COMMAND, Cli, writes
from tests.support.repositories import git, write
from tests.support.users import powerless, require_root

BRANCH = "holdfast/01-try-it"
_LANDS = {"id": "a", "run": ["sh", "-c", "mkdir out; echo landed > out/x; echo landed > single"]}


def _landed_then_blocked(tmp_path: Path) -> Cli:
    """Return a run whose task `a` landed `single` and `out/x`; the checkout has files of its own there."""
    fails = {"id": "b", "needs": ["a"], "run": ["false"]}
    cli = Cli.of(tmp_path / "p", _LANDS, fails, limits={"attempts": 1})
    assert cli("run", "--yes").code == 1
    write(cli.here / "single", "secret\n")
    write(cli.here / "out" / "mine", "secret\n")
    return cli


@pytest.mark.parametrize(
    "setting", [{"copy": ["single"]}, {"copy": ["out"]}, {"link": ["out"]}, {"keep": ["out"]}]
)
def test_an_amendment_cannot_bring_in_what_a_task_landed(setting: dict[str, Any], tmp_path: Path) -> None:
    """Otherwise the next task would land the user's own file, or remove what landed."""
    cli = _landed_then_blocked(tmp_path)
    cli.plan(_LANDS, writes("b", needs=["a"]), limits={"attempts": 1}, workspace=setting)
    refused = cli("amend", "--yes")
    assert (refused.code, "which git tracks" in refused.err) == (2, True)
    assert git(cli.here, "show", f"{BRANCH}:out/x") == "landed"


def test_unlanded_work_at_a_place_that_is_copied_since_is_kept_as_it_was(tmp_path: Path) -> None:
    """The first attempt made the file; the next one finds the user's copy in its place, which does not land."""
    script = "test -e single && exit 0; echo work > single; false"
    task = {"id": "a", "run": ["sh", "-c", script]}
    cli = Cli.of(tmp_path / "p", task, limits={"attempts": 1})
    assert cli("run", "--yes").code == 1
    write(cli.here / "single", "secret\n")
    cli.plan(task, limits={"attempts": 2}, workspace={"copy": ["single"]})
    assert cli("amend", "--yes").code == 0
    assert cli("resume", "--yes").code == 0
    assert git(cli.here, "show", f"{BRANCH}:single") == "work"


@pytest.mark.parametrize("commits", ["true", "git commit -qam resolved"])
def test_a_copied_file_that_the_target_tracks_outlives_a_resolved_conflict(
    commits: str, tmp_path: Path
) -> None:
    """The user committed it meanwhile, and changed it again: main keeps what was committed, whatever the agent does."""
    script = f"grep -q '<<<' a.txt && {{ echo both > a.txt; git add -A; {commits}; exit; }}; echo run > a.txt"
    agents = {"mine": {"command": ["sh", "-c", script]}}
    cli = Cli.of(tmp_path / "p")
    write(cli.here / ".env", "first\n")
    cli.plan({"id": "a", "prompt": "do it"}, agent="mine", agents=agents, workspace={"copy": [".env"]})
    assert cli("run", "--yes").code == 0
    write(cli.here / "a.txt", "main\n")
    git(cli.here, "add", "-f", "a.txt", ".env")
    git(cli.here, "commit", "-q", "-m", "main moves on")
    write(cli.here / ".env", "uncommitted\n")
    done = cli("land", "--resolve", "--yes")
    assert done.code == 0, done.err
    assert git(cli.here, "show", "main:.env") == "first"
    assert (cli.here / ".env").read_text() == "uncommitted\n"


@pytest.mark.parametrize("closed", ["data", "data/folder", "data/folder/file"])
def test_what_may_not_be_read_charges_nobody(closed: str, tmp_path: Path) -> None:
    """It is told with its path before any agent starts; once it is open, the same run goes on."""
    require_root()
    cli = Cli.of(tmp_path / "p", writes("a"), workspace={"copy": ["data"]})
    write(cli.here / "data" / "folder" / "file", "x")
    (cli.here / closed).chmod(0)
    run = (*COMMAND, "run", "--yes")
    done = powerless(cli.here, *run)
    assert (done.code, str(cli.here / closed) in done.out + done.err) == (3 if "/" in closed else 2, True)
    (cli.here / closed).chmod(0o755)
    assert powerless(cli.here, *run).code == 0
    assert cli.task("a")["attempts"] == 1 + ("/" in closed)
