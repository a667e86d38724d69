"""One sprint of an epic as a task: what it is about, what must hold, what it delivers, how it is tested and judged."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.plan import Task
from holdfast.formats import notes
from holdfast.formats.cfn.judges import EPIC_GATE, gate_of, implementers_of, validators_of
from holdfast.formats.commands import is_command, is_path
from holdfast.formats.loose import Node, first, items, node, text, texts

TEST_SLOT = "tests"
"""CFN Loop lets one sprint run its tests at a time; so does a slot of this name."""
_CRITERIA = (
    "acceptanceCriteria", "acceptance_criteria", "successCriteria", "success_criteria", "definitionOfDone",
    "definition_of_done", "acceptance",
)  # fmt: skip
_ABOUT = (
    "description",
    "goal",
    "sprint_goal",
    "sprintGoal",
    "objective",
    "sprint_objective",
    "purpose",
    "deliverable",
)
_PARTS = ("tasks", "subtasks", "steps", "objectives", "requirements")
_TESTS = ("testCommand", "test_command", "testCommands", "test_commands", "verification", "verify")


def native_of(sprint: Node) -> str:
    """Return what a sprint is called, whatever that key is named."""
    return text(
        first(
            sprint, "sprintId", "sprint_id", "id", "sprint", "phaseId", "phase_id", "number", "name", "title"
        )
    )


def title_of(sprint: Node) -> str:
    """Return a sprint's title."""
    return text(first(sprint, "name", "title", "sprint_name", "sprintName", "phase_name", "phaseName"))


def task_of(sprint: Node, *around: Node) -> Task:
    """Return the task of a sprint, without needs. `around` are the objects it lies in, the nearest first."""
    title = title_of(sprint)
    verify = tuple(line for line in texts(first(sprint, *_TESTS)) if is_command(line))
    run = texts(sprint.get("run"))
    task = Task(
        id="",
        title=title,
        prompt="" if run else _prompt(title or native_of(sprint), sprint),
        run=run,
        files=tuple(dict.fromkeys(_files(sprint))),
        verify=verify,
        slot=TEST_SLOT if verify else "",
        validators=validators_of(title or native_of(sprint), sprint, *around),
        gate=gate_of(sprint, *around, default=EPIC_GATE),
        acceptance=tuple(dict.fromkeys(_criteria(sprint))),
    )
    return notes.task(task, notes.of(sprint))


def _prompt(title: str, sprint: Node) -> str:
    """Return everything the file says that an agent must know, in the order of the file's own parts."""
    about = text(first(sprint, *_ABOUT))
    who = implementers_of(sprint)
    scope = node(sprint.get("scope"))
    parts = [
        about or title,
        *_outline(sprint),
        _list("In scope", texts(first(scope, "in_scope", "inScope"))),
        _list("Out of scope", texts(first(scope, "out_of_scope", "outOfScope"))),
        f"Work as: {', '.join(who)}." if who else "",
    ]
    return "\n\n".join(filter(None, parts))


def _outline(sprint: Node) -> Iterator[str]:
    """Yield the sprint's own points, its deliverables, and those of the phases within it."""
    points = [line for key in _PARTS for line in map(_point, items(sprint.get(key)))]
    yield _list("What there is to do", tuple(filter(None, points)))
    yield _list("What it delivers", tuple(filter(None, map(_point, items(sprint.get("deliverables"))))))
    for phase in items(sprint.get("phases")):
        if isinstance(phase, dict):
            about = text(first(phase, *_ABOUT))
            head = ": ".join(filter(None, (title_of(phase) or native_of(phase), about)))
            yield "\n".join(filter(None, (f"## {head}" if head else "", *_outline(phase))))


def _point(entry: object) -> str:
    if not isinstance(entry, dict):
        return text(entry)
    said = (text(first(entry, "title", "name", "id")), text(first(entry, *_ABOUT)))
    return ": ".join(filter(None, said))


def _list(head: str, lines: tuple[str, ...]) -> str:
    return "\n".join((f"{head}:", *(f"- {line}" for line in lines))) if lines else ""


def _within(sprint: Node) -> Iterator[Node]:
    """Yield a sprint and the objects within it that carry criteria and deliverables of their own."""
    yield sprint
    for key in ("phases", "deliverables", "tasks", "subtasks"):
        for child in items(sprint.get(key)):
            if isinstance(child, dict):
                yield child


def _criteria(sprint: Node) -> Iterator[str]:
    for place in _within(sprint):
        said = first(place, *_CRITERIA)
        if isinstance(said, dict):
            yield from (f"{key}: {text(value)}" for key, value in said.items() if text(value))
        else:
            yield from filter(None, map(_point, items(said)))


def _files(sprint: Node) -> Iterator[str]:
    """Yield the deliverables that are paths: these must exist when the sprint ends."""
    for place in _within(sprint):
        for key in ("deliverables", "files", "filesToCreate", "files_to_create"):
            yield from (path for path in texts(place.get(key)) if is_path(path))
