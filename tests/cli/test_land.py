"""`review`, `land`, `discard`: what becomes of a run branch."""

from __future__ import annotations

from pathlib import Path

from tests.support.command import Cli, writes


def test_review_shows_each_task_with_its_files(tmp_path: Path) -> None:
    """What landed, by which attempt, and the whole against the base."""
    cli = Cli.of(tmp_path / "p", writes("a"), writes("b"))
    cli("run", "--yes")
    said = cli("review").out
    assert "Land a" in said
    assert "b.txt | 1 +" in said
    assert "2 files changed" in said


def test_land_asks_and_takes_no_for_an_answer_without_a_terminal(completed: Cli) -> None:
    """The safe answer is taken, and said."""
    before = completed.project.head()
    done = completed("land")
    assert (done.code, "taken as no" in done.err) == (3, True)
    assert completed.project.head() == before


def test_land_brings_the_run_into_the_users_branch_once(completed: Cli) -> None:
    """Landing again says that it is there."""
    assert completed("land", "--yes").code == 0
    assert (completed.here / "a.txt").exists()
    assert "already there" in completed("land", "--yes").out


def test_status_knows_that_a_result_has_landed_because_git_does(completed: Cli) -> None:
    """Landing is offered until the branch has the result, also when the user merged it by hand."""
    assert "holdfast land 01-try-it" in completed("status").out
    completed.project.git("merge", "-q", "--no-edit", "holdfast/01-try-it")
    said = completed("status").out
    assert ("Its result is in main." in said, "holdfast land" in said) == (True, False)
    assert completed.json("status")["run"]["landed_in"] == ["main"]


def test_a_result_that_landed_elsewhere_is_found_too(completed: Cli) -> None:
    """`land --into` is remembered by git, not by us; another run's branch is no place of the user's."""
    completed.project.git("branch", "next")
    completed.project.git("branch", "holdfast/other", "holdfast/01-try-it")
    assert completed("land", "--yes", "--into", "next").code == 0
    assert completed.json("status")["run"]["landed_in"] == ["next"]


def test_an_unfinished_run_lands_only_on_the_users_word(blocked: Cli) -> None:
    """Half a result is never merged by accident."""
    assert blocked("land").code == 3
    assert blocked("land", "--yes").code == 0


def test_landing_into_a_branch_that_is_not_there_is_refused(completed: Cli) -> None:
    """No branch is made up."""
    assert completed("land", "--yes", "--into", "no-such").code == 2


def test_discard_archives_the_branch(completed: Cli) -> None:
    """The branch goes, its commits stay under the ref that is named; doing it again is no error."""
    tip = completed.project.git("rev-parse", "holdfast/01-try-it")
    assert completed("discard").code == 3
    done = completed("discard", "--yes")
    ref = done.out.split("branch: ")[1].strip()
    assert completed.project.git("rev-parse", ref) == tip
    assert completed.project.git("branch", "--list", "holdfast/*") == ""
    assert completed("discard", "--yes").code == 0
    assert completed("review").code == 2
