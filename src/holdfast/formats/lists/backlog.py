"""Backlog.md: one Markdown file per task, with YAML at its head and acceptance criteria below.

A parent waits for its subtasks: it is the work that remains after them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from posixpath import basename

from holdfast.formats import lenient_yaml
from holdfast.formats.lenient_json import Node, node, text, texts
from holdfast.formats.lists.checklist import without_comments
from holdfast.formats.lists.model import (
    ImportedPlan,
    ImportOptions,
    LeftOut,
    ListEntry,
    into_plan,
    listed_status,
)
from holdfast.formats.lists.points import ListPoint, exact_text, one_spaced
from holdfast.formats.markdown import bullets, decoded, paragraphs, section
from holdfast.formats.plan_assembly import StageDraft, plain_name

_STAGE = "backlog"
_HEAD = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_HEAD_CHARS_MAX = 64_000
_STATUS = re.compile(
    r"""^status[ \t]*:[ \t]*("[^"\r\n]*"|'[^'\r\n]*'|[^#\r\n]*?)(?=[ \t]*(?:[ \t]\#[^\r\n]*)?\r?$)""",
    re.MULTILINE,
)
_DONE = "Done"


def is_backlog(data: bytes) -> bool:
    """Tell whether a file is a task of Backlog.md."""
    head = _head(decoded(data))
    return bool(text(head.get("id")) and text(head.get("title")) and "status" in head)


def read(path: str, documents: Mapping[str, bytes], options: ImportOptions) -> ImportedPlan:
    """Return the plan of the tasks in these files."""
    heads = {name: _head(decoded(data)) for name, data in documents.items()}
    tasks = {name: head for name, head in heads.items() if text(head.get("id"))}
    order = sorted(
        tasks, key=lambda name: (_ordinal(tasks[name]), _natural(text(tasks[name].get("id"))), name)
    )
    entries = [_entry(tasks[name], decoded(documents[name])) for name in order]
    canonical = {plain_name(entry.native): entry.native for entry in entries}
    for name, entry in zip(order, entries, strict=True):
        entry.needs = tuple(canonical.get(plain_name(need), need) for need in entry.needs)
        parent = canonical.get(plain_name(text(tasks[name].get("parent_task_id"))), "")
        for whole in entries:
            if whole.native == parent and whole.native not in entry.needs:
                whole.needs = (*whole.needs, entry.native)
    others = [LeftOut(basename(name), "it has no id at its head") for name in documents if name not in tasks]
    goal = f"The backlog in {path}" if len(entries) != 1 else entries[0].title
    return into_plan(path, goal, [StageDraft(native=_STAGE)], entries, options, others)


def points(data: bytes) -> tuple[str, list[ListPoint]]:
    """Return the text of a task's file, and where its status is, if it is on a line of its own."""
    content, begin = exact_text(data)
    whole, head = _HEAD.match(content[begin:]), _head(content[begin:])
    said = _STATUS.search(whole[1]) if whole else None
    if whole is None or said is None or not head.get("id"):
        return content, []
    at = begin + whole.start(1)
    status = listed_status(text(head.get("status")))
    done = _DONE if said[0][-1:] != ":" else f" {_DONE}"
    return content, [ListPoint((_point(head),), at + said.start(1), at + said.end(1), done, status)]


def _point(head: Node) -> str:
    return one_spaced(f"{text(head.get('id'))} {text(head.get('title'))}")


def _head(content: str) -> Node:
    """Return the YAML at the head of a file, every value as text; empty if it is unreadable."""
    found = _HEAD.match(content)
    if found is None or len(found[1]) > _HEAD_CHARS_MAX:
        return {}
    try:
        return node(lenient_yaml.load(found[1]))
    except ValueError:
        return {}


def _entry(head: Node, content: str) -> ListEntry:
    body = without_comments(_HEAD.sub("", content))
    said = text(head.get("status"))
    criteria = bullets(section(body, "Acceptance Criteria")) + bullets(section(body, "Definition of Done"))
    title = text(head.get("title"))
    return ListEntry(
        native=text(head.get("id")),
        stage=_STAGE,
        title=title or text(head.get("id")),
        prompt=paragraphs(
            title,
            section(body, "Description"),
            section(body, "Implementation Plan"),
            section(body, "Implementation Notes"),
        ),
        needs=texts(head.get("dependencies")),
        acceptance=tuple(re.sub(r"^#\d+\s+", "", line) for line in criteria),
        status=listed_status(said),
        said=said,
        points=(_point(head),),
    )


def _ordinal(head: Node) -> float:
    said = text(head.get("ordinal"))
    return float(said) if re.fullmatch(r"\d{1,12}(\.\d{1,12})?", said) else float("inf")


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts `task-2` before `task-10`."""
    return [
        (int(part), "") if part.isdecimal() and len(part) < 12 else (0, part)
        for part in re.split(r"(\d+)", name)
    ]
