"""Runs that rest, for decisions about them."""

from __future__ import annotations

from pathlib import Path

from holdfast.core.status import RunStatus
from tests.support.repositories import Project
from tests.support.runs import Trial, sh, stage


def completed_run(tmp_path: Path) -> Trial:
    """Return a completed run of one task."""
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", "echo a > A.txt")))
    assert trial.execute() is RunStatus.COMPLETED
    return trial


def blocked_run(tmp_path: Path) -> Trial:
    """Return a run that rests: A landed, B was tried and left work behind."""
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", "echo a > A.txt"), sh("B", "echo b > B.txt; exit 1", needs=["A"])),
        limits={"attempts": 1},
    )
    assert trial.execute() is RunStatus.BLOCKED
    return trial
