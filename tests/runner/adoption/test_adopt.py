"""Carrying on what another system began, in real repositories: what git proves stays done, the rest goes on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.core import events as ev, ids
from holdfast.core.adoption import ClaimedStatus
from holdfast.core.plan import Task
from holdfast.core.projection import PastFailure
from holdfast.core.status import RunStatus
from holdfast.errors import NeedsDecisionError
from holdfast.repo.run_record import FinishedTask, commit_adoption
from holdfast.repo.workspace_commit import FILE_BYTES_MAX
from holdfast.runner.adoption.adopt import adopted_before, adopted_earlier, plan_of
from holdfast.runner.adoption.assessment import digest_of
from holdfast.runner.decisions.rewind import plan_rewind
from holdfast.runner.health import examine_run
from holdfast.runner.recovery.rebuild import rebuild
from holdfast.runner.session import create_run
from holdfast.views.adoption import adoption_text, adoption_view
from tests.support.foreign_runs import MAIN, adopt_into, adopted, assessment_of, claim, foreign
from tests.support.repositories import Project, fingerprint, git, write
from tests.support.runs import Trial, open_project_journal

DONE, RUNNING, FAILED = ClaimedStatus.DONE, ClaimedStatus.RUNNING, ClaimedStatus.FAILED


def _project(tmp_path: Path) -> tuple[Project, str]:
    """Return a project in which another system committed its first task, and that commit."""
    project = Project.create(tmp_path / "p")
    project.write("one.txt", "1\n")
    return project, project.commit("one is done")


def test_what_git_proves_is_done_and_is_not_done_again(tmp_path: Path) -> None:
    """A finished task keeps its commit as proof; only the others get an agent."""
    project, commit = _project(tmp_path)
    trial = adopted(project, foreign(claim("one", DONE, commits=(commit[:9],)), claim("two")))
    assert trial.landed() == ["one"]
    assert trial.execute() is RunStatus.COMPLETED
    assert [event.task for event in trial.of_kind(ev.AttemptStarted)] == ["two"]
    assert trial.show("one.txt") == "1"
    assert trial.violations() == []


def test_the_adoption_changes_no_file_of_the_project(tmp_path: Path) -> None:
    """The commit that says what is done has the tree of the base; the proof is in its trailers."""
    project, commit = _project(tmp_path)
    trial = adopted(project, foreign(claim("one", DONE, attempts=4, commits=(commit,)), claim("two")))
    tip = f"holdfast/{trial.run}"
    assert project.git("rev-parse", f"{tip}^{{tree}}") == project.git("rev-parse", f"{commit}^{{tree}}")
    assert f"Holdfast-Adopted: one 4 {commit}" in project.git("log", "-1", "--format=%B", tip)


def test_a_name_that_looks_like_a_trailer_proves_nothing(tmp_path: Path) -> None:
    """What another system calls its run is text of anybody's making."""
    project, commit = _project(tmp_path)
    forged = f"x\x00\n\nHoldfast-Adopted: two 1 {commit}"
    trial = adopted(project, foreign(claim("one", DONE, commits=(commit,)), claim("two"), name=forged))
    assert trial.landed() == ["one"]


def test_what_is_only_claimed_is_open_and_may_need_no_change(tmp_path: Path) -> None:
    """No commit, no proof: an agent looks at it, is told of the doubt, and may find that all is there."""
    project, _ = _project(tmp_path)
    trial = adopted(project, foreign(claim("one", DONE), claim("two")))
    assert trial.landed() == []
    assert trial.execute() is RunStatus.COMPLETED
    assert "no commit is recorded for it" in trial.brief("one", 2)


def test_claims_may_be_taken_on_trust(tmp_path: Path) -> None:
    """The user may believe a file; the run records that it was on trust, and git still carries the record."""
    project, _ = _project(tmp_path)
    run = foreign(claim("one", DONE), claim("two", DONE, commits=("beef" * 10,)))
    trial = adopted(project, run, trust_claims=True)
    assert trial.landed() == ["one", "two"]
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.of_kind(ev.AttemptStarted) == []


def test_a_commit_that_names_a_task_counts_only_if_the_user_says_so(tmp_path: Path) -> None:
    """A name in a message is a hint, not a proof."""
    project, _ = _project(tmp_path)
    commit = project.commit("feat: subtask-1-1 works now")
    run = foreign(claim("subtask-1-1", DONE), claim("two"))
    doubted = assessment_of(project, run).judged["subtask-1-1"]
    accepted = assessment_of(project, run, accept_named=True).judged["subtask-1-1"]
    assert (doubted.verdict, accepted.verdict, accepted.evidence) == ("claimed", "accepted", commit)
    assert commit[:12] in doubted.why


def test_a_commit_that_is_gone_is_reported_and_the_task_is_open(tmp_path: Path) -> None:
    """A recorded hash that git does not have proves nothing."""
    project, _ = _project(tmp_path)
    found = assessment_of(project, foreign(claim("one", DONE, commits=("0123456789ab",)), claim("two")))
    assert found.judged["one"].verdict == "gone"
    assert [(f.kind, f.task) for f in found.findings] == [("commit-gone", "one")]


def test_a_squashed_commit_is_proven_by_the_same_change(tmp_path: Path) -> None:
    """The recorded commit is on no branch any more, but what it changed is on the base, squashed with more."""
    project, _ = _project(tmp_path)
    project.git("switch", "-q", "-c", "side")
    project.write("two.txt", "2\n")
    original = project.commit("two")
    project.git("switch", "-q", "main")
    project.write("two.txt", "2\n")
    project.write("more.txt", "more\n")
    squashed = project.commit("everything at once")
    judged = assessment_of(project, foreign(claim("two", DONE, commits=(original,)), claim("x"))).judged[
        "two"
    ]
    assert (judged.verdict, judged.evidence) == ("proven", squashed)


def test_the_staging_branch_of_the_other_system_becomes_the_base(tmp_path: Path) -> None:
    """What was finished on a branch of its own is gone on from there; the user's branch is where it lands."""
    project, _ = _project(tmp_path)
    project.git("switch", "-q", "-c", "auto/spec")
    project.write("two.txt", "2\n")
    commit = project.commit("two")
    project.git("switch", "-q", "main")
    run = foreign(claim("two", DONE, commits=(commit,)), claim("three"), branches=("auto/spec",))
    trial = adopted(project, run)
    assert (trial.stored().row.base, trial.stored().row.target) == (commit, "main")
    assert trial.landed() == ["two"]


def test_a_branch_that_holds_all_recorded_commits_is_found_without_a_name(tmp_path: Path) -> None:
    """Files that do not say where the work is are understood by where their commits are."""
    project, _ = _project(tmp_path)
    project.git("switch", "-q", "-c", "somewhere")
    commit = project.commit("two")
    project.git("switch", "-q", "main")
    found = assessment_of(project, foreign(claim("two", DONE, commits=(commit,)), claim("three")))
    assert (found.base_name, found.judged["two"].verdict) == ("somewhere", "proven")


def test_in_a_clone_the_work_is_found_on_the_branch_of_its_remote(tmp_path: Path) -> None:
    """Whoever goes on at another machine has no local branch yet that holds what was finished."""
    project, _ = _project(tmp_path)
    commit = project.commit("two")
    project.git("update-ref", "refs/remotes/origin/auto/spec", commit)
    project.git("reset", "-q", "--hard", "HEAD~1")
    found = assessment_of(project, foreign(claim("two", DONE, commits=(commit,)), claim("three")))
    assert (found.base_name, found.judged["two"].verdict) == ("origin/auto/spec", "proven")


def test_a_project_that_was_moved_keeps_the_unfinished_work_of_its_worktrees(tmp_path: Path) -> None:
    """The files name the old path; the working tree of the same branch is meant."""
    project, _ = _project(tmp_path)
    tree = tmp_path / "tree"
    project.git("worktree", "add", "-q", "-b", "wip/two", str(tree))
    write(tree / "two.txt", "half\n")
    run = foreign(claim("two", RUNNING, worktree="/home/old/tree", branch="wip/two"))
    work = assessment_of(project, run).unfinished["two"]
    assert (work.place, work.files) == (str(tree), 1)


def test_a_dirty_worktree_becomes_a_snapshot_and_stays_as_it_is(tmp_path: Path) -> None:
    """The next agent goes on from what was being written; the original tree, index and branch do not change."""
    project, _ = _project(tmp_path)
    tree = tmp_path / "tree"
    project.git("worktree", "add", "-q", "-b", "wip/two", str(tree))
    write(tree / "two.txt", "half\n")
    write(tree / ".auto-claude" / "state.json", "{}")
    before = fingerprint(tree), git(tree, "status", "--porcelain"), project.git("rev-parse", "wip/two")
    trial = adopted(project, foreign(claim("two", RUNNING, worktree=str(tree)), claim("three")))
    assert (
        fingerprint(tree),
        git(tree, "status", "--porcelain"),
        project.git("rev-parse", "wip/two"),
    ) == before
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.show("two.txt") == "half"
    assert ".auto-claude" not in project.git("ls-tree", "-r", "--name-only", f"holdfast/{trial.run}")


def test_files_that_cannot_be_saved_are_told_before_and_after(tmp_path: Path) -> None:
    """What is too large, or a repository of its own, stays where it is; the dry run and the result say so."""
    project, _ = _project(tmp_path)
    tree = tmp_path / "tree"
    project.git("worktree", "add", "-q", "-b", "wip/two", str(tree))
    write(tree / "two.txt", "half\n")
    with (tree / "huge.bin").open("wb") as file:
        file.truncate(FILE_BYTES_MAX + 1)
    Project.create(tree / "vendored")
    run = foreign(claim("two", RUNNING, worktree=str(tree)))
    found = assessment_of(project, run)
    told = [one.sentence for one in found.findings if one.kind == "left-out"]
    assert found.unfinished["two"].files == 1
    assert told == [
        "two: vendored is a repository of its own and was left out.",
        f"two: huge.bin has {FILE_BYTES_MAX >> 20} MB and was left out: over {FILE_BYTES_MAX >> 20} MB.",
    ]
    assert [sentence in adoption_text(adoption_view(found, run=None)) for sentence in told] == [True, True]
    trial = adopted(project, run)
    saved = trial.state().tasks["two"].carry
    assert project.git("ls-tree", "--name-only", saved).split().count("two.txt") == 1
    assert "huge.bin" not in project.git("ls-tree", "--name-only", saved)


def test_the_next_attempt_continues_from_an_unmerged_branch(tmp_path: Path) -> None:
    """Commits that never reached the base are not lost: they are what the next attempt starts with."""
    project, _ = _project(tmp_path)
    project.git("switch", "-q", "-c", "task/two")
    project.write("two.txt", "on the branch\n")
    commit = project.commit("half of two")
    project.git("switch", "-q", "main")
    trial = adopted(
        project, foreign(claim("two", FAILED, attempts=1, spent=1, branch="task/two"), claim("three"))
    )
    assert trial.state().tasks["two"].carry == commit
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.show("two.txt") == "on the branch"


def test_the_checkout_is_taken_only_if_the_user_says_so(tmp_path: Path) -> None:
    """Uncommitted files of the user are not swept into a run; where they are the work, a word is enough."""
    project, _ = _project(tmp_path)
    project.write("two.txt", "half\n")
    run = foreign(claim("two", RUNNING), claim("three"))
    doubtful = assessment_of(project, run)
    assert doubtful.unfinished == {}
    assert [finding.kind for finding in doubtful.findings] == ["uncommitted"]
    trial = adopted(project, run, checkout=True)
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.show("two.txt") == "half"


def test_attempts_and_feedback_reach_the_next_brief(tmp_path: Path) -> None:
    """What went wrong elsewhere is not learned twice."""
    project, _ = _project(tmp_path)
    past = PastFailure(attempt=1, error="the tests failed", feedback="use the other driver")
    trial = adopted(project, foreign(claim("two", FAILED, attempts=1, spent=1, failures=(past,))))
    assert trial.execute() is RunStatus.COMPLETED
    assert "This is attempt 2" in trial.brief("two", 2)
    assert "use the other driver" in trial.brief("two", 2)


def test_a_spent_budget_stays_spent(tmp_path: Path) -> None:
    """A task that was tried thousands of times is not tried again by itself; `retry` gives it a new budget."""
    project, _ = _project(tmp_path)
    trial = adopted(project, foreign(claim("two", FAILED, attempts=3340, spent=3340)))
    assert trial.status_of("two") == "abandoned"
    assert trial.execute() is RunStatus.BLOCKED
    assert trial.of_kind(ev.AttemptStarted) == []
    assert trial.violations() == []


def test_skipped_tasks_stay_skipped_and_abandoned_ones_abandoned(tmp_path: Path) -> None:
    """Decisions of the user over there hold here."""
    project, _ = _project(tmp_path)
    run = foreign(claim("one", ClaimedStatus.SKIPPED), claim("two", ClaimedStatus.ABANDONED))
    trial = adopted(project, run)
    assert (trial.status_of("one"), trial.status_of("two")) == ("skipped", "abandoned")


def test_an_output_file_of_the_state_proves_a_step_without_code(tmp_path: Path) -> None:
    """A phase that only writes a report is done if the report is there."""
    project, _ = _project(tmp_path)
    run = foreign(
        claim("analyse", DONE, outputs=("out/01.md",)),
        claim("plan", DONE, outputs=("out/02.md",)),
        documents={MAIN: b"{}", "out/01.md": b"# Found"},
    )
    found = assessment_of(project, run).judged
    assert (found["analyse"].verdict, found["plan"].verdict) == ("proven", "claimed")


def test_a_done_task_below_an_open_one_keeps_its_place(tmp_path: Path) -> None:
    """What another system did out of order is reported, and the open task is done without the done one again."""
    project, commit = _project(tmp_path)
    stages = {"first": ["zero"], "second": ["one"]}
    run = foreign(claim("zero"), claim("one", DONE, commits=(commit,)), stages=stages)
    assert "done-before-needs" in {finding.kind for finding in assessment_of(project, run).findings}
    trial = adopted(project, run)
    assert trial.execute() is RunStatus.COMPLETED
    assert [event.task for event in trial.of_kind(ev.AttemptStarted)] == ["zero"]
    assert trial.violations() == []


def test_a_deliverable_that_is_gone_is_told_and_blocks_nothing(tmp_path: Path) -> None:
    """A done task's file was removed since: nobody is left to deliver it, so no stage waits for it."""
    project, commit = _project(tmp_path)
    run = foreign(claim("one", DONE, commits=(commit,)), claim("two"))
    promising = replace(run.plan.stages[0].tasks[0], files=("one.txt", "gone.txt"))
    stage = replace(run.plan.stages[0], tasks=(promising, *run.plan.stages[0].tasks[1:]))
    run = replace(run, plan=replace(run.plan, stages=(stage,)))
    assert [finding.kind for finding in assessment_of(project, run).findings] == ["deliverable-missing"]
    assert adopted(project, run).execute() is RunStatus.COMPLETED


def test_doctor_finds_nothing_wrong_with_an_adopted_run(tmp_path: Path) -> None:
    """Every invariant holds of a run that began elsewhere."""
    project, commit = _project(tmp_path)
    trial = adopted(project, foreign(claim("one", DONE, commits=(commit,)), claim("two")))
    with open_project_journal(project.open()) as journal:
        assert examine_run(project.open(), journal, trial.run) == []
    trial.execute()
    with open_project_journal(project.open()) as journal:
        assert examine_run(project.open(), journal, trial.run) == []


def test_rebuild_restores_an_adopted_run_from_git(tmp_path: Path) -> None:
    """The journal may be lost: what was adopted, its attempts and its feedback are in git too."""
    project, commit = _project(tmp_path)
    past = PastFailure(attempt=1, error="broken", feedback="mend it")
    trial = adopted(
        project,
        foreign(
            claim("one", DONE, commits=(commit,)),
            claim("two", FAILED, attempts=2, spent=1, failures=(past,)),
            claim("three", ClaimedStatus.SKIPPED),
        ),
    )
    before = trial.state()
    project.open().state_dir.journal.unlink()
    rebuild(project.open(), lambda *_question: False, replace=False)
    after = trial.state()
    assert after.row.origin == before.row.origin
    assert after.tasks["two"].failures == before.tasks["two"].failures
    assert [after.tasks[name].status for name in after.names] == ["completed", "pending", "skipped"]
    assert trial.execute() is RunStatus.COMPLETED


def test_beginning_again_at_an_adopted_task_leaves_the_others_done(tmp_path: Path) -> None:
    """One task that another system did is done anew; what it did besides is not."""
    project, commit = _project(tmp_path)
    done = [claim(name, DONE, commits=(commit,)) for name in ("one", "two", "three")]
    trial = adopted(project, foreign(*done, claim("four")))
    with open_project_journal(project.open()) as journal:
        rewind = plan_rewind(project.open(), journal, trial.run, "three")
    assert rewind.redone == ("three", "four")
    assert rewind.landed == ("three",)


def test_the_same_files_are_adopted_once(tmp_path: Path) -> None:
    """A second look at the same state finds the run that has it; at a changed one, the run it was before."""
    project, _ = _project(tmp_path)
    run = foreign(claim("one"), claim("two"))
    trial = adopted(project, run)
    changed = foreign(claim("one", FAILED), claim("two"))
    with open_project_journal(project.open()) as journal:
        same, earlier = adopted_before(journal, digest_of(run)), adopted_earlier(journal, changed)
        assert same is not None
        assert earlier is not None
        assert same.run == earlier.run == trial.run
        assert adopted_before(journal, digest_of(changed)) is None


def test_a_run_whose_adoption_was_cut_short_is_completed_before_it_continues(tmp_path: Path) -> None:
    """A kill right after the run came into being must not let everything be done again."""
    project, commit = _project(tmp_path)
    run = foreign(claim("one", DONE, commits=(commit,)), claim("two"))
    repo = project.open()
    with open_project_journal(repo) as journal:
        plan = plan_of(assessment_of(project, run), "claude", {}, ["claude"])
        begun = create_run(repo, journal, plan, MAIN, adopting=digest_of(run))
        trial = Trial(project, begun)
        with pytest.raises(NeedsDecisionError, match="cut short"):
            trial.execute()
        project.commit("somebody goes on meanwhile")
        assert adopt_into(repo, journal, run) == begun
    assert trial.landed() == ["one"]


@pytest.mark.parametrize("moved", [False, True], ids=["before the branch moved", "after it moved"])
def test_a_half_adopted_run_survives_the_loss_of_the_journal_too(tmp_path: Path, moved: bool) -> None:
    """Killed in the midst of adopting, then the journal lost: rebuilding and adopting again ends the same."""
    project, commit = _project(tmp_path)
    run = foreign(claim("one", DONE, commits=(commit,)), claim("two", RUNNING, attempts=1))
    assessment, repo = assessment_of(project, run), project.open()
    with open_project_journal(repo) as journal:
        plan = plan_of(assessment, "claude", {}, ["claude"])
        begun = create_run(repo, journal, plan, MAIN, adopting=digest_of(run))
    if moved:
        made = commit_adoption(repo, assessment.base, begun, "Adopt", [FinishedTask("one", 1, commit)])
        project.git("branch", f"holdfast/{begun}", made)
    repo.state_dir.journal.unlink()
    rebuild(project.open(), lambda *_question: False, replace=False)
    with open_project_journal(repo) as journal:
        assert adopt_into(repo, journal, run) == begun
    trial = Trial(project, begun)
    assert trial.landed() == ["one"]
    assert trial.violations() == []


def test_a_repository_without_the_other_systems_folder_still_carries_the_run_on(tmp_path: Path) -> None:
    """Once adopted, nothing depends on the originals."""
    project, commit = _project(tmp_path)
    tree = tmp_path / "tree"
    project.git("worktree", "add", "-q", "-b", "wip/two", str(tree))
    write(tree / "two.txt", "half\n")
    trial = adopted(
        project, foreign(claim("one", DONE, commits=(commit,)), claim("two", RUNNING, branch="wip/two"))
    )
    shutil.rmtree(tree)
    project.git("worktree", "prune")
    project.git("branch", "-q", "-D", "wip/two")
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.show("two.txt") == "half"


def test_a_command_that_another_system_left_half_done_starts_clean(tmp_path: Path) -> None:
    """Its branch is kept at a ref, and the command has its effect once."""
    project, _ = _project(tmp_path)
    project.git("switch", "-q", "-c", "wip/two")
    project.write("two.txt", "x")
    half = project.commit("half of two")
    project.git("switch", "-q", "main")
    run = foreign(claim("two", RUNNING, branch="wip/two"))
    command = Task(id="two", run=("sh", "-c", "printf x >> two.txt"), allow_empty=True)
    stages = (replace(run.plan.stages[0], tasks=(command,)),)
    trial = adopted(project, replace(run, plan=replace(run.plan, stages=stages)))
    row = trial.state().tasks["two"]
    assert (row.carry, row.set_aside) == ("", half)
    assert project.git("rev-parse", ids.cut_short_ref(trial.run, "two", 1)) == half
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.show("two.txt") == "x"
    assert trial.violations() == []
