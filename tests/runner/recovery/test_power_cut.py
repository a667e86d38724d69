"""X12: after a power cut nothing is built on files that were not on the disk.

The runs begin in another boot, and are killed with all their processes; then files are torn as a power cut tears them.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from holdfast.core import events as ev, ids
from holdfast.core.status import RunStatus
from holdfast.runner.recovery.rebuild import rebuild
from holdfast.runner.requests import Request, send_request
from tests.support.command import eventually
from tests.support.repositories import Project
from tests.support.runs import Fifo, Trial, kill, kill_everything, sh, stage, start_runner

AGENT = {"agent": "worker", "prompt": "work"}


def agent(script: str) -> dict[str, object]:
    """Return the agents of a plan whose only agent is a shell script."""
    return {"worker": {"command": ["sh", "-c", script], "prompt": "file"}}


def workspace(trial: Trial) -> Path:
    """Return the folder that the run's only agent works in."""
    return trial.project.path / ".holdfast" / "work" / trial.run / "0"


def tear(path: Path) -> None:
    """Leave zeros in place of a file's bytes, with its size and time stamp."""
    found = path.stat()
    path.write_bytes(bytes(found.st_size))
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


def test_torn_files_of_a_lost_agent_are_kept_but_not_built_on(tmp_path: Path) -> None:
    """A fresh agent would take zeros for its predecessor's work; they are at a ref for whoever wants to look."""
    here, never = Fifo(tmp_path / "here"), Fifo(tmp_path / "never")
    script = f"if test -f '{tmp_path}/again'; then echo $(ls) > seen; else echo half > half; {here.give}; {never.take}; fi"
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", {"id": "A", **AGENT}), agents=agent(script))
    runner = start_runner(trial, in_another_boot=True)
    here.wait()
    kill_everything(trial, runner)
    (tmp_path / "again").touch()
    tear(workspace(trial) / "half")
    assert "by a reboot; a fresh agent starts again" in trial.preview()["A"].why
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.show("seen") == "a.txt src"
    (lost,) = trial.of_kind(ev.AttemptLost)
    assert (lost.carry, trial.project.git("cat-file", "-s", f"{lost.set_aside}:half")) == ("", "5")
    assert (
        trial.project.git("rev-parse", f"refs/holdfast/{trial.run}/archive/A-cut-short-1") == lost.set_aside
    )
    assert trial.violations() == []


def test_what_a_plan_brings_stays_out_of_every_commit_after_a_power_cut(tmp_path: Path) -> None:
    """Set-up is not trusted any more, but what it made and what was copied still stay out of every commit."""
    here, never = Fifo(tmp_path / "here"), Fifo(tmp_path / "never")
    script = f"if test -f '{tmp_path}/again'; then echo done > done; else echo half > half; {here.give}; {never.take}; fi"
    project = Project.create(tmp_path / "p")
    project.write(".env", "secret")
    trial = Trial.of(
        project,
        stage("one", {"id": "A", **AGENT}),
        agents=agent(script),
        workspace={"copy": [".env"], "setup": ["echo made > made"]},
    )
    runner = start_runner(trial, in_another_boot=True)
    here.wait()
    kill_everything(trial, runner)
    (tmp_path / "again").touch()
    assert trial.execute() is RunStatus.COMPLETED
    (lost,) = trial.of_kind(ev.AttemptLost)
    kept = project.git("ls-tree", "-r", "--name-only", lost.set_aside).splitlines()
    landed = project.git("ls-tree", "-r", "--name-only", f"holdfast/{trial.run}").splitlines()
    assert (set(kept) & {"half", "made", ".env"}, set(landed) & {"done", "made", ".env"}) == (
        {"half"},
        {"done"},
    )


@pytest.mark.parametrize(("synced", "times"), [(False, 2), (True, 1)])
def test_a_finished_agents_work_counts_only_if_it_was_synced(
    tmp_path: Path, synced: bool, times: int
) -> None:
    """The record of its end may be on the disk while its files are not. It says whether they are."""
    here, go, count = Fifo(tmp_path / "here"), Fifo(tmp_path / "go"), tmp_path / "count"
    script = f"echo x >> {count}; echo whole > whole; {here.give}; {go.take}"
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", script)))
    runner = start_runner(trial, in_another_boot=True)
    here.wait()
    kill(runner)
    go.release()
    record = trial.project.path / ".holdfast/runs" / trial.run / "attempts/A/1/agent/exit.json"
    eventually(record.exists, "the agent's end is recorded")
    record.write_text(json.dumps(json.loads(record.read_text()) | {"synced": synced}))
    if not synced:
        tear(workspace(trial) / "whole")
        go.release()
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.show("whole") == "whole"
    assert count.read_text().count("x") == times


def test_a_torn_file_is_put_right_although_its_size_and_time_are_known(tmp_path: Path) -> None:
    """Git's index would take it for unchanged: the next agent would work on zeros."""
    here, never = Fifo(tmp_path / "here"), Fifo(tmp_path / "never")
    script = f"cp a.txt copy; if ! test -f '{tmp_path}/again'; then {here.give}; {never.take}; fi"
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", script)))
    base = (trial.project.path / "a.txt").read_text().strip()
    runner = start_runner(trial, in_another_boot=True)
    here.wait()
    kill_everything(trial, runner)
    (tmp_path / "again").touch()
    file = workspace(trial) / "a.txt"
    inode = file.stat().st_ino
    tear(file)
    indexes = list((trial.project.git_dir / "holdfast-private/indexes").glob("*.index"))
    assert (file.stat().st_ino, len(indexes)) == (inode, 1)
    os.utime(indexes[0], (file.stat().st_mtime + 100,) * 2)  # not written in the second in which the file was
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.show("copy") == base


def saved_and_killed(tmp_path: Path, here: Fifo, script: str, resume: str) -> Trial:
    """Run a command in another boot until it is `here`, save its work, and kill everything."""
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", script, resume=resume)))
    runner = start_runner(trial, in_another_boot=True)
    here.wait()
    send_request(trial.project.open().state_dir.run(trial.run), Request(action="save"))
    eventually(lambda: bool(trial.state().tasks["A"].latest.snapshot), "its work is saved")
    kill_everything(trial, runner)
    return trial


@pytest.mark.parametrize(
    ("resume", "report"), [("clean", "true"), ("continue", "holdfast report progress 5")]
)
def test_the_last_snapshot_is_kept_although_its_files_are_gone(
    tmp_path: Path, resume: str, report: str
) -> None:
    """A command, or an agent lost too early, starts without it, and the next snapshots replace it at the task's ref."""
    here, never = Fifo(tmp_path / "here"), Fifo(tmp_path / "never")
    script = (
        f"{report}; echo half > half; if ! test -f '{tmp_path}/again'; then {here.give}; {never.take}; fi"
    )
    trial = saved_and_killed(tmp_path, here, script, resume)
    (tmp_path / "again").touch()
    (workspace(trial) / "half").unlink()
    assert trial.execute() is RunStatus.COMPLETED
    (lost,) = trial.of_kind(ev.AttemptLost)
    assert trial.project.git("show", f"{lost.set_aside}:half") == "half"
    assert trial.project.git("rev-parse", ids.cut_short_ref(trial.run, "A", 1)) == lost.set_aside


def lose_journal_and_rebuild(trial: Trial) -> None:
    """Delete the journal, and have it made again from git."""
    for path in (trial.project.path / ".holdfast").glob("journal.db*"):
        path.unlink()
    rebuild(trial.project.open(), lambda *_question: False, replace=False)


@pytest.mark.parametrize(("resume", "seen"), [("continue", "half"), ("clean", "nothing")])
def test_rebuild_keeps_torn_files_and_builds_on_the_last_snapshot(
    tmp_path: Path, resume: str, seen: str
) -> None:
    """With the journal gone too, the supervisor's record tells that the machine was restarted since."""
    here, never = Fifo(tmp_path / "here"), Fifo(tmp_path / "never")
    script = (
        f"if test -f '{tmp_path}/again'; then cat half > seen || echo nothing > seen;"
        f" else echo half > half; {here.give}; {never.take}; fi"
    )
    trial = saved_and_killed(tmp_path, here, script, resume)
    whole = trial.state().tasks["A"].latest.snapshot
    (tmp_path / "again").touch()
    tear(workspace(trial) / "half")
    lose_journal_and_rebuild(trial)
    restored = trial.state().tasks["A"]
    assert restored.carry == (whole if resume == "continue" else "")
    assert trial.project.git("rev-parse", ids.snapshot_ref(trial.run, "A")) == whole
    assert trial.project.git("rev-parse", ids.cut_short_ref(trial.run, "A", 1)) == restored.set_aside
    assert trial.project.git("cat-file", "-s", f"{restored.set_aside}:half") == "5"
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.show("seen") == seen
    assert trial.violations() == []


@pytest.mark.parametrize("synced", [False, True])
def test_rebuild_builds_on_a_finished_agents_work_only_if_it_was_synced(tmp_path: Path, synced: bool) -> None:
    """The record of its end says whether its files were on the disk before the power cut."""
    here, go = Fifo(tmp_path / "here"), Fifo(tmp_path / "go")
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", f"echo whole > whole; {here.give}; {go.take}", resume="continue")),
    )
    runner = start_runner(trial, in_another_boot=True)
    here.wait()
    kill(runner)
    go.release()
    record = trial.project.path / ".holdfast/runs" / trial.run / "attempts/A/1/agent/exit.json"
    eventually(record.exists, "the agent's end is recorded")
    record.write_text(json.dumps(json.loads(record.read_text()) | {"synced": synced}))
    lose_journal_and_rebuild(trial)
    restored = trial.state().tasks["A"]
    assert (bool(restored.carry), bool(restored.set_aside)) == (synced, not synced)


def test_an_unfinished_record_that_came_back_is_removed_from_a_run_that_is_over(tmp_path: Path) -> None:
    """Its rename was not synced, so the name from before is there again."""
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", "echo a > A.txt")))
    assert trial.execute() is RunStatus.COMPLETED
    folder = trial.project.path / ".holdfast/runs" / trial.run / "attempts/A/1/agent"
    (folder / "exit.json.tmp").touch()
    assert trial.execute() is RunStatus.COMPLETED
    assert not (folder / "exit.json.tmp").exists()
