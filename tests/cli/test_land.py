"""`land`: a run's result reaches a branch of the user's."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from holdfast.errors import ExitCode, LeaseHeldError
from holdfast.repo.landing_lock import landing_lock, landing_lock_path
from tests.support.command import Cli, eventually, fails, has_opened, on_terminal, writes


def test_land_asks_and_takes_no_for_an_answer_without_a_terminal(completed: Cli) -> None:
    """The safe answer is taken, and said."""
    before = completed.project.head()
    done = completed("land")
    assert (done.code, "so the answer is no" in done.err) == (3, True)
    assert completed.project.head() == before


def test_land_brings_the_run_into_the_users_branch_once(completed: Cli) -> None:
    """Landing again says that it is there."""
    assert completed("land", "--yes").code == 0
    assert (completed.here / "a.txt").exists()
    assert "already there" in completed("land", "--yes").out


def test_a_result_that_landed_elsewhere_is_found_too(completed: Cli) -> None:
    """`land --into` is remembered by git, not by us; another run's branch is no place of the user's."""
    completed.project.git("branch", "next")
    completed.project.git("branch", "holdfast/other", "holdfast/01-try-it")
    assert completed("land", "--yes", "--into", "next").code == 0
    assert completed.json("status")["run"]["landed_in"] == ["next"]


def test_an_unfinished_run_lands_only_on_the_users_word(blocked: Cli) -> None:
    """Half a result is never merged by accident."""
    assert blocked("land").code == 3
    done = blocked("land", "--yes")
    assert (done.code, "What 01-try-it has landed so far is in main" in done.out) == (0, True), done.out


@pytest.mark.parametrize("shape", [(), ("--pr",)], ids=["merge", "pr"])
def test_landing_an_unfinished_run_of_which_nothing_has_landed_is_no_success(
    tmp_path: Path, shape: tuple[str, ...]
) -> None:
    """What a script does after `land` needs the result. The hint shows what the run waits for."""
    cli = Cli.of(tmp_path / "p", fails("a"), limits={"attempts": 1})
    assert cli("run", "--yes").code == 1
    done = cli("land", "1", "--yes", *shape)
    assert (done.code, "nothing of 01-try-it has landed yet" in done.err) == (3, True), done
    assert "`holdfast status 1`" in done.err


def test_landing_a_run_that_ended_without_a_result_has_nothing_left_to_do(blocked: Cli) -> None:
    """Nothing will come of it any more."""
    empty = Cli.of(blocked.here.parent / "q", fails("a"), limits={"attempts": 1})
    assert empty("run", "--yes").code == 1
    assert (empty("skip", "a").code, empty("resume", "--yes").code) == (0, 0)
    done = empty("land", "--yes")
    assert (done.code, "nothing to bring into main" in done.out) == (0, True), done


def test_landing_into_a_branch_that_is_not_there_is_refused_without_a_question(completed: Cli) -> None:
    """No branch is made up."""
    assert completed("land", "--into", "no-such").code == 2


@pytest.mark.parametrize("name", ["main~0", "main^{commit}", "main@{0}"])
def test_landing_into_what_is_no_branch_name_is_refused_without_a_question(completed: Cli, name: str) -> None:
    """Git would find a commit by it, but nothing can land in a commit."""
    done = completed("land", "--into", name, "--yes")
    assert (done.code, f"{name!r} is not the name of a branch" in done.err) == (2, True), done.err
    assert "`git branch --list` names yours" in done.err


def test_an_index_that_another_program_holds_is_left_to_it(completed: Cli) -> None:
    """An editor may lock the index without git. Its lock stays, and nothing else changes."""
    lock, before = completed.project.git_dir / "index.lock", completed.project.git("rev-parse", "HEAD")
    lock.touch()
    refused = completed("land", "--yes")
    assert (refused.code, lock.exists()) == (3, True)
    assert (completed.project.git("rev-parse", "HEAD"), completed.project.git("diff")) == (before, "")
    assert "Another git command may be running" in refused.err
    lock.unlink()
    assert completed("land", "--yes").code == 0


def test_a_file_of_the_user_in_the_way_waits_for_their_decision(completed: Cli) -> None:
    """Exit code 3, not 2: the command is right, and works once the file is out of the way."""
    mine = completed.here / "a.txt"
    mine.write_text("mine")
    refused = completed("land", "--yes")
    assert (refused.code, mine.read_text()) == (3, "mine")
    assert "Commit, stash or move what is in the way" in refused.err
    mine.unlink()
    assert completed("land", "--yes").code == 0


def two_tasks(tmp_path: Path, **more: object) -> Cli:
    """Make a completed run of two tasks, the first with a title."""
    cli = Cli.of(
        tmp_path / "p", writes("a", title="add a"), writes("b", needs=["a"]), goal="Add letters", **more
    )
    assert cli("run", "--yes").code == 0
    return cli


def go_on(cli: Cli, name: str = "theirs", text: str = "theirs") -> str:
    """Commit something on the user's branch, beside the run."""
    cli.project.write(name, text)
    return cli.project.commit(f"{name} goes on")


def test_a_squashed_run_is_one_commit_that_says_what_is_in_it(tmp_path: Path) -> None:
    """Goal, tasks and trailers; the branch went on meanwhile, and its files follow."""
    cli = two_tasks(tmp_path)
    before = go_on(cli)
    tip = cli.project.git("rev-parse", "holdfast/01-add-letters")
    done = cli("land", "--yes", "--squash")
    assert (done.code, "(squash, " in done.out) == (0, True)
    assert cli.project.git("log", "-1", "--format=%P") == before
    message = cli.project.git("log", "-1", "--format=%B")
    assert message.startswith("Add letters\n\n- a: add a\n- b\n\nHoldfast-Run: 01-add-letters\n")
    assert message.endswith(f"Holdfast-Result: {tip}")
    assert [(cli.here / f"{name}.txt").exists() for name in "ab"] == [True, True]
    assert cli.project.git("status", "--porcelain", "-uno") == ""


def test_a_rebased_run_is_one_commit_per_task(tmp_path: Path) -> None:
    """In the order in which they landed, with message, author and trailers, and without merges."""
    cli = two_tasks(tmp_path)
    before = go_on(cli)
    assert "(rebase, " in cli("land", "--yes", "--rebase").out
    line = cli.project.git("log", "--reverse", "--format=%s|%an|%p", f"{before}..").splitlines()
    who = cli.project.git("log", "-1", "--format=%an", "holdfast/01-add-letters^2")
    assert [one.rpartition("|")[0] for one in line] == [f"a: add a|{who}", f"b|{who}"]
    assert [len(one.rpartition("|")[2].split()) for one in line] == [1, 1]
    trailers = cli.project.git("log", "-1", "--format=%(trailers:key=Holdfast-Task,valueonly)")
    assert trailers == "b"
    assert cli.project.git("log", "-1", "--format=%(trailers:key=Holdfast-Result,valueonly)")


@pytest.mark.parametrize("method", ["--squash", "--rebase"])
def test_what_landed_without_a_merge_is_known_to_be_there(tmp_path: Path, method: str) -> None:
    """Landing again, in any way, changes nothing and asks nothing; `status` and `list` name the branch."""
    cli = two_tasks(tmp_path)
    go_on(cli)
    cli("land", "--yes", method)
    there = cli.project.head()
    for again in ((), ("--squash",), ("--rebase",)):
        done = cli("land", *again)
        assert (done.code, "already there" in done.out) == (0, True)
    assert cli.project.head() == there
    assert cli.json("status")["run"]["landed_in"] == ["main"]
    assert cli.json("list")[0]["landed_in"] == ["main"]
    assert "in main" in cli("list").out


def test_a_squashed_run_is_known_in_a_history_that_was_rewritten_since(tmp_path: Path) -> None:
    """The message of the commit says what it is."""
    cli = two_tasks(tmp_path)
    go_on(cli)
    cli("land", "--yes", "--squash")
    cli.project.git("commit", "-q", "--amend", "--no-edit", "--date=2001-01-01T00:00:00Z")
    assert "already there" in cli("land", "--squash").out


@pytest.mark.parametrize("method", ["--squash", "--rebase"])
def test_the_rest_of_a_run_lands_on_top_of_a_part_that_was_squashed(tmp_path: Path, method: str) -> None:
    """The part is not merged with itself, though later tasks changed the same lines."""
    more = "cat a.txt > b.txt; echo changed > a.txt"
    tasks = [
        writes("a"),
        {"id": "b", "run": ["sh", "-c", f"test -e {tmp_path}/go && {{ {more}; }}"], "needs": ["a"]},
    ]
    cli = Cli.of(tmp_path / "p", *tasks, limits={"attempts": 1})
    assert cli("run", "--yes", "--no-sandbox").code == 1
    assert cli("land", "--yes", method).code == 0
    (tmp_path / "go").touch()
    cli("retry", "b")
    assert cli("resume", "--yes").code == 0
    assert cli.json("status")["run"]["landed_in"] == []
    assert cli("land", "--yes", method).code == 0
    assert ((cli.here / "a.txt").read_text(), (cli.here / "b.txt").read_text()) == ("changed\n", "a\n")
    assert cli.json("status")["run"]["landed_in"] == ["main"]


def test_several_runs_land_one_after_the_other(completed: Cli) -> None:
    """Each is merged onto the result of the one before, and programs get a list."""
    completed.plan(writes("z"), goal="Another")
    assert completed("run", "--yes").code == 0
    done = completed.json("land", "1", "2", "--yes")
    assert [one["run"] for one in done] == ["01-try-it", "02-another"]
    assert [(completed.here / name).exists() for name in ("a.txt", "z.txt")] == [True, True]
    assert [line["landed_in"] for line in completed.json("list")] == [["main"], ["main"]]


def test_what_landed_is_said_though_a_later_run_conflicts(completed: Cli) -> None:
    """The branch has moved: people read it, and programs get a list of what landed before the error."""
    completed.plan(writes("z"), goal="Another")
    assert completed("run", "--yes").code == 0
    completed.project.write("z.txt", "mine\n")
    completed.project.commit("the user goes on")
    done = completed("land", "1", "2", "--yes")
    assert (done.code, "01-try-it is in main (merge" in done.out) == (3, True)
    assert "changed the same lines of z.txt" in done.err
    again = completed("land", "1", "2", "--yes", "--json")
    assert (again.code, [one["run"] for one in json.loads(again.out)]) == (3, ["01-try-it"])


def test_a_run_that_is_there_is_not_asked_about(completed: Cli) -> None:
    """There is nothing to decide, on a terminal or without one."""
    completed("land", "--yes")
    assert "already there" in completed("land").out
    code, screen = on_terminal(completed, "land", answers="")
    assert (code, "?" in screen) == (0, False)


def test_nothing_to_land_is_no_success_while_another_result_waits(completed: Cli) -> None:
    """The latest run has nothing yet. Whoever named no run is told which result waits."""
    completed.plan(fails("c"), goal="Another", limits={"attempts": 1})
    assert completed("run", "--yes").code == 1
    refused = completed("land", "--yes")
    assert (refused.code, "nothing of 02-another has landed yet" in refused.err) == (3, True)
    assert "`holdfast land 1` lands the result that waits" in refused.err
    assert completed("land", "1", "--yes").code == 0
    assert "`holdfast status 2` shows what it waits for" in completed("land", "--yes").err


def test_a_discarded_run_is_not_offered_and_says_where_it_is(completed: Cli) -> None:
    """`status` and `land` name the archive and the command that brings it back, which works."""
    completed("discard", "--yes")
    assert "`holdfast land" not in completed("status").out
    refused = completed("land", "--yes")
    assert (refused.code, "was discarded; its result is archived at" in refused.err) == (3, True)
    archive = completed.json("status")["run"]["archived_at"]
    assert archive in completed("status").out
    assert archive in refused.err
    completed.project.git("branch", "holdfast/01-try-it", archive)
    assert completed("land", "--yes").code == 0


@pytest.mark.parametrize("method", [(), ("--squash",), ("--rebase",)])
def test_the_branch_of_a_landed_run_can_be_removed_with_it(tmp_path: Path, method: tuple[str, ...]) -> None:
    """Its tip stays archived, and everybody still knows where the result is."""
    cli = two_tasks(tmp_path)
    go_on(cli)
    tip = cli.project.git("rev-parse", "holdfast/01-add-letters")
    assert "Removed holdfast/01-add-letters." in cli("land", "--yes", "--delete-branch", *method).out
    assert cli.project.git("branch", "--list", "holdfast/*") == ""
    archive = f"refs/holdfast/01-add-letters/archive/branch-{tip[:12]}"
    assert cli.project.git("rev-parse", archive) == tip
    assert "already there" in cli("land").out
    assert cli.json("status")["run"]["landed_in"] == ["main"]
    assert cli.json("list")[0]["landed_in"] == ["main"]
    assert cli("doctor").code == 0


def test_options_that_go_with_another_one_are_refused_alone(completed: Cli) -> None:
    """A forgotten word must not change what happens."""
    assert completed("land", "--yes", "--agent", "claude").code == 2
    assert completed("land", "--yes", "--remote", "origin").code == 2
    assert completed("land", "--yes", "--squash", "--rebase").code == 2
    assert completed.json("status")["run"]["landed_in"] == []


def land_at_once(cli: Cli, *commands: tuple[str, ...]) -> list[int]:
    """Start several `land` while none of them may begin; let all of them go on together. Return their codes."""
    lock = landing_lock_path(cli.project.git_dir)
    with landing_lock(cli.project.open()):
        started = [cli.start("land", "--yes", *command) for command in commands]
        eventually(lambda: all(has_opened(one, lock) for one in started), "all of them got there")
    return [one.wait() for one in started]


MANY = 200


def many_files(tmp_path: Path) -> Cli:
    """Make a completed run of two tasks that changed many files, so that writing them takes a while."""
    cli = Cli(tmp_path / "p")
    script = f"for n in $(seq {MANY}); do echo LETTER >> d/$n; done; echo LETTER > LETTER.txt"
    tasks = [
        {"id": "a", "run": ["sh", "-c", script.replace("LETTER", "a")]},
        {"id": "b", "run": ["sh", "-c", script.replace("LETTER", "b")], "needs": ["a"]},
    ]
    Cli.of(cli.here, *tasks, goal="Add letters")
    for number in range(1, MANY + 1):
        cli.project.write(f"d/{number}", f"{number}\n")
    cli.project.commit("many files")
    assert cli("run", "--yes").code == 0
    return cli


def assert_landed_whole(cli: Cli) -> None:
    """The files have the new content, git sees no change in them, and nothing is left of the landings."""
    assert cli.project.git("status", "--porcelain", "-uno") == ""
    for number in range(1, MANY + 1):
        assert (cli.here / f"d/{number}").read_text() == f"{number}\na\nb\n"
    assert not list(cli.project.git_dir.glob("*.lock"))
    assert not (cli.project.git_dir / "holdfast-update").exists()


MERGE: tuple[str, ...] = ()
SQUASH, REBASE = ("--squash",), ("--rebase",)


@pytest.mark.parametrize(
    ("methods", "commits"),
    [
        ([MERGE] * 3, {1}),
        ([SQUASH] * 3, {1}),
        ([REBASE] * 3, {2}),
        ([SQUASH, REBASE, MERGE, SQUASH], {1, 2}),
        ([(*SQUASH, "--delete-branch"), (*REBASE, "--delete-branch")], {1, 2}),
    ],
)
def test_a_run_that_several_commands_land_at_once_lands_once(
    tmp_path: Path, methods: list[tuple[str, ...]], commits: set[int]
) -> None:
    """One does it; the others wait for it, and find it there."""
    cli = many_files(tmp_path)
    before = go_on(cli)
    assert land_at_once(cli, *methods) == [0] * len(methods)
    there = cli.project.git("rev-list", "--first-parent", f"{before}..main").split()
    assert len(there) in commits
    assert_landed_whole(cli)
    assert "already there" in cli("land").out


def git_after_which_the_branch_is_gone(folder: Path, branch: str) -> Path:
    """Write a `git` that another command follows at once: when the branch has been read, it is archived and removed."""
    git = shutil.which("git")
    program = folder / "git"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *rev-parse*refs/heads/{branch})\n'
        f'  {git} "$@"; code=$?; tip=$({git} "$1" rev-parse -q --verify refs/heads/{branch}) || exit $code\n'
        f'  {git} "$1" update-ref refs/holdfast/{branch.removeprefix("holdfast/")}/archive/branch-$(echo $tip | cut -c-12) $tip\n'
        f'  {git} "$1" update-ref -d refs/heads/{branch}; exit $code;;\n'
        f'esac\nexec {git} "$@"\n'
    )
    program.chmod(0o755)
    return program


def test_a_landed_branch_that_is_removed_while_it_is_looked_at_was_not_discarded(completed: Cli) -> None:
    """Two `land --delete-branch` at once: to one of them the branch is there at first, and then it is not."""
    assert completed("land", "--yes").code == 0
    git = git_after_which_the_branch_is_gone(completed.here.parent / "bin", "holdfast/01-try-it")
    landed = completed("land", "--delete-branch", "--yes", PATH=f"{git.parent}:{os.environ['PATH']}")
    assert landed.code == 0, landed.err
    assert "already there" in landed.out
    assert completed.project.git("branch", "--list", "holdfast/*") == ""


@pytest.mark.parametrize("method", [MERGE, SQUASH, REBASE])
def test_different_runs_that_land_at_once_all_land(tmp_path: Path, method: tuple[str, ...]) -> None:
    """Each on top of the one before, whichever comes first."""
    cli = many_files(tmp_path)
    for name in ("y", "z"):
        cli.plan(writes(name), goal=f"Add {name}")
        assert cli("run", "--yes").code == 0
    go_on(cli)
    assert land_at_once(cli, *((run, *method) for run in ("1", "2", "3"))) == [0, 0, 0]
    assert_landed_whole(cli)
    assert [(cli.here / f"{name}.txt").read_text() for name in "yz"] == ["y\n", "z\n"]
    assert [line["landed_in"] for line in cli.json("list")] == [["main"]] * 3


def test_a_landing_that_does_not_end_is_not_waited_for_without_end(completed: Cli) -> None:
    """Its process may have been stopped. The message names it and what to do; once it is gone, the next one lands."""
    repo = completed.project.open()
    with landing_lock(repo), pytest.raises(LeaseHeldError) as refused, landing_lock(repo, wait_s=0.1):
        pass
    assert refused.value.exit_code is ExitCode.HELD_BY_ANOTHER
    assert (
        f"another command lands a result in this repository (process {os.getpid()})" in refused.value.message
    )
    assert "then run the command again" in refused.value.hint
    assert completed("land", "--yes").code == 0
