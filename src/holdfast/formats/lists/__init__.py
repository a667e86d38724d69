"""Existing task lists: read once into a plan (`plan import`), never written back.

Pure over bytes. Finished tasks of a list are left out unless the user asks for them: a plan is remaining
work.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from holdfast.formats.lists import backlog, checklist, spec_kit, task_master
from holdfast.formats.lists.model import ImportedPlan, ImportOptions
from holdfast.formats.markdown import decoded

__all__ = ["ImportOptions", "ImportedPlan", "ListKind", "kind_of", "read_list"]


class ListKind(StrEnum):
    """The lists that can be imported, by the names that `--from` takes."""

    SPEC_KIT = "spec-kit"
    TASK_MASTER = "task-master"
    BACKLOG = "backlog"
    CHECKLIST = "checklist"


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
    """Return the plan of a list; `path` names it. Raises BrokenFileError if it has no open task."""
    return _READERS[kind](path, documents, options)
