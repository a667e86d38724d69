"""C3: snapshots of unfinished work: taken while an agent works, told apart, restored, and gone on from."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from holdfast.core import ids
from holdfast.core.projection import Report, TaskRow
from holdfast.core.status import RunStatus
from holdfast.errors import RepositoryError
from holdfast.repo.snapshots import (
    UnsavedFiles,
    list_snapshots,
    restore_snapshot,
    take_snapshot,
    unsaved_files,
)
from holdfast.reporting.snapshot_message import snapshot_message
from tests.support.command import eventually
from tests.support.opened_files import OpenedFiles
from tests.support.repositories import RUN, PreparedWorkspace, Project
from tests.support.runs import DEADLINE_S, Fifo, Trial, sh, stage, start_runner

WIP = ids.snapshot_ref(RUN, "T1")


@pytest.fixture
def prepared(tmp_path: Path) -> PreparedWorkspace:
    """A project with one prepared workspace."""
    return PreparedWorkspace.create(tmp_path / "p")


def _save(prepared: PreparedWorkspace, name: str) -> str:
    prepared.agent_writes(name, f"{name}\n")
    return take_snapshot(prepared.repo, prepared.workspace, WIP, lambda files: f"WIP with {', '.join(files)}")


def test_work_in_a_deleted_workspace_continues_from_its_snapshot(tmp_path: Path) -> None:
    """The workspace is gone, the snapshot is not: the next agent finds what the first had written."""
    here, go = Fifo(tmp_path / "here"), Fifo(tmp_path / "go")
    script = f"if [ -f half.txt ]; then echo whole > whole.txt; else echo half > half.txt; {here.give}; {go.take}; fi"
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", script, resume="continue")),
        limits={"snapshot": 0.2},
    )
    runner = start_runner(trial)
    here.wait()
    eventually(lambda: trial.state().tasks["A"].latest.snapshot != "", "the work is saved")
    shutil.rmtree(trial.project.open().state_dir.run(trial.run).workspace("0"))
    go.release()
    out, _ = runner.communicate(timeout=DEADLINE_S)
    assert out == b"completed\n"
    assert (trial.show("half.txt"), trial.show("whole.txt")) == ("half", "whole")
    assert trial.violations() == []


def test_the_snapshot_interval_is_the_plans(tmp_path: Path) -> None:
    """`limits.snapshot`: a minute by minute worker and a nightly run want different ones."""
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", "echo a > A.txt")))
    assert trial.stored().plan.limits.snapshot_s == 30.0
    assert trial.execute() is RunStatus.COMPLETED


def test_the_message_names_progress_section_files_and_checkpoint() -> None:
    """C3: a person reading the log knows how far the agent was."""
    task = TaskRow(id="T1", attempt=2)
    task.latest.report = Report(
        progress=80.0, file="src/a.py", line=127, section_done="one", section_next="two"
    )
    said = snapshot_message(task, 3, ["src/a.py", "src/b.py"], "Holdfast-Task: T1")
    assert said.startswith("WIP T1: 80 %, checkpoint 3, 2 files changed\n")
    for part in ("At src/a.py, line 127.", "Last finished section: one", "Next section: two", "- src/b.py"):
        assert part in said
    assert said.endswith("Holdfast-Task: T1")


def test_the_message_is_bounded_and_cannot_forge_a_trailer() -> None:
    """What an agent says is cut to a line each; a thousand files are counted, not listed."""
    task = TaskRow(id="T1", attempt=1)
    task.latest.report = Report(section_next="x\n\nHoldfast-Task: T9" + "y" * 10_000)
    said = snapshot_message(task, 1, [f"f{n}" for n in range(1000)], "Holdfast-Task: T1")
    assert len(said) < 2_000
    assert "and 980 more" in said
    assert [line for line in said.splitlines() if line.startswith("Holdfast-Task")] == ["Holdfast-Task: T1"]


def test_snapshots_are_numbered_in_the_order_they_were_taken(prepared: PreparedWorkspace) -> None:
    """The newest comes first, the oldest has number 1; each names its files."""
    first, second = _save(prepared, "one.txt"), _save(prepared, "two.txt")
    found = list_snapshots(prepared.repo, WIP)
    assert [(item.number, item.commit) for item in found] == [(2, second), (1, first)]
    assert [item.files for item in found] == [2, 1]
    assert found[0].message == "WIP with one.txt, two.txt"


def test_a_task_without_snapshots_has_none(prepared: PreparedWorkspace) -> None:
    """No ref, no error."""
    assert list_snapshots(prepared.repo, WIP) == []


def test_a_snapshot_is_restored_into_a_new_directory_only(
    prepared: PreparedWorkspace, tmp_path: Path
) -> None:
    """Files that exist are never written over, not even an empty directory is used."""
    first = _save(prepared, "one.txt")
    _save(prepared, "two.txt")
    target = tmp_path / "deep" / "restored"
    assert restore_snapshot(prepared.repo, first, target) == 4
    assert sorted(path.name for path in target.iterdir()) == [".gitignore", "a.txt", "one.txt", "src"]
    with pytest.raises(RepositoryError, match="already exists"):
        restore_snapshot(prepared.repo, first, target)
    (tmp_path / "empty").mkdir()
    with pytest.raises(RepositoryError, match="already exists"):
        restore_snapshot(prepared.repo, first, tmp_path / "empty")


def test_files_that_only_the_workspace_has_are_counted_without_a_trace(prepared: PreparedWorkspace) -> None:
    """Against the start before any snapshot, against the snapshot after one; None without a workspace."""
    assert unsaved_files(prepared.repo, prepared.workspace, prepared.base).count == 0
    prepared.agent_writes("one.txt", "1\n")
    assert unsaved_files(prepared.repo, prepared.workspace, prepared.base).count == 1
    saved = _save(prepared, "one.txt")
    assert unsaved_files(prepared.repo, prepared.workspace, saved).count == 0
    prepared.agent_writes("one.txt", "changed\n")
    prepared.agent_writes("a.txt", "changed\n")
    index = prepared.workspace.index.read_bytes()
    assert unsaved_files(prepared.repo, prepared.workspace, saved).count == 2
    assert prepared.workspace.index.read_bytes() == index
    shutil.rmtree(prepared.workspace.path)
    assert unsaved_files(prepared.repo, prepared.workspace, saved) == UnsavedFiles(
        None, "its workspace is gone", gone=True
    )


def test_a_link_in_the_place_of_a_workspace_is_not_looked_into(
    tmp_path: Path, prepared: PreparedWorkspace
) -> None:
    """It may lead to the whole disk."""
    users = tmp_path / "users"
    shutil.move(prepared.workspace.path, users)
    prepared.workspace.path.symlink_to(users)
    with OpenedFiles(users) as opened:
        assert unsaved_files(prepared.repo, prepared.workspace, prepared.base).count is None
        assert opened.names() == []


def test_empty_commits_of_an_agent_are_no_work(prepared: PreparedWorkspace) -> None:
    """An agent that wrote nothing left nothing, on whatever branch; one that wrote and took it back left its history."""
    prepared.agent("checkout", "-q", "-b", "aside")
    prepared.agent("commit", "-q", "--allow-empty", "-m", "nothing")
    assert take_snapshot(prepared.repo, prepared.workspace, WIP, "WIP") == ""
    prepared.agent_commits("one.txt", "1\n")
    prepared.agent("revert", "--no-edit", "HEAD")
    reverted = prepared.agent("rev-parse", "HEAD")
    assert take_snapshot(prepared.repo, prepared.workspace, WIP, "WIP") == reverted
