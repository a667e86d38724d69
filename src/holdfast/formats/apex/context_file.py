"""The wider family of APEX skills: a task's whole state is `00-context.md`, a Markdown file with a progress table.

It is read as the state file that it amounts to, and written back row by row, everything else left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from holdfast.formats import extra_fields, lenient_json, markdown
from holdfast.formats.apex import layout, phases
from holdfast.formats.apex.phases import phases_of
from holdfast.formats.apex.state import phase_tasks, read_state
from holdfast.formats.lenient_json import BrokenFileError, Node, iso_time
from holdfast.formats.model import SETTLED, ClaimedStatus, ExportedRun, ForeignRun, NativeFile
from holdfast.formats.run_to_claims import claim_of
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


def is_context(path: str, text: str) -> bool:
    """Tell whether a text is the context file of a task: by its title, or by its name and its table."""
    if not text.lstrip("# \n").casefold().startswith("apex task") and not path.endswith(layout.CONTEXT):
        return False
    return _progress(text) is not None


def read_context(main: str, documents: Mapping[str, bytes]) -> ForeignRun:
    """Return the run that a context file tells of."""
    document = _as_state(main, markdown.decoded(documents[main]))
    if not phases_of(document):
        hint = "Point adopt at the task's folder: what its phases wrote may be enough."
        raise BrokenFileError(f"{main}: there is no progress table in it", hint)
    return read_state(main, document, documents)


def write_context(view: ExportedRun, main: str, text: str) -> NativeFile:
    """Return the context file with the rows of those phases changed that stand otherwise now."""
    lines = text.split("\n")
    for part in phase_tasks(phases_of(_as_state(main, text))):
        standing = claim_of(view, part.id).standing
        if claimed_status(lenient_json.text(part.phase.entry.get("status"))) is standing:
            continue
        times = view.task_times.get(part.id)
        at = (times.ended or times.started) if times else None
        step = markdown.cells(lines[part.phase.entry[_LINE]])[0]
        lines[part.phase.entry[_LINE]] = markdown.as_row([step, _WORDS[standing], iso_time(at) or ""])
    return NativeFile(path=main, content="\n".join(lines).encode())


def _progress(text: str) -> markdown.Table | None:
    return next((table for table in markdown.tables(text) if table.column("step", "phase") == 0), None)


def _as_state(main: str, text: str) -> Node:
    """Return the state document that a context file amounts to."""
    titled = re.match(r"apex task:?\s*(\S+)", markdown.title(text), re.IGNORECASE)
    branch = _setting(text, "branch name")
    lists: Node = {"completed_phases": [], "current_phase": [], "pending_phases": []}
    for entry in _entries(text):
        lists[_list_for(entry)].append(entry)
    return {
        "task_id": layout.task_in(main) or (titled[1] if titled else ""),
        "task_description": markdown.value(text, "Task"),
        "recovery_info": {"git_branch": "" if branch.casefold() in ("n/a", "none", "-") else branch},
        **lists,
    }


def _entries(text: str) -> list[Node]:
    """Return a phase for each row of the progress table, all told the request and the criteria."""
    table = _progress(text)
    if table is None:
        return []
    status = table.column("status", "state")
    found = []
    for row in table.rows:
        step = _STEP.fullmatch(row.cells[0])
        number, name = (step[1], step[2]) if step else ("", row.cells[0])
        word = row.cells[status] if 0 <= status < len(row.cells) else ""
        number = re.sub(r"^0+(?=\d)", "", number)
        found.append(
            {
                "number": number,
                "name": name,
                "status": word,
                _LINE: row.line,
                extra_fields.KEY: _told(name, text),
            }
        )
    return found


def _told(name: str, text: str) -> Node:
    request = markdown.unfenced(markdown.section(text, "User Request", "Request"))
    prompt = phases.prompt_for(name) + (
        f"\n\nThe request, in the user's words:\n\n{request}" if request else ""
    )
    criteria = list(markdown.bullets(markdown.section(text, "Acceptance Criteria")))
    return {"tasks": [{"prompt": prompt, "acceptance": criteria}]}


def _list_for(entry: Node) -> str:
    standing = claimed_status(entry["status"])
    if standing in SETTLED:
        return "completed_phases"
    return "pending_phases" if standing is ClaimedStatus.PENDING else "current_phase"


def _setting(text: str, name: str) -> str:
    """Return what the table of settings says under a name."""
    rows = (row.cells for table in markdown.tables(text) for row in table.rows)
    return next((said[1] for said in rows if len(said) > 1 and said[0].casefold() == name), "")
