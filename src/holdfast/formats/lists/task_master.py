"""Task Master's `tasks.json`: `{"tasks": […]}`, or lists under tags; subtasks, dependencies, test strategies.

The subtasks of a task replace it: each becomes a separate task that names its parent. A task that depends
on the whole waits for all of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.formats.lenient_json import BrokenFileError, Key, Node, node, nodes, parse_object, text, texts
from holdfast.formats.lists.model import (
    ImportedPlan,
    ImportOptions,
    LeftOut,
    ListEntry,
    into_plan,
    listed_status,
)
from holdfast.formats.lists.points import ListPoint, exact_text, one_spaced
from holdfast.formats.markdown import paragraphs
from holdfast.formats.model import ClaimedStatus
from holdfast.formats.plan_assembly import StageDraft

_STAGE = "tasks"
_MASTER = "master"
_PUT_OFF = "deferred"
_DESCRIBED_BY = ("title", "description", "details", "testStrategy")
_TITLE = Key("title", "description")
_GOAL = Key("projectName", "description")
_DONE = '"status": "done"'
_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")


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
    imported = into_plan(path, goal, [StageDraft(native=_STAGE)], entries, options, others)
    return msgspec.structs.replace(imported, tag=tag)


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
        points=(_point(name, task),),
    )


def _point(name: str, task: Node) -> str:
    return one_spaced(f"{name} {_TITLE.text(task)}")


def _criteria(task: Node) -> list[str]:
    lines = (line for said in texts(task.get("acceptanceCriteria")) for line in said.splitlines())
    return [line.strip().removeprefix("-").strip() for line in lines]


def _status(task: Node) -> ClaimedStatus:
    said = text(task.get("status"))
    return ClaimedStatus.ABANDONED if said.casefold() == _PUT_OFF else listed_status(said)


# -- where things stand in the file ---------------------------------------------------------------------------


def points(data: bytes, tag: str) -> tuple[str, list[ListPoint]]:
    """Return the text of the file, and where the status of each task and subtask of a tag's list is.

    Raises ValueError if the file is no JSON.
    """
    content, begin = exact_text(data)
    document = _after_space(content, begin)
    lists = _members(content, document) if isinstance(json.loads(content[begin:]), dict) else {}
    if tag:
        lists = _members(content, lists[tag][1]) if isinstance(lists.get(tag, _NOTHING)[0], dict) else {}
    return content, list(_points_in(content, lists.get("tasks", _NOTHING), ""))


_NOTHING: tuple[Any, int, int] = (None, 0, 0)
_Found = tuple[Any, int, int]
"""A value of the file, and from where to where it stands."""


def _points_in(content: str, rows: _Found, parent: str) -> Iterator[ListPoint]:
    if not isinstance(rows[0], list):
        return
    tasks = [item for item in _items(content, rows[1]) if isinstance(item[0], dict)]
    for place, (task, at, _) in enumerate(tasks, 1):
        name = parent + (text(task.get("id")) or str(place))
        members = _members(content, at)
        yield ListPoint((_point(name, task),), *_status_span(content, members), _status(task))
        yield from _points_in(content, members.get("subtasks", _NOTHING), f"{name}.")


def _status_span(content: str, members: dict[str, _Found]) -> tuple[int, int, str]:
    """Return where the status is and what to write there; it is added after the last key if there is none."""
    if "status" in members:
        _, start, end = members["status"]
        return start, end, _DONE.partition(": ")[2]
    last = max(end for _, _, end in members.values())
    first = min(start for _, start, _ in members.values())
    before = content.rfind("{", 0, first) + 1
    space = _SPACE.match(content, before)
    return last, last, f",{space[0] if space else ''}{_DONE}"


def _members(content: str, at: int) -> dict[str, _Found]:
    """Return the members of the object that begins at a place."""
    found: dict[str, _Found] = {}
    at = _after_space(content, at + 1)
    while content[at] != "}":
        key, at = _DECODER.raw_decode(content, at)
        start = _after_space(content, _after_space(content, at) + 1)
        part, end = _DECODER.raw_decode(content, start)
        found[key] = (part, start, end)
        at = _after_comma(content, end)
    return found


def _items(content: str, at: int) -> Iterator[_Found]:
    """Yield the items of the list that begins at a place."""
    at = _after_space(content, at + 1)
    while content[at] != "]":
        part, end = _DECODER.raw_decode(content, at)
        yield part, at, end
        at = _after_comma(content, end)


def _after_comma(content: str, at: int) -> int:
    at = _after_space(content, at)
    return _after_space(content, at + 1) if content[at] == "," else at


def _after_space(content: str, at: int) -> int:
    found = _SPACE.match(content, at)
    return found.end() if found else at
