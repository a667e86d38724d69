"""Task Master's `tasks.json`: `{"tasks": […]}`, or lists under tags; subtasks, dependencies, test strategies.

The subtasks of a task replace it: each becomes a separate task that names its parent. A task that depends
on the whole waits for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from holdfast.formats.lenient_json import BrokenFileError, Key, Node, node, nodes, parse_object, text, texts
from holdfast.formats.lists.model import (
    ImportedPlan,
    ImportOptions,
    LeftOut,
    ListEntry,
    into_plan,
    listed_status,
)
from holdfast.formats.markdown import paragraphs
from holdfast.formats.model import ClaimedStatus
from holdfast.formats.plan_assembly import StageDraft

_STAGE = "tasks"
_MASTER = "master"
_PUT_OFF = "deferred"
_DESCRIBED_BY = ("title", "description", "details", "testStrategy")
_TITLE = Key("title", "description")
_GOAL = Key("projectName", "description")


def is_task_master(path: str, data: bytes) -> bool:
    """Tell whether a file is a `tasks.json` of Task Master: lists of objects with a title and dependencies."""
    try:
        lists = _lists(parse_object(path, data))
    except BrokenFileError:
        return False
    return any(
        "title" in task and ("dependencies" in task or "status" in task)
        for row in lists.values()
        for task in row
    )


def read(path: str, documents: Mapping[str, bytes], options: ImportOptions) -> ImportedPlan:
    """Return the plan of one of the file's lists: the requested tag, else `master`, else the first."""
    document = parse_object(path, documents.get(path, b""))
    lists = _lists(document)
    tag = _tag(path, lists, options)
    others = [
        LeftOut(f"tag {name}", f"tasks: {len(rows)}; --tag {name}")
        for name, rows in lists.items()
        if name != tag
    ]
    entries = list(_entries(lists.get(tag, ())))
    meta = node(document.get("meta")) | node(node(document.get(tag)).get("metadata"))
    goal = _GOAL.text(meta) or text(node(document.get("metadata")).get("projectName"))
    goal = goal or (f"Task Master: {tag}" if tag else path)
    return into_plan(path, goal, [StageDraft(native=_STAGE)], entries, options, others)


def _lists(document: Node) -> dict[str, list[Node]]:
    """Return the lists of a document by their tag; the tag of an untagged document is empty."""
    if isinstance(document.get("tasks"), list):
        return {"": nodes(document["tasks"])}
    tagged = {name: node(part).get("tasks") for name, part in document.items()}
    return {name: nodes(rows) for name, rows in tagged.items() if isinstance(rows, list)}


def _tag(path: str, lists: dict[str, list[Node]], options: ImportOptions) -> str:
    if options.tag and options.tag not in lists:
        known = ", ".join(filter(None, lists)) or "none"
        raise BrokenFileError(f"{path}: there is no tag {options.tag}", f"Its tags are: {known}.")
    return options.tag or (_MASTER if _MASTER in lists else next(iter(lists), ""))


def _entries(tasks: Sequence[Node]) -> Iterator[ListEntry]:
    named = [(text(task.get("id")) or str(place), task) for place, task in enumerate(tasks, 1)]
    parts = {name: _open_parts(name, task) for name, task in named}
    for name, task in named:
        whole = paragraphs(*(text(task.get(key)) for key in _DESCRIBED_BY))
        before = _all_needs(task, "", parts)
        if not parts[name]:
            yield _entry(name, task, before, "")
        for own, part in _parts(name, task):
            needs = (*before, *_all_needs(part, name, parts))
            entry = _entry(own, part, needs, f"It is part of task {name}:\n\n{whole}")
            is_over = _status(task) in (ClaimedStatus.DONE, ClaimedStatus.ABANDONED)
            if is_over and entry.status is ClaimedStatus.PENDING:
                entry.status, entry.said = _status(task), text(task.get("status"))
            yield entry


def _parts(name: str, task: Node) -> list[tuple[str, Node]]:
    rows = nodes(task.get("subtasks"))
    return [(f"{name}.{text(row.get('id')) or place}", row) for place, row in enumerate(rows, 1)]


def _open_parts(name: str, task: Node) -> list[str]:
    """Return the subtasks that replace a task; none if all are done: then the task itself remains."""
    parts = _parts(name, task)
    is_open = any(_status(part) is not ClaimedStatus.DONE for _, part in parts)
    return [own for own, _ in parts] if is_open or _status(task) is ClaimedStatus.DONE else []


def _all_needs(task: Node, parent: str, parts: dict[str, list[str]]) -> tuple[str, ...]:
    """Return what a task waits for, with subtasks in place of their task. A plain number may be a sibling."""
    needs: list[str] = []
    for need in texts(task.get("dependencies")):
        sibling = f"{parent}.{need}"
        if parent and "." not in need and sibling in parts[parent]:
            needs.append(sibling)
        else:
            needs += parts.get(need) or [need]
    return tuple(needs)


def _entry(name: str, task: Node, needs: tuple[str, ...], context: str) -> ListEntry:
    title = _TITLE.text(task) or name
    return ListEntry(
        native=name,
        stage=_STAGE,
        title=title,
        prompt=paragraphs(title, text(task.get("description")), text(task.get("details")), context),
        needs=needs,
        acceptance=(*_criteria(task), text(task.get("testStrategy"))),
        status=_status(task),
        said=text(task.get("status")),
    )


def _criteria(task: Node) -> list[str]:
    lines = (line for said in texts(task.get("acceptanceCriteria")) for line in said.splitlines())
    return [line.strip().removeprefix("-").strip() for line in lines]


def _status(task: Node) -> ClaimedStatus:
    said = text(task.get("status"))
    return ClaimedStatus.ABANDONED if said.casefold() == _PUT_OFF else listed_status(said)
