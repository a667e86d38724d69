"""`mirror`, killed at points spread over all it does to the disk: doing it again ends the same."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.crash.faults import Fault, Program, list_points, run_with_fault, stratified_sample
from tests.crash.operations import ADOPT, STATE, make_adoptable
from tests.crash.sample_run import HOLDFAST, copy, environment, git

MIRROR = ("mirror", "1", "execute")
STAGED = ("mirror", "1", "auto-claude")
POINTS = 4

pytestmark = pytest.mark.crash


def _holdfast(repository: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*HOLDFAST, *words], cwd=repository, env=environment(), capture_output=True, text=True, check=False
    )


def _program(repository: Path, words: tuple[str, ...]) -> Program:
    return Program([*HOLDFAST, *words], repository, repository, environment())


def test_a_killed_mirror_leaves_whole_files(tmp_path: Path) -> None:
    """Each native file is the one before or the one after, never a part; doing it again brings all of them."""
    template = tmp_path / "template"
    make_adoptable(template)
    _holdfast(template, *ADOPT)
    original = (template / STATE).read_text()
    copy(template, tmp_path / "whole")
    points = list_points(_program(tmp_path / "whole", MIRROR))
    written = json.loads((tmp_path / "whole" / STATE).read_text())["tasks"]
    for point in stratified_sample(points, POINTS, seed=7):
        repository = tmp_path / f"at-{point.number}"
        copy(template, repository)
        assert run_with_fault(_program(repository, MIRROR), Fault("kill", point.number)).fired
        found = (repository / STATE).read_text()
        assert json.loads(found)["tasks"] in (json.loads(original)["tasks"], written), point
        assert _holdfast(repository, *MIRROR).returncode == 0, point
        assert json.loads((repository / STATE).read_text())["tasks"] == written
        backup = repository / f"{STATE}.before-holdfast"
        assert backup.read_text() == original


def test_a_killed_mirror_leaves_a_worktree_that_is_repaired(tmp_path: Path) -> None:
    """Auto-Claude's staging worktree, killed while it is made: done again, it shows the build, and git is sound."""
    template = tmp_path / "template"
    make_adoptable(template)
    _holdfast(template, *ADOPT)
    copy(template, tmp_path / "whole")
    points = list_points(_program(tmp_path / "whole", STAGED))
    name = next((tmp_path / "whole/.auto-claude/worktrees/tasks").iterdir()).name
    for point in stratified_sample(points, POINTS, seed=11):
        repository = tmp_path / f"at-{point.number}"
        copy(template, repository)
        assert run_with_fault(_program(repository, STAGED), Fault("kill", point.number)).fired
        git(repository, "worktree", "list")
        again = _holdfast(repository, *STAGED)
        assert "The build so far is in" in again.stdout, f"{point}: {again.stdout}{again.stderr}"
        assert git(repository / ".auto-claude/worktrees/tasks" / name, "status", "--porcelain") == ""
        git(repository, "fsck", "--strict")
        assert _holdfast(repository, "doctor", "--fix").returncode == 0, point
