"""The wider family of APEX skills: a task's whole state is `00-context.md`, a Markdown file with a progress table.

It is read like a state file and written back row by row. Everything else in it stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from holdfast.formats import extra_fields, markdown
from holdfast.formats.apex import layout, phases
from holdfast.formats.apex.phases import phases_of
from holdfast.formats.apex.state import phase_tasks, read_state
from holdfast.formats.exported_run import ExportedRun, NativeFile
from holdfast.formats.lenient_json import BrokenFileError, Node, iso_time
from holdfast.formats.model import SETTLED, ClaimedStatus, ForeignRun
from holdfast.formats.status_words import claimed_status

_STEP = re.compile(r"`?(\d{1,3}[a-z]?)[-_. ]+([^`]+?)`?")
_LINE = "line"
_WORDS = {
    ClaimedStatus.PENDING: "⏸ Pending",
    ClaimedStatus.RUNNING: "⏳ In Progress",
    ClaimedStatus.FAILED: "✗ Failed",
    ClaimedStatus.BLOCKED: "✗ Blocked",
    ClaimedStatus.ABANDONED: "✗ Abandoned",
    ClaimedStatus.DONE: "✓ Complete",
    ClaimedStatus.SKIPPED: "⏭ Skip",
}


def is_context(path: str, data: bytes) -> bool:
    """Tell whether a file is the context file of a task: by its title, or by its name, and by its table."""
    content = markdown.decoded(data)
    if not content.lstrip("# \n").casefold().startswith("apex task") and not path.endswith(layout.CONTEXT):
        return False
    return _progress(content) is not None


def read_context(main: str, documents: Mapping[str, bytes]) -> ForeignRun:
    """Return the run that a context file describes."""
    document = _as_state(main, markdown.decoded(documents[main]))
    if not phases_of(document):
        hint = "Point adopt at the task's folder: what its phases wrote may be enough."
        raise BrokenFileError(f"{main}: there is no progress table in it", hint)
    return read_state(main, document, documents)


def write_context(view: ExportedRun, main: str, data: bytes) -> NativeFile:
    """Return the context file with new rows for the phases whose status has changed."""
    content = markdown.decoded(data)
    lines = content.split("\n")
    for task in phase_tasks(phases_of(_as_state(main, content))):
        standing = view.claim_of(task.id).standing
        if claimed_status(task.phase.status) is standing:
            continue
        times = view.times_of(task.id)
        line = task.phase.entry[_LINE]
        step = markdown.cells(lines[line])[0]
        lines[line] = markdown.as_row([step, _WORDS[standing], iso_time(times.ended or times.started) or ""])
    return NativeFile(path=main, content="\n".join(lines).encode())


def _progress(content: str) -> markdown.Table | None:
    return next((table for table in markdown.tables(content) if table.column("step", "phase") == 0), None)


def _as_state(main: str, content: str) -> Node:
    """Return a context file as a state document."""
    titled = re.match(r"apex task:?\s*(\S+)", markdown.title(content), re.IGNORECASE)
    settings = (row.cells for table in markdown.tables(content) for row in table.rows if len(row.cells) > 1)
    branch = next((cells[1] for cells in settings if cells[0].casefold() == "branch name"), "")
    lists: dict[str, list[Node]] = {key: [] for key in phases.LISTS}
    for entry in _entries(content):
        standing = claimed_status(entry["status"])
        is_pending = standing is ClaimedStatus.PENDING
        place = "pending_phases" if is_pending else "current_phase"
        lists["completed_phases" if standing in SETTLED else place].append(entry)
    return {
        "task_id": layout.task_in(main) or (titled[1] if titled else ""),
        "task_description": markdown.value(content, "Task"),
        "recovery_info": {"git_branch": "" if branch.casefold() in ("n/a", "none", "-") else branch},
        **lists,
    }


def _entries(content: str) -> Iterator[Node]:
    """Yield a phase for each row of the progress table, with the request and the criteria as extra fields."""
    table = _progress(content)
    if table is None:
        return
    for row, (cell, word) in zip(
        table.rows, table.select(("step", "phase"), ("status", "state")), strict=True
    ):
        step = _STEP.fullmatch(cell)
        number, name = (step[1], step[2]) if step else ("", cell)
        number = re.sub(r"^0+(?=\d)", "", number)
        extra = {"tasks": [_task_fields(name, content)]}
        yield {"number": number, "name": name, "status": word, _LINE: row.line, extra_fields.KEY: extra}


def _task_fields(name: str, content: str) -> Node:
    prompt = phases.prompt_for(name)
    if request := markdown.unfenced(markdown.section(content, "User Request", "Request")):
        prompt += f"\n\nThe request, in the user's words:\n\n{request}"
    criteria = markdown.bullets(markdown.section(content, "Acceptance Criteria"))
    return {"prompt": prompt, "acceptance": list(criteria)}
