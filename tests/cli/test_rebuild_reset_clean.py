"""`rebuild`, `abandon`, `reset`, `clean`: as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.command import Cli, is_alive
from tests.support.runs import Fifo

RUN = "01-try-it"


def _lose_journal(cli: Cli) -> None:
    for path in (cli.here / ".holdfast").glob("journal.db*"):
        path.unlink()


def test_a_lost_journal_comes_back_and_the_run_continues(blocked: Cli) -> None:
    """E11: `status` names the way out, `rebuild` takes it, `resume` carries on."""
    _lose_journal(blocked)
    assert "holdfast rebuild" in blocked("resume").err
    done = blocked("rebuild")
    assert (done.code, "1 of 2 done" in done.out) == (0, True), done.err
    assert blocked.task("a")["status"] == "completed"
    assert blocked("resume", "--yes").code == 1
    assert blocked.task("b")["attempts"] == 2


def test_a_restored_plan_runs_only_after_the_user_agreed_again(blocked: Cli) -> None:
    """Agents can write refs, so what stands in git is no consent."""
    _lose_journal(blocked)
    blocked("rebuild")
    assert blocked("resume").code == 3


def test_a_corrupt_journal_is_refused_by_everything_but_rebuild(completed: Cli) -> None:
    """A11: its bytes are kept, under a name that is told."""
    journal = completed.here / ".holdfast" / "journal.db"
    journal.write_bytes(b"\xff" * 8192)
    assert completed("status").code == 2
    view = completed.json("rebuild")
    assert Path(view["kept"]).read_bytes() == b"\xff" * 8192
    assert completed.run_status() == "completed"


def test_a_sound_journal_is_not_rebuilt_unless_told_to(completed: Cli) -> None:
    """There is nothing to rebuild, and that is said."""
    done = completed("rebuild")
    assert (done.code, "nothing to rebuild" in done.err) == (3, True)
    assert completed("rebuild", "--yes").code == 0


def test_rebuild_leaves_a_live_runner_alone(tmp_path: Path) -> None:
    """Exit code 4: another runner holds a run."""
    at_work, go_on = Fifo(tmp_path / "at-work"), Fifo(tmp_path / "go-on")
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sh", "-c", f"{at_work.give}; {go_on.take}; echo > x"]})
    runner = cli.start("run", "--yes")
    at_work.wait()
    assert cli("rebuild", "--yes").code == 4
    go_on.release()
    assert runner.wait() == 0


def test_abandon_asks_and_keeps_everything(blocked: Cli) -> None:
    """C9: no without a terminal; yes gives the run up, and a second time says so."""
    assert blocked("abandon").code == 3
    assert blocked.run_status() == "blocked"
    assert blocked("abandon", "--yes").code == 0
    assert blocked.run_status() == "abandoned"
    assert blocked.project.git("branch", "--list", "holdfast/*") != ""
    assert "nothing to abandon" in blocked("abandon", "--yes").out


def test_abandon_stops_a_live_runner_first(tmp_path: Path) -> None:
    """C9: its agents end, their work is kept."""
    at_work = Fifo(tmp_path / "at-work")
    script = f"echo half > half.txt; {at_work.give}; sleep 60"
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sh", "-c", script]})
    runner = cli.start("run", "--yes")
    agent = int(at_work.wait())
    done = cli("abandon", "--yes")
    assert done.code == 0, done.err
    assert not is_alive(agent)
    runner.wait()
    assert cli.run_status() == "abandoned"
    assert cli.project.git("show", f"refs/holdfast/{RUN}/wip/a:half.txt") == "half"


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


def test_clean_only_looks_unless_told_what_to_remove(completed: Cli) -> None:
    """A12: nothing is deleted by itself."""
    assert "Nothing was removed" in completed("clean").out
    assert "to free" in completed("clean", "--all", "--dry-run", "--yes").out
    assert completed("clean", "--all").code == 3
    assert len(completed.json("list")) == 1


def test_clean_removes_finished_runs_and_keeps_their_outputs(completed: Cli) -> None:
    """A12: the branch and the summary stay; cleaning again finds nothing."""
    view = completed.json("clean", "--all", "--yes")
    assert (view["removed"], [one["run"] for one in view["runs"]]) == (True, [RUN])
    assert completed.json("list") == []
    outputs = completed.here / ".holdfast" / "outputs" / RUN
    assert json.loads((outputs / "recap.json").read_text())["landed"] == 1
    assert "completed" in (outputs / "summary.md").read_text()
    assert completed.project.git("show", f"holdfast/{RUN}:a.txt") == "a"
    assert completed("clean", "--all", "--yes").code == 0


def test_clean_refuses_a_run_that_is_not_over(blocked: Cli) -> None:
    """Give it up first."""
    done = blocked("clean", RUN, "--yes")
    assert (done.code, "abandon" in done.err) == (2, True)
    assert blocked.json("clean", "--all", "--yes")["runs"] == []
    assert blocked.run_status() == "blocked"


def test_a_run_beside_a_forgotten_one_says_that_git_still_knows_it(blocked: Cli) -> None:
    """A journal that was lost and begun anew must not hide what git proves; `doctor` calls it a problem."""
    _lose_journal(blocked)
    said = blocked("run", "--yes", "--fresh").err
    assert f"git knows {RUN}" in said
    assert blocked("doctor").code == 1
