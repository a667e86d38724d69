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
