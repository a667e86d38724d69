"""`clean`: what finished runs occupy is removed, their outputs stay."""

from __future__ import annotations

import json
import shlex

import pytest

from tests.support.command import COMMAND, Cli, run_program, writes

RUN = "01-try-it"


def test_clean_only_looks_unless_told_what_to_remove(completed: Cli) -> None:
    """A12: nothing is deleted by itself."""
    assert "Nothing was removed" in completed("clean").out
    assert "to free" in completed("clean", "--all", "--dry-run", "--yes").out
    assert completed("clean", "--all").code == 3
    assert len(completed.json("list")) == 1


@pytest.mark.parametrize("what", ["--all", "--branches"])
def test_the_list_comes_before_the_question_about_it(completed: Cli, what: str) -> None:
    """Also where both streams go into one file."""
    assert completed("land", "--yes").code == 0
    both = run_program(completed.here, ["sh", "-c", f"{shlex.join([*COMMAND, 'clean', what])} 2>&1"])
    told = both.out
    assert both.code == 3
    assert told.index(f"  {RUN if what == '--all' else f'holdfast/{RUN}'}  ") < told.index("Remove ")
    assert told.index("Remove ") < told.index("holdfast: nothing was removed")


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


def test_a_result_that_has_not_landed_is_named_before_its_run_is_cleaned(completed: Cli) -> None:
    """Afterwards `land` does not know the run any more: git has to merge its branch."""
    waits = (
        f"  holdfast/{RUN} has not landed: `holdfast land 1` does that; later only `git merge holdfast/{RUN}`"
    )
    assert waits in completed("clean", "--all").out.splitlines()
    assert completed("land", "--yes").code == 0
    assert "has not landed" not in completed("clean", "--all").out


def test_cleaning_again_removes_the_lock_that_git_could_not(completed: Cli) -> None:
    """Git had deleted the refs, and failed to remove its lock: no run is left whose recovery would."""
    completed("clean", "--all", "--yes")
    lock = completed.here / ".git" / "packed-refs.lock"
    lock.touch()
    assert completed("clean", "--all", "--yes").code == 0
    assert not lock.exists()


def test_clean_refuses_a_run_that_is_not_over(blocked: Cli) -> None:
    """Give it up first."""
    done = blocked("clean", RUN, "--yes")
    assert (done.code, "abandon" in done.err) == (2, True)
    assert blocked.json("clean", "--all", "--yes")["runs"] == []
    assert blocked.run_status() == "blocked"


def test_the_branches_of_landed_runs_are_removed_and_their_tips_kept(completed: Cli) -> None:
    """Only those that git proves to be in the branch: the other run's branch stays, and so do the user's own."""
    completed("land", "--yes", "--squash")
    completed.plan(writes("z"), goal="Another")
    assert completed("run", "--yes").code == 0
    completed.project.git("branch", "holdfast/mine")
    tip = completed.project.git("rev-parse", "holdfast/01-try-it")
    dry = completed("clean", "--branches", "--dry-run")
    assert (dry.code, "holdfast/01-try-it  in main" in dry.out, "02-another" in dry.out) == (0, True, False)
    assert completed("clean", "--branches").code == 3
    assert "Removed holdfast/01-try-it." in completed("clean", "--branches", "--yes").out
    branches = completed.project.git("branch", "--format=%(refname:short)", "--list", "holdfast/*").split()
    assert branches == ["holdfast/02-another", "holdfast/mine"]
    assert completed.project.git("rev-parse", f"refs/holdfast/01-try-it/archive/branch-{tip[:12]}") == tip
    assert completed.json("list")[0]["landed_in"] == ["main"]
    again = completed.json("clean", "--branches", "--yes")
    assert (again["branches"], again["removed"]) == ([], False)


def test_a_branch_that_is_checked_out_or_was_moved_is_not_removed(completed: Cli) -> None:
    """Somebody works there."""
    completed("land", "--yes")
    completed.project.git("checkout", "-q", "holdfast/01-try-it")
    assert completed.json("clean", "--branches", "--yes")["branches"] == []
    completed.project.write("more.txt", "x")
    completed.project.commit("more")
    completed.project.git("checkout", "-q", "main")
    assert completed.json("clean", "--branches", "--yes")["branches"] == []
    assert completed.project.git("branch", "--list", "holdfast/*") != ""
