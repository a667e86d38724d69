"""Writes a Holdfast run as the files of a spec, at their native places, state before derived files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec.structs import replace

from holdfast.core.plan import Task
from holdfast.core.status import RunStatus
from holdfast.formats import extra_fields
from holdfast.formats.auto_claude import layout
from holdfast.formats.auto_claude.documents import parse_documents
from holdfast.formats.auto_claude.layout import AutoClaudeFile
from holdfast.formats.auto_claude.memory import write_commits, write_history
from holdfast.formats.auto_claude.phases import phases_of
from holdfast.formats.auto_claude.plan_document import write_plan
from holdfast.formats.auto_claude.read import read
from holdfast.formats.exported_run import ExportedRun, NativeFile
from holdfast.formats.lenient_json import Node, iso_time, line, to_json
from holdfast.formats.model import SETTLED, Claim, ClaimedStatus, ForeignRun

_STATES = {
    RunStatus.PENDING: "idle",
    RunStatus.RUNNING: "building",
    RunStatus.COMPLETED: "complete",
    RunStatus.BLOCKED: "error",
    RunStatus.ABANDONED: "error",
}
_HEADING = "=== HOLDFAST PROGRESS ==="
_LINE_CHARS = 100


def write(view: ExportedRun, originals: Mapping[str, bytes]) -> list[NativeFile]:
    """Return the files of a run's spec. Adopted documents are edited; unknown keys stay."""
    parsed = parse_documents("", originals)
    document = parsed.plan
    claims = _claims(view, document)
    name = layout.native_name(view.name)
    folder = f"{layout.SPECS}/{name}"
    main = f"{folder}/{AutoClaudeFile.PLAN}"
    history, build = parsed.node(AutoClaudeFile.ATTEMPTS), parsed.node(AutoClaudeFile.COMMITS)
    state = {
        main: write_plan(view, document, claims),
        f"{folder}/{AutoClaudeFile.ATTEMPTS}": write_history(view, history, claims),
        f"{folder}/{AutoClaudeFile.COMMITS}": write_commits(view, build, claims),
        AutoClaudeFile.STATUS.value: _status(view, name, parsed.node(AutoClaudeFile.STATUS), claims),
    }
    _add_extra_fields(view, document, read(main, {path: to_json(node) for path, node in state.items()}))
    files = {path: to_json(node) for path, node in state.items()}
    if AutoClaudeFile.SPEC not in parsed.texts:  # An existing spec belongs to the user.
        files[f"{folder}/{AutoClaudeFile.SPEC}"] = _spec(view).encode()
    progress = _progress(view, claims, parsed.text(AutoClaudeFile.PROGRESS))
    files[f"{folder}/{AutoClaudeFile.PROGRESS}"] = progress.encode()
    return [NativeFile(path=path, content=content) for path, content in files.items()]


def _claims(view: ExportedRun, document: Node) -> dict[str, Claim]:
    """Return what the run says about each task, by the task's native name."""
    natives = {subtask.id: subtask.native for phase in phases_of(document) for subtask in phase.subtasks}
    return {
        task.id: replace(view.claim_of(task.id), native=natives.get(task.id, task.id))
        for _, task in view.plan.tasks()
    }


def _add_extra_fields(view: ExportedRun, document: Node, read_again: ForeignRun) -> None:
    """Add to the plan what its native fields do not express."""
    extra = extra_fields.differences(view, read_again.plan, read_again.claims)
    for phase in phases_of(document):
        phase.entry.update(extra_fields.carried(extra.stages.get(phase.id, {})))
        for subtask in phase.subtasks:
            subtask.entry.update(extra_fields.carried(extra.tasks.get(subtask.id, {})))
    # A plan without phases is itself the phase of all its subtasks: both share one object of extra fields.
    document |= extra_fields.carried(extra_fields.of(document) | extra.plan)


def _status(view: ExportedRun, name: str, status: Node, claims: Mapping[str, Claim]) -> Node:
    """Return the project's status file. Its other content stays if it was about the same spec."""
    base = status if status.get("spec") == name else {}
    counted = Counter(claim.standing for claim in claims.values())
    open_stages = (
        (number, stage)
        for number, stage in enumerate(view.plan.stages, 1)
        if any(claims[task.id].standing not in SETTLED for task in stage.tasks)
    )
    number, stage = next(open_stages, (0, None))
    return base | {
        "active": view.live,
        "spec": name,
        "state": _STATES.get(view.row.status, "paused"),
        "subtasks": {
            "completed": counted[ClaimedStatus.DONE] + counted[ClaimedStatus.SKIPPED],
            "total": len(claims),
            "in_progress": counted[ClaimedStatus.RUNNING],
            "failed": counted[ClaimedStatus.FAILED] + counted[ClaimedStatus.ABANDONED],
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


def _progress(view: ExportedRun, claims: Mapping[str, Claim], before: str) -> str:
    """Return the progress notes: the earlier notes, then the status of each phase and subtask."""
    lines = [_HEADING, "", f"Project: {view.plan.goal}", f"Updated: {iso_time(view.updated)}", ""]
    for stage in view.plan.stages:
        done = sum(claims[task.id].standing in SETTLED for task in stage.tasks)
        lines += [f"Phase progress: {stage.title or stage.id} {done}/{len(stage.tasks)} subtasks"]
        lines += [
            f"Subtask completed: {_line(task, claims[task.id].native, ' - ')}"
            for task in stage.tasks
            if claims[task.id].standing is ClaimedStatus.DONE
        ]
    left = [task for _, task in view.plan.tasks() if claims[task.id].standing not in SETTLED]
    if left:
        lines += ["", f"Next subtask: {_line(left[0], claims[left[0].id].native, ' - ')}"]
    return "\n".join([*([before.rstrip(), ""] if before.strip() else []), *lines, ""])


def _line(task: Task, name: str, between: str) -> str:
    return f"{name}{between}{line(task.title or task.prompt, _LINE_CHARS)}"


def _spec(view: ExportedRun) -> str:
    """Return the spec of a run that had none: Auto-Claude ignores a spec folder without one."""
    tasks = [task for _, task in view.plan.tasks()]
    criteria = [f"- {criterion}" for task in tasks for criterion in task.acceptance]
    sections = {
        "Overview": view.plan.goal,
        "Workflow Type": "feature",
        "Task Scope": "\n".join(f"- {_line(task, task.id, ': ')}" for task in tasks),
        "Success Criteria": "\n".join(criteria) or "Every subtask is completed.",
    }
    text = "\n\n".join(f"## {title}\n\n{words}" for title, words in sections.items())
    return f"# {line(view.plan.goal, _LINE_CHARS)}\n\n{text}\n"
