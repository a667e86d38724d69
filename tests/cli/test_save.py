"""`holdfast save`: all unfinished work of live runs is saved now, also when a task's own agent asks for it."""

from __future__ import annotations

from pathlib import Path

from holdfast.core import ids
from tests.support.command import Cli
from tests.support.repositories import Project
from tests.support.runs import Fifo, Trial, sh, stage, start_runner


def trial_of(tmp_path: Path, script: str) -> Trial:
    """Return a run of one task that saves nothing by itself within the time of a test."""
    return Trial.of(Project.create(tmp_path / "p"), stage("s", sh("a", script)), limits={"snapshot": "1h"})


def lock_snapshots(trial: Trial) -> Path:
    """Keep git from moving the ref of the task's snapshots, as a git that hangs would."""
    lock = trial.project.git_dir / f"{ids.snapshot_ref(trial.run, 'a')}.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    return lock


def test_save_tells_what_it_saved(tmp_path: Path) -> None:
    """The newest snapshot is named; done again without a change, it is the same one."""
    there, go_on = Fifo(tmp_path / "there"), Fifo(tmp_path / "go-on")
    trial = trial_of(tmp_path, f"echo half > half.txt; {there.give}; {go_on.take}")
    with start_runner(trial) as runner:
        there.wait()
        said = [Cli(trial.project.path)("save").out for _ in range(2)]
        go_on.release()
        runner.communicate()
    wip = trial.state().tasks["a"].latest.snapshot
    assert said == [f"01-try-it: saved a at {wip[:12]}.\n"] * 2


def test_work_that_could_not_be_saved_is_named_with_the_reason(tmp_path: Path) -> None:
    """A lock of somebody else keeps git from moving the ref. Once it is gone, the same command saves."""
    there, go_on = Fifo(tmp_path / "there"), Fifo(tmp_path / "go-on")
    trial = trial_of(tmp_path, f"echo half > half.txt; {there.give}; {go_on.take}")
    cli = Cli(trial.project.path)
    with start_runner(trial) as runner:
        there.wait()
        lock = lock_snapshots(trial)
        failed, quiet = cli("save"), cli("save", "--quiet")
        lock.unlink()
        saved = cli("save")
        go_on.release()
        runner.communicate()
    assert (failed.code, failed.out) == (3, "")
    assert "01-try-it: could not save a: " in failed.err
    assert lock.name in failed.err
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    assert (saved.code, saved.out.startswith("01-try-it: saved a at ")) == (0, True)
    assert [path.name for path in (cli.here / ".holdfast/runs" / trial.run / "requests").iterdir()] == []


def test_a_tasks_own_agent_is_told_that_its_work_was_not_saved(tmp_path: Path) -> None:
    """It finds the runner through the attempt's variables; the answer comes back the same way."""
    there, go_on = Fifo(tmp_path / "there"), Fifo(tmp_path / "go-on")
    script = f"{there.give}; {go_on.take}; echo half > half.txt; holdfast save 2> {tmp_path}/said; echo $? > {tmp_path}/code"
    trial = trial_of(tmp_path, script)
    with start_runner(trial) as runner:
        there.wait()
        lock_snapshots(trial)
        go_on.release()
        runner.communicate()
    assert (tmp_path / "code").read_text() == "3\n"
    assert "could not save a: " in (tmp_path / "said").read_text()


def test_a_tasks_own_agent_can_have_its_work_saved(tmp_path: Path) -> None:
    """Inside a workspace the runner is found through the attempt's variables, and has saved when the command returns."""
    there, go_on = Fifo(tmp_path / "there"), Fifo(tmp_path / "go-on")
    trial = trial_of(tmp_path, f"echo half > half.txt; holdfast save --quiet; {there.give}; {go_on.take}")
    with start_runner(trial) as runner:
        there.wait()
        saved = trial.state().tasks["a"].latest.snapshot
        go_on.release()
        runner.communicate()
    assert trial.project.git("show", f"{saved}:half.txt") == "half"


def test_without_a_live_run_there_is_nothing_to_save(completed: Cli) -> None:
    """That is no failure; where there is no repository at all it is, unless a hook asks."""
    assert "No runner is at work" in completed("save").out
    assert (completed("save", "--quiet").out, completed("save", "--quiet").code) == ("", 0)


def test_outside_of_a_repository_only_a_hook_is_left_in_peace(tmp_path: Path) -> None:
    """A user is told what is wrong; a hook must never be in the way."""
    assert Cli(tmp_path)("save").code == 2
    assert Cli(tmp_path)("save", "--quiet").code == 0


def test_a_program_gets_the_snapshots_whole(tmp_path: Path) -> None:
    """`--json`: each run with the commit of each task at work."""
    there, go_on = Fifo(tmp_path / "there"), Fifo(tmp_path / "go-on")
    trial = trial_of(tmp_path, f"echo half > half.txt; {there.give}; {go_on.take}")
    cli = Cli(trial.project.path)
    with start_runner(trial) as runner:
        there.wait()
        told = cli.json("save")
        go_on.release()
        runner.communicate()
    wip = trial.state().tasks["a"].latest.snapshot
    assert told == [{"run": "01-try-it", "saved": True, "snapshots": {"a": wip}}]
    assert cli.json("save") == []
