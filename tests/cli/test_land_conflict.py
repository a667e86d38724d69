"""`land` when the branch and the run changed the same lines: a run of its own resolves that, or a person does."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Cli, on_terminal
from tests.support.runs import Fifo

BOTH = "sed -i '/^<<<<<<<\\|^=======\\|^>>>>>>>\\|^|||||||/d' a.txt"
"""What an agent does that keeps both sides."""
WORK = "echo run > a.txt"


def conflicting(tmp_path: Path, resolve: str = BOTH, **plan: Any) -> Cli:
    """Make a completed run, and let the user's branch change the line that the run changed."""
    script = f'if grep -q "Resolve a merge conflict" $HOLDFAST_BRIEF; then {resolve}; else {WORK}; fi'
    agents = {"robot": {"command": ["sh", "-c", script]}}
    cli = Cli.of(tmp_path / "p", {"id": "a", "prompt": "write a.txt"}, agent="robot", agents=agents, **plan)
    assert cli("run", "--yes", "--no-sandbox").code == 0
    cli.project.write("a.txt", "user\n")
    cli.project.commit("the user goes on")
    return cli


def is_in(cli: Cli, commit: str, branch: str = "main") -> bool:
    """Tell whether a branch contains a commit."""
    return commit in cli.project.git("rev-list", branch).split()


def runs_of(cli: Cli) -> list[str]:
    """Return the ids of all runs."""
    return [line["id"] for line in cli.json("list")]


def test_without_a_terminal_a_conflict_names_the_files_and_both_ways(tmp_path: Path) -> None:
    """Exit code 3; nothing has changed."""
    cli = conflicting(tmp_path)
    before = cli.project.head()
    refused = cli("land", "--yes")
    assert (refused.code, cli.project.head()) == (3, before)
    assert "changed the same lines of a.txt" in refused.err
    assert "`holdfast land 1 --resolve`" in refused.err
    assert "`git switch main`, then `git merge" in refused.err
    assert runs_of(cli) == ["01-try-it"]


def test_what_helps_with_a_conflict_keeps_the_shape_that_was_asked_for(tmp_path: Path) -> None:
    """Typed as it is printed, a command squashes into the branch that was named, and not merges into another."""
    cli = conflicting(tmp_path, "false", limits={"attempts": 1})
    cli.project.git("branch", "next")
    shape = ("--squash", "--into", "next")
    again = "`holdfast land 1 --squash --into next --resolve`"
    assert f"{again} lets an agent" in cli("land", "--yes", *shape).err
    assert f"then {again} goes on." in cli("land", "--yes", "--resolve", *shape).out
    moved = cli.project.git("commit-tree", "main^{tree}", "-p", "holdfast/01-try-it", "-m", "x")
    cli.project.git("update-ref", "refs/heads/holdfast/01-try-it", moved)
    accepted = f"`holdfast land 1 --rebase --into next --accept-branch {moved[:12]}`"
    assert accepted in cli("land", "1", "--yes", "--rebase", "--into", "next").err


def test_an_agent_resolves_a_conflict_and_the_result_lands(tmp_path: Path) -> None:
    """In one command: the branch moves to a merge that contains both sides, and both runs are there."""
    cli = conflicting(tmp_path)
    mine, theirs = cli.project.head(), cli.project.git("rev-parse", "holdfast/01-try-it")
    done = cli("land", "--yes", "--resolve")
    assert (done.code, "conflicts resolved by 02-land-01-try-it-in-main-try-it" in done.out) == (0, True)
    assert sorted((cli.here / "a.txt").read_text().split()) == ["run", "user"]
    assert (is_in(cli, mine), is_in(cli, theirs)) == (True, True)
    assert [line["landed_in"] for line in cli.json("list")] == [["main"], ["main"]]
    assert cli.project.git("status", "--porcelain", "-uno") == ""
    assert cli("doctor").code == 0
    assert "already there" in cli("land", "1").out


def test_the_attempt_begins_with_the_merge_and_is_told_of_both_sides(tmp_path: Path) -> None:
    """A conflict's attempt, not an implementation; its brief says what the run was for."""
    brief = tmp_path / "brief"
    cli = conflicting(tmp_path, f"cp $HOLDFAST_BRIEF {brief}; cp a.txt {tmp_path}/seen; {BOTH}")
    assert cli("land", "--yes", "--resolve").code == 0
    seen = (tmp_path / "seen").read_text()
    assert ("<<<<<<<" in seen, "run" in seen, "user" in seen) == (True, True, True)
    assert "What the run was for: Try it" in brief.read_text()
    attempts = cli.json("inspect", "2", "resolve")["tasks"][0]["attempts"]
    assert [one["kind"] for one in attempts] == ["conflict"]


def test_a_resolution_that_drops_a_side_is_refused(tmp_path: Path) -> None:
    """The rule of the merge queue holds here, too; the next agent sees the conflict again."""
    first = f"mkdir {tmp_path}/tried 2>/dev/null && echo user > a.txt || {{ {BOTH}; }}"
    cli = conflicting(tmp_path, first)
    assert cli("land", "--yes", "--resolve").code == 0
    assert sorted((cli.here / "a.txt").read_text().split()) == ["run", "user"]
    attempts = cli.json("inspect", "2", "resolve")["tasks"][0]["attempts"]
    assert [one["kind"] for one in attempts] == ["conflict", "conflict"]


def test_the_checks_of_the_run_judge_the_resolution(tmp_path: Path) -> None:
    """What does not hold does not land: the run that resolves rests, and the branch stays."""
    cli = conflicting(tmp_path, verify=["! grep -q user a.txt || test -e fixed"], limits={"attempts": 1})
    before = cli.project.head()
    refused = cli("land", "--yes", "--resolve")
    assert (refused.code, cli.project.head()) == (1, before)
    assert "01-try-it has not landed: run 02-" in refused.out
    assert "`holdfast retry 2 resolve` lets them try again" in refused.out
    assert "then `holdfast land 1 --resolve` goes on." in refused.out


@pytest.mark.parametrize("method", ["--squash", "--rebase"])
def test_a_resolution_lands_as_one_commit_where_no_merge_is_wanted(tmp_path: Path, method: str) -> None:
    """The message is the run's, and both runs are known to be there."""
    cli = conflicting(tmp_path)
    before = cli.project.head()
    assert cli("land", "--yes", "--resolve", method).code == 0
    assert cli.project.git("log", "-1", "--format=%P %s") == f"{before} Try it"
    assert [line["landed_in"] for line in cli.json("list")] == [["main"], ["main"]]
    assert "already there" in cli("land", "1", method).out


def test_a_branch_that_moves_again_meanwhile_is_resolved_again(tmp_path: Path) -> None:
    """The second run begins with the first one's result; no commit of the user is lost."""
    again = f"cd {tmp_path}/p && echo more > a.txt && git commit -qam more"
    agent = f"{BOTH}; mkdir {tmp_path}/moved 2>/dev/null && ( {again} ) || true"
    cli = conflicting(tmp_path, agent)
    assert cli("land", "--yes", "--resolve").code == 0
    assert sorted(set((cli.here / "a.txt").read_text().split())) == ["more", "run", "user"]
    assert len(runs_of(cli)) == 3
    assert [line["landed_in"] for line in cli.json("list")] == [["main"]] * 3


def test_a_killed_resolution_is_continued_by_landing_again(tmp_path: Path) -> None:
    """Nothing is lost, nothing is done twice: the same run goes on, and its agent is found alive."""
    at_work, go = Fifo(tmp_path / "at-work"), Fifo(tmp_path / "go")
    cli = conflicting(tmp_path, f"{at_work.give}; {go.take}; {BOTH}")
    landing = cli.start("land", "--yes", "--resolve")
    at_work.wait()
    os.killpg(landing.pid, signal.SIGKILL)
    landing.wait()
    assert "(run 02-" in cli("land", "1", "--yes").err
    go.release()
    assert cli("land", "1", "--yes", "--resolve").code == 0
    assert len(runs_of(cli)) == 2
    assert cli.json("recap", "2")["metrics"]["attempts"] == 1
    assert sorted((cli.here / "a.txt").read_text().split()) == ["run", "user"]


@pytest.mark.parametrize("method", [(), ("--squash",)])
def test_the_same_command_goes_on_after_a_kill(tmp_path: Path, method: tuple[str, ...]) -> None:
    """The latest run is now the one that resolves: it stands for the run whose result it lands."""
    at_work, go = Fifo(tmp_path / "at-work"), Fifo(tmp_path / "go")
    cli = conflicting(tmp_path, f"{at_work.give}; {go.take}; {BOTH}")
    before, command = cli.project.head(), ("land", "--yes", "--resolve", *method)
    landing = cli.start(*command)
    at_work.wait()
    os.killpg(landing.pid, signal.SIGKILL)
    landing.wait()
    go.release()
    done = cli(*command)
    assert (done.code, "01-try-it is in main" in done.out) == (0, True), done.out + done.err
    assert cli.project.git("log", "-1", "--first-parent", "--format=%P").split()[0] == before
    assert [line["landed_in"] for line in cli.json("list")] == [["main"], ["main"]]


def test_a_result_whose_resolution_rests_still_waits_to_be_landed(tmp_path: Path) -> None:
    """Nothing has landed, and `land` does not say that there is nothing to do."""
    cli = conflicting(tmp_path, "false", limits={"attempts": 1})
    assert cli("land", "--yes", "--resolve").code == 1
    refused = cli("land", "--squash", "--yes")
    assert (refused.code, "main and 01-try-it changed the same lines" in refused.err) == (3, True)
    assert "(run 02-" in refused.err


def test_a_run_is_not_cleaned_while_another_resolves_its_conflicts(tmp_path: Path) -> None:
    """Its landing would be forgotten, and with it what the other run is for."""
    cli = conflicting(tmp_path, "false", limits={"attempts": 1})
    assert cli("land", "--yes", "--resolve").code == 1
    before = runs_of(cli)
    assert cli("clean", "--all", "--yes").code == 0
    assert runs_of(cli) == before
    refused = cli("clean", "1", "--yes")
    assert (refused.code, "`holdfast abandon 2`" in refused.err) == (2, True)


def test_a_resolution_that_is_named_lands_the_run_in_its_branch(tmp_path: Path) -> None:
    """`land 2` squashes what run 1 did, with its goal, into the branch for which run 2 resolved it."""
    cli = conflicting(tmp_path, f"test -e {tmp_path}/go && {BOTH}", limits={"attempts": 1})
    cli.project.git("branch", "next")
    assert cli("land", "--yes", "--resolve", "--into", "next").code == 1
    (tmp_path / "go").touch()
    cli("retry", "2", "resolve")
    assert cli("resume", "2", "--yes").code == 0
    done = cli("land", "2", "--yes", "--squash")
    assert (done.code, "01-try-it is in next (squash" in done.out) == (0, True), done.out + done.err
    assert cli.project.git("log", "-1", "--format=%s", "next") == "Try it"
    assert cli.json("status", "1")["run"]["landed_in"] == ["next"]


def test_a_resolution_that_was_resumed_lands_without_another_word(tmp_path: Path) -> None:
    """`resume` may finish it as well; `land` finds what it needs."""
    cli = conflicting(tmp_path, f"test -e {tmp_path}/go && {BOTH}", limits={"attempts": 1})
    assert cli("land", "--yes", "--resolve").code == 1
    (tmp_path / "go").touch()
    cli("retry", "2", "resolve")
    assert cli("resume", "2", "--yes").code == 0
    assert cli("land", "1", "--yes").code == 0
    assert [line["landed_in"] for line in cli.json("list")] == [["main"], ["main"]]


def test_a_resolution_that_a_person_went_on_with_lands_as_the_hint_says(tmp_path: Path) -> None:
    """The tip that is accepted may be that of the run that resolved, and the shape is kept."""
    cli = conflicting(tmp_path, f"test -e {tmp_path}/go && {BOTH}", limits={"attempts": 1})
    assert cli("land", "--yes", "--resolve").code == 1
    (tmp_path / "go").touch()
    cli("retry", "2", "resolve")
    assert cli("resume", "2", "--yes").code == 0
    branch = f"holdfast/{runs_of(cli)[1]}"
    moved = cli.project.git("commit-tree", f"{branch}^{{tree}}", "-p", branch, "-m", "by hand")
    cli.project.git("update-ref", f"refs/heads/{branch}", moved)
    hint = f"holdfast land 2 --squash --accept-branch {moved[:12]}"
    assert f"`{hint}`" in cli("land", "--squash", "--yes").err
    done = cli(*hint.split()[1:], "--yes")
    assert (done.code, "01-try-it is in main (squash" in done.out) == (0, True), done.err


def test_a_discarded_resolution_is_forgotten(tmp_path: Path) -> None:
    """The conflict is there again, and another agent resolves it."""
    cli = conflicting(tmp_path)
    cli.project.git("branch", "next")
    assert cli("land", "--yes", "--resolve", "--into", "next").code == 0
    cli.project.git("branch", "-f", "next", "main")
    assert cli("discard", "2", "--yes").code == 0
    assert cli("land", "1", "--yes", "--into", "next").code == 3
    assert cli("land", "1", "--yes", "--into", "next", "--resolve").code == 0
    assert len(runs_of(cli)) == 3


def test_a_run_that_lands_by_itself_says_how_its_conflict_is_resolved(tmp_path: Path) -> None:
    """`run --land` does not start another run unasked."""
    moves = f"cd {tmp_path}/p && echo user > a.txt && git commit -qam user"
    script = f"echo run > a.txt; ( {moves} )"
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sh", "-c", script]})
    done = cli("run", "--yes", "--no-sandbox", "--land")
    assert (done.code, "`holdfast land 1 --resolve`" in done.err) == (3, True)
    assert cli.run_status() == "completed"


def test_on_a_terminal_the_user_is_asked(tmp_path: Path) -> None:
    """No leaves everything as it is; yes does all of it."""
    cli = conflicting(tmp_path)
    before = cli.project.head()
    code, screen = on_terminal(cli, "land", answers="y\nn\n")
    assert (code, "Conflicts in a.txt. Let an agent resolve them?" in screen) == (3, True)
    assert cli.project.head() == before
    code, screen = on_terminal(cli, "land", answers="y\ny\n", NO_COLOR="1")
    assert (code, "conflicts resolved by" in screen) == (0, True)


def test_a_plan_without_an_agent_needs_one_to_be_named(tmp_path: Path) -> None:
    """Its tasks are commands; the user's own agent is consented to and resolves."""
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sh", "-c", WORK]})
    assert cli("run", "--yes", "--no-sandbox").code == 0
    cli.project.write("a.txt", "user\n")
    cli.project.commit("the user goes on")
    refused = cli("land", "--yes", "--resolve")
    assert (refused.code, "names no agent" in refused.err) == (2, True)


def test_a_lost_journal_forgets_no_conflict(tmp_path: Path) -> None:
    """The run that resolves is rebuilt from git with the merge that it begins with."""
    cli = conflicting(tmp_path, f"test -e {tmp_path}/go && {BOTH}", limits={"attempts": 1})
    assert cli("land", "--yes", "--resolve").code == 1
    (cli.here / ".holdfast" / "journal.db").unlink()
    assert cli("rebuild").code == 0
    (tmp_path / "go").touch()
    assert cli("resume", "2", "--yes", "--no-sandbox").code == 0
    assert cli("land", "1", "--yes").code == 0
    assert sorted((cli.here / "a.txt").read_text().split()) == ["run", "user"]
