"""`adopt` and `mirror`, killed at points spread over all they do to the disk: doing it again ends the same."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.crash.faults import Fault, Program, list_points, run_with_fault, stratified_sample
from tests.crash.sample_run import HOLDFAST, copy, environment, git, make_template

STATE = "docs/tasks/thing/execute-state.json"
ADOPT = ("adopt", STATE, "--agent", "claude")
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


def _template(path: Path) -> Path:
    """Make a repository in which Execute finished one task and was at work on the next, on a branch of its own."""
    make_template(path)
    first = git(path, "rev-parse", "HEAD").strip()
    git(path, "branch", "task/two")
    tree = git(path, "rev-parse", "HEAD^{tree}").strip()
    work = git(path, "commit-tree", "-p", "HEAD", "-m", "half of two", tree).strip()
    git(path, "update-ref", "refs/heads/task/two", work)
    tasks = {
        "L1-001": {"status": "completed", "title": "One", "commit": first},
        "L1-002": {"status": "in_progress", "title": "Two", "branch": "task/two", "attempts": 1},
    }
    (path / STATE).parent.mkdir(parents=True)
    (path / STATE).write_text(json.dumps({"version": "2.0", "status": "in_progress", "tasks": tasks}))
    return path


def _is_adopted_once(repository: Path, original: str) -> None:
    """There is one run, of which one task is done as git proves it, and the files are what they were."""
    runs = json.loads(_holdfast(repository, "list", "--json").stdout)
    assert len(runs) == 1
    shown = json.loads(_holdfast(repository, "status", "--json").stdout)
    assert {task["id"]: task["status"] for task in shown["tasks"]} == {
        "L1-001": "completed",
        "L1-002": "pending",
    }
    refs = git(repository, "for-each-ref", "--format=%(refname)", f"refs/holdfast/{runs[0]['id']}").split()
    assert [ref.rpartition("/")[2] for ref in refs if "/wip/" in ref] == ["L1-002"]
    assert (repository / STATE).read_text() == original


def test_a_killed_adoption_is_completed_by_adopting_again(tmp_path: Path) -> None:
    """At no point are there two runs, or one that would do everything again."""
    template = _template(tmp_path / "template")
    original = (template / STATE).read_text()
    copy(template, tmp_path / "whole")
    points = list_points(_program(tmp_path / "whole", ADOPT))
    _is_adopted_once(tmp_path / "whole", original)
    for point in stratified_sample(points, POINTS, seed=7):
        repository = tmp_path / f"at-{point.number}"
        copy(template, repository)
        assert run_with_fault(_program(repository, ADOPT), Fault("kill", point.number)).fired
        again = _holdfast(repository, *ADOPT)
        assert again.returncode == 0, f"{point}: {again.stderr}"
        _is_adopted_once(repository, original)
        assert _holdfast(repository, "doctor", "--fix").returncode == 0, point


def test_a_killed_mirror_leaves_whole_files(tmp_path: Path) -> None:
    """Each native file is the one before or the one after, never a part; doing it again brings all of them."""
    template = _template(tmp_path / "template")
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
    template = _template(tmp_path / "template")
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
