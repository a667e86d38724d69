"""Ticks: a run from a list ticks its points there when they land, if the user says so, and touches nothing else."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.cli.workflow_project import WorkflowProject
from tests.support.command import eventually
from tests.support.preloaded_command import ForkedProcess

SPEC = "# Tasks: X\n\n## Phase 1: Setup\n\n- [ ] T001 Begin  \n- [x] T002 [P] Done\n- [ ] T003 Go on\n"
LISTS: dict[str, tuple[str, str]] = {
    "specs/001-x/tasks.md": (SPEC, SPEC.replace("[ ]", "[x]")),
    "TODO.md": ("# L\r\n\r\n- [ ] Begin\r\n- [ ] Go on\r\n", "# L\r\n\r\n- [x] Begin\r\n- [x] Go on\r\n"),
    ".taskmaster/tasks/tasks.json": (
        '{"master": {"tasks": [\n\t{"id": 1, "status": "pending", "title": "Begin"}\n]}}\n',
        '{"master": {"tasks": [\n\t{"id": 1, "status": "done", "title": "Begin"}\n]}}\n',
    ),
    "backlog/tasks/task-1 - Begin.md": (
        "---\nid: task-1\ntitle: Begin\nstatus: To Do\n---\n- [ ] #1 x\n",
        "---\nid: task-1\ntitle: Begin\nstatus: Done\n---\n- [ ] #1 x\n",
    ),
}


def _list(project: WorkflowProject, name: str = "TODO.md", content: str = "") -> Path:
    path = project.cli.here / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((content or LISTS[name][0]).encode())
    return path


def _import(project: WorkflowProject, name: str = "TODO.md", *options: str) -> None:
    done = project("plan", "import", name, "--agent", "worker", "--force", *options)
    assert done.code == 0, done.err


@pytest.mark.parametrize("name", LISTS)
def test_a_run_ticks_its_list(project: WorkflowProject, name: str) -> None:
    """From the list to landed work and back to the list, with every other byte as it was."""
    path = _list(project, name)
    _import(project, name, "--tick")
    done = project("run", "--yes")
    assert done.code == 0, done.err
    assert path.read_bytes() == LISTS[name][1].encode()
    assert "ticked in its list" in done.out
    assert "changed in the checkout" not in done.out
    assert project.cli.json("status")["run"]["ticks"] == (
        "backlog/tasks/task-1 - Begin.md" if "backlog" in name else name
    )


def test_a_backlog_folder_is_ticked_file_by_file(project: WorkflowProject) -> None:
    """Each task has a file; those that are not in the plan are not opened for writing."""
    for number, status in ((1, "To Do"), (2, "Done"), (3, "In Progress")):
        _list(
            project,
            f"backlog/tasks/task-{number} - T.md",
            f"---\nid: task-{number}\ntitle: T{number}\nstatus: {status}\n---\n",
        )
    before = (project.cli.here / "backlog/tasks/task-2 - T.md").stat()
    _import(project, "backlog", "--tick")
    assert project("run", "--yes").code == 0
    for number in (1, 3):
        assert "status: Done" in (project.cli.here / f"backlog/tasks/task-{number} - T.md").read_text()
    assert (project.cli.here / "backlog/tasks/task-2 - T.md").stat().st_mtime_ns == before.st_mtime_ns


def test_without_the_users_word_the_list_is_not_touched(project: WorkflowProject) -> None:
    """The list is in the checkout, which is never touched unasked. `tick` catches up, also when the run is over."""
    path = _list(project)
    _import(project)
    assert project("run", "--yes").code == 0
    assert path.read_bytes() == LISTS["TODO.md"][0].encode()
    done = project("tick")
    assert "2 of 2 landed tasks were ticked in TODO.md." in done.out
    assert path.read_bytes() == LISTS["TODO.md"][1].encode()


def test_run_tick_is_enough_for_a_plan_that_was_imported(project: WorkflowProject) -> None:
    """The plan remembers its list."""
    path = _list(project)
    _import(project)
    assert project("run", "--yes", "--tick").code == 0
    assert path.read_bytes() == LISTS["TODO.md"][1].encode()


def test_a_plan_without_a_list_is_refused_before_anything_runs(project: WorkflowProject) -> None:
    """The way to one is named."""
    project.write("plan.yaml", {"holdfast": 1, "goal": "g", "tasks": [{"id": "a", "run": ["true"]}]})
    done = project("run", "--yes", "--tick")
    assert done.code == 2
    assert "plan import" in done.err
    assert project("list").out.strip().startswith("No run")


def test_what_a_person_unticks_later_stays_so(project: WorkflowProject) -> None:
    """A tick is made once: whoever takes it back had a reason."""
    path = _list(project)
    _import(project, "TODO.md", "--tick")
    assert project("run", "--yes").code == 0
    path.write_bytes(LISTS["TODO.md"][0].encode())
    assert project("resume").code == 0
    assert project("tick").code == 0
    assert path.read_bytes() == LISTS["TODO.md"][0].encode()


@pytest.mark.parametrize("trouble", ["reworded", "gone", "link", "read-only", "struck out"])
def test_a_point_that_cannot_be_ticked_is_told_and_the_run_goes_on(
    project: WorkflowProject, trouble: str
) -> None:
    """Nothing is lost, and nothing else is changed."""
    path = _list(project)
    _import(project, "TODO.md", "--tick")
    kept = project.root / "kept.md"
    if trouble == "reworded":
        path.write_text("# L\n\n- [ ] Begin anew\n- [ ] Go on\n")
    elif trouble == "struck out":
        path.write_text("# L\n\n- [-] Begin\n- [ ] Go on\n")
    elif trouble == "read-only":
        path.chmod(0o444)
    else:
        path.rename(kept)
        if trouble == "link":
            path.symlink_to(kept)
    before = path.read_bytes() if path.exists() else b""
    done = project("run", "--yes")
    assert done.code == 0
    assert "not ticked in its list: Begin: " in done.out
    if trouble in ("reworded", "struck out"):
        assert path.read_bytes() == before.replace(b"[ ] Go", b"[x] Go")
    else:
        assert (path.read_bytes() if path.exists() else b"") == before
    assert "01-begin was not: Begin: " in project("tick").out


def _held_at_the_second_task(project: WorkflowProject) -> tuple[ForkedProcess, Path]:
    """Start a run whose second task works as long as a file is there; return that, too."""
    hold = project.root / "hold-02-go-on"
    hold.touch()
    runner = project.cli.start("run", "--yes", XDG_CONFIG_HOME=str(project.root / "config"))
    return runner, hold


def test_edits_of_the_user_during_a_run_stay(project: WorkflowProject) -> None:
    """The list is read anew for every tick."""
    path = _list(project)
    _import(project, "TODO.md", "--tick")
    runner, hold = _held_at_the_second_task(project)
    eventually(lambda: b"[x] Begin" in path.read_bytes(), "the first point is ticked")
    path.write_bytes(path.read_bytes().replace(b"# L", b"# Mine") + b"- [ ] Mine too\r\n")
    hold.unlink()
    runner.wait()
    assert path.read_bytes() == b"# Mine\r\n\r\n- [x] Begin\r\n- [x] Go on\r\n- [ ] Mine too\r\n"


def test_a_killed_run_ticks_when_it_is_resumed(project: WorkflowProject) -> None:
    """What landed before the kill is ticked by the next runner."""
    path = _list(project)
    _import(project)
    runner, hold = _held_at_the_second_task(project)
    eventually(lambda: "02-go-on" in project.lines("order"), "the second task is at work")
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    assert path.read_bytes() == LISTS["TODO.md"][0].encode()
    hold.unlink()
    assert "1 of 1 landed task was ticked in TODO.md." in project("tick").out
    assert project("resume", "--yes").code == 0
    assert path.read_bytes() == LISTS["TODO.md"][1].encode()


def test_a_completed_run_is_ticked_by_resume(project: WorkflowProject) -> None:
    """What could not be ticked while it ran, or was cut off by a kill at its very end, is made up for."""
    path = _list(project)
    _import(project, "TODO.md", "--tick")
    path.unlink()
    assert project("run", "--yes").code == 0
    _list(project)
    assert project("resume", "1").code == 0
    assert path.read_bytes() == LISTS["TODO.md"][1].encode()


def test_off_leaves_the_list_from_then_on(project: WorkflowProject) -> None:
    """Without a runner as with one; the plan's own word is overruled."""
    path = _list(project)
    _import(project, "TODO.md", "--tick")
    runner, hold = _held_at_the_second_task(project)
    eventually(lambda: b"[x] Begin" in path.read_bytes(), "the first point is ticked")
    done = json.loads(project("tick", "--off", "--json").out)
    assert done["detail"] == "TODO.md stays as it is from now on."
    hold.unlink()
    runner.wait()
    assert path.read_bytes() == b"# L\r\n\r\n- [x] Begin\r\n- [ ] Go on\r\n"
    assert project.cli.json("status")["run"]["ticks"] == ""


def test_a_list_outside_of_the_repository_is_not_ticked(project: WorkflowProject) -> None:
    """It can be imported, but nothing of it is remembered."""
    outside = project.root / "TODO.md"
    outside.write_bytes(LISTS["TODO.md"][0].encode())
    done = project("plan", "import", str(outside), "--agent", "worker", "--tick")
    assert done.code == 2
    assert "is not in this repository" in done.err
    assert project("plan", "import", str(outside), "--agent", "worker").code == 0
    assert "task_list" not in (project.cli.here / "plan.yaml").read_text()


def test_a_plan_may_not_tick_outside_of_the_project(project: WorkflowProject) -> None:
    """Whoever wrote the plan, it reaches no other file."""
    for path in ("../x.md", "/etc/x.md", ".git/config", ".holdfast/x.md"):
        listed = {"path": path, "kind": "checklist", "tick": True}
        task = {"id": "a", "run": ["true"], "points": "a"}
        project.write("plan.yaml", {"holdfast": 1, "goal": "g", "task_list": listed, "tasks": [task]})
        done = project("run", "--yes")
        assert done.code == 2, path
        assert "is not a list of the project" in done.err
