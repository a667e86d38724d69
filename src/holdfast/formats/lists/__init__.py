"""Existing task lists: read into a plan (`plan import`), and ticked where a task of it landed. Nothing else is written.

Pure over bytes. Finished tasks of a list are left out unless the user asks for them: a plan is remaining
work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from posixpath import dirname

import msgspec

from holdfast.core.plan import ListKind, TaskList
from holdfast.formats.lenient_json import BrokenFileError
from holdfast.formats.lists import backlog, checklist, spec_kit, task_master
from holdfast.formats.lists.model import ImportedPlan, ImportOptions
from holdfast.formats.lists.points import ListPoint, TickedText, ticked
from holdfast.formats.markdown import decoded

__all__ = ["ImportOptions", "ImportedPlan", "TickedText", "kind_of", "read_list", "tick"]


def kind_of(path: str, data: bytes) -> ListKind | None:
    """Return what kind of list a file is, or None. The more specific kinds are tried first."""
    if data.lstrip()[:1] == b"{":
        return ListKind.TASK_MASTER if task_master.is_task_master(path, data) else None
    if not path.lower().endswith((".md", ".markdown", ".txt", ".mdx")):
        return None
    if backlog.is_backlog(data):
        return ListKind.BACKLOG
    text = decoded(data)
    if spec_kit.is_spec_kit(text):
        return ListKind.SPEC_KIT
    return ListKind.CHECKLIST if checklist.boxes(text) else None


_READERS = {
    ListKind.SPEC_KIT: spec_kit.read,
    ListKind.TASK_MASTER: task_master.read,
    ListKind.BACKLOG: backlog.read,
    ListKind.CHECKLIST: checklist.read,
}


def read_list(
    kind: ListKind, path: str, documents: Mapping[str, bytes], options: ImportOptions
) -> ImportedPlan:
    """Return the plan of a list; `path` names it. Raises BrokenFileError if it has no open task.

    The plan remembers the file of the list, or the folder of its files.
    """
    imported = _READERS[kind](path, documents, options)
    first = next(iter(documents), path)
    place = first if kind is not ListKind.BACKLOG or len(documents) == 1 else dirname(first) or "."
    listed = TaskList(path=place, kind=kind, tag=imported.tag)
    return msgspec.structs.replace(imported, plan=msgspec.structs.replace(imported.plan, task_list=listed))


_POINTS: dict[ListKind, Callable[[bytes, str], tuple[str, list[ListPoint]]]] = {
    ListKind.SPEC_KIT: lambda data, _: checklist.points(data),
    ListKind.TASK_MASTER: task_master.points,
    ListKind.BACKLOG: lambda data, _: backlog.points(data),
    ListKind.CHECKLIST: lambda data, _: checklist.points(data),
}


def tick(kind: ListKind, tag: str, data: bytes, names: Sequence[str]) -> TickedText:
    """Return a file of a list with the points of these names ticked; only what says that they are open changes.

    Raises BrokenFileError if the file cannot be read as such a list now.
    """
    try:
        text, points = _POINTS[kind](data, tag)
    except (ValueError, RecursionError) as error:
        raise BrokenFileError(f"it is not a list of {kind} now ({error})") from error
    return ticked(text, points, names)
