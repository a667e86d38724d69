"""A run branch that the user squashed, rebased or reset: what is provably there stays done, nothing else does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.core import events as ev
from holdfast.core.status import RunStatus
from holdfast.errors import ForeignCommitsError
from holdfast.reporting.recovery_report import ResumeAction
from holdfast.runner.health import examine_run
from tests.support.repositories import Project, git
from tests.support.runs import Fifo, Trial, kill, open_project_journal, sh, stage, start_runner


def _half_done(tmp_path: Path) -> tuple[Trial, Path]:
    """Return a run that rests with A and B landed and C not, and a worktree on its branch where the user works."""
    count = tmp_path / "count"
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage(
            "one",
            sh("A", f"echo A >> {count}; echo a > A.txt; echo a >> a.txt"),
            sh("B", f"echo B >> {count}; echo b > B.txt; echo b >> a.txt", needs=["A"]),
            sh("C", "echo c > C.txt", needs=["B"]),
        ),
    )
    assert trial.execute(only=frozenset({"A", "B"})) is RunStatus.PAUSED
    worktree = tmp_path / "worktree"
    trial.project.git("worktree", "add", "-q", str(worktree), f"holdfast/{trial.run}")
    return trial, worktree


def _finish(trial: Trial, tmp_path: Path, accepted_tip: str = "") -> list[str]:
    """Carry the run to its end; return which tasks' agents ever ran, and check that the run keeps its promises."""
    assert trial.execute(accepted_tip=accepted_tip) is RunStatus.COMPLETED
    repo = trial.project.open()
    with open_project_journal(repo) as journal:
        assert examine_run(repo, journal, trial.run) == []
    return (tmp_path / "count").read_text().split()


def test_squashed_landings_are_not_done_again(tmp_path: Path) -> None:
    """S5: one commit with the content of both; the later landing on the same file proves the earlier one."""
    trial, worktree = _half_done(tmp_path)
    git(worktree, "reset", "-q", "--soft", trial.stored().row.base)
    git(worktree, "commit", "-q", "-m", "squashed")
    squash = git(worktree, "rev-parse", "HEAD")
    assert _finish(trial, tmp_path) == ["A", "B"]
    assert {(e.task, e.commit, e.proof) for e in trial.of_kind(ev.LandingReplaced)} == {
        ("A", squash, "tree"),
        ("B", squash, "tree"),
    }


def test_rebased_landings_are_not_done_again(tmp_path: Path) -> None:
    """S5: the merges are flattened onto other ground; the same patches are there."""
    trial, worktree = _half_done(tmp_path)
    trial.project.write("other.txt", "other\n")
    onto = trial.project.commit("other work")
    git(worktree, "rebase", "-q", onto)
    assert _finish(trial, tmp_path, accepted_tip=trial.facts().tip) == ["A", "B"]
    assert {e.proof for e in trial.of_kind(ev.LandingReplaced)} == {"patch"}
    assert trial.show("other.txt") == "other"


def test_merges_made_anew_by_a_rebase_are_recognised(tmp_path: Path) -> None:
    """S5: the trailers are there under other ids; the same change counts once."""
    trial, worktree = _half_done(tmp_path)
    trial.project.write("other.txt", "other\n")
    git(worktree, "rebase", "-q", "--rebase-merges", trial.project.commit("other work"))
    assert _finish(trial, tmp_path, accepted_tip=trial.facts().tip) == ["A", "B"]
    assert trial.landed() == ["A", "B", "C"]


def test_a_landing_that_is_gone_without_proof_is_done_again(tmp_path: Path) -> None:
    """S5: the recorded commit is missing, so the work is not done; that is said, and its effect is had once."""
    trial, worktree = _half_done(tmp_path)
    git(worktree, "reset", "-q", "--hard", trial.state().tasks["A"].merge_commit)
    assert _finish(trial, tmp_path) == ["A", "B", "B"]
    assert [event.task for event in trial.of_kind(ev.LandingVanished)] == ["B"]
    assert trial.show("a.txt").split().count("b") == 1


def test_resuming_again_records_no_second_proof(tmp_path: Path) -> None:
    """The same branch gives the same answer, so there is nothing new to say."""
    trial, worktree = _half_done(tmp_path)
    git(worktree, "reset", "-q", "--soft", trial.stored().row.base)
    git(worktree, "commit", "-q", "-m", "squashed")
    for _ in range(2):
        trial.execute(only=frozenset({"A"}))
    assert len(trial.of_kind(ev.LandingReplaced)) == 2


def test_a_dry_run_knows_what_is_provably_there(tmp_path: Path) -> None:
    """What resuming would do is worked out from the same evidence."""
    trial, worktree = _half_done(tmp_path)
    git(worktree, "reset", "-q", "--soft", trial.stored().row.base)
    git(worktree, "commit", "-q", "-m", "squashed")
    moves = {name: task.move for name, task in trial.preview().items()}
    assert moves == {"A": ResumeAction.SKIP, "B": ResumeAction.SKIP, "C": ResumeAction.RUN}


def test_an_agent_whose_landing_was_put_back_is_ended(tmp_path: Path) -> None:
    """The branch was reset, B was being done again, and then the branch was put back: nobody needs that agent."""
    again = Fifo(tmp_path / "again")
    waits = f"[ $HOLDFAST_ATTEMPT_NUMBER -lt 2 ] || {{ {again.give}; exec sleep 1000; }}"
    tasks = (sh("A", "echo a > A.txt"), sh("B", f"{waits}; echo b > B.txt", needs=["A"]), sh("C", "false"))
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", *tasks), limits={"attempts": 1})
    assert trial.execute(only=frozenset({"A", "B"})) is RunStatus.PAUSED
    branch, landed = trial.stored().row.branch, trial.facts().tip
    trial.project.git("update-ref", branch, f"{landed}~1")
    runner = start_runner(trial)
    pid = int(again.wait())
    kill(runner)
    trial.project.git("update-ref", branch, landed)
    assert trial.execute() is RunStatus.BLOCKED
    assert trial.landed() == ["A", "B"]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_branch_that_was_rebased_onto_other_work_waits_for_the_users_word(tmp_path: Path) -> None:
    """That other work came in unchecked: only the user can say that it is theirs."""
    trial, worktree = _half_done(tmp_path)
    trial.project.write("other.txt", "other\n")
    git(worktree, "rebase", "-q", trial.project.commit("other work"))
    with pytest.raises(ForeignCommitsError, match="3 of its commits are not Holdfast's"):
        trial.execute()
    with pytest.raises(ForeignCommitsError):
        trial.preview()
    kept = trial.project.git("for-each-ref", "--format=%(objectname)", f"refs/holdfast/{trial.run}/archive")
    assert trial.facts().tip in kept


def test_a_landing_that_was_put_back_while_a_runner_lived_is_not_repeated(tmp_path: Path) -> None:
    """The merge queue finds the branch moved: the run rests, and recovery knows that landing as its own."""
    project = Project.create(tmp_path / "p")
    again = "[ $HOLDFAST_ATTEMPT_NUMBER -lt 2 ] || git -C {path} update-ref {branch} {landed}; echo b > B.txt"
    place = tmp_path / "landed"
    branch = "refs/heads/holdfast/$HOLDFAST_RUN"
    script = again.format(path=project.path, branch=branch, landed=f"$(cat {place})")
    tasks = (sh("A", "echo a > A.txt"), sh("B", script, needs=["A"]), sh("C", "echo c > C.txt", needs=["B"]))
    trial = Trial.of(project, stage("one", *tasks))
    assert trial.execute(only=frozenset({"A", "B"})) is RunStatus.PAUSED
    place.write_text(trial.facts().tip)
    trial.project.git("update-ref", trial.stored().row.branch, f"{trial.facts().tip}~1")
    assert trial.execute() is RunStatus.BLOCKED
    assert "somebody else moved branch" in trial.stored().row.reason
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.landed() == ["A", "B", "C"]
