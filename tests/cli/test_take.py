"""`take`: a person gets a task and a workspace, from a live runner and without one, and nothing of it is lost."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.support.command import Cli, cli_at_work, fails, is_alive, killed_cli, on_terminal, writes
from tests.support.repositories import Project, git
from tests.support.runs import Fifo


def _workspace(cli: Cli, task: str = "b") -> Path:
    return cli.here / ".holdfast" / "work" / "01-try-it" / f"taken-{task}"


def test_a_task_at_rest_is_handed_over(blocked: Cli) -> None:
    """In a linked worktree on no branch, with what landed below it."""
    taken = blocked.json("take", "b")
    here = _workspace(blocked)
    assert (taken["task"], taken["kept"]["workspace"]) == ("b", str(here))
    assert (here / "a.txt").read_text() == "a\n"
    assert git(here, "status", "--porcelain") == ""
    assert git(here, "branch", "--show-current") == ""
    assert blocked.task("b")["status"] == "blocked"


def test_a_task_that_is_taken_is_shown_with_its_place(blocked: Cli) -> None:
    """`status` says where, and what to type next; a resume leaves it alone."""
    blocked("take", "b")
    shown = blocked("status").out
    assert "b is taken by you, in .holdfast/work/01-try-it/taken-b" in shown
    assert "`holdfast give 1 b`" in shown
    assert blocked("resume", "--yes").code == 3
    assert blocked.task("b")["attempts"] == 1


def test_the_place_is_told_once(blocked: Cli) -> None:
    """Not in the sentence and once more below it."""
    assert blocked("take", "b").out.count(str(_workspace(blocked))) == 1


def test_taking_again_changes_nothing_and_tells_the_place(blocked: Cli) -> None:
    """What was written meanwhile is still there."""
    blocked("take", "b")
    (_workspace(blocked) / "mine.txt").write_text("mine\n")
    assert str(_workspace(blocked)) in blocked("take", "b").out
    assert (_workspace(blocked) / "mine.txt").read_text() == "mine\n"


def test_an_agent_under_way_is_stopped_and_its_work_handed_over(tmp_path: Path) -> None:
    """The runner goes on with the other tasks, and charges nothing."""
    cli, runner, _ = cli_at_work(tmp_path, writes("b", needs=["a"]))
    done = cli("take", "a")
    assert done.code == 0, done.err
    assert (_workspace(cli, "a") / "half.txt").read_text() == "half\n"
    assert cli.task("a")["status"] == "blocked"
    runner.wait()
    assert "a is taken by you" in cli.json("status")["run"]["detail"]


def test_the_work_of_a_dead_runners_agent_is_handed_over(tmp_path: Path) -> None:
    """Its agent still lives: it is ended first."""
    cli, agent = killed_cli(tmp_path)
    done = cli("take", "a")
    assert done.code == 0, done.err
    assert (_workspace(cli, "a") / "half.txt").read_text() == "half\n"
    with pytest.raises(ProcessLookupError):
        os.kill(agent, 0)


def test_a_kill_while_the_runner_lives_on_takes_nothing_away(tmp_path: Path) -> None:
    """The runner is killed after the hand-over; what the person writes then is given to the next one."""
    cli, runner, _ = cli_at_work(tmp_path)
    cli("take", "a")
    (_workspace(cli, "a") / "mine.txt").write_text("mine\n")
    os.killpg(runner.pid, signal.SIGKILL)
    runner.wait()
    assert cli("give", "a").code == 0
    assert cli("resume", "--yes").code == 0
    assert git(cli.here, "show", "holdfast/01-try-it:mine.txt") == "mine"


def test_on_a_terminal_a_shell_opens_there(blocked: Cli, tmp_path: Path) -> None:
    """The user's own."""
    shell = tmp_path / "shell"
    shell.write_text("#!/bin/sh\necho here is $PWD\n")
    shell.chmod(0o755)
    code, screen = on_terminal(blocked, "take", "b", answers="", SHELL=str(shell))
    assert (code, f"here is {_workspace(blocked)}" in screen) == (0, True)


def test_an_editor_opens_there(blocked: Cli) -> None:
    """With the workspace as its argument, also without a terminal."""
    done = blocked("take", "b", "--editor", EDITOR="echo opened", VISUAL="")
    assert done.out.splitlines()[-1] == f"opened {_workspace(blocked)}"


@pytest.mark.parametrize("task", ["a", "c"])
def test_what_has_landed_or_cannot_begin_is_not_taken(task: str, ended: Cli) -> None:
    """`a` has landed, `c` waits for `b`."""
    assert ended("take", task).code == 2
    assert not _workspace(ended, task).exists()


@pytest.mark.parametrize(
    "leaving",
    [
        ("abandon", "--yes"),
        ("discard", "--yes"),
        ("reset", "1", "--yes"),
        ("reset", "1", "b", "--yes"),
        ("skip", "b"),
    ],
)
def test_no_way_out_of_a_run_loses_what_a_person_wrote(leaving: tuple[str, ...], blocked: Cli) -> None:
    """It is in its workspace still, or at a ref."""
    blocked("take", "b")
    (_workspace(blocked) / "mine.txt").write_text("mine\n")
    assert blocked(*leaving).code == 0
    assert _kept(blocked) == "mine"


def test_a_run_that_completes_without_the_person_keeps_what_was_written(blocked: Cli) -> None:
    """The task is skipped, the run completes, its workspaces go: the work is at a ref, also after `clean`."""
    blocked("take", "b")
    (_workspace(blocked) / "mine.txt").write_text("mine\n")
    blocked("skip", "b")
    assert blocked("resume", "--yes").code == 0
    assert not _workspace(blocked).exists()
    assert blocked("clean", "--all", "--yes").code == 0
    assert _kept(blocked) == "mine"


@pytest.mark.parametrize("path", ["notes.log", "sub/.git/precious"])
def test_what_git_cannot_commit_is_moved_aside_and_no_command_deletes_it(blocked: Cli, path: str) -> None:
    """An ignored file, and the history of a repository of its own. `clean` names the folder again."""
    blocked("take", "b")
    file = _workspace(blocked) / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("precious\n")
    assert blocked("discard", "--yes").code == 0
    (aside,) = _workspace(blocked).parent.glob(".uncommitted-taken-b-*")
    done = blocked("clean", "01-try-it", "--yes")
    assert (done.code, f"{aside} holds files of yours" in done.out) == (0, True)
    assert blocked("doctor", "--fix").code == 0
    assert (aside / path).read_text() == "precious\n"


def test_commits_that_a_person_moved_off_again_are_kept(blocked: Cli) -> None:
    """At a ref that `clean` leaves; only the last of each line needs one."""
    blocked("take", "b")
    here = _workspace(blocked)
    for name in ("one", "two"):
        (here / name).write_text("x\n")
        git(here, "add", name)
        git(here, "commit", "-qm", name)
    lost = git(here, "rev-parse", "HEAD")
    git(here, "checkout", "-q", "HEAD~2")
    assert blocked("discard", "--yes").code == 0
    assert blocked("clean", "01-try-it", "--yes").code == 0
    kept = git(blocked.here, "for-each-ref", "--format=%(refname)", "--contains", lost)
    assert kept == f"refs/holdfast/01-try-it/archive/b-{lost[:12]}-taken"
    assert not here.parent.exists()


def test_a_retry_gives_a_taken_task_to_an_agent(blocked: Cli) -> None:
    """What the person wrote stays in the workspace."""
    blocked("take", "b")
    (_workspace(blocked) / "mine.txt").write_text("mine\n")
    assert blocked("retry", "b").code == 0
    assert blocked.task("b")["status"] == "pending"
    assert _kept(blocked) == "mine"


def test_a_workspace_that_was_deleted_is_made_again(blocked: Cli) -> None:
    """`take` says where; `give` would have nothing to give."""
    blocked("take", "b")
    shutil.rmtree(_workspace(blocked))
    assert blocked("give", "b").code != 0
    assert blocked("take", "b").code == 0
    assert (_workspace(blocked) / "a.txt").read_text() == "a\n"


def test_doctor_finds_nothing_wrong_with_a_taken_task(blocked: Cli) -> None:
    """Its workspace is no debris, and `--fix` leaves it alone."""
    blocked("take", "b")
    (_workspace(blocked) / "mine.txt").write_text("mine\n")
    assert blocked("doctor", "--fix").code == 0
    assert (_workspace(blocked) / "mine.txt").read_text() == "mine\n"


def test_the_users_checkout_is_not_touched(tmp_path: Path) -> None:
    """A task that is taken is worked on elsewhere."""
    cli = Cli.of(tmp_path / "p", fails("b"), limits={"attempts": 1})
    cli("run", "--yes")
    before = git(cli.here, "status", "--porcelain"), git(cli.here, "rev-parse", "HEAD")
    cli("take", "b")
    assert (git(cli.here, "status", "--porcelain"), git(cli.here, "rev-parse", "HEAD")) == before


def _kept(cli: Cli) -> str:
    """Return what the person wrote, from the workspace or the ref that keeps it."""
    if (_workspace(cli) / "mine.txt").exists():
        return (_workspace(cli) / "mine.txt").read_text().strip()
    return git(cli.here, "show", "refs/holdfast/01-try-it/archive/b-taken:mine.txt")


def _full_disk(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """Return a file, and an environment in which git finds the disk full when it commits, as long as that file is there."""
    real, flag, folder = shutil.which("git"), tmp_path / "full", tmp_path / "bin"
    folder.mkdir()
    flag.touch()
    (folder / "git").write_text(
        f'#!/bin/sh\nif [ -e {flag} ]; then case "$*" in *commit-tree*)\n'
        'echo "fatal: unable to write file: No space left on device" >&2; exit 128;; esac; fi\n'
        f'exec {real} "$@"\n'
    )
    (folder / "git").chmod(0o755)
    return flag, {"PATH": f"{folder}:{os.environ['PATH']}"}


def test_what_a_person_gave_waits_for_room_and_the_hint_is_true(blocked: Cli, tmp_path: Path) -> None:
    """Nothing would begin again, and nothing moves a person's files: the next resume takes them in."""
    blocked("take", "b")
    (_workspace(blocked) / "mine.txt").write_text("mine\n")
    blocked("give", "b")
    flag, environment = _full_disk(tmp_path)
    done = blocked("resume", "--yes", **environment)
    assert (done.code, "could not be committed" in done.err) == (3, True), done.err
    assert "`holdfast resume 1` takes it in then. It is yours" in done.err
    assert not any(word in done.err for word in ("begin again", "reset", "abandon"))
    flag.unlink()
    assert blocked("resume", "--yes", **environment).code == 0
    assert git(blocked.here, "show", "holdfast/01-try-it:mine.txt") == "mine"


def test_a_completed_run_keeps_what_cannot_be_saved_and_says_what_saves_it(
    blocked: Cli, tmp_path: Path
) -> None:
    """There is nothing to resume and nothing to abandon any more."""
    blocked("take", "b")
    (_workspace(blocked) / "mine.txt").write_text("mine\n")
    blocked("skip", "b")
    flag, environment = _full_disk(tmp_path)
    done = blocked("resume", "--yes", **environment)
    assert (blocked.run_status(), "`holdfast clean 1` saves it" in done.err) == ("completed", True), done.err
    assert not any(word in done.err for word in ("begin again", "reset", "abandon"))
    assert (_workspace(blocked) / "mine.txt").read_text() == "mine\n"
    flag.unlink()
    assert blocked("clean", "1", "--yes", **environment).code == 0
    assert _kept(blocked) == "mine"


def test_nothing_is_taken_while_a_file_that_workspaces_get_is_missing(tmp_path: Path) -> None:
    """The runner's agent goes on, and once the file is there, the task is handed over."""
    at_work = Fifo(tmp_path / "at-work")
    script = f"echo half > half.txt; {at_work.give}; sleep 60"
    task = {"id": "a", "run": ["sh", "-c", script]}
    cli = Cli.of(tmp_path / "p", task, workspace={"copy": [".env"]})
    (cli.here / ".env").write_text("secret\n")
    runner = cli.start("run", "--yes")
    agent = int(at_work.wait())
    (cli.here / ".env").unlink()
    refused = cli("take", "a")
    assert (refused.code, "workspace.copy names .env" in refused.err) == (2, True), refused.err
    assert (is_alive(agent), cli.task("a")["status"]) == (True, "running")
    (cli.here / ".env").write_text("secret\n")
    done = cli("take", "a")
    assert done.code == 0, done.err
    assert (_workspace(cli, "a") / ".env").read_text() == "secret\n"
    runner.wait()


def test_a_task_at_rest_is_not_taken_while_such_a_file_is_missing(tmp_path: Path) -> None:
    """It is nobody's then, and an agent may still do it."""
    cli = Cli.of(tmp_path / "p", fails("b"), limits={"attempts": 1}, workspace={"link": ["models"]})
    (cli.here / "models").mkdir()
    assert cli("run", "--yes", "--no-sandbox").code == 1
    (cli.here / "models").rmdir()
    assert cli("take", "b").code == 2
    assert cli.task("b")["status"] == "abandoned"


def test_clean_tells_what_it_had_to_leave_of_a_person(blocked: Cli) -> None:
    """The run was abandoned with the workspace in its place: `clean` is the first that moves it aside."""
    blocked("take", "b")
    (_workspace(blocked) / "notes.log").write_text("precious\n")
    assert blocked("abandon", "--yes").code == 0
    done = blocked("clean", "1", "--yes")
    (aside,) = _workspace(blocked).parent.glob(".uncommitted-taken-b-*")
    assert (aside / "notes.log").read_text() == "precious\n"
    assert f"{aside} holds files of yours" in done.out


def test_a_run_that_completes_tells_what_it_moved_aside(blocked: Cli) -> None:
    """Nobody looks for a hidden folder that nobody spoke of."""
    blocked("take", "b")
    (_workspace(blocked) / "notes.log").write_text("precious\n")
    blocked("skip", "b")
    done = blocked("resume", "--yes")
    (aside,) = _workspace(blocked).parent.glob(".uncommitted-taken-b-*")
    assert f"{aside} holds files that could not be committed" in done.out


def test_the_commits_that_a_person_made_in_a_submodule_are_kept(tmp_path: Path) -> None:
    """Git has them among its own files about the workspace, which go with it."""
    library = Project.create(tmp_path / "library")
    cli = Cli.of(tmp_path / "p", fails("b"), limits={"attempts": 1})
    allowed = ("-c", "protocol.file.allow=always")
    git(cli.here, *allowed, "submodule", "add", "-q", str(library.path), "lib")
    git(cli.here, "commit", "-qam", "with a library")
    assert cli("run", "--yes").code == 1
    cli("take", "b")
    git(_workspace(cli), *allowed, "submodule", "update", "-q", "--init")
    inside = _workspace(cli) / "lib"
    (inside / "new.txt").write_text("new\n")
    git(inside, "add", "new.txt")
    git(inside, "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-qm", "new")
    made = git(inside, "rev-parse", "HEAD")
    done = cli("discard", "--yes")
    assert done.code == 0, done.err
    (aside,) = _workspace(cli).parent.glob(".uncommitted-taken-b-*")
    assert str(aside) in done.out
    (kept,) = aside.glob(".git-modules-*/lib")
    assert git(tmp_path, f"--git-dir={kept}", "--work-tree=.", "show", f"{made}:new.txt") == "new"


def test_a_lost_journal_costs_the_person_nothing_that_was_written(blocked: Cli) -> None:
    """The task is nobody's then. Who takes it again finds the earlier files at a ref."""
    blocked("take", "b")
    (_workspace(blocked) / "mine.txt").write_text("mine\n")
    for file in (blocked.here / ".holdfast").glob("journal.db*"):
        file.unlink()
    assert "who took a task" in blocked("rebuild", "--yes").out
    assert _kept(blocked) == "mine"
    assert blocked("take", "b").code == 0
    assert git(blocked.here, "show", "refs/holdfast/01-try-it/archive/b-taken:mine.txt") == "mine"
