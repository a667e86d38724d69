"""`plan import`: a task list becomes a plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.workflow_project import WorkflowProject
from tests.support.command import Cli

LISTS: dict[str, object] = {
    "specs/001-x/tasks.md": "# Tasks: X\n\n## Phase 1: Setup\n\n- [ ] T001 Begin\n- [x] T002 [P] Done\n",
    ".taskmaster/tasks/tasks.json": {"master": {"tasks": [{"id": 1, "title": "Begin", "status": "pending"}]}},
    "backlog/tasks/task-1 - Begin.md": "---\nid: task-1\ntitle: Begin\nstatus: To Do\n---\n",
    "TODO.md": "# List\n\n- [ ] Begin\n",
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_becomes_a_plan_that_runs(project: WorkflowProject, name: str) -> None:
    """From a file that somebody has to landed work, in two commands."""
    project.write(name, LISTS[name])
    done = project("plan", "import", name, "--agent", "worker")
    assert done.code == 0, done.err
    assert "1 task in 1 stage" in done.out
    assert project("run", "--yes").code == 0
    assert len(project.landed()) == 1


@pytest.mark.parametrize("folder", ["specs/001-x", ".", "backlog"])
def test_a_folder_is_looked_into(project: WorkflowProject, folder: str) -> None:
    """Its usual place is enough to find a list."""
    for name in [name for name in LISTS if name.startswith(folder.strip(".")) and name != "TODO.md"]:
        project.write(name, LISTS[name])
    done = project("plan", "import", folder, "--agent", "worker")
    assert done.code == 0
    assert f"from {folder}" in done.out


def test_an_import_never_overwrites_without_leave_and_tells_what_is_left_out(
    project: WorkflowProject,
) -> None:
    """A plan that somebody edited is not lost by giving a command twice."""
    project.write("tasks.md", LISTS["specs/001-x/tasks.md"])
    assert "Left out: T002 (ticked)" in project("plan", "import", "tasks.md").out
    assert project("plan", "import", "tasks.md").code == 2
    assert project.cli.json("plan", "import", "tasks.md", "--force", "--all")["tasks"] == 2


def test_running_a_list_suggests_to_import_it(project: WorkflowProject) -> None:
    """The error is the way in."""
    project.write("tasks.md", LISTS["specs/001-x/tasks.md"])
    done = project("run", "tasks.md")
    assert done.code == 2
    assert "task list (spec-kit), not a plan" in done.err
    assert "holdfast plan import tasks.md" in done.err


def test_a_file_without_a_list_is_refused_with_what_would_do(project: WorkflowProject) -> None:
    """Nothing is written for prose."""
    project.write("notes.md", "# Notes\n\nProse.\n")
    done = project("plan", "import", "notes.md")
    assert done.code == 2
    assert "no task list was found in notes.md" in done.err
    assert not (project.cli.here / "plan.yaml").exists()


def test_an_unknown_agent_is_refused(tmp_path: Path) -> None:
    """Before a plan is written that cannot run."""
    cli = Cli.of(tmp_path / "p")
    (cli.here / "tasks.md").write_text("- [ ] one\n")
    done = cli("plan", "import", "tasks.md", "--agent", "clade", "-o", "made.yaml")
    assert (done.code, 'did you mean "claude"?' in done.err) == (2, True), done.err
    assert not (cli.here / "made.yaml").exists()


def test_a_missing_list_is_the_first_thing_to_be_told(project: WorkflowProject) -> None:
    """A plan that is there is no obstacle as long as there is nothing to write into it."""
    (project.cli.here / "plan.yaml").touch()
    done = project.cli("plan", "import", "nosuch.md")
    assert (done.code, "there is no nosuch.md" in done.err, "plan.yaml" in done.err) == (2, True, False)
