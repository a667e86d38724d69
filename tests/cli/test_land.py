"""`land`: a run's result reaches a branch of the user's."""

from __future__ import annotations

from tests.support.command import Cli


def test_land_asks_and_takes_no_for_an_answer_without_a_terminal(completed: Cli) -> None:
    """The safe answer is taken, and said."""
    before = completed.project.head()
    done = completed("land")
    assert (done.code, "so the answer is no" in done.err) == (3, True)
    assert completed.project.head() == before


def test_land_brings_the_run_into_the_users_branch_once(completed: Cli) -> None:
    """Landing again says that it is there."""
    assert completed("land", "--yes").code == 0
    assert (completed.here / "a.txt").exists()
    assert "already there" in completed("land", "--yes").out


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


def test_an_index_that_another_program_holds_is_left_to_it(completed: Cli) -> None:
    """An editor may lock the index without git. Its lock stays, and nothing else changes."""
    lock, before = completed.project.git_dir / "index.lock", completed.project.git("rev-parse", "HEAD")
    lock.touch()
    refused = completed("land", "--yes")
    assert (refused.code, lock.exists()) == (3, True)
    assert (completed.project.git("rev-parse", "HEAD"), completed.project.git("diff")) == (before, "")
    assert "Another git command may be running" in refused.err
    lock.unlink()
    assert completed("land", "--yes").code == 0


def test_a_file_of_the_user_in_the_way_waits_for_their_decision(completed: Cli) -> None:
    """Exit code 3, not 2: the command is right, and works once the file is out of the way."""
    mine = completed.here / "a.txt"
    mine.write_text("mine")
    refused = completed("land", "--yes")
    assert (refused.code, mine.read_text()) == (3, "mine")
    assert "Commit, stash or move what is in the way" in refused.err
    mine.unlink()
    assert completed("land", "--yes").code == 0
