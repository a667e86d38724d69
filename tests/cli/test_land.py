"""`init`, `review`, `land`, `discard`, `doctor`: before a run and after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.agents.presets import agent_names, builtin_presets
from holdfast.cli.init import starter
from holdfast.plans import parse_plan
from tests.support.command import Cli, fails, writes
from tests.support.repositories import Project


@pytest.mark.parametrize("agents", [[], ["claude"], ["codex", "aider"]])
def test_a_starter_plan_is_valid_whatever_is_installed(agents: list[str]) -> None:
    """What `init` writes can be run as it is."""
    plan = parse_plan(starter(agents).encode(), "plan.yaml", agent_names(builtin_presets()))
    assert len(list(plan.tasks())) == 2
    assert plan.agent == (agents[0] if agents else "")


def test_init_writes_a_plan_once(tmp_path: Path) -> None:
    """A second `init` refuses to overwrite, and `.gitignore` is not touched."""
    cli = Cli(Project.create(tmp_path / "p").path)
    ignored = (cli.here / ".gitignore").read_text()
    assert cli("init").code == 0
    (cli.here / "plan.yaml").write_text("mine")
    assert cli("init").code == 2
    assert (cli.here / "plan.yaml").read_text() == "mine"
    assert (cli.here / ".gitignore").read_text() == ignored


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


def test_doctor_finds_a_finished_run_healthy(tmp_path: Path) -> None:
    """Every invariant holds after an ordinary run, also after one with a failure."""
    cli = Cli.of(tmp_path / "p", writes("a"), fails("b", needs=["a"]), limits={"attempts": 2})
    cli("run", "--yes")
    done = cli("doctor")
    assert done.code == 0, done.out


def test_doctor_notices_a_branch_that_went_back(completed: Cli) -> None:
    """What the journal says landed must be in git."""
    completed.project.git("update-ref", "refs/heads/holdfast/01-try-it", "main")
    health = completed.json("doctor")
    assert health["healthy"] is False
    broken = {promise["number"] for one in health["judged"] for promise in one["broken"]}
    assert broken >= {1, 3}


def test_doctor_removes_stale_locks_when_asked(completed: Cli) -> None:
    """A killed git leaves a lock; `doctor` finds it, `--fix` removes it."""
    lock = completed.here / ".git" / "packed-refs.lock"
    lock.touch()
    assert completed("doctor").code == 1
    assert completed("doctor", "--fix").code == 0
    assert not lock.exists()


def test_doctor_reports_outside_a_repository(tmp_path: Path) -> None:
    """It describes the trouble instead of stumbling over it."""
    done = Cli(tmp_path)("doctor")
    assert (done.code, "not inside a git repository" in done.out) == (1, True)
