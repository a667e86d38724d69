"""`discard`: a run's branch is archived and removed."""

from __future__ import annotations

from tests.support.command import Cli


def test_discard_archives_the_branch(completed: Cli) -> None:
    """The branch goes, its commits stay under the ref that is named; doing it again is no error."""
    tip = completed.project.git("rev-parse", "holdfast/01-try-it")
    assert completed("discard").code == 3
    done = completed("discard", "--yes")
    ref = done.out.split("branch: ")[1].strip()
    assert completed.project.git("rev-parse", ref) == tip
    assert completed.project.git("branch", "--list", "holdfast/*") == ""
    assert completed("discard", "--yes").code == 0
    assert "discarded" in completed("review").out


def test_what_is_discarded_is_not_asked_about_again(completed: Cli) -> None:
    """There is nothing left to decide."""
    assert completed("discard", "--yes").code == 0
    done = completed("discard")
    assert (done.code, "has no branch any more" in done.out) == (0, True)


def test_a_branch_that_is_checked_out_is_refused_before_the_run_is_abandoned(blocked: Cli) -> None:
    """Half a discard would help nobody."""
    blocked.project.git("switch", "-q", "holdfast/01-try-it")
    done = blocked("discard", "--yes")
    assert (done.code, "is checked out in" in done.err) == (2, True)
    assert blocked.run_status() == "blocked"
