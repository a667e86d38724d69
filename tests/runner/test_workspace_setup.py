"""Workspaces that are ready to work in: set-up, kept, copied and linked files, ports; with and without a sandbox."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Cli, Done, eventually
from tests.support.repositories import Project
from tests.support.runs import Fifo, Trial, sh
from tests.support.sandboxes import needs_sandbox

OPEN = ("--no-sandbox",)
BOTH = pytest.mark.parametrize(
    "mode", [OPEN, pytest.param(("--sandbox", "workspace"), marks=needs_sandbox)], ids=["open", "sandbox"]
)
MAKE = "mkdir -p .venv && echo set up >> .venv/times"
"""A set-up whose result tells how often it ran in its workspace."""


def project(path: Path) -> Project:
    """Return a repository that ignores `.venv` and `.env`, has a lock file, and in its checkout what git does not track."""
    made = Project.create(path)
    made.write(".gitignore", "*.log\n.venv/\n.env\nnode_modules/\n")
    made.write("lock.json", "1\n")
    made.commit("ready")
    made.write(".env", "COLOUR=blue\n")
    made.write("node_modules/left-pad/index.js", "pad\n")
    return made


def cli_of(path: Path, workspace: dict[str, Any], *tasks: dict[str, Any], **plan: Any) -> Cli:
    """Return a command line in such a repository, with a plan that has this `workspace:` key and one job."""
    cli = Cli(project(path).path)
    cli.plan(*tasks, workspace=workspace, **{"limits": {"jobs": 1}, **plan})
    return cli


def run(cli: Cli, mode: tuple[str, ...]) -> Done:
    """Run the plan to its end; it must complete."""
    done = cli("run", "--yes", *mode)
    assert done.code == 0, done.out + done.err
    return done


def show(cli: Cli, path: str) -> str:
    """Return a file of the run branch."""
    return cli.project.git("show", f"holdfast/01-try-it:{path}")


def files(cli: Cli) -> list[str]:
    """Return the files of the run branch."""
    return cli.project.git("ls-tree", "-r", "--name-only", "holdfast/01-try-it").splitlines()


def attempts(cli: Cli, task: str) -> tuple[int, int]:
    """Return how many attempts a task had, and how many of them it was charged for."""
    row = Trial(cli.project, "01-try-it").state().tasks[task]
    return row.attempt, row.charged


@BOTH
def test_set_up_runs_once_for_all_tasks_in_a_workspace_that_keeps_its_result(
    tmp_path: Path, mode: tuple[str, ...]
) -> None:
    """The second task finds what the first one's set-up made; nothing of it lands."""
    tasks = [sh(name, f"cat .venv/times > {name}.txt") for name in "ab"]
    cli = cli_of(tmp_path / "p", {"setup": [MAKE], "keep": [".venv"]}, *tasks)
    run(cli, mode)
    assert (show(cli, "a.txt"), show(cli, "b.txt")) == ("set up", "set up")
    assert not [path for path in files(cli) if path.startswith(".venv")]


@BOTH
def test_without_keep_set_up_runs_for_each_task(tmp_path: Path, mode: tuple[str, ...]) -> None:
    """Each preparation removes what git ignores, and set-up makes it again."""
    tasks = [sh(name, f"cat .venv/times > {name}.txt") for name in "ab"]
    cli = cli_of(tmp_path / "p", {"setup": [MAKE]}, *tasks)
    run(cli, mode)
    assert (show(cli, "a.txt"), show(cli, "b.txt")) == ("set up", "set up")


def test_set_up_runs_again_when_a_file_that_it_depends_on_changed(tmp_path: Path) -> None:
    """The lock file that the first task lands is new to the second one's workspace."""
    workspace = {"setup": [MAKE], "keep": [".venv"], "setup_when": ["*.json"]}
    tasks = [
        sh("a", "echo 2 > lock.json"),
        sh("b", "cat .venv/times > b.txt", needs=["a"]),
        sh("c", "cat .venv/times > c.txt", needs=["b"]),
    ]
    cli = cli_of(tmp_path / "p", workspace, *tasks)
    run(cli, OPEN)
    assert show(cli, "b.txt") == show(cli, "c.txt") == "set up\nset up"


@BOTH
def test_checks_and_merged_trees_and_gates_are_set_up_as_well(tmp_path: Path, mode: tuple[str, ...]) -> None:
    """What `verify` needs is there wherever it runs, also on a tree that was merged."""
    here = "test -s .venv/times"
    tasks = [sh("a", "echo a > a.txt"), sh("b", "echo b > b.txt")]
    cli = Cli(project(tmp_path / "p").path)
    stages = [{"id": "s", "entry": [here], "exit": [here], "tasks": tasks}]
    cli.plan(workspace={"setup": [MAKE], "keep": [".venv"]}, verify=[here], stages=stages)
    run(cli, mode)
    assert {"a.txt", "b.txt"} <= set(files(cli))


def test_what_an_agent_changes_in_a_kept_folder_makes_no_check_hold(tmp_path: Path) -> None:
    """The agent installs something by hand and declares it nowhere: its check fails here as it would elsewhere."""
    task = sh("a", "echo a > a.txt; echo by hand > .venv/package", verify=["test -e .venv/package"])
    cli = cli_of(
        tmp_path / "p", {"setup": [MAKE], "keep": [".venv"]}, task, limits={"jobs": 1, "attempts": 1}
    )
    assert cli("run", "--yes", *OPEN).code == 1
    assert "test -e .venv/package" in cli.task("a")["error"]


@BOTH
def test_files_of_the_checkout_are_copied_and_linked(tmp_path: Path, mode: tuple[str, ...]) -> None:
    """Agents and checks see them; the checkout's own stay as they are, and nothing of it lands."""
    script = "cat .env node_modules/left-pad/index.js > seen.txt; echo COLOUR=red > .env"
    workspace = {"copy": [".env"], "link": ["node_modules"]}
    task = sh("a", script, verify=["grep -q blue .env", "test -s node_modules/left-pad/index.js"])
    cli = cli_of(tmp_path / "p", workspace, task)
    run(cli, mode)
    assert show(cli, "seen.txt") == "COLOUR=blue\npad"
    assert (cli.here / ".env").read_text() == "COLOUR=blue\n"
    assert not {".env", "node_modules"} & set(files(cli))


@BOTH
def test_what_is_brought_in_never_lands_even_if_an_agent_commits_it(
    tmp_path: Path, mode: tuple[str, ...]
) -> None:
    """Neither a forced add nor a commit of the agent's own puts a secret on the run branch, or into its history."""
    staged = sh("a", "echo a > a.txt; git add -f .env; git add -A")
    committed = sh(
        "b", "echo b > b.txt; git add -f .env; git add -A; git commit -qm mine; echo more >> b.txt"
    )
    cli = cli_of(tmp_path / "p", {"copy": [".env"], "link": ["node_modules"]}, staged, committed)
    done = cli("run", "--yes", "--json", *mode)
    assert done.code == 0, done.out
    assert {"a.txt", "b.txt"} <= set(files(cli))
    history = cli.project.git("log", "-m", "--format=", "--name-only", "holdfast/01-try-it").splitlines()
    assert not {".env", "node_modules"} & set(history)
    assert show(cli, "b.txt") == "b\nmore"
    assert ".env was left out: it never lands." in done.out
    assert "The agent committed .env" in done.out


@BOTH
def test_what_set_up_makes_beside_what_is_kept_does_not_land(tmp_path: Path, mode: tuple[str, ...]) -> None:
    """Neither a new file that git does not ignore nor a change to a tracked one becomes an agent's work."""
    cli = cli_of(
        tmp_path / "p",
        {"setup": ["echo made > made.txt; echo changed > a.txt"]},
        sh("a", "cat made.txt > seen.txt"),
    )
    run(cli, mode)
    assert show(cli, "seen.txt") == "made"
    assert "made.txt" not in files(cli)
    assert show(cli, "a.txt").startswith("one")


def test_an_agent_is_told_which_files_of_set_up_do_not_land(tmp_path: Path) -> None:
    """It would change them in vain: its work on them is in no commit."""
    cli = cli_of(tmp_path / "p", {"setup": ["echo made > made.txt"]}, sh("a", "echo mine > made.txt"))
    run(cli, ())
    assert "made.txt" not in files(cli)
    (brief,) = (cli.here / ".holdfast").rglob("brief.md")
    assert "never land, whatever you change in them: made.txt." in brief.read_text()


def test_who_changes_a_file_of_set_up_is_told_that_it_does_not_land(tmp_path: Path) -> None:
    """Beside other work it would be missing from what lands, and nobody would know."""
    cli = cli_of(
        tmp_path / "p",
        {"setup": ["echo made > made.txt; echo other > other.txt"]},
        sh("a", "echo mine > made.txt; echo mine > a.txt"),
    )
    run(cli, ())
    assert "made.txt" not in files(cli)
    told = cli("inspect", "a").out
    assert "made.txt was changed, and left out: set-up makes it." in told
    assert "other.txt was changed" not in told


def test_the_user_agrees_to_set_up_and_to_what_agents_get_to_see(tmp_path: Path) -> None:
    """Commands are commands, and a copied `.env` may hold secrets: both are shown before anything runs."""
    workspace = {
        "setup": ["make deps"],
        "copy": [".env"],
        "link": ["node_modules"],
        "env": {"COLOUR": "red"},
    }
    cli = cli_of(tmp_path / "p", workspace, sh("a", "echo a > a.txt"))
    done = cli("run")
    assert done.code == 3
    for shown in ("runs: make deps", "gets a copy of these of your checkout: .env", "COLOUR=red"):
        assert shown in done.err
    assert "sees these of your checkout: node_modules" in done.err


def test_a_tracked_file_is_not_brought_in(tmp_path: Path) -> None:
    """What git tracks lands, so nothing that never lands may have its name; said before anything runs."""
    for key in ("copy", "link", "keep"):
        cli = cli_of(tmp_path / key, {key: ["src"]}, sh("a", "echo a > a.txt"))
        done = cli("run", "--yes")
        assert (done.code, cli.json("list")) == (2, [])
        assert f"workspace.{key} names src, which git tracks" in done.err


def test_a_missing_file_of_the_checkout_is_told_before_anything_runs(tmp_path: Path) -> None:
    """The message names the key, the file, and the way out."""
    cli = cli_of(tmp_path / "p", {"copy": [".env.local"]}, sh("a", "echo a > a.txt"))
    done = cli("run", "--yes")
    assert (done.code, cli.json("list")) == (2, [])
    assert "workspace.copy names .env.local, which is not in your checkout" in done.err


def test_a_failing_set_up_blocks_the_run_and_charges_nothing(tmp_path: Path) -> None:
    """No agent starts; its output and the way out are shown; `resume` tries again when the cause is gone."""
    marker = tmp_path / "registry-is-up"
    setup = f"test -e {marker} || {{ echo the registry is down; exit 7; }}"
    cli = cli_of(tmp_path / "p", {"setup": [setup]}, sh("a", "echo a > a.txt"), sh("b", "echo b > b.txt"))
    done = cli("run", "--yes", *OPEN)
    assert done.code == 3
    assert "the registry is down" in done.out
    assert "holdfast resume" in done.out
    assert (attempts(cli, "a"), attempts(cli, "b")) == ((1, 0), (0, 0))
    marker.touch()
    assert cli("resume", "--yes", *OPEN).code == 0
    assert {"a.txt", "b.txt"} <= set(files(cli))


def test_work_that_breaks_set_up_is_the_work_s_fault(tmp_path: Path) -> None:
    """A lock file that does not fit is a failed check: the next agent is told, starts all the same, and repairs it."""
    workspace = {"setup": ["grep -qx '[0-9]*' lock.json"], "setup_when": ["lock.json"]}
    script = (
        'if [ "$HOLDFAST_ATTEMPT_NUMBER" = 1 ]; then echo broken > lock.json; else echo 2 > lock.json; fi'
    )
    cli = cli_of(tmp_path / "p", workspace, sh("a", script, verify=["true"]))
    run(cli, OPEN)
    assert show(cli, "lock.json") == "2"
    assert attempts(cli, "a") == (2, 1)
    brief = next((cli.here / ".holdfast").rglob("a/2/brief.md")).read_text()
    assert "Set-up of this workspace failed" in brief


@BOTH
def test_a_killed_set_up_begins_anew(tmp_path: Path, mode: tuple[str, ...]) -> None:
    """What a set-up left that was killed half-way is not taken for its result, although it is kept."""
    setup = "test -e .venv/half && exit 9; mkdir .venv; touch .venv/half; test -s .flag || sleep 60; mv .venv/half .venv/whole"
    workspace = {"setup": [setup], "keep": [".venv"], "copy": [".flag"]}
    cli = cli_of(tmp_path / "p", workspace, sh("a", "ls .venv > seen.txt"))
    (cli.here / ".flag").write_text("")
    runner = cli.start("run", "--yes", *mode)
    eventually(lambda: any((cli.here / ".holdfast").rglob(".venv/half")), "set-up began")
    os.killpg(runner.pid, signal.SIGKILL)
    runner.wait()
    (cli.here / ".flag").write_text("go on")
    assert cli("resume", "--yes", *mode).code == 0
    assert show(cli, "seen.txt") == "whole"
    assert attempts(cli, "a")[1] == 0


def test_a_stop_ends_set_up_and_charges_nothing(tmp_path: Path) -> None:
    """The attempt whose set-up was stopped had no agent; resumed, it has one."""
    at_work = Fifo(tmp_path / "at-work")
    setup = f"test -e {tmp_path}/quick || {{ {at_work.give}; sleep 60; }}"
    cli = cli_of(tmp_path / "p", {"setup": [setup]}, sh("a", "echo a > a.txt"))
    runner = cli.start("run", "--yes", *OPEN)
    at_work.wait()
    assert cli("stop").code == 0
    assert runner.wait() == 130
    (tmp_path / "quick").touch()
    assert cli("resume", "--yes", *OPEN).code == 0
    assert (attempts(cli, "a")[1], show(cli, "a.txt")) == (0, "a")


@BOTH
def test_each_workspace_has_ports_and_a_database_of_its_own(tmp_path: Path, mode: tuple[str, ...]) -> None:
    """Agents side by side get different ones; set-up, agent and check of a workspace get the same, and the brief names them."""
    line = 'echo "$HOLDFAST_PORT_1 $HOLDFAST_PORT_2 $PORT $HOLDFAST_DATABASE $COLOUR"'
    script = f"{line} > $HOLDFAST_TASK.txt; cat .venv/ports >> $HOLDFAST_TASK.txt; cp $HOLDFAST_BRIEF $HOLDFAST_TASK.md"
    workspace = {"setup": [f"mkdir .venv; {line} > .venv/ports"], "env": {"COLOUR": "red"}, "ports": 2}
    cli = cli_of(tmp_path / "p", workspace, sh("a", script), sh("b", script), limits={"jobs": 2})
    run(cli, mode)
    seen = [show(cli, f"{name}.txt").splitlines() for name in "ab"]
    assert all(lines[0] == lines[1] for lines in seen)
    (one, two, first, database, colour), other = seen[0][0].split(), seen[1][0].split()
    assert (first, colour) == (one, "red")
    assert len({one, two, other[0], other[1]}) == 4
    assert database != other[3]
    assert database.isidentifier()
    assert len(database) <= 63
    assert f"Ports for you: {one}, {two}" in show(cli, "a.md")
