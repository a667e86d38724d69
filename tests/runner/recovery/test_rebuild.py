"""The journal is gone, torn or not ours: git has the plan, the landings and the work, so the run goes on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.core.status import RunStatus
from holdfast.errors import HoldfastError, LeaseHeldError, NeedsDecisionError
from holdfast.journal import open_journal
from holdfast.runner.health import examine_run
from holdfast.runner.recovery.rebuild import RebuildResult, rebuild
from tests.support.command import is_alive
from tests.support.power_cut import after_power_cut
from tests.support.preloaded_command import ForkedProcess
from tests.support.repositories import Project
from tests.support.runs import (
    DEADLINE_S,
    Fifo,
    Trial,
    kill_everything,
    open_project_journal,
    sh,
    stage,
    start_runner,
)


def _no(_question: str, _evident: bool) -> bool:
    return False


def _rebuild(trial: Trial, *, replace: bool = False) -> RebuildResult:
    return rebuild(trial.project.open(), _no, replace=replace)


def _lose_journal(trial: Trial) -> None:
    for path in trial.project.open().state_dir.root.glob("journal.db*"):
        path.unlink()


def _cut_short(tmp_path: Path) -> tuple[Trial, Path]:
    """Return a run in which A landed and B was at work, with unsaved files, when everything was killed."""
    here, never, count = Fifo(tmp_path / "here"), Fifo(tmp_path / "never"), tmp_path / "count"
    half = (
        f"if [ -f half.txt ]; then echo b > B.txt; else echo half > half.txt; {here.give}; {never.take}; fi"
    )
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", f"echo A >> {count}; echo a > A.txt"), entry=["test ! -f A.txt"]),
        stage("two", sh("B", f"echo B >> {count}; {half}", resume="continue")),
    )
    runner = start_runner(trial)
    here.wait()
    kill_everything(trial, runner)
    return trial, count


def _healthy(trial: Trial) -> None:
    repo = trial.project.open()
    with open_project_journal(repo) as journal:
        assert examine_run(repo, journal, trial.run) == []


def test_a_deleted_journal_is_rebuilt_and_the_run_continues(tmp_path: Path) -> None:
    """E11, X4: what landed stays landed once, and what an agent had written goes to the next one."""
    trial, count = _cut_short(tmp_path)
    _lose_journal(trial)
    assert [(one.run, one.landed) for one in _rebuild(trial).runs] == [(trial.run, 1)]
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.landed() == ["A", "B"]
    assert count.read_text().split() == ["A", "B", "B"]
    assert (trial.show("half.txt"), trial.state().tasks["B"].attempt) == ("half", 2)
    _healthy(trial)


@pytest.mark.parametrize("record", ["sound", "torn", "gone"])
def test_what_a_plan_brings_does_not_land_from_a_rebuilt_run(record: str, tmp_path: Path) -> None:
    """The copy is left out of what is found in the workspace, and of what the next agent makes of it."""
    here, never = Fifo(tmp_path / "here"), Fifo(tmp_path / "never")
    script = f"test -f half.txt || {{ echo half > half.txt; {here.give}; {never.take}; }}"
    project = Project.create(tmp_path / "p")
    project.write(".env", "secret")
    trial = Trial.of(project, stage("one", sh("A", script, resume="continue")), workspace={"copy": [".env"]})
    runner = start_runner(trial)
    here.wait()
    kill_everything(trial, runner)
    (file,) = (project.git_dir / "holdfast-private" / "indexes").glob("*.setup")
    if record == "torn":
        file.write_bytes(bytes(file.stat().st_size))
    elif record == "gone":
        file.unlink()
    _lose_journal(trial)
    _rebuild(trial)
    assert trial.execute() is RunStatus.COMPLETED
    history = project.git("log", "-m", "--all", "--format=", "--name-only").splitlines()
    assert (trial.show("half.txt"), ".env" in history) == ("half", False)


@pytest.mark.parametrize("damage", ["torn", "foreign", "empty", "newer"])
def test_a_damaged_journal_is_kept_and_replaced(damage: str, tmp_path: Path) -> None:
    """A11, E11: whatever is wrong with the file, its bytes stay beside the new one."""
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", "echo a > A.txt")))
    trial.execute()
    path = trial.project.open().state_dir.journal
    _damage(path, damage)
    before = path.read_bytes()
    rebuilt = _rebuild(trial)
    assert rebuilt.kept == str(path.with_name("journal.db.damaged-1"))
    assert Path(rebuilt.kept).read_bytes() == before
    assert trial.stored().row.status is RunStatus.COMPLETED
    assert trial.landed() == ["A"]
    _healthy(trial)


def _damage(path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    if how == "torn":
        content[4096:] = b"\xff" * (len(content) - 4096)
    elif how == "foreign":
        content[68:72] = b"none"
    elif how == "newer":
        content[60:64] = (99).to_bytes(4, "big")
    else:
        content.clear()
    path.write_bytes(content)


def test_a_completed_run_is_completed_again(tmp_path: Path) -> None:
    """X4: nothing of it runs a second time."""
    count = tmp_path / "count"
    trial = Trial.of(
        Project.create(tmp_path / "p"), stage("one", sh("A", f"echo A >> {count}; echo a > A.txt"))
    )
    trial.execute()
    _lose_journal(trial)
    assert [one.status for one in _rebuild(trial).runs] == [RunStatus.COMPLETED]
    assert trial.execute() is RunStatus.COMPLETED
    assert count.read_text() == "A\n"


def test_an_exit_check_that_git_cannot_prove_is_run_again(tmp_path: Path) -> None:
    """Landings are in git, the outcome of a check is not."""
    checks = tmp_path / "checks"
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", "echo a > A.txt"), exit=[f"echo x >> {checks}"]),
    )
    trial.execute()
    _lose_journal(trial)
    assert [one.status for one in _rebuild(trial).runs] == [RunStatus.STOPPED]
    assert trial.execute() is RunStatus.COMPLETED
    assert checks.read_text() == "x\nx\n"


def test_a_sound_journal_is_replaced_only_on_the_users_word(tmp_path: Path) -> None:
    """There is more in it than in git."""
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", "echo a > A.txt")))
    trial.execute()
    with pytest.raises(NeedsDecisionError, match="nothing to rebuild"):
        _rebuild(trial)
    assert _rebuild(trial, replace=True).kept is not None
    _healthy(trial)


def test_rebuilding_again_gives_the_same(tmp_path: Path) -> None:
    """It can be killed and repeated; every file that was there is kept."""
    trial, _ = _cut_short(tmp_path)
    _lose_journal(trial)
    first = _rebuild(trial)
    again = _rebuild(trial, replace=True)
    assert again.runs == first.runs
    assert trial.execute() is RunStatus.COMPLETED


def test_a_live_runner_keeps_its_journal(tmp_path: Path) -> None:
    """Nobody's journal is taken away while he writes it."""
    here, go = Fifo(tmp_path / "here"), Fifo(tmp_path / "go")
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", f"{here.give}; {go.take}")))
    runner = start_runner(trial)
    here.wait()
    with pytest.raises(LeaseHeldError):
        _rebuild(trial, replace=True)
    go.release()
    assert runner.communicate(timeout=DEADLINE_S)[0] == b"completed\n"


def test_agents_that_outlived_runner_and_journal_end_and_their_work_is_kept(tmp_path: Path) -> None:
    """Nobody can re-attach them without the journal, and nothing may run twice."""
    here, never = Fifo(tmp_path / "here"), Fifo(tmp_path / "never")
    script = f"if [ -f half.txt ]; then exit 0; else echo half > half.txt; {here.give}; {never.take}; fi"
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", script, resume="continue")))
    runner = start_runner(trial)
    agent = int(here.wait())
    _kill(runner)
    _lose_journal(trial)
    _rebuild(trial)
    assert not is_alive(agent)
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.show("half.txt") == "half"


def _kill(runner: ForkedProcess) -> None:
    os.killpg(runner.pid, 9)
    runner.communicate(timeout=DEADLINE_S)


def test_a_run_whose_branch_is_gone_is_asked_about(tmp_path: Path) -> None:
    """A11: the facts allow two readings. Without an answer the run stays resumable, from its base."""
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", "echo a > A.txt")),
        stage("two", sh("B", "exit 1")),
    )
    trial.execute()
    trial.project.git("update-ref", "-d", f"refs/heads/holdfast/{trial.run}")
    _lose_journal(trial)
    assert _rebuild(trial).runs[0].status is RunStatus.STOPPED
    agreed = rebuild(trial.project.open(), lambda asked, _evident: "branch is gone" in asked, replace=True)
    assert agreed.runs[0].status is RunStatus.ABANDONED


def test_a_new_run_after_the_loss_takes_a_new_number(tmp_path: Path) -> None:
    """The journal forgot the count; git did not. Both runs can be restored."""
    project = Project.create(tmp_path / "p")
    trial = Trial.of(project, stage("one", sh("A", "echo a > A.txt")))
    trial.execute()
    _lose_journal(trial)
    second = Trial.of(project, stage("one", sh("B", "echo b > B.txt")))
    assert second.run == "02-try-it"
    assert [one.run for one in _rebuild(trial, replace=True).runs] == ["01-try-it", "02-try-it"]


def test_a_plan_ref_that_contradicts_itself_is_not_believed(tmp_path: Path) -> None:
    """Whoever put another plan there does not get it run."""
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", "echo a > A.txt")))
    _lose_journal(trial)
    trial.project.git("update-ref", f"refs/holdfast/{trial.run}/plan", "HEAD")
    rebuilt = _rebuild(trial)
    assert (rebuilt.runs, len(rebuilt.lost)) == ((), 1)


def test_a_repository_without_runs_has_nothing_to_rebuild(tmp_path: Path) -> None:
    """No journal appears where there never was one."""
    repo = Project.create(tmp_path / "p").open()
    with pytest.raises(HoldfastError, match="no run"):
        rebuild(repo, _no, replace=False)
    assert not repo.state_dir.journal.exists()


def test_a_log_without_its_journal_is_never_played_into_a_new_one(tmp_path: Path) -> None:
    """Deleting the main file alone would otherwise corrupt the next journal."""
    trial, _ = _cut_short(tmp_path)
    path = trial.project.open().state_dir.journal
    path.unlink()
    with pytest.raises(HoldfastError, match="only its log"):
        open_journal(path)
    _rebuild(trial)
    assert trial.execute() is RunStatus.COMPLETED


def test_a_landing_that_rebuild_takes_note_of_survives_a_power_cut(tmp_path: Path) -> None:
    """A runner was killed right after it had moved the branch: it is synced before the new journal says so."""
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", "echo a > a"), sh("B", "false")))
    trial.execute(only=frozenset({"A"}))
    branch, landed = trial.stored().row.branch, trial.facts().tip
    trial.project.git("update-ref", branch, f"{landed}~1")
    _lose_journal(trial)
    moved_and_rebuilt = f"""
from holdfast.runner.recovery.rebuild import rebuild
git("-c", "core.fsync=none", "update-ref", "{branch}", "{landed}")
rebuild(repo, lambda *question: False, replace=False)
"""
    left = Trial(after_power_cut(trial.project, moved_and_rebuilt), trial.run)
    assert left.status_of("A") == "completed"
    assert left.landed() == ["A"]
