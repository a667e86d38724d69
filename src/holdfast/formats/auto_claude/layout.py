"""Where Auto-Claude keeps its files, and what each file is. Its paths are spelled only here."""

from __future__ import annotations

import glob
import re
from enum import StrEnum
from posixpath import basename, dirname

from holdfast.core.ids import slug
from holdfast.formats.lenient_json import Node, node, nodes, object_in

SPECS = ".auto-claude/specs"
ITEM_KEYS = ("subtasks", "chunks", "tasks", "items")
"""The keys for the subtasks of a phase, the current one first."""
_MARKS = {
    "feature", "workflow_type", "workflow_rationale", "planStatus", "final_acceptance", "qa_signoff", "spec_file",
    "qa_acceptance", "executionPhase", "xstateState", "recoveryNote", "spec_id", "spec_name",
}  # fmt: skip
_NUMBERED = re.compile(r"(\d+)-(.+)", re.DOTALL)


class AutoClaudeFile(StrEnum):
    """The files of a spec by their paths below its folder; the status file is in the project itself."""

    PLAN = "implementation_plan.json"
    ATTEMPTS = "memory/attempt_history.json"
    COMMITS = "memory/build_commits.json"
    PROGRESS = "build-progress.txt"
    SPEC = "spec.md"
    REQUIREMENTS = "requirements.json"
    METADATA = "task_metadata.json"
    REVIEW = "review_state.json"
    QA = "qa_report.md"
    STATUS = ".auto-claude-status"


_BY_NAME = {basename(file): file for file in AutoClaudeFile}
_NOT_STATE = (AutoClaudeFile.QA, AutoClaudeFile.PROGRESS)
PLACES = (
    f"{SPECS}/*/{AutoClaudeFile.PLAN}",
    f".auto-claude/worktrees/tasks/*/{SPECS}/*/{AutoClaudeFile.PLAN}",
    f".worktrees/*/{SPECS}/*/{AutoClaudeFile.PLAN}",
    f"**/{AutoClaudeFile.PLAN}",
)
TRACES = ("/.auto-claude*", "/.worktrees/")


def recognises(path: str, data: bytes) -> bool:
    """Tell whether a file belongs to a spec.

    A broken plan in the right place counts: its companions are usable.
    """
    named = kind_by_name(path)
    is_at_home = f"/{SPECS}/" in f"/{path}" and named is not None and named not in _NOT_STATE
    if is_at_home or named is AutoClaudeFile.PLAN:
        return True
    return named is not AutoClaudeFile.SPEC and kind_by_content(object_in(path, data)) is not None


def kind_by_name(path: str) -> AutoClaudeFile | None:
    """Return what a file is if its name alone says so."""
    return _BY_NAME.get(basename(path))


def kind_by_content(found: Node) -> AutoClaudeFile | None:
    """Return what a JSON object is, by its content alone."""
    if _is_history(found):
        return AutoClaudeFile.ATTEMPTS
    if isinstance(found.get("commits"), list) and "last_good_commit" in found:
        return AutoClaudeFile.COMMITS
    if {"spec", "state", "session"} <= found.keys():
        return AutoClaudeFile.STATUS
    if _is_plan(found):
        return AutoClaudeFile.PLAN
    if "approved" in found and found.keys() & {"spec_hash", "review_count"}:
        return AutoClaudeFile.REVIEW
    return AutoClaudeFile.METADATA if "sourceType" in found else None


def _is_history(found: Node) -> bool:
    if found.keys() & {"stuck_subtasks", "stuck_chunks"}:
        return True
    kept = [node(found.get(key)) for key in ITEM_KEYS]
    return any(isinstance(node(one).get("attempts"), list) for entries in kept for one in entries.values())


def _is_plan(found: Node) -> bool:
    """Recognise a plan by names that only Auto-Claude uses; other systems have phases and tasks, too."""
    if found.keys() & {"phases", "subtasks", "chunks"} and found.keys() & _MARKS:
        return True
    return any(phase.keys() & {"subtasks", "chunks"} for phase in nodes(found.get("phases")))


def folder_of(path: str) -> str:
    """Return the folder of a file's spec; empty for a loose file or the status file."""
    folder = dirname(path)
    return dirname(folder) if basename(folder) == "memory" else folder


def spec_name(path: str) -> str:
    """Return the name of the spec in a file's path; empty if there is none."""
    found = re.search(rf"(?:^|/){re.escape(SPECS)}/([^/]+)/", path)
    if found:
        return found[1]
    return basename(folder_of(path)) if kind_by_name(path) not in (None, AutoClaudeFile.STATUS) else ""


def companions(main: str) -> tuple[str, ...]:
    """Return glob patterns of the files that belong to a spec, in the project and in its worktrees."""
    name = spec_name(main)
    folders = [folder_of(main)]
    if name:
        own = f"{SPECS}/{name}"
        folders += [own, *(f"{worktree}/{own}" for worktree in worktrees(name))]
    files = [file for file in AutoClaudeFile if file is not AutoClaudeFile.STATUS]
    patterns = [f"{glob.escape(folder)}/{file}".lstrip("/") for folder in folders for file in files]
    return tuple(dict.fromkeys((*patterns, AutoClaudeFile.STATUS.value)))


def worktrees(name: str) -> tuple[str, ...]:
    """Return where the worktree of a spec may be, the newest layout first."""
    return (f".auto-claude/worktrees/tasks/{name}", f".worktrees/{name}", ".worktrees/auto-claude")


def branch_of(name: str) -> str:
    """Return the branch of a spec's worktree."""
    return f"auto-claude/{name}"


def staging_worktree(name: str) -> str:
    """Return the folder where people review the result of a run."""
    return worktrees(native_name(name))[0]


def worktree_of(path: str) -> str:
    """Return the worktree that contains a copy of a spec folder; empty if it is the project itself."""
    before, found, _ = f"/{path}".rpartition(f"/{SPECS}/")
    return before.lstrip("/") if found else ""


def native_name(name: str) -> str:
    """Return a spec folder's name: three digits and a slug, as Auto-Claude numbers its specs."""
    found = _NUMBERED.fullmatch(name)
    if found is None:
        return f"001-{slug(name)}"
    number, words = found.groups()
    return name if len(number) >= 3 and "/" not in words else f"{int(number[:9]):03d}-{slug(words)}"
