"""`rebuild`: a lost or damaged journal is restored from git."""

from __future__ import annotations

from pathlib import Path

from tests.support.command import Cli, fails, on_terminal, writes
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


def test_a_run_beside_a_forgotten_one_says_that_git_still_knows_it(blocked: Cli) -> None:
    """A journal that was lost and begun anew must not hide what git proves; `doctor` calls it a problem."""
    _lose_journal(blocked)
    said = blocked("run", "--yes", "--fresh").err
    assert f"git knows {RUN}" in said
    assert blocked("doctor").code == 1


def test_filters_that_a_rebuild_forgot_are_told_and_asked_about_again(tmp_path: Path) -> None:
    """Without them files would be stored in another form, and nobody would know why."""
    cli = Cli.of(tmp_path / "p", writes("a"), fails("b"), limits={"attempts": 1})
    cli.project.git("config", "filter.mine.clean", "cat")
    assert "filter.mine.clean" not in cli("run", "--yes").err
    assert cli("rebuild", "--yes").code == 0
    assert "filter.mine.clean in the repository's configuration is not used" in cli("resume", "--yes").err
    assert "filter.mine.clean = 'cat'" in on_terminal(cli, "resume", "--yes", answers="y\n")[1]
    assert "filter.mine.clean" not in cli("resume", "--yes").err


def test_a_task_that_git_shows_as_skipped_is_taken_as_skipped(tmp_path: Path) -> None:
    """Without anybody to ask, too: the run is whole again, and it is said."""
    cli = Cli.of(tmp_path / "p", fails("a"), writes("b", needs=["a"]), limits={"attempts": 1})
    assert cli("run", "--yes").code == 1
    assert cli("skip", "a").code == 0
    assert cli("resume", "--yes").code == 0
    for options in ([], ["--yes"]):
        _lose_journal(cli)
        done = cli("rebuild", *options)
        assert (done.code, "Was a skipped? Git shows that it was" in done.err) == (0, True), done.err
        assert cli.task("a")["status"] == "skipped"
        assert cli.run_status() == "completed"
        assert cli("doctor").code == 0
