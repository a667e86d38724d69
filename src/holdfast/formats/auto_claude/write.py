"""From a run of ours to the files of a spec, at their native places, state before what is derived from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec.structs import replace

from holdfast.core.plan import Stage
from holdfast.core.status import RunStatus
from holdfast.formats import extra_fields
from holdfast.formats.auto_claude import layout
from holdfast.formats.auto_claude.documents import AutoClaudeDocuments, sort_documents
from holdfast.formats.auto_claude.layout import AutoClaudeFile
from holdfast.formats.auto_claude.memory import write_commits, write_history
from holdfast.formats.auto_claude.phases import phases_of
from holdfast.formats.auto_claude.plan_document import write_plan
from holdfast.formats.auto_claude.read import read
from holdfast.formats.lenient_json import Node, iso_time, line, to_json
from holdfast.formats.model import SETTLED, Claim, ClaimedStatus, ExportedRun, NativeFile
from holdfast.formats.run_to_claims import claim_of

_STATES = {
    RunStatus.PENDING: "idle",
    RunStatus.RUNNING: "building",
    RunStatus.COMPLETED: "complete",
    RunStatus.BLOCKED: "error",
    RunStatus.ABANDONED: "error",
}
_HEADING = "=== HOLDFAST PROGRESS ==="
_LINE_CHARS = 100


def write_status(view: ExportedRun, name: str, status: Node, claims: Mapping[str, Claim]) -> Node:
    """Return the status file of the project, with what else was in it if it was about the same spec."""
    base = status if status.get("spec") == name else {}
    counted = Counter(claim.standing for claim in claims.values())
    number, stage = _phase_at_hand(view, claims)
    failed = counted[ClaimedStatus.FAILED] + counted[ClaimedStatus.ABANDONED]
    return base | {
        "active": view.live,
        "spec": name,
        "state": _STATES.get(view.row.status, "paused"),
        "subtasks": {
            "completed": counted[ClaimedStatus.DONE] + counted[ClaimedStatus.SKIPPED],
            "total": len(claims),
            "in_progress": counted[ClaimedStatus.RUNNING],
            "failed": failed,
        },
        "phase": {
            "current": stage.title or stage.id if stage else "",
            "id": number,
            "total": len(view.plan.stages),
        },
        "workers": {
            "active": counted[ClaimedStatus.RUNNING] if view.live else 0,
            "max": view.plan.limits.jobs,
        },
        "session": {"number": view.row.epoch, "started_at": iso_time(view.started)},
        "last_update": iso_time(view.updated),
    }


def _phase_at_hand(view: ExportedRun, claims: Mapping[str, Claim]) -> tuple[int, Stage | None]:
    for number, stage in enumerate(view.plan.stages, 1):
        if any(claims[task.id].standing not in SETTLED for task in stage.tasks):
            return number, stage
    return 0, None


def progress_notes(view: ExportedRun, claims: Mapping[str, Claim], before: str) -> str:
    """Return the progress notes: what was noted before, then where each phase and subtask stands."""
    lines = [_HEADING, "", f"Project: {view.plan.goal}", f"Updated: {iso_time(view.updated)}", ""]
    for stage in view.plan.stages:
        done = sum(claims[task.id].standing in SETTLED for task in stage.tasks)
        lines += [f"Phase progress: {stage.title or stage.id} {done}/{len(stage.tasks)} subtasks"]
        lines += [
            f"Subtask completed: {claims[task.id].native} - {line(task.title or task.prompt, _LINE_CHARS)}"
            for task in stage.tasks
            if claims[task.id].standing is ClaimedStatus.DONE
        ]
    left = [task for _, task in view.plan.tasks() if claims[task.id].standing not in SETTLED]
    if left:
        lines += [
            "",
            f"Next subtask: {claims[left[0].id].native} - {line(left[0].title or left[0].prompt, _LINE_CHARS)}",
        ]
    return "\n".join([*([before.rstrip(), ""] if before.strip() else []), *lines, ""])


def spec_text(view: ExportedRun) -> str:
    """Return the spec of a run that had none: Auto-Claude passes over a spec folder without one."""
    tasks = "\n".join(
        f"- {task.id}: {line(task.title or task.prompt, _LINE_CHARS)}" for _, task in view.plan.tasks()
    )
    criteria = [f"- {line}" for _, task in view.plan.tasks() for line in task.acceptance]
    sections = {
        "Overview": view.plan.goal,
        "Workflow Type": "feature",
        "Task Scope": tasks,
        "Success Criteria": "\n".join(criteria) or "Every subtask is completed.",
    }
    told = "\n\n".join(f"## {title}\n\n{words}" for title, words in sections.items())
    return f"# {line(view.plan.goal, _LINE_CHARS)}\n\n{told}\n"


def write(view: ExportedRun, originals: Mapping[str, bytes]) -> list[NativeFile]:
    """Return the files of a run's spec. Adopted documents are edited; keys that nobody here knows stay."""
    papers = sort_documents("", originals)
    document = papers.plan if papers.plan is not None else {}
    claims = _claims(view, document)
    write_plan(view, document, claims)
    name = layout.native_name(view.name)
    folder = f"{layout.SPECS}/{name}"
    state = {
        f"{folder}/{layout.PLAN}": document,
        f"{folder}/{layout.ATTEMPTS}": write_history(
            view, papers.nodes.get(AutoClaudeFile.ATTEMPTS, {}), claims
        ),
        f"{folder}/{layout.COMMITS}": write_commits(
            view, papers.nodes.get(AutoClaudeFile.COMMITS, {}), claims
        ),
        layout.STATUS: write_status(view, name, papers.nodes.get(AutoClaudeFile.STATUS, {}), claims),
    }
    _add_notes(view, document, state, f"{folder}/{layout.PLAN}")
    files = [NativeFile(path=path, content=to_json(node)) for path, node in state.items()]
    return [*files, *_words(view, folder, papers, claims)]


def _claims(view: ExportedRun, document: Node) -> dict[str, Claim]:
    """Return what the run says of each task, under the name that the task has over there."""
    natives = {part.id: part.native for phase in phases_of(document) for part in phase.parts}
    return {
        task.id: replace(claim_of(view, task.id), native=natives.get(task.id, task.id))
        for _, task in view.plan.tasks()
    }


def _add_notes(view: ExportedRun, document: Node, state: Mapping[str, Node], main: str) -> None:
    """Read the files as anybody would, and note in the plan what would come out differently."""
    again = read(main, {path: to_json(node) for path, node in state.items()})
    about = extra_fields.differences(view, again.plan, again.claims)
    for phase in phases_of(document):
        phase.node.update(extra_fields.carried(about.stages.get(phase.id, {})))
        for part in phase.parts:
            part.node.update(extra_fields.carried(about.tasks.get(part.id, {})))
    # A plan without phases is itself the phase of all its parts: what is said of both stands in one note.
    document |= extra_fields.carried(extra_fields.of(document) | about.plan)


def _words(
    view: ExportedRun, folder: str, papers: AutoClaudeDocuments, claims: Mapping[str, Claim]
) -> list[NativeFile]:
    """Return the files that people read; a spec that exists is theirs and is not written."""
    told = progress_notes(view, claims, papers.texts.get(AutoClaudeFile.PROGRESS, ""))
    files = [NativeFile(path=f"{folder}/{layout.PROGRESS}", content=told.encode())]
    if AutoClaudeFile.SPEC not in papers.texts:
        files.insert(0, NativeFile(path=f"{folder}/{layout.SPEC}", content=spec_text(view).encode()))
    return files
