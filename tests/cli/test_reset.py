"""`reset`: a task or a run goes back to its beginning, after a backup."""

from __future__ import annotations

from pathlib import Path

from tests.support.command import Cli

RUN = "01-try-it"


def test_resetting_a_task_backs_up_first(blocked: Cli) -> None:
    """E8: the copy is named; the task is as if it had never been tried."""
    assert blocked("reset", RUN, "b").code == 3
    done = blocked("reset", RUN, "b", "--yes")
    copy = Path(done.out.split("backup: ")[1].strip())
    assert (done.code, copy.exists(), blocked.task("b")["status"]) == (0, True, "pending")
    assert blocked("reset", RUN, "a", "--yes").code == 2
    assert blocked("reset", RUN, "nope", "--yes").code == 2


def test_resetting_a_run_puts_it_away_and_starts_nothing(blocked: Cli) -> None:
    """E8: branch archived, workspaces gone, a backup of journal and refs."""
    assert blocked("reset", RUN, "--yes").code == 0
    assert blocked.run_status() == "abandoned"
    assert blocked.project.git("branch", "--list", "holdfast/*") == ""
    assert not list((blocked.here / ".holdfast" / "work").glob("*/*"))
    assert len(list((blocked.here / ".holdfast" / "backups").iterdir())) == 2
    assert len(blocked.json("list")) == 1


def test_a_reset_that_cannot_be_is_refused_before_anything_is_asked(blocked: Cli) -> None:
    """A task that landed; a run that is over; a branch that somebody has checked out."""
    landed = blocked("reset", RUN, "a")
    assert (landed.code, "has landed" in landed.err, "again from nothing?" in landed.err) == (2, True, False)
    assert "`holdfast resume 1 --from a`" in landed.err
    blocked.project.git("switch", "-q", f"holdfast/{RUN}")
    busy = blocked("reset", RUN)
    assert (busy.code, "is checked out in" in busy.err, "?" in busy.err) == (2, True, False)
    assert blocked.run_status() == "blocked"
    blocked.project.git("switch", "-q", "main")
    assert blocked("abandon", "--yes").code == 0
    over = blocked("reset", RUN, "b")
    assert (over.code, "is abandoned" in over.err, "?" in over.err) == (2, True, False)
