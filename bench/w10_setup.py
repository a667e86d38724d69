"""W10: what set-up, kept folders and the check of the base add to a run, beside the same run without them.

The tasks do nothing, so what is measured is Holdfast's own part; the share is of the time that ten tasks of a minute take.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median

import msgspec

from bench.measurement import Figure, scratch, timed
from bench.project import Project, run_git
from holdfast.core import events as ev

_TASKS = 10
_TASK_S = 60.0
_SHARE_MAX = 0.02
_FILES = 100
_SETUP = f"mkdir -p .venv && seq {_FILES} | split -a 3 -l 1 - .venv/x"
"""A set-up that makes some files that are kept. Its own time is the plan's, not Holdfast's, so it is short."""
_AGENT = {"mine": {"command": ["sh", "-c", "date +%s%N > $HOLDFAST_TASK.txt"]}}
_READY = {"setup": [_SETUP], "setup_when": ["d0/*"], "keep": [".venv"], "ports": 2}


def measure(*, quick: bool) -> list[Figure]:
    """Run ten tasks, one after another, in turn without and with all of it. The first run of each is not counted."""
    tasks, rounds = (2, 1) if quick else (_TASKS, 4)
    taken: dict[str, list[float]] = {"bare": [], "ready": []}
    with scratch() as folder:
        projects = {name: _project(folder / name, name, tasks) for name in taken}
        for _ in range(rounds + 1):
            for name, project in projects.items():
                with timed() as span:
                    project.call("run", "--yes", str(project.plan))
                taken[name].append(span.wall_s)
        later = {name: _task_seconds(project) for name, project in projects.items()}
    # Other work on the machine only ever makes a run slower.
    bare, added = min(taken["bare"][1:]), min(taken["ready"][1:]) - min(taken["bare"][1:])
    each = later["ready"] - later["bare"]
    share = max(added, 0.0) / (tasks * _TASK_S)
    return [
        Figure("W10", "run without set-up", bare, "s", note=f"{tasks} tasks that do nothing, checked"),
        Figure("W10", "what set-up and the known base add to a later run", added, "s"),
        Figure("W10", "what they add to a task after the first", each * 1000, "ms", note="median of the last run"),
        Figure(
            "W10",
            f"their share of a run of {tasks} tasks of {_TASK_S:g} s",
            share * 100,
            "%",
            bound=_SHARE_MAX * 100,
            sense="<=",
            note="one after another",
        ),
    ]  # fmt: skip


def _task_seconds(project: Project) -> float:
    """Return the median time from the start of a task to its landing, in the last run, without the first task."""
    reader = project.reader()
    began: dict[str, float] = {}
    took: list[float] = []
    for record in reader.events(reader.runs()[-1].row.run):
        if isinstance(record.event, ev.AttemptStarted):
            began[record.event.task] = record.at
        elif isinstance(record.event, ev.TaskLanded):
            took.append(record.at - began[record.event.task])
    return median(took[1:])


def _project(checkout: Path, name: str, tasks: int) -> Project:
    """Make a repository that ignores `.venv`, with a plan of agents' tasks; the bare one has no set-up and no preflight."""
    checkout.parent.joinpath(f"of-{name}").mkdir()
    project = Project(checkout.parent / f"of-{name}" / "repo")
    (project.checkout / ".gitignore").write_text(".venv\n")
    run_git(project.checkout, "add", "-A")
    run_git(project.checkout, "commit", "-qm", "ignore")
    rows = [
        {"id": f"t{number}", "prompt": "x", "needs": [f"t{number - 1}"] if number else []}
        for number in range(tasks)
    ]
    ready = {"workspace": _READY} if name == "ready" else {}
    plan = {"holdfast": 1, "goal": name, "agent": "mine", "agents": _AGENT, "tasks": rows, **ready}
    # A task's own checks run where the plan's would, and are no reason to check the base.
    checks = (
        {"verify": ["true"]} if name == "ready" else {"tasks": [{**row, "verify": ["true"]} for row in rows]}
    )
    project.plan.write_bytes(msgspec.json.encode({**plan, **checks}))
    return project
