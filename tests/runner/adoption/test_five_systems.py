"""A crashed run of each of the five systems, as its own files and git show it, carried on to its end by the real runner."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.core import events as ev
from holdfast.core.status import RunStatus
from holdfast.formats.discovery import find_sources, read_source
from holdfast.formats.model import ForeignRun, all_formats
from holdfast.formats.registry import System
from holdfast.runner.decisions.user_decisions import record_decision
from holdfast.runner.mirror.renderer import RunRenderer
from tests.support.foreign_runs import adopted, assessment_of
from tests.support.repositories import Project, write
from tests.support.runs import Trial, open_project_journal

Crash = Callable[[Project, str], set[str]]
"""Leaves what a crashed run would in a project whose finished work is in a commit; returns the tasks that are done."""

HALF = "half of it\n"


def _dump(project: Project, path: str, document: Any) -> None:
    write(project.path / path, json.dumps(document, indent=2))


def _worktree(project: Project, path: str, branch: str) -> None:
    """Make a working tree with unfinished work in it."""
    project.git("worktree", "add", "-q", "-b", branch, path)
    write(project.path / path / "half.txt", HALF)


def _apex(project: Project, commit: str) -> set[str]:
    home = ".claude/output/apex/01-add-auth"
    done = [
        {"number": 0, "name": "init", "status": "PASS", "output_file": "00-init.md", "summary": "Ready."},
        {
            "number": 1,
            "name": "analyze",
            "status": "PASS",
            "output_file": "01-analyze.md",
            "summary": "Found.",
        },
    ]
    state = {
        "version": "1.0",
        "task_id": "01-add-auth",
        "description": "Add JWT auth",
        "completed_phases": done,
        "current_phase": {"number": 2, "name": "plan", "status": "IN_PROGRESS"},
        "pending_phases": [{"number": 3, "name": "execute"}],
    }
    _dump(project, f"{home}/state.json", state)
    for phase in done:
        write(project.path / home / str(phase["output_file"]), f"# {phase['name']}\n")
    return {"0-init", "1-analyze"}


def _execute(project: Project, commit: str) -> set[str]:
    _worktree(project, ".worktrees/L1-002", "execute/L1-002")
    tasks = {
        "L1-001": {"status": "completed", "title": "One", "commit": commit, "attempts": 1},
        "L1-002": {
            "status": "in_progress",
            "title": "Two",
            "attempts": 2,
            "worktree": ".worktrees/L1-002",
            "branch": "execute/L1-002",
        },
        "L1-003": {"status": "pending", "title": "Three", "depends_on": ["L1-002"]},
    }
    _dump(
        project,
        "docs/tasks/thing/execute-state.json",
        {"version": "2.0", "status": "in_progress", "tasks": tasks},
    )
    return {"L1-001"}


def _cfn(project: Project, commit: str) -> set[str]:
    sprints = [
        {"id": "sprint-1", "name": "First", "status": "completed", "commits": [commit]},
        {"id": "sprint-2", "name": "Second", "status": "in_progress", "dependencies": ["sprint-1"]},
    ]
    _dump(project, "planning/auth-epic.json", {"epicId": "auth", "name": "Auth", "sprints": sprints})
    return {"sprint-1"}


def _auto_claude(project: Project, commit: str) -> set[str]:
    home = ".auto-claude/specs/001-login"
    _worktree(project, ".auto-claude/worktrees/tasks/001-login", "auto-claude/001-login")
    subtasks = [
        {"id": "subtask-1-1", "description": "One", "status": "completed"},
        {"id": "subtask-1-2", "description": "Two", "status": "in_progress"},
        {"id": "subtask-1-3", "description": "Three", "status": "pending"},
    ]
    plan = {"feature": "Login", "phases": [{"id": "phase-1", "name": "All", "subtasks": subtasks}]}
    _dump(project, f"{home}/implementation_plan.json", plan)
    known = {"commits": [{"hash": commit, "subtask_id": "subtask-1-1", "timestamp": "2026-01-01T00:00:00"}]}
    _dump(project, f"{home}/memory/build_commits.json", known)
    return {"subtask-1-1"}


def _specflow(project: Project, commit: str) -> set[str]:
    done = {"status": "complete", "commits": [commit[:7]], "files_created": ["done.txt"]}
    waves = [
        {"id": 1, "groups": ["G1"], "status": "complete", "results": {"G1": done}},
        {"id": 2, "groups": ["G2", "G3"], "status": "in_progress", "results": {"G2": "running"}},
    ]
    state = {"spec_id": "SPEC-001", "mode": "orchestrated", "waves": waves, "commits": [commit[:7]]}
    _dump(project, ".specflow/execution/SPEC-001-state.json", state)
    return {"G1"}


CRASHES: dict[System, Crash] = {
    System.APEX: _apex,
    System.EXECUTE: _execute,
    System.CFN: _cfn,
    System.AUTO_CLAUDE: _auto_claude,
    System.SPECFLOW: _specflow,
}
WITH_WORKTREE = (System.EXECUTE, System.AUTO_CLAUDE)


def _crashed(tmp_path: Path, system: System) -> tuple[Project, set[str]]:
    project = Project.create(tmp_path / "p")
    project.write("done.txt", "done before\n")
    commit = project.commit("what was finished")
    return project, CRASHES[system](project, commit)


def _found(project: Project) -> ForeignRun:
    """Find the only run that there is in the project, as `adopt .` does."""
    formats = all_formats()
    (source,) = find_sources(project.path, project.path, formats)
    return read_source(source, formats)


@pytest.mark.parametrize("system", CRASHES)
def test_a_crashed_run_is_found_and_continued_to_its_end(system: System, tmp_path: Path) -> None:
    """What was finished is not done again, and everything else is done."""
    project, done = _crashed(tmp_path, system)
    run = _found(project)
    assert run.system is system
    trial = adopted(project, run)
    assert set(trial.landed()) == done
    assert trial.execute() is RunStatus.COMPLETED
    started = {event.task for event in trial.of_kind(ev.AttemptStarted)}
    assert started == set(trial.state().names) - done
    assert trial.show("done.txt") == "done before"
    assert trial.violations() == []


@pytest.mark.parametrize("system", WITH_WORKTREE)
def test_unfinished_work_in_a_worktree_continues(system: System, tmp_path: Path) -> None:
    """What an agent had written when it was killed is in the result, and still where it was."""
    project, _ = _crashed(tmp_path, system)
    trial = adopted(project, _found(project))
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.show("half.txt") == HALF.strip()
    assert [
        path.read_text() for path in project.path.glob(".*/**/half.txt") if ".holdfast" not in str(path)
    ] == [HALF]


@pytest.mark.parametrize("place", [".worktrees/auto-claude", ".worktrees/001-login"])
def test_unfinished_work_of_auto_claude_is_found_in_its_older_places(place: str, tmp_path: Path) -> None:
    """One staging worktree for all specs, or one for each: the work in it is saved and continued as in the newest layout."""
    project, _ = _crashed(tmp_path, System.AUTO_CLAUDE)
    project.git("worktree", "move", ".auto-claude/worktrees/tasks/001-login", _made(project, place))
    trial = adopted(project, _found(project))
    assert trial.state().tasks["subtask-1-2"].carry
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.show("half.txt") == HALF.strip()
    assert (project.path / place / "half.txt").read_text() == HALF


def test_a_staging_worktree_of_another_spec_is_not_taken(tmp_path: Path) -> None:
    """Auto-Claude has one for all specs: whose it is now, its branch says."""
    project, _ = _crashed(tmp_path, System.AUTO_CLAUDE)
    place = _made(project, ".worktrees/auto-claude")
    project.git("worktree", "move", ".auto-claude/worktrees/tasks/001-login", place)
    project.git("-C", place, "switch", "-q", "-c", "auto-claude/002-other")
    assert assessment_of(project, _found(project)).unfinished == {}


def _made(project: Project, place: str) -> str:
    """Return a place whose folder is there."""
    (project.path / place).parent.mkdir(exist_ok=True)
    return place


@pytest.mark.parametrize("system", CRASHES)
def test_the_native_files_follow_an_adopted_run_and_are_adopted_again_as_the_same(
    system: System, tmp_path: Path
) -> None:
    """Adopt, mirror, carry on: the system's own files say that all is done, at the places where it looks for them."""
    project, _ = _crashed(tmp_path, system)
    trial = adopted(project, _found(project))
    _keep(trial, system)
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.of_kind(ev.MirrorFailed) == []
    formats = all_formats()
    runs = [read_source(source, formats) for source in find_sources(project.path, project.path, formats)]
    again = next(run for run in runs if run.system is system)
    assert {str(claim.standing) for claim in again.claims} == {"done"}
    assert {claim.task for claim in again.claims} == set(trial.state().names)


@pytest.mark.parametrize("system", CRASHES)
def test_any_run_can_be_written_as_any_system(system: System, tmp_path: Path) -> None:
    """A run of our own, exported and adopted in a fresh clone: the same tasks, the same needs, the same is done."""
    project, _ = _crashed(tmp_path, System.EXECUTE)
    trial = adopted(project, _found(project))
    repo = project.open()
    with open_project_journal(repo) as journal:
        files = RunRenderer(repo, journal, trial.run).native_files(system, live=False)
    for file in files:
        if not file.link and not file.gone:
            write(tmp_path / "copy" / file.path, file.content.decode())
    formats = all_formats()
    again = read_source(find_sources(tmp_path / "copy", tmp_path / "copy", formats)[0], formats)
    wanted = {task.id: task.needs for _, task in trial.stored().plan.tasks()}
    assert {task.id: task.needs for _, task in again.plan.tasks()} == wanted
    assert [c.task for c in again.claims if c.standing == "done"] == ["L1-001"]


def _keep(trial: Trial, system: System) -> None:
    repo = trial.project.open()
    with open_project_journal(repo) as journal:
        record_decision(repo, journal, trial.run, ev.MirrorKept(system=system))
