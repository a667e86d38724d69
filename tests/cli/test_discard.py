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
